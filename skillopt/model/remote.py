"""A model behind HTTP: an address, credentials and the format of an API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

from skillopt.core.chat import Reply, Request
from skillopt.core.intake import read_json
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.credentials import ApiKey, Credentials
from skillopt.model.errors import Caller, classify, place
from skillopt.model.provider import (
    HttpAnswer,
    ModelSettings,
    Provider,
    Transport,
    filled,
    names_for,
)
from skillopt.model.wire import ErrorReply, MalformedReply, WireFormat, counted

_JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Remote:
    """A model behind an HTTP API: one POST request for each reply."""

    fingerprint: str
    wire: WireFormat
    caller: Caller
    http: Transport = field(repr=False)
    url: str = field(repr=False)
    timeout: float
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON, repr=False)

    async def complete(self, request: Request) -> Reply:
        body = json.dumps(self.wire.body(request)).encode()
        headers = {**self.headers, **await self.caller.credentials.headers()}
        answer = await self.http.send(self.url, headers=headers, body=body, timeout=self.timeout)
        return counted(request, self.read(answer))

    def read(self, answer: HttpAnswer) -> Reply:
        """The reply in an answer; raises the error that it stands for if there is none."""
        if answer.status != 200:
            raise classify(answer, self.caller)
        try:
            return self.wire.reply(read_json(answer.body))
        except ErrorReply as error:
            body = json.dumps({"error": {"message": str(error)}}).encode()
            raise classify(answer._replace(status=error.status, body=body), self.caller) from None
        except MalformedReply as error:
            what = str(error)
        except ValueError:
            what = "the answer is not JSON"
        said = self.caller.quote(answer)
        raise ModelError(self.caller.say(f"{what}: {said}" if said else what), retryable=True)


class HttpBackend(Provider):
    """Base of backends with an HTTP API. A subclass says where it is and what its format is.

    Its variables are `[ROLE_]PREFIX_API_KEY`, `[ROLE_]PREFIX_BASE_URL` and, for settings that the
    user left open, `[ROLE_]PREFIX_MODEL`, `_TEMPERATURE`, `_MAX_TOKENS` and `_TIMEOUT_SECONDS`.
    """

    name: ClassVar[str]
    """As it is registered; a part of fingerprints."""
    prefix: ClassVar[str]
    path: ClassVar[str] = "/chat/completions"
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Bearer ")
    """The header of the key, and what comes before the key in it."""
    headers: ClassVar[Mapping[str, str]] = {}
    """Further headers of each request."""
    defaults: ClassVar[Mapping[str, object]] = {}
    """Settings that are used where neither the user nor a variable sets them."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.key_variables = (f"{{ROLE}}_{cls.prefix}_API_KEY", f"{cls.prefix}_API_KEY")
        cls.url_variables = (f"{{ROLE}}_{cls.prefix}_BASE_URL", f"{cls.prefix}_BASE_URL")

    @classmethod
    def wire(cls, settings: ModelSettings) -> WireFormat:
        """The format of the API, for this model."""
        raise NotImplementedError

    @classmethod
    def quirk(cls, settings: ModelSettings) -> str:
        """Whatever else of the settings changes answers; a part of the fingerprint."""
        del settings
        return ""

    @classmethod
    def usual_url(cls, settings: ModelSettings) -> str:
        """The base URL where the user sets none."""
        if not cls.default_url:
            names = " or ".join(names_for(settings.role, cls.url_variables))
            raise ConfigError(
                f"backend {cls.name} needs an address for the {settings.role} model: "
                f"set model.base_url, or {names}"
            )
        return cls.default_url

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        return filled(settings, cls.prefix, cls.defaults)

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        settings = cls.settle(settings)
        wire = cls.wire(settings)
        url, credentials, hint = cls.access(settings, http)
        who = f"{settings.role} model {settings.name!r} at {place(url)}"
        return Remote(
            fingerprint=fingerprint_of(cls.name, settings, cls.quirk(settings)),
            wire=wire,
            caller=Caller(who, hint, credentials, settings.role),
            http=http,
            url=url,
            timeout=settings.timeout,
            headers={**_JSON, **cls.headers},
        )

    @classmethod
    def access(cls, settings: ModelSettings, http: Transport) -> tuple[str, Credentials, str]:
        """The address, the credentials, and what to check if these are refused."""
        del http
        url = address(settings.base_url.strip() or cls.usual_url(settings), cls.path)
        hint = cls.key_hint(settings)
        if cls.key_required and settings.api_key is None:
            raise AccessError(f"backend {cls.name} needs a key; set {hint}")
        return url, checked(ApiKey(settings.api_key, *cls.key_header), url, hint), hint

    @classmethod
    def key_hint(cls, settings: ModelSettings) -> str:
        """What to check if the key is refused."""
        source = settings.key_source or " or ".join(names_for(settings.role, cls.key_variables))
        state = " (not set)" if settings.api_key is None else ""
        return f"the key for the {settings.role} model in {source}{state}"


def checked(key: ApiKey, url: str, hint: str) -> ApiKey:
    """The key for this address; raises an error if it is not a valid header value."""
    if key.secret is None:
        return key
    if not key.secret or not all("!" <= letter <= "~" for letter in key.secret):
        raise AccessError(
            "a key is blank or contains a character that no key has (a space or a line break); "
            f"check {hint}"
        )
    return key if urlsplit(url).username is None else ApiKey(None)


def address(base_url: str, path: str) -> str:
    """The URL for requests: an address without a path gets `/v1`."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable:
        raise ConfigError(
            f"base_url {base_url.rpartition('@')[2]!r} is not an address; "
            "write it like http://localhost:8000/v1"
        )
    base = parts.path.rstrip("/").removesuffix(path) or "/v1"
    return urlunsplit(parts._replace(path=base + path, fragment=""))


def fingerprint_of(backend: str, settings: ModelSettings, quirk: str = "") -> str:
    """Fingerprint from the backend and the settings that affect answers; not address or key."""
    return (
        f"{backend}/{settings.name}/temperature={settings.temperature}"
        f"/max_tokens={settings.max_tokens}/effort={settings.effort or None}"
        + (f"/{quirk}" if quirk else "")
    )
