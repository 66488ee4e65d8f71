"""The blocking part: a loaded model and the state of its slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, TypeAlias

from skillopt.core.chat import Message
from skillopt.errors import ModelError, Refused
from skillopt.model.local.llama import Server
from skillopt.model.provider import Json

Conversation: TypeAlias = tuple[Message, ...]
Options: TypeAlias = Mapping[str, object]

_UNSAID: Final[Options] = {"max_tokens": 0, "add_generation_prompt": False, "temperature": 0.0}
"""The prompt is computed and nothing is said."""
_STREAMED: Final[Options] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    # A piece after each batch of the prompt: a moment at which a call can end early.
    "return_progress": True,
}


class CallCancelled(Exception):
    """Nobody waits for the answer any more."""


@dataclass(slots=True)
class Watch:
    """Ends a call that was cancelled, or whose next piece does not come in time.

    Every piece, a batch of the prompt or a token of the answer, starts the time limit again: a
    call on a busy CPU is slow, and slow is no failure. `max_tokens` bounds its length.
    """

    cancelled: threading.Event
    seconds: float
    clock: Callable[[], float] = time.monotonic
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        """The time limit starts now."""
        self.deadline = self.clock() + self.seconds

    def goes_on(self) -> bool:
        """A piece has come: whether the call goes on."""
        if self.cancelled.is_set() or self.clock() > self.deadline:
            return False
        self.deadline = self.clock() + self.seconds
        return True

    def check(self) -> None:
        """Raise if the call is to end."""
        if self.cancelled.is_set():
            raise CallCancelled
        if self.clock() > self.deadline:
            raise ModelError(
                f"the local model produced nothing for {self.seconds:g} s; "
                "see model.timeout_seconds"
            )


@dataclass(slots=True)
class Batching:
    """Several calls at a time, computed together; llama.cpp chooses the slots."""

    server: Server

    def listen(self, messages: Conversation, options: Options, watch: Watch) -> list[Json]:
        """All pieces of an answer."""
        return stream(self.server, messages, {**options, "cache_prompt": True}, watch)

    def ask(self, messages: Conversation, options: Options, watch: Watch) -> Json:
        """An answer in one piece, for a short one: once begun, it does not end early."""
        watch.check()
        return call(self.server, messages, {**options, "cache_prompt": True})


@dataclass(slots=True)
class OneByOne:
    """One call at a time, whose answer is a function of the call.

    llama.cpp's numbers depend in their last digits on how a prompt is cut into batches, so each
    call goes the same way whatever was asked before: the system messages are computed alone, and
    kept; the slot that holds them is cut back to exactly them; the rest of the prompt is computed
    from there. What the model wrote is never taken for a part of a prompt.
    """

    server: Server
    slots: int
    splits: bool = field(init=False)
    """Whether the chat template can do without a user's message."""
    held: dict[Conversation, int] = field(default_factory=dict[Conversation, int])
    """System messages and the slot that holds them; the one used last comes last."""

    def __post_init__(self) -> None:
        """Try the template."""
        try:
            call(self.server, (Message("system", "Hello."),), {**_UNSAID, "cache_prompt": False})
            self.splits = True
        except Refused:
            self.splits = False

    def listen(self, messages: Conversation, options: Options, watch: Watch) -> list[Json]:
        """All pieces of an answer."""
        place = self._settle(messages, watch)
        return stream(self.server, messages, {**options, **place}, watch)

    def ask(self, messages: Conversation, options: Options, watch: Watch) -> Json:
        """An answer in one piece, for a short one: once begun, it does not end early."""
        place = self._settle(messages, watch)
        return call(self.server, messages, {**options, **place})

    def _settle(self, messages: Conversation, watch: Watch) -> Options:
        """Bring a slot to the state from which this conversation is computed."""
        head = tuple(takewhile(lambda message: message.role == "system", messages))
        if not head or not self.splits:
            return {"id_slot": self._free_slot(), "cache_prompt": False}
        slot = self.held.pop(head, None)
        if slot is None:
            slot = self._free_slot()
            anew = {"id_slot": slot, "cache_prompt": False}
            stream(self.server, head, {**_UNSAID, **anew}, watch)
        self.held[head] = slot
        again = {"id_slot": slot, "cache_prompt": True}
        stream(self.server, head, {**_UNSAID, **again}, watch)
        return again

    def _free_slot(self) -> int:
        """A slot that holds nothing, or else what was used longest ago."""
        free = set(range(self.slots)) - set(self.held.values())
        return min(free) if free else self.held.pop(next(iter(self.held)))


def stream(server: Server, messages: Conversation, options: Options, watch: Watch) -> list[Json]:
    """All pieces of an answer; ends early when the watch says so."""
    pieces: list[Json] = []

    def take(piece: Json) -> bool:
        pieces.append(piece)
        return not watch.goes_on()

    call(server, messages, {**options, **_STREAMED}, take)
    watch.check()
    for piece in pieces:
        _refuse(piece)
    return pieces


def call(
    server: Server,
    messages: Conversation,
    options: Options,
    *take: Callable[[Json], bool],
) -> Json:
    """Call the library, whose complaints become `Refused`."""
    said = [{"role": message.role, "content": message.text} for message in messages]
    try:
        answer = server.handle_chat_completions({"messages": said, **options}, *take)
    except (RuntimeError, ValueError) as error:
        raise Refused(f"llama.cpp refused the request: {error}") from error
    _refuse(answer)
    return answer


def _refuse(answer: Json) -> None:
    match answer:
        case {"error": {"type": "exceed_context_size_error", "message": str(message)}}:
            raise Refused(f"the conversation is too long: {message}; see model.local_context")
        case {"error": {"message": str(message)}}:
            raise Refused(f"llama.cpp refused the request: {message}")
        case _:
            pass
