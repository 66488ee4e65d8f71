"""OpenAI by either of its two APIs, Azure OpenAI, and every server with chat completions."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from skillopt.core.intake import Json, read_json
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.cli.process import run
from skillopt.model.completions import Completions
from skillopt.model.credentials import ApiKey, BearerTokens, Credentials, Token
from skillopt.model.provider import ModelSettings, Transport, names_for, one_of, variable
from skillopt.model.remote import HttpBackend, address, checked
from skillopt.model.responses import Responses
from skillopt.model.wire import WireFormat

RESPONSES: Final = "/responses"
_WANTS_RESPONSES: Final = re.compile(
    r"codex|deep-research|(?:^|[-/])(?:gpt|o)[\w.-]{0,60}-pro(?:-|$)"
)
"""Models that OpenAI serves by the responses API only."""
_TAKES_EFFORT: Final = re.compile(r"(?:o[1-9]|gpt-[5-9]|codex)(?!.{0,60}-chat)")
"""Models that reason before they answer, by their name."""


class OpenAICompatible(HttpBackend):
    """A model behind any server that speaks chat completions; the key is optional."""

    name = "openai_compatible"
    prefix = "OPENAI_COMPATIBLE"

    @classmethod
    def wire(cls, settings: ModelSettings) -> Completions:
        return Completions(settings)


class OpenAIChat(HttpBackend):
    """OpenAI, or Azure where an endpoint of Azure is given; Azure may do without a key."""

    name = "openai_chat"
    prefix = "OPENAI"
    default_url = "https://api.openai.com/v1"
    takes_shared_effort = True

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as the variable `ROLE_DEPLOYMENT` and the kind of model say."""
        deployment = settings.variables.setting(f"{settings.role.upper()}_DEPLOYMENT")
        if deployment is not None and "name" in settings.left_open:
            settings = replace(settings, name=deployment)
        asked = "effort" not in settings.left_open
        if asked or _TAKES_EFFORT.match(settings.name.lower().rpartition("/")[2]):
            return settings
        # An effort that nobody asked for goes only to models that are known to take one.
        return replace(settings, effort=None)

    @classmethod
    def wire(cls, settings: ModelSettings) -> WireFormat:
        if _path(settings) == RESPONSES:
            return Responses(settings)
        return Completions(settings, "max_completion_tokens", effort_with_tools=False)

    @classmethod
    def quirk(cls, settings: ModelSettings) -> str:
        azure = "azure" if _azure(settings) else ""
        responses = "responses" if _path(settings) == RESPONSES else ""
        return "/".join(filter(None, (azure, responses)))

    @classmethod
    def access(cls, settings: ModelSettings, http: Transport) -> tuple[str, Credentials, str]:
        path, names = _path(settings), names_for(settings.role, cls.key_variables)
        if azure := _azure(settings):
            url = azure.url(settings.name, path)
            address(url, path)  # only to refuse what is none
            hint = f"{' or '.join(azure.key_names)} and the auth mode, which is {azure.auth_mode}"
            return url, azure.credentials(settings, http), hint
        base_url, secret = settings.base_url.strip() or cls.default_url, settings.api_key
        hint = cls.key_hint(settings)
        if compatible := Azure.read(settings):
            base_url = compatible.endpoint
            secret = secret if compatible.key is None else compatible.key
            hint = f"the key in {' or '.join((*compatible.key_names, *names))}"
        if secret is None:
            owned = " or ".join(names_for(settings.owner or settings.role, cls.key_variables))
            raise AccessError(
                f"the {settings.role} model {settings.name!r} needs a key: set {owned} in the "
                "environment or in .env; for Azure OpenAI, set AZURE_OPENAI_ENDPOINT or "
                "model.azure_openai_endpoint"
            )
        url = address(base_url, path)
        return url, checked(ApiKey(secret), url, hint), hint


def _azure(settings: ModelSettings) -> Azure | None:
    """The resource that is asked in Azure's own way, if there is one."""
    azure = Azure.read(settings)
    return None if azure is None or azure.auth_mode == "openai_compatible" else azure


def _path(settings: ModelSettings) -> str:
    """The API, as the settings, the environment or else the model's name say."""
    wish = settings.extra.get("api", "auto")
    if wish == "auto":
        wish = variable(settings, "OPENAI_CHAT_API", one_of("auto", "chat", "responses"))
    wanted = wish != "chat" and _WANTS_RESPONSES.search(settings.name.lower())
    return RESPONSES if wish == "responses" or wanted else OpenAIChat.path


_VERSION: Final = "2024-12-01-preview"
_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_AUTH_MODES: Final = {
    **dict.fromkeys(("api_key", "key"), "api_key"),
    **dict.fromkeys(("azure_cli", "cli"), "azure_cli"),
    **dict.fromkeys(("managed_identity", "aad", "azure_ad"), "managed_identity"),
    **dict.fromkeys(("openai_compatible", "compat", "openai"), "openai_compatible"),
}
_IMDS: Final = "http://169.254.169.254"
_V1: Final = "/openai/v1"
_TOKEN_SECONDS: Final = 60.0
_FOR_AZ: Final = (
    *("PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "TMP"),
    *("LANG", "LC_ALL", "AZURE_CONFIG_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
)
"""What `az` may need of our environment; keys are not among it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Azure:
    """An Azure OpenAI resource, and how to be let in."""

    endpoint: str
    api_version: str
    auth_mode: str
    scope: str
    client_id: str
    key: str | None
    key_names: tuple[str, ...]

    @classmethod
    def read(cls, settings: ModelSettings) -> Azure | None:
        """What settings and environment say of Azure; None when they name no endpoint.

        A base URL goes before an endpoint that only the environment names.
        """
        role = (settings.owner or settings.role).upper()

        def names(what: str) -> tuple[str, ...]:
            return (
                f"{role}_AZURE_OPENAI_{what}",
                f"AZURE_OPENAI_{role}_{what}",
                f"AZURE_OPENAI_{what}",
            )

        def setting(name: str) -> str:
            given = settings.extra.get(name)
            if isinstance(given, str) and given.strip():
                return given.strip()
            return settings.variables.setting(*names(name.upper())) or ""

        endpoint = setting("endpoint")
        if not endpoint or (settings.base_url and not settings.extra.get("endpoint")):
            return None
        named = settings.extra.get("api_key")
        key_names = (named,) if isinstance(named, str) and named else names("API_KEY")
        key = settings.variables.get(*key_names)
        given_mode = setting("auth_mode")
        mode = _AUTH_MODES.get((given_mode or ("azure_cli" if key is None else "key")).lower())
        if mode is None:
            raise ConfigError(
                f"the auth mode of Azure OpenAI is {given_mode!r}; write one of "
                f"{', '.join(sorted(_AUTH_MODES))}"
            )
        return cls(
            endpoint=endpoint.rstrip("/"),
            api_version=setting("api_version") or _VERSION,
            auth_mode=mode,
            scope=setting("ad_scope") or _SCOPE,
            client_id=setting("managed_identity_client_id"),
            key=key,
            key_names=key_names,
        )

    def url(self, deployment: str, path: str) -> str:
        """Where to post; the responses API and endpoints that name `/openai/v1` have no version."""
        if self.endpoint.endswith(_V1):
            return f"{self.endpoint}{path}"
        if path == RESPONSES:
            return f"{self.endpoint}{_V1}{path}"
        place = f"{self.endpoint}/openai/deployments/{quote(deployment, safe='')}{path}"
        return f"{place}?{urlencode({'api-version': self.api_version})}"

    def credentials(self, settings: ModelSettings, http: Transport) -> Credentials:
        """The key, or tokens that are renewed."""
        match self.auth_mode:
            case "api_key":
                if self.key is None:
                    raise AccessError(
                        f"Azure OpenAI with auth mode api_key needs a key for the {settings.role} "
                        f"model; set {' or '.join(self.key_names)}"
                    )
                return ApiKey(self.key, "api-key", "")
            case "azure_cli":
                values = {name: settings.variables.setting(name) for name in _FOR_AZ}
                environment = {name: value for name, value in values.items() if value is not None}
                return BearerTokens(lambda: _cli_token(self.scope, environment))
            case _:
                url, headers = self._identity(settings)
                return BearerTokens(lambda: _identity_token(url, headers, http))

    def _identity(self, settings: ModelSettings) -> tuple[str, Mapping[str, str]]:
        """Where, and with which headers, the identity of this machine is asked for its token."""
        find = settings.variables.setting
        wanted = {"resource": self.scope.removesuffix("/.default")}
        if self.client_id:
            wanted["client_id"] = self.client_id
        endpoint, header = find("IDENTITY_ENDPOINT"), settings.variables.get("IDENTITY_HEADER")
        if endpoint and header:
            query = urlencode({"api-version": "2019-08-01", **wanted})
            return f"{endpoint}?{query}", {"X-IDENTITY-HEADER": header}
        host = (find("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _IMDS).rstrip("/")
        query = urlencode({"api-version": "2018-02-01", **wanted})
        return f"{host}/metadata/identity/oauth2/token?{query}", {"Metadata": "true"}


async def _cli_token(scope: str, environment: Mapping[str, str]) -> Token:
    """A token for whoever is logged in with `az login`."""
    program = shutil.which("az", path=environment.get("PATH", ""))
    if program is None:
        raise AccessError(
            "auth mode azure_cli needs the program az, which is not installed; install the Azure "
            "CLI and run `az login`, or set AZURE_OPENAI_API_KEY"
        )
    argv = (program, "account", "get-access-token", "--scope", scope, "--output", "json")
    try:
        done = await run(argv, env=environment, cwd=Path.cwd(), stdin="", timeout=_TOKEN_SECONDS)
    except TimeoutError:
        raise ModelError(f"az gave no token within {_TOKEN_SECONDS:g} s", retryable=True) from None
    except OSError as error:
        raise AccessError(f"az cannot be started: {error.strerror}") from error
    if done.code != 0:
        said = " ".join(done.err.split())[-300:]
        raise AccessError(f"az gave no token ({said}); run `az login`, then the same command again")
    return _token(done.out, "accessToken", "az")


async def _identity_token(url: str, headers: Mapping[str, str], http: Transport) -> Token:
    """A token for the identity of the machine that we run on."""
    answer = await http.send(url, headers=headers, timeout=_TOKEN_SECONDS)
    where = urlsplit(url).netloc
    if answer.status in (408, 404, 410, 429) or answer.status >= 500:
        # The service asks to be asked again in these cases.
        raise ModelError(f"no token from {where} (HTTP {answer.status})", retryable=True)
    if answer.status != 200:
        said = " ".join(answer.body.decode("utf-8", "replace").split())[:300]
        raise AccessError(
            f"no token from the managed identity at {where} (HTTP {answer.status}: {said}); check "
            "that this machine has an identity, and AZURE_OPENAI_MANAGED_IDENTITY_CLIENT_ID"
        )
    return _token(answer.body, "access_token", where)


def _token(answer: str | bytes, name: str, source: str) -> Token:
    try:
        data = read_json(answer)
    except ValueError:
        data = None
    secret = data.get(name) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(secret, str) or not secret:
        raise ModelError(f"{source} answered without a token", retryable=True)
    # Epoch seconds where there are any; older versions of az know only local time.
    return Token(secret, _expiry(data.get("expires_on"), data.get("expiresOn")))


def _expiry(seconds: Json, local: Json) -> float:
    readers: tuple[tuple[Json, Callable[[str], float]], ...] = (
        (seconds, float),
        (local, lambda text: datetime.fromisoformat(text).astimezone().timestamp()),
    )
    for value, read in readers:
        if value is not None:
            try:
                return read(str(value))
            except ValueError:
                continue
    return time.time() + 600
