"""The section `model`: which models play the roles, with the keys of each backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from skillopt.config.keys import Amount, Count, Key, Name, Positive, Seconds, Variable
from skillopt.errors import ConfigError

Role: TypeAlias = Literal["optimizer", "target", "judge"]
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
UseSdk: TypeAlias = Literal["auto", "sdk", "cli"] | bool | None
"""How a coding agent is started: through its Python package or as a program."""
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


class Section(BaseModel):
    """Part of a configuration."""

    # Strict, because a batch size of `true` or a seed of "42 " is a mistake and not a number.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleModel:
    """The model of one role, with shared and role-specific settings put together."""

    role: Role
    lender: Role
    """The role whose key and address count where this one has no variables of its own."""
    backend: str
    """A registered name or `module:Name`; aliases are resolved."""
    model: str
    base_url: str
    api_key_env: str
    temperature: float | None
    max_tokens: int
    timeout_seconds: float
    retries: int
    outage_seconds: float
    max_concurrency: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    reasoning_effort: str
    own_reasoning_effort: str | None
    """Given for this role alone, so that it is meant for just this model."""
    input_price: float | None
    output_price: float | None
    cached_input_price: float | None
    extra: Mapping[str, object]
    """Keys that only this backend understands, without its name in front."""
    left_open: frozenset[str]
    """Settings that have their default, so that a backend may know better."""


_DEFAULT_BACKEND: Final = "openai_chat"
_ADDRESS: Final = ("backend", "base_url")
"""What makes a judge's server another one than the optimizer's."""
_ASKS: Final = Key(asks=True)


class ModelSection(Section):
    """Which models play the roles. `optimizer_X`, `target_X`, `judge_X` go before a shared `X`."""

    backend: Annotated[Name, Key(flat="model_backend")] = "azure_openai"
    """backend of both roles, unless a role sets its own below"""
    optimizer: Annotated[Name, Key(flat="optimizer_model")] = "gpt-5.5"
    """model that proposes edits to the skill"""
    target: Annotated[Name, Key(flat="target_model")] = "gpt-5.5"
    """frozen model that uses the skill"""
    optimizer_backend: Name = _DEFAULT_BACKEND
    """openai_chat | claude_chat | qwen_chat | minimax_chat | openai_compatible | claude_cli |
    codex_cli | copilot_chat | gemini_chat | handoff | litellm | local | scripted | module:Name"""
    target_backend: Name = _DEFAULT_BACKEND
    """as above; write `openai` to keep openai_chat under another `backend`; or an agent:
    codex_exec | claude_code_exec | copilot_exec | opencode_exec | gemini_exec | qwen_exec |
    cursor_exec"""
    judge: Annotated[Name | None, Key(flat="judge_model", also=("env.judge_model",))] = None
    """model that grades, if the environment needs one; null = the optimizer"""
    judge_backend: Name | None = None
    """as above; null = the optimizer's backend"""

    # Settings of both roles.
    base_url: str = ""
    """address of the endpoint; empty = default of the backend"""
    api_key_env: Variable = ""
    """name of the environment variable that holds the key; empty = default of the backend"""
    temperature: Amount | None = None
    """null = not sent"""
    max_tokens: Positive = 16384
    """maximum tokens of one reply"""
    timeout_seconds: Seconds = 300.0
    """seconds for one attempt at a call"""
    retries: Count = 5
    """retries of a call after a temporary error"""
    outage_seconds: Amount = 600.0
    """seconds to wait for a server that is down"""
    max_concurrency: Positive | None = None
    """maximum calls in parallel; null = number of workers"""
    requests_per_minute: Positive | None = None
    """null = no limit"""
    tokens_per_minute: Positive | None = None
    """null = no limit"""
    reasoning_effort: Effort = "medium"
    """empty = off | none | minimal | low | medium | high | xhigh | max"""
    rewrite_reasoning_effort: Annotated[Effort, _ASKS] = ""
    """for the call that rewrites a body; empty = reasoning_effort"""
    rewrite_max_completion_tokens: Annotated[Positive, _ASKS] = 64000
    """maximum tokens of a reply with a whole body"""
    input_price: Amount | None = None
    """dollars per million tokens; null = price list of the extra `prices`, else unknown"""
    output_price: Amount | None = None
    """dollars per million tokens"""
    cached_input_price: Amount | None = None
    """dollars per million tokens; null = input_price"""

    # Backend local: a GGUF file in this process.
    local_threads: Positive | None = None
    """null = one per physical core"""
    local_parallel: Positive = 1
    """calls computed together; above 1, texts may differ in rare cases"""
    local_slots: Positive = 4
    """conversations whose prefix stays in memory"""
    local_context: Positive = 8192
    """context size of one conversation, in tokens"""
    local_batch: Positive = 256
    """prompt tokens computed in one batch"""

    # Programs: as agents that are targets (claude_code_exec, codex_exec, copilot_exec, ...), and as
    # text models (claude_cli, codex_cli, copilot_chat).
    claude_code_exec_path: str = ""
    """empty = claude on PATH"""
    claude_code_exec_profile: str = ""
    """agent: ~/.claude/NAME.json as its settings; empty = none"""
    claude_code_exec_use_sdk: UseSdk = "auto"
    """agent: any value starts the program, as the SDK does"""
    claude_code_exec_effort: Effort = "medium"
    """agent: medium = reasoning_effort"""
    claude_code_exec_max_thinking_tokens: Count = 16384
    """agent: maximum tokens of reasoning; 0 = none"""
    codex_exec_path: Annotated[str, Key(also=("codex_path", "codex_cli_bin", "codex_bin"))] = ""
    """empty = codex on PATH"""
    codex_exec_profile: str = ""
    """empty = none"""
    codex_exec_sandbox: Annotated[
        Literal["", "read-only", "workspace-write", "danger-full-access"],
        Key(also=("sandbox", "codex_sandbox")),
    ] = ""
    """agent: its own sandbox within ours; empty = danger-full-access, which ours limits"""
    codex_exec_reasoning_effort: Effort = ""
    """agent: empty = reasoning_effort"""
    codex_exec_use_sdk: UseSdk = None
    """agent: any value starts the program, as the SDK does"""
    codex_exec_network_access: bool | None = None
    """agent: true = network besides the model, as env.network"""
    codex_exec_web_search: bool | None = None
    """agent: true = the provider may search the web"""
    codex_exec_approval_policy: Literal["", "untrusted", "on-failure", "on-request", "never"] = ""
    """agent: empty = never, because nobody is there to ask"""
    codex_trace_to_optimizer: bool = True
    """any agent: show its actions to the optimizer; false = only its answer"""
    exec_empty_response_retries: Count | None = None
    """any agent: further starts after an empty answer; null = EXEC_EMPTY_RESPONSE_RETRIES, else
    1"""
    cursor_exec_path: str = ""
    """empty = cursor-agent on PATH"""
    cursor_exec_sandbox: Literal["", "enabled", "disabled"] = ""
    """agent: its own sandbox within ours; empty = disabled"""
    copilot_exec_path: str = ""
    """empty = copilot on PATH"""
    copilot_exec_home: str = ""
    """its home folder; empty = default"""
    copilot_exec_allow_all_tools: bool | None = None
    """agent: false = only tools that it allows by itself"""
    opencode_exec_path: str = ""
    """empty = opencode on PATH"""
    gemini_exec_path: str = ""
    """empty = gemini on PATH"""
    qwen_exec_path: str = ""
    """empty = qwen on PATH"""
    copilot_chat_optimizer_model: str = ""
    """empty = optimizer"""
    copilot_chat_target_model: str = ""
    """empty = target"""
    copilot_chat_timeout: Seconds | None = None
    """seconds for one call; null = timeout_seconds"""

    def role(self, name: Role) -> RoleModel:
        """The model of a role.

        `backend` fills a role unless the role's own backend differs from its default. A judge is
        the optimizer as far as it is not told otherwise; on a server of its own it shares nothing.
        """
        values = self.model_dump()
        alone = name != "judge" or any(values.get(f"judge_{key}") is not None for key in _ADDRESS)
        lender: Role = name if alone else "optimizer"
        backend = _backend(self._label(name), name)
        extra = _own_settings(backend, (lender, name), values)
        special = _general(backend, extra)
        named = values.get(f"{backend}_{name}_model") or special.get("model")
        model = named or values[name] or values[lender]
        if model is None:
            raise ConfigError(
                "model.judge: should name the judge's model, because it has a server of its own"
            )

        def setting(key: str) -> object:
            """The first of the backend's, the role's, its lender's and the shared one."""
            ranked = (special.get(key), values.get(f"{name}_{key}"), values.get(f"{lender}_{key}"))
            return next((value for value in ranked if value is not None), values[key])

        settings = cast("dict[str, Any]", {key: setting(key) for key in _SHARED})
        settings["model"] = model
        own_effort = values.get(f"{name}_reasoning_effort")
        return RoleModel(
            role=name,
            lender=lender,
            backend=backend,
            own_reasoning_effort=values.get(f"{lender}_reasoning_effort")
            if own_effort is None
            else own_effort,
            extra=extra,
            left_open=frozenset(key for key, value in settings.items() if value == _default(key)),
            **settings,
        )

    def options(self, family: str, role: Role) -> dict[str, Any]:
        """Keys that begin with a name, without it; those of the role go before the others."""
        return _own_settings(family, (role,), self.model_dump())

    def _label(self, role: Role) -> str:
        if role == "judge" and self.judge_backend is not None:
            return self.judge_backend
        own = self.target_backend if role == "target" else self.optimizer_backend
        return self.backend if own == _DEFAULT_BACKEND else own


_SHARED: Final = [
    field.name
    for field in fields(RoleModel)
    if field.name in ModelSection.model_fields and field.name != "backend"
]
"""The keys that every role has once more for itself."""


def _default(key: str) -> object:
    """What a setting of a role is when nobody sets it."""
    return ModelSection.model_fields["target" if key == "model" else key].default


class BackendKeys(BaseModel):
    """Keys that only one backend understands."""

    # Keys of single backends; see docs/backends.md.
    openai_chat_api: Literal["auto", "chat", "responses"] = "auto"
    """backend openai_chat: auto = by the model's name | chat | responses"""
    azure_openai_endpoint: Annotated[str, Key(also=("azure_endpoint",))] = ""
    """backend openai_chat: https://NAME.openai.azure.com turns Azure on"""
    azure_openai_api_version: Annotated[str, Key(also=("azure_api_version",))] = ""
    """empty = AZURE_OPENAI_API_VERSION, else 2024-12-01-preview"""
    azure_openai_api_key: Annotated[Variable, Key(also=("azure_api_key",))] = ""
    """name of the variable that holds Azure's key"""
    azure_openai_auth_mode: AzureMode = ""
    """empty = api_key with a key, else azure_cli | managed_identity | openai_compatible"""
    azure_openai_ad_scope: str = ""
    """empty = https://cognitiveservices.azure.com/.default"""
    azure_openai_managed_identity_client_id: str = ""
    """of a user-assigned identity"""
    claude_chat_thinking: Thinking = ""
    """backend claude_chat: empty = default of the model | adaptive | disabled | tokens, from
    1024"""
    qwen_chat_thinking_mode: Literal["", "server_default", "enabled", "disabled"] = ""
    """backend qwen_chat: empty = server_default | enabled | disabled"""
    qwen_chat_enable_thinking: bool | None = None
    """older switch; counts where thinking_mode is not set"""
    qwen_chat_use_max_completion_tokens: bool | None = None
    """true: the limit is sent under this newer name"""
    minimax_region: Literal["", "global_en", "cn_zh"] = ""
    """backend minimax_chat: empty = global_en | cn_zh"""
    minimax_enable_thinking: bool | None = None
    """null = false; MiniMax-M2 thinks anyway"""


class ServerKeys(BaseModel):
    """Keys that some backends have for themselves, each with the name of the backend in front."""

    base_url: str = ""
    api_key: Variable = ""
    model: str = ""
    temperature: Amount | None = None
    max_tokens: Positive | None = None
    timeout_seconds: Seconds | None = None


_SERVERS: Final = ("openai_compatible", "qwen_chat", "minimax")
_FAMILIES: Final = {
    "openai_chat": ("openai_chat", "azure_openai"),
    "minimax_chat": ("minimax",),
    "claude_cli": ("claude_code_exec",),
    "codex_cli": ("codex_exec",),
    "copilot_chat": ("copilot_exec", "copilot_chat"),
}
"""Beginnings of a backend's keys, where they are not its name."""

_GENERAL: Final = {name: name for name in ServerKeys.model_fields} | {"api_key": "api_key_env"}
"""A backend's own word for a setting that every model has."""


def _own_settings(backend: str, roles: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What was set for this backend, without its name in front; the last role's value wins.

    A blank value of a role is unset, so that a file may write every key out.
    """
    own: dict[str, Any] = {}
    for family in _FAMILIES.get(backend, (backend,)):
        for start in (f"{family}_", *(f"{role}_{family}_" for role in roles)):
            own |= {
                key.removeprefix(start): value
                for key, value in values.items()
                if key.startswith(start) and (start == f"{family}_" or value not in (None, ""))
            }
    return own


def _general(backend: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a backend's own settings that every model has, under its general names."""
    if backend == "openai_chat":
        return {}  # Its keys are Azure's, and count only where Azure is used.
    return {
        _GENERAL[name]: value
        for name, value in own.items()
        if name in _GENERAL and value is not None and value != ""
    }


BACKENDS: Final = {
    "azure": "openai_chat",
    "azure_openai": "openai_chat",
    "openai": "openai_chat",
    "compat": "openai_compatible",
    "openai-compatible": "openai_compatible",
    "anthropic": "claude_chat",
    "claude": "claude_chat",
    "claude_code": "claude_code_exec",
    "codex": "codex_exec",
    "copilot": "copilot_chat",
    "copilot_cli": "copilot_chat",
    "github_copilot": "copilot_chat",
    "cursor": "cursor_exec",
    "cursor_agent": "cursor_exec",
    "qwen": "qwen_chat",
    "minimax": "minimax_chat",
}
"""Other names of backends."""

AS_TEXT: Final = {
    "claude_code_exec": "claude_cli",
    "codex_exec": "codex_cli",
    "copilot_exec": "copilot_chat",
}
"""Programs that work on tasks as agents: a role that only writes text uses them as text models."""


def _backend(label: str, role: Role) -> str:
    """The registered name of a role's backend, which may be given by another name."""
    name = BACKENDS.get(label, label)
    return name if role == "target" else AS_TEXT.get(name, name)


_OF_ROLES: Final = {
    "judge_max_tokens": ("judge_max_completion_tokens", "env.judge_max_completion_tokens"),
    "judge_retries": ("env.judge_retries",),
    "target_max_tokens": ("env.max_completion_tokens",),
}
"""Other names of the keys of one role."""


def _declared(section: type[BaseModel]) -> dict[str, Any]:
    """Annotation and default of each key, as pydantic takes them."""
    # Any, because these are annotations of whatever form.
    kinds = get_type_hints(section, include_extras=True)
    return {name: (kinds[name], field.default) for name, field in section.model_fields.items()}


def _of_servers() -> dict[str, Any]:
    words = {name: f"as {general}" for name, general in _GENERAL.items()} | {"model": "the model"}
    return {
        f"{server}_{name}": (kind, Field(default, description=f"{words[name]}, for {server} only"))
        for server in _SERVERS
        for name, (kind, default) in _declared(ServerKeys).items()
    }


def _for_roles(keys: Mapping[str, Any]) -> dict[str, Any]:
    """These keys once more for each role, where null is unset."""
    return {
        key: (
            Annotated[kind | None, Key(also=_OF_ROLES.get(key, ()))],
            Field(None, description=f"see {name}"),
        )
        for role in get_args(Role)
        for name, (kind, _) in keys.items()
        if (key := f"{role}_{name}")
    }


_OF_BACKENDS: Final = _declared(BackendKeys) | _of_servers()

MODEL: Final = create_model(
    "MODEL",
    __base__=ModelSection,
    **_for_roles({name: _declared(ModelSection)[name] for name in _SHARED}),
    **_OF_BACKENDS,
    **_for_roles(_OF_BACKENDS),
)
"""The section with every shared key for each role, and with the keys of each backend."""
