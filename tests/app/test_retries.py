"""Whoever watches a run hears of calls that are made again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support_runs import Job, make_data

from skillopt.api import train_async
from skillopt.core.events import Event, Retried, Signal
from skillopt.testing.simulator import Faults, Simulator


async def test_retries_are_told_by_role_and_those_after_a_rate_limit_as_such(
    tmp_path: Path,
) -> None:
    heard = Counter[Retried]()

    def watch(event: Event | Signal) -> None:
        if isinstance(event, Retried):
            heard[event] += 1

    data = make_data(tmp_path / "data", (4, 4, 4))
    faults = Faults(rate_429=0.1, rate_500=0.1, retry_after=0, seed=3)
    async with Simulator(seed=1, faults=faults) as simulator:
        job = Job(url=simulator.url, data=data, out=tmp_path / "run", epochs=1, batch=4)
        await train_async(
            skill=data / job.start, settings=job.settings(), watch=watch, progress=False
        )
        refused = simulator.stats().refused
    limited = sum(number for event, number in heard.items() if event.limited)
    assert {event.role for event in heard} <= {"target", "optimizer"}
    assert limited == refused["429"] > 0
    assert sum(heard.values()) - limited == refused["500"] > 0
