"""Azure OpenAI: addresses, keys, and tokens from `az` or a managed identity."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from skillopt.core.intake import read_json
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.cli.process import run
from skillopt.model.credentials import Credentials, Key, Token, Tokens
from skillopt.model.provider import HttpAnswer, Json, ModelSettings, Transport

DEFAULT_VERSION: Final = "2024-12-01-preview"
DEFAULT_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
AUTH_MODES: Final = {
    "api_key": "api_key",
    "key": "api_key",
    "azure_cli": "azure_cli",
    "cli": "azure_cli",
    "managed_identity": "managed_identity",
    "aad": "managed_identity",
    "azure_ad": "managed_identity",
    "openai_compatible": "openai_compatible",
    "compat": "openai_compatible",
    "openai": "openai_compatible",
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
        find = _Finder(settings)
        endpoint = find.setting("endpoint")
        if not endpoint or (settings.base_url and not settings.extra.get("endpoint")):
            return None
        key = find.key()
        usual = "azure_cli" if key is None else "api_key"
        mode = AUTH_MODES.get((find.setting("auth_mode") or usual).lower())
        if mode is None:
            raise ConfigError(
                f"the auth mode of Azure OpenAI is {find.setting('auth_mode')!r}; write one of "
                f"{', '.join(sorted(AUTH_MODES))}"
            )
        return cls(
            endpoint=endpoint.rstrip("/"),
            api_version=find.setting("api_version") or DEFAULT_VERSION,
            auth_mode=mode,
            scope=find.setting("ad_scope") or DEFAULT_SCOPE,
            client_id=find.setting("managed_identity_client_id"),
            key=key,
            key_names=find.key_names,
        )

    def url(self, deployment: str, path: str) -> str:
        """Where to post; the responses API and endpoints that name `/openai/v1` have no version."""
        if self.endpoint.endswith(_V1):
            return f"{self.endpoint}{path}"
        if path == "/responses":
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
                return Key(self.key, "api-key", "")
            case "azure_cli":
                environment = _environment(settings)
                return Tokens(lambda: cli_token(self.scope, environment))
            case _:
                source = _identity(settings, self.scope, self.client_id)
                return Tokens(lambda: identity_token(source, http))


@dataclass(frozen=True, slots=True)
class _Finder:
    """Looks in the settings first, then in the environment."""

    settings: ModelSettings

    def setting(self, name: str) -> str:
        given = self.settings.extra.get(name)
        if isinstance(given, str) and given.strip():
            return given.strip()
        return self.settings.variables.setting(*self._names(name)) or ""

    def key(self) -> str | None:
        return self.settings.variables.get(*self.key_names)

    @property
    def key_names(self) -> tuple[str, ...]:
        given = self.settings.extra.get("api_key")
        return (given,) if isinstance(given, str) and given else self._names("api_key")

    def _names(self, name: str) -> tuple[str, ...]:
        role, what = (self.settings.owner or self.settings.role).upper(), name.upper()
        return (
            f"{role}_AZURE_OPENAI_{what}",
            f"AZURE_OPENAI_{role}_{what}",
            f"AZURE_OPENAI_{what}",
        )


async def cli_token(scope: str, environment: Mapping[str, str]) -> Token:
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
    try:
        data: Json = read_json(done.out)
    except ValueError:
        data = None
    return _token(data, "accessToken", "az")


@dataclass(frozen=True, slots=True)
class ManagedIdentity:
    """Where a managed identity is asked for its token."""

    url: str
    headers: Mapping[str, str]


def _identity(settings: ModelSettings, scope: str, client_id: str) -> ManagedIdentity:
    find = settings.variables.setting
    wanted = {"resource": scope.removesuffix("/.default")}
    if client_id:
        wanted["client_id"] = client_id
    endpoint = find("IDENTITY_ENDPOINT")
    header = settings.variables.get("IDENTITY_HEADER")
    if endpoint and header:
        query = urlencode({"api-version": "2019-08-01", **wanted})
        return ManagedIdentity(f"{endpoint}?{query}", {"X-IDENTITY-HEADER": header})
    host = (find("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _IMDS).rstrip("/")
    query = urlencode({"api-version": "2018-02-01", **wanted})
    return ManagedIdentity(f"{host}/metadata/identity/oauth2/token?{query}", {"Metadata": "true"})


async def identity_token(source: ManagedIdentity, http: Transport) -> Token:
    """A token for the identity of the machine that we run on."""
    answer = await http.get(source.url, headers=source.headers, timeout=_TOKEN_SECONDS)
    where = urlsplit(source.url).netloc
    if answer.status in (408, 404, 410, 429) or answer.status >= 500:
        # The service asks to be asked again in these cases.
        raise ModelError(f"no token from {where} (HTTP {answer.status})", retryable=True)
    if answer.status != 200:
        said = " ".join(answer.body.decode("utf-8", "replace").split())[:300]
        raise AccessError(
            f"no token from the managed identity at {where} (HTTP {answer.status}: {said}); check "
            "that this machine has an identity, and AZURE_OPENAI_MANAGED_IDENTITY_CLIENT_ID"
        )
    return _token(_json(answer), "access_token", where)


def _json(answer: HttpAnswer) -> Json:
    try:
        return answer.json()
    except ValueError:
        return None


def _token(data: Json, name: str, source: str) -> Token:
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


def _environment(settings: ModelSettings) -> Mapping[str, str]:
    found = ((name, settings.variables.setting(name)) for name in _FOR_AZ)
    return {name: value for name, value in found if value is not None}
