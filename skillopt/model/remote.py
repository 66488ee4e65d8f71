"""A model behind HTTP: an address, credentials and an API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit, urlunsplit

from skillopt.core.chat import Reply, Request
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.credentials import Credentials, Key
from skillopt.model.errors import Caller, classify, place
from skillopt.model.provider import HttpAnswer, Json, ModelSettings, Transport
from skillopt.model.tokens import counted

JSON_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "application/json",
    "Accept": "application/json",
}


class MalformedReply(Exception):
    """An answer without the format of the API; will be retried."""


class ErrorReply(Exception):
    """An answer with HTTP status 200 whose body contains an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status that corresponds to the error."""


class WireFormat(Protocol):
    """The format of an API: how requests are written and answers are read."""

    def body(self, request: Request) -> dict[str, object]:
        """The JSON body of a request; `Refused` if the API does not support something in it."""
        ...

    def reply(self, data: Json) -> Reply:
        """Read an answer; without token counts if there are none."""
        ...


class Connection(NamedTuple):
    """The connection to a server: transport, address, credentials, hint for error messages."""

    http: Transport
    url: str
    credentials: Credentials
    hint: str


@dataclass(frozen=True, slots=True)
class Remote:
    """A model behind an HTTP API: one POST request for each reply."""

    fingerprint: str
    dialect: WireFormat
    caller: Caller
    http: Transport = field(repr=False)
    url: str = field(repr=False)
    timeout: float
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_HEADERS, repr=False)

    @classmethod
    def of(
        cls,
        backend: str,
        settings: ModelSettings,
        dialect: WireFormat,
        line: Connection,
        *quirks: str,
        headers: Mapping[str, str] = JSON_HEADERS,
    ) -> Remote:
        """A model of this backend; `quirks` are further parts of its fingerprint."""
        who = f"{settings.role} model {settings.name!r} at {place(line.url)}"
        return cls(
            fingerprint=fingerprint_of(backend, settings, *quirks),
            dialect=dialect,
            caller=Caller(who, line.hint, line.credentials, settings.role),
            http=line.http,
            url=line.url,
            timeout=settings.timeout,
            headers=headers,
        )

    async def complete(self, request: Request) -> Reply:
        """Send one request."""
        body = json.dumps(self.dialect.body(request)).encode()
        shown = await self.caller.credentials.headers()
        answer = await self.http.post(
            self.url, headers={**self.headers, **shown}, body=body, timeout=self.timeout
        )
        if answer.status != 200:
            raise classify(answer, self.caller)
        return counted(request, understood(answer, self.dialect, self.caller))


def understood(answer: HttpAnswer, dialect: WireFormat, caller: Caller) -> Reply:
    """Read an answer with status 200; raises an error if it is not valid."""
    try:
        return dialect.reply(answer.json())
    except ErrorReply as error:
        body = json.dumps({"error": {"message": str(error)}}).encode()
        raise classify(answer._replace(status=error.status, body=body), caller) from None
    except MalformedReply as error:
        what = str(error)
    except ValueError:
        what = "the answer is not JSON"
    said = caller.quote(answer)
    raise ModelError(caller.say(f"{what}: {said}" if said else what), retryable=True)


def checked(key: Key, url: str, hint: str) -> Key:
    """The key for this address; raises an error if it is not a valid header value."""
    if key.secret is None:
        return key
    if not key.secret or not all("!" <= letter <= "~" for letter in key.secret):
        raise AccessError(
            "a key is blank or contains a character that no key has (a space or a line break); "
            f"check {hint}"
        )
    return key if urlsplit(url).username is None else Key(None)


def key_hint(settings: ModelSettings, names: tuple[str, ...]) -> str:
    """A hint for the error message if the key is refused."""
    source = settings.key_source or " or ".join(names)
    state = " (not set)" if settings.api_key is None else ""
    return f"the key for the {settings.role} model in {source}{state}"


def address(base_url: str, path: str) -> str:
    """The URL for requests: an address without a path gets `/v1`."""
    parts = _split(base_url)
    if parts is None:
        raise ConfigError(
            f"base_url {base_url.rpartition('@')[2]!r} is not an address; "
            "write it like http://localhost:8000/v1"
        )
    base = parts.path.rstrip("/").removesuffix(path) or "/v1"
    return urlunsplit(parts._replace(path=base + path, fragment=""))


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def fingerprint_of(backend: str, settings: ModelSettings, *quirks: str) -> str:
    """Fingerprint from the backend and the settings that affect answers; not address or key."""
    effort = settings.effort or None
    usual = (
        f"{backend}/{settings.name}/temperature={settings.temperature}"
        f"/max_tokens={settings.max_tokens}/effort={effort}"
    )
    return "/".join((usual, *(quirk for quirk in quirks if quirk)))
