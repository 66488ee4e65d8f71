"""The Python API: train, evaluate and check skills from Python code."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar, cast

from skillopt.aio import run_blocking
from skillopt.analysis.integrity.findings import CheckFinding
from skillopt.app.attributing import AttributionPlan, plan_attribution
from skillopt.app.attributing import attribute as leave_out
from skillopt.app.calibrating import Noise
from skillopt.app.calibrating import calibrate as measure_noise
from skillopt.app.costs import Estimate
from skillopt.app.doctor import DoctorFinding
from skillopt.app.doctor import doctor as find_problems
from skillopt.app.environment import data_of
from skillopt.app.estimate import estimate as run_estimate
from skillopt.app.evaluation import EvalResult
from skillopt.app.evaluation import evaluate as run_evaluation
from skillopt.app.integrity import check as find_faults
from skillopt.app.integrity import check_run
from skillopt.app.result import Result, read_result
from skillopt.app.run_spec import ROLES, OpenExecutor, RunSpec, SuppliedParts, prepare
from skillopt.app.training import run_training
from skillopt.config.load import load_config, load_kept
from skillopt.config.local_models import told_defaults
from skillopt.config.parts import code_of, part_name
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.attribution import Attribution
from skillopt.core.callables import identify, reference, used
from skillopt.core.chat import Model
from skillopt.core.events import Event, Signal
from skillopt.core.ports import Environment, Gate, Harness, Proposer, Watcher
from skillopt.core.skill import MAIN, Skill
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import AUTO, Splits, by_ratio
from skillopt.errors import ConfigError, StoreError
from skillopt.model.scripted import PlainCallable, from_callable
from skillopt.progress import PlainProgress, heartbeat
from skillopt.store.layout import run_folders
from skillopt.store.packages import read_skill
from skillopt.store.reader import RunReader, Status
from skillopt.store.results import EvaluationReport, read_evaluation

P = ParamSpec("P")
R = TypeVar("R")
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
"""The path of a document or of a package folder, the text of a document, or None for the skill of
the configuration."""


def _front_door(work: Callable[P, Coroutine[object, object, R]]) -> Callable[P, R]:
    """A synchronous version of an async function; it also works inside a running event loop."""

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return run_blocking(work(*args, **kwargs))

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The input of a training run; the fields are the arguments of `train`."""

    config: ConfigLike = None
    train: Rows | None = None
    val: Rows | None = None
    test: Rows | None = None
    data: Rows | None = None
    scorer: ScorerLike | None = None
    target: ModelLike | None = None
    optimizer: ModelLike | None = None
    judge: ModelLike | None = None
    gate: str | Gate | None = None
    proposer: ProposerLike | None = None
    environment: str | Environment | None = None
    skill: SkillLike = None
    harness: Harness | None = None
    executor: OpenExecutor | None = None
    out: str | Path | None = None
    settings: Mapping[str, object] | None = None

    def configure(self) -> tuple[Config, SuppliedParts]:
        """The configuration, and the objects that were given in Python."""
        settings = dict(self.settings or {})
        splits = _splits(self.train, self.val, self.test, self.data, settings)
        own = _own_environment(self.environment)
        if (splits is not None and not splits.test) or (own is not None and not own.tasks("test")):
            settings.setdefault("eval_test", False)
        settled = _configure(
            self.config,
            settings,
            splits=splits,
            scorer=self.scorer,
            target=self.target,
            optimizer=self.optimizer,
            judge=self.judge,
            gate=self.gate,
            proposer=self.proposer,
            environment=self.environment,
            harness=self.harness,
            out=self.out,
        )
        models = _own(target=self.target, optimizer=self.optimizer, judge=self.judge)
        return settled, SuppliedParts(
            splits=splits,
            environment=own,
            models=models,
            skill=_skill(self.skill),
            harness=self.harness,
            executor=self.executor,
        )

    def prepare(self, secrets: Secrets | None = None) -> RunSpec:
        """Read and check everything; writes no file and calls no model."""
        settled, supplied = self.configure()
        return prepare(settled, supplied, secrets or _variables(self.config))


async def train_async(
    config: ConfigLike = None,
    *,
    train: Rows | None = None,
    val: Rows | None = None,
    test: Rows | None = None,
    data: Rows | None = None,
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    optimizer: ModelLike | None = None,
    judge: ModelLike | None = None,
    gate: str | Gate | None = None,
    proposer: ProposerLike | None = None,
    environment: str | Environment | None = None,
    skill: SkillLike = None,
    harness: Harness | None = None,
    executor: OpenExecutor | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
) -> Result:
    """Train a skill and return the result. The same call resumes an interrupted run.

    `train` is the synchronous version.

    Args:
        config: A YAML file to start from; without one, the defaults and environment `custom`.
        train: Rows to learn from, each a mapping with `input` and `answer`.
        val: Rows that decide which edits are accepted.
        test: Rows for the final test; without them, there is no final test.
        data: Rows to be split into train, val and test, instead of the three above.
        scorer: The name of a scorer, or `fn(answer, row)` that returns a number or a `Score`.
        target: The model that does the tasks: a name, or a function from prompt to answer.
        optimizer: The model that proposes edits: a name, or a function from prompt to answer.
        judge: The model that scores, if the environment asks for one: a name, or a function from
            prompt to answer. Without it, `model.judge`, or else the optimizer.
        gate: What decides whether a candidate is accepted: a name, or an object with `judge`.
        proposer: What proposes edits: a name, an object or an async function, or a list of them.
        environment: A name, or an object, which has its own tasks and scores them.
        skill: The initial skill: a text, or the path of a document or of a package folder.
        harness: How tasks are done: an object with `run` and `fingerprint`, instead of a target.
        executor: Opens what makes the attempts, if that is not this process: see docs/extending.md.
        out: The run directory.
        settings: Any setting by its flat or dotted name: `{"num_epochs": 2, "env.limit": 50}`.
        watch: Called with every event of the run.
        progress: Whether to write a line for each step to standard error.

    Raises:
        SkilloptError: The message says what to do. Finished work is saved.
    """
    spec = Inputs(
        config=config,
        train=train,
        val=val,
        test=test,
        data=data,
        scorer=scorer,
        target=target,
        optimizer=optimizer,
        judge=judge,
        gate=gate,
        proposer=proposer,
        environment=environment,
        skill=skill,
        harness=harness,
        executor=executor,
        out=out,
        settings=settings,
    ).prepare()
    shown = PlainProgress() if progress else None
    given = (scorer, target, optimizer, judge, gate, *_several(proposer))
    with _in_use(*given), _beating(shown):
        if shown is None:
            return await run_training(spec, watch=_watching(watch), secrets=_variables(config))
        return await _shown_training(spec, _watching(watch, shown), shown, _variables(config))


async def _shown_training(
    spec: RunSpec, watch: Watcher, shown: PlainProgress, secrets: Secrets
) -> Result:
    """The same with lines about what it is, its warnings and its result."""

    def warn(text: str) -> None:
        shown.tell(f"warning: {text}")

    target, optimizer = (spec.config.model.role(role).model for role in ROLES)
    shown.tell(f"skillopt: target {target}, optimizer {optimizer}; run directory {spec.out}")
    if chosen := told_defaults(spec.config):
        shown.tell(chosen)
    result = await run_training(spec, watch=watch, warn=warn, secrets=secrets)
    if result.problem:
        warn(result.problem)
    shown.tell(f"done: {result.claim.words()}; {result.cost}")
    return result


async def estimate_async(
    config: ConfigLike = None,
    *,
    train: Rows | None = None,
    val: Rows | None = None,
    test: Rows | None = None,
    data: Rows | None = None,
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    optimizer: ModelLike | None = None,
    judge: ModelLike | None = None,
    gate: str | Gate | None = None,
    proposer: ProposerLike | None = None,
    environment: str | Environment | None = None,
    skill: SkillLike = None,
    settings: Mapping[str, object] | None = None,
) -> Estimate:
    """Estimate calls, tokens, time and, if prices are known, dollars of a training run.

    `estimate` is the synchronous version. Arguments as in `train`. Calls no model and writes no
    file.
    """
    spec = Inputs(
        config=config,
        train=train,
        val=val,
        test=test,
        data=data,
        scorer=scorer,
        target=target,
        optimizer=optimizer,
        judge=judge,
        gate=gate,
        proposer=proposer,
        environment=environment,
        skill=skill,
        settings=settings,
    ).prepare()
    return await estimate_training(spec)


async def estimate_training(spec: RunSpec) -> Estimate:
    """The same for a training that was read and checked already."""
    return await run_estimate(spec)


async def evaluate_async(
    skill: str | Path,
    config: ConfigLike = None,
    *,
    rows: Rows | None = None,
    split: str = "all",
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    judge: ModelLike | None = None,
    harness: Harness | None = None,
    environment: str | Environment | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
    secrets: Secrets | None = None,
) -> EvalResult:
    """Evaluate a skill on rows, or on a split of the data of the configuration.

    `evaluate` is the synchronous version. Arguments as in `train`. The result has hard and soft
    scores per task and per split.
    """
    splits = None if rows is None else Splits((), (), tuple(rows_of(rows, "rows")))
    settled = _configure(
        config,
        settings,
        splits=splits,
        scorer=scorer,
        target=target,
        judge=judge,
        harness=harness,
        environment=environment,
        out=out,
    )
    supplied = SuppliedParts(
        splits=splits,
        environment=_own_environment(environment),
        models=_own(target=target, judge=judge),
        skill=_skill(skill),
        harness=harness,
    )
    shown = PlainProgress() if progress else None
    with _in_use(scorer, target, judge), _beating(shown):
        return await run_evaluation(
            settled,
            supplied,
            _watching(watch, shown),
            secrets or _variables(config),
            split="test" if rows is not None else split,
            name=str(skill) if isinstance(skill, Path) else "",
        )


async def check_async(
    config: ConfigLike = None,
    *,
    train: Rows | None = None,
    val: Rows | None = None,
    test: Rows | None = None,
    data: Rows | None = None,
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    gate: str | Gate | None = None,
    proposer: ProposerLike | None = None,
    environment: str | Environment | None = None,
    skill: SkillLike = None,
    trained: str | Path | None = None,
    sample: int | None = None,
    settings: Mapping[str, object] | None = None,
    watch: Watcher | None = None,
    secrets: Secrets | None = None,
) -> list[CheckFinding]:
    """Check data and scorer for problems, or check whether a trained skill copies items.

    `check` is the synchronous version. Arguments as in `train`. Calls no model, unless `sample` is
    given.

    Args:
        config: As in `train`, or a run directory; then its best skill is checked.
        train: As in `train`.
        val: As in `train`.
        test: As in `train`.
        data: As in `train`.
        scorer: As in `train`.
        target: The model for `sample`, as in `train`.
        gate: As in `train`.
        proposer: As in `train`.
        environment: As in `train`.
        skill: The initial skill.
        trained: A trained skill to check on the same data, instead of data and scorer.
        sample: Number of val items on which the target is called, for a baseline without the skill;
            may cost money.
        settings: As in `train`.
        watch: Called with every event, if the target is called.
        secrets: Environment variables, if they are already loaded.
    """
    document = _skill(trained)
    if (folder := _folder(config)) is not None:
        return await check_run(folder, document)
    settled, supplied = Inputs(
        config=config,
        train=train,
        val=val,
        test=test,
        data=data,
        scorer=scorer,
        target=target,
        gate=gate,
        proposer=proposer,
        environment=environment,
        skill=skill,
        settings=settings,
    ).configure()
    with _in_use(scorer, target, gate, *_several(proposer)):
        return await find_faults(
            settled,
            supplied,
            trained=document,
            sample=sample,
            watch=_watching(watch),
            secrets=secrets or _variables(config),
        )


def _folder(config: ConfigLike) -> Path | None:
    """The run directory, if it is one that is named."""
    return Path(config) if isinstance(config, str | Path) and Path(config).is_dir() else None


async def calibrate_async(
    config: ConfigLike = None,
    *,
    train: Rows | None = None,
    val: Rows | None = None,
    test: Rows | None = None,
    data: Rows | None = None,
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    optimizer: ModelLike | None = None,
    judge: ModelLike | None = None,
    gate: str | Gate | None = None,
    proposer: ProposerLike | None = None,
    environment: str | Environment | None = None,
    skill: SkillLike = None,
    out: str | Path | None = None,
    effect: float = 0.05,
    power: float = 0.8,
    settings: Mapping[str, object] | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
) -> Noise:
    """Evaluate the current skill at least twice on val and measure the noise of its scores.

    `calibrate` is the synchronous version. Arguments as in `train`. The attempts are cached in the
    run directory, so training reuses them at no cost.

    Args:
        config: As in `train`.
        train: As in `train`.
        val: As in `train`.
        test: As in `train`.
        data: As in `train`.
        scorer: As in `train`.
        target: As in `train`.
        optimizer: As in `train`.
        judge: As in `train`.
        gate: As in `train`.
        proposer: As in `train`.
        environment: As in `train`.
        skill: As in `train`.
        out: As in `train`.
        effect: The smallest gain in score to detect, from 0 to 1.
        power: The probability of detecting that gain.
        settings: As in `train`.
        watch: As in `train`.
        progress: As in `train`.
    """
    spec = Inputs(
        config=config,
        train=train,
        val=val,
        test=test,
        data=data,
        scorer=scorer,
        target=target,
        optimizer=optimizer,
        judge=judge,
        gate=gate,
        proposer=proposer,
        environment=environment,
        skill=skill,
        out=out,
        settings=settings,
    ).prepare()
    shown = PlainProgress() if progress else None
    given = (scorer, target, optimizer, judge, gate, *_several(proposer))
    with _in_use(*given), _beating(shown):
        return await measure_noise(spec, _watching(watch, shown), effect=effect, power=power)


async def attribute_async(
    run: str | Path | AttributionPlan,
    *,
    tasks: int = 40,
    settings: Mapping[str, object] | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
    secrets: Secrets | None = None,
) -> Attribution:
    """Measure the effect of each rule of a run's best skill by removing it, and find its origin.

    `attribute` is the synchronous version. The models are those of the run. Functions that were
    given in Python must be importable by their names.

    Args:
        run: A run directory, or the value that `skillopt.app.attributing.plan_attribution`
            returns.
        tasks: Number of val tasks on which each rule is measured.
        settings: Settings that override those of the run, such as `env.data_path`.
        watch: As in `train`.
        progress: As in `train`.
        secrets: Environment variables, if they are already loaded.
    """
    if isinstance(run, AttributionPlan):
        plan = run
    else:
        with RunReader(Path(run)) as reader:
            config = load_kept({**reader.config, **(settings or {})})
            plan = plan_attribution(config, reader, tasks)
    shown = PlainProgress() if progress else None
    return await leave_out(plan, _watching(watch, shown), secrets)


async def doctor_async(
    config: ConfigLike = None,
    *,
    offline: bool = False,
    settings: Mapping[str, object] | None = None,
    secrets: Secrets | None = None,
) -> list[DoctorFinding]:
    """Check what a run needs: data, disk, keys, servers and whether the models answer.

    `doctor` is the synchronous version. Without a configuration and settings, only the disk is
    checked.

    Args:
        config: A YAML file.
        offline: Call no model.
        settings: As in `train`.
        secrets: Environment variables, if they are already loaded.
    """
    settled = None if config is None and not settings else _configure(config, settings)
    return await find_problems(settled, secrets or _variables(config), offline=offline)


def load_run(folder: str | Path) -> Result:
    """Read the result of a run from its directory, finished or still running."""
    with RunReader(Path(folder)) as reader:
        return read_result(reader)


def open_run(folder: str | Path) -> RunReader:
    """Open a run directory for reading: steps, skills, attempts, events by position, progress.

    Of a run that is still running, `events(after=...)` and `follow()` read what is new, and
    `progress()` tells what is under way. Use it in a `with` block.
    """
    return RunReader(Path(folder))


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its status, models, data, seed and result."""

    status: Status
    why: str
    """If the run was stopped: the reason."""
    benchmark: str
    target: str
    optimizer: str
    """Names of the models."""
    seed: int | None
    """None if the settings of the run cannot be read; then the names are empty, too."""
    data: str
    """The file or folder; empty if rows were given in Python."""
    result: Result

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.result.out

    @property
    def simulated(self) -> bool:
        """Whether a model is simulated; then scores say nothing about a real model."""
        return any(is_simulated(each) for each in (self.target, self.optimizer))


def is_simulated(model: str) -> bool:
    """Whether this is the name of a model of `skillopt.testing.simulator`."""
    return model.startswith("simulated-")


def describe_run(folder: str | Path) -> Run:
    """Read a run from its directory, finished or still running."""
    with RunReader(Path(folder)) as reader:
        stopped = reader.stopped
        try:
            config = load_kept(reader.config)
        except (StoreError, ConfigError):
            config = None
        return Run(
            status=reader.status,
            why="" if stopped is None else stopped.reason,
            benchmark="" if config is None else config.env.name,
            target="" if config is None else config.model.role("target").model,
            optimizer="" if config is None else config.model.role("optimizer").model,
            seed=None if config is None else config.train.seed,
            data="" if config is None else data_of(config),
            result=read_result(reader),
        )


def list_runs(folder: str | Path = ".") -> list[Run]:
    """List the runs in a folder and up to two levels below it, sorted by name.

    A run is listed once its initial skill has been measured.
    """
    found: list[Run] = []
    for each in run_folders(Path(folder)):
        with suppress(StoreError):  # a record that cannot be read
            found.append(describe_run(each))
    return found


def load_evaluation(folder: str | Path) -> EvaluationReport:
    """Read the result of `evaluate` from its directory."""
    return read_evaluation(Path(folder))


train = _front_door(train_async)
estimate = _front_door(estimate_async)
evaluate = _front_door(evaluate_async)
check = _front_door(check_async)
calibrate = _front_door(calibrate_async)
attribute = _front_door(attribute_async)
doctor = _front_door(doctor_async)


def _variables(config: ConfigLike) -> Secrets:
    """The environment, with the `.env` file beside the configuration."""
    beside = Path(config).parent if isinstance(config, str | Path) else None
    return Secrets.load(project=beside)


def _configure(
    config: ConfigLike,
    settings: Mapping[str, object] | None,
    *,
    splits: Splits | None = None,
    scorer: ScorerLike | None = None,
    target: ModelLike | None = None,
    optimizer: ModelLike | None = None,
    judge: ModelLike | None = None,
    gate: str | Gate | None = None,
    proposer: ProposerLike | None = None,
    harness: Harness | None = None,
    environment: str | Environment | None = None,
    out: str | Path | None = None,
) -> Config:
    values = dict(settings or {})
    if environment is not None:
        values["env.name"] = _environment_name(environment, splits, scorer)
    elif config is None or splits is not None:
        values.setdefault("env.name", "custom")
    given = {
        "env.scorer": scorer,
        "evaluation.gate": gate,
        "gradient.proposer": _several(proposer) or None,
        "env.out_root": None if out is None else str(out),
        **_named_harness(harness, target),
        **_named("target", target),
        **_named("optimizer", optimizer),
        **_named("judge", judge),
    }
    values |= {key: value for key, value in given.items() if value is not None}
    if isinstance(config, Config):
        return load_kept(config.flat() | values) if values else config
    return load_config(None if config is None else Path(config), values=values)


def _splits(
    train: Rows | None,
    val: Rows | None,
    test: Rows | None,
    data: Rows | None,
    settings: Mapping[str, object],
) -> Splits | None:
    if data is not None:
        if not (train is None and val is None and test is None):
            raise ConfigError("give either data, or train and val (and test), not both")
        ratio, seed = settings.get("split_ratio", AUTO), settings.get("split_seed", 42)
        return by_ratio(rows_of(data, "data"), str(ratio), int(str(seed)))
    if train is None and val is None:
        return None
    if train is None or val is None:
        raise ConfigError("train and val go together; test is optional")
    return Splits(
        tuple(rows_of(train, "train")),
        tuple(rows_of(val, "val")),
        tuple(rows_of(test or [], "test")),
    )


def _named(role: Role, model: ModelLike | None) -> dict[str, str]:
    """The settings that name a model; a callable is named by where it is defined."""
    match model:
        case None:
            return {}
        case str():
            return {f"model.{role}": model}
        case _:
            return {f"model.{role}": reference(model), f"model.{role}_backend": "scripted"}


def _own(**given: ModelLike | None) -> dict[Role, Model]:
    """The functions among these models, by role."""
    return {
        cast("Role", role): from_callable(model)
        for role, model in given.items()
        if model is not None and not isinstance(model, str)
    }


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


def _environment_name(
    environment: str | Environment, splits: Splits | None, scorer: ScorerLike | None
) -> str:
    """What the settings call the environment; an object has tasks and a scorer already."""
    if isinstance(environment, str):
        return environment
    if splits is not None or scorer is not None:
        raise ConfigError("an environment object has its own tasks and scores them; give no others")
    return part_name(environment)


def _several(proposer: ProposerLike | None) -> list[str | Proposer]:
    """The proposers that were given, none or one or several."""
    match proposer:
        case None:
            return []
        case str():
            return [proposer]
        case Sequence():
            return list(proposer)
        case _:
            return [proposer]


def _named_harness(harness: Harness | None, target: ModelLike | None) -> dict[str, str]:
    """The settings that name the caller's own harness by its class, which is the target, too."""
    if harness is None:
        return {}
    name = f"{type(harness).__module__}:{type(harness).__qualname__}"
    named = {"model.target": name, "model.target_backend": "scripted"} if target is None else {}
    return {"env.harness": name, **named}


@contextmanager
def _in_use(*given: object) -> Generator[None, None, None]:
    """What these callables and parts change in themselves meanwhile does not make them others."""
    codes = [code_of(each) for each in given if each is not None and not isinstance(each, str)]
    found = [(each, identify(each)) for each in codes]
    try:
        yield
    finally:
        for function, identity in found:
            used(function, identity)


def _skill(skill: SkillLike) -> Skill | None:
    """A path is read; so is a text of one line that names a document or a package's folder."""
    match skill:
        case None:
            return None
        case Path():
            return read_skill(skill)
        case str() if "\n" not in skill and (skill.endswith(".md") or _is_package(skill)):
            return read_skill(Path(skill))
        case str():
            return Skill.parse(skill)


def _is_package(text: str) -> bool:
    return os.path.isfile(os.path.join(text, MAIN))  # noqa: PTH113, PTH118 - any text will do


def _beating(shown: PlainProgress | None) -> AbstractContextManager[None]:
    """While the block runs, a long silence is broken by a line that work goes on."""
    return nullcontext() if shown is None else heartbeat(shown.pulse)


def _watching(*watchers: Watcher | None) -> Watcher:
    """Those that are there, one after the other."""
    here = [each for each in watchers if each is not None]

    def watch(event: Event | Signal) -> None:
        for each in here:
            each(event)

    return watch
