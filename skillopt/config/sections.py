"""The sections of a configuration: closed, immutable, every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from skillopt.config.keys import Count, Dollars, Key, Name, Positive, Seconds, Share
from skillopt.config.legacy import pair_policy_of, update_mode_of
from skillopt.config.model_section import MODEL, Section
from skillopt.config.parts import (
    CONTROL,
    GATE,
    MEMORY,
    MERGER,
    PAIRS,
    PARENTS,
    PROPOSER,
    SCHEDULE,
    SELECTOR,
    UPDATE_MODE,
)

_MAY_CHANGE: Final = Key(may_change=True)


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


Proposers: TypeAlias = Annotated[
    tuple[Annotated[object, PlainValidator(PROPOSER.check)], ...],
    Field(min_length=1),
    BeforeValidator(_several),
]
LeadingWords: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_one_word)], ...],
    Field(min_length=1),
    BeforeValidator(_several),
]


class TrainSection(Section):
    """How long and on what to train."""

    num_epochs: Annotated[Positive, _MAY_CHANGE] = 4
    train_size: Annotated[Count, _MAY_CHANGE] = 0
    batch_size: Positive = 40
    accumulation: Positive = 1
    patience: Annotated[Count, _MAY_CHANGE] = 0
    seed: int = 42


class GradientSection(Section):
    """How attempts become proposals."""

    minibatch_size: Positive = 8
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    analyst_workers: Annotated[Positive, _MAY_CHANGE] = 16
    failure_only: bool = False
    proposer: Annotated[Proposers, Key(also=("optimizer.proposer",))] = ("analyst",)
    portfolio_after: Count = 0
    explore_turns: Annotated[int, Field(ge=2)] = 12
    samples: Positive = 3
    merge_mode: Annotated[object, PlainValidator(MERGER.check)] = "model"
    trajectory_tokens: Annotated[Count, AfterValidator(_at_least(200))] = 6000
    evidence_tokens: Annotated[Count, AfterValidator(_at_least(2000))] = 60_000
    use_deep_reflect: bool = False
    deep_reflect_failures: Count = 4
    deep_reflect_successes: Count = 2
    deep_reflect_turns: Positive = 3
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of parts that are no keys above."""


class OptimizerSection(Section):
    """How proposals become candidates."""

    learning_rate: Annotated[Count, Key(flat="edit_budget")] = 4
    min_learning_rate: Annotated[Count, Key(flat="min_edit_budget")] = 2
    lr_scheduler: Annotated[object, PlainValidator(SCHEDULE.check)] = "cosine"
    lr_control_mode: Annotated[object, PlainValidator(CONTROL.check)] = "fixed"
    select_mode: Annotated[object, PlainValidator(SELECTOR.check)] = "ranking"
    trial_tasks: Positive = 4
    candidates: Positive = 1
    candidate_shuffles: Count = 0
    screen_tasks: Count = 0
    race_block: Positive = 8
    parents: Annotated[object, PlainValidator(PARENTS.check)] = "current"
    skill_update_mode: Annotated[
        object, PlainValidator(lambda name: UPDATE_MODE.check(update_mode_of(name)))
    ] = "patch"
    max_skill_tokens: Count = 0
    use_slow_update: bool = True
    slow_update_samples: Positive = 20
    slow_update_gate_with_selection: bool = True
    longitudinal_pair_policy: Annotated[
        object, PlainValidator(lambda name: PAIRS.check(pair_policy_of(name)))
    ] = "mixed"
    use_meta_skill: bool = True
    use_meta_reflect: bool = False
    prune_every: Count = 0
    prune_tasks: Positive = 20
    memory: Annotated[object, PlainValidator(MEMORY.check)] = "run"
    use_skill_aware_reflection: bool = False
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    skill_aware_consolidate_threshold: Count = 0
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of parts that are no keys above."""


class EvaluationSection(Section):
    """How candidates are measured and accepted."""

    gate: Annotated[object, PlainValidator(GATE.check)] = "strict"
    use_gate: Annotated[bool, AfterValidator(_coherent)] = True
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    paired_test: Literal["exact", "mid_p"] = "exact"
    inconclusive: Literal["reject", "replicate", "replicate_changed"] = "reject"
    replicates: Positive = 1
    max_replicates: Positive = 3
    must_pass: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    max_broken: Share = 0.0
    sel_env_num: Count = 0
    test_env_num: Annotated[Count, _MAY_CHANGE] = 0
    eval_test: Annotated[bool, _MAY_CHANGE] = True
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

    speculate: Annotated[bool, _MAY_CHANGE] = False


class LimitsSection(Section):
    """What a run may spend at most."""

    dollars: Annotated[Dollars | None, _MAY_CHANGE] = None
    tokens: Annotated[Positive | None, _MAY_CHANGE] = None
    calls: Annotated[Positive | None, _MAY_CHANGE] = None
    minutes: Annotated[Seconds | None, _MAY_CHANGE] = None


class EnvSection(Section):
    """The environment, its data, the harness, and the keys that only these two know."""

    name: Annotated[str, Key(flat="env")] = ""
    skill_init: Annotated[str, _MAY_CHANGE] = ""
    split_mode: Literal["ratio", "split_dir"] = "ratio"
    split_ratio: Annotated[str, AfterValidator(_ratio)] = "auto"
    split_seed: int = 42
    split_dir: Annotated[str, _MAY_CHANGE] = ""
    data_path: Annotated[str, _MAY_CHANGE] = ""
    split_output_dir: Annotated[str, _MAY_CHANGE] = ""
    drop_bad_rows: bool = False
    limit: Count = 0
    workers: Annotated[Positive, _MAY_CHANGE] = 24
    exec_timeout: Annotated[Seconds, _MAY_CHANGE] = 120.0
    out_root: Annotated[str, _MAY_CHANGE] = ""
    prompts: str = ""
    harness: Name = "chat"
    sandbox: Name = "bubblewrap"
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: what was given beyond the keys above, to be checked by `settings_for`."""


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
KEYS: Final[Mapping[str, FieldInfo]] = {
    f"{name}.{key}": field
    for name, section in SECTIONS.items()
    for key, field in section.model_fields.items()
    if key != "own"
}
"""Every key of the schema, dotted, in order."""
