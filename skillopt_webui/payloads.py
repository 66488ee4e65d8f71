"""What the page is told of a run, as JSON: made of the views, the record and kept attempts."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, cast

from skillopt.api import RunViews, proposals, text_to_edit
from skillopt.app.step_views import StepView, title_of
from skillopt.app.wording import became_words, spelt
from skillopt.config.schema import Config
from skillopt.config.sections import MOST_EPOCHS
from skillopt.core.chat import Message
from skillopt.core.events import Event, Fact, Finished, Prefetched, Started, Stopped, Timed, Warned
from skillopt.core.rollout import Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.wording import counted
from skillopt.errors import SkilloptError, StoreError
from skillopt.store.events import LoggedEvent
from skillopt.store.reader import why_stopped
from skillopt_webui.runs import Json, NotFound, OpenRun, at_work_since, planned

_TEXT: Final = 60_000
"""Characters of one message that are sent; the file in the run directory has all of it."""
_MESSAGES: Final = 400
_COLUMNS: Final = 160
"""Skills beside each other that can still be told apart."""
_PROPOSALS: Final = 300
"""The latest of them are the ones to decide about."""
_LOG: Final = 2_000
"""Lines of the log that are sent at once."""
_IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))


def plain(value: object) -> object:
    """A value of ours in JSON's types."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return plain(value.value)
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(key): plain(inner) for key, inner in items}
        case tuple() | list() | set() | frozenset():
            return [plain(item) for item in cast("Iterable[object]", value)]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [each.name for each in dataclasses.fields(value)]
            return {name: plain(getattr(value, name)) for name in names}
        case _:
            return str(value)


def overview(run: OpenRun) -> Json:
    """The first screen: head, scores over steps, decisions, cost, the last change that was kept."""
    views = run.views
    views.refresh()
    head = views.head
    told: Json = {
        "position": views.reader.position,
        "head": plain(head),
        "begun": views.begun,
        "progress": plain(views.reader.progress()),
        "findings": list(views.findings()),
        "since": at_work_since(run.folder),
    }
    if not views.begun:
        return told
    return told | {
        "steps": [step_row(step) for step in views.steps],
        "tally": plain(views.tally),
        "untested": plain(views.untested),
        "patience": _patience(views),
        "most_epochs": MOST_EPOCHS,
        "versions": plain(views.versions),
        "cost": plain(views.cost()),
        "change": _last_change(views),
    }


def _patience(views: RunViews) -> Json:
    """Steps in vain, after how many of them training ends (0: never), and whether it has."""
    most = 0 if views.config is None else views.config.train.patience
    memory = views.reader.state.memory
    return {"fruitless": memory.fruitless, "most": most, "over": 0 < most <= memory.vain}


def epochs_done(run: OpenRun) -> int:
    """How many epochs a run has begun."""
    run.views.refresh()
    return max((step.epoch for step in run.views.steps), default=0)


def edit_view(run: OpenRun, about: str) -> Json:
    """What a person begins to edit, and the digest of the skill that is current then."""
    run.views.refresh()
    reader = run.views.reader
    return {"text": text_to_edit(reader, about), "base": reader.state.current.skill.digest}


def step_row(step: StepView) -> Json:
    """One move on the timeline, without the items behind its evidence."""
    evidence = step.evidence
    short = None
    if evidence is not None:
        short = cast("Json", plain(dataclasses.replace(evidence, better=(), worse=())))
        short |= {"better": len(evidence.better), "worse": len(evidence.worse)}
    return cast("Json", plain(dataclasses.replace(step, evidence=None))) | {"evidence": short}


def _last_change(views: RunViews) -> Json | None:
    """What the last accepted move changed, with the origin of each new line."""
    accepted = [step for step in views.steps if step.outcome == "accepted"]
    if not accepted:
        return None
    detail = views.step(accepted[-1].position)
    return {"position": accepted[-1].position, "detail": step_detail(views, detail.view.position)}


def step_detail(views: RunViews, position: int) -> Json:
    detail = views.step(position)
    told = cast("Json", plain(detail))
    told["view"] = cast("Json", plain(detail.view))
    return told


def skill_view(run: OpenRun, name: str, against: str) -> Json:
    """A skill: its text, the origin of its lines, and how it differs from another one."""
    views = run.views
    skill = views.skill(_known(name))
    told: Json = {
        "name": name,
        "digest": skill.digest,
        "text": skill.render(),
        "files": dict(skill.files),
        "versions": plain(views.versions),
        "blame": plain(views.blame(name)),
    }
    if against:
        told["against"] = against
        told["diff"] = plain(views.diff(_known(against), name).files)
    return told


def _known(name: str) -> str:
    """A name of a skill within the run; the reader would also take the path of a file."""
    if not name or any(character in name for character in "/\\.~") or len(name) > 80:
        raise NotFound(f"no skill of this run is called {name!r}")
    return name


def skill_text(run: OpenRun, name: str) -> str:
    return run.views.skill(_known(name)).render()


def skill_package(run: OpenRun, name: str) -> bytes:
    """The skill as a folder in a ZIP file: SKILL.md with its front matter, and its references."""
    skill = run.views.skill(_known(name))
    title = "".join(c if c.isalnum() else "-" for c in run.folder.parent.name.lower()).strip("-")
    title = title or "skill"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in skill.files.items():
            archive.writestr(
                f"{title}/{path}", _fronted(skill, title) + text if path == "SKILL.md" else text
            )
    return packed.getvalue()


def _fronted(skill: Skill, title: str) -> str:
    """Front matter for a skill that has none: agents choose skills by it."""
    if skill.front:
        return ""
    heading = next(
        (line.strip("# ") for line in skill.render().splitlines() if line.startswith("#")), title
    )
    about = heading.replace('"', "'")[:200]
    return f'---\nname: {title}\ndescription: "{about}"\n---\n\n'


def items_view(run: OpenRun, *, every: bool) -> Json:
    """Tasks by skills: those that were kept, or the latest of all that were measured."""
    views = run.views
    views.refresh()
    table = views.items()
    columns = [
        (place, column) for place, column in enumerate(table.columns) if every or column.kept
    ]
    shown = columns[-_COLUMNS:]
    rows = [
        {
            "task": row.task,
            "split": row.split,
            "cells": "".join([row.cells[place] for place, _ in shown]),
            "course": row.course,
            "failed": row.failed,
        }
        for row in table.rows
    ]
    return {
        "columns": [plain(column) for _, column in shown],
        "left_out": len(columns) - len(shown),
        "rows": rows,
        "places": dict(views.places),
    }


def attempts_view(run: OpenRun, task: str, skills: Iterable[str]) -> Json:
    """Every kept attempt at a task with each of these skills, with all that was said."""
    views = run.views
    sides: list[Json] = []
    for name in skills:
        digest = views.skill(_known(name)).digest
        rollouts = views.reader.rollouts(task=task, skill=digest)
        sides.append(
            {
                "skill": name,
                "digest": digest,
                "attempts": [_attempt(rollout) for rollout in rollouts],
                "recorded": _recorded(views, task, digest),
            }
        )
    return {"task": task, "place": views.places.get(task, ""), "sides": sides}


def _recorded(views: RunViews, task: str, digest: str) -> list[Json]:
    """What the record says of the task, which also knows of attempts that failed."""
    found: list[Json] = []
    for fact in views.reader.facts:
        for evaluation in fact.evaluations:
            if evaluation.skill != digest:
                continue
            if (score := evaluation.scores.get(task)) is not None:
                found.append(
                    {
                        "move": fact.move,
                        "split": evaluation.split,
                        "hard": score.hard,
                        "soft": score.soft,
                    }
                )
            elif (failure := evaluation.failures.get(task)) is not None:
                found.append(
                    {"move": fact.move, "split": evaluation.split, "failure": failure.message}
                )
    return found


def _attempt(rollout: Rollout) -> Json:
    outcome, trajectory = rollout.outcome, rollout.trajectory
    told: Json = {"replicate": rollout.replicate, "kind": rollout.kind}
    if isinstance(outcome, Score):
        told |= {
            "hard": outcome.hard,
            "soft": outcome.soft,
            "passed": outcome.passed,
            "feedback": outcome.feedback,
        }
    else:
        told |= {"failure": outcome.message, "kind_of_failure": outcome.kind}
    details = {key: _short(value) for key, value in rollout.details.items()}
    if trajectory is None:
        return told | {"details": plain(details), "messages": []}
    messages = trajectory.messages
    return told | {
        "details": plain(details),
        "answer": _cut(trajectory.answer),
        "turns": trajectory.turns,
        "usage": plain(trajectory.usage),
        "limit": trajectory.reached_limit,
        "exit": trajectory.exit_status,
        "skill_opened": trajectory.skill_opened,
        "messages": [_message(message) for message in messages[:_MESSAGES]],
        "more": max(0, len(messages) - _MESSAGES),
        "files": [_file(path, content) for path, content in trajectory.files.items()],
    }


def _short(value: object) -> object:
    return _cut(value) if isinstance(value, str) else value


def _message(message: Message) -> Json:
    images = [
        f"data:{image.media_type};base64,{image.data}"
        for image in message.images
        if image.media_type in _IMAGES
    ]
    return {
        "role": message.role,
        "text": _cut(message.text),
        "images": images,
        "calls": [{"name": call.name, "arguments": _cut(call.arguments)} for call in message.calls],
        "answers": message.answers,
    }


def _file(path: str, content: bytes) -> Json:
    try:
        text = content[: 4 * _TEXT].decode("utf-8")
    except UnicodeDecodeError:
        return {"path": path, "size": len(content), "text": None}
    return {"path": path, "size": len(content), "text": _cut(text)}


def _cut(text: str) -> str:
    if len(text) <= _TEXT:
        return text
    return f"{text[:_TEXT]}\n[... {len(text) - _TEXT:,} more characters; the run directory has all]"


def log_view(run: OpenRun, before: int) -> Json:
    """The last events in front of a position, newest last, each on a line."""
    entries = run.views.reader.events()
    shown = [entry for entry in entries if not before or entry.position < before][-_LOG:]
    return {"lines": [log_line(entry) for entry in shown], "more": len(shown) == _LOG}


def log_line(entry: LoggedEvent) -> Json:
    kind, text = _said(entry.event)
    return {"position": entry.position, "kind": kind, "text": text}


def _said(event: Event) -> tuple[str, str]:
    match event:
        case Started(at, version):
            return "started", f"started by skillopt {version} at {at}"
        case Stopped(reason, at):
            return "stopped", f"stopped at {at}: {why_stopped(reason)}"
        case Finished(at):
            return "finished", f"finished at {at}"
        case Warned(text):
            return "warning", text
        case Timed(move, phase, seconds):
            return "time", f"{spelt(move)}, {spelt(phase)}: {seconds:.1f} s"
        case Prefetched(move, attempts):
            return "ahead", f"{spelt(move)}: {counted(attempts, 'attempt')} started ahead"
        case _:
            return "result", _told(event)


def _told(fact: Fact) -> str:
    reason = "" if fact.decision is None else f" ({fact.decision.reason})"
    return f"{title_of(fact)}: {became_words(fact)}{reason}"


def settings_view(run: OpenRun) -> Json:
    """The settings of the latest start without secrets, and which of them are no defaults."""
    try:
        config = run.views.config
    except SkilloptError:  # it has not begun
        config = planned(run.folder)
    if config is None:
        raise StoreError(f"{run.folder} has no settings that can be read")
    defaults = Config().shown()
    return {
        "values": plain(config.shown()),
        "changed": [key for key, value in config.shown().items() if defaults.get(key) != value],
    }


def proposals_view(run: OpenRun) -> Json:
    """What a person may decide about, the latest first."""
    run.views.refresh()
    return {"proposals": plain(proposals(run.views)[:_PROPOSALS])}


def best_skill(run: OpenRun) -> Skill:
    return run.views.skill("best")


def compare_view(run: OpenRun) -> Json:
    """What a comparison shows of one run: its scores over steps, cost and best skill."""
    views = run.views
    views.refresh()
    if not views.begun:
        raise StoreError(f"{run.id} has not measured its initial skill yet; wait a moment")
    return {
        "id": run.id,
        "head": plain(views.head),
        "steps": [
            {
                "position": step.position,
                "step": step.step,
                "current": plain(step.current),
                "best": plain(step.best),
            }
            for step in views.steps
        ],
        "total": plain(views.cost().total),
        "versions": plain(views.versions),
        "tokens": next((each.tokens for each in views.versions if each.is_best), None),
    }
