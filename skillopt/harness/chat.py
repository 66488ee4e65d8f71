"""The chat harness: one request and one reply, or a loop of tools or of turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from skillopt.core.abilities import limits_of, responder_of
from skillopt.core.chat import Model
from skillopt.core.episode import EpisodeNeed
from skillopt.core.ports import Episode
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.harness.base import HarnessContext
from skillopt.harness.loop import ToolLoop, first_request, tools_of_episode


@dataclass(frozen=True, slots=True)
class Chat:
    """Puts instructions and skill in the system message, brief and images in the user message.

    Whatever text comes back is the answer, even if it is cut at the token limit or a refusal. No
    text at all is an answer only if the episode says so. As long as the model calls tools of the
    episode, it gets their results and is asked again, within the limits of the episode; the last
    turn allows no calls. An episode that takes turns is told every other reply, and the model what
    it says to that.
    """

    serves: ClassVar[frozenset[EpisodeNeed]] = frozenset(("images", "tools", "turns"))

    model: Model
    max_tokens: int | None = None
    """None: what the model's settings say."""
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def create(cls, context: HarnessContext[object]) -> Chat:
        return cls(context.model)

    @property
    def fingerprint(self) -> str:
        """The layout's version, the limit if there is one, and the model."""
        limit = "" if self.max_tokens is None else f"max_tokens={self.max_tokens}/"
        return f"chat/1/{limit}{self.model.fingerprint}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Ask once, and again after each turn with calls of tools or an answer of the episode."""
        request = first_request(episode, skill, replicate=replicate, max_tokens=self.max_tokens)
        loop = ToolLoop(
            model=self.model,
            limits=limits_of(episode),
            respond=responder_of(episode),
            clock=self.clock,
        )
        return await loop.run(request, tools_of_episode(episode))
