"""The sections of a configuration: closed, immutable, every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
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
from skillopt.config.model_section import MODEL, ModelSection, Section
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
MOST_EPOCHS: Final = 10_000
"""A plan has every step of every epoch: more of them is a slip of the finger."""


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


def _lower_case(name: object) -> object:
    if not isinstance(name, str) or ":" in name:
        return name
    return name.strip().lower().replace("-", "_")


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

    num_epochs: Annotated[Positive, Field(le=MOST_EPOCHS), _MAY_CHANGE] = 4
    """passes over the train split; can be raised when a run is resumed"""
    train_size: Annotated[Count, _MAY_CHANGE] = 0
    """expected size of the train split; a different size is reported and all items are used; 0 =
    any"""
    batch_size: Positive = 40
    """tasks attempted per micro-batch"""
    accumulation: Positive = 1
    """micro-batches per step"""
    patience: Annotated[Count, _MAY_CHANGE] = 0
    """stop after this many steps in a row without a change, those counting half whose candidate
    the gate refused; 0 = never"""
    repeat_solved: bool = True
    """attempt tasks that have passed again in later epochs"""
    seed: int = 42
    """random seed for orders and samples"""


class GradientSection(Section):
    """How attempts become proposals."""

    minibatch_size: Positive = 8
    """attempts per reflection"""
    minibatch_by: Literal["order", "likeness"] = "order"
    """order: as attempted | likeness: tasks that are alike together, fewer after each step in a row
    that changed nothing"""
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    """proposals per merge; at least 2"""
    analyst_workers: Annotated[Positive, _MAY_CHANGE] = 16
    """reflections in parallel"""
    failure_only: bool = False
    """reflect on failed attempts only"""
    proposer: Annotated[Proposers, Key(also=("optimizer.proposer",))] = ("analyst",)
    """analyst | explore | instruct (for small models) | patterns (no model); or a list"""
    portfolio_after: Count = 0
    """with a list: next proposer after this many steps without success; 0 = all in every step"""
    explore_turns: Annotated[int, Field(ge=2)] = 12
    """explore: maximum turns to read and conclude; at least 2"""
    samples: Positive = 3
    """instruct: instructions requested per group of failures"""
    merge_mode: Annotated[object, PlainValidator(MERGER.check)] = "model"
    """model: merged by the optimizer | union: equal edits combined without a call"""
    trajectory_tokens: Annotated[Count, AfterValidator(_at_least(200))] = 6000
    """maximum tokens of one attempt in a prompt; 0 = no limit"""
    evidence_tokens: Annotated[Count, AfterValidator(_at_least(2000))] = 60_000
    """maximum tokens of all attempts in a prompt; 0 = no limit"""
    use_deep_reflect: bool = False
    """examine a few attempts of a step before reflecting on all of them"""
    deep_reflect_failures: Count = 4
    """failed attempts examined per step"""
    deep_reflect_successes: Count = 2
    """passed attempts examined per step"""
    deep_reflect_turns: Positive = 3
    """maximum questions to the target and re-runs per attempt"""
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of parts that are no keys above."""


class OptimizerSection(Section):
    """How proposals become candidates."""

    learning_rate: Annotated[Count, Key(flat="edit_budget")] = 4
    """maximum edits per step, at the start of the schedule"""
    min_learning_rate: Annotated[Count, Key(flat="min_edit_budget")] = 2
    """maximum edits per step, at the end of the schedule"""
    lr_scheduler: Annotated[object, PlainValidator(SCHEDULE.check)] = "cosine"
    """{names} | module:Name"""
    lr_control_mode: Annotated[object, PlainValidator(CONTROL.check)] = "fixed"
    """fixed: as scheduled | autonomous: optimizer decides | none: no limit | volatility"""
    select_mode: Annotated[object, PlainValidator(SELECTOR.check)] = "ranking"
    """ranking: by the optimizer | trial: each proposal is tried on a few of its tasks | credit: all
    are tried together, then without each of them in turn"""
    trial_tasks: Positive = 4
    """trial, credit: training tasks per proposal"""
    trial_probes: Count = 8
    """credit: solved training tasks that proposals must not break"""
    rounds: Positive = 1
    """how often a step proposes before the gate; each time for the tasks still unsolved"""
    candidates: Positive = 1
    """candidates per step; above 1, screening and a race select the one for the gate"""
    candidate_shuffles: Count = 0
    """how many of them come from a second reflection with other minibatches"""
    screen_tasks: Count = 0
    """tasks of the step used for screening; 0 = all"""
    race_block: Positive = 8
    """val tasks after which half of the candidates are dropped"""
    parents: Annotated[object, PlainValidator(PARENTS.check)] = "current"
    """skill that a step starts from: current | pareto: any former current skill that is best on a
    val task"""
    skill_update_mode: Annotated[object, PlainValidator(UPDATE_MODE.check)] = "patch"
    """{names} | module:Name"""
    max_skill_tokens: Count = 0
    """maximum estimated tokens of a skill; 0 = no limit"""
    use_slow_update: bool = True
    """write guidance at the end of an epoch"""
    slow_update_samples: Positive = 20
    """train tasks compared at the end of an epoch"""
    slow_update_gate_with_selection: bool = True
    """guidance must pass the gate on val; false = always accepted"""
    longitudinal_pair_policy: Annotated[
        object, PlainValidator(PAIRS.check), BeforeValidator(_lower_case)
    ] = "mixed"
    """tasks shown: mixed (all) | changed | unchanged"""
    use_meta_skill: bool = True
    """pass lessons of the optimizer on from epoch to epoch"""
    use_meta_reflect: bool = False
    """review all edits of an epoch at its end"""
    prune_every: Count = 0
    """remove rules without effect every this many epochs; 0 = never"""
    prune_tasks: Positive = 20
    """train tasks on which each rule is tested for pruning"""
    memory: Annotated[object, PlainValidator(MEMORY.check)] = "run"
    """run: rejected edits and failures are remembered | epoch: only within an epoch"""
    use_skill_aware_reflection: bool = False
    """rules that exist but were ignored become reminders, not edits"""
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    """both | failure_only: attempts that may produce reminders"""
    skill_aware_consolidate_threshold: Count = 0
    """consolidate the list above this many reminders; 0 = never"""
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: settings of parts that are no keys above."""


class EvaluationSection(Section):
    """How candidates are measured and accepted."""

    gate: Annotated[object, PlainValidator(GATE.check)] = "strict"
    """{names} | module:Name"""
    use_gate: Annotated[bool, AfterValidator(_coherent)] = True
    """false: the same as gate: always"""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """paired, sequential: probability of any false accept in the whole run"""
    paired_test: Literal["exact", "mid_p"] = "exact"
    """paired: exact | mid_p (more power, alpha holds on average only)"""
    inconclusive: Literal["reject", "replicate", "replicate_changed"] = "reject"
    """if the gate is inconclusive: reject | replicate (attempt val again) | replicate_changed"""
    replicates: Positive = 1
    """attempts per task in every evaluation on val or test"""
    max_replicates: Positive = 3
    """maximum attempts per task with inconclusive: replicate"""
    must_pass: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """no_regression: val tasks (ids) that no accepted candidate may break"""
    max_broken: Share = 0.0
    """no_regression: share of val tasks that may break"""
    sel_env_num: Count = 0
    """number of val tasks; 0 = all"""
    test_env_num: Annotated[Count, _MAY_CHANGE] = 0
    """number of test tasks; 0 = all"""
    eval_test: Annotated[bool, _MAY_CHANGE] = True
    """run the final test on the test split"""
    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    """hard | soft | mixed"""
    gate_mixed_weight: Share = 0.5
    """weight of the soft score in mixed, 0 to 1"""
    use_semantic_density: bool = False
    """a small bonus for words such as must, always, never"""
    semantic_density_weight: Share = 0.05
    """bonus of a text that consists of such words only"""
    leading_words: LeadingWords | None = None
    """the words that get the bonus; null = built-in list of eleven"""
    max_failure_share: Share = 0.1
    """an evaluation with a larger share of failed attempts is an error"""
    block: Count = 24
    """val tasks measured before checking whether rejection is certain; 0 = all at once"""
    calibrate: bool = False
    """evaluate the initial skill twice and report the noise"""
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
    """let idle workers start attempts that will probably be needed; some may be unused"""


class LimitsSection(Section):
    """What a run may spend at most."""

    dollars: Annotated[Dollars | None, _MAY_CHANGE] = None
    """maximum dollars of the run, over all its processes; null = no limit; needs prices"""
    tokens: Annotated[Positive | None, _MAY_CHANGE] = None
    """maximum input plus output tokens of the run; null = no limit"""
    calls: Annotated[Positive | None, _MAY_CHANGE] = None
    """maximum calls to all models in the run; null = no limit"""
    minutes: Annotated[Seconds | None, _MAY_CHANGE] = None
    """no call starts after this many minutes of one process; null = no limit"""


class EnvSection(Section):
    """The environment, its data, the harness, and the keys that only these two know."""

    name: Annotated[str, Key(flat="env")] = ""
    """custom, a benchmark such as searchqa or docvqa, inspect, or module:Name"""
    skill_init: Annotated[str, _MAY_CHANGE] = ""
    """path of the initial skill; empty = default of the environment; blank = an empty skill"""
    split_mode: Literal["ratio", "split_dir"] = "ratio"
    """ratio: split data_path | split_dir: use train/ val/ test/ in split_dir"""
    split_ratio: Annotated[str, AfterValidator(_ratio)] = "auto"
    """train:val:test, such as "2:1:7"; auto = 2:1:7, below 200 rows 1:1:1"""
    split_seed: int = 42
    """random seed of the split"""
    split_dir: Annotated[str, _MAY_CHANGE] = ""
    """folder with train/ val/ test/, for split_mode: split_dir"""
    data_path: Annotated[str, _MAY_CHANGE] = ""
    """data file or folder, for split_mode: ratio"""
    split_output_dir: Annotated[str, _MAY_CHANGE] = ""
    """where the generated split is written; empty = in the run directory"""
    drop_bad_rows: bool = False
    """drop unusable rows and duplicates; false = report them as an error"""
    limit: Count = 0
    """maximum tasks per split; 0 = all"""
    workers: Annotated[Positive, _MAY_CHANGE] = 24
    """attempts in parallel"""
    exec_timeout: Annotated[Seconds, _MAY_CHANGE] = 120.0
    """seconds for a scorer; a slower one counts as a failure"""
    out_root: Annotated[str, _MAY_CHANGE] = ""
    """run directory; empty = below outputs/, named after the settings"""
    prompts: str = ""
    """folder whose *.md files replace the built-in prompts of the same name"""
    harness: Name = "chat"
    """how the target works on a task: chat | tools | code | an agent (see
    model.target_backend) | module:Name"""
    keep_workspaces: Annotated[bool, _MAY_CHANGE] = False
    """keep the folders in which agents worked, in workspaces/ of the run directory"""
    sandbox: Annotated[Name, Key(flat="env_sandbox")] = "bubblewrap"
    """where code of a model is run: bubblewrap | module:Name"""
    unsafe_no_sandbox: bool = False
    """run code of a model without a sandbox: it can then read and change whatever you can"""
    own: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Not a key: what was given beyond the keys above, to be checked by `settings_for`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """All sections of a configuration."""

    model: ModelSection = field(default_factory=MODEL)
    train: TrainSection = field(default_factory=TrainSection)
    gradient: GradientSection = field(default_factory=GradientSection)
    optimizer: OptimizerSection = field(default_factory=OptimizerSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    engine: EngineSection = field(default_factory=EngineSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    env: EnvSection = field(default_factory=EnvSection)


SECTIONS: Final = {
    section.name: cast("type[Section]", section.default_factory) for section in fields(Sections)
}
KEYS: Final[Mapping[str, FieldInfo]] = {
    f"{name}.{key}": info
    for name, section in SECTIONS.items()
    for key, info in section.model_fields.items()
    if key != "own"
}
"""Every key of the schema, dotted, in order."""
