"""Promise: working ahead changes how long a run takes and what it wastes, and nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from support import Sums, World, analysis, pupil, teacher

from skillopt.aio import TaskGroup
from skillopt.core.chat import Reply, Request
from skillopt.core.events import Event, Fact, Prefetched, Signal
from skillopt.core.facts import Stepped
from skillopt.core.memory import Memory
from skillopt.core.ports import Optimizer
from skillopt.core.proposal import Draft
from skillopt.core.rollout import Batches, Rollout
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings, Step
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.run import TrainingRun
from skillopt.errors import AccessError, BudgetSpent, ModelError, Pending, SkilloptError
from skillopt.gates.compared import Always, Metric
from skillopt.model.scripted import Scripted
from skillopt.testing.doubles import MemoryCache

SEED = Skill.parse("You add numbers.\n")
PATIENCE = 60
ONE_EPOCH = PlanSettings(epochs=1, batch=2, seed=0)


@asynccontextmanager
async def speculating(world: World) -> AsyncGenerator[TrainingRun, None]:
    async with TaskGroup() as group:
        run = world.run()
        yield replace(run, speculation=Prefetch(run.runner, group))


async def trained(world: World, *, ahead: bool = True) -> tuple[State, list[Event]]:
    record = MemoryLog()
    world = world.but(record=record)
    if not ahead:
        return await train(world.run(), SEED), record.kept
    async with speculating(world) as run:
        return await train(run, SEED), record.kept


def progress(events: list[Event]) -> list[Fact]:
    _, *facts = [event for event in events if isinstance(event, Fact)]
    return facts


def steps(world: World) -> list[Step]:
    return [move for move in world.run().plan.moves if isinstance(move, Step)]


def questions(step: Step) -> set[str]:
    return {str(task.data["q"]) for batch in step.batches for task in batch}


def asked(request: Request) -> tuple[str, str]:
    """The skill's last rule, and the question."""
    return request.messages[0].text.splitlines()[-1], request.messages[1].text


def is_val(question: str) -> bool:
    return 100 <= int(question.partition(" + ")[0]) < 200


@dataclass
class Slow:
    """Answers after a number of turns of the loop that differs per request."""

    turns: int
    fingerprint: str = "slow"

    async def complete(self, request: Request) -> Reply:
        for _ in range(sum(map(ord, request.messages[1].text)) * self.turns % 17):
            await asyncio.sleep(0)
        return Reply(text=pupil(request))


@pytest.mark.parametrize(("workers", "turns"), [(2, 1), (3, 5), (8, 7), (64, 3)])
@pytest.mark.parametrize("block", [0, 3])
async def test_facts_are_the_same_with_and_without(workers: int, turns: int, block: int) -> None:
    world = World(
        env=Sums(size=20),
        workers=workers,
        target=Slow(turns),
        shape=PlanSettings(epochs=2, batch=3, sample=4, last_sample=4, seed=1),
        replication=Replication(block=block),
    )
    without, plain = await trained(world, ahead=False)
    within, guessing = await trained(world.but(cache=MemoryCache()))
    assert within == without
    assert progress(guessing) == progress(plain)
    assert {step.action for step in progress(plain) if isinstance(step, Stepped)} >= {
        "reject",
        "accept_new_best",
    }
    assert any(isinstance(event, Prefetched) for event in guessing)


async def test_a_run_cut_after_any_event_ends_as_if_it_had_not_been_cut() -> None:
    world = World(target=Slow(5))
    expected, whole = await trained(world)
    for cut in range(len(whole)):
        record = MemoryLog(list(whole[:cut]))
        async with speculating(world.but(record=record, cache=MemoryCache())) as run:
            assert await train(run, SEED) == expected
        assert progress(record.kept) == progress(whole)
        assert replay(record.kept) == expected


@asynccontextmanager
async def early(world: World) -> AsyncGenerator[TrainingRun, None]:
    async with TaskGroup() as group:
        run = world.run()
        yield replace(run, early=Prefetch(run.runner, group, certain=True))


@pytest.mark.parametrize(("workers", "turns"), [(2, 1), (8, 7), (64, 3)])
async def test_facts_and_notes_are_the_same_where_what_is_certain_is_begun_early(
    workers: int, turns: int
) -> None:
    shape = PlanSettings(epochs=2, batch=3, sample=4, last_sample=4, seed=1)
    world = World(env=Sums(size=20), workers=workers, target=Slow(turns), shape=shape)
    without, plain = await trained(world, ahead=False)
    cache, record = MemoryCache(), MemoryLog()
    async with early(world.but(cache=cache, record=record)) as run:
        assert await train(run, SEED) == without
    assert progress(record.kept) == progress(plain)
    assert not any(isinstance(event, Prefetched) for event in record.kept)
    assert not cache.early
    assert not cache.unused


async def each_is_asked_once(world: World, meanwhile: Callable[[Request], Awaitable[None]]) -> None:
    """Train with early attempts; before each answer, `meanwhile` is awaited."""
    calls = Counter[str]()

    async def target(request: Request) -> str:
        await meanwhile(request)
        calls[f"{asked(request)}"] += 1
        return pupil(request)

    async with early(world.but(target=Scripted(target), cache=MemoryCache())) as run:
        await train(run, SEED)
    assert set(calls.values()) == {1}


async def test_the_first_step_is_begun_while_the_initial_skill_is_evaluated() -> None:
    world = World(shape=ONE_EPOCH, final_test=False, workers=8)
    begun = asyncio.Event()

    async def meanwhile(request: Request) -> None:
        _, question = asked(request)
        if question in questions(steps(world)[0]):
            begun.set()
        await asyncio.wait_for(begun.wait(), PATIENCE)

    await each_is_asked_once(world, meanwhile)


async def test_the_initial_skill_goes_before_the_first_step() -> None:
    world = World(shape=ONE_EPOCH, final_test=False, workers=2)
    order: list[str] = []

    async def meanwhile(request: Request) -> None:
        order.append(asked(request)[1])

    await each_is_asked_once(world, meanwhile)
    assert [is_val(question) for question in order[:4]] == [True] * 4


async def test_every_idle_worker_takes_part_in_what_is_due_next() -> None:
    """Three val tasks and five of the step are under way at once, with eight workers."""
    shape = PlanSettings(epochs=1, batch=5, seed=0)
    world = World(env=Sums(size=5), shape=shape, final_test=False, workers=8)
    val = [str(task.data["q"]) for task in world.env.tasks("val")][:3]
    together = {*questions(steps(world)[0]), *val}
    waiting, all_there = set[str](), asyncio.Event()

    async def meanwhile(request: Request) -> None:
        rule, question = asked(request)
        if rule == SEED.render().strip() and question in together:
            waiting.add(question)
            if len(waiting) == 8:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), PATIENCE)

    await each_is_asked_once(world, meanwhile)


async def test_the_initial_skill_is_tested_by_idle_workers_while_the_skill_is_trained() -> None:
    world = World(shape=ONE_EPOCH, workers=8)
    tested = asyncio.Event()
    test = {str(task.data["q"]) for task in world.env.tasks("test")}

    async def meanwhile(request: Request) -> None:
        rule, question = asked(request)
        if question in test and rule == SEED.render().strip():
            tested.set()
        elif question in questions(steps(world)[1]):
            await asyncio.wait_for(tested.wait(), PATIENCE)

    await each_is_asked_once(world, meanwhile)


class Asking(MemoryCache):
    """Remembers for which operation each attempt was begun early."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = dict[str, tuple[str, bool]]()

    async def rollout(
        self,
        key: str,
        make: Callable[[], Awaitable[Rollout]],
        *,
        prefetch_for: str = "",
        certain: bool = False,
    ) -> tuple[Rollout, bool]:
        if prefetch_for:
            self.begun[key] = (prefetch_for, certain)
        return await super().rollout(key, make, prefetch_for=prefetch_for, certain=certain)


async def test_what_is_begun_early_is_kept_for_the_operation_that_needs_it() -> None:
    world = World(shape=ONE_EPOCH, workers=8, target=Slow(5), cache=(cache := Asking()))
    async with early(world) as run:
        await train(run, SEED)
    specs = run.runner.specs
    first = {spec.key for spec in specs(SEED, steps(world)[0].batches[0])}
    test = {spec.key for spec in specs(SEED, world.env.tasks("test"))}
    assert {key for key, begun in cache.begun.items() if begun == ("step_0001", True)} == first
    assert {key for key, begun in cache.begun.items() if begun == ("final_test", True)} == test
    assert set(cache.begun) == first | test


async def test_a_failed_attempt_ends_what_is_begun_early() -> None:
    calls = 0

    async def target(_: Request) -> str:
        nonlocal calls
        calls += 1
        raise ModelError("overloaded")

    world = World(env=Sums(size=20), workers=4, target=Scripted(target), cache=MemoryCache())
    runner = world.runner()
    specs = runner.specs(SEED, world.env.tasks("test"))
    async with TaskGroup() as group, Prefetch(runner, group, certain=True).of("test", specs):
        for _ in range(100):
            await asyncio.sleep(0)
    assert calls == 1


async def test_what_is_certain_takes_no_more_places_than_there_are() -> None:
    under_way = most = 0

    async def target(request: Request) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        return pupil(request)

    world = World(env=Sums(size=20), workers=4, target=Scripted(target), cache=MemoryCache())
    async with early(world) as run:
        await train(run, SEED)
    assert most == 4


async def test_the_next_step_is_begun_while_the_gate_decides_and_asks_nothing_again() -> None:
    calls: list[tuple[str, str]] = []
    begun = asyncio.Event()
    world = World(shape=ONE_EPOCH, final_test=False)
    second = questions(steps(world)[1])

    async def target(request: Request) -> str:
        calls.append(asked(request))
        rule, question = asked(request)
        if question in second:
            begun.set()
        if is_val(question) and "boldly" in rule:
            await asyncio.wait_for(begun.wait(), PATIENCE)
        return pupil(request)

    cache = MemoryCache()
    _, events = await trained(world.but(target=Scripted(target), cache=cache))
    first = progress(events)[0]
    assert isinstance(first, Stepped)
    assert first.action == "reject"
    assert Prefetched("step_0002", 2) in events
    assert len(calls) == len(set(calls))
    assert cache.unused == {}


@dataclass(frozen=True, slots=True)
class Confirming:
    """Says that its candidates have repaired a task."""

    optimizer: Optimizer

    async def propose(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> Draft:
        draft = await self.optimizer.propose(skill, batches, memory, budget=budget)
        return replace(draft, repaired=("task",))


@pytest.mark.parametrize("forced", [False, True])
async def test_the_next_step_is_begun_with_a_candidate_that_repaired_tasks_or_is_accepted_anyway(
    *, forced: bool
) -> None:
    calls: list[tuple[str, str]] = []
    begun = asyncio.Event()
    world = World(shape=ONE_EPOCH, final_test=False, optimizer=Scripted(taught_at_once))
    second = questions(steps(world)[1])

    async def target(request: Request) -> str:
        calls.append(asked(request))
        rule, question = asked(request)
        if question in second and "carefully" in rule:
            begun.set()
        if is_val(question) and "carefully" in rule:
            await asyncio.wait_for(begun.wait(), PATIENCE)
        return pupil(request)

    cache, record = MemoryCache(), MemoryLog()
    async with speculating(world.but(target=Scripted(target), cache=cache, record=record)) as run:
        accepted = replace(run, gate=Always(Metric()))
        repaired = replace(run, optimizer=Confirming(run.optimizer))
        await train(accepted if forced else repaired, SEED)
    first = progress(record.kept)[0]
    assert isinstance(first, Stepped)
    assert first.decision is not None
    assert first.decision.accepted
    assert Prefetched("step_0002", 2) in record.kept
    assert len(calls) == len(set(calls))
    assert cache.unused == {}


@dataclass(slots=True)
class Until:
    """Opens a gate when a step is closed."""

    step: int
    closed: asyncio.Event

    def __call__(self, event: Event | Signal) -> None:
        if isinstance(event, Stepped) and event.step == self.step:
            self.closed.set()


@dataclass
class Stuck:
    """Some attempts with the seed skill come back when a step is closed, others four by four."""

    tasks: set[str]
    closed: asyncio.Event
    begun: int = 0
    together: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    fingerprint: str = "stuck"

    async def complete(self, request: Request) -> Reply:
        rule, question = asked(request)
        if "carefully" in rule:
            await self._meet()
        elif question in self.tasks:
            self.begun += 1
            await asyncio.wait_for(self.closed.wait(), PATIENCE)
        return Reply(text=pupil(request))

    async def _meet(self) -> None:
        """Wait until four are under way at the same time."""
        mine = asyncio.Event()
        self.together.append(mine)
        if len(self.together) == 4:
            for each in self.together:
                each.set()
            self.together.clear()
        await asyncio.wait_for(mine.wait(), PATIENCE)


def taught_at_once(request: Request) -> str:
    return analysis("Add carefully.") if request.stage == "analyst" else teacher(request)


async def test_neither_the_gate_nor_the_next_step_waits_for_attempts_ahead() -> None:
    """Although two of four workers are stuck in them, four others are busy at a time."""
    world = World(
        env=Sums(size=8),
        workers=4,
        shape=PlanSettings(epochs=1, batch=4, seed=0),
        optimizer=Scripted(taught_at_once),
        replication=Replication(block=4),
        final_test=False,
    )
    closed = asyncio.Event()
    target = Stuck(questions(steps(world)[1]), closed)
    cache = MemoryCache()
    world = world.but(target=target, cache=cache)
    async with TaskGroup() as group:
        run = world.run()
        run.sink.watch = Until(2, closed)
        run = replace(run, speculation=Prefetch(run.runner, group))
        state = await train(run, SEED)
    assert state.best.value == 1.0
    assert target.begun == 2
    assert sorted(cache.unused.values()) == ["step_0002"] * 2


async def test_after_the_decision_nothing_is_begun_and_what_is_under_way_is_kept() -> None:
    world = World(env=Sums(size=8), workers=4, final_test=False)
    following = Step(2, 1, 2, (tuple(world.env.tasks("train")),), None)
    calls = 0
    decided = asyncio.Event()

    async def target(request: Request) -> str:
        nonlocal calls
        calls += 1
        await asyncio.wait_for(decided.wait(), PATIENCE)
        return pupil(request)

    cache = MemoryCache()
    world = world.but(target=Scripted(target), cache=cache)
    async with TaskGroup() as group:
        runner = world.runner()
        specs = runner.specs(SEED, following.batches[0])
        async with Prefetch(runner, group).of(following.id, specs):
            while calls < 2:  # noqa: ASYNC110 - until half of the workers are busy
                await asyncio.sleep(0)
        decided.set()
    assert calls == 2
    assert len(cache.rollouts) == len(cache.unused) == 2


ERRORS: list[Callable[[], SkilloptError]] = [
    lambda: AccessError("wrong key"),
    lambda: BudgetSpent("limits.minutes is reached"),
    lambda: Pending("desk", frozenset({"q.question.md"})),
    lambda: ModelError("overloaded"),
]


@pytest.mark.parametrize("error", ERRORS)
async def test_an_error_ahead_is_dropped_and_met_again_only_if_it_is_still_there(
    error: Callable[[], SkilloptError],
) -> None:
    world = World(shape=ONE_EPOCH, final_test=False)
    second = questions(steps(world)[1])
    failed = asyncio.Event()

    async def target(request: Request) -> str:
        rule, question = asked(request)
        if is_val(question) and "boldly" in rule:
            await asyncio.wait_for(failed.wait(), PATIENCE)
        if question in second and not failed.is_set():
            failed.set()
            raise error()
        return pupil(request)

    _, plain = await trained(world, ahead=False)
    cache = MemoryCache()
    _, guessing = await trained(world.but(target=Scripted(target), cache=cache))
    assert failed.is_set()
    assert progress(guessing) == progress(plain)


async def test_a_rejected_guess_costs_nothing_and_an_accepted_candidate_wastes_what_was_begun() -> (
    None
):
    world = World(target=Slow(3), shape=PlanSettings(epochs=1, batch=2, seed=0), final_test=False)
    rejected = MemoryCache()
    useless = Scripted(lambda r: analysis("Guess.") if r.stage == "analyst" else teacher(r))
    await trained(world.but(cache=rejected, optimizer=useless))
    assert rejected.unused == {}
    accepted = MemoryCache()
    await trained(world.but(cache=accepted, optimizer=Scripted(taught_at_once)))
    assert set(accepted.unused.values()) == {"step_0002"}


@pytest.mark.parametrize("sample", [0, 2])
async def test_nothing_is_begun_ahead_if_something_else_comes_before_the_next_step(
    sample: int,
) -> None:
    shape = PlanSettings(
        epochs=2, batch=4, sample=sample, last_sample=sample, continues=True, seed=0
    )
    record = MemoryLog()
    world = World(target=Slow(3), shape=shape, record=record, optimizer=Scripted(taught_at_once))
    async with speculating(world) as run:
        await train(replace(run, optimizer=Confirming(run.optimizer)), SEED)
    assert len([event for event in record.kept if isinstance(event, Stepped)]) == 2
    begun = {event.move for event in record.kept if isinstance(event, Prefetched)}
    assert begun == (set() if sample else {"step_0002"})


async def test_what_is_kept_is_not_attempted_ahead_again() -> None:
    record = MemoryLog()
    runner = World(record=record).runner()
    runner.sink.begun = True
    following = Step(2, 1, 2, (tuple(runner.environment.tasks("train")),), None)
    for _ in range(2):
        specs = runner.specs(SEED, following.batches[0])
        async with TaskGroup() as group, Prefetch(runner, group).of(following.id, specs):
            for _ in range(100):
                await asyncio.sleep(0)
    assert record.kept == [Prefetched("step_0002", 4)]
