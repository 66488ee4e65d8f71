"""Rollouts as files: a row for each, and what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from skillopt.core.chat import Message
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score, Trajectory
from skillopt.store.files import Json, given, json_bytes, json_row
from skillopt.store.layout import RolloutFolder

Files: TypeAlias = Iterator[tuple[Path, bytes]]
Attempts: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, Rollout]]
"""Kept rollouts of a skill (by digest), by task."""


def rollout_files(folder: RolloutFolder, evaluation: Evaluation, attempts: Attempts) -> Files:
    """The rows and conversations of an evaluation."""
    kept = attempts(evaluation.skill, list(evaluation.scores))
    yield folder.results, result_rows(evaluation, kept)
    for rollout in kept.values():
        yield from conversation_files(folder, rollout)


def result_rows(evaluation: Evaluation, kept: Mapping[str, Rollout]) -> bytes:
    """A row for each attempt; failed ones have no score."""
    rows = [
        _row(task, score, kept.get(task)) | _cause(task, evaluation) | _replicates(task, evaluation)
        for task, score in evaluation.scores.items()
    ]
    rows += [_failed(task, failure) for task, failure in evaluation.failures.items()]
    return b"".join(map(json_row, rows))


def conversation_files(folder: RolloutFolder, rollout: Rollout) -> Files:
    """What was said in an attempt, if it was scored."""
    if rollout.trajectory is None or not isinstance(rollout.outcome, Score):
        return
    prompts, messages = _prompts(rollout.trajectory)
    yield folder.conversation(rollout.task), json_bytes(list(_talk(messages)))
    for role, text in prompts.items():
        yield folder.prompt(rollout.task, role), text.encode(errors="backslashreplace")


def _prompts(trajectory: Trajectory) -> tuple[dict[str, str], Sequence[Message]]:
    """What the target was told first, by role, and what was said after that."""
    prompts: dict[str, str] = {}
    messages = trajectory.messages
    for number, message in enumerate(messages):
        if message.role in prompts or message.role not in {"system", "user"}:
            return prompts, messages[number:]
        prompts[message.role] = message.text
    return prompts, ()


def _talk(messages: Sequence[Message]) -> Iterator[Json]:
    turn = 1
    for message in messages:
        yield {
            "type": "message",
            "turn": turn,
            "role": message.role,
            "content": message.text,
            **given(
                tool_calls=[asdict(call) for call in message.calls],
                tool_call_id=message.answers,
                images=[image.media_type for image in message.images],
            ),
        }
        turn += message.role == "assistant"


def _row(task: str, score: Score, rollout: Rollout | None) -> Json:
    row: Json = {"id": task, "hard": score.hard, "soft": score.soft, "agent_ok": True}
    if rollout is None:
        return row
    row["task_type"] = rollout.kind
    row["fail_reason"] = fail_reason(rollout)
    if rollout.trajectory is not None:
        row["n_turns"] = rollout.trajectory.turns
        row["predicted_answer"] = rollout.trajectory.answer
        row["response"] = _response(rollout.trajectory)
        row |= _ending(rollout.trajectory)
    return row | dict(rollout.details)


def _ending(trajectory: Trajectory) -> Json:
    """How an agent ended and what it left, as far as there is anything to tell."""
    status: Json = {
        "exit_status": trajectory.exit_status,
        "skill_opened": trajectory.skill_opened,
    }
    return {
        **given(reached_limit=trajectory.reached_limit),
        **{name: value for name, value in status.items() if value is not None},
        **given(files={path: len(content) for path, content in trajectory.files.items()}),
    }


def _replicates(task: str, evaluation: Evaluation) -> Json:
    """The score of every attempt, where there was more than one."""
    if not evaluation.rounds:
        return {}
    return {"replicates": [marks[task].hard for marks in evaluation.rounds if task in marks]}


def _cause(task: str, evaluation: Evaluation) -> Json:
    """Why an attempt counts as 0, where it failed only with this skill."""
    own = evaluation.own_failures.get(task)
    return {} if own is None else {"agent_ok": False, "error": asdict(own)}


def _failed(task: str, failure: Failure) -> Json:
    return {"id": task, "hard": None, "soft": None, "agent_ok": False, "error": asdict(failure)}


def _response(trajectory: Trajectory) -> str:
    said = [message.text for message in trajectory.messages if message.role == "assistant"]
    return said[-1] if said else ""


def fail_reason(rollout: Rollout) -> str:
    match rollout.outcome:
        case Score(feedback=feedback) as score if not score.passed:
            return feedback
        case _:
            return ""


def by_kind(evaluation: Evaluation, kept: Mapping[str, Rollout]) -> Json:
    groups: dict[str, list[float]] = {"overall": []}
    for task, score in evaluation.scores.items():
        groups["overall"].append(score.hard)
        if task in kept:
            groups.setdefault(kept[task].kind, []).append(score.hard)
    return {
        name: {"total": len(marks), "hard_acc": sum(marks) / len(marks) if marks else 0.0}
        for name, marks in groups.items()
    }
