"""What a fact makes of the state of a run, compared whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from skillopt.core.edits import Append, Change
from skillopt.core.events import (
    Begun,
    Decision,
    Event,
    Fact,
    FinalTested,
    Measured,
    NewEpoch,
    Note,
    Timed,
)
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay

UNITS = Append("- Give units.")


def measured(text: str, *marks: float) -> Measured:
    skill = Skill.parse(text)
    scores = {f"t{n}": Score(mark, mark) for n, mark in enumerate(marks)}
    evaluation = Evaluation(skill.digest, "val", scores)
    return Measured(skill, evaluation, evaluation.hard, text, 0)


FIRST, OTHER, NEW = measured("first", 1, 0), measured("other", 1, 1), measured("new", 0, 0)
AGAIN = replace(FIRST, value=0.25)
EARLIER = MemoryEntry(step=0, action="accept")
STATE = State(
    initial=FIRST,
    current=FIRST,
    best=OTHER,
    epoch_start=OTHER.skill,
    memory=Memory((EARLIER,), "lessons", 0.5, fruitless=2),
    closed=frozenset({"step_0001"}),
    identity={"k": "v"},
    gates=3,
    pool=(OTHER, FIRST),
    spent=0.01,
    soft_weight=0.5,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried(Fact):
    """A fact that says of itself whatever a test wants."""

    remembered: MemoryEntry | None = None
    tried: tuple[Change, ...] = (UNITS,)
    noted: tuple[str, ...] = ("Mind the units.",)
    opens: NewEpoch | None = None
    steps: bool = False
    afresh: bool = False
    passed: Mapping[str, bool] = field(default_factory=dict[str, bool])
    move: str = "step_0002"
    type: str = "tried"

    @property
    def memory(self) -> MemoryEntry | None:
        return self.remembered

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.tried

    @property
    def reminders(self) -> tuple[str, ...]:
        return self.noted

    @property
    def new_epoch(self) -> NewEpoch | None:
        return self.opens

    @property
    def is_step(self) -> bool:
        return self.steps

    @property
    def starts_afresh(self) -> bool:
        return self.afresh

    @property
    def practice(self) -> Mapping[str, bool]:
        return self.passed


def closed(**changes: object) -> State:
    return replace(STATE, closed=frozenset({"step_0001", "step_0002"}), **changes)


ENTRY = MemoryEntry(step=2, action="reject")
REJECTED = Decision(NEW, "reject", "why", level=0.02, saved=1)
ACCEPTED = Decision(NEW, "accept", "why", level=0.02)


def test_a_run_begins_with_its_initial_skill_as_everything_that_is_known() -> None:
    begun = Begun(FIRST, {"k": "v"}, 3, 0.5, (EARLIER,), "lessons")
    assert State.after(begun) == State(
        initial=FIRST,
        current=FIRST,
        best=FIRST,
        epoch_start=FIRST.skill,
        memory=Memory((EARLIER,), "lessons"),
        identity={"k": "v"},
        gates=3,
        pool=(FIRST,),
        soft_weight=0.5,
    )


def test_a_fact_without_a_candidate_closes_its_move_and_nothing_else() -> None:
    assert STATE.apply(Tried()) == closed()


@pytest.mark.parametrize(
    ("decision", "parent", "became"),
    [
        (REJECTED, "", {"rejected": (UNITS,), "rejected_notes": ("Mind the units.",)}),
        (REJECTED, "other", {"undecided": (UNITS,)}),
        (replace(REJECTED, inconclusive=True), "", {"undecided": (UNITS,)}),
    ],
)
def test_what_is_rejected_is_remembered_with_what_is_known_of_it_and_its_level_is_spent(
    decision: Decision, parent: str, became: Mapping[str, object]
) -> None:
    entry = replace(ENTRY, score_before=0.5, score_after=0.0, bounded=True, **became)
    memory = Memory((EARLIER, entry), "lessons", 0.75, fruitless=2)
    after = STATE.apply(Tried(decision=decision, parent=parent, remembered=ENTRY))
    assert after == closed(memory=memory, spent=0.03)


def test_what_is_accepted_is_the_current_skill_and_in_the_pool() -> None:
    entry = replace(ENTRY, accepted=(UNITS,), score_before=0.5, score_after=0.0)
    memory = Memory((EARLIER, entry), "lessons", 0.75, fruitless=2)
    after = STATE.apply(Tried(decision=ACCEPTED, remembered=ENTRY))
    accepted = closed(memory=memory, spent=0.03, current=NEW, pool=(OTHER, FIRST, NEW))
    assert after == accepted
    fact = Tried(decision=replace(ACCEPTED, new_best=True), remembered=ENTRY)
    assert STATE.apply(fact) == replace(accepted, best=NEW)
    guided = measured("guided", 1, 1)
    fact = Tried(decision=replace(ACCEPTED, new_best=True, best=guided), remembered=ENTRY)
    assert STATE.apply(fact) == replace(accepted, best=guided)


def test_changes_that_were_screened_out_are_remembered_as_rejected_and_others_not_at_all() -> None:
    for action, rejected in (("skip_screened", (UNITS,)), ("skip_no_change", ())):
        entry = replace(ENTRY, action=action)
        memory = Memory((EARLIER, replace(entry, rejected=rejected)), "lessons", 0.5, fruitless=2)
        assert STATE.apply(Tried(remembered=entry)) == closed(memory=memory)


def test_a_step_counts_for_patience_and_a_change_from_outside_ends_the_row() -> None:
    passed = {"a": True, "b": False}
    memory = Memory((EARLIER,), "lessons", 0.5, fruitless=3, solved=frozenset({"a"}))
    assert STATE.apply(Tried(steps=True, passed=passed)) == closed(memory=memory)
    rejected = STATE.apply(Tried(steps=True, passed=passed, decision=REJECTED))
    assert rejected == closed(memory=replace(memory, refused=1), spent=0.03)
    assert (STATE.memory.vain, memory.vain, rejected.memory.vain) == (2, 3, 2.5)
    again = rejected.apply(Tried(steps=True, passed=passed, decision=ACCEPTED)).memory
    assert (again.fruitless, again.refused) == (0, 0)
    accepted = STATE.apply(Tried(steps=True, passed=passed, decision=ACCEPTED)).memory
    assert accepted == replace(memory, fruitless=0, doubted=frozenset({"a"}))
    assert STATE.apply(Tried(afresh=True)) == closed(memory=replace(STATE.memory, fruitless=0))


def test_a_skill_that_was_measured_again_is_known_so_from_then_on_but_not_as_the_initial_one() -> (
    None
):
    after = STATE.apply(Tried(decision=replace(REJECTED, incumbent=AGAIN)))
    assert after == closed(current=AGAIN, pool=(OTHER, AGAIN), spent=0.03)
    both = replace(STATE, best=FIRST)
    after = both.apply(Tried(decision=replace(ACCEPTED, incumbent=AGAIN)))
    assert (after.initial, after.current, after.best) == (FIRST, NEW, AGAIN)
    assert after.pool == (OTHER, AGAIN, NEW)


@pytest.mark.parametrize(
    ("lessons", "forgets", "memory"),
    [
        (None, False, Memory((EARLIER,), "lessons", 0.5, fruitless=2)),
        ("new", False, Memory((EARLIER,), "new", 0.5, fruitless=2)),
        ("", True, Memory((), "", 0.5, fruitless=2)),
    ],
)
def test_an_epoch_starts_from_what_was_decided_at_the_end_of_the_last(
    lessons: str | None, forgets: bool, memory: Memory
) -> None:
    assert STATE.apply(Tried(opens=NewEpoch(lessons, forgets))) == closed(
        memory=memory, epoch_start=FIRST.skill
    )
    after = STATE.apply(Tried(opens=NewEpoch(lessons, forgets), decision=ACCEPTED))
    assert (after.epoch_start, after.memory) == (NEW.skill, memory)


def final_of(best: Measured, last: Measured) -> FinalTested:
    return FinalTested(
        move="final_test",
        tasks="digest",
        initial=FIRST.evaluation,
        best=best.evaluation,
        last=last.evaluation,
    )


def test_a_final_test_counts_as_long_as_the_skills_stay_those_that_it_tested() -> None:
    final = final_of(OTHER, FIRST)
    state = STATE.apply(final)
    assert state == replace(STATE, final_test=final)
    assert state.apply(Tried(decision=REJECTED)).final_test == final
    assert state.apply(Tried(decision=ACCEPTED)).final_test is None
    for best, last in ((OTHER, NEW), (NEW, NEW)):
        final = final_of(best, last)
        new_best = best is NEW
        decision = replace(ACCEPTED, new_best=new_best)
        state = replace(STATE, final_test=final)
        assert state.apply(Tried(decision=decision)).final_test == final
        other = replace(ACCEPTED, new_best=not new_best)
        assert state.apply(Tried(decision=other)).final_test is None


def test_a_record_is_replayed_from_where_the_run_begins() -> None:
    note: Note = Timed("step_0002", "total", 1.0)
    facts: list[Event] = [note, Tried(), Begun(FIRST), note, Tried(decision=ACCEPTED)]
    assert replay(facts) == State.after(Begun(FIRST)).apply(Tried(decision=ACCEPTED))
    assert replay(facts[:2]) is None
