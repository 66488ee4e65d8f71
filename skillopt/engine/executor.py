"""Makes attempts in this process: opens the task, runs the agent and scores what it did."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from skillopt.aio import within
from skillopt.core.abilities import check_served, details_of, needs_of
from skillopt.core.intake import is_sound
from skillopt.core.ports import Environment, Episode, Harness
from skillopt.core.rollout import Outcome, Rollout, RolloutSpec, Score, Trajectory, failure_of
from skillopt.errors import EnvironmentFault, HarnessError, RolloutError, attributed_to


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """An `Executor` for the environment and the harness of this process."""

    environment: Environment
    harness: Harness
    score_timeout: float | None = None
    """Seconds after which a scorer is given up; None: it is waited for."""

    async def run(self, spec: RolloutSpec) -> Rollout:
        """Make and score one attempt; one that fails keeps what the agent has done until then."""
        named = f"task {spec.task.id!r}"
        trajectory = None
        outcome: Outcome
        details: Mapping[str, object] = {}
        try:
            with attributed_to(EnvironmentFault, named):
                async with self.environment.open(spec.task) as episode:
                    check_served(self.environment.name, needs_of(episode), self.harness)
                    with attributed_to(HarnessError, named):
                        trajectory = await self.harness.run(
                            episode, spec.skill, replicate=spec.replicate
                        )
                    if fault := _fault(trajectory):
                        trajectory = None
                        raise HarnessError(
                            f"{named}: the harness {type(self.harness).__name__} {fault}"
                        )
                    outcome = await self._score(episode, trajectory, named)
                    details = details_of(episode, trajectory)
        except RolloutError as error:
            outcome = failure_of(error)
        return spec.rollout(outcome, trajectory, details)

    async def _score(self, episode: Episode, trajectory: Trajectory, named: str) -> Score:
        async def judged() -> Score:
            # What ends a program must not leave a task of its own, or it ends ours.
            with attributed_to(EnvironmentFault, named):
                score = cast("object", await episode.score(trajectory))
            if not isinstance(score, Score):
                found = reprlib.repr(score)
                raise EnvironmentFault(f"{named}: the scorer returned {found}, which is no Score")
            return score

        try:
            return await within(self.score_timeout, judged())
        except TimeoutError:
            raise EnvironmentFault(
                f"{named}: the scorer did not finish within {self.score_timeout:g} s "
                "(env.exec_timeout)"
            ) from None


def _fault(trajectory: object) -> str:
    """What is wrong with what a harness returned; empty if it can be scored and kept."""
    if not isinstance(trajectory, Trajectory):
        return f"returned {reprlib.repr(trajectory)}, which is no Trajectory"
    answer = cast("object", trajectory.answer)
    if not isinstance(answer, str):
        return f"returned the answer {reprlib.repr(answer)}, which is no text"
    if not is_sound(trajectory.usage):
        return f"reports a usage that cannot be: {trajectory.usage}"
    return ""
