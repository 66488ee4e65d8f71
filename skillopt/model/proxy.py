"""Lets a program ask a model over a unix socket. The key and the budget stay in this process."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias

from aiohttp import web

from skillopt.core.chat import Usage
from skillopt.core.intake import BODY_BYTES, Json, read_json
from skillopt.errors import BudgetSpent, SkilloptError
from skillopt.model.budget import Budget
from skillopt.model.completions import Completions
from skillopt.model.prices import Tariff
from skillopt.model.provider import HttpAnswer
from skillopt.model.rate_limits import Endpoint
from skillopt.model.remote import Remote
from skillopt.model.wire import usage_apart, usage_of

_Wire: TypeAlias = Literal["/chat/completions", "/responses", "/messages", "/messages/count_tokens"]
_Path: TypeAlias = _Wire | Literal["/models"]

_ASKS: Final[tuple[_Wire, ...]] = ("/chat/completions", "/responses", "/messages")
_LIST: Final = "/models"
_PATHS: Final[tuple[_Path, ...]] = (*_ASKS, "/messages/count_tokens", _LIST)
_BYTES_PER_TOKEN: Final = 4


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_MOST_ASKED: Final = 10**9
"""Tokens; whoever asks for more makes a mistake."""
_MOST_CHOICES: Final = 16
_PER_CALL: Final = 64
_PER_IMAGE: Final = 6000
_FIELDS: Final[Mapping[_Wire, frozenset[str]]] = {
    "/chat/completions": _names(
        """chat_template_kwargs frequency_penalty function_call functions logit_bias logprobs
        messages metadata min_p n parallel_tool_calls presence_penalty prompt_cache_key
        reasoning_effort reasoning_split repetition_penalty response_format seed stop stream
        temperature thinking tool_choice tools top_k top_logprobs top_p user verbosity"""
    ),
    "/responses": _names(
        """include input instructions metadata parallel_tool_calls prompt_cache_key reasoning
        stream temperature text tool_choice tools top_logprobs top_p truncation user"""
    ),
    "/messages": _names(
        """messages metadata output_config stop_sequences stream system temperature thinking
        tool_choice tools top_k top_p"""
    ),
    "/messages/count_tokens": _names("messages system thinking tool_choice tools"),
}
"""Fields that ask for nothing but an answer of the model, from what is in the request.

Others name further models, dearer service, or what lies at the server or elsewhere.
"""
_LOCAL_TOOLS: Final = (
    *("function", "custom", "local_shell", "apply_patch"),
    *("bash_", "text_editor_", "memory_", "computer_"),
)
"""How the types of tools begin that the program runs itself; any other is run by the server."""
_PARTS: Final = _names(
    """message text input_text output_text refusal image image_url input_image summary_text
    reasoning reasoning_text thinking redacted_thinking function_call function_call_output
    custom_tool_call custom_tool_call_output local_shell_call local_shell_call_output
    apply_patch_call apply_patch_call_output tool_use tool_result"""
)
"""Types of what messages are made of; files, recordings and results of a server are not."""
_FOREIGN: Final = _names("image_url file_id file_url file source input_audio audio_url video_url")
"""What a part may hold instead of text."""
_SPOKEN: Final = ("messages", "input", "system", "instructions")


class _Refusal(Exception):
    """A program asks for something that it cannot have."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class _CheckedRequest:
    """A request as it is sent."""

    body: bytes
    worst: Usage
    """The most that it can take, without its price."""


@dataclass(frozen=True, slots=True)
class ProxiedCall:
    """What a program asked, and what it was answered."""

    path: str
    request: bytes
    status: int
    answer: bytes
    usage: Usage


@dataclass(slots=True, kw_only=True)
class ModelProxy:
    """Forwards requests to the server of a model, and pays for them.

    Whatever key and model a program names, it gets those of `remote`. Its worst case is set aside
    before a call is sent, so that no limit is exceeded; what it took is paid when it is answered.
    """

    remote: Remote
    model: str
    budget: Budget
    endpoint: Endpoint
    """The limits of the server, shared with all others who ask it."""
    hide: Callable[[str], str] = str
    """Takes the secrets of the run out of a text."""
    price: Tariff | None = None
    max_tokens: int
    """The longest answer; a request may ask for a shorter one."""
    role: str = "target"
    stage: str = "rollout"
    calls: list[ProxiedCall] = field(default_factory=list[ProxiedCall])
    ended: BudgetSpent | None = None
    """The limit that was reached."""

    @asynccontextmanager
    async def serve(self, *, owner: int | None = None) -> AsyncGenerator[Path, None]:
        """Listen at a path that only `owner` can reach, or else only we ourselves.

        If a limit was reached meanwhile, `BudgetSpent` is raised at the end.
        """
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        with TemporaryDirectory(prefix="skillopt-") as folder:
            path = Path(folder) / "model"
            await runner.setup()
            try:
                await web.UnixSite(runner, str(path)).start()
                if owner is not None:
                    os.chown(path, owner, -1)
                    os.chown(folder, owner, -1)
                yield path
                if self.ended is not None:
                    raise self.ended
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        ends: list[_Path] = [each for each in _PATHS if request.path.endswith(each)]
        if not ends or request.method != ("GET" if ends[0] == _LIST else "POST"):
            return _error(404, "there is no such path")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > BODY_BYTES:
                return _error(413, "the request is too large")
        try:
            answer = await self._answer(ends[0], bytes(body))
        except BudgetSpent as error:
            self.ended = error
            return _error(402, str(error))
        except _Refusal as error:
            return _error(error.status, str(error))
        except SkilloptError as error:
            return _error(502, self._without_secrets(str(error)))
        kind = answer.headers.get("Content-Type", "application/json")
        return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})

    async def _answer(self, end: _Path, body: bytes) -> HttpAnswer:
        if end == _LIST:
            return await self._free(end)
        wire = self.remote.wire
        limit = wire.limit_field if isinstance(wire, Completions) else "max_completion_tokens"
        request = _check_request(
            end, body, self.model, max_tokens=self.max_tokens, chat_limit=limit
        )
        if end == "/messages/count_tokens":
            return await self._free(end, request.body)
        return await self._ask(end, request)

    async def _free(self, end: str, body: bytes | None = None) -> HttpAnswer:
        """The answer to what costs nothing."""
        async with self.endpoint.turn(0):
            return self._shown(await self._send(end, body))

    async def _ask(self, end: str, request: _CheckedRequest) -> HttpAnswer:
        sent, worst = request.body, request.worst
        if self.price is not None:
            worst = replace(worst, dollars=self.price.most(worst))
        if reason := self.budget.never(worst):
            raise _Refusal(reason, status=402)
        async with (
            self.endpoint.turn(len(sent) // _BYTES_PER_TOKEN) as settle,
            self.budget.hold(worst, self.role, self.stage),
        ):
            answer = await self._send(end, sent)
            usage = self._paid(end, sent, answer)
            settle(usage)
            answer = self._shown(answer)
            self.calls.append(ProxiedCall(end, sent, answer.status, answer.body, usage))
            return answer

    def _paid(self, end: str, sent: bytes, answer: HttpAnswer) -> Usage:
        """What it took, once that is on disk; an answer that tells of an error takes nothing."""
        if answer.status != 200:
            return Usage()
        usage = _usage(end, answer.body) or _estimate(sent, answer.body)
        if self.price is not None:
            usage = replace(usage, dollars=self.price.cost(usage))
        self.budget.record(usage, role=self.role, stage=self.stage)
        return usage

    def _shown(self, answer: HttpAnswer) -> HttpAnswer:
        text = answer.body.decode(errors="surrogateescape")
        return answer._replace(body=self._without_secrets(text).encode(errors="surrogateescape"))

    def _without_secrets(self, text: str) -> str:
        return self.hide(self.remote.caller.credentials.hide(text))

    async def _send(self, end: str, body: bytes | None) -> HttpAnswer:
        base = self.remote.url
        for known in _ASKS:
            base = base.removesuffix(known)
        headers = {**self.remote.headers, **await self.remote.caller.credentials.headers()}
        timeout = self.remote.timeout
        return await self.remote.http.send(base + end, headers=headers, timeout=timeout, body=body)


def _check_request(
    wire: _Wire, body: bytes, model: str, *, max_tokens: int, chat_limit: str
) -> _CheckedRequest:
    """The request with our model and a limit on its answer; `_Refusal` says what is wrong.

    `chat_limit` is what the server calls that limit in chat completions.
    """
    given = _object(body)
    asked = {name: _whole(given, name, _MOST_ASKED) for name in _LIMITS}
    choices = _whole(given, "n", _MOST_CHOICES)
    if not isinstance(given.get("stream", False), bool):
        raise _Refusal("stream should be true or false")
    fields = {name: value for name, value in given.items() if name in _FIELDS[wire]}
    fields["model"] = model
    _check_tools(fields)
    images = sum(_images(fields.get(name)) for name in _SPOKEN)
    longest = 0
    match wire:
        case "/chat/completions":
            limits = (asked["max_tokens"], asked["max_completion_tokens"])
            fields[chat_limit] = longest = _least(max_tokens, *limits)
            if fields.get("stream"):
                fields["stream_options"] = {"include_usage": True}
        case "/responses":
            fields["max_output_tokens"] = longest = _least(max_tokens, asked["max_output_tokens"])
            fields["store"] = False
        case "/messages":
            fields["max_tokens"] = longest = _least(max_tokens, asked["max_tokens"])
        case "/messages/count_tokens":
            pass
    sent = json.dumps(fields).encode()
    answers = (choices or 1) if "n" in fields else 1
    return _CheckedRequest(
        sent, Usage(1, len(sent) + _PER_CALL + _PER_IMAGE * images, longest * answers)
    )


def _object(body: bytes) -> dict[str, Json]:
    try:
        found = read_json(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _Refusal("the request is not a JSON object")
    return found


def _whole(fields: Mapping[str, Json], name: str, most: int) -> int | None:
    """A whole number above 0; None: the request does not say."""
    number = fields.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= most:
        raise _Refusal(f"{name} should be a whole number from 1 to {most:,}")
    return number


def _least(most: int, *asked: int | None) -> int:
    return min([most, *(number for number in asked if number is not None)])


def _check_tools(fields: dict[str, Json]) -> None:
    """Leave out the tools that the server would run."""
    tools = fields.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list):
        raise _Refusal("tools should be a list")
    kept: list[Json] = [tool for tool in tools if isinstance(tool, dict) and _is_local(tool)]
    if kept:
        fields["tools"] = kept
    else:
        del fields["tools"]
        fields.pop("tool_choice", None)


def _is_local(tool: Mapping[str, Json]) -> bool:
    kind = tool.get("type", "custom")
    return isinstance(kind, str) and kind.startswith(_LOCAL_TOOLS)


def _images(parts: Json) -> int:
    """How many pictures there are; `_Refusal` for what the server would have to fetch."""
    match parts:
        case list():
            return sum(map(_images, parts))
        case dict():
            kind = parts.get("type", "message" if "role" in parts else None)
            if not isinstance(kind, str) or kind not in _PARTS:
                raise _Refusal(f"messages may not hold anything of type {json.dumps(kind)[:80]}")
            inner = sum(_images(parts.get(name)) for name in ("content", "output"))
            return inner + (_image(parts) if "image" in kind or _FOREIGN & parts.keys() else 0)
        case _:
            return 0


def _image(part: Mapping[str, Json]) -> int:
    match part:
        case {"image_url": str(url)} | {"image_url": {"url": str(url)}} if "file_id" not in part:
            held = url.startswith("data:")
        case {"source": {"type": "base64"}}:
            held = True
        case _:
            held = False
    if not held:
        raise _Refusal("an image should be in the request itself, as a data: URL or base64")
    return 1


def _estimate(sent: bytes, answer: bytes) -> Usage:
    given, made = len(sent) // _BYTES_PER_TOKEN, len(answer) // _BYTES_PER_TOKEN
    return Usage(1, given, made, estimated=1)


def _usage(end: str, answer: bytes) -> Usage | None:
    """What the server counted, in an answer or in the events of one; None: nothing."""
    counts: dict[str, Json] = {}
    for event in _events(answer):
        for part in (event, event.get("response"), event.get("message")):
            if isinstance(part, dict) and isinstance(found := part.get("usage"), dict):
                counts |= {name: count for name, count in found.items() if count is not None}
    match end:
        case "/chat/completions":
            usage = usage_of(counts, "prompt_tokens", "completion_tokens")
        case "/responses":
            usage = usage_of(counts, "input_tokens", "output_tokens")
        case _:
            usage = usage_apart(counts)
    return usage if usage is not None and (usage.input or usage.output) else None


def _events(answer: bytes) -> Iterator[dict[str, Json]]:
    lines = answer.splitlines() if answer.startswith((b"event:", b"data:")) else [answer]
    for line in lines:
        try:
            event = read_json(line.removeprefix(b"data:"))
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _error(status: int, message: str) -> web.Response:
    body = {"type": "error", "error": {"type": "proxy_error", "message": message}}
    return web.json_response(body, status=status)
