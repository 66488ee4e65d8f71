"""A harness outside of the package that serves text only."""

from __future__ import annotations

from skillopt.core.ports import Episode
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.harness.base import HarnessContext


class Deaf:
    fingerprint = "deaf"

    @classmethod
    def create(cls, context: HarnessContext[object]) -> Deaf:
        del context
        return cls()

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        del episode, skill, replicate
        return Trajectory((), "")
