from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

import pytest
from support import Seen

from skillopt.core.events import (
    Begun,
    Event,
    Fact,
    Measured,
    PhaseClosed,
    PhaseOpened,
    Signal,
    Ticked,
    Timed,
)
from skillopt.core.rollout import Evaluation
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill

E = TypeVar("E", bound=Event)
SKILL = Skill.parse("a\n")
FACT = Begun(Measured(SKILL, Evaluation(SKILL.digest, "val", {}), 0.0, "secret", 0))
CLEANED = replace(FACT, initial=replace(FACT.initial, origin="***"))


def clean(event: E, /) -> E:
    if isinstance(event, Timed):
        return cast("E", replace(event, phase=event.phase.replace("secret", "***")))
    return cast("E", CLEANED) if isinstance(event, Fact) else event


def timeless(event: Event | Signal) -> Event | Signal:
    if not isinstance(event, Timed):
        return event
    assert 0 <= event.seconds < 60
    assert event.seconds == round(event.seconds, 3)
    return replace(event, seconds=0.0)


def test_notes_wait_for_the_first_fact_and_all_are_cleaned_and_shown_at_once() -> None:
    log, seen = MemoryLog(), Seen()
    sink = EventSink(log, seen, clean)
    sink.enter("baseline")
    with sink.phase("secret", 2) as phase:
        phase.tick()
        phase.tick("reused", 0.5)
    assert not log.events()
    shown = [
        PhaseOpened("baseline", "secret", 2),
        Ticked("baseline", "secret", "done", None),
        Ticked("baseline", "secret", "reused", 0.5),
        Timed("baseline", "***", 0.0),
        PhaseClosed("baseline", "secret"),
    ]
    assert list(map(timeless, seen.events)) == shown
    sink.fact(FACT)
    total = Timed("baseline", "total", 0.0)
    written = [Timed("baseline", "***", 0.0), total, CLEANED]
    assert list(map(timeless, log.events())) == written
    assert list(map(timeless, seen.events)) == [*shown, total, CLEANED]
    sink.enter("step_0001")
    sink.note(Timed("step_0001", "x", 0.0))
    sink.fact(FACT)
    more = [Timed("step_0001", "x", 0.0), Timed("step_0001", "total", 0.0), CLEANED]
    assert list(map(timeless, log.events())) == [*written, *more]


def test_a_phase_that_does_not_end_well_is_closed_and_takes_no_time() -> None:
    seen = Seen()
    sink = EventSink(MemoryLog(), seen)
    with pytest.raises(KeyError), sink.phase("x"):
        raise KeyError
    assert seen.events == [PhaseOpened("", "x", 0), PhaseClosed("", "x")]


def test_a_phase_that_is_done_early_is_over_once() -> None:
    log, seen = MemoryLog(), Seen()
    sink = EventSink(log, seen, begun=True)
    with sink.phase("x") as phase:
        phase.finish()
        sink.enter("later")
        phase.finish()
    assert list(map(timeless, seen.events)) == [
        PhaseOpened("", "x", 0),
        Timed("", "x", 0.0),
        PhaseClosed("", "x"),
    ]
    assert list(map(timeless, log.events())) == [Timed("", "x", 0.0)]
