"""Deep reflection: examines a few attempts before the analysts see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Literal

from pydantic import BeforeValidator

from skillopt.aio import map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.ports import TargetProbe
from skillopt.core.proposal import Probe, Turn
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.seeds import shuffled
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import Reasoned, one_word
from skillopt.optimizer.sections import attempt_sections, skill_section, turns_section
from skillopt.prompts.ask import Asker, PromptQuestion


class ProbeMove(Reasoned):
    probe: Annotated[Literal["ask", "rerun", "conclude"], BeforeValidator(one_word)]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """Asks the target why it acted so, or has it try again, until the optimizer knows enough."""

    asker: Asker
    target_probe: TargetProbe
    failures: int = 4
    successes: int = 2
    turns: int = 3
    """Questions and re-runs per attempt; the conclusion comes on top."""
    seed: int = 42

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        probes = min(size.tasks, self.failures + self.successes)
        # Each turn may be told back once, and the conclusion comes on top.
        most = probes * (2 * self.turns + 1)
        yield PartCost("probes", Range(0, most, most / 3), "probe", 2 * size.attempt_tokens)
        yield PartCost("probed", Range(0, probes * self.turns))

    async def __call__(self, skill: Skill, batches: Batches) -> Mapping[str, Probe]:
        """Probes of the attempts that were chosen, by task; all at the same time."""
        rollouts = [rollout for batch in batches async for rollout in batch]
        chosen = [
            *spread(
                [rollout for rollout in rollouts if passed(rollout) is False],
                self.failures,
                self.seed,
            ),
            *spread(
                [rollout for rollout in rollouts if passed(rollout)], self.successes, self.seed
            ),
        ]
        with self.asker.sink.phase("deep_reflect", len(chosen)) as progress:

            async def look_into(rollout: Rollout) -> Probe:
                probe = await self._look_into(skill, rollout)
                progress.tick("failed" if probe.problem else "done")
                return probe

            probes = await map_all(look_into, chosen)
        return {probe.task: probe for probe in probes}

    async def _look_into(self, skill: Skill, rollout: Rollout) -> Probe:
        turns: list[Turn] = []
        try:
            for left in range(self.turns, -1, -1):
                move = await self._ask(skill, rollout, turns, left)
                if move.probe == "conclude":
                    return Probe(rollout.task, tuple(turns), move.text.strip())
                turns.append(await self._carry_out(skill, rollout, move))
        except Unusable as error:
            return Probe(rollout.task, tuple(turns), problem=str(error))
        return Probe(rollout.task, tuple(turns))

    async def _ask(
        self, skill: Skill, rollout: Rollout, turns: Sequence[Turn], left: int
    ) -> ProbeMove:
        def complaint(move: ProbeMove) -> str:
            if not move.text.strip():
                return '"text" is empty.'
            if move.probe == "conclude":
                return ""
            if not left:
                return 'no turns are left; "probe" must be "conclude".'
            leaked = self.target_probe.leaked_reference(rollout, move.text)
            return f"{leaked!r} is not for the agent's eyes; say it without." if leaked else ""

        sections = [
            skill_section(skill),
            *attempt_sections([rollout], self.asker.digest),
            turns_section(turns),
            f"<turns_left>{left}</turns_left>",
        ]
        return await self.asker.ask(
            PromptQuestion(
                stage="deep_reflect",
                prompt="probe",
                sections=sections,
                shape=ProbeMove,
                check=complaint,
            )
        )

    async def _carry_out(self, skill: Skill, rollout: Rollout, move: ProbeMove) -> Turn:
        if move.probe == "ask":
            came = await self.target_probe.explain(rollout, skill, move.text)
            return Turn("ask", move.text, came, why=move.reasoning)
        again = await self.target_probe.retry(rollout, skill, move.text)
        answer = again.trajectory.answer if again.trajectory else ""
        score = again.outcome if isinstance(again.outcome, Score) else None
        return Turn("rerun", move.text, answer, score=score, why=move.reasoning)


def passed(rollout: Rollout) -> bool | None:
    """Whether an attempt got full marks; None when it has no score."""
    return rollout.outcome.passed if isinstance(rollout.outcome, Score) else None


def spread(rollouts: Sequence[Rollout], count: int, seed: int) -> list[Rollout]:
    """Some attempts: one of each pattern in turn, the most frequent pattern first."""
    piles: dict[tuple[str, str], list[Rollout]] = {}
    for rollout in shuffled(rollouts, seed):
        piles.setdefault(_pattern(rollout), []).append(rollout)
    rounds = zip_longest(*sorted(piles.values(), key=len, reverse=True))
    return [rollout for one_each in rounds for rollout in one_each if rollout is not None][:count]


def _pattern(rollout: Rollout) -> tuple[str, str]:
    feedback = rollout.outcome.feedback if isinstance(rollout.outcome, Score) else ""
    return rollout.kind, feedback.partition(":")[0].strip()
