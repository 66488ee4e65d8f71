"""What runs have left in their directories: results, skills, files that can be written again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from difflib import unified_diff
from html import escape
from pathlib import Path
from typing import Literal, cast

from skillopt.analysis.report import Claim, claim, figures, mean, metric_of
from skillopt.app.environment import data_of
from skillopt.config.load import load_kept
from skillopt.core.chat import Usage
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.errors import ConfigError, StoreError
from skillopt.gates.statistics import Interval
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector
from skillopt.store.reader import RunReader, Status
from skillopt.store.run_history import useless


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of a training run."""

    best_skill: str
    """The best skill as one text; a package is also stored as the folder `best_skill` in `out`."""
    state: State
    """The complete state: scores per task, the final test, the last skill."""
    out: Path
    """The run directory. The same call resumes the run there."""
    spent: Usage
    problem: str = ""
    """Set if no reply of the optimizer was usable, so that there is no meaningful result."""
    warnings: tuple[str, ...] = ()
    """Problems of the run, such as a gate that cannot accept anything, each with what to do."""

    @property
    def score(self) -> float:
        """Score of the best skill on the val tasks, in the metric `evaluation.gate_metric`.

        The best skill was selected by this score, so it is biased upwards; `test_score` is not.
        """
        return metric_of(self.state)(self.state.best.evaluation)

    @property
    def test_score(self) -> float | None:
        """Score of the best skill on the test tasks, same metric; None without a final test."""
        final_test = self.state.final_test
        return None if final_test is None else metric_of(self.state)(final_test.best)

    @property
    def split(self) -> Split:
        """The split of `before`, `after` and `claim`: test, or val if there was no final test."""
        return self.claim.split

    @property
    def before(self) -> Interval:
        """Mean score of the initial skill on `split` with its 95 % interval."""
        final_test = self.state.final_test
        return self._mean(
            self.state.initial.evaluation if final_test is None else final_test.initial
        )

    @property
    def after(self) -> Interval:
        """Mean score of the best skill on `split` with its 95 % interval."""
        final_test = self.state.final_test
        return self._mean(self.state.best.evaluation if final_test is None else final_test.best)

    @property
    def claim(self) -> Claim:
        """The gain with its 95 % interval, and whether it is conclusive."""
        return claim(self.state)

    @property
    def cost(self) -> str:
        """Calls, tokens and dollars of the run, as text."""
        tokens = self.spent.input + self.spent.output
        dollars = f", ${self.spent.dollars:,.2f}" if self.spent.dollars else ""
        return f"{self.spent.calls:,} calls, {tokens:,} tokens{dollars}"

    def _mean(self, evaluation: Evaluation) -> Interval:
        return mean(evaluation, metric_of(self.state))

    def __repr__(self) -> str:
        change = f"{self.split} {self.before.mean:.3f} -> {self.after.mean:.3f}"
        problem = f"; {self.problem}" if self.problem else ""
        return f"Result({change}; {self.claim.words()}; {self.cost}; {str(self.out)!r}{problem})"

    def _repr_html_(self) -> str:
        """For notebooks: claim, chart, change of the skill, cost."""
        return shown_in_notebook(self.out, "html") or f"<pre>{escape(repr(self))}</pre>"

    def _repr_markdown_(self) -> str:
        """The summary that is also made for pull requests."""
        return shown_in_notebook(self.out, "markdown") or f"`{self!r}`"


def shown_in_notebook(out: Path, kind: Literal["html", "markdown"]) -> str:
    """The run in a directory as notebooks show it; empty if it is not there any more."""
    from skillopt.app.summaries import run_html, run_markdown
    from skillopt.app.views import RunViews

    try:
        with RunViews(RunReader(out)) as views:
            return run_html(views) if kind == "html" else run_markdown(views)
    except StoreError:
        return ""


def read_result(reader: RunReader) -> Result:
    """The result so far of the run in a directory."""
    problem = useless(reader.facts)
    return Result(
        best_skill=reader.state.best.skill.render(),
        state=reader.state,
        out=reader.layout.root,
        spent=sum(reader.spent().values(), Usage()),
        problem=problem,
        warnings=(*reader.warnings, *([problem] if problem else [])),
    )


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
    seconds: float = 0.0
    """How long its operations took, in all processes."""
    steps: int = 0

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.result.out

    @property
    def simulated(self) -> bool:
        """Whether a model is simulated; then scores say nothing about a real model."""
        return is_simulated(self.target) or is_simulated(self.optimizer)

    def _repr_html_(self) -> str:
        return shown_in_notebook(self.out, "html") or f"<pre>{escape(repr(self))}</pre>"

    def _repr_markdown_(self) -> str:
        return shown_in_notebook(self.out, "markdown") or f"`{self!r}`"


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run of an earlier version in a format that is no longer read."""

    out: Path
    """The run directory."""
    why: str
    """What wrote it, and what to do."""
    status: Literal["old format"] = "old format"


def is_simulated(model: str) -> bool:
    """Whether this is the name of a model of `skillopt.testing.simulator`."""
    return model.startswith("simulated-")


def describe(reader: RunReader) -> Run:
    """The result with status, models, data and seed, as far as the settings can be read."""
    try:
        config = load_kept(reader.config)
    except (StoreError, ConfigError):
        config = None
    return Run(
        status=reader.status,
        why=reader.why,
        benchmark="" if config is None else config.env.name,
        target="" if config is None else config.model.role("target").model,
        optimizer="" if config is None else config.model.role("optimizer").model,
        seed=None if config is None else config.train.seed,
        data="" if config is None else data_of(config),
        result=read_result(reader),
        seconds=sum(entry.wall for entry in reader.entries),
        steps=reader.last_step,
    )


def skill_diff(old: Skill, new: Skill, a: str, b: str) -> str:
    """A unified diff, of packages file by file; empty if the skills are the same."""
    if old == new:
        return ""
    before, after = old.files, new.files
    lines: list[str] = []
    for path in dict.fromkeys([*before, *after]):
        tail = f"/{path}" if len(before) + len(after) > 2 else ""
        was, now = before.get(path, "").splitlines(), after.get(path, "").splitlines()
        lines += unified_diff(was, now, f"{a}{tail}", f"{b}{tail}", lineterm="", n=2)
    return "\n".join(lines) or f"{a} and {b} differ in line endings only"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was missing or damaged in a run directory and was written again."""

    files: tuple[Path, ...]
    settings_lost: bool
    """Whether no file has the settings of the run any more."""


def rebuild(layout: Layout) -> Rebuilt:
    """Write the report files of a run again from its event log."""
    settings = _settings(layout)
    with RunLock(layout.root), closing(SqliteCache(layout.cache)) as cache:
        document = _document(settings)
        projector = Projector(layout, cache, settings, extra=figures, document=document)
        written = projector.rebuild(EventFile(layout.events).events())
    return Rebuilt(tuple(written), not settings)


def _document(settings: Mapping[str, object]) -> str:
    """The settings in sections; empty where they can no longer be read."""
    try:
        return load_kept(settings).dump() if settings else ""
    except ConfigError:
        return ""


def _settings(layout: Layout) -> Mapping[str, object]:
    """The settings of the latest start, from whichever file still has them."""
    settings = _read_object(layout.config)
    if settings:
        return settings
    inside = _read_object(layout.summary).get("config")
    return cast("dict[str, object]", inside) if isinstance(inside, dict) else {}


def _read_object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
