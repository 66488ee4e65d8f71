"""Which documents a night learns, from which tasks: all that is known before anything is spent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Final

from skillopt.config.secrets import Secrets
from skillopt.core.ports import Watcher
from skillopt_sleep.dreams import held_out_again, kept_apart, recalled, variants
from skillopt_sleep.environment import obstacles
from skillopt_sleep.gathering import Gathered
from skillopt_sleep.learning import DocumentTask, Lesson
from skillopt_sleep.models import NightModels
from skillopt_sleep.redacting import redaction
from skillopt_sleep.report import SkillGroup
from skillopt_sleep.settings import Settings
from skillopt_sleep.staging import PAIR
from skillopt_sleep.state import DocumentMemory, ProjectState
from skillopt_sleep.targets import Target, Targets, find_skill, resolve_targets
from skillopt_sleep.values import MinedTask

_STANDING: Final = 40_000
"""Characters of the agent's other documents that attempts are shown."""
_FRONT: Final = re.compile(r"\A---\r?\n.*?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a night works with besides its settings."""

    models: NightModels = field(default_factory=NightModels)
    """Given in Python instead of being named."""
    tasks: tuple[MinedTask, ...] | None = None
    """Instead of harvesting and mining."""
    home: Path | None = None
    """The user's home, if it is not that of this process."""
    clock: Clock = utc_now
    watch: Watcher | None = None
    secrets: Secrets | None = None
    """Keys of models; none: those of the process and of `.env` in the project."""
    simulated: bool = False

    def of_project(self, project: Path) -> Bench:
        """The same with the keys of a project, whatever the current folder is."""
        return replace(self, secrets=self.secrets or Secrets.load(project))

    def watched(self, watch: Watcher) -> Bench:
        return replace(self, watch=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """A night before anything is attempted."""

    gathered: Gathered
    targets: Targets
    practised: tuple[MinedTask, ...]
    left_out: Mapping[str, int]
    documents: tuple[tuple[Target, tuple[MinedTask, ...]], ...]
    groups: tuple[SkillGroup, ...]


async def plan_night(
    settings: Settings, project: ProjectState, gathered: Gathered, bench: Bench, number: int
) -> NightPlan:
    """Which documents learn from which tasks; whether they may be written is known then."""
    targets = resolve_targets(settings, gathered.sources, home=bench.home)
    archive = project.archived()
    in_project = settings.replay == "agent"
    reasons = await obstacles(gathered.tasks, in_project=in_project)
    left_out = Counter(reason for reason in reasons if reason)
    tonight = [task for task, why in zip(gathered.tasks, reasons, strict=True) if not why]
    tonight = kept_apart(tonight, archive)
    forgotten = await obstacles(archive, in_project=in_project)
    known = [task for task, why in zip(archive, forgotten, strict=True) if not why]
    practised = [
        *tonight,
        *variants(tonight, settings.dream_factor, settings.seed),
        *recalled(tonight, known, settings.recall_k),
        *held_out_again(tonight, known, settings.min_val, f"{settings.seed}/{number}"),
    ]
    pair = [target for target in (targets.skill, targets.memory) if target is not None]
    own, groups, rest = (
        _fan_out(settings, practised, bench, pair)
        if settings.multi_skill_fanout
        else ([], [], practised)
    )
    documents = [(target, tuple(rest)) for target in pair] + own
    able = [(target, tasks) for target, tasks in documents if _can_learn(tasks)]
    return NightPlan(
        gathered=gathered,
        targets=targets,
        practised=tuple(practised),
        left_out=left_out,
        documents=tuple(able),
        groups=tuple(groups),
    )


def _can_learn(tasks: Sequence[MinedTask]) -> bool:
    """Whether there is something to learn from and something to decide by."""
    return {"train", "val"} <= {task.split for task in tasks}


def _fan_out(
    settings: Settings, tasks: Sequence[MinedTask], bench: Bench, pair: Sequence[Target]
) -> tuple[list[tuple[Target, tuple[MinedTask, ...]]], list[SkillGroup], list[MinedTask]]:
    """Skills of the user with tasks of their own; other tasks are for the managed documents.

    A file learns once, by whichever names sessions call it.
    """
    by_name: dict[str, list[MinedTask]] = {}
    for task in tasks:
        if task.skill_hint:
            by_name.setdefault(task.skill_hint, []).append(task)
    managed = {target.path for target in pair}
    groups: dict[str, SkillGroup] = {}
    skills: dict[Path, Target] = {}
    mine: dict[Path, list[MinedTask]] = {}
    for name, asked in by_name.items():
        found = find_skill(settings, name, home=bench.home)
        if found.target is not None and found.target.path in managed:
            continue
        outcome, why, target = found.outcome, found.why, found.target
        if target is not None and name in (*PAIR, settings.managed_skill_name):
            outcome, target = "rejected", None
            why = "a document that is managed here is called so; give the skill another name"
        if target is not None:
            first = skills.setdefault(target.path, target)
            mine.setdefault(target.path, []).extend(asked)
            if first.name != name:
                outcome, why = "the same", f"it is the skill {first.name}"
        groups[name] = SkillGroup(name=name, outcome=outcome, tasks=len(asked), why=why)
    own = [(target, tuple(mine[path])) for path, target in skills.items() if _can_learn(mine[path])]
    for path, target in skills.items():
        if not _can_learn(mine[path]):
            groups[target.name] = replace(
                groups[target.name],
                outcome="missing",
                why="too few tasks: one to learn from and one to decide by at least",
            )
    taken = {task.skill_hint for _, group in own for task in group}
    return own, list(groups.values()), [task for task in tasks if task.skill_hint not in taken]


def document_task(
    plan: NightPlan,
    at: int,
    lessons: Sequence[Lesson],
    settings: Settings,
    project: ProjectState,
    place: Path,
) -> DocumentTask:
    target, tasks = plan.documents[at]
    learned = target.document.learned
    standing = redaction(settings)(_standing(target, plan, lessons))[:_STANDING]
    # A document that was edited since a night was stopped is learnt anew.
    mark = sha256(f"{learned}\0{standing}".encode()).hexdigest()[:8]
    return DocumentTask(
        target=target.name,
        path=target.path,
        learned=learned,
        standing=standing,
        tasks=tasks,
        memory=project.documents.get(str(target.path), DocumentMemory()),
        # Each document may err: together no more often than a night may.
        alpha=settings.alpha / len(plan.documents),
        folder=place / f"{at + 1}-{_PLAIN.sub('-', target.name)}-{mark}",
    )


def _standing(target: Target, plan: NightPlan, lessons: Sequence[Lesson]) -> str:
    """What the agent reads besides the part that is learnt.

    The user's words around it, and the other document with what was learnt for it tonight: that is
    what adopting the night makes of it.
    """
    document = target.document
    parts = [_words(document.before), _words(document.after)]
    learnt = {lesson.path: lesson.after for lesson in lessons if lesson.accepted}
    for other in (plan.targets.skill, plan.targets.memory):
        if other is None or other.path == target.path:
            continue
        whole = other.document
        if other.path in learnt:
            whole = whole.with_learned(learnt[other.path])
        parts.append(_words(whole.render().decode()))
    return "\n\n".join(part for part in parts if part)


def _words(text: str) -> str:
    return _FRONT.sub("", text).strip()
