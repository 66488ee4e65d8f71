"""One loaded model file, shared by everything that asks it; the edge to xllamacpp."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from skillopt.core.chat import Message
from skillopt.core.extras import install_command
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.local.tuning import Tuning
from skillopt.model.provider import Json

_SILENT = -1


class Server(Protocol):
    """A loaded model; its methods may be called from several threads."""

    def handle_chat_completions(
        self, body: Mapping[str, object], callback: Callable[[Json], bool] | None = None, /
    ) -> Json:
        """Answer; with `stream` in the body, call back with each piece until that returns True."""
        ...


def version() -> str:
    """The version of the library, which decides about the last digits of every number."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(f"backend local needs llama.cpp: {install_command('local')}")
    return importlib.metadata.version("xllamacpp")


def load(file: Path, tuning: Tuning) -> Server:
    """Read a model file; takes seconds."""
    library: Any = importlib.import_module("xllamacpp")
    params: Any = library.CommonParams()
    params.model.path = str(file)
    params.verbosity = _SILENT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = tuning.threads
    params.n_parallel = max(tuning.slots, tuning.parallel)
    params.n_ctx = tuning.context * params.n_parallel
    params.n_batch = params.n_ubatch = tuning.batch
    # Flash attention adds up in an order that depends on the number of threads.
    params.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    # A cell of the cache belongs to one slot, and slots are not moved to and fro: what a slot
    # holds is then what was computed there.
    params.kv_unified = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.fit_params = False
    params.warmup = False
    # The library opens a loopback port whether asked or not; nobody knows this key.
    params.ui = False
    params.api_keys = [secrets.token_hex(32)]
    try:
        return library.Server(params)
    except RuntimeError as error:
        raise AccessError(
            f"llama.cpp cannot load {file}: not a model it knows, damaged, or too large for the "
            f"memory (context {tuning.context} x {params.n_parallel} slots; see "
            "model.local_context, model.local_slots)"
        ) from error


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


T = TypeVar("T")
Speaking: TypeAlias = Batching | OneByOne


class Engine:
    """Works in threads of its own, `parallel` calls at a time; the others wait in order.

    The file is read at the first call. The memory is given back when nobody holds the engine.
    """

    def __init__(self, file: Path, tuning: Tuning) -> None:
        self.file = file
        self.tuning = tuning
        self._workers = ThreadPoolExecutor(tuning.parallel, thread_name_prefix="skillopt-local")
        self._loading = threading.Lock()
        self._speaking: Speaking | None = None

    async def run(self, work: Callable[[Speaking, Watch], T], timeout: float) -> T:
        """Do work in a worker, which may produce nothing for so many seconds at most.

        Waiting for a worker does not count.
        When the call is cancelled, the worker stops after the token or batch under way.
        """
        cancelled = threading.Event()

        def start() -> T:
            speaking = self._loaded()
            watch = Watch(cancelled, timeout)
            watch.check()
            return work(speaking, watch)

        try:
            return await asyncio.wrap_future(self._workers.submit(start))
        finally:
            cancelled.set()

    def _loaded(self) -> Speaking:
        with self._loading:
            if self._speaking is None:
                server = load(self.file, self.tuning)
                apart = self.tuning.parallel == 1
                self._speaking = OneByOne(server, self.tuning.slots) if apart else Batching(server)
            return self._speaking


_engines: weakref.WeakValueDictionary[tuple[str, Tuning], Engine] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared_engine(file: Path, digest: str, tuning: Tuning) -> Engine:
    """The engine of this content and tuning: one for all who hold it, gone with the last."""
    with _sharing:
        engine = _engines.get((digest, tuning))
        if engine is None:
            engine = _engines[digest, tuning] = Engine(file, tuning)
        return engine
