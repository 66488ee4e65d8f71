"""Makes tasks of sessions without a model: what users asked for, again and again, and in vain."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

from skillopt.core.intake import SKILL_BYTES, read_file
from skillopt_sleep.likeness import alike, grouped, normal
from skillopt_sleep.references import demands_something, derived
from skillopt_sleep.settings import Settings
from skillopt_sleep.split import with_splits
from skillopt_sleep.values import MinedTask, Mood, Outcome, Reaction, Session

_SHORTEST: Final = 8
_INTENT_CHARS: Final = 2000
_CONTEXT_CHARS: Final = 800
_NEW_TASK: Final = 20
"""Characters that a prompt after praise has at least, if it is another task."""
_ADDED: Final = 12
"""Characters of a later prompt that says more than «ok» or «go on»."""
_DEMAND: Final = 60
"""Characters of a later prompt that only says how the result has to be; a longer one may be about
something else."""
_MANY_TURNS: Final = 3
_PRAISE: Final = re.compile(r"\A[^.!?,;\n\u3002\uff01\uff0c]{1,40}[.!?,;\n\u3002\uff01\uff0c]+\s*")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_COMMON: Final = 180
"""Words of a skill's text that count as weak hints at a task."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a user asked for in a session, with all that was said about it."""

    session: Session
    turn: int
    end: int
    """The turn after its last one."""
    intent: str

    @property
    def later(self) -> tuple[str, ...]:
        """What the user said afterwards about the same."""
        return self.session.prompts[self.turn + 1 : self.end]

    @property
    def reactions(self) -> tuple[Reaction, ...]:
        return tuple(each for each in self.session.reactions if self.turn < each.turn < self.end)

    @property
    def corrections(self) -> tuple[str, ...]:
        """The prompts in which the user said that something was wrong, or how it has to be."""
        wrong = {each.turn for each in self.reactions if each.mood is Mood.NEGATIVE}
        return tuple(
            prompt
            for turn, prompt in enumerate(self.later, self.turn + 1)
            if turn in wrong or (len(prompt) <= _DEMAND and demands_something(prompt))
        )

    @property
    def context(self) -> str:
        """What the user added that is neither praise nor blame."""
        said = {self.session.prompts[each.turn] for each in self.reactions}
        added = [text for text in self.later if text not in said | set(self.corrections)]
        return "\n".join(text for text in added[:3] if len(text) >= _ADDED)[:_CONTEXT_CHARS]

    @property
    def retries(self) -> int:
        """How often the user asked for the same in nearly the same words."""
        asked = normal(self.intent)
        return sum(alike(asked, normal(prompt)) for prompt in self.later)

    @property
    def pain(self) -> int:
        own = self.session.troubles if self.turn == 0 else 0
        return len(self.corrections) + self.retries + own


def mine(sessions: Sequence[Session], settings: Settings) -> tuple[MinedTask, ...]:
    """Tasks that came up, the most frequent and painful first, with references and splits."""
    return ranked([task_of(group, settings) for group in ask_groups(sessions)], settings)


def ranked(tasks: Iterable[MinedTask], settings: Settings) -> tuple[MinedTask, ...]:
    """The tasks of a night: those about the target skill, ranked, not too many, and split."""
    unique = {task.id: task for task in tasks}
    order = sorted(unique.values(), key=lambda task: (-_weight(task), task.id))
    related = _about_target(order, settings.target_skill_path)
    # Where there are too many, those that nothing can check have to go first.
    checkable = sorted(related, key=lambda task: task.reference.kind == "none")
    chosen = {task.id for task in checkable[: settings.max_tasks]}
    return with_splits([task for task in related if task.id in chosen], settings)


def ask_groups(sessions: Sequence[Session]) -> list[list[Ask]]:
    """What users asked for; asks for the same in the same project form a group, oldest first."""
    groups: list[list[Ask]] = []
    projects: dict[Path, list[Ask]] = {}
    for ask in sorted(_asks(sessions), key=lambda each: (each.session.ended, each.session.id)):
        projects.setdefault(ask.session.project, []).append(ask)
    for asks in projects.values():
        groups += [
            [asks[place] for place in places] for places in grouped([ask.intent for ask in asks])
        ]
    return groups


def task_of(group: Sequence[Ask], settings: Settings) -> MinedTask:
    """The task that a group of asks for the same stands for."""
    sessions = {ask.session.id: ask.session for ask in group}
    latest = group[-1]
    skills = {skill for session in sessions.values() for skill in session.skills}
    reference = derived(
        [ask.intent for ask in group],
        [text for ask in group for text in ask.corrections],
        [session.commands for session in sessions.values()],
        changed_files=any(session.files for session in sessions.values()),
        runs_commands=settings.replay == "agent",
    )
    first = latest.session
    return MinedTask(
        id=task_id("task", first.project, latest.intent, settings),
        project=first.project,
        intent=latest.intent[:_INTENT_CHARS],
        context=latest.context,
        outcome=_outcome(group),
        reference=reference,
        tags=tuple(sorted({session.source for session in sessions.values()})),
        sessions=tuple(sessions),
        commit=first.commit or _commit_before(first.project, first.started),
        skill_hint=skills.pop() if len(skills) == 1 else "",
        frequency=len(sessions),
        pain=round(sum(ask.pain for ask in group) / len(sessions), 3),
    )


def task_id(kind: str, project: Path, intent: str, settings: Settings) -> str:
    """The same for the same task on another day, and where the project has been moved.

    Numbers in its text do not matter.
    """
    here, there = settings.project.resolve(), project.resolve()
    where = there.relative_to(here) if there.is_relative_to(here) else there
    said = f"{where.as_posix()}::{normal(intent)}".encode(errors="surrogateescape")
    return f"{kind}_{sha256(said).hexdigest()[:12]}"


def _weight(task: MinedTask) -> float:
    return task.frequency * (1.0 + task.pain)


def _asks(sessions: Sequence[Session]) -> list[Ask]:
    """The first prompt of each session, and later ones that begin something else."""
    opening = {
        (session.project, normal(session.prompts[0]))
        for session in sessions
        if len(session.prompts[0]) >= _SHORTEST
    }
    asks: list[Ask] = []
    for session in sessions:
        starts = {0: session.prompts[0]}
        for turn, prompt in enumerate(session.prompts[1:], 1):
            if intent := _another(session, turn, prompt, opening):
                starts[turn] = intent
        turns = [*starts, len(session.prompts)]
        for turn, end in pairwise(turns):
            if len(starts[turn].strip()) >= _SHORTEST:
                asks.append(Ask(session, turn, end, starts[turn].strip()))
    return asks


def _another(session: Session, turn: int, prompt: str, opening: set[tuple[Path, str]]) -> str:
    """The task that a later prompt begins: after praise, or as other sessions begin; or none."""
    moods = {each.mood for each in session.reactions if each.turn == turn}
    if Mood.NEGATIVE in moods or len(prompt) < _NEW_TASK:
        return ""
    words, first = normal(prompt), normal(session.prompts[0])
    if alike(words, first):
        return ""
    if Mood.POSITIVE in moods:
        rest = _PRAISE.sub("", prompt)
        return rest if len(rest) >= _NEW_TASK else ""
    known = (text for project, text in opening if project == session.project and text != first)
    return prompt if any(alike(words, text) for text in known) else ""


def _outcome(group: Sequence[Ask]) -> Outcome:
    moods = {each.mood for ask in group for each in ask.reactions}
    if moods == {Mood.POSITIVE}:
        return "success"
    if moods == {Mood.NEGATIVE}:
        return "fail"
    many = any(ask.end - ask.turn >= _MANY_TURNS for ask in group)
    return "mixed" if moods or many else "unknown"


def _commit_before(project: Path, moment: datetime) -> str:
    """The commit at which a repository stood then, by its history; empty if there is none."""
    if not (project / ".git").exists():
        return ""
    asked = ["rev-list", "-1", f"--before={moment.isoformat()}", "HEAD"]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and git is asked for a commit only
            ["git", "-C", str(project), *asked],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _about_target(tasks: list[MinedTask], skill: Path | None) -> list[MinedTask]:
    """Tasks that a skill is about, by its words, the most related first; all if none is."""
    if skill is None or not skill.is_file():
        return tasks
    try:
        text = read_file(skill, SKILL_BYTES).decode("utf-8", "replace")
    except OSError:
        return tasks
    headings = " ".join(line for line in text.splitlines() if line.startswith("#"))
    strong = {*_words(headings), *_words(skill.parent.name.replace("-", " "))}
    counts = Counter(_words(text))
    weak = {word for word, _ in counts.most_common(_COMMON)} - strong
    hits: dict[str, int] = {}
    for task in tasks:
        words = set(_words(task.intent))
        near = 3 * (task.skill_hint == skill.parent.name) + len(words & strong)
        far = len(words & weak)
        if near or far >= 2:
            hits[task.id] = 3 * near + far
    related = sorted((task for task in tasks if task.id in hits), key=lambda task: -hits[task.id])
    return related or tasks


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
