"""OpenAI, Azure OpenAI, and every server with the chat completions API."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar, Final

from skillopt.errors import AccessError, ConfigError
from skillopt.model.azure import Azure
from skillopt.model.completions import Completions
from skillopt.model.credentials import Key
from skillopt.model.provider import ModelSettings, Transport, filled, names_for, one_of, variable
from skillopt.model.remote import Connection, Remote, address, checked, key_hint
from skillopt.model.responses import Responses

COMPLETIONS: Final = "/chat/completions"
RESPONSES: Final = "/responses"
_WANTS_RESPONSES: Final = re.compile(
    r"codex|deep-research|(?:^|[-/])(?:gpt|o)[\w.-]{0,60}-pro(?:-|$)"
)
"""Models that OpenAI serves by the responses API only."""
_TAKES_EFFORT: Final = re.compile(r"(?:o[1-9]|gpt-[5-9]|codex)(?!.{0,60}-chat)")
"""Models that reason before they answer, by their name."""


class OpenAICompatible:
    """A model behind any server that speaks chat completions; the key is optional."""

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

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as `OPENAI_COMPATIBLE_*` variables say."""
        return filled(settings, "OPENAI_COMPATIBLE")

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        """A model ready to be asked; what is missing in the settings is an error now."""
        settings = cls.settle(settings)
        base_url = settings.base_url.strip()
        if not base_url:
            names = " or ".join(names_for(settings.role, cls.url_variables))
            raise ConfigError(
                f"backend openai_compatible needs an address for the {settings.role} model: "
                f"set model.base_url, or {names}"
            )
        hint = key_hint(settings, names_for(settings.role, cls.key_variables))
        return completions_at(
            "openai_compatible", address(base_url, COMPLETIONS), hint, Completions(settings), http
        )


class OpenAIChat:
    """OpenAI, or Azure where an endpoint of Azure is given; by either of its two APIs."""

    key_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_OPENAI_API_KEY", "OPENAI_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_OPENAI_BASE_URL", "OPENAI_BASE_URL")
    key_required: ClassVar[bool] = False
    """Azure may do without."""
    default_url: ClassVar[str] = "https://api.openai.com/v1"
    takes_shared_effort: ClassVar[bool] = True

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as the variable `ROLE_DEPLOYMENT` and the kind of model say."""
        return _with_effort(_named(settings))

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        """A model ready to be asked; what is missing in the settings is an error now."""
        settings = cls.settle(settings)
        path = _path(settings)
        azure = Azure.read(settings)
        names = names_for(settings.role, cls.key_variables)
        if azure is None:
            hint = key_hint(settings, names)
            base_url = settings.base_url.strip() or cls.default_url
            return cls._at(settings, address(base_url, path), Key(settings.api_key), hint, http)
        if azure.auth_mode == "openai_compatible":
            secret = settings.api_key if azure.key is None else azure.key
            hint = f"the key in {' or '.join((*azure.key_names, *names))}"
            return cls._at(settings, address(azure.endpoint, path), Key(secret), hint, http)
        url = azure.url(settings.name, path)
        address(url, path)  # only to refuse what is none
        credentials = azure.credentials(settings, http)
        hint = f"{' or '.join(azure.key_names)} and the auth mode, which is {azure.auth_mode}"
        return cls._remote(settings, Connection(http, url, credentials, hint), "azure")

    @classmethod
    def _at(cls, settings: ModelSettings, url: str, key: Key, hint: str, http: Transport) -> Remote:
        if key.secret is None:
            names = " or ".join(names_for(settings.owner or settings.role, cls.key_variables))
            raise AccessError(
                f"the {settings.role} model {settings.name!r} needs a key: set {names} in the "
                "environment or in .env; for Azure OpenAI, set AZURE_OPENAI_ENDPOINT or "
                "model.azure_openai_endpoint"
            )
        return cls._remote(settings, Connection(http, url, checked(key, url, hint), hint))

    @classmethod
    def _remote(cls, settings: ModelSettings, line: Connection, *quirks: str) -> Remote:
        if line.url.partition("?")[0].endswith(RESPONSES):
            return Remote.of(
                "openai_chat", settings, Responses(settings), line, *quirks, "responses"
            )
        dialect = Completions(settings, "max_completion_tokens", effort_with_tools=False)
        return Remote.of("openai_chat", settings, dialect, line, *quirks)


def completions_at(
    backend: str, url: str, hint: str, dialect: Completions, http: Transport, *quirks: str
) -> Remote:
    """A model that speaks chat completions at an address, with the key of its settings."""
    settings = dialect.settings
    line = Connection(http, url, checked(Key(settings.api_key), url, hint), hint)
    return Remote.of(backend, settings, dialect, line, *quirks)


def _named(settings: ModelSettings) -> ModelSettings:
    deployment = settings.variables.setting(f"{settings.role.upper()}_DEPLOYMENT")
    if deployment is None or "name" not in settings.left_open:
        return settings
    return replace(settings, name=deployment)


def _with_effort(settings: ModelSettings) -> ModelSettings:
    """An effort that nobody asked for goes only to models that are known to take one."""
    asked = "effort" not in settings.left_open
    if asked or _TAKES_EFFORT.match(settings.name.lower().rpartition("/")[2]):
        return settings
    return replace(settings, effort=None)


def _path(settings: ModelSettings) -> str:
    """The API, as the settings, the environment or else the model's name say."""
    wish = settings.extra.get("api", "auto")
    if wish == "auto":
        wish = variable(settings, "OPENAI_CHAT_API", one_of("auto", "chat", "responses"))
    if wish == "chat":
        return COMPLETIONS
    if wish == "responses" or _WANTS_RESPONSES.search(settings.name.lower()):
        return RESPONSES
    return COMPLETIONS
