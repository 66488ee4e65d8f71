"""Asks the target about an attempt, or lets it try again, for deep reflection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import cast

from skillopt.core.chat import Message, Model, Request
from skillopt.core.edits import Append, apply_edits
from skillopt.core.rollout import Failure, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import ModelError, Unusable

_QUOTED = re.compile(r"(['\"])(.+?)\1")
_PIECE = re.compile(r"[|;\n]")
_TELLING = 3
"""Characters from which private data is kept back even if no grader has spoken of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTargetProbe:
    """Calls and attempts like all others: kept, and free when they are asked for again.

    Whoever asks may have seen the reference; whoever answers must not. So a text that holds private
    data of the task which the target has not seen is refused.
    """

    runner: RolloutRunner
    target: Model
    tasks: Mapping[str, Task]
    speculation: Prefetch | None = None
    """For attempts that may not be needed; None: none is made by speculation."""

    async def try_out(
        self, skill: Skill, tasks: Sequence[str], replicate: int = 0
    ) -> list[Rollout]:
        """Attempts at training tasks with another skill."""
        return await self.runner.try_out(skill, [self.tasks[task] for task in tasks], replicate)

    def ahead(self, skill: Skill, tasks: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """For the length of a block, idle workers begin attempts that may follow it."""
        if self.speculation is None:
            return nullcontext()
        specs = self.runner.specs(skill, [self.tasks[task] for task in tasks])
        return self.speculation.of(self.runner.sink.move, specs, told=False)

    def leaked_reference(self, rollout: Rollout, text: str) -> str:
        """What the text would tell the target of the reference; empty when nothing."""
        said = _plain(text)
        return next(
            (private for private in self._private(rollout) if _holds(said, _plain(private))), ""
        )

    async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
        """What the target says about its own attempt, which it has before its eyes."""
        self._refuse(rollout, question)
        asked = (*_recalled(rollout, skill), Message("user", question))
        try:
            async with self.runner.worker_pool.place():
                reply = await self.target.complete(Request(stage="probe", messages=asked))
        except ModelError as error:
            raise Unusable(f"the target gave no explanation: {error}") from error
        return reply.text.strip()

    async def retry(self, rollout: Rollout, skill: Skill, instruction: str) -> Rollout:
        """Another attempt at the same task, with one more instruction in the skill."""
        self._refuse(rollout, instruction)
        changed = apply_edits(skill, [Append(instruction)]).skill
        (again,) = await self.runner.try_out(changed, [self.tasks[rollout.task]])
        if isinstance(again.outcome, Failure):
            raise Unusable(f"the re-run has no score: {again.outcome.message}")
        return again

    def _refuse(self, rollout: Rollout, text: str) -> None:
        if found := self.leaked_reference(rollout, text):
            raise Unusable(f"it would have told the target {found!r}, which only the grader knows")

    def _private(self, rollout: Rollout) -> Iterator[str]:
        task = self.tasks[rollout.task]
        feedback = rollout.outcome.feedback if isinstance(rollout.outcome, Score) else ""
        quoted = {piece for _, text in _QUOTED.findall(feedback) for piece in _pieces(text)}
        seen = _plain("\n".join(message.text for message in _recalled(rollout, Skill())))
        harmless = {"", _plain(task.kind), _plain(task.id)}
        for private in sorted(quoted | set(_leaves(task.data))):
            plain = _plain(private)
            graded = private in quoted or _holds(_plain(feedback), plain)
            telling = graded or len(plain) >= _TELLING
            if telling and plain not in harmless and not _holds(seen, plain):
                yield private


def _recalled(rollout: Rollout, skill: Skill) -> tuple[Message, ...]:
    """The attempt as a conversation that can go on; the skill is in it."""
    messages = rollout.trajectory.messages if rollout.trajectory else ()
    # A tool's word has no place in a conversation that goes on without tools.
    kept = [
        Message("user" if message.role == "tool" else message.role, message.text, message.images)
        for message in messages
        if message.text
    ]
    document = skill.render()
    if any(document in message.text for message in kept):
        return tuple(kept)
    return (Message("system", document), *kept)


def _leaves(value: object) -> Iterator[str]:
    """All texts and numbers in nested data, in pieces where a text lists several things."""
    match value:
        case bool() | None:
            return
        case str() | int() | float():
            yield from _pieces(str(value))
        case Mapping():
            for inner in cast("Mapping[object, object]", value).values():
                yield from _leaves(inner)
        case list() | tuple() | AbstractSet():
            for inner in cast("list[object]", value):
                yield from _leaves(inner)
        case _:
            return


def _pieces(text: str) -> list[str]:
    return [piece.strip() for piece in _PIECE.split(text)]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _holds(text: str, part: str) -> bool:
    """Whether the words of `part` stand in `text`; scripts without blanks know no words."""
    return f" {part} " in f" {text} " if part.isascii() else part in text
