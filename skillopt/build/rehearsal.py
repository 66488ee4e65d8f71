"""Sends the optimizer one question of the kind that a run asks, for `skillopt doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from skillopt.build.policies import limits, proposer_of
from skillopt.config.schema import Config
from skillopt.core.chat import Message, Model
from skillopt.core.events import Event, Signal
from skillopt.core.journal import EventSink
from skillopt.core.memory import Memory
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import SkilloptError
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library
from skillopt.store.proposers import ASKS_NO_MODEL
from skillopt.store.unrecorded import NullLog

_SKILL = Skill.parse("# Dates\n\n- Read the note and answer the question.\n")
_CASES = (
    ("The lamp should come on May 3, 2026.", "May 3, 2026", "2026-05-03"),
    ("We need the desk by 17 August 2027.", "17 August 2027", "2027-08-17"),
    ("The party is on the 9th of January 2026.", "the 9th of January", "2026-01-09"),
)


@dataclass(frozen=True, slots=True)
class OptimizerTrial:
    """What came of the question."""

    asked: str
    """Which proposers asked it."""
    outcome: Literal["usable", "nothing proposed", "unusable", "no answer", "not asked"]
    told: str = ""
    """The first proposal, or what was wrong."""


async def try_optimizer(config: Config, model: Model, prompts: Library) -> OptimizerTrial:
    """Put three plain failures to the configured proposers, and judge the reply as a run would."""
    names = [name for name in config.gradient.proposer if name not in ASKS_NO_MODEL]
    asked = " and ".join(names)
    if not names:
        return OptimizerTrial(asked, "not asked")
    asker = Asker(model, prompts, EventSink(NullLog(), _unseen), limits(config.gradient))
    try:
        findings = await proposer_of(config, asker)(_SKILL, [_Attempts()], Memory(), budget=4)
    except SkilloptError as error:
        return OptimizerTrial(asked, "no answer", str(error))
    own = [
        proposal
        for finding in findings
        for proposal in finding.proposals
        if proposal.by not in ASKS_NO_MODEL
    ]
    if own:
        return OptimizerTrial(asked, "usable", str(own[0].edit))
    problems = [each.problem for each in findings if each.problem]
    if problems:
        return OptimizerTrial(asked, "unusable", problems[0])
    return OptimizerTrial(asked, "nothing proposed")


class _Attempts:
    """Attempts that can be read more than once, as those of a run can."""

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for number, (note, said, right) in enumerate(_CASES, start=1):
            asked = f"Note: {note}\nWhich date is meant?"
            yield Rollout(
                task=f"example-{number}",
                kind="default",
                skill=_SKILL.digest,
                outcome=Score(0.0, 0.0, f"wrong answer: expected '{right}', got '{said}'"),
                trajectory=Trajectory((Message("user", asked), Message("assistant", said)), said),
            )


def _unseen(event: Event | Signal) -> None:
    """Nobody watches."""
