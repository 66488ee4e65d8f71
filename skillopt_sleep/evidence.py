"""A night as data: the report for programs, diagnostics, and what happened line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timezone
from typing import Final

from skillopt.gates.statistics import Interval
from skillopt.store.files import json_bytes, json_row
from skillopt_sleep.learning import Lesson, Trial
from skillopt_sleep.report import Night, diff

_KEPT: Final = 4000
"""Characters of a text that the evidence keeps."""


def as_json(night: Night) -> dict[str, object]:
    """The report as data; `run --json` prints it."""
    lessons = night.lessons
    first = next((lesson for lesson in lessons if lesson.score_before), None)
    return {
        "ok": not night.failed,
        "night": night.night,
        "project": str(night.project),
        "agent": night.agent,
        "started": night.started.isoformat(),
        "ended": night.ended.isoformat(),
        "verdict": night.verdict,
        "accepted": night.accepted,
        "simulated": night.simulated,
        "gate_action": _gate_action(lessons),
        "baseline": first.score_before.mean if first and first.score_before else None,
        "candidate": first.score_after.mean if first and first.score_after else None,
        "n_sessions": night.gathered.sessions,
        "n_tasks": len(night.gathered.tasks),
        "n_replayed": len(night.practised),
        "sources": dict(night.gathered.sources),
        "skipped": dict(night.gathered.skipped),
        "left_out": dict(night.left_out),
        "edits": [text for trial in _trials(lessons) if trial.accepted for text in trial.edits],
        "rejected_edits": [
            text for trial in _trials(lessons) if not trial.accepted for text in trial.edits
        ],
        "unmatched_edits": [text for trial in _trials(lessons) for text in trial.unmatched],
        "gate_trials": [_trial(trial) for trial in _trials(lessons)],
        "documents": [_lesson(lesson) for lesson in lessons],
        "skill_groups": [
            {"name": group.name, "outcome": group.outcome, "tasks": group.tasks, "why": group.why}
            for group in night.groups
        ],
        "tokens_used": night.spent.input + night.spent.output,
        "dollars": night.spent.dollars,
        "calls": night.spent.calls,
        "notes": list(night.notes),
        "estimate": night.estimate,
        "staging_dir": str(night.staging or ""),
        "staged_skills": [lesson.target for lesson in lessons if lesson.accepted],
        "adopted": [str(path) for path in night.adopted],
        "adopt": night.adopt_command if night.accepted and not night.adopted else "",
    }


def _trials(lessons: Sequence[Lesson]) -> list[Trial]:
    return [trial for lesson in lessons for trial in lesson.trials]


def _gate_action(lessons: Sequence[Lesson]) -> str:
    if not lessons:
        return "not_run"
    if any(lesson.accepted for lesson in lessons):
        return "accept_new_best"
    if all(lesson.failed for lesson in lessons):
        return "failed"
    return "reject" if _trials(lessons) else "no_edits"


def _trial(trial: Trial) -> dict[str, object]:
    return {
        "move": trial.move,
        "action": trial.action,
        "accepted": trial.accepted,
        "reason": trial.reason,
        "before": trial.before,
        "after": trial.after,
        "bounded": trial.bounded,
        "edits": list(trial.edits),
    }


def _lesson(lesson: Lesson) -> dict[str, object]:
    return {
        "target": lesson.target,
        "path": str(lesson.path),
        "accepted": lesson.accepted,
        "split": lesson.split,
        "before": _interval(lesson.score_before),
        "after": _interval(lesson.score_after),
        "gain": _interval(lesson.gain),
        "claim": lesson.words,
        "n_train": lesson.n_train,
        "n_val": lesson.n_val,
        "n_test": lesson.n_test,
        "failures": lesson.failures,
        "stopped": lesson.stopped,
        "failed": lesson.failed,
        "tokens": lesson.spent.input + lesson.spent.output,
        "diff": diff(lesson),
    }


def _interval(score: Interval | None) -> dict[str, float] | None:
    return None if score is None else {"mean": score.mean, "low": score.low, "high": score.high}


def diagnostics(night: Night) -> bytes:
    """What somebody needs who asks why a night went as it did."""
    return json_bytes(
        {
            "night": night.night,
            "documents": [
                {
                    **_lesson(lesson),
                    "run": str(lesson.folder),
                    "warnings": list(lesson.warnings),
                    "gate_trials": [_trial(trial) for trial in lesson.trials],
                    "unmatched": [text for trial in lesson.trials for text in trial.unmatched],
                    "holdout_detail": [
                        {
                            "id": task.id,
                            "intent": _cut(task.intent),
                            "before": task.before,
                            "after": task.after,
                            "response_head": task.answer,
                            "why": task.why,
                        }
                        for task in lesson.tasks
                    ],
                }
                for lesson in night.lessons
            ],
            "notes": list(night.notes),
        }
    )


def evidence(night: Night) -> bytes:
    """What happened, line by line, in order."""
    at = night.ended.astimezone(timezone.utc).isoformat(timespec="seconds")
    rows = list(_events(night))
    return b"".join(
        json_row({"ts": at, "seq": number, **row}) for number, row in enumerate(rows, start=1)
    )


def _events(night: Night) -> Iterator[dict[str, object]]:
    gathered = night.gathered
    yield {"stage": "cycle", "event": "start", "night": night.night, "project": str(night.project)}
    yield {
        "stage": "harvest",
        "event": "sessions",
        "sessions": gathered.sessions,
        "sources": dict(gathered.sources),
        "skipped": dict(gathered.skipped),
    }
    for task in night.practised or gathered.tasks:
        yield {
            "stage": "mine",
            "event": "task",
            "id": task.id,
            "intent": _cut(task.intent),
            "split": task.split,
            "origin": task.origin,
            "derived_from": task.derived_from,
            "reference": task.reference.kind,
            "sessions": list(task.sessions),
        }
    for lesson in night.lessons:
        named: dict[str, object] = {"target": lesson.target}
        for task in lesson.tasks:
            yield {
                "stage": "replay",
                "event": "result",
                **named,
                "id": task.id,
                "before": task.before,
                "after": task.after,
                "why": task.why,
            }
        for trial in lesson.trials:
            told = _trial(trial)
            told["edits"] = [_cut(text) for text in trial.edits]
            yield {"stage": "gate", "event": "trial", **named, **told}
        yield {
            "stage": "gate",
            "event": "decision",
            **named,
            "accepted": lesson.accepted,
            "claim": lesson.words,
            "stopped": lesson.stopped,
            "failed": lesson.failed,
        }
    yield {"stage": "cycle", "event": "end", "accepted": night.accepted, "calls": night.spent.calls}


def _cut(text: str) -> str:
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}…"
