"""Formats an event of a run as one line."""

from __future__ import annotations

from rich.text import Text

from skillopt.cli.formatting import (
    became,
    edits,
    growth,
    raced,
    repeats,
    scored,
    train_score,
)
from skillopt.core.events import (
    Begun,
    EpochClosed,
    Fact,
    FinalTested,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.gates.compared import Metric


def line_for(fact: Fact, steps: int, metric: Metric) -> Text:
    """What happened, in a run of so many steps and by its metric."""
    match fact:
        case Begun(initial):
            return Text(f"initial skill: val {scored(initial.evaluation, metric)}")
        case Stepped():
            return _step(fact, steps)
        case MetaReflected():
            line = Text(f"meta reflect, epoch {fact.epoch}")
            return _tried(line, fact)
        case Pruned():
            return _pruning(fact)
        case EpochClosed():
            return _epoch(fact)
        case FinalTested(initial=initial, best=best):
            first = f"initial skill {metric(initial):.3f}"
            return Text(f"final test: {first}, best skill {scored(best, metric)}")


def _step(fact: Stepped, steps: int) -> Text:
    score = train_score(fact)
    line = Text(f"step {fact.step}/{steps}  epoch {fact.epoch}  ")
    line.append("train  n/a" if score is None else f"train {score:.3f}")
    return _tried(line, fact)


def _tried(line: Text, fact: Stepped | MetaReflected) -> Text:
    """The edits that were tried, and what the gate made of them."""
    if fact.action != "skip_no_patches":
        line.append(f"  edits {edits(fact)}")
    if several := raced(fact):
        line.append(f"  {several}")
    if dropped := repeats(fact):
        line.append(f"  {dropped}", style="dim")
    if fact.draft.appendix is not None and fact.draft.appendix.added:
        line.append(f"  reminders {len(fact.draft.appendix.added)}")
    if fact.draft.size is not None:
        line.append(f"  tokens {growth(fact.draft.size)}")
    words, colour = became(fact)
    if fact.decision is not None:
        line.append(f"  val {fact.decision.reason}")
    line.append(f"  {words}", style=colour)
    return line


def _pruning(fact: Pruned) -> Text:
    line = Text(f"prune, epoch {fact.epoch}  rules {len(fact.cut.worths)}")
    if fact.decision is not None:
        line.append(f"  without effect {len(fact.cut.rules)}  val {fact.decision.reason}")
    words, colour = became(fact)
    return line.append(f"  {words}", style=colour)


def _epoch(fact: EpochClosed) -> Text:
    line = Text(f"end of epoch {fact.epoch}")
    if fact.decision is not None:
        words, colour = became(fact)
        line.append(f"; guidance  val {fact.decision.reason}")
        line.append(f"  {words}", style=colour)
    if fact.size is not None and fact.size.too_long:
        line.append("; the guidance would make the skill too long", style="yellow")
    if fact.review.lessons is not None:
        line.append("; meta skill updated")
    for problem in fact.review.problems:
        line.append(f"; {problem}", style="yellow")
    return line
