"""A night: look back at the sessions, practise their tasks, propose what made things better.

Everything that a night has found out is in its folder, so a night that was stopped, or that waits
for answers, goes on where it was.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from skillopt.aio import run_blocking
from skillopt.api import estimate_async
from skillopt.app.costs import Estimate
from skillopt.config.secrets import Secrets
from skillopt.core.wording import counted
from skillopt.errors import AnswerError, Pending, SkilloptError, StoreError
from skillopt.store.files import json_bytes, write_atomic
from skillopt_sleep.adoption import adopt, choosing, recovered
from skillopt_sleep.documents import Document
from skillopt_sleep.evidence import as_json, diagnostics, evidence
from skillopt_sleep.gathering import Gathered, Miner, gather
from skillopt_sleep.learning import Lesson, learn, run_inputs
from skillopt_sleep.models import Allowance, check_prices, has_models, told_models
from skillopt_sleep.planning import Bench, NightPlan, document_task, plan_night
from skillopt_sleep.rendering import render_html, render_markdown
from skillopt_sleep.report import Night, SkillGroup, called
from skillopt_sleep.settings import Settings, home_of, located, told_command
from skillopt_sleep.staging import PAIR, check_staging, slug, stage
from skillopt_sleep.state import (
    ASKED,
    FINISHED,
    NightRecord,
    ProjectState,
    State,
    kept_in,
    load_state,
    only_night,
    save_state,
    utc,
    waits,
)
from skillopt_sleep.targets import resolve_targets
from skillopt_sleep.task_file import TaskFile, digest_of, task_bytes
from skillopt_sleep.transaction import half_way, records_of, stopped_half_way
from skillopt_sleep.values import ProposedFile
from skillopt_sleep.wording import told_in_our_words

_PINNED: Final = TypeAdapter(Gathered)
_MARK: Final = TypeAdapter(dict[str, object])
_LOOSE: Final = frozenset(
    (
        *("auto_adopt", "keep_nights", "progress", "state_dir", "workers"),
        *("max_usd_per_night", "max_minutes_per_night", "max_tokens_per_night"),
    )
)
"""Settings that a night may go on with although they were others when it began."""
NO_BACKEND: Final = "Nothing was practised: no model is configured (--backend)."
NO_DOCUMENT: Final = "Nothing was practised: evolve_skill and evolve_memory are both off."
TOO_FEW: Final = (
    "Nothing was practised: there are too few tasks. It takes at least one to learn from and one "
    "to decide by."
)
AGAIN: Final = (
    "Nothing could be learnt from these sessions tonight; the next night takes them up again."
)
NO_TASKS: Final = "Nothing was practised: there is no task that can be attempted and checked again."


async def run_night_async(settings: Settings, bench: Bench | None = None) -> Night:
    """Run a night, or go on with the one that was stopped; the settings must be the same then.

    Raises:
        ConfigError: The settings cannot be used.
        RefusedChange: A document could not be written safely; nothing was spent.
        StoreError: Another night is under way, or the state is damaged.
        Pending: The user's agent has questions to answer (backend `handoff`).
        AnswerError: An answer cannot be read; the night goes on when it can.
    """
    settings = located(settings)
    bench = (bench or Bench()).of_project(settings.project)
    check_prices(settings, bench.models, bench.secrets)
    folder = home_of(settings)
    with only_night(settings) as nights:
        state = load_state(folder)
        project = state.project(settings.project)
        number, place = _place(nights / slug(settings.project), settings, state)
        try:
            with told_in_our_words():
                night = await _practised(settings, state, bench, number, place)
        except Pending as pending:
            asked = [_relative(Path(pending.folder) / name, place) for name in pending.questions]
            write_atomic(place / ASKED, json_bytes(sorted(asked)))
            raise
        except AnswerError:
            raise
        except SkilloptError as error:
            record = NightRecord(
                night=number,
                project=str(settings.project),
                at=utc(bench.clock()),
                models=told_models(settings),
                failed=(bench.secrets or Secrets({})).redact(str(error)),
                finished=False,
            )
            save_state(folder, state.after(record, project))
            raise
        save_state(folder, _remembered(state, project, night, told_models(settings)))
        write_atomic(place / FINISHED, "")
        if settings.auto_adopt and night.accepted:
            night = _adopted(night, settings, bench)
        _tidy(place.parent, settings.keep_nights)
        return night


async def _practised(
    settings: Settings, state: State, bench: Bench, number: int, place: Path
) -> Night:
    """A night from its first look to what it proposes."""
    project = state.project(settings.project)
    check_staging(settings.project)
    undone = recovered(settings, home=bench.home)
    started = bench.clock()
    since = time.monotonic()
    gathered = await _gathered(place, settings, project, bench)
    plan = await plan_night(settings, project, gathered, bench, number)
    night = _begun(settings, plan, bench, number, started)
    told = (*(each.words for each in undone), *_changed_models(settings, state))
    night = replace(night, notes=(*night.notes, *told))
    if plan.documents and has_models(settings, bench.models):
        night = await _learnt(night, plan, settings, project, place, bench, since)
    names = [lesson.target for lesson in night.lessons if lesson.accepted]
    command = told_command(settings, "adopt", *choosing(names)) if names else ""
    night = replace(night, ended=bench.clock(), adopt_command=command)
    return _staged(night, plan, place, home_of(settings))


async def look_async(settings: Settings, bench: Bench | None = None) -> Night:
    """What a night would use and cost. Calls no model and writes nothing.

    Raises:
        ConfigError: The settings cannot be used.
        RefusedChange: A document could not be written safely.
        StoreError: The state is damaged.
    """
    settings = located(settings)
    bench = (bench or Bench()).of_project(settings.project)
    check_prices(settings, bench.models, bench.secrets)
    state = load_state(home_of(settings))
    project = state.project(settings.project)
    check_staging(settings.project)
    started = bench.clock()
    if bench.tasks is not None:
        gathered = Gathered(tasks=bench.tasks)
    else:
        gathered = await gather(settings, project.checkpoint, started, None)
    number = state.night + 1
    plan = await plan_night(settings, project, gathered, bench, number)
    night = _begun(settings, plan, bench, number, started)
    half = stopped_half_way(records_of(settings))
    night = replace(night, notes=(*night.notes, *(half_way(each) for each in half)))
    if plan.documents and has_models(settings, bench.models):
        with told_in_our_words():
            night = replace(night, estimate=await _estimated(plan, settings, project, bench))
    return night


def run_night(settings: Settings, bench: Bench | None = None) -> Night:
    """The synchronous version of `run_night_async`."""
    return run_blocking(run_night_async(settings, bench))


def look(settings: Settings, bench: Bench | None = None) -> Night:
    """The synchronous version of `look_async`."""
    return run_blocking(look_async(settings, bench))


def is_due(state: State, project: Path, now: datetime, hour: int, minute: int) -> bool:
    """Whether no night of a project has run since the last time that one was due.

    The time of day is a local one; a night that was missed is due until it has run.
    """
    local = now.astimezone()
    due = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if due > local:
        due = (due.replace(tzinfo=None) - timedelta(days=1)).astimezone()
    last = state.project(project.resolve()).last_night
    return last is None or last < utc(due)


def _place(folder: Path, settings: Settings, state: State) -> tuple[int, Path]:
    """The number and the folder of this night: of the unfinished one, if it is the same."""
    numbers = [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()]
    finished = {
        record.night
        for record in state.history
        if record.project == str(settings.project) and record.finished
    }
    mark = _mark(settings)
    for number in sorted(set(numbers) - finished, reverse=True):
        place = folder / f"{number:04}"
        # The state may have been moved away.
        if not (place / FINISHED).exists() and _begun_with(place) == _identity(mark):
            return number, place
    number = max([state.night, *numbers]) + 1
    place = folder / f"{number:04}"
    write_atomic(place / "settings.json", json_bytes(mark))
    return number, place


def _mark(settings: Settings) -> dict[str, object]:
    kept = settings.model_dump(mode="json", exclude=set(_LOOSE))
    if settings.tasks_file is not None:
        kept["tasks"] = digest_of(settings.tasks_file)
    return kept


def _identity(mark: Mapping[str, object]) -> dict[str, object]:
    """A task file is what it holds, wherever it lies."""
    return {name: value for name, value in mark.items() if name != "tasks_file"}


def _begun_with(place: Path) -> dict[str, object] | None:
    try:
        return _identity(kept_in(place / "settings.json", _MARK))
    except StoreError:  # the status tells so
        return None


def _relative(path: Path, place: Path) -> str:
    return path.relative_to(place).as_posix()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


async def _gathered(
    place: Path, settings: Settings, project: ProjectState, bench: Bench
) -> Gathered:
    """The sessions and tasks of this night: those that it began with, if it has begun."""
    pinned = place / "tasks.json"
    if pinned.exists():
        return kept_in(pinned, _PINNED)
    if bench.tasks is not None:
        gathered = Gathered(tasks=bench.tasks)
    else:
        miner = Miner(
            folder=place,
            check=lambda sources: resolve_targets(settings, sources, home=bench.home),
            models=bench.models,
            watch=bench.watch,
            secrets=bench.secrets,
        )
        asks = has_models(settings, bench.models)
        gathered = await gather(
            settings, project.checkpoint, bench.clock(), miner if asks else None
        )
    write_atomic(pinned, _PINNED.dump_json(gathered, indent=2))
    return gathered


def _begun(
    settings: Settings, plan: NightPlan, bench: Bench, number: int, started: datetime
) -> Night:
    """The night as far as it is known before anything is attempted."""
    return Night(
        night=number,
        project=settings.project,
        agent=plan.targets.agent,
        started=started,
        ended=started,
        gathered=plan.gathered,
        practised=plan.practised,
        left_out=plan.left_out,
        allowance=Allowance.of(settings),
        groups=plan.groups,
        notes=_notes(settings, plan, bench),
        spent=plan.gathered.spent,
        simulated=bench.simulated,
    )


def _notes(settings: Settings, plan: NightPlan, bench: Bench) -> tuple[str, ...]:
    notes: list[str] = []
    if not has_models(settings, bench.models):
        notes.append(NO_BACKEND)
    elif not settings.evolve_skill and not settings.evolve_memory:
        notes.append(NO_DOCUMENT)
    elif not plan.documents:
        notes.append(TOO_FEW if plan.practised else NO_TASKS)
    return (*notes, *plan.gathered.notices)


def _changed_models(settings: Settings, state: State) -> list[str]:
    own = [record for record in state.history if record.project == str(settings.project)]
    last, now = (
        next((each.models for each in reversed(own) if each.models), ""),
        told_models(settings),
    )
    if not last or not now or last == now:
        return []
    return [f"the models changed since the last night ({last}; now {now}): compare no scores"]


async def _learnt(
    night: Night,
    plan: NightPlan,
    settings: Settings,
    project: ProjectState,
    place: Path,
    bench: Bench,
    since: float,
) -> Night:
    """One document after the other, each with its share of what may be spent."""
    lessons: list[Lesson] = []
    notes: list[str] = []
    spent = night.spent
    for at, (target, _) in enumerate(plan.documents):
        left = night.allowance.less(spent, (time.monotonic() - since) / 60)
        if left.gone:
            notes.append(f"{target.path} was not learnt: {left.gone} is used up")
            continue
        what = document_task(plan, at, lessons, settings, project, place)
        lesson = await learn(
            what,
            settings,
            left.share(len(plan.documents) - at),
            bench.models,
            watch=bench.watch,
            secrets=bench.secrets,
        )
        spent += lesson.spent
        lessons.append(lesson)
    notes += _warnings(lessons)
    if not any(lesson.conclusive for lesson in lessons):
        notes.append(AGAIN)
    by_name = {lesson.target: lesson for lesson in lessons}
    return replace(
        night,
        lessons=tuple(lessons),
        spent=spent,
        notes=(*night.notes, *notes),
        groups=tuple(_became(group, by_name.get(group.name)) for group in night.groups),
    )


def _warnings(lessons: Sequence[Lesson]) -> list[str]:
    """What was told of each document; by its name, if it is not told of all."""
    named: dict[str, list[str]] = {}
    for lesson in lessons:
        for note in dict.fromkeys(lesson.warnings):
            if note != lesson.failed:
                named.setdefault(note, []).append(called(lesson))
    return [
        note if len(names) == len(lessons) else f"{' and '.join(names)}: {note}"
        for note, names in named.items()
    ]


def _became(group: SkillGroup, lesson: Lesson | None) -> SkillGroup:
    if lesson is None or group.outcome != "found":
        return group
    if lesson.failed:
        return replace(group, outcome="failed", why=lesson.failed)
    return replace(group, outcome="learnt" if lesson.accepted else "unchanged")


async def _estimated(
    plan: NightPlan, settings: Settings, project: ProjectState, bench: Bench
) -> str:
    """Calls and tokens of a night, over all its documents."""
    found: list[Estimate] = []
    for at in range(len(plan.documents)):
        what = document_task(plan, at, (), settings, project, Path("night"))
        found.append(
            await estimate_async(
                **run_inputs(what, settings, Allowance(), bench.models, bench.secrets)
            )
        )
    calls, tokens = (
        sum(each.calls.expected for each in found),
        sum(each.tokens.expected for each in found),
    )
    return f"about {counted(round(calls), 'call')} and {counted(round(tokens), 'token')}"


def _staged(night: Night, plan: NightPlan, place: Path, state: Path) -> Night:
    """The night in the project's staging folder, once, however often it was interrupted."""
    done = place / "staged"
    if earlier := _text_of(done).strip():
        return replace(night, staging=Path(earlier))
    live = {target.path: target for target, _ in plan.documents}
    files: list[ProposedFile] = []
    for lesson in night.lessons:
        if lesson.accepted:
            document: Document = live[lesson.path].document.with_learned(lesson.after)
            proposed = live[lesson.path].proposed(document)
            files += [] if proposed is None else [proposed]
    documents = {
        "report.md": render_markdown(night).encode(),
        "report.html": render_html(night).encode(),
        "report.json": json_bytes(as_json(night)),
        "diagnostics.json": diagnostics(night),
        "evidence.jsonl": evidence(night),
        "tasks.json": task_bytes(TaskFile(project=night.project, tasks=plan.gathered.tasks)),
    }
    folder = stage(
        night.project, files, documents, accepted=night.accepted, now=night.ended, state=state
    )
    write_atomic(done, f"{folder}\n")
    return replace(night, staging=folder)


def _adopted(night: Night, settings: Settings, bench: Bench) -> Night:
    """The managed documents in place; skills of the user's own are never changed unasked."""
    wanted = [lesson.target for lesson in night.lessons if lesson.accepted]
    pair = [target for target in wanted if target in PAIR]
    if not pair or night.staging is None:
        return night
    try:
        outcome = adopt(
            settings, staging=night.staging, targets=pair, home=bench.home, now=bench.clock()
        )
    except SkilloptError as error:  # edited meanwhile, for instance: it waits for the user
        return replace(night, notes=(*night.notes, f"not adopted: {error}"))
    if outcome.receipt is None:
        return night
    return replace(
        night,
        adopted=tuple(file.path for file in outcome.files),
        rollback_command=told_command(settings, "rollback", outcome.receipt.name),
    )


def _remembered(state: State, project: ProjectState, night: Night, models: str) -> State:
    at = utc(night.ended)
    documents = {
        **project.documents,
        **{str(lesson.path): lesson.memory for lesson in night.lessons},
    }
    # What nothing could be learnt from, for want of a model, usable answers or means, comes up
    # again.
    measured = any(lesson.conclusive for lesson in night.lessons)
    real = [task for task in night.practised if task.origin == "real"] if measured else []
    record = NightRecord(
        night=night.night,
        project=str(night.project),
        at=at,
        accepted=[lesson.target for lesson in night.lessons if lesson.accepted],
        tasks=len(night.gathered.tasks),
        tokens=night.spent.input + night.spent.output,
        dollars=night.spent.dollars,
        staging=str(night.staging or ""),
        models=models,
        failed=night.lessons[0].failed if night.failed else "",
    )
    after = ProjectState(
        checkpoint=(measured and night.gathered.checkpoint) or project.checkpoint,
        last_night=at,
        documents=documents,
        archive=project.with_archived(real),
    )
    return state.after(record, after)


def _tidy(folder: Path, keep: int) -> None:
    """Remove the run directories of old nights; answers that somebody gave are not lost so."""
    nights = sorted(path for path in folder.glob("[0-9]*") if path.name.isdigit())
    for path in nights[:-keep]:
        if not waits(path):
            shutil.rmtree(path, ignore_errors=True)
