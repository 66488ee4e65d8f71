"""A server that goes down in the middle of a run is waited for, as long as the settings say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support_cli import make_project
from support_cli import skillopt as command
from support_wire import WireServer, completion, says

import skillopt
from skillopt.core.chat import Message, Reply, Request
from skillopt.core.events import Event, Signal, Waiting
from skillopt.errors import AccessError, ModelError, Unavailable
from skillopt.model.errors import Down, Unreachable
from skillopt.model.rate_limits import CircuitBreaker, Endpoint
from skillopt.model.wrappers import Limited, Retrying, RetryPolicy
from skillopt.testing.simulator import Simulator

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
REFUSED, BUSY = Unreachable("http://h cannot be reached"), Down("HTTP 503")


@dataclass
class Line:
    """A server that is down from one moment to another, and a clock that moves by sleeping."""

    down: tuple[float, float]
    error: ModelError
    now: float = 0.0
    calls: int = 0
    told: list[Waiting] = field(default_factory=list[Waiting])
    fingerprint: str = "line"

    async def complete(self, request: Request) -> Reply:
        self.calls += 1
        if self.down[0] <= self.now < self.down[1]:
            raise self.error
        return Reply(text=request.stage)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def model(self, patience: float = 600.0) -> Retrying:
        endpoint = Endpoint(
            "h", breaker=CircuitBreaker("h", self.clock, patience, self.told.append)
        )
        policy = RetryPolicy(sleep=self.sleep, random=lambda: 1.0, server=endpoint.breaker)
        return Retrying(Limited(self, endpoint), policy)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize("error", [REFUSED, BUSY])
async def test_an_outage_within_the_patience_is_waited_for_and_told(error: ModelError) -> None:
    line = Line((10.0, 400.0), error)
    model = line.model()
    await model.complete(ASK)
    line.now = 10.0
    assert (await model.complete(ASK)).text == "rollout"
    assert line.now >= 400.0
    first, last = line.told
    assert (first.server, first.over, last.over) == ("h", False, True)
    assert last.seconds >= 390.0


@pytest.mark.parametrize("error", [REFUSED, BUSY])
async def test_after_the_patience_it_is_given_up_with_code_3(error: ModelError) -> None:
    line = Line((10.0, float("inf")), error)
    model = line.model(patience=60.0)
    await model.complete(ASK)
    line.now = 10.0
    with pytest.raises((ModelError, Unavailable)) as caught:
        await model.complete(ASK)
    assert caught.value.exit_code == 3
    assert 70.0 <= line.now <= 200.0


async def test_a_wrong_address_is_found_within_seconds() -> None:
    line = Line((0.0, float("inf")), REFUSED)
    with pytest.raises(AccessError):
        await line.model().complete(ASK)
    assert line.now <= 10.0
    assert line.told == []


async def test_a_request_that_fails_while_others_are_answered_is_given_up_after_its_tries() -> None:
    line = Line((0.0, float("inf")), BUSY)
    endpoint = Endpoint("h", clock=line.clock)
    poisoned = Limited(line, endpoint)

    async def sleep(seconds: float) -> None:
        await line.sleep(seconds)
        await endpoint.call(Line((0.0, 0.0), BUSY), ASK)

    model = Retrying(poisoned, RetryPolicy(tries=4, sleep=sleep, server=endpoint.breaker))
    with pytest.raises(ModelError, match="gave up after 4 tries"):
        await model.complete(ASK)


async def test_a_run_goes_on_after_an_outage_without_a_single_retry(tmp_path: Path) -> None:
    seen: list[Event | Signal] = []
    answers = [says(completion("4"))] + [says({}, 503)] * 3 + [says(completion("4"))]
    async with WireServer(answers) as server:
        found = await skillopt.evaluate_async(
            "Add.",
            rows=[{"input": "2 + 2", "answer": "4"}],
            out=tmp_path,
            settings={
                "model.backend": "openai_compatible",
                "model.base_url": server.url,
                "model.retries": 0,
            },
            watch=seen.append,
        )
    assert found.whole.hard == 1.0
    assert len(server.seen) == 5


async def test_a_wrong_address_ends_the_program_at_its_start(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
    done = await command("train", "c.yaml", "model.retries=5", cwd=tmp_path)
    assert done.code == 1
    assert "has not answered" in done.err
