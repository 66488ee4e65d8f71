"""The environment of a configuration, its data and its initial skill."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Protocol, TypeGuard, cast, runtime_checkable

from skillopt.app.harness import NO_SANDBOX, fitted, make_sandbox, setting_names
from skillopt.app.parts import NoSettings, blamed
from skillopt.app.wording import count
from skillopt.config.registry import Registry
from skillopt.config.schema import Config, Role, settings_for
from skillopt.core.chat import Model
from skillopt.core.ports import AsksModels, Environment, Harness, UsesSandbox
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.manifests import holds_ids_only
from skillopt.datasets.raw import ReadsRaw, raw_folder
from skillopt.datasets.rows import Row, read_rows
from skillopt.datasets.splits import (
    SPLITS,
    THIRDS,
    BadRows,
    Splits,
    by_ratio,
    check_ids,
    from_directory,
    is_split,
    limit,
    require,
    without,
)
from skillopt.errors import ConfigError, PartError
from skillopt.store.packages import BLANK, read_skill

_PATHS = ("data_path", "split_dir", "skill_init", "prompts")
_SHOWN = 5
_FEW = 20
"""Val items below which a gate sees luck more than gains."""


@runtime_checkable
class EnvironmentKind(Protocol):
    """A class registered under `skillopt.environments`."""

    Settings: type[object]
    initial_skill: Path | None
    """A document to start from, if it ships one."""
    prompts: Path | None
    """A folder of prompts that replace ours, if it ships one."""

    def __call__(self, settings: object, splits: Splits) -> Environment:
        """An environment over these rows; what is wrong with them is an error now."""
        ...


@runtime_checkable
class BringsRows(Protocol):
    """Optional for the class of an environment: it has data of its own, which is split by ratio."""

    @staticmethod
    def own_rows(settings: object) -> Sequence[Row]: ...


def _is_kind(found: object) -> TypeGuard[EnvironmentKind]:
    return inspect.isclass(found) and isinstance(found, EnvironmentKind)


ENVIRONMENTS = Registry[EnvironmentKind]("skillopt.environments", "environment", _is_kind)


def open_environment(
    config: Config,
    needs: Sequence[Split],
    splits: Splits | None = None,
    harness: Harness | None = None,
    own: Environment | None = None,
) -> tuple[Environment, Splits, tuple[str, ...]]:
    """The environment, its rows, and warnings about them.

    `splits` stands in for files when the rows are already here, `harness` and `own` for the harness
    and the environment that the configuration names; `own` has its tasks already.
    """
    dropped: list[str] = []
    if own is not None:
        settings_for(NoSettings, config, also=setting_names(config, harness))
        _check_tasks(config, own)
        environment, rows = own, _rows_of(config, own, needs)
    else:
        kind = _kind(config)
        settings = settings_for(kind.Settings, config, also=setting_names(config, harness))
        if splits is None:
            _refuse_two_sources(config)
            _refuse_ids(config, kind)
            splits = _own_splits(config, kind, settings) or read_splits(config, needs, kind)
        rows = require(limit(splits, config.env.limit), needs)
        while True:
            try:
                with blamed(kind, f"env.name {config.env.name}"):
                    environment = kind(settings, rows)
                break
            except BadRows as bad:
                if not (config.env.drop_bad_rows and bad.faults):
                    raise
                dropped += [text for _, text in bad.faults]
                rows = require(without(rows, [row for row, _ in bad.faults]), needs)
        _check_tasks(config, environment)
    environment = fitted(config, environment, harness)
    warnings = (
        *_dropped(dropped),
        *getattr(environment, "warnings", ()),
        *((NO_SANDBOX,) if config.env.unsafe_no_sandbox else ()),
    )
    if isinstance(environment, UsesSandbox):
        environment = environment.with_sandbox(make_sandbox(config))
    return environment, rows, warnings


def make_environment(config: Config, splits: Splits) -> Environment:
    """The environment of a configuration over rows that are here; they may be none."""
    kind = _kind(config)
    settings = settings_for(kind.Settings, config, also=setting_names(config, None))
    with blamed(kind, f"env.name {config.env.name}"):
        return kind(settings, splits)


def _check_tasks(config: Config, environment: Environment) -> None:
    named = f"env.name {config.env.name}"
    with blamed(environment, named):
        tasks: dict[Split, Sequence[Task]] = {split: environment.tasks(split) for split in SPLITS}
        for task in chain.from_iterable(tasks.values()):
            if not isinstance(cast("object", task), Task):
                raise PartError(f"{named}: tasks returned {reprlib.repr(task)}, which is no Task")
    check_ids(tasks)


def _rows_of(config: Config, environment: Environment, needs: Sequence[Split]) -> Splits:
    if config.env.limit:
        raise config.complaint(
            "env.limit", "has no effect on an environment that is given as an object; remove it"
        )
    train, val, test = (
        tuple(Row(task.data, task.where) for task in environment.tasks(split)) for split in SPLITS
    )
    return require(Splits(train, val, test), needs)


def _dropped(faults: Sequence[str]) -> list[str]:
    if not faults:
        return []
    more = len(faults) - _SHOWN
    lines = [*faults[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return ["\n  ".join([f"dropped {count(len(faults), 'bad row')} (env.drop_bad_rows)", *lines])]


def asked_roles(environment: Environment) -> tuple[Role, ...]:
    """The roles that an environment asks for besides those of every run."""
    if not isinstance(environment, AsksModels):
        return ()
    for role in environment.roles:
        if role != "judge":
            raise ConfigError(
                f"the environment {environment.name!r} asks for a model in the role {role!r}; "
                "the only role that an environment can ask for is 'judge'"
            )
    return ("judge",) if environment.roles else ()


def with_models(environment: Environment, models: Mapping[Role, Model]) -> Environment:
    """The environment with the models that it asks for, which are among these."""
    roles = asked_roles(environment)
    if not roles or not isinstance(environment, AsksModels):
        return environment
    connected = environment.with_models({role: models[role] for role in roles})
    for role in roles:
        if models[role].fingerprint not in connected.fingerprint:
            raise ConfigError(
                f"the fingerprint of the environment {environment.name!r} does not contain that of "
                f"its {role} model, so scores of another {role} would be taken for its own; add "
                "model.fingerprint to it in with_models"
            )
    return connected


def size_warnings(config: Config, splits: Splits, train: int, val: int) -> list[str]:
    """What is doubtful about so many train and val tasks."""
    size = config.train.train_size
    warnings = few_to_decide(val, "" if val >= _FEW else more_val(config, splits, val))
    if size not in {0, train}:
        warnings.insert(
            0,
            f"train.train_size is {size}, but the train split has {count(train, 'item')}; all are "
            "used (env.limit uses fewer)",
        )
    return warnings


def few_to_decide(val: int, advice: str = "") -> list[str]:
    """A warning where val is too small to decide anything; `val`: its items."""
    if val >= _FEW:
        return []
    return [
        f"val has only {count(val, 'item')}: one item changes the score by "
        f"{1 / max(1, val):.2f}, so the gate accepts noise and misses gains. Use at least {_FEW} "
        "val items" + (f": {advice}" if advice else "")
    ]


def more_val(config: Config, splits: Splits, val: int) -> str:
    """What would give val enough items; `val`: those that it has now."""
    sizes = {split: len(splits[split]) for split in SPLITS}
    for key, most in (
        ("evaluation.sel_env_num", config.evaluation.sel_env_num),
        ("env.limit", config.env.limit),
    ):
        if most and val == most and (key == "env.limit" or sizes["val"] > val):
            return f"raise {key}, which is {most}, or remove it"
    missing = _FEW - val
    if not splits.ratio:
        spare = f" or move {count(missing, 'item')} there from train or test"
        room = sizes["train"] + sizes["test"] >= missing + 2 * _FEW
        return f"add {count(missing, 'row')} to the val split{spare if room else ''}"
    rows = sum(sizes.values())
    if rows // len(SPLITS) > val:
        return f"add rows, or give val a larger share: env.split_ratio={THIRDS}"
    more = count(ceil(missing * rows / max(1, val)), "row")
    return f"add about {more} (of which val gets its share)"


def describe_cut(splits: Splits) -> str:
    """How the rows of one file were cut; empty where they came as splits."""
    if not splits.ratio:
        return ""
    sizes = "/".join(map(str, splits.cut))
    return f"data split {splits.ratio} into {sizes} train/val/test items (env.split_ratio)"


def _kind(config: Config) -> EnvironmentKind:
    name, here = config.env.name, ENVIRONMENTS.names
    if not name:
        names = ", ".join(here)
        raise config.complaint("env.name", f"should name an environment; known: {names}")
    return ENVIRONMENTS.load(name)


def _refuse_two_sources(config: Config) -> None:
    env = config.env
    if not (env.data_path and env.split_dir):
        return
    key, used, other = (
        ("data_path", env.split_dir, "ratio")
        if env.split_mode == "split_dir"
        else ("split_dir", env.data_path, "split_dir")
    )
    raise config.complaint(
        f"env.{key}",
        f"has no effect with env.split_mode={env.split_mode}, which uses {used}; set "
        f"env.split_mode={other} as well, or remove it",
    )


def _refuse_ids(config: Config, kind: EnvironmentKind) -> None:
    """Say how to get the items, where there are only their ids or nothing at all."""
    folder = config.path("env.split_dir")
    if config.env.split_mode != "split_dir" or folder is None:
        return
    only_ids = folder.is_dir() and holds_ids_only(folder)
    if not only_ids and (folder.exists() or not isinstance(kind, ReadsRaw)):
        return
    name = folder.name.removesuffix("_split").removesuffix("_id")
    ids, items = folder.with_name(f"{name}_id_split"), folder.with_name(f"{name}_split")
    if only_ids:
        ids = folder
    elif not folder.name.endswith("_split"):
        ids, items = Path("data", f"{config.env.name}_id_split"), folder
    what = "contains only the ids of items, not the items" if only_ids else "does not exist"
    how = "give a folder with the items"
    if isinstance(kind, ReadsRaw):
        manifest = f"--manifest {ids} " if ids.is_dir() else ""
        how = (
            f"create it with: skillopt materialize {config.env.name} {manifest}--raw DATA --out "
            f"{items}"
        )
        if only_ids and items != folder:
            how += f", and set env.split_dir={items}"
    raise config.complaint("env.split_dir", f"{folder} {what}; {how}")


def _own_splits(config: Config, kind: EnvironmentKind, settings: object) -> Splits | None:
    """The rows that an environment brings along; None: it brings none, or a folder is given."""
    env = config.env
    if not isinstance(kind, BringsRows) or env.split_mode == "split_dir":
        return None
    if env.data_path:
        raise config.complaint("env.data_path", f"{env.name} has data of its own; remove it")
    return by_ratio(kind.own_rows(settings), env.split_ratio, env.split_seed)


def read_splits(
    config: Config, needs: Sequence[Split], kind: EnvironmentKind | None = None
) -> Splits:
    """The rows of each split, from a split folder or cut from one file.

    A kind of environment that reads the published files of its benchmark is given those.
    """
    env = config.env
    if env.split_mode == "split_dir":
        folder = config.path("env.split_dir")
        if folder is None:
            raise config.complaint(
                "env.split_dir", "should be a folder with train/, val/ and test/ in it"
            )
        return from_directory(folder, needs)
    source = config.path("env.data_path")
    if source is None:
        raise config.complaint(
            "env.data_path",
            "should be a JSON, JSONL, CSV or XLSX file, or a folder with train/, val/ and test/",
        )
    if is_split(source):
        return from_directory(source, needs)
    rows = _raw_rows(config, kind, source) if isinstance(kind, ReadsRaw) else read_rows(source)
    cut = by_ratio(rows, env.split_ratio, env.split_seed)
    return replace(cut, root=raw_folder(source))


def _raw_rows(config: Config, kind: ReadsRaw, source: Path) -> list[Row]:
    items = list(kind.read_raw(source))
    if any(item.embedded for item in items):
        raise config.complaint(
            "env.data_path",
            f"{source} holds images inside of its tables; write them out first with: skillopt "
            f"materialize {config.env.name} --raw {source} --out FOLDER, and set "
            "env.split_mode=split_dir and env.split_dir=FOLDER",
        )
    return [item.row for item in items]


def validation_tasks(config: Config, environment: Environment) -> Sequence[Task]:
    """The tasks that decide: the first `sel_env_num` of val, or all."""
    tasks = _first(environment.tasks("val"), config.evaluation.sel_env_num)
    unknown = set(config.evaluation.must_pass).difference(task.id for task in tasks)
    if unknown:
        named = ", ".join(map(repr, sorted(unknown)[:3]))
        raise config.complaint("evaluation.must_pass", f"names {named}, which is no val task")
    return tasks


def final_test_tasks(config: Config, environment: Environment) -> Sequence[Task] | None:
    """The tasks of the final test; None when none is wanted."""
    if not config.evaluation.eval_test:
        return None
    return _first(environment.tasks("test"), config.evaluation.test_env_num)


def _first(tasks: Sequence[Task], count: int) -> Sequence[Task]:
    return tasks[:count] if count else tasks


def data_of(config: Config) -> str:
    """The file or folder that the data comes from; empty where the configuration names none."""
    env = config.env
    return env.split_dir if env.split_mode == "split_dir" else env.data_path


def with_found_paths(config: Config) -> Config:
    """The configuration with data, skill and prompts where they were found from this folder."""
    env = config.env
    places = {name: config.path(f"env.{name}") for name in _PATHS}
    found = {name: str(path) for name, path in places.items() if path and path.exists()}
    return replace(config, env=env.model_copy(update=found))


def initial_skill(config: Config, shipped: Path | None) -> Skill:
    """The skill to start from: a file or folder, the environment's own, or an empty one."""
    path = config.path("env.skill_init") or shipped
    if path and shipped and not path.exists() and shipped.parts[-len(path.parts) :] == path.parts:
        path = shipped  # the original names it by its place in the repository
    if path is None:
        raise config.complaint(
            "env.skill_init",
            "no skill to start from is given; set it to the path of a skill (a document or a "
            f"folder), or to {BLANK!r} to start with an empty one",
        )
    return read_skill(path)
