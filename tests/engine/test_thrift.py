"""Promise: nothing is measured twice, or asked for nobody, and no decision changes by that."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import World, analysis, pupil, teacher

from skillopt.app.optimizing import plan_settings
from skillopt.config.load import load_config
from skillopt.core.chat import Model, Request
from skillopt.core.events import Decision, Event, Measured
from skillopt.core.facts import Stepped
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.candidate_evaluation import CandidateEvaluation, CandidateResult, Replication
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.engine.rollouts import RolloutRunner
from skillopt.gates.compared import Always, Metric, Strict
from skillopt.harness.chat import Chat
from skillopt.model.scripted import Scripted
from skillopt.optimizer.parts import epoch_memory
from skillopt.testing.doubles import MemoryCache

SEED = Skill.parse("You add numbers.\n")


@dataclass(slots=True)
class Asked:
    """A target that remembers what it was asked: skill and question."""

    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def __call__(self, request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        self.calls.append((skill.partition("## Skill\n\n")[2], int(question.partition(" ")[0])))
        return pupil(request)

    def on(self, split: Split, skill: Skill | None = None) -> int:
        """How many calls were about tasks of a split, under a skill or any."""
        first = {"train": 0, "val": 100, "test": 200}[split]
        return sum(
            first <= number < first + 100 and skill in (None, Skill.parse(text))
            for text, number in self.calls
        )


class Forgetful(MemoryCache):
    """Keeps nothing: who asks twice pays twice."""

    async def rollout(
        self,
        key: str,
        make: Callable[[], Awaitable[Rollout]],
        *,
        prefetch_for: str = "",
        certain: bool = False,
    ) -> tuple[Rollout, bool]:
        del key, prefetch_for, certain
        return await make(), False


async def trained(world: World) -> list[Event]:
    record = MemoryLog()
    await train(world.but(record=record).run(), SEED)
    return record.kept


async def test_the_current_skill_is_not_measured_again_for_any_candidate() -> None:
    """Its results, task by task, are in the facts; even finished work is not needed for it."""
    asked = Asked()
    useless = (analysis(f"Guess {word}.") for word in "abcdefgh")

    def stubborn(request: Request) -> str:
        return next(useless) if request.stage == "analyst" else teacher(request)

    world = World(
        target=Scripted(asked),
        optimizer=Scripted(stubborn),
        cache=Forgetful(),
        shape=PlanSettings(epochs=2, batch=2, seed=0),
        final_test=False,
    )
    events = await trained(world)
    steps = [event for event in events if isinstance(event, Stepped)]
    assert [step.action for step in steps] == ["reject"] * 4
    assert asked.on("val", SEED) == 4
    assert asked.on("val") == 4 * (1 + len(steps))


def decided(step: Stepped) -> Decision:
    assert step.decision is not None
    return step.decision


async def test_a_candidate_that_was_rejected_before_is_decided_without_a_call() -> None:
    asked = Asked()
    wrong = Scripted(lambda r: analysis("Guess.") if r.stage == "analyst" else teacher(r))
    world = World(
        target=Scripted(asked),
        optimizer=wrong,
        shape=PlanSettings(epochs=3, batch=4, forgets=epoch_memory, seed=0),
        final_test=False,
    )
    events = await trained(world)
    first, *later = [event for event in events if isinstance(event, Stepped)]
    assert len(later) == 2
    for again in later:
        assert again.action == first.action == "reject"
        assert decided(again).candidate.skill == decided(first).candidate.skill
        assert decided(again).candidate.evaluation == decided(first).candidate.evaluation
    assert asked.on("val") == 2 * 4


async def test_a_candidate_that_was_current_before_is_decided_without_a_call() -> None:
    asked = Asked()

    there_and_back = cycle([("You add", "You guess"), ("You guess", "You add")])

    def fickle(request: Request) -> str:
        if request.stage != "analyst":
            return teacher(request)
        old, new = next(there_and_back)
        edit = {"op": "replace", "target": old, "content": new, "why": "seen"}
        return json.dumps({"reasoning": "r", "patterns": [], "edits": [edit]})

    world = World(
        target=Scripted(asked),
        optimizer=Scripted(fickle),
        gate=Always(Metric()),
        shape=PlanSettings(epochs=4, batch=4, seed=0),
        final_test=False,
    )
    events = await trained(world)
    bodies = [
        decided(event).candidate.skill.render() for event in events if isinstance(event, Stepped)
    ]
    assert len(bodies) == 4
    assert len(set(bodies)) == 2
    assert asked.on("val") == 2 * 4


@pytest.mark.parametrize("epochs", [1, 2, 3])
async def test_no_epoch_asks_for_lessons_that_no_later_one_reads(epochs: int) -> None:
    stages: Counter[str] = Counter()

    def counting(request: Request) -> str:
        stages[request.stage] += 1
        return teacher(request)

    moves = PlanSettings(epochs=epochs, batch=4, sample=2, last_sample=2, seed=0)
    await trained(World(optimizer=Scripted(counting), shape=moves, final_test=False))
    assert stages["slow_update"] == epochs - 1
    assert stages["meta_skill"] == max(0, epochs - 2)


async def test_the_last_epoch_looks_back_at_nothing_if_only_lessons_would_come_of_it() -> None:
    asked = Asked()
    wrong = Scripted(lambda r: analysis("Guess.") if r.stage == "analyst" else teacher(r))
    moves = PlanSettings(epochs=2, batch=4, sample=4, last_sample=0, seed=0)
    await trained(
        World(
            target=Scripted(asked),
            optimizer=wrong,
            cache=Forgetful(),
            shape=moves,
            final_test=False,
        )
    )
    assert asked.on("train") == 2 * 4


@pytest.mark.parametrize(("slow", "last"), [(True, 20), (False, 0)])
def test_only_the_slow_update_makes_the_last_epoch_look_back(slow: bool, last: int) -> None:
    found = plan_settings(load_config(None, values={"optimizer.use_slow_update": slow}))
    assert (found.sample, found.last_sample) == (20, last)


@pytest.mark.parametrize(("rules", "texts"), [((), 1), (("Guess.",), 1), (("Add carefully.",), 2)])
async def test_the_exam_measures_each_text_once(rules: tuple[str, ...], texts: int) -> None:
    """Without a cache: initial, best and last skill share an evaluation if they share the text."""
    asked = Asked()
    teaching = Scripted(lambda r: analysis(*rules) if r.stage == "analyst" else teacher(r))
    moves = PlanSettings(epochs=1, batch=4, seed=0)
    world = World(target=Scripted(asked), optimizer=teaching, cache=Forgetful(), shape=moves)
    await trained(world)
    assert asked.on("test") == texts * 4


@dataclass(frozen=True, slots=True)
class Marked:
    """An episode whose score was drawn before, for the skill that answered."""

    brief: str
    marks: Mapping[str, Score | None]
    instructions: str = ""

    async def score(self, trajectory: Trajectory) -> Score:
        mark = self.marks[trajectory.answer]
        if mark is None:
            raise RuntimeError("no score")
        return mark


@dataclass(frozen=True, slots=True)
class Drawn:
    """Val tasks with a score for the old and for the new skill each."""

    marks: Sequence[Mapping[str, Score | None]]
    name: str = "drawn"
    fingerprint: str = "drawn/1"

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"{split}-{n}", "drawn", {"n": n}) for n in range(len(self.marks))]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Marked, None]:
        number = int(str(task.data["n"]))
        yield Marked(str(number), self.marks[number])


MARK = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.5, 0.25])
SCORE = st.one_of(*[st.builds(Score, MARK, MARK)] * 7, st.none())
OUTCOMES = st.lists(st.fixed_dictionaries({"old": SCORE, "new": SCORE}), min_size=1, max_size=12)


ANSWERS = Scripted(lambda request: "new" if "new" in request.messages[0].text else "old")
PATIENCE = 60


async def heard(
    outcomes: Sequence[Mapping[str, Score | None]],
    gate: Strict,
    block: int,
    target: Model = ANSWERS,
) -> CandidateResult:
    """The new skill before the gate, measured by the real bench."""
    environment = Drawn(outcomes)
    runner = RolloutRunner(
        environment=environment,
        harness=Chat(target),
        cache=MemoryCache(),
        sink=EventSink(MemoryLog(), lambda _: None),
        max_failed=1.0,
    )
    tasks = environment.tasks("val")
    old, new = Skill.parse("old"), Skill.parse("new")
    evaluation = await runner.measure(old, "val", tasks, "evaluate")
    incumbent = Measured(old, evaluation, gate.value(old, evaluation), "initial_skill", 0)
    hearing = CandidateEvaluation(
        runner=runner, tasks=tasks, gate=gate, level=0.0, replication=Replication(block=block)
    )
    return await hearing.run(new, "step_0001", 1, incumbent)


@settings(max_examples=150, deadline=None)
@given(OUTCOMES, st.sampled_from([("hard", 0.0), ("soft", 1.0), ("mixed", 0.5)]), st.integers(1, 5))
def test_a_hearing_in_blocks_finds_what_a_full_one_finds_by_every_metric(
    outcomes: list[dict[str, Score | None]], metric: tuple[str, float], block: int
) -> None:
    gate = Strict(Metric(metric[1]))
    full, curtailed = (asyncio.run(heard(outcomes, gate, size)) for size in (0, block))
    assert curtailed.verdict.finding == full.verdict.finding
    assert full.saved == 0
    if curtailed.saved:
        assert full.verdict.finding == "not_better"
    else:
        assert curtailed.candidate == full.candidate
        assert curtailed.verdict == full.verdict


@settings(max_examples=150, deadline=None)
@given(OUTCOMES, st.sampled_from([("hard", 0.0), ("soft", 1.0), ("mixed", 0.5)]), st.integers(1, 5))
def test_as_many_attempts_are_saved_as_if_the_gate_looked_after_every_block(
    outcomes: list[dict[str, Score | None]], metric: tuple[str, float], block: int
) -> None:
    gate = Strict(Metric(metric[1]))
    full, curtailed = (asyncio.run(heard(outcomes, gate, size)) for size in (0, block))
    candidate, incumbent = full.candidate, full.incumbent
    tasks = [f"val-{number}" for number in range(len(outcomes))]
    order = gate.order(tasks, candidate.skill.digest, incumbent.evaluation)

    def ends(met: int) -> bool:
        part = replace(candidate, evaluation=candidate.evaluation.ordered(order[:met]))
        return gate.foresee(part, incumbent, order[met:]) is not None

    met = next(filter(ends, range(0, len(order), block)), len(order))
    assert curtailed.saved == len(order) - met


async def test_nobody_waits_for_a_look_that_could_end_nothing() -> None:
    """The old skill passes no task, so that however the first of the new one go, all are made."""
    under_way, all_there = 0, asyncio.Event()

    async def target(request: Request) -> str:
        nonlocal under_way
        if "new" in request.messages[0].text:
            under_way += 1
            if under_way == 6:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), PATIENCE)
            return "new"
        return "old"

    outcomes = [{"old": Score(0, 0), "new": Score(1, 1)}] * 6
    result = await heard(outcomes, Strict(Metric()), 2, Scripted(target))
    assert result.verdict.finding == "better"
    assert under_way == 6
