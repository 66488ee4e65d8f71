"""Backend `local`: a GGUF file answers, in this process, on the CPU; llama.cpp by `xllamacpp`."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.core.extras import install_command
from skillopt.core.intake import Json
from skillopt.errors import AccessError, ConfigError, ModelError, Refused, TooLong
from skillopt.model.provider import ModelSettings, Provider, Transport
from skillopt.model.weights import Folder, default_root
from skillopt.model.wire import check_abilities, usage_of

_TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores() -> int:
    """Cores that this process may use; two threads on one core only get in each other's way."""
    if sys.platform == "linux":
        allowed = os.sched_getaffinity(0)
        with suppress(OSError):
            siblings = {
                (_TOPOLOGY / f"cpu{number}/topology/thread_siblings_list").read_text()
                for number in allowed
            }
            return max(1, len(siblings))
        return max(1, len(allowed))
    logical = os.cpu_count() or 1
    return max(1, logical // 2) if sys.platform == "win32" else logical


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings of an engine. Only `parallel`, `context` and `batch` can change an answer."""

    threads: int = field(default_factory=physical_cores)
    parallel: int = 1
    """Calls that are computed together.

    One: the text depends on the request alone. More: higher throughput on many cores, but the
    numbers of one answer then depend on which others are computed with it, in the last digits;
    where two words are almost equally likely, the text may differ from run to run.
    """
    slots: int = 4
    """Conversations whose beginnings are kept in memory, so that they are not computed again."""
    context: int = 8192
    """Tokens of one conversation, question and answer together."""
    batch: int = 256
    """Tokens of a prompt that are computed at once; a cancelled call ends between two batches."""

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Tuning:
        """From settings called like the fields; those absent or None have their defaults."""
        return cls(
            **{
                tunable.name: _positive(tunable.name, value)
                for tunable in fields(cls)
                if (value := given.get(tunable.name)) is not None
            }
        )


def _positive(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ConfigError(f"model.local_{name} is {value!r}; give a whole number above zero")


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
    params.verbosity = -1  # silent
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
class Slots:
    """Makes each answer a function of its call, where calls are computed one at a time.

    llama.cpp's numbers depend in their last digits on how a prompt is cut into batches, so each
    call goes the same way whatever was asked before: the system messages are computed alone, and
    kept; the slot that holds them is cut back to exactly them; the rest of the prompt is computed
    from there. What the model wrote is never taken for a part of a prompt.
    """

    server: Server
    number: int
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

    def settle(self, messages: Conversation, watch: Watch) -> Options:
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
        free = set(range(self.number)) - set(self.held.values())
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
    server: Server, messages: Conversation, options: Options, *take: Callable[[Json], bool]
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
            raise TooLong(f"the conversation is too long: {message}; see model.local_context")
        case {"error": {"message": str(message)}}:
            raise Refused(f"llama.cpp refused the request: {message}")
        case _:
            pass


class Engine:
    """Works in threads of its own, `parallel` calls at a time; the others wait in order.

    The file is read at the first call. The memory is given back when nobody holds the engine.
    """

    def __init__(self, file: Path, tuning: Tuning) -> None:
        self.file = file
        self.tuning = tuning
        self._workers = ThreadPoolExecutor(tuning.parallel, thread_name_prefix="skillopt-local")
        self._loading = threading.Lock()
        self._server: Server | None = None
        self._slots: Slots | None = None

    async def run(self, messages: Conversation, options: Options, timeout: float) -> list[Json]:
        """All pieces of an answer by a worker that may be silent for so many seconds at most.

        Waiting for a worker does not count.
        When the call is cancelled, the worker stops after the token or batch under way.
        """
        cancelled = threading.Event()

        def work() -> list[Json]:
            server = self._loaded()
            watch = Watch(cancelled, timeout)
            watch.check()
            # Of several calls that are computed together, llama.cpp chooses the slots.
            together: Options = {"cache_prompt": True}
            place = self._slots.settle(messages, watch) if self._slots else together
            return stream(server, messages, {**options, **place}, watch)

        try:
            return await asyncio.wrap_future(self._workers.submit(work))
        finally:
            cancelled.set()

    def _loaded(self) -> Server:
        with self._loading:
            if self._server is None:
                self._server = load(self.file, self.tuning)
                if self.tuning.parallel == 1:
                    self._slots = Slots(self._server, self.tuning.slots)
            return self._server


_engines: weakref.WeakValueDictionary[tuple[str, Tuning], Engine] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared_engine(file: Path, digest: str, tuning: Tuning) -> Engine:
    """The engine of this content and tuning: one for all who hold it, gone with the last."""
    with _sharing:
        engine = _engines.get((digest, tuning))
        if engine is None:
            engine = _engines[digest, tuning] = Engine(file, tuning)
        return engine


_SEED = 1


@dataclass(frozen=True, slots=True)
class Local(Provider):
    """A model of this process; greedy unless a temperature is asked for.

    Roles with the same file and tuning share one engine, which goes when the last of them goes.
    """

    settings: ModelSettings
    engine: Engine
    fingerprint: str

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Local:
        """The model that the name means: one of the catalogue, or the path of a GGUF file.

        `settings.extra` may hold `folder`, where fetched weights are, and the fields of `Tuning`.
        """
        del http
        if settings.effort:
            raise ConfigError(
                f"backend local has no reasoning effort; remove it from the {settings.role} model"
            )
        tuning = Tuning.read(settings.extra)
        library = version()
        root = settings.extra.get("folder")
        folder = Folder(root if isinstance(root, Path) else default_root(lambda _: None))
        file = folder.locate(settings.name)
        digest = folder.digest(file)
        together = f"/parallel={tuning.parallel}" if tuning.parallel > 1 else ""
        # The content, not where the file lies.
        fingerprint = (
            f"local/{digest[:16]}/xllamacpp={library}/temperature={settings.temperature}/max_tokens="
            f"{settings.max_tokens}/context={tuning.context}/batch={tuning.batch}{together}"
        )
        return cls(settings, shared_engine(file, digest, tuning), fingerprint)

    async def complete(self, request: Request) -> Reply:
        """Answer; the same request has the same answer."""
        options, timeout = self._options(request), self.settings.timeout
        return _reply(await self.engine.run(request.messages, options, timeout))

    def _options(self, request: Request) -> dict[str, object]:
        check_abilities(request, "backend local", "schema")
        if request.effort:
            raise Refused("backend local has no reasoning effort, and the request asks for one")
        settings = self.settings.for_request(request)
        options: dict[str, object] = {
            "temperature": settings.temperature or 0.0,
            "seed": _SEED + request.replicate,
        }
        if settings.max_tokens is not None:
            options["max_tokens"] = settings.max_tokens
        if request.schema is not None:
            options["json_schema"] = dict(request.schema)
        return options


def _reply(pieces: Sequence[Json]) -> Reply:
    text: list[str] = []
    stop: Literal["end", "length"] | None = None
    usage = Usage(1)
    for piece in pieces:
        match piece:
            case {"choices": [{"delta": {"content": str(said)}}, *_]}:
                text.append(said)
            case {"choices": [{"finish_reason": str(reason)}, *_]}:
                stop = "length" if reason == "length" else "end"
            case {"usage": counts}:
                usage = usage_of(counts, "prompt_tokens", "completion_tokens")
            case _:
                pass
    if stop is None:
        raise ModelError("llama.cpp broke off in the middle of an answer", retryable=True)
    return Reply(text="".join(text), usage=usage, stop=stop)
