"""A job without a skill: every task is passed with a chance of its own, whatever the skill says.

The trainer is the real one; only the world, the harness and the optimizer are made up. Since no
candidate can be better than another, every accepted one is a false accept.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from skillopt.core.edits import Append, apply_edits
from skillopt.core.events import Decision, Event, Signal, Ticked
from skillopt.core.facts import EpochClosed, MetaReflected, Stepped
from skillopt.core.memory import Memory
from skillopt.core.ports import CompleteGate, Episode
from skillopt.core.proposal import Candidate, Draft, Selection
from skillopt.core.rollout import Evaluation, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.halving import HalveByGain, SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.plan import Plan, PlanSettings
from skillopt.engine.rollouts import RolloutRunner
from skillopt.engine.run import TrainingRun
from skillopt.gates.compared import Metric
from skillopt.model.scripted import Scripted
from skillopt.optimizer.slow_update import LookBack
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library
from skillopt.testing.doubles import MemoryCache

START = Skill.parse("Toss a coin.\n")


@dataclass(frozen=True, slots=True)
class Toss:
    """One coin to toss; the brief says how it falls on average."""

    brief: str
    instructions: str = ""

    async def score(self, trajectory: Trajectory) -> Score:
        fell = float(trajectory.answer)
        return Score(fell, fell)


@dataclass(frozen=True, slots=True)
class Coins:
    """Tasks from hopeless to safe: chances are spread evenly between 0 and 1."""

    seed: int
    sizes: dict[Split, int]
    name: str = "coins"
    fingerprint: str = "coins/1"

    def tasks(self, split: Split) -> Sequence[Task]:
        rng = random.Random(f"{self.seed} {split}")
        return [Task(f"{split}-{n}", "coin", {"p": rng.random()}) for n in range(self.sizes[split])]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Toss, None]:
        yield Toss(f"{task.id} {task.data['p']}")


@dataclass(frozen=True, slots=True)
class Hand:
    """Tosses: fresh for every text and every replicate, and the same when asked again."""

    seed: int

    @property
    def fingerprint(self) -> str:
        return f"hand/{self.seed}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        chance = float(episode.brief.split()[1])
        text = f"{self.seed} {episode.brief} {skill.digest} {replicate}"
        drawn = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
        return Trajectory((), answer=str(int(drawn / 2**56 < chance)))


@dataclass(slots=True)
class Idle:
    """Proposes remarks that change nothing."""

    candidates: int = 1
    made: int = 0

    async def propose(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> Draft:
        candidates: list[Candidate] = []
        for _ in range(self.candidates):
            self.made += 1
            changed = apply_edits(skill, [Append(f"Remark {self.made}.")]).skill
            candidates.append(
                Candidate(name=f"remark {self.made}", chosen=Selection(), skill=changed)
            )
        return Draft(budget=budget, candidates=tuple(candidates))


@dataclass(slots=True)
class Counted:
    """A watcher that counts what gates cost and keeps what they said."""

    attempts: int = 0
    decisions: list[tuple[str, Decision]] = field(default_factory=list[tuple[str, Decision]])

    def __call__(self, event: Event | Signal) -> None:
        match event:
            case Ticked(move, phase) if move != "baseline":
                self.attempts += phase in {"evaluate", "race"} or phase.startswith("replicate")
            case Stepped() | MetaReflected() | EpochClosed() if event.decision is not None:
                self.decisions.append((event.move, event.decision))
            case _:
                pass


class Freely(HalveByGain):
    """Lets every candidate run on validation tasks; then the better half goes on, to the end."""

    def screening(self, known: Evaluation) -> list[list[str]]:
        return [list(known.scores)]

    def screened(self, gains: Mapping[str, float]) -> list[str]:
        return list(gains)


async def toss(
    seed: int,
    gate: CompleteGate,
    replication: Replication,
    *,
    val: int,
    steps: int,
    candidates: int = 1,
) -> Counted:
    """One training run of so many steps."""
    env = Coins(seed, {"train": steps, "val": val, "test": 0})
    seen = Counted()
    runner = RolloutRunner(
        environment=env,
        harness=Hand(seed),
        cache=MemoryCache(),
        sink=EventSink(MemoryLog(), seen),
    )
    asker = Asker(Scripted(str), Library(), runner.sink)
    run = TrainingRun(
        runner=runner,
        plan=Plan.build(env.tasks("train"), PlanSettings(epochs=1, batch=1), lambda _, __: 1, None),
        val=env.tasks("val"),
        optimizer=Idle(candidates),
        reviewer=LookBack(asker=asker, guides=False, teaches=False),
        gate=gate,
        slow_gate=gate,
        replication=replace(replication, block=runner.workers),
        halving=SuccessiveHalving(
            runner=runner,
            schedule=Freely(marks=Metric().marks, screen=0, block=val // 2),
            gate=gate,
        )
        if candidates > 1
        else None,
    )
    await train(run, START)
    return seen
