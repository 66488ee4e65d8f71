"""Learning one document in a night: an ordinary training run of skillopt over mined tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from skillopt.api import Result, load_run, open_run, train_async
from skillopt.app.inputs import Inputs
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.events import Fact, GateVerdict, Measured
from skillopt.core.facts import Drafted, EpochClosed
from skillopt.core.memory import Memory, text_of
from skillopt.core.ports import Watcher
from skillopt.core.rollout import EQUAL, Evaluation, Rollout, Score
from skillopt.core.state import State as RunState
from skillopt.core.wording import counted
from skillopt.errors import (
    AnswerError,
    BudgetSpent,
    ConfigError,
    Pending,
    SkilloptError,
    StoreError,
)
from skillopt.gates.compared import MetricSettings
from skillopt.gates.statistics import Interval
from skillopt.gates.tested import Paired
from skillopt.store.layout import Layout
from skillopt_sleep.environment import MinedTasks, ReplaySettings, Reward
from skillopt_sleep.models import Allowance, NightModels, model_settings
from skillopt_sleep.redacting import new_text_redacted, redaction, without_secrets
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import DocumentMemory
from skillopt_sleep.values import MinedTask
from skillopt_sleep.wording import in_our_words

_KIND: Final = {
    "skill": "a skill: how work of this kind is done",
    "memory": "the memory file of a project: facts and conventions that hold for all work in it",
}
_FORM: Final = (
    "This document is {kind}. Write every rule as one bullet, in words that help with tasks that "
    "nobody has seen yet; name no single task."
)
_MIXED: Final = 0.5
HIDDEN_IN_RULES: Final = (
    "what looks like a secret or personal data was taken out of what was learnt"
)
_HEAD: Final = 300
"""Characters of an answer that diagnostics show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate and what became of it."""

    move: str
    action: str
    accepted: bool
    reason: str
    before: float
    after: float
    bounded: bool
    """Whether `after` is only the most that it can have been: measuring stopped early."""
    edits: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    """Edits that found nothing to change, or changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """One held-out task with the old and the new document."""

    id: str
    intent: str
    before: float | None
    after: float | None
    answer: str = ""
    """How the answer with the new document begins."""
    why: str = ""
    """What was said about it when it was scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What came of learning one document."""

    target: str
    path: Path
    before: str
    after: str
    """What was learnt so far, and what stands in its place now."""
    split: str = ""
    """Where the scores are from: `test`, or `val`, by which the document was chosen."""
    score_before: Interval | None = None
    score_after: Interval | None = None
    gain: Interval | None = None
    words: str = ""
    trials: tuple[Trial, ...] = ()
    tasks: tuple[TaskChange, ...] = ()
    n_train: int = 0
    n_val: int = 0
    n_test: int = 0
    failures: int = 0
    """Attempts without a score: missing data, not wrong answers."""
    spent: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    stopped: str = ""
    """Why learning ended before its plan did: a limit."""
    failed: str = ""
    """Why nothing could be measured or proposed."""
    memory: DocumentMemory = field(default_factory=DocumentMemory)
    folder: Path = Path()

    @property
    def accepted(self) -> bool:
        return self.after != self.before

    @property
    def conclusive(self) -> bool:
        """Whether the tasks had their turn: neither a failure nor a limit came before that."""
        return not self.failed and bool(self.accepted or self.trials or not self.stopped)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTask:
    """What is to be learnt: one document, on these tasks, with this much."""

    target: str
    path: Path
    learned: str
    standing: str
    tasks: Sequence[MinedTask]
    memory: DocumentMemory
    alpha: float
    folder: Path
    """The run directory."""


class PairedWithoutLoss(Paired):
    """The paired test, and no single task may go worse."""

    __slots__ = ()

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        lost = sum(gain < -EQUAL for gain in self.differences(candidate, incumbent))
        if lost:
            return GateVerdict(
                "not_better", f"{counted(lost, 'task')} went worse (gate_no_regression)"
            )
        return super().judge(candidate, incumbent, level=level)


async def learn(
    what: DocumentTask,
    settings: Settings,
    allowance: Allowance,
    models: NightModels,
    *,
    watch: Watcher | None = None,
    secrets: Secrets | None = None,
) -> Lesson:
    """Train a document. An error of it is told in the lesson; nothing is lost with it.

    What models and programs said is redacted: a lesson is what reports and proposals are made of.

    Raises:
        Pending: Answers of the user's agent are missing (backend `handoff`).
        AnswerError: One of them cannot be read.
        ConfigError: The settings cannot be used.
    """
    blank = Lesson(
        target=what.target,
        path=what.path,
        before=what.learned,
        after=what.learned,
        memory=what.memory,
        folder=what.folder,
        n_train=sum(task.split == "train" for task in what.tasks),
        n_val=sum(task.split == "val" for task in what.tasks),
        n_test=sum(task.split == "test" for task in what.tasks),
    )
    lesson = await _trained(blank, what, settings, allowance, models, watch, secrets)
    return _redacted(lesson, settings)


async def _trained(
    blank: Lesson,
    what: DocumentTask,
    settings: Settings,
    allowance: Allowance,
    models: NightModels,
    watch: Watcher | None,
    secrets: Secrets | None,
) -> Lesson:
    stopped = ""
    try:
        result = await train_async(
            watch=watch,
            progress=False,
            **run_inputs(what, settings, allowance, models, secrets),
        )
    except (Pending, AnswerError, ConfigError, asyncio.CancelledError):
        raise
    except BudgetSpent as error:
        stopped = in_our_words(str(error))
        try:
            result = load_run(what.folder)
        except StoreError:  # the first evaluation did not fit
            return replace(blank, stopped=stopped, spent=_spent(what.folder))
    except SkilloptError as error:
        return replace(blank, failed=in_our_words(str(error)), spent=_spent(what.folder))
    return replace(_lesson(blank, what, result), stopped=stopped)


def _redacted(lesson: Lesson, settings: Settings) -> Lesson:
    hide = redaction(settings)
    after = new_text_redacted(lesson.after, lesson.before, hide)
    told = without_secrets(lesson, hide)
    # Cut only now: half of a secret would not be recognised.
    tasks = tuple(
        replace(task, answer=task.answer[:_HEAD], why=task.why[:_HEAD]) for task in told.tasks
    )
    warnings = (*told.warnings, *([HIDDEN_IN_RULES] if after != lesson.after else []))
    return replace(told, before=lesson.before, after=after, tasks=tasks, warnings=warnings)


def run_inputs(
    what: DocumentTask,
    settings: Settings,
    allowance: Allowance,
    models: NightModels,
    secrets: Secrets | None,
) -> Inputs:
    """The arguments of `skillopt.api` for this document."""
    inputs = Inputs(
        environment=MinedTasks(what.tasks, replay_settings(settings, what.standing)),
        skill=f"{what.learned.strip()}\n" if what.learned.strip() else "",
        out=what.folder,
        memory=_memory(what, settings),
        settings={**training_settings(settings, what, models), **allowance.settings()},
    )
    if models.target is not None:
        inputs["target"] = models.target
    if models.optimizer is not None:
        inputs["optimizer"] = models.optimizer
    if models.judge is not None:
        inputs["judge"] = models.judge
    if secrets is not None:
        inputs["secrets"] = secrets
    if settings.gate_no_regression:
        metric = MetricSettings(gate_metric=_metric(settings), gate_mixed_weight=_MIXED).metric
        inputs["gate"] = PairedWithoutLoss(metric=metric, alpha=what.alpha)
    return inputs


def replay_settings(settings: Settings, standing: str) -> ReplaySettings:
    weights = (settings.weight_accuracy, settings.weight_tokens, settings.weight_latency)
    reward = Reward(accuracy=weights[0], tokens=weights[1], latency=weights[2])
    return ReplaySettings(
        standing=standing,
        in_project=settings.replay == "agent",
        dream_rollouts=settings.dream_rollouts,
        reward=reward if settings.gate_metric == "reward" else None,
    )


def _metric(settings: Settings) -> str:
    return "soft" if settings.gate_metric == "reward" else settings.gate_metric


def training_settings(
    settings: Settings, what: DocumentTask, models: NightModels
) -> dict[str, object]:
    """The settings of skillopt for a short run: all training tasks in one step."""
    handoff = settings.backend == "handoff"
    train = sum(task.split == "train" for task in what.tasks) * settings.dream_rollouts
    chosen: dict[str, object] = {
        **model_settings(settings, models),
        "env.workers": settings.workers,
        "env.exec_timeout": 900.0,
        "train.num_epochs": settings.epochs,
        "train.batch_size": max(1, train),
        "train.seed": settings.seed,
        "gradient.minibatch_by": "likeness",
        "optimizer.learning_rate": settings.edit_budget,
        "optimizer.min_learning_rate": settings.edit_budget,
        # Each of them takes further rounds of questions that the user's agent has to answer.
        "optimizer.use_slow_update": settings.slow_update and not handoff,
        "optimizer.use_meta_skill": settings.slow_update and not handoff,
        "evaluation.replicates": 1 if settings.backend == "local" else settings.replicates,
        "evaluation.gate_metric": _metric(settings),
        "evaluation.gate_mixed_weight": _MIXED,
    }
    if not settings.gate_no_regression:
        chosen["evaluation.gate"] = settings.gate
        chosen["evaluation.alpha"] = what.alpha
    if handoff:
        chosen |= {"optimizer.select_mode": "ranking", "gradient.merge_mode": "union"}
    if (settings.optimizer_backend or settings.backend) == "local":
        # Worked examples would quote sessions in the user's documents.
        chosen["gradient.proposer"] = "instruct"
    return chosen


def _memory(what: DocumentTask, settings: Settings) -> Memory:
    """What the optimizer starts with: the purpose of the document, wishes, earlier nights."""
    kind = _KIND.get(what.target, f"the skill {what.target}: how work of this kind is done")
    wishes = settings.preferences.strip()
    parts = (
        _FORM.format(kind=kind),
        f"The user wishes: {wishes}" if wishes else "",
        what.memory.lessons.strip(),
    )
    lessons = "\n\n".join(part for part in parts if part)
    return Memory(steps=what.memory.entries(), lessons=lessons)


def _lesson(blank: Lesson, what: DocumentTask, result: Result) -> Lesson:
    state = result.state
    with open_run(result.out) as reader:
        facts = [entry.fact for entry in reader.entries]
        last = {rollout.task: rollout for rollout in reader.rollouts(skill=state.best.skill.digest)}
    before, after = _compared(state)
    # The lessons that a night starts with hold our own words, which are not worth remembering.
    written = [fact.review.lessons for fact in facts if isinstance(fact, EpochClosed)]
    lessons = next((text for text in reversed(written) if text), what.memory.lessons)
    memory = DocumentMemory(lessons=lessons).with_entries(state.memory.steps)
    accepted = state.best.skill.digest != state.initial.skill.digest
    return replace(
        blank,
        after=result.best_skill.strip() if accepted else blank.before,
        split=result.split,
        score_before=result.before,
        score_after=result.after,
        gain=result.claim.gain,
        words=result.claim.words(),
        trials=tuple(_trials(facts, state)),
        tasks=tuple(_changes(what.tasks, before, after, state, last)),
        failures=len(before.failures) + (after is not before) * len(after.failures),
        spent=result.spent,
        warnings=tuple(map(in_our_words, result.warnings)),
        failed=in_our_words(result.problem),
        memory=memory,
    )


def _compared(state: RunState) -> tuple[Evaluation, Evaluation]:
    test = state.final_test
    if test is not None:
        return test.initial, test.best
    return state.initial.evaluation, state.best.evaluation


def _changes(
    tasks: Sequence[MinedTask],
    before: Evaluation,
    after: Evaluation,
    state: RunState,
    last: Mapping[str, Rollout],
) -> list[TaskChange]:
    weight = state.soft_weight

    def mark(evaluation: Evaluation, task: str) -> float | None:
        score = evaluation.scores.get(task)
        return None if score is None else (1 - weight) * score.hard + weight * score.soft

    intents = {task.id: task.intent for task in tasks}
    names = dict.fromkeys((*before.scores, *before.failures, *after.scores, *after.failures))
    return [
        TaskChange(
            id=name,
            intent=intents.get(name, ""),
            before=mark(before, name),
            after=mark(after, name),
            **_said(last.get(name)),
        )
        for name in names
    ]


def _said(rollout: Rollout | None) -> dict[str, str]:
    if rollout is None:
        return {}
    outcome, done = rollout.outcome, rollout.trajectory
    why = outcome.feedback if isinstance(outcome, Score) else f"{outcome.kind}: {outcome.message}"
    return {"answer": done.answer if done else "", "why": why}


def _trials(facts: Sequence[Fact], state: RunState) -> list[Trial]:
    trials: list[Trial] = []
    current = state.initial.value
    for fact in facts:
        unmatched = ()
        if isinstance(fact, Drafted):
            report = fact.draft.leading.report
            unmatched = tuple(text_of(edit.edit) for edit in report if not edit.applied)
        decision = fact.decision
        if decision is None:
            if unmatched:
                trials.append(
                    Trial(
                        move=fact.move,
                        action="skip_no_change",
                        accepted=False,
                        reason="no edit found what it was to change",
                        before=current,
                        after=current,
                        bounded=False,
                        edits=(),
                        unmatched=unmatched,
                    )
                )
            continue
        if isinstance(fact, EpochClosed):
            edits: tuple[str, ...] = (decision.candidate.skill.guidance,)
        else:
            edits = tuple(text_of(change) for change in fact.changes)
        trials.append(
            Trial(
                move=fact.move,
                action=decision.action,
                accepted=decision.accepted,
                reason=in_our_words(decision.reason),
                before=current,
                after=decision.candidate.value,
                bounded=decision.bounded,
                edits=edits,
                unmatched=unmatched,
            )
        )
        current = decision.candidate.value if decision.accepted else current
    return trials


def _spent(folder: Path) -> Usage:
    """What a run has paid, also one that has not begun."""
    from contextlib import closing

    from skillopt.store.cache import SqliteCache

    cache = Layout(folder).cache
    if not cache.exists():
        return Usage()
    with closing(SqliteCache(cache, read_only=True)) as opened:
        return sum(opened.spent().values(), Usage())
