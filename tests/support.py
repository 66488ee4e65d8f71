"""A tiny world and a scripted pair of models, to run the whole loop without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from skillopt.analysis.pruning import Prune
from skillopt.core.chat import Model, Request
from skillopt.core.events import Event, Signal
from skillopt.core.ports import CompleteGate, EventLog, RolloutCache, Shortener
from skillopt.core.rollout import Evaluation, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.plan import Plan, PlanSettings
from skillopt.engine.rollouts import RolloutRunner
from skillopt.engine.run import TrainingRun
from skillopt.gates.compared import Metric, Strict
from skillopt.harness.chat import Chat
from skillopt.model.scripted import Scripted
from skillopt.optimizer.learning_rate import Constant
from skillopt.optimizer.merging import Aggregate
from skillopt.optimizer.meta_reflect import MetaReflect
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.reflect import Reflect
from skillopt.optimizer.selection import Select
from skillopt.optimizer.slow_update import LookBack
from skillopt.optimizer.update import Patch
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library
from skillopt.testing.doubles import MemoryCache

SHAPE = PlanSettings(epochs=2, batch=2, sample=2, last_sample=2, seed=0)
TWO = Constant(2)
_FIRST = {"train": 0, "val": 100, "test": 200}


@dataclass(frozen=True, slots=True)
class Question:
    brief: str
    expected: str
    instructions: str = "You add numbers."

    async def score(self, trajectory: Trajectory) -> Score:
        right = float(trajectory.answer.strip() == self.expected)
        said = f"wrong sum: expected {self.expected!r}, got {trajectory.answer!r}"
        return Score(right, right, "correct" if right else said)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of two numbers; disjoint numbers for disjoint splits."""

    size: int = 4
    name: str = "sums"
    fingerprint: str = "sums/1"

    def tasks(self, split: Split) -> Sequence[Task]:
        start = _FIRST[split]
        return [
            Task(f"{split}-{n}", "sum", {"q": f"{n} + {n + 1}", "a": str(2 * n + 1)})
            for n in range(start, start + self.size)
        ]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Question, None]:
        yield Question(str(task.data["q"]), str(task.data["a"]))


def pupil(request: Request) -> str:
    """Adds correctly only if the skill says so."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = question.split(" + ")
    return str(int(left) + int(right)) if "carefully" in skill else "0"


def teacher(request: Request) -> str:
    """Proposes a useless rule first and the right one once that is in its history."""
    user = request.messages[1].text
    match request.stage:
        case "analyst":
            rule = "Add carefully." if "boldly" in user else "Guess boldly."
            return analysis(rule) if 'score="0.00"' in user else analysis()
        case "merge":
            return json.dumps({"edits": [{"op": "append", "content": "Add.", "from": [0]}]})
        case "ranking":
            return json.dumps({"selected_indices": [1]})
        case "slow_update":
            return json.dumps({"reasoning": "r", "slow_update_content": "Stay calm."})
        case "meta_reflect":
            edits = [{"op": "append", "content": "- Check twice.", "why": "seen"}]
            return json.dumps({"reasoning": "r", "directions": ["d"], "edits": edits})
        case "meta_skill":
            return json.dumps({"reasoning": "r", "meta_skill_content": "Acting boldly fails."})
        case stage:
            raise AssertionError(stage)


def analysis(*rules: str) -> str:
    edits = [{"op": "append", "content": f"- {rule}", "why": "seen"} for rule in rules]
    return json.dumps(
        {"reasoning": "r", "patterns": [{"name": "wrong sum", "count": 1}], "edits": edits}
    )


@dataclass(slots=True)
class Seen:
    """A watcher that remembers."""

    events: list[Event | Signal] = field(default_factory=list[Event | Signal])

    def __call__(self, event: Event | Signal) -> None:
        self.events.append(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The parts of a run; replace what a test is about."""

    env: Sums = field(default_factory=Sums)
    target: Model = field(default_factory=lambda: Scripted(pupil))
    optimizer: Model = field(default_factory=lambda: Scripted(teacher))
    record: EventLog = field(default_factory=MemoryLog)
    cache: RolloutCache = field(default_factory=MemoryCache)
    seen: Seen = field(default_factory=Seen)
    gate: CompleteGate = field(default_factory=lambda: Strict(Metric()))
    slow_gate: CompleteGate = field(default_factory=lambda: Strict(Metric()))
    shape: PlanSettings = SHAPE
    budget: Callable[[int, int], int] = TWO
    minibatch: int = 8
    workers: int = 8
    max_failed: float = 0.1
    replication: Replication = field(default_factory=Replication)
    final_test: bool = True
    identity: dict[str, str] = field(default_factory=dict[str, str])

    def runner(self) -> RolloutRunner:
        return RolloutRunner(
            environment=self.env,
            harness=Chat(self.target),
            cache=self.cache,
            sink=EventSink(self.record, self.seen),
            workers=self.workers,
            max_failed=self.max_failed,
        )

    def run(self, *, shortener: Shortener | None = None) -> TrainingRun:
        runner = self.runner()
        asker = Asker(self.optimizer, Library(), runner.sink)
        test = self.env.tasks("test") if self.final_test else None
        return TrainingRun(
            runner=runner,
            plan=Plan.build(self.env.tasks("train"), self.shape, self.budget, test),
            val=self.env.tasks("val"),
            optimizer=Pipeline(
                reflect=Reflect(asker=asker, minibatch_size=self.minibatch),
                merge=Aggregate(asker=asker),
                select=Select(asker=asker),
                update=Patch(sink=runner.sink),
            ),
            reviewer=LookBack(asker=asker, guides=True, teaches=True),
            meta_reflector=MetaReflect(asker=asker, update=Patch(sink=runner.sink)),
            pruner=self._pruner(runner),
            gate=self.gate,
            slow_gate=self.slow_gate,
            replication=self.replication,
            identity=self.identity,
            shortener=shortener,
        )

    def _pruner(self, runner: RolloutRunner) -> Prune:
        async def measure(trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
            return await runner.measure_each(trials, "train", "leave one out", against="first")

        return Prune(
            measure=measure,
            metric=Metric(),
            gate=Strict(Metric(), ties=True),
            tasks={task.id: task for task in self.env.tasks("train")},
        )

    def but(self, **changes: object) -> World:
        return replace(self, **changes)
