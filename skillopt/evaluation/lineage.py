"""Where each line of a skill comes from: its text, followed back through what was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from skillopt.core.attribution import Origin
from skillopt.core.changes import Change, Rewrite, Suggestion
from skillopt.core.edits import Append, Delete, InsertAfter, Replace
from skillopt.core.events import (
    Begun,
    Decision,
    EpochClosed,
    Event,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.notes import bare
from skillopt.core.proposal import Draft, Proposal
from skillopt.core.rollout import CHANGED
from skillopt.core.rules import Rule
from skillopt.core.skill import Skill

INITIAL = "initial_skill"


Origins: TypeAlias = Mapping[str, Origin]
"""By line, without the blanks around it."""


def lineage(events: Iterable[Event]) -> dict[str, Origins]:
    """The origin of every line of every skill that was ever current, by the skill's digest.

    A line that was changed comes from its last change; one that was removed and written again,
    from the second time.
    """
    found: dict[str, Origins] = {}
    now: Origins = {}
    for fact in events:
        match fact:
            case Begun(initial):
                skill = initial.skill
                now = {line: Origin(move=INITIAL) for line in _lines(skill)}
            case Pruned(decision=Decision() as met) if met.accepted:
                skill = met.candidate.skill
                now = {line: now[line] for line in _lines(skill)}
            case (
                Stepped(decision=Decision() as met)
                | MetaReflected(decision=Decision() as met)
                | EpochClosed(decision=Decision() as met)
            ) if met.accepted:
                skill = met.candidate.skill
                now = {line: now.get(line) or _origin(fact, met, line) for line in _lines(skill)}
            case _:
                continue
        found[skill.digest] = now
    return found


def origins_of(rule: Rule, origins: Origins) -> tuple[Origin, ...]:
    """Where the lines of a rule come from, each origin once, in the order of lines."""
    lines = [line.strip() for line in rule.text.splitlines()]
    return tuple(dict.fromkeys(origins[line] for line in lines if line in origins))


def _lines(skill: Skill) -> list[str]:
    return [line.strip() for line in skill.render().splitlines() if line.strip()]


def _origin(fact: Stepped | MetaReflected | EpochClosed, met: Decision, line: str) -> Origin:
    if isinstance(fact, EpochClosed):
        shown = [each for each in fact.pairs if each.shown and each.change in CHANGED]
        return Origin(
            move=met.candidate.origin,
            by=("slow update",),
            failures=tuple(each.task for each in shown if each.change == "regressed"),
            successes=tuple(each.task for each in shown if each.change == "improved"),
            action=met.action,
            reason=met.reason,
        )
    if reminded := _reminded(fact.draft, line):
        return Origin(
            move=fact.move,
            by=("analyst",),
            failures=reminded,
            action=met.action,
            reason=met.reason,
        )
    proposals = _wrote(fact.draft.chosen.proposals, line)
    return Origin(
        move=fact.move,
        by=tuple(dict.fromkeys(each.by for each in proposals)),
        failures=_tasks(each for each in proposals if each.source == "failure"),
        successes=_tasks(each for each in proposals if each.source == "success"),
        why=tuple(dict.fromkeys(each.why for each in proposals if each.why)),
        action=met.action,
        reason=met.reason,
    )


def _tasks(proposals: Iterable[Proposal]) -> tuple[str, ...]:
    return tuple(sorted({task for each in proposals for task in each.tasks}))


def _reminded(draft: Draft, line: str) -> tuple[str, ...]:
    """The tasks of the minibatches that asked for a reminder; empty when the line is none."""
    if draft.appendix is None or bare(line) not in map(bare, draft.appendix.after):
        return ()
    asked = [each for each in draft.findings if bare(line) in map(bare, each.notes)]
    return tuple(sorted({task for each in asked for task in each.tasks}))


def _wrote(proposals: Sequence[Proposal], line: str) -> Sequence[Proposal]:
    """The proposals that hold a line, or a piece of it; all of them where nobody can tell."""
    own = bare(line)
    said = [[bare(each) for each in _said(proposal.edit)] for proposal in proposals]
    whole = [each for each, lines in zip(proposals, said, strict=True) if own in lines]
    piece = [
        each
        for each, lines in zip(proposals, said, strict=True)
        if any(text and text in own for text in lines)
    ]
    return whole or piece or proposals


def _said(change: Change) -> list[str]:
    match change:
        case Append(content) | InsertAfter(_, content) | Replace(_, content):
            return content.splitlines()
        case Rewrite(body=body):
            return body.splitlines()
        case Delete() | Suggestion():
            return []
