from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace

import pytest
from support import World

from skillopt.core.edits import Append
from skillopt.core.facts import Stepped
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Proposal
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.core.state import replay
from skillopt.engine.loop import train
from skillopt.optimizer.merging import Portfolio, Union
from skillopt.optimizer.pipeline import Pipeline

SKILL = Skill.parse("Body.\n")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A proposer with one idea, or none."""

    name: str
    rule: str = ""

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        tasks = [each.task for batch in batches async for each in batch]
        idea = Proposal(Append(f"- {self.rule}"), "failure", tuple(tasks), by=self.name)
        proposals = (idea,) if self.rule and self.rule not in skill.body else ()
        return (
            Finding(
                source="failure",
                batch=0,
                number=0,
                tasks=tuple(tasks),
                reasoning=self.name,
                proposals=proposals,
            ),
        )


@pytest.mark.parametrize(
    ("fruitless", "turn"), [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"), (6, "a")]
)
async def test_after_fruitless_steps_it_is_the_next_proposers_turn(
    fruitless: int, turn: str
) -> None:
    portfolio = Portfolio(tuple(map(Fixed, "abc")), 2)
    (found,) = await portfolio(SKILL, [], Memory(fruitless=fruitless), budget=1)
    assert found.reasoning == turn


async def test_a_rejection_or_a_skip_passes_the_turn_on_and_a_success_gives_it_back() -> None:
    """Two epochs of two steps; the end of an epoch does not give the turn back."""
    world = World()
    portfolio = Portfolio((Fixed("dull", "Guess."), Fixed("mute"), Fixed("wise", "carefully")), 1)
    run = world.run()
    assert isinstance(run.optimizer, Pipeline)
    optimizer = replace(run.optimizer, reflect=portfolio, merge=Union())
    state = await train(replace(run, optimizer=optimizer), SKILL)
    steps = [each for each in world.record.events() if isinstance(each, Stepped)]
    assert [(each.draft.findings[0].reasoning, each.action) for each in steps] == [
        ("dull", "reject"),
        ("mute", "skip_no_patches"),
        ("wise", "accept_new_best"),
        ("dull", "skip_no_patches"),  # what it says again was rejected before
    ]
    assert state.memory.fruitless == 1
    assert replay(world.record.events()) == state
