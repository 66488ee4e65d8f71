"""Real weights, where they were fetched: `skillopt model fetch NAME`."""

from __future__ import annotations

import os
import random

import pytest
from support_gguf import label_scores

from skillopt.aio import map_all
from skillopt.core.chat import Message, Request
from skillopt.model.http import Http
from skillopt.model.local import Local
from skillopt.model.provider import ModelSettings
from skillopt.model.weights import CATALOGUE, Folder, Weights, default_root
from skillopt.testing.contracts.models import check_model

pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
pytestmark = pytest.mark.weights

ROOT = default_root(os.environ.get)
SKILL = (
    "You route tickets. Answer with the code alone: hardware is HW1, passwords are PW2, parcels "
    "are PC3, invoices are IN4, holidays are HO5. When nothing fits, answer ZZ9."
)
TICKETS = (
    "The printer on the third floor is broken.",
    "The printer says that the toner is empty, and nobody knows where to get another one.",
    "I cannot log in.",
    "Where is my order?",
)


def present(weights: Weights) -> Weights:
    if not Folder(ROOT).has(weights):
        pytest.skip(f"not on this machine: skillopt model fetch {weights.name}")
    return weights


def connect(weights: Weights, **given: object) -> Local:
    extra = {"folder": ROOT, "context": 1024, **given}
    settings = ModelSettings(role="target", name=weights.name, max_tokens=12, extra=extra)
    return Local.create(settings, Http())


def ask(ticket: str, skill: str = SKILL) -> Request:
    return Request(stage="t", messages=(Message("system", skill), Message("user", ticket)))


@pytest.fixture(params=CATALOGUE, ids=lambda weights: weights.name)
def weights(request: pytest.FixtureRequest) -> Weights:
    return present(request.param)


async def test_real_weights_keep_the_contract(weights: Weights) -> None:
    await check_model(connect(weights))


async def test_a_text_depends_on_the_request_alone(weights: Weights) -> None:
    requests = [ask(each, skill) for skill in (SKILL, SKILL + " Be quick.") for each in TICKETS]
    fresh = connect(weights, slots=1)
    # Each skill is forgotten before it is asked for again: nothing is reused.
    alone = [(await fresh.complete(each)).text for each in _alternating(requests)]
    model = connect(weights, slots=4)
    order = random.Random(0).sample(range(len(requests)), len(requests))
    crowd = await map_all(model.complete, [requests[index] for index in order])
    told = dict(zip(order, (reply.text for reply in crowd), strict=True))
    assert [told[requests.index(each)] for each in _alternating(requests)] == alone


async def test_it_does_what_a_skill_says(weights: Weights) -> None:
    scores = await label_scores(connect(weights), ask(TICKETS[0]).messages, ("HW1", "HO5", "IN4"))
    assert max(scores, key=lambda label: scores[label]) == "HW1"


def _alternating(requests: list[Request]) -> list[Request]:
    half = len(requests) // 2
    return [each for pair in zip(requests[:half], requests[half:], strict=True) for each in pair]
