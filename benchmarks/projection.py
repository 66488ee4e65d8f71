"""Measures what the files of a run directory cost after each step of a long run.

Projects a made-up run of 200 steps (every step with attempts, proposals and a decision) event by
event, as a training does, and compares the time after late steps with that after early ones.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from skillopt.core.chat import Message, Reply, Usage
from skillopt.core.edits import Append, apply_edits
from skillopt.core.events import Begun, Decision, Event, Measured, Started, Timed
from skillopt.core.facts import Batch, Stepped
from skillopt.core.proposal import Candidate, Draft, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Evaluation, Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout
from skillopt.store.projector import Projector

TRAIN = tuple(f"train-{number:03}" for number in range(20))
VAL = tuple(f"val-{number:03}" for number in range(40))
START = Skill.parse("# Forms\n\n- Fill in every field.\n")
NEAR = 5
"""Steps on each side of a step; the least time of them is its time, free of other load."""


def evaluation(skill: Skill, split: Split, tasks: tuple[str, ...]) -> Evaluation:
    """Half marks for everything."""
    return Evaluation(skill.digest, split, {task: Score(0.5, 0.5) for task in tasks})


def events(steps: int) -> Iterator[Event]:
    """A run in which every tenth step is accepted."""
    skill = START
    yield Started("2026-01-01T00:00:00Z", "0")
    yield Begun(Measured(skill, evaluation(skill, "val", VAL), 0.5, "initial_skill", 0))
    for number in range(1, steps + 1):
        edit = Append(f"- Rule {number}: dates are written as year, month and day.")
        applied = apply_edits(skill, [edit])
        proposals = (Proposal(edit, "failure", TRAIN[:3], why="dates were wrong"),) * 4
        accepted = number % 10 == 0
        action = "accept_new_best" if accepted else "reject"
        origin = f"step_{number:04d}"
        value = Measured(applied.skill, evaluation(applied.skill, "val", VAL), 0.5, origin, number)
        yield Timed(origin, "total", 1.0)
        yield Stepped(
            move=origin,
            step=number,
            epoch=1 + (number - 1) // 50,
            in_epoch=1 + (number - 1) % 50,
            batches=(Batch(TRAIN, evaluation(skill, "train", TRAIN)),),
            patterns=(),
            draft=Draft(
                budget=4,
                findings=tuple(
                    Finding(source="failure", batch=0, number=n, tasks=TRAIN, proposals=proposals)
                    for n in range(4)
                ),
                merged=ProposalSet(proposals),
                candidates=(
                    Candidate(
                        chosen=Selection(proposals[:1]),
                        report=applied.report,
                        skill=applied.skill,
                    ),
                ),
            ),
            action=action,
            decision=Decision(value, action, "as planned", new_best=accepted),
        )
        skill = applied.skill if accepted else skill


async def fill(cache: SqliteCache, step: Stepped) -> None:
    """The finished work of a step."""
    cache.enter(step.move)
    assert step.decision is not None
    skills = {step.batches[0].evaluation.skill: TRAIN, step.decision.candidate.skill.digest: VAL}
    for skill, tasks in skills.items():
        for task in tasks:

            async def make(task: str = task, skill: str = skill) -> Rollout:
                said = (Message("user", "do it"), Message("assistant", "done"))
                trajectory = Trajectory(said, "done", Usage(1, 10, 5), turns=1)
                return Rollout(
                    task=task,
                    kind="",
                    skill=skill,
                    outcome=Score(0.5, 0.5),
                    trajectory=trajectory,
                )

            async def reply() -> Reply:
                return Reply(text="done", usage=Usage(1, 10, 5))

            key = f"{step.move}/{skill}/{task}"
            await cache.rollout(key, make)
            await cache.reply(f"{key}/call", role="target", stage="rollout", make=reply)


def measure(folder: Path, steps: int) -> list[float]:
    """CPU seconds of projecting each step."""
    layout = Layout(folder)
    cache = SqliteCache(layout.cache)
    projector = Projector(layout, cache, {"seed": 1, "accumulation": 1})
    seconds: list[float] = []
    for event in events(steps):
        if not isinstance(event, Stepped):
            projector(event)
            continue
        asyncio.run(fill(cache, event))
        start = time.process_time()
        projector(event)
        seconds.append(time.process_time() - start)
    cache.close()
    return seconds


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(Path(folder), steps)
        sizes = {name: (Path(folder) / name).stat().st_size for name in ("history.json",)}
    early, late = (min(seconds[n - NEAR : n + NEAR]) for n in (steps // 10, steps - NEAR))
    print(
        f"after step {steps // 10}: {early * 1e3:.1f} ms, after step {steps}: {late * 1e3:.1f} ms"
    )
    print(f"ratio: {late / early:.2f}; history.json: {sizes['history.json'] / 1024:.0f} KiB")


if __name__ == "__main__":
    sys.exit(main())
