"""The state of a run, computed from its events, so that resuming gives the same state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skillopt.core.events import Begun, Decision, Event, Fact, FinalTested, Measured
from skillopt.core.memory import Memory, MemoryEntry
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
    """Of the best and the current skill; None if these were not tested."""
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
            memory=Memory(steps=begun.earlier, lessons=begun.lessons),
        )

    def apply(self, fact: Fact) -> State:
        """The state after one more fact, of whatever kind."""
        if isinstance(fact, FinalTested):  # may be made again, for other skills or tasks
            return replace(self, final_test=fact)
        memory, decision = self.memory, fact.decision
        if fact.is_step:
            accepted = decision is not None and decision.accepted
            refused = decision is not None and not decision.accepted
            memory = memory.after_step(accepted=accepted, practice=fact.practice, refused=refused)
        elif fact.starts_afresh:
            memory = memory.afresh()
        if (entry := fact.memory) is not None:
            memory = self._remember(memory, entry, fact)
        state = replace(self, memory=memory, closed=self.closed | {fact.move})._decide(decision)
        if (new := fact.new_epoch) is not None:
            memory = state.memory.start_epoch(new.lessons, forgets=new.forgets)
            state = replace(state, memory=memory, epoch_start=state.current.skill)
        return state

    def _remember(self, memory: Memory, entry: MemoryEntry, fact: Fact) -> Memory:
        """Remember an entry together with what became of its changes."""
        tried, decision = fact.changes, fact.decision
        if decision is None:
            screened = entry.action == "skip_screened"
            return memory.remember(replace(entry, rejected=tried) if screened else entry)
        candidate = decision.candidate
        if decision.accepted:
            entry = replace(entry, accepted=tried)
        elif decision.inconclusive or fact.parent:  # changes of a worse skill prove nothing
            entry = replace(entry, undecided=tried)
        else:
            entry = replace(entry, rejected=tried, rejected_notes=fact.reminders)
        entry = replace(
            entry,
            score_before=self.current.value,
            score_after=candidate.value,
            bounded=decision.bounded,
        )
        memory = memory.update_volatility(self.current.evaluation, candidate.evaluation)
        return memory.remember(entry)

    def _decide(self, decision: Decision | None) -> State:
        if decision is None:
            return self
        state = replace(self._know(decision.incumbent), spent=self.spent + decision.level)
        if not decision.accepted:
            return state
        new = decision.candidate
        best = decision.best or (new if decision.new_best else state.best)
        tested = state.final_test
        if tested is not None and (tested.best.skill, tested.last.skill) != (
            best.skill.digest,
            new.skill.digest,
        ):
            tested = None  # of other skills than those that there are now
        return replace(state, current=new, best=best, pool=(*state.pool, new), final_test=tested)

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


def replay(events: Iterable[Event]) -> State | None:
    """Fold an event log into a state; None if the run has not begun."""
    state: State | None = None
    for event in events:
        if isinstance(event, Begun):
            state = State.after(event)
        elif isinstance(event, Fact) and state is not None:
            state = state.apply(event)
    return state
