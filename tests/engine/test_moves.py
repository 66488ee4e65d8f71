"""What a step comes to that brings nothing before the gate, and what an epoch compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from support import World, pupil

from skillopt.core.chat import Request
from skillopt.core.edits import Append
from skillopt.core.events import Event
from skillopt.core.facts import Compared, EpochClosed, Stepped
from skillopt.core.memory import Memory
from skillopt.core.proposal import (
    Candidate,
    Draft,
    Finding,
    Proposal,
    ProposalSet,
    Rewritten,
    Size,
)
from skillopt.core.rollout import Batches, Score
from skillopt.core.skill import Skill
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.errors import ModelError
from skillopt.gates.compared import Always, Metric
from skillopt.model.scripted import Scripted

START = Skill.parse("You add numbers.\n")
CAREFUL = Skill.parse("You add numbers carefully.\n")
PROPOSED = ProposalSet((Proposal(Append("- Add carefully."), "failure"),))
NOTED = (Finding(source="failure", batch=0, number=1, tasks=("t",), notes=("Mind the sum.",)),)


@dataclass(frozen=True)
class Drafting:
    """An optimizer that has these ideas, one after the other."""

    drafts: Iterator[Draft]

    async def propose(
        self, skill: Skill, rollouts: Batches, memory: Memory, *, budget: int | None
    ) -> Draft:
        return next(self.drafts)


@dataclass(frozen=True)
class Cutting:
    """A shortener that cannot do it."""

    limit: int = 4

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        return skill, "too hard"


async def events(world: World, *drafts: Draft, cutting: bool = False) -> Sequence[Event]:
    run = world.run(shortener=Cutting() if cutting else None)
    run = replace(run, optimizer=Drafting(iter(drafts)))
    await train(run, START)
    return list(run.sink.record.events())


def drafted(candidate: Candidate, **more: object) -> Draft:
    return replace(Draft(budget=2, merged=PROPOSED, candidates=(candidate,)), **more)


@pytest.mark.parametrize(
    ("draft", "action"),
    [
        (Draft(budget=2), "skip_no_patches"),
        (Draft(budget=2, findings=NOTED), "skip_no_change"),
        (drafted(Candidate()), "skip_no_change"),
        (drafted(Candidate(skill=START)), "skip_no_change"),
        (drafted(Candidate(rewritten=Rewritten(problem="none"))), "skip_no_rewrite"),
        (drafted(Candidate(rewritten=Rewritten(), skill=START)), "skip_no_change"),
    ],
)
async def test_a_step_without_a_candidate_tells_what_was_missing(draft: Draft, action: str) -> None:
    shape = PlanSettings(epochs=1, batch=4, seed=0)
    (step,) = [
        each for each in await events(World(shape=shape), draft) if isinstance(each, Stepped)
    ]
    assert (step.action, step.decision, step.draft) == (action, None, draft)


async def test_a_candidate_that_is_too_long_is_not_tried() -> None:
    shape = PlanSettings(epochs=1, batch=4, seed=0)
    found = await events(World(shape=shape), drafted(Candidate(skill=CAREFUL)), cutting=True)
    (step,) = [each for each in found if isinstance(each, Stepped)]
    assert (step.action, step.decision) == ("skip_too_long", None)
    assert step.draft.leading.size == Size(
        before=5, drafted=7, after=7, limit=4, problem="too hard"
    )


async def test_an_epoch_compares_tasks_under_both_skills_where_both_have_a_score() -> None:
    def shaky(request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        if question.startswith("1 ") or ("carefully" in skill and question.startswith("2 ")):
            raise ModelError("down")
        return pupil(request)

    world = World(
        target=Scripted(shaky),
        shape=PlanSettings(epochs=2, batch=4, sample=4, last_sample=4, seed=0),
        gate=Always(Metric()),
        max_failed=1.0,
        final_test=False,
    )
    found = await events(world, Draft(budget=2), drafted(Candidate(skill=CAREFUL)))
    _, closed = [each for each in found if isinstance(each, EpochClosed)]
    compared = {pair.task: pair for pair in closed.pairs}
    none, full = Score(0, 0), Score(1, 1)
    expected: Mapping[str, Compared] = {
        "train-0": Compared("train-0", "improved", none, full, shown=True),
        "train-1": Compared("train-1", None, None, None, shown=False),
        "train-2": Compared("train-2", None, none, None, shown=False),
        "train-3": Compared("train-3", "improved", none, full, shown=True),
    }
    assert compared == expected
