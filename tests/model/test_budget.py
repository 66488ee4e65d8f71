"""A limit is kept, whatever runs at the same time."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.aio import map_all
from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.errors import BudgetSpent, ModelError
from skillopt.model.budget import Budget, Limits, Meter, worst_case
from skillopt.model.prices import Price
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Metered

PRICE = Price(input=2.0, output=8.0, cached_input=0.5)
LONGEST = 100


@dataclass(frozen=True)
class Call:
    """A call as it will turn out: how long its prompt is, what it takes, and how late it ends."""

    letters: int
    share: float
    written: int
    turns: int
    fails: bool


calls = st.lists(
    st.builds(
        Call,
        letters=st.integers(0, 400),
        share=st.floats(0, 1),
        written=st.integers(0, LONGEST),
        turns=st.integers(0, 5),
        fails=st.booleans(),
    ),
    max_size=25,
)
caps = st.builds(
    Limits,
    dollars=st.none() | st.floats(0.0001, 0.02),
    tokens=st.none() | st.integers(1, 6000),
    calls=st.none() | st.integers(1, 20),
)


def request_for(call: Call) -> Request:
    return Request(stage="rollout", messages=(Message("user", "é" * call.letters),))


async def spend(todo: list[Call], limits: Limits) -> tuple[Usage, int]:
    """What was paid, and how many calls were turned away."""
    budget = Budget(Meter(), limits)

    async def one(call: Call) -> int:
        async def answer(request: Request) -> Reply:
            for _ in range(call.turns):
                await asyncio.sleep(0)
            if call.fails:
                raise ModelError("down")
            most = worst_case(request, LONGEST).input
            return Reply(text="", usage=Usage(0, int(most * call.share), call.written))

        model = Metered(Scripted(answer), "target", budget, PRICE, LONGEST)
        try:
            await model.complete(request_for(call))
        except BudgetSpent:
            assert budget.held == Usage(), "a run ends only when no call is under way"
            return 1
        except ModelError:
            pass
        return 0

    refused = sum(await map_all(one, todo))
    assert budget.held == Usage()
    return budget.meter.total, refused


@given(calls, caps)
def test_what_is_paid_never_exceeds_a_limit(todo: list[Call], limits: Limits) -> None:
    spent, _ = asyncio.run(spend(todo, limits))
    assert limits.dollars is None or spent.dollars <= limits.dollars
    assert limits.tokens is None or spent.input + spent.output <= limits.tokens
    assert limits.calls is None or spent.calls <= limits.calls


@given(calls)
def test_calls_wait_for_each_other_before_one_is_turned_away(todo: list[Call]) -> None:
    most = [worst_case(request_for(each), LONGEST) for each in todo]
    enough = sum(usage.input + usage.output for usage in most)
    _, refused = asyncio.run(spend(todo, Limits(tokens=max(1, enough))))
    assert refused == 0


async def test_a_call_waits_for_what_the_others_leave() -> None:
    one = worst_case(request_for(Call(10, 0, 0, 0, fails=False)), LONGEST)
    todo = [Call(10, 0.1, 1, 3, fails=False)] * 5
    spent, refused = await spend(todo, Limits(tokens=2 * (one.input + one.output)))
    assert (spent.calls, refused) == (5, 0)


async def test_once_a_call_is_refused_no_other_starts_that_would_be_cut_off() -> None:
    small = worst_case(request_for(Call(0, 0, 0, 0, fails=False)), LONGEST)
    todo = [Call(0, 0.1, 1, 3, fails=False), Call(400, 0.1, 1, 0, fails=False)]
    todo += [Call(0, 0.1, 1, 0, fails=False)] * 3
    spent, refused = await spend(todo, Limits(tokens=small.input + small.output + 20))
    assert (spent.calls, refused) == (1, 4)


async def test_what_is_kept_is_refused_within_the_block_and_there_after_it() -> None:
    budget = Budget(Meter(), Limits(calls=3))
    one = Usage(calls=1)

    async def call() -> None:
        async with budget.hold(one, "target", "rollout") as pay:
            pay(one)

    assert Budget(Meter()).room(one) is None
    with budget.keeping(Usage(calls=2)):
        assert budget.room(one) == 1
        await call()
        with pytest.raises(BudgetSpent):
            await call()
    assert budget.room(one) == 2
    await call()
    await call()
    with pytest.raises(BudgetSpent):
        await call()


def test_too_little_for_what_is_planned_is_told_before_it_begins() -> None:
    budget = Budget(Meter(), Limits(calls=10))
    budget.record(Usage(calls=4), role="target", stage="rollout")
    with budget.keeping(Usage(calls=3)):
        assert budget.shortage(Usage(calls=3), "a step") is None
        told = budget.shortage(Usage(calls=4), "a step")
    assert told is not None
    assert told.startswith(
        "limits.calls is reached: 10 allowed, 4 were made, and a step would take more. "
    )
    assert told.endswith("raise limits.calls and run the same command again.")
    assert Budget(Meter()).shortage(Usage(calls=99), "a step") is None


async def test_the_message_says_what_is_missing_and_how_to_go_on() -> None:
    budget = Budget(
        Meter.after({("", "target", "rollout"): Usage(7, 9, 9, 0, 1.5)}), Limits(dollars=1)
    )
    asked = Request(stage="slow_update", messages=(Message("user", "x" * 1000),))
    model = Metered(Scripted(lambda _: "late"), "optimizer", budget, PRICE, 10_000)
    with pytest.raises(BudgetSpent) as told:
        await model.complete(asked)
    assert str(told.value) == (
        "limits.dollars is reached: $1.00 allowed, $1.50 were spent, and the next call (optimizer, "
        "slow update) may take up to $0.0822. Finished work is saved; to resume, raise "
        "limits.dollars and run the same command again."
    )


async def test_time_is_up_for_new_calls_and_not_for_those_under_way() -> None:
    now = 0.0
    budget = Budget(Meter(), Limits(minutes=1), clock=lambda: now)
    started, go = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> str:
        started.set()
        await go.wait()
        return "done"

    model = Metered(Scripted(slow), "target", budget)
    ask = Request(stage="rollout", messages=())
    first = asyncio.ensure_future(model.complete(ask))
    await started.wait()
    now = 60.0
    second = asyncio.ensure_future(model.complete(ask))
    await asyncio.sleep(0)
    assert not second.done()
    go.set()
    assert (await first).text == "done"
    with pytest.raises(BudgetSpent, match=r"limits.minutes is reached: 1 allowed, the time is up"):
        await second


async def test_tokens_are_estimated_where_the_server_does_not_count_and_a_limit_needs_them() -> (
    None
):
    asked = Request(stage="rollout", messages=(Message("user", "x" * 400),))
    for limits, found in ((Limits(), 0), (Limits(calls=5), 0), (Limits(tokens=9999), 100 + 2)):
        budget = Budget(Meter(), limits)
        await Metered(Scripted(lambda _: "12345678"), "target", budget).complete(asked)
        assert budget.meter.total.input + budget.meter.total.output == found


def test_the_worst_price_is_charged_whatever_the_provider_had_cached() -> None:
    dear = Price(input=1.0, output=0.0, cached_input=3.0)
    assert dear.most(Usage(1, 1_000_000)) == 3.0
    assert PRICE.most(Usage(1, 1_000_000, 1_000_000)) == 10.0


async def test_a_model_that_writes_more_than_it_may_ends_the_run_and_is_told() -> None:
    budget = Budget(Meter(), Limits(tokens=2000))
    long = Reply(text="and so on", usage=Usage(1, 10, 5000))
    model = Metered(Scripted(lambda _: long), "target", budget, None, 100)
    asked = Request(stage="rollout", messages=(Message("user", "Why?"),))
    await model.complete(asked)
    with pytest.raises(BudgetSpent) as told:
        await model.complete(asked)
    assert re.match(
        r"limits.tokens is exceeded by 3,010: 2,000 allowed, 5,010 were used \(replies took up to "
        r"4,\d+ tokens more than max_tokens allows\)\. Finished work is saved; to resume, "
        r"raise limits.tokens and run",
        str(told.value),
    )
