"""A large record of a run, written as the store writes it: steps, attempts, calls."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from skillopt.core.chat import Message, Usage
from skillopt.core.edits import Append, apply_edits
from skillopt.core.events import (
    Action,
    Begun,
    Decision,
    Event,
    FinalTested,
    Finished,
    Measured,
    Started,
    Timed,
)
from skillopt.core.facts import Batch, Stepped
from skillopt.core.proposal import Candidate, Draft, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Evaluation, Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout

FIRST = "# House style\n\n- Write dates as YYYY-MM-DD.\n"


class LargeRecord:
    """A run of so many steps, each with so many attempts on train and on val."""

    def __init__(self, out: Path, *, steps: int, train: int = 20, val: int = 30) -> None:
        self.layout = Layout(out)
        self.steps = steps
        self._train, self._val = train, val
        self._chance = random.Random(7)  # noqa: S311 - the same record every time

    def write(self) -> Path:
        """The event log, the cache and the settings; the folder."""
        root = self.layout.root
        root.mkdir(parents=True)
        skill = Skill.parse(FIRST)
        current = self._measured(skill, "initial_skill", 0, 0.4)
        events: list[Event] = [
            Started("2026-11-18T00:00:00+00:00", "0.4.0"),
            Begun(current, gates=self.steps),
        ]
        skills = [skill]
        for number in range(1, self.steps + 1):
            step, current = self._step(number, current)
            skills.append(step.decision.candidate.skill if step.decision else skill)
            events += [Timed(step.move, "total", 31.5), step]
        test = [self._evaluated(each, "test", self._val, 0.5) for each in (skill, current.skill)]
        events += [
            FinalTested(move="final_test", tasks="t", initial=test[0], best=test[1], last=test[1]),
            Finished("2026-11-18T09:00:00+00:00"),
        ]
        log = EventFile(self.layout.events)
        for event in events:
            log.append(event)
        config = {
            "env.name": "custom",
            "target_model": "simulated-target",
            "optimizer_model": "simulated-optimizer",
        }
        self.layout.config.write_text(json.dumps(config), encoding="utf-8")
        asyncio.run(self._attempts(skills))
        return root

    async def _attempts(self, skills: list[Skill]) -> None:
        cache = SqliteCache(self.layout.cache)
        cache.enter("step_0001")
        text = "What the agent says is about as long as this sentence. " * 12
        for number, skill in enumerate(skills):
            for task in range(self._train + self._val):
                name = f"v{task - self._train}" if task >= self._train else self._task(number, task)
                mark = float(self._chance.random() < 0.6)
                said = (
                    Message("system", skill.render()[:400]),
                    Message("user", f"do {name}"),
                    Message("assistant", text),
                )
                made = Rollout(
                    task=name,
                    skill=skill.digest,
                    outcome=Score(mark, mark, "format: wrong"),
                    trajectory=Trajectory(said, "42", Usage(1, 300, 120)),
                )

                async def make(made: Rollout = made) -> Rollout:
                    return made

                await cache.rollout(f"{number}/{task}", make)
        cache.close()

    def _task(self, step: int, place: int) -> str:
        """Train tasks come again in every epoch of ten steps."""
        return f"t{(step % 10) * self._train + place}"

    def _step(self, number: int, current: Measured) -> tuple[Stepped, Measured]:
        edit = Append(f"- Rule {number}: write it as form {number} wants it, not otherwise.")
        skill = apply_edits(current.skill, [edit]).skill
        accepted = number % 25 == 0
        candidate = self._measured(
            skill, f"step_{number:04d}", number, 0.4 + 0.5 * number / self.steps
        )
        action: Action = "accept_new_best" if accepted else "reject"
        tasks = tuple(self._task(number, task) for task in range(self._train))
        evaluation = self._evaluated(current.skill, "train", self._train, 0.5, tasks)
        proposal = Proposal(edit, "failure", tasks[:4], why="The agent did not know the form.")
        draft = Draft(
            budget=4,
            findings=(
                Finding(
                    source="failure",
                    batch=0,
                    number=0,
                    tasks=tasks,
                    reasoning="All of them lack the form.",
                    proposals=(proposal,),
                ),
            ),
            merged=ProposalSet((proposal,)),
            candidates=(
                Candidate(
                    chosen=Selection((proposal,)),
                    report=apply_edits(current.skill, [edit]).report,
                    skill=skill,
                ),
            ),
        )
        step = Stepped(
            move=f"step_{number:04d}",
            step=number,
            epoch=1 + number // 10,
            in_epoch=number % 10,
            batches=(Batch(tasks, evaluation),),
            patterns=(),
            draft=draft,
            action=action,
            decision=Decision(
                candidate, action, "5 wins, 1 loss, p 0.02 <= 0.05", new_best=accepted
            ),
        )
        return step, candidate if accepted else current

    def _measured(self, skill: Skill, origin: str, step: int, chance: float) -> Measured:
        evaluation = self._evaluated(skill, "val", self._val, chance)
        return Measured(skill, evaluation, evaluation.hard, origin, step)

    def _evaluated(
        self, skill: Skill, split: Split, n: int, chance: float, tasks: tuple[str, ...] = ()
    ) -> Evaluation:
        names = tasks or [f"v{task}" for task in range(n)]
        marks = {name: float(self._chance.random() < chance) for name in names}
        return Evaluation(skill.digest, split, {name: Score(m, m) for name, m in marks.items()})
