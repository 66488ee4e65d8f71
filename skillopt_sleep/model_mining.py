"""Makes tasks of sessions with a model: several groups of asks in each question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, StringConstraints

from skillopt.aio import map_all
from skillopt.config.redaction import HIDDEN
from skillopt.core.chat import Model
from skillopt.core.sink import EventSink
from skillopt.errors import Unusable
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.library import Library
from skillopt_sleep.checks import doubts_about, problem_of
from skillopt_sleep.mining import Ask, ask_groups, ranked, task_id, task_of
from skillopt_sleep.redacting import redaction, without_secrets
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import Check, MinedTask, Outcome, Reference, Session

_PROMPTS: Final = Path(__file__).parent / "prompts"
STAGE: Final = "sleep_mine"
"""The purpose of these calls, in cost reports; also the name of the prompt."""
_BATCH: Final = 8
"""Groups of asks in one question."""
_PROMPTS_SHOWN: Final = 6
_PROMPT_CHARS: Final = 400
_ANSWER_CHARS: Final = 400
_MOST_CHECKS: Final = 8
_INTENT_CHARS: Final = 2000
_Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class _FoundCheck(BaseModel):
    op: str
    arg: str | int = ""


class _FoundTask(BaseModel):
    asks: list[int]
    intent: Annotated[str, StringConstraints(strip_whitespace=True, min_length=8)]
    answer: _Text = ""
    checks: list[_FoundCheck] = []
    rubric: _Text = ""
    satisfied: bool | None = None


class _FoundTasks(BaseModel):
    tasks: list[_FoundTask]


@dataclass(frozen=True, slots=True)
class MiningResult:
    tasks: tuple[MinedTask, ...]
    unusable: int = 0
    """Questions without a usable answer; their asks were mined without the model."""


async def mine_with_model(
    sessions: Sequence[Session],
    settings: Settings,
    model: Model,
    sink: EventSink,
    overrides: Sequence[Path] = (),
) -> MiningResult:
    """Tasks as the model generalises them, ranked and split as those that are mined without it.

    The model counts its calls, as any other of a run: a budget that is spent ends this, too.
    `overrides` are folders with prompts that replace ours.
    """
    asker = Asker(model, Library((*overrides, _PROMPTS)), sink)
    groups = ask_groups(sessions)
    batches = [groups[at : at + _BATCH] for at in range(0, len(groups), _BATCH)]
    with sink.phase(STAGE, len(batches)) as phase:
        # All at once, so that somebody who answers by hand gets all questions together.
        answers = await map_all(lambda batch: asker.answer(_question(batch), phase), batches)
    mined: list[MinedTask] = []
    hide = redaction(settings)
    for batch, answer in zip(batches, answers, strict=True):
        if isinstance(answer, Unusable):
            mined += [task_of(group, settings) for group in batch]
        else:
            mined += _tasks(without_secrets(answer, hide), batch, settings)
    return MiningResult(
        ranked(mined, settings), sum(isinstance(answer, Unusable) for answer in answers)
    )


def _question(batch: Sequence[Sequence[Ask]]) -> PromptQuestion[_FoundTasks]:
    def complaint(found: _FoundTasks) -> str:
        wrong = [ask for task in found.tasks for ask in task.asks if not 0 < ask <= len(batch)]
        if wrong:
            return f"there is no ask {wrong[0]}; their numbers are 1 to {len(batch)}."
        problems = [
            problem_of(Check(check.op, check.arg)) for task in found.tasks for check in task.checks
        ]
        if found.tasks and not any(_usable(task) for task in found.tasks):
            return next((f"{problem}." for problem in problems if problem), "no task has a check.")
        return ""

    sections = tuple(_shown(number, group) for number, group in enumerate(batch, 1))
    return PromptQuestion(stage=STAGE, sections=sections, shape=_FoundTasks, check=complaint)


def _shown(number: int, group: Sequence[Ask]) -> str:
    latest = group[-1]
    said = [latest.intent, *latest.later][:_PROMPTS_SHOWN]
    answers = [text for text in latest.session.answers[latest.turn : latest.end] if text]
    lines = [f'<ask n="{number}" times="{len(group)}">']
    lines += [f"<user>{text[:_PROMPT_CHARS]}</user>" for text in said]
    # What users had to say in other sessions about the same.
    others = [text for ask in group[:-1] for text in ask.corrections]
    lines += [f"<correction>{text[:_PROMPT_CHARS]}</correction>" for text in others[-3:]]
    if answers:
        lines.append(f"<answer>{answers[-1][-_ANSWER_CHARS:]}</answer>")
    if latest.session.tools:
        lines.append(f"<tools>{', '.join(latest.session.tools[:20])}</tools>")
    return "\n".join([*lines, "</ask>"])


def _usable(task: _FoundTask) -> bool:
    return bool(task.answer.strip() or task.rubric.strip() or _sound(task.checks))


def _sound(checks: Sequence[_FoundCheck]) -> tuple[Check, ...]:
    given = [Check(check.op, check.arg) for check in checks[:_MOST_CHECKS]]
    return tuple(check for check in given if not problem_of(check))


def _tasks(
    found: _FoundTasks, batch: Sequence[Sequence[Ask]], settings: Settings
) -> Iterator[MinedTask]:
    """The tasks that the model found; asks for which it found none are no tasks."""
    for task in found.tasks:
        asks = [ask for number in dict.fromkeys(task.asks) for ask in batch[number - 1]]
        asks.sort(key=lambda ask: (ask.session.ended, ask.session.id))
        same = [ask for ask in asks if ask.session.project == asks[-1].session.project]
        if not same:
            continue
        base = task_of(same, settings)
        intent = task.intent[:_INTENT_CHARS]
        reference = _reference(task, base, same, settings)
        if reference.kind != "none":
            yield replace(
                base,
                id=task_id("llm", base.project, intent, settings),
                intent=intent,
                context="",
                reference=reference,
                outcome=_outcome(task, base.outcome),
            )


def _outcome(task: _FoundTask, known: Outcome) -> Outcome:
    if task.satisfied is None or known != "unknown":
        return known
    return "success" if task.satisfied else "fail"


def _reference(
    task: _FoundTask, base: MinedTask, asks: Sequence[Ask], settings: Settings
) -> Reference:
    """What the model proposes, unless a test that was run, and can be run again, says more."""
    if base.reference.kind == "command" and settings.replay == "agent":
        return base.reference
    if task.answer and HIDDEN not in task.answer:
        return Reference(kind="exact", text=task.answer)
    used = {tool for ask in asks for tool in ask.session.tools}
    checks = tuple(
        check
        for check in _sound(task.checks)
        # An answer cannot be compared with what was hidden.
        if HIDDEN not in str(check.arg) and (check.op != "tool_called" or check.arg in used)
    )
    if checks and not (task.rubric and doubts_about(checks)):
        return Reference(kind="rule", checks=checks)
    return Reference(kind="rubric", text=task.rubric) if task.rubric else base.reference
