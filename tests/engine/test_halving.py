"""Several candidates of a step: who meets the gate, what is remembered, what luck may cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from support import World, analysis, teacher

from skillopt.core.chat import Request
from skillopt.core.edits import Append, Placement
from skillopt.core.events import Begun, Decision, Measured
from skillopt.core.facts import Stepped
from skillopt.core.memory import meaning
from skillopt.core.proposal import Candidate, Draft, candidates_compared
from skillopt.core.rollout import Evaluation
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.halving import HalveByGain, SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.engine.run import TrainingRun
from skillopt.gates.compared import Always, Metric, Strict
from skillopt.gates.tested import Paired
from skillopt.model.scripted import Scripted
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.vary import Vary

STRICT = Strict(Metric())
START = Skill.parse("You add numbers.\n")


def proposing(*rules: str) -> Scripted:
    def answer(request: Request) -> str:
        return analysis(*rules) if request.stage == "analyst" else teacher(request)

    return Scripted(answer)


def spoilt(request: Request) -> str:
    """Right if told to take care, unless told to guess as well."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = question.split(" + ")
    able = "carefully" in skill and "boldly" not in skill
    return str(int(left) + int(right)) if able else "0"


def racing(world: World, *, candidates: int = 4) -> TrainingRun:
    run = world.but(shape=PlanSettings(epochs=1, batch=4, seed=0), final_test=False).run()
    assert isinstance(run.optimizer, Pipeline)
    return replace(
        run,
        optimizer=replace(run.optimizer, vary=Vary(most=candidates - 1)),
        halving=SuccessiveHalving(
            runner=run.runner,
            schedule=HalveByGain(marks=Metric().marks, screen=0, block=2),
            gate=run.gate,
        ),
    )


async def one_step(run: TrainingRun, record: MemoryLog) -> tuple[State, Stepped]:
    state = await train(run, START)
    (step,) = [event for event in record.kept if isinstance(event, Stepped)]
    return state, step


async def test_a_part_that_does_better_than_the_bundle_meets_the_gate_alone() -> None:
    record = MemoryLog()
    world = World(
        record=record,
        target=Scripted(spoilt),
        optimizer=proposing("Guess boldly.", "Add carefully."),
    )
    state, step = await one_step(racing(world), record)
    assert step.action == "accept_new_best"
    assert step.draft.leading.name == "without 1"
    assert state.current.skill.body.endswith("- Add carefully.\n")
    assert [
        each.content for each in state.memory.steps[-1].accepted if isinstance(each, Append)
    ] == ["- Add carefully."]


async def test_what_gains_nothing_on_the_own_tasks_is_remembered_as_rejected() -> None:
    record = MemoryLog()
    world = World(record=record, optimizer=proposing("Guess boldly."))
    state, step = await one_step(racing(world), record)
    assert (step.action, step.decision) == ("skip_screened", None)
    assert meaning(Append("- Guess boldly.")) in state.memory.disproved


async def test_where_nothing_can_be_gained_nothing_is_tried_and_nothing_disproved() -> None:
    record = MemoryLog()
    always_right = Scripted(
        lambda request: str(sum(map(int, request.messages[1].text.split(" + "))))
    )
    world = World(record=record, target=always_right, optimizer=proposing("Guess boldly."))
    state, step = await one_step(racing(world), record)
    assert (step.action, step.rounds, step.decision) == ("skip_no_gain", (), None)
    assert not state.memory.disproved


@pytest.mark.parametrize("rules", [("Add carefully.",), ("Add carefully.", "Breathe.")])
async def test_the_best_of_several_on_val_must_be_as_much_surer(rules: tuple[str, ...]) -> None:
    record = MemoryLog()
    gate = Paired(STRICT.metric, alpha=0.2)
    world = World(record=record, optimizer=proposing(*rules), gate=gate)
    state, step = await one_step(racing(world), record)
    assert step.decision is not None
    assert state.spent == step.decision.level == 0.2
    bar = 0.2 / candidates_compared(step.rounds)
    assert f"<= {bar:.2g}" in step.decision.reason
    assert candidates_compared(step.rounds) == len(rules)


@pytest.mark.parametrize(
    ("alpha", "action", "spent"), [(0.1, "accept_new_best", 0.1), (0.05, "reject", 0.0)]
)
async def test_candidates_are_raced_on_val_only_if_the_gate_could_accept_the_best_of_them(
    alpha: float, action: str, spent: float
) -> None:
    """Four val tasks make p 0.0625 at best: enough for one candidate at 0.1, but not for two."""
    record = MemoryLog()
    gate = Paired(STRICT.metric, alpha=alpha)
    rules = proposing("Add carefully.", "Breathe.")
    world = World(record=record, optimizer=rules, gate=gate, replication=Replication(block=2))
    state, step = await one_step(racing(world), record)
    assert [each.split for each in step.rounds] == ["train"]
    assert (step.action, state.spent) == (action, spent)


def oldest(pool: Sequence[Measured], step: int) -> Measured:
    return pool[0]


async def test_an_older_parent_that_an_edit_leaves_as_it_is_does_not_meet_the_gate() -> None:
    record = MemoryLog()
    missing = {"op": "delete", "target": "- Not there.", "why": "seen"}
    useless = json.dumps({"reasoning": "r", "patterns": [], "edits": [missing]})
    teaching = iter((analysis("Add carefully."), useless))
    world = World(
        record=record,
        optimizer=Scripted(lambda request: next(teaching)),
        shape=PlanSettings(epochs=1, batch=2, seed=0),
        gate=Always(Metric()),
        final_test=False,
    )
    state = await train(replace(world.run(), parents=oldest), START)
    steps = [event for event in record.kept if isinstance(event, Stepped)]
    assert [step.action for step in steps] == ["force_accept", "skip_no_change"]
    assert steps[1].parent == "initial_skill"
    assert "carefully" in state.current.skill.body


def step_from(parent: str) -> Stepped:
    tried = Measured(Skill.parse("b\n"), Evaluation("b", "val", {}), 0.0, "step_0001", 1)
    edit = Append("- Rule.")
    return Stepped(
        move="step_0001",
        step=1,
        epoch=1,
        in_epoch=1,
        batches=(),
        patterns=(),
        draft=Draft(
            budget=1,
            candidates=(Candidate(report=(Placement(edit, "applied_append", "exact"),)),),
        ),
        action="reject",
        decision=Decision(tried, "reject", "no better"),
        parent=parent,
    )


@pytest.mark.parametrize(("parent", "disproved"), [("", True), ("initial_skill", False)])
def test_an_edit_is_disproved_only_on_top_of_the_skill_that_it_had_to_beat(
    parent: str, disproved: bool
) -> None:
    first = Measured(START, Evaluation("a", "val", {}), 0.0, "initial_skill", 0)
    state = State.after(Begun(first)).apply(step_from(parent))
    assert (meaning(Append("- Rule.")) in state.memory.disproved) is disproved
