"""The sections of a configuration: closed, immutable, every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from skillopt.config.legacy import backend_of

Role: TypeAlias = Literal["optimizer", "target"]
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _variable(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("should be the name of an environment variable, not the key itself")
    return name


def _ratio(text: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)?(:\d+(\.\d+)?){2}", text):
        raise ValueError(f"should be three shares such as '2:1:7', not {text!r}")
    return text


def _update_mode(mode: object) -> object:
    return "patch" if mode == "edits" else mode


def _at_least(least: int) -> Callable[[int], int]:
    def checked(number: int) -> int:
        if 0 < number < least:
            raise ValueError(f"should be at least {least}, or 0 for no limit, not {number}")
        return number

    return checked


def _several(names: object) -> object:
    match names:
        case str():
            return (names,)
        case list():
            return tuple(cast("list[object]", names))
        case _:
            return names


Proposers: TypeAlias = Annotated[
    tuple[Literal["analyst", "instruct", "patterns"], ...],
    Field(min_length=1),
    BeforeValidator(_several),
]
Positive: TypeAlias = Annotated[int, Field(ge=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]


class Section(BaseModel):
    """Part of a configuration."""

    # Strict, because a batch size of `true` or a seed of "42 " is a mistake and not a number.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleModel:
    """The model of one role, with shared and role-specific settings put together."""

    role: Role
    backend: str
    """A registered name or `module:Name`; aliases are resolved."""
    model: str
    base_url: str
    api_key_env: str
    temperature: float | None
    max_tokens: int
    timeout_seconds: float
    retries: int
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


_SHARED: Final = (
    "base_url",
    "api_key_env",
    "temperature",
    "max_tokens",
    "timeout_seconds",
    "retries",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "reasoning_effort",
    "input_price",
    "output_price",
    "cached_input_price",
)
_DEFAULT_BACKEND: Final = "openai_chat"


class ModelSection(Section):
    """Which models play the two roles. `optimizer_X` and `target_X` go before the shared `X`."""

    backend: Name = "azure_openai"
    optimizer: Name = "gpt-5.5"
    target: Name = "gpt-5.5"
    optimizer_backend: Name = _DEFAULT_BACKEND
    target_backend: Name = _DEFAULT_BACKEND

    base_url: str = ""
    api_key_env: Variable = ""
    temperature: Amount | None = None
    max_tokens: Positive = 16384
    timeout_seconds: Seconds = 300.0
    retries: Count = 5
    max_concurrency: Positive | None = None
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    reasoning_effort: Effort = "medium"
    input_price: Amount | None = None
    output_price: Amount | None = None
    cached_input_price: Amount | None = None

    local_threads: Positive | None = None
    local_parallel: Positive = 1
    local_slots: Positive = 4
    local_context: Positive = 8192
    local_batch: Positive = 256

    optimizer_base_url: str | None = None
    optimizer_api_key_env: Variable | None = None
    optimizer_temperature: Amount | None = None
    optimizer_max_tokens: Positive | None = None
    optimizer_timeout_seconds: Seconds | None = None
    optimizer_retries: Count | None = None
    optimizer_max_concurrency: Positive | None = None
    optimizer_requests_per_minute: Positive | None = None
    optimizer_tokens_per_minute: Positive | None = None
    optimizer_reasoning_effort: Effort | None = None
    optimizer_input_price: Amount | None = None
    optimizer_output_price: Amount | None = None
    optimizer_cached_input_price: Amount | None = None

    target_base_url: str | None = None
    target_api_key_env: Variable | None = None
    target_temperature: Amount | None = None
    target_max_tokens: Positive | None = None
    target_timeout_seconds: Seconds | None = None
    target_retries: Count | None = None
    target_max_concurrency: Positive | None = None
    target_requests_per_minute: Positive | None = None
    target_tokens_per_minute: Positive | None = None
    target_reasoning_effort: Effort | None = None
    target_input_price: Amount | None = None
    target_output_price: Amount | None = None
    target_cached_input_price: Amount | None = None

    def role(self, name: Role) -> RoleModel:
        """The model of a role.

        `backend` fills a role unless the role's own backend differs from its default.
        """
        values = self.model_dump()
        backend = values[f"{name}_backend"]
        if backend == _DEFAULT_BACKEND:
            backend = self.backend
        backend = backend_of(backend)
        shared = {key: values[f"{name}_{key}"] for key in _SHARED}
        settings = {key: values[key] if own is None else own for key, own in shared.items()}
        return RoleModel(
            role=name,
            backend=backend,
            model=values[name],
            own_reasoning_effort=values[f"{name}_reasoning_effort"],
            extra={
                key.removeprefix(f"{backend}_"): value
                for key, value in values.items()
                if key.startswith(f"{backend}_")
            },
            **settings,
        )


class TrainSection(Section):
    """How long and on what to train."""

    num_epochs: Positive = 4
    train_size: Count = 0
    batch_size: Positive = 40
    accumulation: Positive = 1
    seed: int = 42


class GradientSection(Section):
    """How attempts become proposals."""

    minibatch_size: Positive = 8
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    analyst_workers: Positive = 16
    failure_only: bool = False
    proposer: Proposers = ("analyst",)
    samples: Positive = 3
    merge_mode: Literal["model", "union"] = "model"
    trajectory_tokens: Annotated[Count, AfterValidator(_at_least(200))] = 6000
    evidence_tokens: Annotated[Count, AfterValidator(_at_least(2000))] = 60_000


class OptimizerSection(Section):
    """How proposals become candidates."""

    learning_rate: Count = 4
    min_learning_rate: Count = 2
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    lr_control_mode: Literal["fixed"] = "fixed"
    select_mode: Literal["ranking", "trial"] = "ranking"
    trial_tasks: Positive = 4
    skill_update_mode: Annotated[Literal["patch"], BeforeValidator(_update_mode)] = "patch"
    use_slow_update: bool = True
    slow_update_samples: Positive = 20
    slow_update_gate_with_selection: bool = True
    longitudinal_pair_policy: Literal["mixed"] = "mixed"
    use_meta_skill: bool = True


class EvaluationSection(Section):
    """How candidates are measured and accepted."""

    use_gate: bool = True
    sel_env_num: Count = 0
    test_env_num: Count = 0
    eval_test: bool = True
    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    gate_mixed_weight: Share = 0.5
    max_failure_share: Share = 0.1


class EnvSection(Section):
    """The environment, its data, and the keys that only this environment knows."""

    name: str = ""
    skill_init: str = ""
    split_mode: Literal["ratio", "split_dir"] = "ratio"
    split_ratio: Annotated[str, AfterValidator(_ratio)] = "2:1:7"
    split_seed: int = 42
    split_dir: str = ""
    data_path: str = ""
    split_output_dir: str = ""
    limit: Count = 0
    workers: Positive = 24
    out_root: str = ""
    prompts: str = ""
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: what was given beyond the keys above, to be checked by `settings_for`."""


SECTIONS: Final[Mapping[str, type[Section]]] = {
    "model": ModelSection,
    "train": TrainSection,
    "gradient": GradientSection,
    "optimizer": OptimizerSection,
    "evaluation": EvaluationSection,
    "env": EnvSection,
}
KEYS: Final = tuple(
    f"{name}.{key}"
    for name, section in SECTIONS.items()
    for key in section.model_fields
    if (name, key) != ("env", "own")
)
"""Every key of the schema, dotted, in order."""
