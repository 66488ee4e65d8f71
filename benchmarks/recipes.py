"""Two recipes on the same data: what they reach, and how often they call the target."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from simulated import settings

from skillopt.api import evaluate_async, train_async
from skillopt.testing.simulator import Simulator, initial_skill, write_data

PRESETS = Path(__file__).parent.parent / "configs" / "presets"
SIZES = (160, 80, 300)
WORKERS = 8


@dataclass(frozen=True, slots=True)
class Reached:
    """What a run came to."""

    target: int
    """Calls of the target, without the exam."""
    optimizer: int
    score: float
    """Of its best skill on test items, by a target that never slips: what was really learnt."""


async def reach(preset: str, seed: int, noise: float, folder: Path) -> Reached:
    """Train by a preset, then find out what the best skill is worth."""
    data, out = folder / f"data-{seed}", folder / f"{preset}-{seed}"
    write_data(data, SIZES, seed)
    async with Simulator(seed=seed, noise=noise) as simulator:
        await train_async(
            PRESETS / f"{preset}.yaml",
            skill=initial_skill(),
            out=out,
            settings={**settings(simulator.url, data, WORKERS), "seed": seed, "eval_test": False},
        )
        asked = simulator.stats().replies
    async with Simulator(seed=seed, noise=0) as simulator:
        found = await evaluate_async(
            out / "best_skill.md",
            split="test",
            out=folder / f"exam-{preset}-{seed}",
            settings=settings(simulator.url, data, WORKERS),
        )
    calls = asked["target"]
    return Reached(calls, sum(asked.values()) - calls - asked["ping"], found.whole.hard)


async def recipes(seeds: int, noise: float) -> list[tuple[str, ...]]:
    """A row for each seed: both presets, and the share of calls that the efficient one needs."""
    rows: list[tuple[str, ...]] = [
        ("seed", "paper: calls", "score", "efficient: calls", "score", "share", "optimizer calls")
    ]
    pairs: list[tuple[Reached, Reached]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            paper = await reach("paper", seed, noise, Path(folder))
            efficient = await reach("efficient", seed, noise, Path(folder))
            pairs.append((paper, efficient))
            rows.append((str(seed), *_row(paper, efficient)))
    papers, efficients = zip(*pairs, strict=True)
    rows.append(("mean", *_row(_mean(papers), _mean(efficients))))
    worst = [f"{min(each.score for each in some):.3f}" for some in (papers, efficients)]
    return [*rows, ("worst", "", worst[0], "", worst[1], "", "")]


def _row(paper: Reached, efficient: Reached) -> tuple[str, ...]:
    return (
        str(paper.target),
        f"{paper.score:.3f}",
        str(efficient.target),
        f"{efficient.score:.3f}",
        f"{efficient.target / paper.target:.0%}",
        f"{efficient.optimizer} against {paper.optimizer}",
    )


def _mean(found: tuple[Reached, ...]) -> Reached:
    return Reached(
        round(fmean(each.target for each in found)),
        round(fmean(each.optimizer for each in found)),
        fmean(each.score for each in found),
    )
