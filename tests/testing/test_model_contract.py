from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest

from skillopt.core.chat import Model, Reply, Request, Usage
from skillopt.model.scripted import Scripted
from skillopt.testing.contracts import ContractBroken
from skillopt.testing.contracts.models import check_model


@dataclass
class Restless:
    """A fingerprint that never stays the same."""

    counter: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def fingerprint(self) -> str:
        return str(next(self.counter))

    async def complete(self, request: Request) -> Reply:
        return Reply(text=request.stage)


def usage(used: Usage) -> Model:
    return Scripted(lambda _: Reply(text="", usage=used))


@pytest.mark.parametrize(
    ("model", "broken"),
    [
        (Scripted(lambda _: "OK", " "), "blank"),
        (Restless(), "changes"),
        (usage(Usage(1, -1)), r"usage\.input is below zero"),
        (usage(Usage(1, 1, 1, 2)), "more tokens came from the cache"),
        (Scripted(lambda _: "OK", "with sk-secret-1"), "fingerprint shows the key|repr shows"),
    ],
)
async def test_a_model_that_breaks_the_contract_is_told_how(model: Model, broken: str) -> None:
    with pytest.raises(ContractBroken, match=broken):
        await check_model(model, secret="sk-secret-1")


async def test_a_model_that_keeps_the_contract_passes() -> None:
    await check_model(Scripted(lambda _: "OK"), secret="sk-secret-1")
