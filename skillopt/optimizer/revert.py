"""Proposer `revert`: after a step that changed nothing, looks for a rule that does harm."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

from skillopt.aio import map_all
from skillopt.core.edits import Delete
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Proposal
from skillopt.core.rollout import Rollout, Score
from skillopt.core.rules import Rule, rules_in, without
from skillopt.core.seeds import shuffled
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.optimizer.parts import TriesSkills

TASKS = 8
"""Failed tasks that each rule is left out on."""
LEAST = 2
"""Tasks that must pass without a rule before it is suspected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """Tries failed tasks without each rule of the skill; asks no model.

    A rule that spoils answers spoils them from the step on in which it entered, so no later step
    sees a difference. It shows only when it is left out. It is proposed for deletion if more tasks
    pass without it than without any other rule: what passes without each of them is noise.
    """

    attempt: TriesSkills
    sink: EventSink
    seed: int = 42

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """At most one finding; none while steps still improve the skill."""
        rules = rules_in(skill)
        if not memory.fruitless or len(rules) < LEAST:
            return ()
        failed = [
            rollout.task
            for batch in batches
            async for rollout in batch
            if isinstance(rollout.outcome, Score) and not rollout.outcome.passed
        ]
        tasks = shuffled(sorted(failed), self.seed)[:TASKS]
        with self.sink.phase("revert", len(rules)) as progress:

            async def repaired(rule: Rule) -> tuple[str, ...]:
                rollouts = await self.attempt(without(skill, [rule]), tasks)
                progress.tick()
                return tuple(
                    rollout.task
                    for rollout in rollouts
                    if isinstance(rollout.outcome, Score) and rollout.outcome.passed
                )

            repairs = await map_all(repaired, rules)
        most = max(map(len, repairs))
        suspects = [
            (rule, passed)
            for rule, passed in zip(rules, repairs, strict=True)
            if len(passed) == most
        ]
        if most < LEAST or len(suspects) > 1:
            return ()
        ((rule, passed),) = suspects
        why = f"without this rule {most} of {len(tasks)} failed tasks pass"
        deletion = Proposal(Delete(rule.text, file=rule.file), "failure", passed, why, by="revert")
        return (Finding(source="failure", batch=0, number=0, tasks=passed, proposals=(deletion,)),)
