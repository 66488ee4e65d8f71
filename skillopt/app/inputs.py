"""The arguments of the Python API, turned into settings and the parts that callers supply."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, cast

from typing_extensions import TypedDict

from skillopt.app.parts import blamed
from skillopt.app.run_spec import OpenExecutor, RunSpec, SuppliedParts, prepare
from skillopt.config.load import load_config, load_kept
from skillopt.config.parts import code_of, part_name
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.callables import identify, reference, used
from skillopt.core.memory import Memory
from skillopt.core.nearest import did_you_mean
from skillopt.core.ports import Environment, Gate, Harness, Proposer
from skillopt.core.skill import MAIN, Skill
from skillopt.datasets.rows import Row, rows_of
from skillopt.datasets.splits import AUTO, Splits, by_ratio
from skillopt.errors import ConfigError
from skillopt.model.scripted import PlainCallable, from_callable
from skillopt.store.packages import BLANK, read_skill

Rows: TypeAlias = Sequence[Mapping[str, object]]
ModelLike: TypeAlias = str | PlainCallable
"""The name of a model, or a function from prompt to answer."""
ConfigLike: TypeAlias = str | Path | Config | None
"""A YAML file, or a configuration that is already loaded."""
ScorerLike: TypeAlias = str | Callable[..., object]
"""The name of a scorer, or a function of answer and row."""
ProposerLike: TypeAlias = str | Proposer | Sequence[str | Proposer]
"""The name of a proposer, an object or an async function that is one, or several of these."""
SkillLike: TypeAlias = str | Path | None
"""The path of a document or of a package folder, the text of a document, `blank` for an empty one,
or None for the skill of the configuration."""


class EvalInputs(TypedDict, total=False):
    """Arguments of every function that has tasks done."""

    scorer: ScorerLike | None
    """The name of a scorer, or `fn(answer, row)` that returns a number or a `Score`."""
    target: ModelLike | None
    """The model that does the tasks: a name, or a function from prompt to answer."""
    judge: ModelLike | None
    """The model that scores, if the environment asks for one: a name, or a function from prompt to
    answer. Without it, `model.judge`, or else the optimizer."""
    environment: str | Environment | None
    """A name, or an object, which has its own tasks and scores them."""
    harness: Harness | None
    """How tasks are done: an object with `run` and `fingerprint`, instead of a target."""
    out: str | Path | None
    """The run directory."""
    settings: Mapping[str, object] | None
    """Any setting by its flat or dotted name: `{"num_epochs": 2, "env.limit": 50}`."""
    secrets: Secrets | None
    """Environment variables, if they are already loaded."""


class Inputs(EvalInputs, total=False):
    """Arguments of every function that prepares a training run."""

    train: Rows | None
    """Rows to learn from, each a mapping with `input` and `answer`."""
    val: Rows | None
    """Rows that decide which edits are accepted."""
    test: Rows | None
    """Rows for the final test; without them, there is no final test."""
    data: Rows | None
    """Rows to be split into train, val and test, instead of the three above."""
    optimizer: ModelLike | None
    """The model that proposes edits: a name, or a function from prompt to answer."""
    gate: str | Gate | None
    """What decides whether a candidate is accepted: a name, or an object with `judge`."""
    proposer: ProposerLike | None
    """What proposes edits: a name, an object or an async function, or a list of them."""
    skill: SkillLike
    """The initial skill: a text, or the path of a document or of a package folder."""
    executor: OpenExecutor | None
    """Opens what makes the attempts, if that is not this process: see docs/extending.md."""
    memory: Memory | None
    """What the optimizer remembers of earlier runs: their steps with what was rejected, and
    lessons. The run then looks back after its first epoch as well, and writes lessons after its
    last; `result.state.memory` is for the next one."""


def prepared(config: ConfigLike | RunSpec, inputs: Inputs) -> RunSpec:
    """A run with everything read and checked; writes no file and calls no model."""
    if not isinstance(config, RunSpec):
        settled, supplied = configured(config, inputs)
        return prepare(settled, supplied, secrets_of(config, inputs))
    if set(inputs) - {"secrets"}:
        raise ConfigError("a run that is prepared already takes no other arguments")
    return config


def configured(
    config: ConfigLike, inputs: Inputs, rows: Rows | None = None
) -> tuple[Config, SuppliedParts]:
    """The configuration, and the objects that were given; `rows` are tasks for an evaluation."""
    check_names(inputs, Inputs)
    _check_kinds(inputs)
    settings = dict(inputs.get("settings") or {})
    environment, harness = inputs.get("environment"), inputs.get("harness")
    splits = _splits(inputs, settings) if rows is None else Splits((), (), _rows(rows, "rows"))
    own = _own_environment(environment)
    without_test = splits is not None and not splits.test
    if own is not None:
        with blamed(own, f"env.name {part_name(own)}"):
            without_test = not own.tasks("test")
    if without_test:
        settings.setdefault("eval_test", False)
    if environment is not None:
        has_others = splits is not None or inputs.get("scorer") is not None
        settings["env.name"] = _environment_name(environment, has_others=has_others)
    elif config is None or splits is not None:
        settings.setdefault("env.name", "custom")
    out = inputs.get("out")
    given = {
        "env.scorer": inputs.get("scorer"),
        "evaluation.gate": inputs.get("gate"),
        "gradient.proposer": _several(inputs.get("proposer")) or None,
        "env.out_root": None if out is None else str(out),
        **_named_harness(harness, inputs.get("target")),
    }
    for role, model in _models(inputs).items():
        given |= _named(role, model)
    settings |= {key: value for key, value in given.items() if value is not None}
    supplied = SuppliedParts(
        splits=splits,
        environment=own,
        models={
            role: from_callable(model)
            for role, model in _models(inputs).items()
            if not isinstance(model, str)
        },
        skill=given_skill(inputs.get("skill")),
        harness=harness,
        executor=inputs.get("executor"),
        memory=inputs.get("memory"),
    )
    return loaded(config, settings), supplied


def loaded(config: ConfigLike, settings: Mapping[str, object] | None = None) -> Config:
    """The configuration with these settings, flat or dotted, on top."""
    values = dict(settings or {})
    if isinstance(config, Config):
        return load_kept(config.flat() | values) if values else config
    return load_config(None if config is None else Path(config), values=values)


def secrets_of(config: object, inputs: EvalInputs) -> Secrets:
    """The variables that were given, or the environment with the `.env` file of the project."""
    beside = Path(config).parent if isinstance(config, str | Path) else None
    return inputs.get("secrets") or Secrets.load(project=beside)


def check_names(inputs: Mapping[str, object], arguments: type[EvalInputs]) -> None:
    """Refuse an argument that a function does not take, as Python does."""
    for name in inputs:
        if name not in arguments.__annotations__:
            hint = did_you_mean(name, sorted(arguments.__annotations__)) or "see docs/python.md"
            raise TypeError(f"unexpected argument {name!r}; {hint}")


@contextmanager
def in_use(inputs: Inputs) -> Generator[None, None, None]:
    """What these callables and parts change in themselves meanwhile does not make them others."""
    parts = [inputs.get("scorer"), inputs.get("gate"), *_several(inputs.get("proposer"))]
    given = [part for part in (*parts, *_models(inputs).values()) if part is not None]
    codes = [code_of(part) for part in given if not isinstance(part, str)]
    identities = [(code, identify(code)) for code in codes]
    try:
        yield
    finally:
        for code, identity in identities:
            used(code, identity)


def given_skill(skill: SkillLike) -> Skill | None:
    """A path is read; so is a text of one line that names a document or a package's folder.

    `blank` is an empty document.
    """
    match skill:
        case None:
            return None
        case Path():
            return read_skill(skill)
        case str() if "\n" not in skill and (
            skill == BLANK or skill.endswith(".md") or _is_package(skill)
        ):
            return read_skill(Path(skill))
        case str():
            return Skill.parse(skill)


def _is_package(text: str) -> bool:
    return os.path.isfile(os.path.join(text, MAIN))  # noqa: PTH113, PTH118 - any text will do


def _models(inputs: Inputs) -> dict[Role, ModelLike]:
    given: dict[Role, ModelLike | None] = {
        "target": inputs.get("target"),
        "optimizer": inputs.get("optimizer"),
        "judge": inputs.get("judge"),
    }
    return {role: model for role, model in given.items() if model is not None}


def _check_kinds(inputs: Mapping[str, object]) -> None:
    """Refuse values that would only be misunderstood later."""
    settings = inputs.get("settings")
    if settings is not None and not isinstance(settings, Mapping):
        example = 'a mapping from names to values, such as {"num_epochs": 2}'
        raise ConfigError(f"settings should be {example}, not {settings!r}")
    for role in ("target", "optimizer", "judge"):
        model = inputs.get(role)
        if not (model is None or isinstance(model, str) or callable(model)):
            raise ConfigError(
                f"{role} should be the name of a model, or a function from prompt to answer, "
                f"not {model!r}"
            )


def _rows(rows: object, name: str) -> tuple[Row, ...]:
    if isinstance(rows, str | Path):
        raise ConfigError(
            f"{name} should be a list of rows, not {str(rows)!r}; to read a file: "
            f'settings={{"data_path": {str(rows)!r}}}'
        )
    if hasattr(rows, "columns"):
        raise ConfigError(
            f"{name} should be a list of rows, not a {type(rows).__name__}; of a pandas table, "
            'give .to_dict("records")'
        )
    return tuple(rows_of(cast("Rows", rows), name))


def _splits(inputs: Inputs, settings: Mapping[str, object]) -> Splits | None:
    train, val, test = inputs.get("train"), inputs.get("val"), inputs.get("test")
    data = inputs.get("data")
    if data is not None:
        if not (train is None and val is None and test is None):
            raise ConfigError("give either data, or train and val (and test), not both")
        ratio, seed = settings.get("split_ratio", AUTO), settings.get("split_seed", 42)
        return by_ratio(_rows(data, "data"), str(ratio), int(str(seed)))
    if train is None and val is None:
        return None
    if train is None or val is None:
        raise ConfigError("train and val go together; test is optional")
    return Splits(_rows(train, "train"), _rows(val, "val"), _rows(test or [], "test"))


def _named(role: Role, model: ModelLike) -> dict[str, object]:
    """The settings that name a model; a callable is named by where it is defined."""
    if isinstance(model, str):
        return {f"model.{role}": model}
    return {f"model.{role}": reference(model), f"model.{role}_backend": "scripted"}


def _named_harness(harness: Harness | None, target: ModelLike | None) -> dict[str, object]:
    """The settings that name the caller's own harness by its class, which is the target, too."""
    if harness is None:
        return {}
    name = f"{type(harness).__module__}:{type(harness).__qualname__}"
    named = {"model.target": name, "model.target_backend": "scripted"} if target is None else {}
    return {"env.harness": name, **named}


def _own_environment(environment: object) -> Environment | None:
    """The environment, if it is an object."""
    if environment is None or isinstance(environment, str):
        return None
    if isinstance(environment, type) or not isinstance(environment, Environment):
        raise ConfigError(
            "environment should be a name, or an object with name, fingerprint, tasks and open, "
            f"not {environment!r}"
        )
    return environment


def _environment_name(environment: str | Environment, *, has_others: bool) -> str:
    """What the settings call the environment; an object has tasks and a scorer already."""
    if isinstance(environment, str):
        return environment
    if has_others:
        raise ConfigError("an environment object has its own tasks and scores them; give no others")
    return part_name(environment)


def _several(proposer: ProposerLike | None) -> list[str | Proposer]:
    match proposer:
        case None:
            return []
        case Sequence() if not isinstance(proposer, str):
            return list(proposer)
        case _:
            return [cast("str | Proposer", proposer)]
