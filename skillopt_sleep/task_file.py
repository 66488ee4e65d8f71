"""The task file that a person can review: `skillopt_sleep.tasks.v1`, a JSON document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt.core.intake import MIB, read_file, read_json
from skillopt.core.nearest import did_you_mean
from skillopt.errors import DataError
from skillopt.store.files import json_bytes, write_atomic
from skillopt_sleep.checks import problem_of
from skillopt_sleep.likeness import grouped
from skillopt_sleep.strict import RepeatedKey, different_keys
from skillopt_sleep.values import Check, MinedTask, Outcome, Reference, Split

FORMAT: Final = "skillopt_sleep.tasks.v1"
_FILE_BYTES: Final = 64 * MIB
_SPLITS: Final[Mapping[str, Split]] = {
    "train": "train", "val": "val", "test": "test", "replay": "train", "holdout": "val",
}  # fmt: skip
_CLOSED: Final = ConfigDict(extra="forbid", frozen=True)


class _CheckRow(BaseModel):
    model_config = _CLOSED
    op: str
    arg: str | int = ""


class _JudgeRow(BaseModel):
    model_config = _CLOSED
    kind: str = "rule"
    checks: list[_CheckRow] = []


class _TaskRow(BaseModel):
    model_config = _CLOSED
    id: Annotated[str, Field(min_length=1)]
    project: str = ""
    intent: Annotated[str, Field(min_length=1)]
    context_excerpt: str = ""
    system: str = ""
    attempted_solution: str = ""
    outcome: Outcome = "unknown"
    reference_kind: Literal["exact", "rule", "rubric", "command", "none"] = "none"
    reference: str = ""
    rubric: str = ""
    judge: _JudgeRow | None = None
    tags: list[str] = []
    source_sessions: list[str] = []
    commit: str = ""
    split: Literal["train", "val", "test", "replay", "holdout"] = "train"
    origin: Literal["real", "dream", "recall"] = "real"
    derived_from: str = ""
    skill_hint: str = ""
    frequency: Annotated[int, Field(ge=1)] = 1
    pain: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class _FileRow(BaseModel):
    model_config = _CLOSED
    format: Literal["skillopt_sleep.tasks.v1"]
    project: str = ""
    transcript_source: str = ""
    n_sessions: int = 0
    target_skill_path: str = ""
    reviewed: bool = False
    tasks: list[_TaskRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    project: Path
    tasks: tuple[MinedTask, ...]
    source: str = ""
    sessions: int = 0
    target_skill: str = ""
    reviewed: bool = False
    """Whether a person has looked at the tasks; before that, no model is asked with them."""


class Unreviewed(DataError):
    """A task file that nobody has reviewed is not given to a model."""

    exit_code = 2


def write_tasks(path: Path, file: TaskFile) -> None:
    """Write a task file; a person sets `reviewed` to true in it."""
    write_atomic(path, task_bytes(file))


def task_bytes(file: TaskFile) -> bytes:
    """A task file as it is written."""
    document = {
        "format": FORMAT,
        "project": str(file.project),
        "transcript_source": file.source,
        "n_sessions": file.sessions,
        "target_skill_path": file.target_skill,
        "reviewed": file.reviewed,
        "tasks": [task_row(task) for task in file.tasks],
    }
    return json_bytes(document)


def read_tasks(path: Path) -> TaskFile:
    """Read a task file.

    Raises:
        DataError: It cannot be used; the message names the line and the field.
    """
    try:
        text = read_file(path, _FILE_BYTES).decode("utf-8-sig")
        data = read_json(text)
        json.loads(text, object_pairs_hook=different_keys)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except RepeatedKey as error:
        raise DataError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8; save the file as UTF-8") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    try:
        row = _FileRow.model_validate(data, strict=True)
    except ValidationError as errors:
        # A field that is written wrongly is missing by its right name, too.
        found = sorted(errors.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise _at(path, text, *_told(dict(found[0]))) from None
    tasks: dict[str, MinedTask] = {}
    for number, task in enumerate(row.tasks):
        if task.id in tasks:
            raise _at(path, text, ("tasks", number, "id"), f"a second task with the id {task.id!r}")
        place, problem = _problem(task)
        if problem:
            raise _at(path, text, ("tasks", number, *place), problem)
        tasks[task.id] = _task(task, row.project)
    for number, problem in _divided(list(tasks.values())):
        raise _at(path, text, ("tasks", number, "split"), problem)
    return TaskFile(
        project=Path(row.project),
        tasks=tuple(tasks.values()),
        source=row.transcript_source,
        sessions=row.n_sessions,
        target_skill=row.target_skill_path,
        reviewed=row.reviewed,
    )


def digest_of(path: Path) -> str:
    """What a task file holds, as one word; a file that cannot be read holds nothing."""
    try:
        return hashlib.sha256(read_file(path, _FILE_BYTES)).hexdigest()
    except OSError:
        return hashlib.sha256(b"").hexdigest()


def require_reviewed(path: Path, file: TaskFile) -> None:
    """Refuse tasks that nobody has looked at.

    Raises:
        Unreviewed: The file does not say that it was reviewed.
    """
    if not file.reviewed:
        raise Unreviewed(
            f"{path} was not reviewed: read its tasks, correct or delete what is wrong or private, "
            'then set "reviewed" to true in it'
        )


def task_row(task: MinedTask) -> dict[str, object]:
    """A task as it stands in the file."""
    reference = task.reference
    checks = [{"op": check.op, "arg": check.arg} for check in reference.checks]
    row: dict[str, object] = {
        "id": task.id,
        "project": str(task.project),
        "intent": task.intent,
        "context_excerpt": task.context,
        "system": task.system,
        "outcome": task.outcome,
        "reference_kind": reference.kind,
        "reference": reference.text,
        "judge": {"kind": "rule", "checks": checks} if checks else None,
        "tags": list(task.tags),
        "source_sessions": list(task.sessions),
        "commit": task.commit,
        "split": task.split,
        "origin": task.origin,
        "derived_from": task.derived_from,
        "skill_hint": task.skill_hint,
        "frequency": task.frequency,
        "pain": task.pain,
    }
    return {key: value for key, value in row.items() if value not in ("", None)}


def _task(row: _TaskRow, project: str) -> MinedTask:
    checks = row.judge.checks if row.judge else []
    return MinedTask(
        id=row.id,
        project=Path(row.project or project),
        intent=row.intent,
        context=row.context_excerpt,
        system=row.system,
        outcome=row.outcome,
        reference=Reference(
            kind=row.reference_kind,
            text=row.reference or row.rubric,
            checks=tuple(Check(check.op, check.arg) for check in checks),
        ),
        tags=tuple(row.tags),
        sessions=tuple(row.source_sessions),
        commit=row.commit,
        split=_SPLITS[row.split],
        origin=row.origin,
        derived_from=row.derived_from,
        skill_hint=row.skill_hint,
        frequency=row.frequency,
        pain=row.pain,
    )


def _problem(row: _TaskRow) -> tuple[tuple[str | int, ...], str]:
    """Which field of a task cannot be used, and why."""
    if not row.intent.strip():
        return ("intent",), "says nothing; a task needs a request"
    checks = row.judge.checks if row.judge else []
    for number, check in enumerate(checks):
        if problem := problem_of(Check(check.op, check.arg)):
            return ("judge", "checks", number), problem
    if row.reference_kind == "rule" and not checks:
        return ("reference_kind",), "rule needs checks, in judge.checks"
    text = row.reference or (row.rubric if row.reference_kind == "rubric" else "")
    if row.reference_kind in ("exact", "rubric", "command") and not text.strip():
        return ("reference_kind",), f"{row.reference_kind} needs a text, in reference"
    return (), ""


def _divided(tasks: Sequence[MinedTask]) -> Iterator[tuple[int, str]]:
    """Tasks that are alike and on different sides, where one would give the other away."""
    for first, *others in grouped([task.intent for task in tasks]):
        for other in others:
            one, two = tasks[first], tasks[other]
            if one.split != two.split:
                yield (
                    other,
                    f"{two.id!r} is in {two.split}, and {one.id!r}, which is like it, in "
                    f"{one.split}; tasks that are alike belong on one side",
                )


def _told(error: Mapping[str, Any]) -> tuple[Sequence[str | int], str]:
    """Which field is wrong, and what is."""
    place: tuple[str | int, ...] = error["loc"]
    if error["type"] == "extra_forbidden":
        name = str(place[-1])
        known = (_FileRow, _TaskRow, _JudgeRow, _CheckRow)
        fields = [field for model in known for field in model.model_fields]
        near = did_you_mean(name, fields)
        return place, f"unknown field{near and '; ' + near}"
    if error["type"] == "model_type":
        return place, "should be an object: names with values"
    if place[-1:] in (("str",), ("int",)):  # one of the types that it may have
        return place[:-1], "should be a text or a whole number"
    told = str(error["msg"]).replace("Input should", "should")
    return place, "is missing" if error["type"] == "missing" else told


def _at(path: Path, text: str, place: Sequence[str | int], problem: str) -> DataError:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    line = _line(text, place)
    where = f"{path}, line {line}" if line else str(path)
    return DataError(f"{where}: {field.lstrip('.') or 'the file'}: {problem}")


def _line(text: str, place: Sequence[str | int]) -> int | None:
    """The line of a field, or of the nearest thing around it; JSON is YAML, which tells lines."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except yaml.YAMLError:
        return None
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pairs = [(key, value) for key, value in node.value if key.value == part]
            if not pairs:
                break
            node = pairs[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
        else:
            break
    return None if node is None else int(node.start_mark.line) + 1
