"""The plain chat harness: one request, one reply."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.chat import Message, Model, Request
from skillopt.core.ports import Episode, TakesEmpty
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill


@dataclass(frozen=True, slots=True)
class Chat:
    """Puts instructions and skill in the system message, the brief in the user message.

    Whatever text comes back is the answer, even if it is cut at the token limit or a refusal. No
    text at all is an answer only if the episode says so.
    """

    model: Model
    max_tokens: int | None = None
    """None: what the model's settings say."""

    @property
    def fingerprint(self) -> str:
        """The layout's version, the limit if there is one, and the model."""
        limit = "" if self.max_tokens is None else f"max_tokens={self.max_tokens}/"
        return f"chat/1/{limit}{self.model.fingerprint}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Ask once."""
        asked = _messages(episode, skill)
        reply = await self.model.complete(
            Request(
                stage="rollout",
                messages=asked,
                max_tokens=self.max_tokens,
                replicate=replicate,
                empty_ok=isinstance(episode, TakesEmpty) and episode.empty_ok,
            )
        )
        messages = (*asked, Message("assistant", reply.text))
        return Trajectory(messages, answer=reply.text, usage=reply.usage)


def _messages(episode: Episode, skill: Skill) -> tuple[Message, ...]:
    """What all tasks share comes first, so that a provider's prefix cache can hold it."""
    document = skill.render()
    shared = [episode.instructions] if episode.instructions.strip() else []
    if document.strip():
        shared.append(f"## Skill\n\n{document}")
    system = (Message("system", "\n\n".join(shared)),) if shared else ()
    return (*system, Message("user", episode.brief))
