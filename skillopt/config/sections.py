"""The sections of a configuration: closed, immutable, every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    create_model,
    model_validator,
)

from skillopt.config.backends import (
    Amount,
    Count,
    Name,
    Positive,
    Seconds,
    Share,
    Variable,
    fields,
    for_roles,
    general,
    own_settings,
)
from skillopt.config.legacy import backend_of, pair_policy_of, update_mode_of
from skillopt.config.parts import GATES, PROPOSERS
from skillopt.config.problems import shown
from skillopt.config.registry import Registry
from skillopt.core.ports import Gate, Proposer
from skillopt.errors import ConfigError

Role: TypeAlias = Literal["optimizer", "target", "judge"]
RateControl: TypeAlias = Literal["fixed", "autonomous", "none", "volatility"]
"""Who decides the learning rate."""
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
UseSdk: TypeAlias = Literal["auto", "sdk", "cli"] | bool | None
"""How a coding agent is started: through its Python package or as a program."""


def _ratio(text: str) -> str:
    if text != "auto" and not re.fullmatch(r"\d+(\.\d+)?(:\d+(\.\d+)?){2}", text):
        raise ValueError(f"should be three shares such as '2:1:7', not {text!r}")
    return text


def _one_word(word: str) -> str:
    if not re.fullmatch(r"[^\W_]+(?:['\u2019-][^\W_]+)*", word):
        raise ValueError(f"should be a single word, not {word!r}")
    return word


def _at_least(least: int) -> Callable[[int], int]:
    def checked(number: int) -> int:
        if 0 < number < least:
            raise ValueError(f"should be at least {least}, or 0 for no limit, not {number}")
        return number

    return checked


def _coherent(use_gate: bool, others: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's
    gate = others.data.get("gate", "always")
    if not use_gate and gate != "always":
        raise ValueError(
            f"is false, which means gate: always, but gate is {gate}; remove one of them"
        )
    return use_gate


def _several(names: object) -> object:
    match names:
        case str():
            return (names,)
        case list():
            return tuple(cast("list[object]", names))
        case _ if callable(names):
            return (names,)
        case _:
            return names


def _part(registry: Registry[Any], kind: type[object]) -> Callable[[object], object]:
    """Accepts a registered name, `module:Name`, or an object that is such a part."""

    def checked(value: object) -> object:
        if isinstance(value, str):
            problem = registry.unknown(value)
        elif isinstance(value, kind) and not isinstance(value, type):
            problem = ""
        else:
            problem = f"should be a {registry.what} or the name of one, not {shown(value)}"
        if problem:
            raise ValueError(problem)
        return value

    return checked


UpdateMode: TypeAlias = Annotated[
    Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"],
    BeforeValidator(update_mode_of),
]
Proposers: TypeAlias = Annotated[
    tuple[Annotated[str | Proposer, PlainValidator(_part(PROPOSERS, Proposer))], ...],
    Field(min_length=1),
    BeforeValidator(_several),
]
PairPolicy: TypeAlias = Annotated[
    Literal["mixed", "changed", "unchanged"], BeforeValidator(pair_policy_of)
]
LeadingWords: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_one_word)], ...],
    Field(min_length=1),
    BeforeValidator(_several),
]


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


_SHARED: Final = (
    "base_url",
    "api_key_env",
    "temperature",
    "max_tokens",
    "timeout_seconds",
    "retries",
    "outage_seconds",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "reasoning_effort",
    "input_price",
    "output_price",
    "cached_input_price",
)
_DEFAULT_BACKEND: Final = "openai_chat"


_ADDRESS: Final = ("backend", "base_url")
"""What makes a judge's server another one than the optimizer's."""


class ModelSection(Section):
    """Which models play the roles. `optimizer_X`, `target_X`, `judge_X` go before a shared `X`."""

    backend: Name = "azure_openai"
    optimizer: Name = "gpt-5.5"
    target: Name = "gpt-5.5"
    optimizer_backend: Name = _DEFAULT_BACKEND
    target_backend: Name = _DEFAULT_BACKEND
    judge: Name | None = None
    judge_backend: Name | None = None

    base_url: str = ""
    api_key_env: Variable = ""
    temperature: Amount | None = None
    max_tokens: Positive = 16384
    timeout_seconds: Seconds = 300.0
    retries: Count = 5
    outage_seconds: Amount = 600.0
    max_concurrency: Positive | None = None
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    reasoning_effort: Effort = "medium"
    rewrite_reasoning_effort: Effort = ""
    rewrite_max_completion_tokens: Positive = 64000
    input_price: Amount | None = None
    output_price: Amount | None = None
    cached_input_price: Amount | None = None

    local_threads: Positive | None = None
    local_parallel: Positive = 1
    local_slots: Positive = 4
    local_context: Positive = 8192
    local_batch: Positive = 256

    claude_code_exec_path: str = ""
    claude_code_exec_profile: str = ""
    claude_code_exec_use_sdk: UseSdk = "auto"
    claude_code_exec_effort: Effort = "medium"
    claude_code_exec_max_thinking_tokens: Count = 16384
    codex_exec_path: str = ""
    codex_exec_profile: str = ""
    codex_exec_sandbox: Literal["", "read-only", "workspace-write", "danger-full-access"] = ""
    codex_exec_reasoning_effort: Effort = ""
    codex_exec_use_sdk: UseSdk = None
    codex_exec_network_access: bool | None = None
    codex_exec_web_search: bool | None = None
    codex_exec_approval_policy: Literal["", "untrusted", "on-failure", "on-request", "never"] = ""
    codex_trace_to_optimizer: bool = True
    cursor_exec_path: str = ""
    cursor_exec_sandbox: Literal["", "enabled", "disabled"] = ""
    copilot_exec_path: str = ""
    copilot_exec_home: str = ""
    copilot_exec_allow_all_tools: bool | None = None
    copilot_chat_optimizer_model: str = ""
    copilot_chat_target_model: str = ""
    copilot_chat_timeout: Seconds | None = None

    def role(self, name: Role) -> RoleModel:
        """The model of a role.

        `backend` fills a role unless the role's own backend differs from its default. A judge is
        the optimizer as far as it is not told otherwise; on a server of its own it shares nothing.
        """
        values = self.model_dump()
        alone = name != "judge" or any(values.get(f"judge_{key}") is not None for key in _ADDRESS)
        lender: Role = name if alone else "optimizer"
        backend = backend_of(self._label(name), name)
        extra = own_settings(backend, (lender, name), values)
        special = general(backend, extra)
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
            left_open=frozenset(key for key, each in settings.items() if each == _default(key)),
            **settings,
        )

    def _label(self, role: Role) -> str:
        if role == "judge" and self.judge_backend is not None:
            return self.judge_backend
        own = self.target_backend if role == "target" else self.optimizer_backend
        return self.backend if own == _DEFAULT_BACKEND else own


def _default(key: str) -> object:
    """What a setting of a role is when nobody sets it."""
    return ModelSection.model_fields["target" if key == "model" else key].default


class TrainSection(Section):
    """How long and on what to train."""

    num_epochs: Positive = 4
    train_size: Count = 0
    batch_size: Positive = 40
    accumulation: Positive = 1
    patience: Count = 0
    seed: int = 42


class GradientSection(Section):
    """How attempts become proposals."""

    minibatch_size: Positive = 8
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    analyst_workers: Positive = 16
    failure_only: bool = False
    proposer: Proposers = ("analyst",)
    portfolio_after: Count = 0
    explore_turns: Annotated[int, Field(ge=2)] = 12
    samples: Positive = 3
    merge_mode: Literal["model", "union"] = "model"
    trajectory_tokens: Annotated[Count, AfterValidator(_at_least(200))] = 6000
    evidence_tokens: Annotated[Count, AfterValidator(_at_least(2000))] = 60_000
    use_deep_reflect: bool = False
    deep_reflect_failures: Count = 4
    deep_reflect_successes: Count = 2
    deep_reflect_turns: Positive = 3
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of the proposers that are no keys above."""


class OptimizerSection(Section):
    """How proposals become candidates."""

    learning_rate: Count = 4
    min_learning_rate: Count = 2
    lr_scheduler: Literal["constant", "linear", "cosine", "autonomous"] = "cosine"
    lr_control_mode: RateControl = "fixed"
    select_mode: Literal["ranking", "trial"] = "ranking"
    trial_tasks: Positive = 4
    candidates: Positive = 1
    candidate_shuffles: Count = 0
    screen_tasks: Count = 0
    race_block: Positive = 8
    parents: Literal["current", "pareto"] = "current"
    skill_update_mode: UpdateMode = "patch"
    max_skill_tokens: Count = 0
    use_slow_update: bool = True
    slow_update_samples: Positive = 20
    slow_update_gate_with_selection: bool = True
    longitudinal_pair_policy: PairPolicy = "mixed"
    use_meta_skill: bool = True
    use_meta_reflect: bool = False
    prune_every: Count = 0
    prune_tasks: Positive = 20
    memory: Literal["run", "epoch"] = "run"
    use_skill_aware_reflection: bool = False
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    skill_aware_consolidate_threshold: Count = 0


class EvaluationSection(Section):
    """How candidates are measured and accepted."""

    gate: Annotated[str | Gate, PlainValidator(_part(GATES, Gate))] = "strict"
    use_gate: Annotated[bool, AfterValidator(_coherent)] = True
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    paired_test: Literal["exact", "mid_p"] = "exact"
    inconclusive: Literal["reject", "replicate", "replicate_changed"] = "reject"
    replicates: Positive = 1
    max_replicates: Positive = 3
    must_pass: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    max_broken: Share = 0.0
    sel_env_num: Count = 0
    test_env_num: Count = 0
    eval_test: bool = True
    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    gate_mixed_weight: Share = 0.5
    use_semantic_density: bool = False
    semantic_density_weight: Share = 0.05
    leading_words: LeadingWords | None = None
    max_failure_share: Share = 0.1
    block: Count = 24
    calibrate: bool = False
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of the gate that are no keys above."""

    @model_validator(mode="before")
    @classmethod
    def _one_of_two_spellings(cls, values: dict[str, object]) -> dict[str, object]:
        """`gate: always` and `use_gate: false` say the same; either implies the other."""
        ungated = values.get("use_gate") is False and values.get("gate", "strict") == "strict"
        if ungated or values.get("gate") == "always":
            return {**values, "gate": "always", "use_gate": False}
        return values


class EngineSection(Section):
    """How the work is done, whatever its outcome."""

    speculate: bool = False


class LimitsSection(Section):
    """What a run may spend at most."""

    dollars: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Positive | None = None
    calls: Positive | None = None
    minutes: Seconds | None = None


class EnvSection(Section):
    """The environment, its data, the harness, and the keys that only these two know."""

    name: str = ""
    skill_init: str = ""
    split_mode: Literal["ratio", "split_dir"] = "ratio"
    split_ratio: Annotated[str, AfterValidator(_ratio)] = "auto"
    split_seed: int = 42
    split_dir: str = ""
    data_path: str = ""
    split_output_dir: str = ""
    drop_bad_rows: bool = False
    limit: Count = 0
    workers: Positive = 24
    exec_timeout: Seconds = 120.0
    out_root: str = ""
    prompts: str = ""
    harness: Name = "chat"
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: what was given beyond the keys above, to be checked by `settings_for`."""


MODEL: Final = create_model(
    "MODEL",
    __base__=ModelSection,
    **for_roles(ModelSection, _SHARED, get_args(Role)),
    **fields(get_args(Role)),
)
"""The section with every shared key for each role, and with the keys of each backend."""

SECTIONS: Final[Mapping[str, type[Section]]] = {
    "model": MODEL,
    "train": TrainSection,
    "gradient": GradientSection,
    "optimizer": OptimizerSection,
    "evaluation": EvaluationSection,
    "engine": EngineSection,
    "limits": LimitsSection,
    "env": EnvSection,
}
KEYS: Final = tuple(
    f"{name}.{key}"
    for name, section in SECTIONS.items()
    for key in section.model_fields
    if key != "own"
)
"""Every key of the schema, dotted, in order."""
