"""One move of a run as people are shown it: outcome, evidence, proposals and their fate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from skillopt.analysis.differences import FileDiff, skill_differences
from skillopt.analysis.report import mean, metric_of
from skillopt.app.wording import action_of, count, spelt
from skillopt.core.edits import Append, Change, Delete, InsertAfter, Replace, Rewrite, Suggestion
from skillopt.core.events import Begun, Decision, Fact, FinalTested
from skillopt.core.facts import (
    Drafted,
    EpochClosed,
    HumanReviewed,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.proposal import Proposal
from skillopt.core.rollout import EQUAL, Evaluation
from skillopt.core.skill import MAIN
from skillopt.core.state import State
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import matched, sign_flip
from skillopt.store.run_history import HistoryEntry

StepOutcome: TypeAlias = Literal["accepted", "rejected", "inconclusive", "skipped", "measured"]


@dataclass(frozen=True, slots=True)
class ScoreView:
    """A mean score with its 95 % interval."""

    mean: float | None
    """None: no item has a score."""
    low: float
    high: float
    n: int
    """Items with a score."""
    failures: int = 0
    bound: bool = False
    """Whether the mean is an upper bound: the skill was measured only in part."""

    @property
    def text(self) -> str:
        """`0.475 [0.33, 0.62]`, `at most 0.475`, `not measured`, `unknown`."""
        if self.mean is None:
            return "unknown" if self.failures else "not measured"
        if self.bound:
            return f"at most {self.mean:.3f}"
        return f"{self.mean:.3f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """What a decision rests on: both skills on the same val items."""

    reason: str
    """In the words of the gate, with its p- or e-value where it tests."""
    better: tuple[str, ...]
    """Items that went better with the candidate."""
    worse: tuple[str, ...]
    n: int
    """Items that both have a score for."""
    gain: float | None
    """Mean paired difference; None: nothing could be compared."""
    low: float
    high: float
    p: float | None
    """Of the gate's test; else of a sign test, where all changes are of one size."""
    e_value: float | None
    """Of the gate's test, if it bets."""
    level: float
    """What the gate tested at; 0: it does not test."""
    saved: int
    """Attempts that were not made because the decision was certain without them."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One move of a run on its timeline."""

    position: int
    """Its place on the timeline, from 0: the baseline."""
    move: str
    """As in the event log: `step_0003`."""
    title: str
    """As people read it: `step 3`."""
    kind: str
    """baseline, step, meta reflection, pruning, end of epoch, review, final test."""
    step: int
    epoch: int
    outcome: StepOutcome
    words: str
    new_best: bool
    gist: str
    evidence: StepEvidence | None
    train: ScoreView | None
    candidate: ScoreView | None
    current: ScoreView
    """Of the skill that is current afterwards, on val."""
    best: ScoreView
    tokens: int
    """Of the skill that is current afterwards, estimated."""
    budget: int | None
    """The learning rate: how many edits it was allowed; None where nothing limits them."""
    applied: int
    """Edits that changed the candidate."""
    missed: int
    """Edits that could not be placed."""
    seconds: float


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposed change and what became of it."""

    op: str
    """append, insert_after, replace, delete, rewrite, or the aim of a suggestion."""
    file: str
    target: str
    """What it refers to in the skill."""
    content: str
    """What it brings."""
    why: str
    by: str
    source: str
    """failure or success: which attempts it is from."""
    tasks: tuple[str, ...]
    fate: Literal["applied", "missed", "left out", "repeat"]
    detail: str
    """How it was placed, or why it was not."""


@dataclass(frozen=True, slots=True)
class StepDetail:
    """All that is known of one move."""

    view: StepView
    proposals: tuple[ProposalView, ...]
    patterns: tuple[tuple[str, int, str], ...]
    """What attempts had in common: name, how often, description."""
    reasoning: tuple[str, ...]
    """What the optimizer gave as its reasons, finding by finding."""
    problems: tuple[str, ...]
    """Replies that could not be used, and attempts without a score."""
    wrong: tuple[str, ...]
    """Training items that were not passed."""
    attempted: tuple[str, ...]
    parent: str
    """Name of the skill that it set out from."""
    diff: tuple[FileDiff, ...]
    """From the current skill to the candidate; empty where there was none."""
    candidate: str
    """Digest of the candidate; empty where there was none."""


def score_view(evaluation: Evaluation, metric: Metric) -> ScoreView:
    known = mean(evaluation, metric)
    value = known.mean if evaluation.n else None
    return ScoreView(value, known.low, known.high, evaluation.n, len(evaluation.failures))


_KINDS: Mapping[type[Fact], str] = {
    Begun: "baseline",
    Stepped: "step",
    MetaReflected: "meta reflection",
    Pruned: "pruning",
    EpochClosed: "end of epoch",
    HumanReviewed: "review",
    FinalTested: "final test",
}


def kind_of(fact: Fact) -> str:
    """What a move is called: `step`, `end of epoch`."""
    return _KINDS.get(type(fact)) or fact.type.replace("_", " ")


def title_of(fact: Fact) -> str:
    match fact:
        case Stepped():
            return f"step {fact.step}"
        case MetaReflected() | Pruned() | EpochClosed():
            return f"{kind_of(fact)} {fact.epoch}"
        case _:
            return spelt(fact.move)


def outcome_of_move(fact: Fact) -> StepOutcome:
    if (decision := fact.decision) is not None:
        if decision.accepted:
            return "accepted"
        return "inconclusive" if decision.inconclusive else "rejected"
    if isinstance(fact, HumanReviewed):
        return "rejected"
    return "measured" if action_of(fact) is None else "skipped"


@dataclass(frozen=True, slots=True)
class MoveTally:
    """How many moves went which way.

    What had no candidate is no move here: the final test, an epoch that ends without guidance.
    """

    steps: int
    others: int
    """Guidance, meta reflections, prunings, reviews."""
    accepted: int
    rejected: int
    inconclusive: int
    skipped: int
    screened: int
    """Of those that were skipped: tried on the tasks of the step, and not better there."""

    @property
    def candidates(self) -> int:
        """How many were decided about."""
        return self.accepted + self.rejected + self.inconclusive

    @property
    def words(self) -> str:
        """`4 steps and 1 other decision: 2 accepted, 3 skipped (1 screened out)`."""
        others = f" and {count(self.others, 'other decision')}" if self.others else ""
        screened = f" ({self.screened} screened out)" if self.screened else ""
        counted = [
            f"{number} {name}"
            for number, name in (
                (self.accepted, "accepted"),
                (self.rejected, "rejected"),
                (self.inconclusive, "inconclusive"),
                (self.skipped, f"skipped{screened}"),
            )
            if number
        ]
        return f"{count(self.steps, 'step')}{others}" + (
            f": {', '.join(counted)}" if counted else ""
        )


def tally_of(facts: Iterable[Fact]) -> MoveTally:
    """Count the moves of a record, for everyone who tells how many there were."""
    moves = [fact for fact in facts if outcome_of_move(fact) != "measured"]
    outcomes = Counter(map(outcome_of_move, moves))
    steps = sum(isinstance(fact, Stepped) for fact in moves)
    return MoveTally(
        steps=steps,
        others=len(moves) - steps,
        accepted=outcomes["accepted"],
        rejected=outcomes["rejected"],
        inconclusive=outcomes["inconclusive"],
        skipped=outcomes["skipped"],
        screened=sum(action_of(fact) == "skip_screened" for fact in moves),
    )


def practice_of(fact: Fact, metric: Metric) -> ScoreView | None:
    """The training items of a step with the skill that it set out from."""
    if not isinstance(fact, Stepped):
        return None
    evaluations = [batch.evaluation for batch in fact.batches]
    scores = {task: score for each in evaluations for task, score in each.scores.items()}
    failures = {task: lost for each in evaluations for task, lost in each.failures.items()}
    return score_view(Evaluation("", "train", scores, failures), metric)


_P = re.compile(r"\bp (?P<p>\d[\d.e-]*)")
_E = re.compile(r"\be-value (?:against it )?(?P<e>\d[\d.e+]*)")


def evidence_of(decision: Decision, before: State) -> StepEvidence:
    """A candidate beside the skill that was current."""
    metric, incumbent = metric_of(before), decision.incumbent or before.current
    new, old = decision.candidate.evaluation.beside(incumbent.evaluation)
    changes = {task: metric.difference(new.scores[task], was) for task, was in old.scores.items()}
    gain = matched(changes.values())
    # Without a common item, the gate speaks of what could have come at best.
    told, bet = (each.search(decision.reason) if changes else None for each in (_P, _E))
    p = float(told["p"]) if told else None
    if p is None and bet is None and changes and _coins(changes.values()):
        p = sign_flip(changes.values())
    return StepEvidence(
        reason=decision.reason,
        better=tuple(task for task, change in changes.items() if change > EQUAL),
        worse=tuple(task for task, change in changes.items() if change < -EQUAL),
        n=len(changes),
        gain=gain.mean if changes else None,
        low=gain.low,
        high=gain.high,
        p=p,
        e_value=float(bet["e"]) if bet else None,
        level=decision.level / decision.compared,
        saved=decision.saved,
    )


def _coins(changes: Iterable[float]) -> bool:
    """Whether all changes are of one size, so that a sign test is counted at once."""
    return len({abs(change) for change in changes if change}) < 2


def detail_of(view: StepView, entry: HistoryEntry, current: str) -> StepDetail:
    fact, decision = entry.fact, entry.fact.decision
    findings = fact.draft.findings if isinstance(fact, Drafted) else ()
    batches = fact.batches if isinstance(fact, Stepped) else ()
    scores = {task: score for batch in batches for task, score in batch.evaluation.scores.items()}
    lost = {task: each for batch in batches for task, each in batch.evaluation.failures.items()}
    return StepDetail(
        view=view,
        proposals=tuple(_proposals(fact)),
        patterns=tuple(
            (pattern.name, pattern.count, pattern.description)
            for pattern in (fact.patterns if isinstance(fact, Stepped) else ())
        ),
        reasoning=tuple(finding.reasoning for finding in findings if finding.reasoning),
        problems=(
            *(f"unusable reply: {finding.problem}" for finding in findings if finding.problem),
            *(f"{task}: {failure.message}" for task, failure in lost.items()),
        ),
        wrong=tuple(task for task, score in scores.items() if not score.passed),
        attempted=(*scores, *lost),
        parent=fact.parent or current,
        diff=()
        if decision is None
        else skill_differences(entry.before.current.skill, decision.candidate.skill, 3),
        candidate="" if decision is None else decision.candidate.skill.digest,
    )


def _proposals(fact: Fact) -> list[ProposalView]:
    if not isinstance(fact, Drafted):
        return [
            _proposal(Proposal(change, "failure", by=kind_of(fact), asked=False), "applied", "")
            for change in fact.changes
        ]
    leading = fact.draft.leading
    found: list[ProposalView] = []
    for proposal, placement in zip_longest(leading.chosen.proposals, leading.report):
        if proposal is None:
            continue
        if placement is None:  # the body was written anew
            unusable = leading.rewritten.problem if leading.rewritten else ""
            fate = "missed" if unusable else "applied"
            found.append(_proposal(proposal, fate, unusable))
        else:
            fate = "applied" if placement.applied else "missed"
            how = "" if placement.how == "exact" else f"{placement.how} match"
            place = placement.status.partition("_")[2].removeprefix(_texts(proposal.edit)[0])
            detail = ", ".join(filter(None, (place.strip("_").replace("_", " "), how)))
            found.append(_proposal(proposal, fate, detail))
    found += [_proposal(out.proposal, "left out", out.reason) for out in leading.chosen.dropped]
    repeat = "repeats an edit that was rejected"
    return found + [_proposal(proposal, "repeat", repeat) for proposal in fact.draft.repeats]


def _proposal(
    proposal: Proposal,
    fate: Literal["applied", "missed", "left out", "repeat"],
    detail: str,
) -> ProposalView:
    op, target, content = _texts(proposal.edit)
    return ProposalView(
        op=op,
        file=getattr(proposal.edit, "file", MAIN),
        target=target,
        content=content,
        why=proposal.why,
        by=proposal.by,
        source=proposal.source,
        tasks=proposal.tasks,
        fate=fate,
        detail=detail,
    )


def _texts(change: Change) -> tuple[str, str, str]:
    """What it is, what it refers to, and what it brings."""
    match change:
        case Append(content):
            return change.op, "", content
        case InsertAfter(target, content) | Replace(target, content):
            return change.op, target, content
        case Delete(target):
            return change.op, target, ""
        case Suggestion(title=title, instruction=instruction):
            return change.aim, "", f"{title}: {instruction}" if title else instruction
        case Rewrite(title=title):
            return change.op, "", title
