"""Keys that only one model backend understands, and kinds of values that several keys share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from pydantic import AfterValidator, BaseModel, Field

from skillopt.config.redaction import is_variable_name


def _variable(name: str) -> str:
    # What looks like a key must not pass for a name, because names are shown in messages.
    if name and not is_variable_name(name):
        raise ValueError("should be the name of an environment variable, not the key itself")
    return name


Positive: TypeAlias = Annotated[int, Field(ge=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]


AzureMode: TypeAlias = Literal[
    "",
    "api_key",
    "key",
    "azure_cli",
    "cli",
    "managed_identity",
    "aad",
    "azure_ad",
    "openai_compatible",
    "compat",
    "openai",
]
Thinking: TypeAlias = Literal["", "adaptive", "disabled"] | Annotated[int, Field(ge=1024)]


class BackendKeys(BaseModel):
    """Each key with its type and default."""

    openai_chat_api: Literal["auto", "chat", "responses"] = "auto"
    azure_openai_endpoint: str = ""
    azure_openai_api_version: str = ""
    azure_openai_api_key: Variable = ""
    azure_openai_auth_mode: AzureMode = ""
    azure_openai_ad_scope: str = ""
    azure_openai_managed_identity_client_id: str = ""
    claude_chat_thinking: Thinking = ""
    openai_compatible_base_url: str = ""
    openai_compatible_api_key: Variable = ""
    openai_compatible_model: str = ""
    openai_compatible_temperature: Amount | None = None
    openai_compatible_max_tokens: Positive | None = None
    openai_compatible_timeout_seconds: Seconds | None = None
    qwen_chat_base_url: str = ""
    qwen_chat_api_key: Variable = ""
    qwen_chat_model: str = ""
    qwen_chat_temperature: Amount | None = None
    qwen_chat_max_tokens: Positive | None = None
    qwen_chat_timeout_seconds: Seconds | None = None
    qwen_chat_thinking_mode: Literal["", "server_default", "enabled", "disabled"] = ""
    qwen_chat_enable_thinking: bool | None = None
    qwen_chat_use_max_completion_tokens: bool | None = None
    minimax_region: Literal["", "global_en", "cn_zh"] = ""
    minimax_base_url: str = ""
    minimax_api_key: Variable = ""
    minimax_model: str = ""
    minimax_temperature: Amount | None = None
    minimax_max_tokens: Positive | None = None
    minimax_timeout_seconds: Seconds | None = None
    minimax_enable_thinking: bool | None = None


_FAMILIES: Final = {
    "openai_chat": ("openai_chat", "azure_openai"),
    "minimax_chat": ("minimax",),
    "claude_cli": ("claude_code_exec",),
    "codex_cli": ("codex_exec",),
    "copilot_chat": ("copilot_exec", "copilot_chat"),
}
"""Beginnings of a backend's keys, where they are not its name."""

_GENERAL: Final = {"model": "model", "base_url": "base_url", "api_key": "api_key_env"} | {
    name: name for name in ("temperature", "max_tokens", "timeout_seconds")
}
"""A backend's own word for a setting that every model has."""


def fields(roles: Collection[str]) -> dict[str, Any]:
    """Every key with its type and default, then the same for each role."""
    # Any, because these are annotations for pydantic, of whatever form.
    kinds: dict[str, Any] = get_type_hints(BackendKeys, include_extras=True)
    shared = {name: (kinds[name], each.default) for name, each in BackendKeys.model_fields.items()}
    return shared | for_roles(BackendKeys, tuple(shared), roles)


def for_roles(
    section: type[BaseModel], names: Collection[str], roles: Collection[str]
) -> dict[str, Any]:
    """These keys of a section once more for each role, where null is unset."""
    kinds: dict[str, Any] = get_type_hints(section, include_extras=True)
    return {f"{role}_{name}": (kinds[name] | None, None) for role in roles for name in names}


def own_settings(backend: str, roles: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What was set for this backend, without its name in front; the last role's value wins.

    A blank value of a role is unset, so that a file may write every key out.
    """
    found: dict[str, Any] = {}
    for family in _FAMILIES.get(backend, (backend,)):
        for start in (f"{family}_", *(f"{role}_{family}_" for role in roles)):
            found |= {
                key.removeprefix(start): value
                for key, value in values.items()
                if key.startswith(start) and (start == f"{family}_" or value not in (None, ""))
            }
    return found


def general(backend: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a backend's own settings that every model has, under its general names."""
    if backend == "openai_chat":
        return {}  # Its keys are Azure's, and count only where Azure is used.
    return {
        _GENERAL[name]: value
        for name, value in own.items()
        if name in _GENERAL and value is not None and value != ""
    }
