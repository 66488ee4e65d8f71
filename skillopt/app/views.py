"""What people are shown of a run, as values: for pages, reports, notebooks and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from skillopt.analysis.differences import FileDiff, skill_differences
from skillopt.analysis.items import ItemMatrix, ItemTable
from skillopt.analysis.report import FEW, claim, metric_of
from skillopt.app.attributing import Blame, blame_skill
from skillopt.app.cost_views import CostView, cost_view
from skillopt.app.environment import data_of, few_to_decide
from skillopt.app.result import is_simulated
from skillopt.app.step_views import (
    MoveTally,
    ScoreView,
    StepDetail,
    StepView,
    detail_of,
    evidence_of,
    kind_of,
    outcome_of_move,
    practice_of,
    score_view,
    tally_of,
    title_of,
)
from skillopt.app.wording import became_words, count, spelt
from skillopt.config.load import load_kept
from skillopt.config.schema import Config
from skillopt.core.events import Begun, Decision, FinalTested, Measured
from skillopt.core.facts import Drafted
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.core.tokens import estimate
from skillopt.errors import ConfigError, StoreError
from skillopt.gates.compared import Metric
from skillopt.store.events import LoggedEvent
from skillopt.store.reader import RunReader, Status
from skillopt.store.run_history import HistoryEntry, replies, useless


@dataclass(frozen=True, slots=True)
class ClaimView:
    """The result of a run in one sentence, and what it is made of."""

    sentence: str
    """`+0.24 [0.17, 0.30] on 140 test items, conclusive`."""
    split: Split | None = None
    """None: nothing is measured yet."""
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    changed: int = 0
    failures: int = 0
    conclusive: bool = False
    simulated: bool = False
    before: ScoreView | None = None
    """The initial skill on the same items."""
    after: ScoreView | None = None
    """The best skill on the same items."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """What stands above everything else that is said of a run."""

    folder: Path
    name: str
    status: Status
    why: str
    """If it was stopped: the reason."""
    benchmark: str
    """Empty, as the models and the data are, if the settings cannot be read."""
    data: str
    target: str
    optimizer: str
    simulated: bool
    seed: int | None
    metric: str
    version: str
    """Of the program that took the run up last."""
    claim: ClaimView
    steps: int
    seconds: float
    """How long its moves took, over all processes."""
    best: str
    """Name of the best skill's version."""
    current: str


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """A skill that was current, or best, for a time."""

    number: int
    """From 0: the initial skill."""
    name: str
    """Where it came from: `initial_skill`, `step_0003`, `review_0001`."""
    title: str
    position: int
    """On the timeline."""
    step: int
    digest: str
    score: ScoreView
    tokens: int
    lines: int
    is_best: bool = False
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Untested:
    """A final test that a person's decision has overtaken: it was of other skills."""

    items: int
    attempts: int
    """To make at most, if it is repeated."""


def untested(reader: RunReader) -> Untested | None:
    """What the final test of a finished run lacks; None: nothing, or it had none."""
    tests = [fact for fact in reader.facts if isinstance(fact, FinalTested)]
    if not tests or not reader.finished or reader.state.final_test is not None:
        return None
    known = {each.skill for test in tests for each in (test.initial, test.best, test.last)}
    new = {each.skill.digest for each in (reader.state.best, reader.state.current)} - known
    items = tests[-1].initial
    n = items.n + len(items.failures)
    return Untested(n, n * len(new))


@dataclass(frozen=True, slots=True)
class SkillDiff:
    old: str
    new: str
    files: tuple[FileDiff, ...]
    """Empty: both are the same."""


@dataclass(slots=True)
class _Growing:
    """What is known of the facts so far, so that a refresh costs what is new."""

    steps: list[StepView] = field(default_factory=list[StepView])
    versions: list[SkillVersion] = field(default_factory=list[SkillVersion])
    skills: dict[str, Skill] = field(default_factory=dict[str, Skill])
    """By name of version."""
    items: ItemMatrix = field(default_factory=ItemMatrix)
    scores: dict[int, tuple[Evaluation, ScoreView]] = field(
        default_factory=dict[int, tuple[Evaluation, ScoreView]]
    )
    tokens: dict[str, int] = field(default_factory=dict[str, int])


class RunViews:
    """Everything that people are shown of a run; made once, `refresh` takes in what is new."""

    def __init__(self, reader: RunReader, planned: Config | None = None) -> None:
        self.reader = reader
        self._planned = planned
        """The settings that it was started with: a run keeps its own once it has begun."""
        self._grown = _Growing()
        self._catch_up()

    def refresh(self) -> list[LoggedEvent]:
        """Take in what was recorded since; the new events with their positions."""
        events = self.reader.refresh()
        self._catch_up()
        return events

    @property
    def begun(self) -> bool:
        """Whether the initial skill is measured; before that, there is only a head."""
        return self.reader.begun

    @property
    def config(self) -> Config | None:
        """The settings of the latest start; None if they cannot be read."""
        try:
            return load_kept(self.reader.config)
        except (StoreError, ConfigError):
            return None if self.begun else self._planned

    @property
    def metric(self) -> Metric:
        return metric_of(self.reader.state) if self.begun else Metric()

    @property
    def head(self) -> RunHead:
        reader, config = self.reader, self.config
        target, optimizer = (
            "" if config is None else config.model.role(role).model
            for role in ("target", "optimizer")
        )
        simulated = is_simulated(target) or is_simulated(optimizer)
        return RunHead(
            folder=reader.layout.root,
            name=_name_of(reader.layout.root.resolve()),
            status=reader.status,
            why=reader.why,
            benchmark="" if config is None else config.env.name,
            data="" if config is None else data_of(config),
            target=target,
            optimizer=optimizer,
            simulated=simulated,
            seed=None if config is None else config.train.seed,
            metric=self.metric.name,
            version=reader.version,
            claim=self._claim(simulated=simulated),
            steps=self.tally.steps,
            seconds=sum(step.seconds for step in self._grown.steps),
            best=self._name_of(reader.state.best) if self.begun else "",
            current=self._name_of(reader.state.current) if self.begun else "",
        )

    @property
    def steps(self) -> Sequence[StepView]:
        """The timeline: every move, oldest first. The points of the score chart are here, too."""
        return self._grown.steps

    @property
    def untested(self) -> Untested | None:
        """What a final test would have to measure again after a person's decision."""
        return untested(self.reader) if self.begun else None

    @property
    def tally(self) -> MoveTally:
        """How many moves went which way."""
        return tally_of(self.reader.facts)

    @property
    def versions(self) -> list[SkillVersion]:
        """Every skill that was current, oldest first."""
        if not self.begun:
            return []
        best, current = (self._name_of(known) for known in (self._state.best, self._state.current))
        return [
            replace(version, is_best=version.name == best, is_current=version.name == current)
            for version in self._grown.versions
        ]

    def step(self, position: int) -> StepDetail:
        """One move of the timeline, by its place on it; `StoreError` if there is none."""
        if not 0 <= position < len(self._grown.steps):
            raise StoreError(
                f"{self.reader.layout.root} has no move {position}: it has "
                f"{len(self._grown.steps)}, counted from 0"
            )
        entry = self.reader.entries[position]
        return detail_of(self._grown.steps[position], entry, self._name_of(entry.before.current))

    def skill(self, name: str) -> Skill:
        """A version by its name, or any skill as `RunReader.skill` names it."""
        return self._grown.skills.get(name) or self.reader.skill(name)

    def diff(
        self, old: str = "initial", new: str = "best", context: int | None = None
    ) -> SkillDiff:
        """Two skills by name, line by line with changed words marked."""
        files = skill_differences(self.skill(old), self.skill(new), context)
        return SkillDiff(old, new, files)

    def blame(self, name: str = "best") -> Blame:
        """The origin, evidence, measured effect and protection of each line of a skill."""
        return blame_skill(self.reader, self.skill(name))

    def items(self) -> ItemTable:
        """Every task under every skill that was measured."""
        return self._grown.items.table()

    def cost(self) -> CostView:
        """What was spent, by role and by move, beside the limits that were set."""
        return cost_view(self.reader, self.config, [step.move for step in self._grown.steps])

    def findings(self) -> tuple[str, ...]:
        """Reasons to doubt the result, as far as the record shows them: each says what to do."""
        if not self.begun:
            return tuple(self.reader.warnings)
        facts, state = self.reader.facts, self._state
        val = state.initial.evaluation
        warned = self.reader.warnings
        few = [  # unless it was said at the start, with what to do
            text
            for text in few_to_decide(val.n + len(val.failures))
            if not any(each.startswith(text) for each in warned)
        ]
        problem = useless(facts)
        answers = replies(facts)
        unusable = (
            [f"{answers.unusable} of {answers.asked} replies of the optimizer were unusable"]
            if answers.unusable and not problem
            else []
        )
        return tuple(dict.fromkeys([*warned, *few, *([problem] if problem else []), *unusable]))

    @cached_property
    def places(self) -> Mapping[str, str]:
        """Where items without an id of the user's stand."""
        return self.reader.places

    def __enter__(self) -> RunViews:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.reader.close()

    @property
    def _state(self) -> State:
        return self.reader.state

    def _claim(self, *, simulated: bool) -> ClaimView:
        if not self.begun:
            return ClaimView("unknown: the initial skill is not measured yet", simulated=simulated)
        state = self._state
        shown, tested = claim(state), state.final_test
        before, after = (
            (state.initial.evaluation, state.best.evaluation)
            if tested is None
            else (tested.initial, tested.best)
        )
        if tested is None and shown.n and before.skill == after.skill:
            return ClaimView(
                f"{self._nothing_better()}{_mark(simulated=simulated)}",
                shown.split,
                n=shown.n,
                failures=shown.failures,
                simulated=simulated,
                before=self._score(before),
                after=self._score(after),
            )
        figures = ClaimView(
            "",
            shown.split,
            shown.gain.mean if shown.n else None,
            shown.gain.low,
            shown.gain.high,
            shown.n,
            shown.changed,
            shown.failures,
            conclusive=shown.split == "test" and shown.conclusive,
            simulated=simulated,
            before=self._score(before),
            after=self._score(after),
        )
        return replace(figures, sentence=_sentence(figures))

    def _nothing_better(self) -> str:
        if not self.tally.candidates:
            return "no candidate is measured yet"
        tried = count(self.tally.candidates, "candidate")
        return f"no gain: of {tried}, none became best, so the best skill is the initial one"

    def _score(self, evaluation: Evaluation) -> ScoreView:
        known = self._grown.scores.get(id(evaluation))
        if known is None:
            known = evaluation, score_view(evaluation, self.metric)
            self._grown.scores[id(evaluation)] = known
        return known[1]

    def _tokens(self, skill: Skill) -> int:
        digest = skill.digest
        if digest not in self._grown.tokens:
            self._grown.tokens[digest] = estimate(skill.render())
        return self._grown.tokens[digest]

    def _name_of(self, known: Measured) -> str:
        """The version that a skill is: the latest one with its text."""
        digest = known.skill.digest
        versions = reversed(self._grown.versions)
        return next((version.name for version in versions if version.digest == digest), "")

    def _catch_up(self) -> None:
        for position in range(len(self._grown.steps), len(self.reader.entries)):
            entry = self.reader.entries[position]
            self._grown.items.add(entry.fact)
            self._add_versions(entry, position)
            self._grown.steps.append(self._view(entry, position))

    def _add_versions(self, entry: HistoryEntry, position: int) -> None:
        fact, decision = entry.fact, entry.fact.decision
        if isinstance(fact, Begun):
            self._add_version(fact.initial, fact.initial.origin, position)
        elif decision is not None:
            if decision.accepted:
                self._add_version(decision.candidate, decision.candidate.origin, position)
            if (best := decision.best) is not None and best.skill.digest not in {
                version.digest for version in self._grown.versions
            }:
                self._add_version(best, f"{best.origin}_best", position)

    def _add_version(self, known: Measured, name: str, position: int) -> None:
        text = known.skill.render()
        self._grown.skills[name] = known.skill
        self._grown.versions.append(
            SkillVersion(
                number=len(self._grown.versions),
                name=name,
                title=spelt(name),
                position=position,
                step=known.step,
                digest=known.skill.digest,
                score=self._score(known.evaluation),
                tokens=self._tokens(known.skill),
                lines=len(text.splitlines()),
            )
        )

    def _view(self, entry: HistoryEntry, position: int) -> StepView:
        fact, decision, after = entry.fact, entry.fact.decision, entry.after
        report = fact.draft.leading.report if isinstance(fact, Drafted) else ()
        applied = sum(placement.applied for placement in report)
        return StepView(
            position=position,
            move=fact.move,
            title=title_of(fact),
            kind=kind_of(fact),
            step=fact.step,
            epoch=fact.epoch,
            outcome=outcome_of_move(fact),
            words=became_words(fact),
            new_best=after.best.skill.digest != entry.before.best.skill.digest,
            gist=fact.gist,
            evidence=None if decision is None else evidence_of(decision, entry.before),
            train=practice_of(fact, self.metric),
            candidate=None if decision is None else self._candidate(decision),
            current=self._score(after.current.evaluation),
            best=self._score(after.best.evaluation),
            tokens=self._tokens(after.current.skill),
            budget=fact.draft.budget if isinstance(fact, Drafted) else None,
            applied=applied if report else fact.edits or 0,
            missed=len(report) - applied,
            seconds=entry.wall,
        )

    def _candidate(self, decision: Decision) -> ScoreView:
        found = decision.candidate
        if decision.bounded:
            evaluation = found.evaluation
            value = found.value if evaluation.n else None
            lost = len(evaluation.failures)
            return ScoreView(value, 0.0, found.value, evaluation.n, lost, bound=True)
        return self._score(found.evaluation)


def _sentence(claim: ClaimView) -> str:
    mark = _mark(simulated=claim.simulated)
    if claim.gain is None or claim.low is None or claim.high is None:
        return f"unknown: no item has a score with both skills{mark}"
    lost = f", {count(claim.failures, 'attempt')} failed" if claim.failures else ""
    figures = f"{claim.gain:+.2f} [{claim.low:.2f}, {claim.high:.2f}]"
    return f"{figures} on {count(claim.n, f'{claim.split} item')}, {_verdict(claim)}{lost}{mark}"


def _mark(*, simulated: bool) -> str:
    return " (simulated models)" if simulated else ""


def _verdict(claim: ClaimView) -> str:
    if claim.split != "test":
        return "not tested: the skill was selected by these items"
    if not claim.changed:
        return "no item changed"
    if claim.conclusive:
        return "conclusive"
    if claim.changed < FEW and not (claim.low or 0) <= 0 <= (claim.high or 0):
        return f"not conclusive: fewer than {FEW} items changed"
    return "not conclusive"


def _name_of(folder: Path) -> str:
    """What people call a run: its folder, or the one around it where all are called `run`."""
    return (folder.parent.name if folder.name == "run" else "") or folder.name
