"""Finds the origin of each line of a skill among the accepted candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from skillopt.core.attribution import Origin
from skillopt.core.edits import Append, Change, Delete, InsertAfter, Replace, Rewrite, Suggestion
from skillopt.core.events import Begun, Decision, Event, Fact
from skillopt.core.facts import Drafted, EpochClosed, HumanReviewed
from skillopt.core.proposal import Draft, Proposal
from skillopt.core.reminders import bare
from skillopt.core.rules import Rule
from skillopt.core.skill import Skill

INITIAL = "initial_skill"


Origins: TypeAlias = Mapping[str, Origin]
"""By line, without the blanks around it."""


def lineage(events: Iterable[Event]) -> dict[str, Origins]:
    """The origin of every line of every skill that was tried, by the skill's digest.

    A line that was changed comes from its last change; one that was removed and written again,
    from the second time. What was rejected leaves no trace in later skills.
    """
    found: dict[str, Origins] = {}
    now: Origins = {}
    been: dict[str, Origins] = {}
    """Those of every skill that has been current, by where it came from."""
    for fact in events:
        if isinstance(fact, Begun):
            skill = fact.initial.skill
            found[skill.digest] = now = {line: Origin(move=INITIAL) for line in _lines(skill)}
            been[fact.initial.origin] = now
        elif isinstance(fact, Fact) and (met := fact.decision) is not None:
            skill = met.candidate.skill
            base = been.get(fact.parent, now)
            tried = {line: base.get(line) or _origin(fact, met, line) for line in _lines(skill)}
            if met.accepted:
                now = been[met.candidate.origin] = tried
            # The same text may be tried again; where it was accepted, that counts.
            if met.accepted or skill.digest not in found:
                found[skill.digest] = tried
    return found


def origins_of(rule: Rule, origins: Origins) -> tuple[Origin, ...]:
    """Where the lines of a rule come from, each origin once, in the order of lines."""
    lines = [line.strip() for line in rule.text.splitlines()]
    return tuple(dict.fromkeys(origins[line] for line in lines if line in origins))


def _lines(skill: Skill) -> list[str]:
    return [line.strip() for line in skill.render().splitlines() if line.strip()]


def _origin(fact: Fact, met: Decision, line: str) -> Origin:
    came = Origin(move=met.candidate.origin, action=met.action, reason=met.reason)
    match fact:
        case EpochClosed(pairs=pairs):
            shown = [pair for pair in pairs if pair.shown]
            return replace(
                came,
                by=("slow update",),
                failures=tuple(pair.task for pair in shown if pair.change == "regressed"),
                successes=tuple(pair.task for pair in shown if pair.change == "improved"),
            )
        case Drafted(draft=draft):
            if reminded := _reminded(draft, line):
                return replace(came, by=("analyst",), failures=reminded)
            proposals = _wrote(draft.leading.chosen.proposals, line)
            return replace(
                came,
                by=tuple(dict.fromkeys(proposal.by for proposal in proposals)),
                failures=_tasks(proposal for proposal in proposals if proposal.source == "failure"),
                successes=_tasks(
                    proposal for proposal in proposals if proposal.source == "success"
                ),
                why=tuple(dict.fromkeys(proposal.why for proposal in proposals if proposal.why)),
            )
        case HumanReviewed(reviewer=reviewer, comment=comment):
            return replace(came, by=(reviewer or "a person",), why=(comment,) if comment else ())
        case _:
            return came


def _tasks(proposals: Iterable[Proposal]) -> tuple[str, ...]:
    return tuple(sorted({task for proposal in proposals for task in proposal.tasks}))


def _reminded(draft: Draft, line: str) -> tuple[str, ...]:
    """The tasks of the minibatches that asked for a reminder; empty when the line is none."""
    if draft.reminders is None or bare(line) not in map(bare, draft.reminders.after):
        return ()
    asked = [finding for finding in draft.findings if bare(line) in map(bare, finding.notes)]
    return tuple(sorted({task for finding in asked for task in finding.tasks}))


def _wrote(proposals: Sequence[Proposal], line: str) -> Sequence[Proposal]:
    """The proposals that hold a line, or a piece of it; all of them where nobody can tell."""
    own = bare(line)
    said = [[bare(text) for text in _said(proposal.edit)] for proposal in proposals]
    whole = [proposal for proposal, lines in zip(proposals, said, strict=True) if own in lines]
    piece = [
        proposal
        for proposal, lines in zip(proposals, said, strict=True)
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
