"""What the event log says of a run: facts with their states, candidates, proposers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillopt.core.events import (
    Begun,
    Event,
    Fact,
    Finished,
    Started,
    Stopped,
    Timed,
    Warned,
)
from skillopt.core.facts import Drafted, Stepped
from skillopt.core.proposal import Candidate
from skillopt.core.skill import Skill
from skillopt.core.state import State


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One fact in its place."""

    fact: Fact
    before: State
    """The same as `after` for the fact that opens the run."""
    after: State
    seconds: Mapping[str, float]
    """How long each phase took, over all processes that had a part in it."""

    @property
    def wall(self) -> float:
        """Seconds for the whole: as timed under `total`, or the sum of phases."""
        return self.seconds.get("total", sum(self.seconds.values()))


class RunHistory:
    """All facts so far, each with the states around it, and what notes say of the run."""

    def __init__(self) -> None:
        self.entries: list[HistoryEntry] = []
        self.version = ""
        """Of the program that took the run up last."""
        self.prices: Mapping[str, str | None] = {}
        """Who says what each role costs, in the process that took the run up last; None: nobody."""
        self.stopped: Stopped | None = None
        """How the last process ended, if it ended before the plan did and told so."""
        self.finished = False
        """Whether the plan is done."""
        self.warnings: list[str] = []
        """What was warned of, each once."""
        self._seconds: dict[str, float] = {}
        """What was timed since the last fact; it belongs to the next one."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunHistory:
        run_history = cls()
        for event in events:
            run_history.add(event)
        return run_history

    def add(self, event: Event) -> HistoryEntry | None:
        """Take in one more event; the entry that it closes, if it closes one."""
        match event:
            case Timed(_, phase, seconds):
                self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
            case Started(_, version, prices):
                self.version, self.prices = version, prices
                self.stopped, self.finished = None, False
            case Warned(text):
                if text not in self.warnings:
                    self.warnings.append(text)
            case Stopped():
                self.stopped = event
            case Finished():
                self.finished = True
            case Begun():
                state = State.after(event)
                return self._close(event, state, state)
            case Fact() if self.entries:
                before = self.entries[-1].after
                return self._close(event, before, before.apply(event))
            case _:
                pass
        return None

    @property
    def state(self) -> State | None:
        """Where the run stands; None when it has not begun."""
        return self.entries[-1].after if self.entries else None

    @property
    def facts(self) -> list[Fact]:
        return [entry.fact for entry in self.entries]

    @property
    def steps(self) -> list[Stepped]:
        return [fact for fact in self.facts if isinstance(fact, Stepped)]

    @property
    def last_step(self) -> int:
        """Number of the last step; 0 before the first."""
        return self.steps[-1].step if self.steps else 0

    @property
    def versions(self) -> dict[int, Skill]:
        """The current skill after each step and what its epoch's end made of it; 0: the initial."""
        skills: dict[int, Skill] = {}
        step = 0
        for entry in self.entries:
            if isinstance(entry.fact, Stepped):
                step = entry.fact.step
            skills[step] = entry.after.current.skill
        return skills

    def _close(self, fact: Fact, before: State, after: State) -> HistoryEntry:
        entry = HistoryEntry(fact, before, after, self._seconds)
        self._seconds = {}
        self.entries.append(entry)
        return entry


def skills_in(facts: Sequence[Fact]) -> Iterator[tuple[Skill, str]]:
    """Every skill in a record with what to call it; those that met a gate come first.

    `the initial skill`, `step_0003 (rejected)`, `step_0003, only 2 (not put to the gate)`.
    """
    for fact in facts:
        if isinstance(fact, Begun):
            yield fact.initial.skill, "the initial skill"
        elif (met := fact.decision) is not None:
            verdict = "accepted" if met.accepted else "rejected"
            yield met.candidate.skill, f"{met.candidate.origin} ({verdict})"
    for fact in facts:
        for name, skill in fact.not_tried:
            yield skill, f"{fact.move}, {name} (not put to the gate)"


@dataclass(frozen=True, slots=True)
class Share:
    """What one proposer contributed to a run, in edits."""

    by: str
    proposed: int
    """Before merging and selection."""
    tried: int
    """In candidates that met the gate."""
    accepted: int
    asks_model: bool
    """Whether these are proposals of the optimizer model."""


def shares(events: Iterable[Event]) -> list[Share]:
    """Every proposer of a run, the one with most accepted edits first."""
    proposed, tried, accepted = Counter[str](), Counter[str](), Counter[str]()
    asking: set[str] = set()
    for fact in events:
        if isinstance(fact, Drafted):
            proposals = [
                proposal for finding in fact.draft.findings for proposal in finding.proposals
            ] or fact.draft.merged.proposals
            proposed.update(proposal.by for proposal in proposals)
            asking |= {proposal.by for proposal in proposals if proposal.asked}
            if fact.decision is not None:
                applied = _applied(fact.draft.leading)
                tried.update(applied)
                accepted.update(applied if fact.decision.accepted else ())
    names = sorted(proposed | tried, key=lambda by: (-accepted[by], -proposed[by], by))
    return [Share(by, proposed[by], tried[by], accepted[by], by in asking) for by in names]


def _applied(candidate: Candidate) -> list[str]:
    """The proposers of the edits that changed the candidate."""
    chosen = candidate.chosen.proposals
    if candidate.rewritten is not None:
        return [proposal.by for proposal in chosen]
    placed = zip(chosen, candidate.report, strict=False)
    return [proposal.by for proposal, placement in placed if placement.applied]


@dataclass(frozen=True, slots=True)
class Replies:
    """How the optimizer's replies to reflection questions came out."""

    asked: int
    """Questions about attempts, each with its second chance or its samples."""
    unusable: int
    last_problem: str = ""

    @property
    def all_unusable(self) -> bool:
        """Whether questions were asked and no reply at all could be used."""
        return 0 < self.asked == self.unusable


def replies(events: Iterable[Event]) -> Replies:
    """Count reflection questions and those that got no usable reply."""
    findings = [
        finding for fact in events if isinstance(fact, Stepped) for finding in fact.draft.findings
    ]
    problems = [finding.problem for finding in findings if finding.problem]
    asked = sum(finding.asked for finding in findings)
    return Replies(asked, len(problems), problems[-1] if problems else "")


def useless(events: Iterable[Event]) -> str:
    """What to say, and to do, where every reply of the optimizer was unusable; else nothing."""
    counts = replies(events)
    if not counts.all_unusable:
        return ""
    return (
        f"no reply of the optimizer was usable ({counts.unusable} of {counts.asked} reflection "
        f"requests; last problem: {counts.last_problem}). Nothing could be learnt, so the scores "
        "say nothing about the training. What helps: `skillopt doctor CONFIG` sends such a "
        "request; a more capable model.optimizer; a larger model.optimizer_max_tokens; "
        "gradient.proposer=instruct for a small model. Then train into another env.out_root"
    )
