"""The Python API: a function for every command, most of them also with the suffix `_async`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import Literal, ParamSpec, TypeVar, cast

from typing_extensions import Unpack

from skillopt.aio import run_blocking
from skillopt.analysis.integrity.findings import CheckFinding
from skillopt.app import attributing
from skillopt.app.attributing import AttributionPlan, Blame
from skillopt.app.calibrating import Noise
from skillopt.app.calibrating import calibrate as measure_noise
from skillopt.app.costs import Estimate
from skillopt.app.data import DataReport, materialize_data
from skillopt.app.data import benchmark_data as look_at_data
from skillopt.app.doctor import DoctorFinding
from skillopt.app.doctor import doctor as find_problems
from skillopt.app.environment import ENVIRONMENTS
from skillopt.app.estimate import estimate as run_estimate
from skillopt.app.evaluation import EvalResult
from skillopt.app.evaluation import evaluate as run_evaluation
from skillopt.app.exporting import write_for_program
from skillopt.app.inputs import (
    ConfigLike,
    EvalInputs,
    Inputs,
    ProposerLike,
    Rows,
    SkillLike,
    check_names,
    configured,
    given_skill,
    in_use,
    loaded,
    prepared,
    secrets_of,
)
from skillopt.app.integrity import check as find_faults
from skillopt.app.integrity import check_run
from skillopt.app.judging import JudgeAgreement, JudgedAnswer, check_judge
from skillopt.app.machine import check_machine, check_sandbox
from skillopt.app.models import with_backend_defaults
from skillopt.app.report import ReportParts, report_html
from skillopt.app.result import (
    OldRun,
    Rebuilt,
    Result,
    Run,
    describe,
    is_simulated,
    read_result,
    rebuild,
    skill_diff,
)
from skillopt.app.reviewing import (
    PersonsDecision,
    ReviewItem,
    ReviewResult,
    repeat_final_test,
    review_items,
    starting_text,
)
from skillopt.app.reviewing import review as carry_out
from skillopt.app.run_spec import ROLES, RunSpec
from skillopt.app.scaffold import NewEnv, new_environment
from skillopt.app.summaries import run_markdown
from skillopt.app.training import run_training
from skillopt.app.transfer import (
    Transfer,
    cell_folder,
    config_for_harness,
    measure_transfer,
    settings_of_harness,
)
from skillopt.app.views import RunViews
from skillopt.app.wording import REPORT_MARK
from skillopt.config.load import load_kept
from skillopt.config.local_models import told_defaults
from skillopt.config.recipe import told_recipe
from skillopt.config.reference import KeyEntry, part_keys, schema_keys
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.attribution import Attribution
from skillopt.core.callables import reference
from skillopt.core.events import Event, Signal
from skillopt.core.facts import ReviewVerdict
from skillopt.core.ports import Watcher
from skillopt.core.rollout import Score
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.datasets.manifests import Materialized
from skillopt.datasets.rows import read_rows, rows_of
from skillopt.errors import ConfigError, DataError, OldFormat, SkilloptError, StoreError
from skillopt.model.fetch import Fetcher, FetchProgress
from skillopt.model.scripted import PlainCallable
from skillopt.model.weights import CATALOGUE, Folder, Weights, default_root, find
from skillopt.progress import PlainProgress, heartbeat
from skillopt.store.events import LogReader
from skillopt.store.files import write_atomic
from skillopt.store.layout import Layout, run_folders
from skillopt.store.reader import RunReader
from skillopt.store.results import EvaluationReport, read_evaluation

__all__ = [
    "DamagedRun",
    "DataReport",
    "EvalInputs",
    "Inputs",
    "JudgeAgreement",
    "JudgedAnswer",
    "LocalModel",
    "Materialized",
    "NewEnv",
    "Noise",
    "OldRun",
    "ProposerLike",
    "Result",
    "ReviewItem",
    "ReviewResult",
    "Run",
    "RunViews",
    "Score",
    "attribute",
    "attribute_async",
    "benchmark_data",
    "blame",
    "calibrate",
    "calibrate_async",
    "check",
    "check_async",
    "config_keys",
    "describe_run",
    "diff_run",
    "doctor",
    "doctor_async",
    "effective_config",
    "estimate",
    "estimate_async",
    "evaluate",
    "evaluate_async",
    "export_skill",
    "fetch_model",
    "final_test",
    "final_test_async",
    "find_runs",
    "is_simulated",
    "judge_check",
    "judge_check_async",
    "list_runs",
    "load_evaluation",
    "load_run",
    "local_models",
    "materialize",
    "model_path",
    "new_env",
    "open_run",
    "plan_attribution",
    "prepare",
    "proposals",
    "rebuild_run",
    "remove_model",
    "report_markdown",
    "review",
    "review_async",
    "run_training",
    "text_to_edit",
    "train",
    "train_async",
    "transfer",
    "transfer_async",
    "view_run",
    "write_report",
]

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(work: Callable[P, Coroutine[object, object, R]]) -> Callable[P, R]:
    """A synchronous version of an async function; it also works inside a running event loop."""

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return run_blocking(work(*args, **kwargs))

    return call


def prepare(config: ConfigLike = None, **inputs: Unpack[Inputs]) -> RunSpec:
    """Read and check everything that a run needs; writes no file and calls no model.

    The result can be given to `train`, `estimate` and `calibrate` instead of a configuration.
    """
    return prepared(config, inputs)


async def train_async(
    config: ConfigLike | RunSpec = None,
    *,
    watch: Watcher | None = None,
    progress: bool = True,
    **inputs: Unpack[Inputs],
) -> Result:
    """Train a skill and return the result. The same call resumes an interrupted run.

    `train` is the synchronous version.

    Args:
        config: A YAML file to start from; without one, the defaults and environment `custom`.
        watch: Called with every event of the run.
        progress: Whether to write a line for each step to standard error.
        inputs: Data, models, skill and settings: see the fields of `skillopt.api.Inputs`.

    Raises:
        SkilloptError: The message says what to do. Finished work is saved.
    """
    spec, secrets = prepared(config, inputs), secrets_of(config, inputs)
    with in_use(inputs), _reporting(watch, progress=progress) as (report, tell):

        def warn(text: str) -> None:
            tell(f"warning: {text}")

        target, optimizer = (spec.config.model.role(role).model for role in ROLES)
        tell(f"skillopt: target {target}, optimizer {optimizer}; run directory {spec.out}")
        tell(told_recipe(spec.config))
        if chosen := told_defaults(spec.config):
            tell(chosen)
        result = await run_training(spec, watch=report, warn=warn, secrets=secrets)
        if result.problem:
            warn(result.problem)
        tell(f"done: {result.claim.words()}; {result.cost}")
        return result


async def estimate_async(config: ConfigLike | RunSpec = None, **inputs: Unpack[Inputs]) -> Estimate:
    """Estimate calls, tokens, time and, if prices are known, dollars of a training run.

    `estimate` is the synchronous version. Arguments as in `train`. Calls no model and writes no
    file.
    """
    return await run_estimate(prepared(config, inputs))


async def evaluate_async(
    skill: str | Path,
    config: ConfigLike = None,
    *,
    rows: Rows | None = None,
    split: str = "all",
    watch: Watcher | None = None,
    progress: bool = True,
    **inputs: Unpack[EvalInputs],
) -> EvalResult:
    """Evaluate a skill on rows, or on a split of the data of the configuration.

    `evaluate` is the synchronous version. Arguments as in `train`. The result has hard and soft
    scores per task and per split.
    """
    check_names(inputs, EvalInputs)
    _check_split(rows, split)
    run_inputs = Inputs(**inputs, skill=skill)
    settings, supplied = configured(config, run_inputs, rows)
    with in_use(run_inputs), _reporting(watch, progress=progress) as (report, _):
        return await run_evaluation(
            settings,
            supplied,
            report,
            secrets_of(config, inputs),
            split="test" if rows is not None else split,
            name=str(skill) if isinstance(skill, Path) else "",
        )


def _check_split(rows: Rows | None, split: str) -> None:
    if rows is not None and split not in ("all", "test"):
        raise ConfigError(f"rows are evaluated all together; leave out split={split!r}")


async def transfer_async(
    skill: str | Path,
    config: ConfigLike = None,
    *,
    harnesses: Sequence[str] = (),
    targets: Sequence[str | PlainCallable] = (),
    rows: Rows | None = None,
    split: str = "all",
    watch: Watcher | None = None,
    progress: bool = True,
    **inputs: Unpack[EvalInputs],
) -> Transfer:
    """Evaluate one skill with several harnesses and models: every combination of them.

    `transfer` is the synchronous version. A combination that fails says why, and the others are
    evaluated all the same. Each is an evaluation as `evaluate` makes it, with a directory of its
    own, so finished attempts are reused.

    Args:
        skill: As in `evaluate`.
        config: As in `train`.
        harnesses: Names of harnesses; none: the configured one.
        targets: Names of models, or functions from prompt to answer; none: the configured one.
        rows: As in `evaluate`.
        split: As in `evaluate`.
        watch: As in `train`.
        progress: As in `train`.
        inputs: As in `train`; `out` is the folder for the directories of all combinations.
    """
    check_names(inputs, EvalInputs)
    _check_split(rows, split)
    models = {
        target if isinstance(target, str) else reference(target): target for target in targets
    }
    base, _ = configured(config, Inputs(**inputs, skill=skill), rows)
    out = inputs.get("out") or base.env.out_root
    names = [*models] or [base.model.role("target").model]
    chosen = {name: settings_of_harness(name) for name in harnesses}

    async def one(harness: str, target: str) -> EvalResult:
        cell = EvalInputs(**inputs)
        # What was set otherwise is in the configuration of the cell.
        cell["settings"] = chosen.get(harness, inputs.get("settings") or {})
        if out:
            cell["out"] = cell_folder(out, harness, target)
        if models:
            cell["target"] = models[target]
        own = config_for_harness(base, harness, chosen) if chosen else config
        return await evaluate_async(
            skill, own, rows=rows, split=split, watch=watch, progress=progress, **cell
        )

    return await measure_transfer([*chosen] or [base.env.harness], names, one)


def export_skill(
    source: str | Path,
    program: str,
    out: str | Path,
    *,
    name: str = "",
    description: str = "",
    home: bool = False,
    force: bool = False,
) -> list[Path]:
    """Write a skill to where an agent program looks for it, in the format that it reads.

    Args:
        source: A skill file, a package folder, or a run directory for its best skill.
        program: claude, codex, copilot, cursor, gemini, opencode, openclaw or qwen.
        out: The folder in which the program will work.
        name: The name of the skill; without one, that of its front matter, or of its file.
        description: What it is for; without one, that of its front matter, or its first heading.
        home: Whether `out` is the home of a user; some programs look in another place there.
        force: Whether to replace a skill there that somebody else wrote or has changed since.

    Returns:
        The files that were written.
    """
    return write_for_program(
        Path(source),
        program,
        Path(out),
        name=name,
        description=description,
        home=home,
        force=force,
    )


async def check_async(
    config: ConfigLike = None,
    *,
    trained: SkillLike = None,
    sample: int | None = None,
    watch: Watcher | None = None,
    **inputs: Unpack[Inputs],
) -> list[CheckFinding]:
    """Check data and scorer for problems, or check whether a trained skill copies items.

    `check` is the synchronous version. Calls no model, unless `sample` is given.

    Args:
        config: As in `train`, or a run directory; then its best skill is checked.
        trained: A trained skill to check on the same data, instead of data and scorer.
        sample: Number of val items on which the target is called, for a baseline without the skill;
            may cost money.
        watch: Called with every event, if the target is called.
        inputs: As in `train`.
    """
    document = given_skill(trained)
    if (folder := _folder(config)) is not None:
        return await check_run(folder, document)
    settings, supplied = configured(config, inputs)
    with in_use(inputs):
        return await find_faults(
            settings,
            supplied,
            trained=document,
            sample=sample,
            watch=watch or _ignore,
            secrets=secrets_of(config, inputs),
        )


def _folder(config: ConfigLike) -> Path | None:
    """The run directory, if it is one that is named."""
    return Path(config) if isinstance(config, str | Path) and Path(config).is_dir() else None


async def calibrate_async(
    config: ConfigLike | RunSpec = None,
    *,
    effect: float = 0.05,
    power: float = 0.8,
    watch: Watcher | None = None,
    progress: bool = True,
    **inputs: Unpack[Inputs],
) -> Noise:
    """Evaluate the current skill at least twice on val and measure the noise of its scores.

    `calibrate` is the synchronous version. The attempts are cached in the run directory, so
    training reuses them at no cost.

    Args:
        config: As in `train`.
        effect: The smallest gain in score to detect, from 0 to 1.
        power: The probability of detecting that gain.
        watch: As in `train`.
        progress: As in `train`.
        inputs: As in `train`.
    """
    spec = prepared(config, inputs)
    with in_use(inputs), _reporting(watch, progress=progress) as (report, _):
        return await measure_noise(spec, report, inputs.get("secrets"), effect=effect, power=power)


async def judge_check_async(
    labels: str | Path | Sequence[Mapping[str, object]],
    config: ConfigLike = None,
    *,
    watch: Watcher | None = None,
    **inputs: Unpack[Inputs],
) -> JudgeAgreement:
    """Ask the judge of an environment about answers that people have labelled.

    `judge_check` is the synchronous version. Its data is not needed.

    Args:
        labels: A file (JSON, JSONL, CSV, XLSX) or rows with `question`, `answer`, `label`, and
            `references` where the judge is shown any. `label` is one of the judge's verdicts, or
            yes or no. `results.jsonl` of an evaluation with labels added to it will do.
        config: As in `train`.
        watch: Called with every event.
        inputs: As in `train`; data and skill are not used.
    """
    settings, supplied = configured(config, inputs)
    given = Path(labels) if isinstance(labels, str | Path) else None
    rows = read_rows(given) if given else rows_of(cast("Rows", labels), "labels")
    with in_use(inputs):
        return await check_judge(
            settings, rows, supplied, watch or _ignore, secrets_of(config, inputs)
        )


def plan_attribution(
    run: str | Path,
    *,
    tasks: int = 40,
    settings: Mapping[str, object] | None = None,
    config: Config | None = None,
) -> AttributionPlan:
    """What `attribute` would measure of a run, and what that takes. Calls no model.

    Arguments as in `attribute`; `config` is used instead of the settings of the run.
    """
    with RunReader(Path(run)) as reader:
        config = config or load_kept({**reader.config, **(settings or {})})
        with _moved_data(f"skillopt attribute {quote(str(run))}"):
            return attributing.plan_attribution(config, reader, tasks)


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
        run: A run directory, or what `plan_attribution` has returned.
        tasks: Number of val tasks on which each rule is measured.
        settings: Settings that override those of the run, such as `env.data_path`.
        watch: As in `train`.
        progress: As in `train`.
        secrets: Environment variables, if they are already loaded.
    """
    if not isinstance(run, AttributionPlan):
        run = plan_attribution(run, tasks=tasks, settings=settings)
    with _reporting(watch, progress=progress) as (report, _):
        return await attributing.attribute(run, report, secrets)


def blame(skill: str | Path, run: str | Path | None = None) -> Blame:
    """The origin, the evidence and the measured effect of each line of a skill.

    `skill` is a run directory (for its best skill), a file or a package folder; `run` the run
    directory, if the skill is not inside it.
    """
    return attributing.blame(Path(skill), None if run is None else Path(run))


def proposals(run: str | Path | RunViews) -> list[ReviewItem]:
    """Every proposal of a run that a person may accept or reject, the latest first."""
    if isinstance(run, RunViews):
        return review_items(run)
    with view_run(run) as views:
        return review_items(views)


def text_to_edit(run: str | Path | RunReader, about: str = "") -> str:
    """What an edit by hand begins with: the current skill, with the changes of a proposal in it."""
    if isinstance(run, RunReader):
        return starting_text(run, about)
    with RunReader(Path(run)) as reader:
        return starting_text(reader, about)


async def review_async(
    run: str | Path,
    verdict: ReviewVerdict,
    about: str = "",
    *,
    text: SkillLike | Skill = None,
    reviewer: str = "",
    comment: str = "",
    if_better: bool = False,
    as_best: bool = False,
    base: str = "",
    dry_run: bool = False,
    settings: Mapping[str, object] | None = None,
    config: Config | RunSpec | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
    secrets: Secrets | None = None,
) -> ReviewResult:
    """Accept, reject or edit a proposal by hand, in a run that no process trains at the moment.

    `review` is the synchronous version. The skill that this makes is measured on val with the
    models of the run, becomes current, and the decision is recorded; training continues from it.
    It becomes the best skill if it scores better than the best one.

    Args:
        run: A run directory.
        verdict: accept, reject or edit.
        about: The proposal, as `proposals` names it.
        text: For an edit: the new skill, as text, a file or a package folder. A text from somebody
            who may not read files here is given as `Skill.parse(text)`.
        reviewer: Who decides; recorded.
        comment: Why; recorded, and read by the optimizer.
        if_better: Let the gate of the run decide about an edit.
        as_best: Make it the best skill whatever it scores.
        base: Digest of the skill that this was decided from (`open_run(run).state.current.skill`);
            if another one is current by now, nothing is done and `Outdated` is raised.
        dry_run: Measure, but record nothing.
        settings: Settings that override those of the run, such as `env.data_path`.
        config: Used instead of the settings of the run. What `prepare` returns for the arguments
            of the training, if models, scorer or data were given in Python.
        watch: As in `train`.
        progress: As in `train`.
        secrets: Environment variables, if they are already loaded.
    """
    wish = PersonsDecision(
        verdict=verdict,
        about=about,
        text=text if isinstance(text, Skill) else given_skill(text),
        reviewer=reviewer,
        comment=comment,
        if_better=if_better,
        as_best=as_best,
        base=base,
    )
    with RunReader(Path(run)) as reader, _reporting(watch, progress=progress) as (report, _):
        config = config or load_kept({**reader.config, **(settings or {})})
        with _moved_data(f"skillopt review {quote(str(run))}"):
            return await carry_out(
                config, reader, wish, dry_run=dry_run, watch=report, secrets=secrets
            )


async def final_test_async(
    run: str | Path,
    *,
    settings: Mapping[str, object] | None = None,
    config: Config | RunSpec | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
    secrets: Secrets | None = None,
) -> State:
    """Measure the final test of a finished run again, after a review has changed its skills.

    `final_test` is the synchronous version. `RunViews.untested` tells how many attempts it takes at
    most; those that are kept cost nothing. Arguments are as in `review`.
    """
    with RunReader(Path(run)) as reader, _reporting(watch, progress=progress) as (report, _):
        config = config or load_kept({**reader.config, **(settings or {})})
        with _moved_data(f"skillopt review {quote(str(run))} --test"):
            return await repeat_final_test(config, reader, watch=report, secrets=secrets)


@contextmanager
def _moved_data(command: str) -> Generator[None, None, None]:
    """Where the data of a run cannot be used, say how to name its new place."""
    try:
        yield
    except (ConfigError, DataError) as error:
        raise type(error)(
            f"{error}\nif the data has moved, give its new location: {command} "
            "env.data_path=FILE (or env.split_dir=FOLDER)"
        ) from error


async def doctor_async(
    config: ConfigLike = None,
    *,
    offline: bool = False,
    machine: bool = False,
    settings: Mapping[str, object] | None = None,
    secrets: Secrets | None = None,
) -> list[DoctorFinding]:
    """Check what a run needs: data, disk, keys, servers and whether the models answer.

    `doctor` is the synchronous version. Without a configuration and settings, only the disk is
    checked.

    Args:
        config: A YAML file.
        offline: Call no model.
        machine: Also list what this machine has: keys, model servers, programs, local models.
        settings: As in `train`.
        secrets: Environment variables, if they are already loaded.
    """
    secrets = secrets or secrets_of(config, {})
    settled = None if config is None and not settings else loaded(config, settings)
    findings = [*check_machine(secrets), *await check_sandbox(settled)] if machine else []
    return [*findings, *await find_problems(settled, secrets, offline=offline)]


def effective_config(
    config: ConfigLike = None,
    *,
    settings: Mapping[str, object] | None = None,
    secrets: Secrets | None = None,
) -> Config:
    """Every setting with its value, also those that depend on backend and environment."""
    return with_backend_defaults(loaded(config, settings), secrets or secrets_of(config, {}))


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


def view_run(folder: str | Path) -> RunViews:
    """Everything that people are shown of a run, as values: claim, steps, skills, items, cost.

    Use it in a `with` block; `refresh()` takes in what was recorded since.
    """
    return RunViews(RunReader(Path(folder)))


def write_report(
    run: str | Path, out: str | Path | None = None, *, markdown: bool = False, check: bool = True
) -> Path:
    """Write the report of a run, finished or not, and return its path.

    Args:
        run: A run directory.
        out: A file; without one, `report.html` (`report.md`) in the run directory.
        markdown: Write a summary in Markdown, for a pull request, instead of the HTML report.
        check: Whether to check if the best skill copies items; reads the data, calls no model.
    """
    folder = Path(run)
    place = Path(out) if out else folder / ("report.md" if markdown else "report.html")
    _check_replaceable(place)
    if markdown:
        text = report_markdown(folder)
    else:
        with view_run(folder) as views:
            text = report_html(views, _checked(folder, views) if check else ReportParts())
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, text.encode(errors="replace"))
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}; give another --out") from error
    return place


def _check_replaceable(place: Path) -> None:
    """Refuse to write a report over the files of a run, or over anything that is no report."""
    target = place.resolve()
    inside = next((each for each in target.parents if Layout(each).events.exists()), None)
    if inside is not None and target not in (inside / "report.html", inside / "report.md"):
        raise StoreError(
            f"{place} is among the files of a run; there, a report is report.html or report.md. "
            "Give another --out."
        )
    try:
        known = not target.exists() or (target.is_file() and _is_report(target))
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}; give another --out") from error
    if not known:
        raise StoreError(f"{place} exists and is no report; remove it or give another --out")


def _is_report(file: Path) -> bool:
    """Whether we wrote it: a page says so at its beginning, a summary at its end."""
    with file.open("rb") as opened:
        head = opened.read(4096)
        opened.seek(max(0, file.stat().st_size - 4096))
        return REPORT_MARK.encode() in head + opened.read(4096)


def report_markdown(run: str | Path) -> str:
    """The summary of a run in Markdown, for a pull request."""
    with view_run(run) as views:
        return run_markdown(views)


def _checked(folder: Path, views: RunViews) -> ReportParts:
    """What the checks say of the best skill, or why they cannot."""
    made = datetime.now(timezone.utc).isoformat(sep=" ", timespec="minutes")
    if not views.begun:
        return ReportParts(made=made)
    try:
        return ReportParts(run_blocking(check_run(folder, None)), made=made)
    except SkilloptError as error:
        return ReportParts(unchecked=str(error), made=made)


def describe_run(folder: str | Path) -> Run:
    """Read a run from its directory, finished or still running."""
    with RunReader(Path(folder)) as reader:
        return describe(reader)


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A run with files that cannot be read."""

    out: Path
    """The run directory."""
    why: str
    """What cannot be read, and what to do."""
    status: Literal["damaged"] = "damaged"


def list_runs(folder: str | Path = ".") -> list[Run | OldRun | DamagedRun]:
    """List the runs in a folder and up to two levels below it, sorted by name.

    A run is listed once its initial skill has been measured. One that only an earlier version can
    read is an `OldRun`, with the status `old format`; one that cannot be read is a `DamagedRun`.
    """
    runs: list[Run | OldRun | DamagedRun] = []
    for run_folder in run_folders(Path(folder)):
        try:
            runs.append(describe_run(run_folder))
        except OldFormat as error:  # noqa: PERF203 - each run by itself
            runs.append(OldRun(run_folder, str(error)))
        except StoreError as error:
            if _has_begun(run_folder):
                runs.append(DamagedRun(run_folder, str(error)))
    return runs


def _has_begun(folder: Path) -> bool:
    """Whether anything is recorded, readable or not."""
    try:
        return bool(LogReader(Layout(folder).events).read())
    except StoreError:
        return True


def find_runs(folder: str | Path = ".") -> list[Path]:
    """The directories that `list_runs` looks into, without reading what they hold."""
    return run_folders(Path(folder))


def config_keys(environment: str = "") -> tuple[KeyEntry, ...]:
    """Every setting with type, range, default and meaning; with those of an environment, if named.

    Raises:
        ConfigError: There is no such environment.
    """
    own = part_keys("env", ENVIRONMENTS.load(environment)) if environment else ()
    common = schema_keys()
    known = {entry.key for entry in common}
    return (*common, *(entry for entry in own if entry.key not in known))


def diff_run(folder: str | Path, a: str = "initial", b: str = "best") -> str:
    """A unified diff of two skills of a run; empty if they are the same.

    `a` and `b` are initial, best, last, a step number, the first characters of a digest, or the
    path of a file or of a package folder.
    """
    with RunReader(Path(folder)) as reader:
        return skill_diff(reader.skill(a), reader.skill(b), a, b)


def rebuild_run(folder: str | Path) -> Rebuilt:
    """Write the report files of a run that are missing or damaged again, from its event log."""
    with RunReader(Path(folder)) as reader:
        return rebuild(reader.layout)


def load_evaluation(folder: str | Path) -> EvaluationReport:
    """Read the result of `evaluate` from its directory."""
    return read_evaluation(Path(folder))


def benchmark_data(name: str, place: str | Path | None = None) -> DataReport:
    """What data an environment needs; with a file or folder, also what of it is there.

    `place` holds published files, or is a folder that `materialize` made.
    """
    return look_at_data(name, None if place is None else Path(place))


def materialize(
    name: str,
    *,
    raw: str | Path,
    out: str | Path,
    manifest: str | Path | None = None,
    ratio: str = "2:1:7",
    seed: int = 42,
    partial: bool = False,
    force: bool = False,
) -> Materialized:
    """Make a split folder from the published data of a benchmark on this machine.

    Args:
        name: An environment: a registered name or `module:Name`.
        raw: The published data, a file or folder.
        out: A new folder, or one that this function has written before.
        manifest: A folder with the ids of train, val and test; without it, all items are split.
        ratio: Shares of train:val:test, without a manifest.
        seed: Of that split.
        partial: Whether ids without an item, and items that cannot be used, are left out.
        force: Whether files in `out` that were changed since they were written are replaced.
    """
    return materialize_data(
        name,
        Path(raw),
        Path(out),
        manifest=None if manifest is None else Path(manifest),
        ratio=ratio,
        seed=seed,
        partial=partial,
        force=force,
    )


def new_env(name: str, out: str | Path | None = None) -> NewEnv:
    """Write a new environment with test, data, skill and configuration, which works as it is.

    `out` is a new folder; by default, it is called like the environment.
    """
    return new_environment(name, None if out is None else Path(out))


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model for backend `local`."""

    weights: Weights
    """Its name, size, licence and source."""
    file: Path
    """Where the file is, or would be."""
    is_here: bool


def local_models(secrets: Secrets | None = None) -> list[LocalModel]:
    """List the models that can be downloaded, and which of them are on this machine."""
    folder = _model_folder(secrets)
    return [
        LocalModel(weights, folder.place(weights), folder.has(weights)) for weights in CATALOGUE
    ]


def fetch_model(
    name: str, progress: FetchProgress = lambda source, done: None, secrets: Secrets | None = None
) -> Path:
    """Download a model, or the rest of it, and return its path.

    `progress` is called with the source and the number of bytes so far.
    """
    return Fetcher(_model_folder(secrets)).fetch(find(name), progress)


def model_path(name: str, secrets: Secrets | None = None) -> Path:
    """The file of a model that was downloaded; `AccessError` if it was not."""
    return _model_folder(secrets).path(find(name))


def remove_model(name: str, secrets: Secrets | None = None) -> int:
    """Delete a model from this machine; the number of bytes freed."""
    return _model_folder(secrets).remove(find(name))


def _model_folder(secrets: Secrets | None) -> Folder:
    return Folder(default_root((secrets or Secrets.load()).setting))


train = _blocking(train_async)
estimate = _blocking(estimate_async)
evaluate = _blocking(evaluate_async)
transfer = _blocking(transfer_async)
check = _blocking(check_async)
calibrate = _blocking(calibrate_async)
attribute = _blocking(attribute_async)
doctor = _blocking(doctor_async)
review = _blocking(review_async)
final_test = _blocking(final_test_async)
judge_check = _blocking(judge_check_async)


def _ignore(_: object) -> None:
    """Nobody is told."""


@contextmanager
def _reporting(
    watch: Watcher | None, *, progress: bool
) -> Generator[tuple[Watcher, Callable[[str], None]], None, None]:
    """What events go to, and what lines go to: the caller's watcher, and standard error."""
    if not progress:
        yield watch or _ignore, _ignore
        return
    shown = PlainProgress()

    def report(event: Event | Signal) -> None:
        if watch is not None:
            watch(event)
        shown(event)

    with heartbeat(shown.pulse):
        yield report, shown.tell
