"""The state of a run, computed from its events, so that resuming gives the same state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skillopt.core.edits import Change, Delete
from skillopt.core.events import (
    Begun,
    Decision,
    EpochClosed,
    Event,
    FinalTested,
    Measured,
    MetaReflected,
    Progress,
    Pruned,
    Stepped,
)
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Draft, ReminderUpdate
from skillopt.core.skill import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that the loop carries from move to move."""

    initial: Measured
    """As it was measured first, whatever is bought for it later."""
    current: Measured
    best: Measured
    epoch_start: Skill
    """The skill that the epoch under way started from."""
    memory: Memory = field(default_factory=Memory)
    closed: frozenset[str] = frozenset()
    """Moves that need not be made again."""
    final_test: FinalTested | None = None
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    gates: int = 0
    """How many decisions the plan foresaw when the run began."""
    pool: tuple[Measured, ...] = ()
    """Every skill that has been current, oldest first."""
    spent: float = 0.0
    """The chance of a false accept that decisions have used up so far."""
    soft_weight: float = 0.0
    """The run's metric: how much soft scores count in it, and hard ones for the rest."""

    @classmethod
    def after(cls, begun: Begun) -> State:
        """The state in which a run starts."""
        first = begun.initial
        return cls(
            initial=first,
            current=first,
            best=first,
            epoch_start=first.skill,
            pool=(first,),
            identity=begun.identity,
            gates=begun.gates,
            soft_weight=begun.soft_weight,
        )

    def apply(self, fact: Progress) -> State:
        """The state after one more fact."""
        match fact:
            case Stepped():
                state = self._count(fact)._remember(fact)._decide(fact.decision)
            case MetaReflected():
                state = self._learn(fact)._decide(fact.decision)
            case Pruned():
                state = self._shed(fact)._decide(fact.decision)
            case EpochClosed():
                state = self._decide(fact.decision)
                memory = state.memory.start_epoch(fact.review.lessons, forgets=fact.forgets)
                state = replace(state, memory=memory, epoch_start=state.current.skill)
            case FinalTested():
                return replace(self, final_test=fact)
        return replace(state, closed=self.closed | {fact.move})

    def _count(self, fact: Stepped) -> State:
        accepted = fact.decision is not None and fact.decision.accepted
        return replace(self, memory=self.memory.after_step(accepted=accepted))

    def _remember(self, fact: Stepped) -> State:
        if fact.action == "skip_no_patches":
            return self
        marks = [batch.evaluation for batch in fact.batches]
        entry = MemoryEntry(
            step=fact.step,
            epoch=fact.epoch,
            action=fact.action,
            n_total=sum(each.n for each in marks),
            n_fail=sum(not score.passed for each in marks for score in each.scores.values()),
            patterns=fact.patterns,
        )
        return self._with(
            entry,
            fact.decision,
            _tried(fact.draft),
            fact.draft.appendix,
            elsewhere=bool(fact.parent),
        )

    def _learn(self, fact: MetaReflected) -> State:
        if fact.decision is None:
            return self
        entry = MemoryEntry(
            step=fact.step,
            epoch=fact.epoch,
            action=fact.action,
            n_total=0,
            n_fail=0,
            kind="meta reflection",
        )
        return self._with(entry, fact.decision, _tried(fact.draft), fact.draft.appendix)

    def _shed(self, fact: Pruned) -> State:
        if fact.decision is None:
            return self
        entry = MemoryEntry(
            step=fact.step,
            epoch=fact.epoch,
            action=fact.decision.action,
            n_total=0,
            n_fail=0,
            kind="pruning",
        )
        cut = tuple(Delete(each.text, file=each.file) for each in fact.cut.rules)
        return self._with(entry, fact.decision, cut)

    def _with(
        self,
        entry: MemoryEntry,
        decision: Decision | None,
        tried: tuple[Change, ...],
        appendix: ReminderUpdate | None = None,
        *,
        elsewhere: bool = False,
    ) -> State:
        """Remember an entry together with what became of its edits.

        `elsewhere`: they stood on another skill than the one that they had to beat.
        """
        if entry.action == "skip_screened":
            entry = replace(entry, rejected=tried)
        if decision is not None:
            entry = replace(
                entry,
                score_before=self.current.value,
                score_after=decision.candidate.value,
                bounded=decision.bounded,
            )
            if decision.accepted:
                entry = replace(entry, accepted=tried)
            elif decision.inconclusive or elsewhere:
                entry = replace(entry, undecided=tried)
            else:
                notes = appendix.added if appendix else ()
                entry = replace(entry, rejected=tried, rejected_notes=notes)
            memory = self.memory.update_volatility(
                self.current.evaluation, decision.candidate.evaluation
            )
            return replace(self, memory=memory.remember(entry))
        return replace(self, memory=self.memory.remember(entry))

    def _decide(self, decision: Decision | None) -> State:
        if decision is None:
            return self
        state = replace(self._know(decision.incumbent), spent=self.spent + decision.level)
        if not decision.accepted:
            return state
        new = decision.candidate
        best = decision.best or (new if decision.new_best else state.best)
        return replace(state, current=new, best=best, pool=(*state.pool, new))

    def _know(self, again: Measured | None) -> State:
        """A skill that was measured again is known by all of its measurements from then on.

        Except as the initial one: it is asked again where it looked worse than a candidate, so the
        mean of both would flatter what the run is compared with.
        """
        if again is None:
            return self

        def known(skill: Measured) -> Measured:
            return again if skill.skill.digest == again.skill.digest else skill

        return replace(
            self,
            current=known(self.current),
            best=known(self.best),
            pool=tuple(map(known, self.pool)),
        )


def _tried(draft: Draft) -> tuple[Change, ...]:
    """What the candidate really holds: an edit that could not be applied proves nothing."""
    if draft.rewritten is not None and not draft.rewritten.problem:
        return tuple(each.edit for each in draft.chosen.proposals)
    return tuple(each.edit for each in draft.report if each.applied)


def replay(events: Iterable[Event]) -> State | None:
    """Fold a record into a state; None when the run has not begun."""
    state: State | None = None
    for event in events:
        if isinstance(event, Begun):
            state = State.after(event)
        elif isinstance(event, Progress) and state is not None:
            state = state.apply(event)
    return state
