"""Estimates how many questions the proposers of a step ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from skillopt.app.costs import NONE, Range
from skillopt.app.run_spec import RunSpec
from skillopt.config.parts import PARTS, asks_model, part_name
from skillopt.engine.plan import Step
from skillopt.optimizer.cases import GROUPS

MANY = 12
"""Proposals of a reflection, or changes of a step, that nothing bounds: so many as a rule."""
_RULES = 3
"""Rules that a pattern yields at most."""


@dataclass(frozen=True, slots=True)
class ProposerCalls:
    """How many questions the proposers of a step ask, and what comes of them at most."""

    analyst: Range = NONE
    explore: Range = NONE
    instruct: Range = NONE
    leaves: int = 0
    """Findings with proposals, at most."""
    proposals: int = 0


def proposer_calls(brief: RunSpec, move: Step) -> ProposerCalls:
    """All proposers of a step together."""
    gradient = brief.config.gradient
    found = [
        _one(part_name(each), brief, move, asks=asks_model(kind))
        for each, kind in zip(gradient.proposer, PARTS["gradient"].kinds(gradient), strict=True)
    ]
    if len(found) > 1 and gradient.portfolio_after:
        # One of them has its turn; which one shows only then.
        found = [_perhaps(each) for each in found]
    return ProposerCalls(
        sum((each.analyst for each in found), NONE),
        sum((each.explore for each in found), NONE),
        sum((each.instruct for each in found), NONE),
        sum(each.leaves for each in found),
        sum(each.proposals for each in found),
    )


def bound(budget: int | None) -> int:
    """The budget, or as many as come as a rule."""
    return MANY if budget is None else budget


def _perhaps(found: ProposerCalls) -> ProposerCalls:
    return replace(
        found,
        analyst=found.analyst.perhaps(),
        explore=found.explore.perhaps(),
        instruct=found.instruct.perhaps(),
    )


def _one(name: str, brief: RunSpec, move: Step, *, asks: bool) -> ProposerCalls:
    gradient = brief.config.gradient
    kinds = sum(len({task.kind for task in batch}) for batch in move.batches)
    match name:
        case "explore":
            most = gradient.explore_turns
            turns = Range(0 if gradient.failure_only else 1, most, most / 3)
            asked = NONE if move.budget == 0 else turns
            return ProposerCalls(explore=asked, leaves=2, proposals=bound(move.budget))
        case "instruct":
            groups = sum(min(GROUPS, len(batch)) for batch in move.batches)
            most = groups * gradient.samples
            return ProposerCalls(instruct=Range(0, most), leaves=groups, proposals=most)
        case "patterns":
            leaves = kinds + len(move.batches)
            return ProposerCalls(leaves=leaves, proposals=_RULES * leaves)
        case _:  # one of somebody else's counts as an analyst
            asked = sum((_minibatches(len(each), brief) for each in move.batches), NONE)
            most = round(asked.high)
            proposals = most * bound(move.budget)
            return ProposerCalls(analyst=asked if asks else NONE, leaves=most, proposals=proposals)


def _minibatches(tasks: int, brief: RunSpec) -> Range:
    """Questions about so many attempts, however many of them failed."""
    gradient = brief.config.gradient
    size, both = gradient.minibatch_size, not gradient.failure_only
    ways = [ceil(bad / size) + both * ceil((tasks - bad) / size) for bad in range(tasks + 1)]
    # Attempts without a score are read by nobody.
    lost = int(brief.config.evaluation.max_failure_share * tasks)
    least = ceil((tasks - lost) / size) if both else 0
    return Range(least, max(ways))


def merges(leaves: int, size: int) -> int:
    """Questions that merge so many findings into one, however they fall to the two trees."""
    ways = [
        _tree(failures, size) + _tree(leaves - failures, size) + (0 < failures < leaves)
        for failures in range(leaves + 1)
    ]
    return max(ways)


def _tree(leaves: int, size: int) -> int:
    asked = 0
    while leaves > 1:
        full, rest = divmod(leaves, size)
        asked += full + (rest > 1)
        leaves = full + (rest > 0)
    return asked
