"""All attempts at one item, grouped by skill."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from skillopt.cli.formatting import spelt
from skillopt.cli.render import indented
from skillopt.core.chat import Message
from skillopt.core.events import (
    Begun,
    Decision,
    EpochClosed,
    Fact,
    FinalTested,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.nearest import did_you_mean
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score
from skillopt.errors import StoreError
from skillopt.store.candidates import skills_in
from skillopt.store.reader import RunReader

_SHOWN = 2000
"""Characters of a message; the whole is in the run directory's predictions."""


def attempts_at(reader: RunReader, item: str) -> Iterator[RenderableType]:
    """Each kept attempt with its conversation and feedback, and each failed one with its reason."""
    known = {
        task
        for fact in reader.facts
        for _, each in _evaluations(fact)
        for task in (*each.scores, *each.failures)
    }
    rollouts = reader.rollouts(task=item)
    if item not in known and not rollouts:
        raise _unknown(reader, item, known)
    place = f" ({reader.places[item]})" if item in reader.places else ""
    yield Text(f"item {item}{place}", style="bold")
    names = _names(reader)
    for rollout in rollouts:
        yield from _attempt(
            rollout, names.get(rollout.skill, "a skill that is not in the event log")
        )
    for where, failure in _failures(reader, item):
        yield Text(f"\nfailed in {where}: {failure.kind}: {failure.message}", style="yellow")


def _unknown(reader: RunReader, item: str, known: set[str]) -> StoreError:
    hint = did_you_mean(item, sorted(known)) or f"items are called like {min(known, default='')!r}"
    return StoreError(f"{reader.layout.root} has no attempt at an item {item!r}; {hint}")


def _names(reader: RunReader) -> dict[str, str]:
    """Every skill's digest with what to call it."""
    found: dict[str, str] = {}
    for skill, name in skills_in(reader.facts):
        found.setdefault(skill.digest, spelt(name))
    best = reader.state.best.skill.digest
    return found | {best: f"{found.get(best, '')}, the best skill".lstrip(", ")}


def _attempt(rollout: Rollout, skill: str) -> Iterator[RenderableType]:
    outcome = rollout.outcome
    line = Text(f"\nunder {skill}", style="cyan")
    match outcome:
        case Score(hard, soft):
            line.append(f"  hard {hard:g}, soft {soft:g}", style="green" if hard else "red")
        case Failure(kind, message):
            line.append(f"  {kind}: {message}", style="yellow")
    yield line
    if rollout.trajectory is not None:
        for message in rollout.trajectory.messages:
            yield _said(message)
    if isinstance(outcome, Score) and outcome.feedback:
        yield indented(f"feedback   {outcome.feedback}")


def _said(message: Message) -> Text:
    if message.role == "system":
        told = f"instructions and the skill, {len(message.text):,} characters"
        return indented(f"system     {told}", "dim")
    calls = [f"calls {call.name} {call.arguments}" for call in message.calls]
    shown = [f"[image {image.media_type}]" for image in message.images]
    text = "\n".join([*([message.text] if message.text else []), *shown, *calls])
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]} ... ({len(text) - _SHOWN:,} more characters)"
    return indented(f"{message.role:<10} {text}")


def _failures(reader: RunReader, item: str) -> Iterator[tuple[str, Failure]]:
    for fact in reader.facts:
        for where, evaluation in _evaluations(fact):
            for found in (evaluation.failures, evaluation.own_failures):
                if item in found:
                    yield where, found[item]


def _evaluations(fact: Fact) -> Iterator[tuple[str, Evaluation]]:
    match fact:
        case Begun(initial):
            yield "the evaluation of the initial skill", initial.evaluation
        case Stepped(step=step, batches=batches):
            for batch in batches:
                yield f"step {step}", batch.evaluation
            yield from _gated(f"step {step}", fact.decision)
        case MetaReflected(epoch=epoch, decision=decision):
            yield from _gated(f"the meta reflection of epoch {epoch}", decision)
        case Pruned(epoch=epoch, decision=decision):
            yield from _gated(f"the pruning of epoch {epoch}", decision)
        case EpochClosed(epoch=epoch, decision=decision):
            yield from _gated(f"epoch {epoch}", decision)
        case FinalTested(initial=initial, best=best, last=last):
            for evaluation in (initial, best, last):
                yield "the final test", evaluation


def _gated(what: str, decision: Decision | None) -> Iterator[tuple[str, Evaluation]]:
    if decision is not None:
        yield f"the gate of {what}", decision.candidate.evaluation
