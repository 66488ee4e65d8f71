"""What every operation of the loop writes down and shows, compared whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from support import Seen, World, analysis, teacher

from skillopt.core.chat import Request
from skillopt.core.events import (
    Begun,
    Decision,
    Event,
    Fact,
    FinalTested,
    Measured,
    PhaseOpened,
    Ticked,
    Timed,
)
from skillopt.core.facts import Batch, Compared, EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Draft, Pattern, Review, Round, Size
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.rules import Cut, Rule
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.core.tokens import estimate
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.halving import HalveByGain, SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.plan import EpochEnd, PlanSettings, Step, digest
from skillopt.engine.run import TrainingRun
from skillopt.gates.compared import Always, Density, Metric, Strict
from skillopt.model.scripted import Scripted
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.vary import Vary

E = TypeVar("E", bound=Event)
HARD = Metric()

START = Skill.parse("# Sums\n\n- Smile.\n")
BOLD = Skill.parse("# Sums\n\n- Smile.\n- Guess boldly.\n")
CAREFUL = Skill.parse("# Sums\n\n- Smile.\n- Add carefully.\n")
TWICE = Skill.parse("# Sums\n\n- Smile.\n- Add carefully.\n- Check twice.\n")
PRUNED = Skill.parse("# Sums\n\n- Add carefully.\n")
SHAPE = PlanSettings(
    epochs=2,
    batch=2,
    sample=2,
    last_sample=2,
    seed=0,
    meta_reflect=True,
    prune_every=2,
    prune_sample=2,
)


async def trained(run: TrainingRun) -> list[Event]:
    record = run.sink.record
    await train(run, START)
    return list(record.events())


def kind(events: Sequence[Event], of: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, of)]


def evaluation(skill: Skill, split: Split, tasks: Sequence[Task], mark: float) -> Evaluation:
    return Evaluation(skill.digest, split, {task.id: Score(mark, mark) for task in tasks})


def measured(world: World, skill: Skill, mark: float, origin: str, step: int) -> Measured:
    return Measured(
        skill, evaluation(skill, "val", world.env.tasks("val"), mark), mark, origin, step
    )


def size(before: Skill, after: Skill) -> Size:
    tokens = estimate(after.render())
    return Size(before=estimate(before.render()), drafted=tokens, after=tokens)


async def test_every_fact_of_a_run_tells_what_was_measured_decided_and_why() -> None:
    world = World(shape=SHAPE, identity={"train.seed": "0"})
    events = await trained(world.run())
    plan = world.run().plan.moves
    moves = {move.id: move for move in plan}

    def batches(step: str, skill: Skill, mark: float) -> tuple[Batch, ...]:
        move = moves[step]
        assert isinstance(move, Step)
        return tuple(
            Batch(tuple(task.id for task in batch), evaluation(skill, "train", batch, mark))
            for batch in move.batches
        )

    def failed(step: str) -> tuple[Pattern, ...]:
        (batch,) = batches(step, START, 0)
        return (Pattern("wrong sum", 1, "", tuple(sorted(batch.tasks))),)

    assert kind(events, Begun) == [
        Begun(measured(world, START, 0, "initial_skill", 0), {"train.seed": "0"})
    ]
    rejected = Decision(
        measured(world, BOLD, 0, "step_0001", 1), "reject", "0.0000 <= 0.0000 on 4 tasks"
    )
    accepted = Decision(
        measured(world, CAREFUL, 1, "step_0002", 2),
        "accept_new_best",
        "1.0000 > 0.0000 on 4 tasks",
        new_best=True,
    )
    steps = kind(events, Stepped)
    assert steps == [
        Stepped(
            move="step_0001",
            step=1,
            epoch=1,
            in_epoch=1,
            batches=batches("step_0001", START, 0),
            patterns=failed("step_0001"),
            draft=steps[0].draft,
            action="reject",
            decision=rejected,
        ),
        Stepped(
            move="step_0002",
            step=2,
            epoch=1,
            in_epoch=2,
            batches=batches("step_0002", START, 0),
            patterns=failed("step_0002"),
            draft=steps[1].draft,
            action="accept_new_best",
            decision=accepted,
        ),
        *(
            Stepped(
                move=f"step_{number:04d}",
                step=number,
                epoch=2,
                in_epoch=number - 2,
                batches=batches(f"step_{number:04d}", CAREFUL, 1),
                patterns=(),
                draft=steps[number - 1].draft,
                action="skip_no_patches",
            )
            for number in (3, 4)
        ),
    ]
    drafts = [(step.draft.budget, step.draft.leading) for step in steps]
    assert [(budget, first.skill, first.size) for budget, first in drafts] == [
        (2, BOLD, size(START, BOLD)),
        (2, CAREFUL, size(START, CAREFUL)),
        (2, None, None),
        (2, None, None),
    ]
    first, second = kind(events, MetaReflected)
    assert (first.draft.budget, first.draft.leading.skill) == (2, TWICE)
    assert [first, second] == [
        MetaReflected(
            move="meta_reflect_epoch_01",
            step=2,
            epoch=1,
            draft=first.draft,
            action="reject",
            decision=Decision(
                measured(world, TWICE, 1, "meta_reflect_epoch_01", 2),
                "reject",
                "1.0000 <= 1.0000 on 4 tasks",
            ),
        ),
        MetaReflected(
            move="meta_reflect_epoch_02",
            step=4,
            epoch=2,
            draft=Draft(budget=2),
            action="skip_no_patches",
        ),
    ]
    (pruned,) = kind(events, Pruned)
    smile = Rule("SKILL.md", 3, "- Smile.")
    assert pruned == Pruned(
        move="prune_epoch_02",
        step=4,
        epoch=2,
        cut=Cut(pruned.cut.worths, (smile,)),
        decision=Decision(
            measured(world, PRUNED, 1, "prune_epoch_02", 4),
            "accept_new_best",
            "1.0000 >= 1.0000 on 4 tasks",
            new_best=True,
        ),
    )
    last = moves["epoch_02"]
    assert isinstance(last, EpochEnd)
    guided = PRUNED.with_guidance("Stay calm.")
    right = Score(1, 1)
    assert kind(events, EpochClosed) == [
        EpochClosed(move="epoch_01", step=2, epoch=1, forgets=False),
        EpochClosed(
            move="epoch_02",
            step=4,
            epoch=2,
            before=CAREFUL.digest,
            after=PRUNED.digest,
            pairs=tuple(Compared(task.id, "stable_success", right, right) for task in last.tasks),
            review=Review("Stay calm.", "r"),
            decision=Decision(
                measured(world, guided, 1, "slow_update_epoch_02", 4),
                "reject",
                "1.0000 <= 1.0000 on 4 tasks",
            ),
            forgets=False,
            size=size(PRUNED, guided),
        ),
    ]
    test = world.env.tasks("test")
    assert kind(events, FinalTested) == [
        FinalTested(
            move="final_test",
            tasks=digest(test),
            initial=evaluation(START, "test", test, 0),
            best=evaluation(PRUNED, "test", test, 1),
            last=evaluation(PRUNED, "test", test, 1),
        )
    ]


async def test_every_phase_is_shown_with_its_operation_and_the_number_of_its_attempts() -> None:
    seen = Seen()
    world = World(shape=SHAPE, seen=seen)
    await trained(world.run())
    shown = [(event.move, event.phase, event.total) for event in kind_seen(seen)]
    asked = {"reflect", "aggregate", "update", "meta_reflect", "slow_update", "meta_skill"}
    attempted = [each for each in shown if each[1] not in asked]
    assert (
        attempted
        == [
            ("baseline", "evaluate", 4),
            ("step_0001", "rollout", 2),
            ("step_0001", "evaluate", 4),
            ("step_0002", "rollout", 2),
            ("step_0002", "evaluate", 4),
            ("meta_reflect_epoch_01", "evaluate", 4),
            ("step_0003", "rollout", 2),
            ("step_0004", "rollout", 2),
            ("prune_epoch_02", "leave one out", 6),  # the skill as it is, and without either rule
            ("prune_epoch_02", "leave one out", 4),  # what can be spared, left out together
            ("prune_epoch_02", "evaluate", 4),
            ("epoch_02", "look_back", 2),
            ("epoch_02", "look_again", 2),
            ("epoch_02", "evaluate", 4),
            ("final_test", f"test {START.digest[:6]}", 4),
            ("final_test", f"test {PRUNED.digest[:6]}", 4),
        ]
    )
    told = Counter((event.move, event.phase) for event in seen.events if isinstance(event, Ticked))
    expected = Counter[tuple[str, str]]()
    for move, phase, total in attempted:
        expected[move, phase] += total
    assert {place: told[place] for place in expected} == expected
    timed = [(event.move, event.phase) for event in seen.events if isinstance(event, Timed)]
    assert sorted(place for place in timed if place[1] != "total") == sorted(
        (move, phase) for move, phase, _ in shown
    )
    moves = [move.id for move in world.run().plan.moves]
    assert [move for move, phase in timed if phase == "total"] == ["baseline", *moves]


def kind_seen(seen: Seen) -> list[PhaseOpened]:
    return [event for event in seen.events if isinstance(event, PhaseOpened)]


async def test_a_run_begins_with_what_is_remembered_of_earlier_ones() -> None:
    earlier = (MemoryEntry(step=3, epoch=1, action="reject"),)
    run = replace(
        World(shape=replace(SHAPE, epochs=0), final_test=False).run(),
        memory=Memory(steps=earlier, lessons="Acting boldly fails."),
        soft_weight=0.25,
    )
    (begun,) = kind(await trained(run), Begun)
    assert (begun.earlier, begun.lessons) == (earlier, "Acting boldly fails.")
    assert begun.soft_weight == 0.25


async def test_the_initial_skill_is_valued_as_the_gate_values_every_skill() -> None:
    gate = Strict(Metric(density=Density(0.5, ("smile",))))
    run = World(shape=replace(SHAPE, epochs=0), final_test=False, gate=gate).run()
    (begun,) = kind(await trained(run), Begun)
    assert begun.initial.value == 0.25  # half of its two words


async def test_replicates_are_made_wherever_a_skill_is_evaluated_and_more_of_the_initial_one() -> (
    None
):
    seen = Seen()
    world = World(
        shape=SHAPE,
        seen=seen,
        slow_gate=Always(HARD),
        replication=Replication(replicates=2, initial=3),
    )
    events = await trained(replace(world.run(), guides_best=True))
    (begun,), (tested,) = kind(events, Begun), kind(events, FinalTested)
    decisions = [event.decision for event in events if isinstance(event, Fact) and event.decision]
    candidates = [decision.candidate.evaluation for decision in decisions]
    assert len(begun.initial.evaluation.rounds) == 3
    assert [len(found.rounds) for found in candidates] == [2] * 5
    assert [len(found.rounds) for found in tested.evaluations] == [2] * len(tested.evaluations)
    totals = {(event.move, event.phase): event.total for event in kind_seen(seen)}
    assert totals["baseline", "evaluate"] == 12
    assert totals["step_0001", "evaluate"] == totals["epoch_02", "evaluate"] == 8
    assert totals["final_test", f"test {START.digest[:6]}"] == 8


@dataclass(frozen=True, slots=True)
class Shorten:
    """Makes one of two texts of everything that is too long."""

    limit: int
    text: str
    problem: str = ""

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        return (skill, self.problem) if self.problem else (Skill.parse(self.text), "")


def wordy(request: Request) -> str:
    rule = "Add carefully. " + "And so on. " * 40
    return analysis(rule) if request.stage == "analyst" else teacher(request)


async def test_what_is_shortened_is_tried_and_recorded_as_it_is_then() -> None:
    world = World(optimizer=Scripted(wordy), shape=replace(SHAPE, epochs=1), final_test=False)
    limit = estimate(CAREFUL.render())
    run = world.run(shortener=Shorten(limit, CAREFUL.render()))
    step = kind(await trained(run), Stepped)[0]
    found = step.draft.leading.size
    assert found is not None
    assert found.drafted > limit
    assert found == replace(size(START, CAREFUL), drafted=found.drafted, limit=limit)
    assert step.draft.leading.skill == CAREFUL
    assert step.decision is not None
    assert step.decision.candidate.skill == CAREFUL


async def test_what_cannot_be_shortened_is_recorded_with_the_reason_and_not_tried() -> None:
    world = World(optimizer=Scripted(wordy), shape=replace(SHAPE, epochs=2), final_test=False)
    limit = estimate(START.render())
    events = await trained(world.run(shortener=Shorten(limit, "", "no room")))
    step, closed = kind(events, Stepped)[0], kind(events, EpochClosed)[-1]
    assert (step.action, step.decision) == ("skip_too_long", None)
    assert step.draft.leading.size is not None
    assert step.draft.leading.size.problem == "no room"
    guided = START.with_guidance("Stay calm.")
    assert closed.decision is None
    assert closed.size == replace(size(START, guided), limit=limit, problem="no room")


async def test_a_halving_records_its_rounds_and_how_many_candidates_were_compared() -> None:
    def proposing(request: Request) -> str:
        rules = ("Add carefully.", "Breathe.")
        return analysis(*rules) if request.stage == "analyst" else teacher(request)

    record, seen = MemoryLog(), Seen()
    world = World(
        optimizer=Scripted(proposing),
        shape=PlanSettings(epochs=1, batch=4, seed=0),
        final_test=False,
        record=record,
        seen=seen,
    )
    run = world.run()
    assert isinstance(run.optimizer, Pipeline)
    schedule = HalveByGain(marks=Metric().marks, screen=3, block=1)
    run = replace(
        run,
        optimizer=replace(run.optimizer, vary=Vary(most=2)),
        halving=SuccessiveHalving(runner=run.runner, schedule=schedule, gate=run.gate),
    )
    (step,) = kind(await trained(run), Stepped)
    names = [candidate.name for candidate in step.draft.candidates]
    assert names == ["bundle", "without 2", "without 1"]
    assert step.rounds == (
        Round("train", 1, {"bundle": 1, "without 1": 0, "without 2": 1}, ("bundle", "without 2")),
        Round("val", 1, {"bundle": 1, "without 2": 1}, ("bundle",)),
    )
    assert step.decision is not None
    assert step.decision.compared == 2
    phases = [(event.phase, event.total) for event in kind_seen(seen)]
    assert [each for each in phases if each[0] in {"screen", "race"}] == [
        ("screen", 3),
        ("race", 2),
    ]
