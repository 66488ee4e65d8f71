"""Promise: what a run learns does not depend on how many tasks the gate looks at a time."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest
from support import Sums, World, analysis, teacher

from skillopt.core.chat import Request
from skillopt.core.events import Measured
from skillopt.core.facts import Stepped
from skillopt.core.ports import CompleteGate
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.engine.candidate_evaluation import CandidateEvaluation, Replication
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.gates.compared import Metric, NoRegression, Strict
from skillopt.gates.tested import Paired, Sequential
from skillopt.model.scripted import Scripted

SEED = Skill.parse("You add numbers.\n")
STRICT = Strict(Metric())
GATES: dict[str, CompleteGate] = {
    "strict": STRICT,
    "no_regression": NoRegression(STRICT.metric, max_broken=0.1),
    "paired": Paired(STRICT.metric, alpha=0.5),
    "paired, mid-p": Paired(STRICT.metric, alpha=0.5, mid=True),
    "sequential": Sequential(STRICT.metric, alpha=0.5),
    "paired, two looks": Paired(STRICT.metric, alpha=0.5, looks=2),
    "sequential, two rounds": Sequential(STRICT.metric, alpha=0.5, rounds=2),
}


@dataclass(slots=True)
class House:
    """A noisy target, and an optimizer that proposes rules which help or harm more or less."""

    seed: int

    def answer(self, request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        left, right = map(int, question.split(" + "))
        chance = 0.4 + sum(self._effect(n) for n in range(99) if f"- Rule {n}." in skill)
        luck = random.Random(f"{self.seed} {skill} {question} {request.replicate}").random()
        return str(left + right) if luck < chance else "0"

    def _effect(self, rule: int) -> float:
        return random.Random(f"{self.seed} rule {rule}").choice([-0.3, -0.1, 0.0, 0.1, 0.3, 0.5])

    def propose(self, request: Request) -> str:
        rule = random.Random(f"{self.seed} {request.messages[1].text}").randrange(40)
        if request.stage == "merge":
            edit = {"op": "append", "content": f"- Rule {rule}.", "from": [0]}
            return json.dumps({"edits": [edit]})
        return analysis(f"Rule {rule}.") if request.stage == "analyst" else teacher(request)


async def course(gate: CompleteGate, seed: int, block: int) -> list[object]:
    """What was tried and accepted, and what memory made of it."""
    house, record = House(seed), MemoryLog()
    most = 2 if isinstance(gate, Paired) and gate.looks == 2 else 1
    most = 2 if isinstance(gate, Sequential) and gate.rounds == 2 else most
    world = World(
        env=Sums(size=24),
        target=Scripted(house.answer),
        optimizer=Scripted(house.propose),
        record=record,
        gate=gate,
        shape=PlanSettings(epochs=2, batch=6, seed=seed),
        minibatch=24,
        replication=Replication(block=block, most=most),
        final_test=False,
    )
    state = await train(world.run(), SEED)
    steps = [event for event in record.kept if isinstance(event, Stepped)]
    tried = [
        (each.action, each.decision.candidate.skill.digest, each.decision.inconclusive)
        for each in steps
        if each.decision is not None
    ]
    assert len(tried) > 2
    kept = [(each.accepted, each.rejected, each.undecided) for each in state.memory.steps]
    return [tried, kept, state.memory.disproved, state.current.skill, state.best.skill]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", GATES)
async def test_the_course_of_a_run_is_the_same_for_blocks_of_any_size(kind: str, seed: int) -> None:
    full = await course(GATES[kind], seed, 0)
    for block in (1, 3, 8, 24):
        assert await course(GATES[kind], seed, block) == full


@pytest.mark.parametrize("kind", ["paired", "sequential"])
async def test_with_many_tasks_the_finding_is_the_same_for_blocks_of_any_size(kind: str) -> None:
    """So many that the gate looks after every third task only."""
    gate, env = GATES[kind], Sums(size=200)
    tasks = env.tasks("val")[:198]
    for seed in range(6):
        house, found = House(seed), set[str]()
        for block in (0, 1, 7, 64):
            runner = World(env=env, target=Scripted(house.answer)).runner()
            evaluation = await runner.measure(SEED, "val", tasks, "evaluate")
            incumbent = Measured(SEED, evaluation, 0.0, "initial_skill", 0)
            hearing = CandidateEvaluation(
                runner=runner,
                tasks=tasks,
                gate=gate,
                level=0.05,
                replication=Replication(block=block),
            )
            heard = await hearing.run(Skill.parse("You add!\n- Rule 1.\n"), "x", 1, incumbent)
            found.add(heard.verdict.finding)
        assert len(found) == 1
