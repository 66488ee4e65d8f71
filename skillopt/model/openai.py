"""The chat-completions wire: OpenAI, vLLM, llama.cpp, Ollama and every compatible gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

from typing_extensions import Self

from skillopt.core.chat import Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.failures import Caller, classify, place
from skillopt.model.provider import Answer, Json, Transport
from skillopt.model.settings import ModelSettings, names_for

LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
Stop: TypeAlias = Literal["end", "length", "tool", "filter"]

_STOPS: dict[str, Stop] = {
    "length": "length",
    "content_filter": "filter",
    "tool_calls": "tool",
    "function_call": "tool",
}
_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class OpenAICompatible:
    """A model behind any server that speaks chat completions; the key is optional."""

    backend: ClassVar[str] = "openai_compatible"
    key_variables: ClassVar[tuple[str, ...]] = (
        "{ROLE}_OPENAI_COMPATIBLE_API_KEY",
        "OPENAI_COMPATIBLE_API_KEY",
    )
    url_variables: ClassVar[tuple[str, ...]] = (
        "{ROLE}_OPENAI_COMPATIBLE_BASE_URL",
        "OPENAI_COMPATIBLE_BASE_URL",
    )
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = False
    limit_field: ClassVar[LimitField] = "max_tokens"

    settings: ModelSettings
    fingerprint: str
    caller: Caller
    http: Transport = field(repr=False)
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Self:
        """A model ready to be asked; what is missing in the settings is an error now."""
        base_url = settings.base_url.strip() or cls.default_url
        if not base_url:
            names = " or ".join(names_for(settings.role, cls.url_variables))
            raise ConfigError(
                f"backend {cls.backend} needs an address for the {settings.role} model: "
                f"set model.base_url, or {names}"
            )
        url = completions_url(base_url)
        return cls(
            settings=settings,
            fingerprint=_fingerprint(cls.backend, settings),
            caller=Caller(
                f"{settings.role} model {settings.name!r} at {place(url)}",
                cls._key_hint(settings),
                settings.api_key,
            ),
            http=http,
            url=url,
            headers=cls._headers(settings, url),
        )

    async def complete(self, request: Request) -> Reply:
        """Ask once."""
        body = json.dumps(body_of(self.settings, request, self.limit_field)).encode()
        answer = await self.http.post(
            self.url, headers=self.headers, body=body, timeout=self.settings.timeout
        )
        if answer.status != 200:
            raise classify(answer, self.caller)
        return read_reply(answer, self.caller)

    @classmethod
    def _key_hint(cls, settings: ModelSettings) -> str:
        names = names_for(settings.role, cls.key_variables)
        source = settings.key_source or " or ".join(names)
        state = " (not set)" if settings.api_key is None else ""
        return f"the key for the {settings.role} model in {source}{state}"

    @classmethod
    def _headers(cls, settings: ModelSettings, url: str) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = settings.api_key
        if key is None:
            if cls.key_required:
                raise AccessError(
                    f"backend {cls.backend} needs a key; set {cls._key_hint(settings)}"
                )
            return headers
        if not key or not all("!" <= letter <= "~" for letter in key):
            raise AccessError(
                "a key is blank or holds a character that no key has (a space? a line break?); "
                f"check {cls._key_hint(settings)}"
            )
        if urlsplit(url).username is None:
            headers["Authorization"] = f"Bearer {key}"
        return headers


class OpenAIChat(OpenAICompatible):
    """OpenAI itself: its own address and name for the token limit, and a key."""

    __slots__ = ()

    backend = "openai_chat"
    key_variables = ("{ROLE}_OPENAI_API_KEY", "OPENAI_API_KEY")
    url_variables = ("{ROLE}_OPENAI_BASE_URL", "OPENAI_BASE_URL")
    key_required = True
    default_url = "https://api.openai.com/v1"
    takes_shared_effort = True
    limit_field = "max_completion_tokens"


def completions_url(base_url: str) -> str:
    """Where to post: a bare host gets `/v1`, any other path is taken as given."""
    parts = _address(base_url)
    if parts is None:
        raise ConfigError(
            f"base_url {base_url.rpartition('@')[2]!r} is not an address; "
            "write it like http://localhost:8000/v1"
        )
    path = parts.path.rstrip("/").removesuffix(_PATH) or "/v1"
    return urlunsplit(parts._replace(path=path + _PATH, fragment=""))


def _address(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def body_of(
    settings: ModelSettings, request: Request, limit_field: LimitField
) -> dict[str, object]:
    """What is sent; the request's own wishes go before the settings."""
    body: dict[str, object] = {
        "model": settings.name,
        "messages": [{"role": each.role, "content": each.text} for each in request.messages],
    }
    wishes = {
        limit_field: (request.max_tokens, settings.max_tokens),
        "temperature": (request.temperature, settings.temperature),
        "reasoning_effort": (request.effort, settings.effort),
    }
    for name, (asked, usual) in wishes.items():
        value = usual if asked is None else asked
        if value is not None and value != "":
            body[name] = value
    return body


def read_reply(answer: Answer, caller: Caller) -> Reply:
    """Take an answer apart; a body that is cut, empty or of another shape is worth a retry."""
    try:
        data = answer.json()
    except ValueError:
        raise _nonsense("the answer is not JSON", answer, caller) from None
    match data:
        case {"choices": [{"finish_reason": "error" | "abort"}, *_]}:
            raise _nonsense("the answer broke off", answer, caller)
        case {"choices": [{"message": {**message}, **choice}, *_], **rest}:
            return _reply(message, choice.get("finish_reason"), _usage(rest.get("usage")))
        case {"error": _}:
            raise _nonsense("the server reports an error", answer, caller)
        case _:
            raise _nonsense("the answer holds no choices", answer, caller)


def _reply(message: Mapping[str, Json], finish: Json, usage: Usage) -> Reply:
    text = _text(message.get("content"))
    match message.get("refusal"):
        case str(refusal) if refusal and not text:
            return Reply(text=refusal, usage=usage, stop="filter")
        case _:
            stop = _STOPS.get(finish, "end") if isinstance(finish, str) else "end"
            return Reply(text=text, usage=usage, stop=stop)


def _nonsense(what: str, answer: Answer, caller: Caller) -> ModelError:
    said = caller.quote(answer)
    return ModelError(caller.say(f"{what}: {said}" if said else what), retryable=True)


def _text(content: Json) -> str:
    """The text of a message whose content is a string, a list of parts, or absent."""
    match content:
        case str(text) | {"text": str(text)}:
            return text
        case [*parts]:
            return "".join(map(_text, parts))
        case _:
            return ""


def _usage(counts: Json) -> Usage:
    """Tokens as far as the server counts them."""
    match counts:
        case {"prompt_tokens": int(sent), "completion_tokens": int(written)}:
            return Usage(1, sent, written, _cached(counts.get("prompt_tokens_details")))
        case _:
            return Usage(1)


def _cached(details: Json) -> int:
    match details:
        case {"cached_tokens": int(cached)}:
            return cached
        case _:
            return 0


def _fingerprint(backend: str, settings: ModelSettings) -> str:
    """Backend and whatever changes answers; neither address nor key does."""
    effort = settings.effort or None
    return (
        f"{backend}/{settings.name}/temperature={settings.temperature}"
        f"/max_tokens={settings.max_tokens}/effort={effort}"
    )
