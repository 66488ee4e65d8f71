from __future__ import annotations

import io
import threading
from dataclasses import dataclass, replace

import pytest
from support import SHAPE, World

from skillopt.cli.formatting import count, duration, paid, short
from skillopt.cli.progress import Reporter, RunProgress
from skillopt.cli.render import Screen
from skillopt.core.chat import Usage
from skillopt.core.events import Fact, PhaseClosed, PhaseOpened, Ticked, Timed
from skillopt.core.facts import Stepped
from skillopt.core.skill import Skill
from skillopt.core.state import replay
from skillopt.engine.loop import train
from skillopt.model.budget import Meter
from skillopt.progress import PhaseProgress, PlainProgress, heartbeat


@dataclass(slots=True)
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_long_phase_gets_at_most_one_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    screen = Screen()
    watch = Reporter(screen, clock=clock)
    watch(PhaseOpened("step_0001", "rollout", 60))
    for second in range(60):
        clock.now = second
        watch(Ticked("step_0001", "rollout", score=1.0))
    watch(Timed("step_0001", "rollout", 59.0))
    watch(PhaseClosed("step_0001", "rollout"))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    told = [line.split()[1].rstrip(",") for line in lines]
    assert told == ["11/60", "21/60", "31/60", "41/60", "51/60", "60/60"]
    assert lines[-1].endswith("60/60, mean 1.00, 59 s")


def test_reused_and_failed_units_are_told_apart() -> None:
    gauge = PhaseProgress("rollout", 3)
    gauge.tick(Ticked("m", "rollout", "reused", 1.0))
    gauge.tick(Ticked("m", "rollout", "failed"))
    gauge.tick(Ticked("m", "rollout", "done", 0.0))
    assert (gauge.amount, gauge.remarks) == ("3/3", "mean 0.50, 1 reused, 1 failed")


async def test_a_whole_run_moves_from_nothing_to_all_without_a_step_back() -> None:
    world = World()
    clock = Clock()
    run = world.run()
    headway = RunProgress(run.plan, len(run.val), Meter(), None, clock)
    assert (headway.done, headway.left) == (0, None)
    await train(run, Skill.parse("Be brief.\n"))
    shares = [0.0]
    for event in world.seen.events:
        clock.now += 1
        headway.add(event)
        shares.append(headway.done / headway.total)
        assert headway.left is None or headway.left >= 0
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert headway.left == 0


async def test_steps_that_an_early_end_spares_are_not_left() -> None:
    world = World(shape=replace(SHAPE, patience=1))
    run = world.run()
    headway = RunProgress(run.plan, len(run.val), Meter(), None)
    await train(run, Skill.parse("Be brief.\n"))
    facts = [event for event in world.seen.events if isinstance(event, Fact)]
    *earlier, in_vain, final_test = facts
    for fact in earlier:
        headway.add(fact)
    assert headway.total - headway.done > 3 * world.env.size
    assert isinstance(in_vain, Stepped)
    headway.add(in_vain)
    assert headway.total - headway.done == 3 * world.env.size
    assert len([fact for fact in facts if isinstance(fact, Stepped)]) < len(run.plan.moves) - 3
    headway.add(final_test)
    assert headway.done == headway.total


async def test_a_continued_run_starts_where_it_stands() -> None:
    world = World()
    run = world.run()
    await train(run, Skill.parse("Be brief.\n"))
    state = replay(world.record.events())
    headway = RunProgress(run.plan, len(run.val), Meter(), state)
    assert headway.done == headway.total


def test_amounts_read_well() -> None:
    assert [count(n, "edit") for n in (0, 1, 1200)] == ["no edits", "1 edit", "1,200 edits"]
    assert [short(n) for n in (999, 1_000, 23_456, 1_234_567)] == ["999", "1.0k", "23k", "1.2M"]
    assert [duration(s) for s in (0.04, 12, 89, 200, 7500)] == [
        "0.0 s",
        "12 s",
        "89 s",
        "3 min",
        "2 h 05 min",
    ]
    assert paid(Usage(2, 1500, 20)) == "2 calls, 1.5k + 20 tokens"
    assert paid(Usage(2, 1500, 20, dollars=1.5)) == "2 calls, 1.5k + 20 tokens, $1.50"


def test_a_long_silence_is_broken_by_a_line_that_work_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    screen = Screen()
    lines = Reporter(screen, clock=clock)
    stream = io.StringIO()
    plain = PlainProgress(stream, clock)
    for watch in (lines, plain):
        watch.pulse()
        watch(PhaseOpened("step_0001", "trial", 0))
        watch(Ticked("step_0001", "trial"))
    for second in (29, 30, 45, 61):
        clock.now = second
        lines.pulse()
        plain.pulse()
    for watch in (lines, plain):
        watch(PhaseClosed("step_0001", "trial"))
        clock.now = 500
        watch.pulse()
    told = [line for line in capsys.readouterr().err.splitlines() if "still working" in line]
    assert [" ".join(line.split()) for line in told] == [
        "trial 1 done, still working, 30 s without a result",
        "trial 1 done, still working, 31 s without a result",
    ]
    assert stream.getvalue().count("still working") == 2


def test_the_heart_beats_while_a_single_call_takes_long() -> None:
    beats = threading.Semaphore(0)
    with heartbeat(lambda: beats.release(), seconds=0.001):  # noqa: PLW0108
        assert all(beats.acquire(timeout=60) for _ in range(3))
