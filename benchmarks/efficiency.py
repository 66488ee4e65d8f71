"""False accepts of gates, presets, calls saved by early stopping, and whether limits hold."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coins import Counted, toss
from efficiency_caps import caps
from recipes import SIZES, recipes
from simulated import settings

from skillopt.api import train_async
from skillopt.core.ports import CompleteGate
from skillopt.engine.candidate_evaluation import Replication
from skillopt.gates.compared import Metric, NotWorse, Strict
from skillopt.gates.statistics import interval
from skillopt.gates.tested import Paired, Sequential
from skillopt.testing.simulator import Simulator, initial_skill, write_data

STRICT = Strict(Metric())
MOST = 3
WORKERS = 8


@dataclass(frozen=True, slots=True)
class Contender:
    """A gate under test, and how much evidence it may buy."""

    name: str
    gate: CompleteGate
    replication: Replication
    candidates: int = 1


def contenders(alpha: float) -> list[Contender]:
    once, thrice = Replication(), Replication(most=MOST)
    changed = Replication(most=MOST, changed_only=True)
    return [
        Contender("strict", STRICT, once),
        Contender("not worse", NotWorse(STRICT.metric), once),
        Contender("paired", Paired(STRICT.metric, alpha=alpha), once),
        Contender("paired, mid-p", Paired(STRICT.metric, alpha=alpha, mid=True), once),
        Contender("paired, best of 4", Paired(STRICT.metric, alpha=alpha), once, 4),
        Contender("paired, replicates", Paired(STRICT.metric, alpha=alpha, looks=MOST), thrice),
        Contender("paired, changed", Paired(STRICT.metric, alpha=alpha, looks=MOST), changed),
        Contender("sequential", Sequential(STRICT.metric, alpha=alpha), once),
        Contender("sequential, replicates", Sequential(STRICT.metric, alpha=alpha), thrice),
        Contender("sequential, changed", Sequential(STRICT.metric, alpha=alpha), changed),
    ]


async def idle_runs(each: Contender, runs: int, val: int, steps: int) -> list[Counted]:
    """Whole training runs whose candidates change nothing."""
    return [
        await toss(
            seed, each.gate, each.replication, val=val, steps=steps, candidates=each.candidates
        )
        for seed in range(runs)
    ]


def accepted(counted: Counted) -> int:
    return sum(decision.accepted for _, decision in counted.decisions)


async def false_accepts(runs: int, val: int, steps: int, alpha: float) -> list[tuple[str, ...]]:
    """A row for each gate: how often luck alone changed the skill."""
    rows: list[tuple[str, ...]] = [
        ("gate", "stated", "runs with a false accept", "95 %", "per decision", "attempts")
    ]
    for each in contenders(alpha):
        found = await idle_runs(each, runs, val, steps)
        fooled = interval(float(accepted(run) > 0) for run in found)
        decisions = sum(len(run.decisions) for run in found)
        rows.append(
            (
                each.name,
                f"{alpha:.0%}" if each.gate.alpha else "-",
                f"{fooled.mean:.1%} of {runs}",
                f"{fooled.low:.1%} to {fooled.high:.1%}",
                f"{sum(map(accepted, found)) / decisions:.1%}",
                f"{sum(run.attempts for run in found) / decisions:.1f}",
            )
        )
    return rows


async def trained(seed: int, data: Path, out: Path, *, block: int) -> Counted:
    """A training run against the simulator; what its gates cost and said."""
    seen = Counted()
    async with Simulator(seed=seed, noise=0.1) as simulator:
        await train_async(
            skill=initial_skill(),
            out=out,
            watch=seen,
            settings={
                **settings(simulator.url, data, WORKERS),
                "num_epochs": 3,
                "batch_size": 10,
                "eval_test": False,
                "seed": seed,
                "evaluation.block": block,
            },
        )
    return seen


async def lossless(seeds: int, val: int) -> list[tuple[str, ...]]:
    """A row for each seed: gate attempts with full and with curtailed evaluation."""
    rows: list[tuple[str, ...]] = [
        ("seed", "decisions", "rejected", "the same", "full", "stopped early", "saved")
    ]
    sums = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            data = Path(folder) / f"data-{seed}"
            write_data(data, (40, val, 10), seed)
            full, less = [
                await trained(seed, data, Path(folder) / f"{seed}-{block}", block=block)
                for block in (0, WORKERS)
            ]
            said = [
                [(move, decision.action, decision.candidate.skill) for move, decision in each]
                for each in (full.decisions, less.decisions)
            ]
            sums = [sums[0] + full.attempts, sums[1] + less.attempts]
            rejected = sum(not decision.accepted for _, decision in full.decisions)
            rows.append(
                (
                    str(seed),
                    str(len(full.decisions)),
                    str(rejected),
                    "yes" if said[0] == said[1] else "NO",
                    str(full.attempts),
                    str(less.attempts),
                    f"{1 - less.attempts / full.attempts:.0%}",
                )
            )
    rows.append(("all", "", "", "", *map(str, sums), f"{1 - sums[1] / sums[0]:.0%}"))
    return rows


def show(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\n{title}\n")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="training runs per gate")
    parser.add_argument("--steps", type=int, default=8, help="candidates per run")
    parser.add_argument("--val", type=int, default=40, help="val tasks")
    parser.add_argument("--alpha", type=float, default=0.1, help="allowed false-accept rate")
    parser.add_argument("--seeds", type=int, default=5, help="pairs of runs for early stopping")
    parser.add_argument("--recipe-seeds", type=int, default=10, help="pairs of runs per noise")
    parser.add_argument("--noise", type=float, nargs="*", default=[0.04, 0.1])
    options = parser.parse_args()
    show(
        f"Candidates without effect: {options.steps} per run, {options.val} noisy val tasks",
        await false_accepts(options.runs, options.val, options.steps, options.alpha),
    )
    for noise in options.noise:
        show(
            f"Presets, {SIZES[0]} train and {SIZES[1]} val tasks, noise {noise} (SIMULATED models)",
            await recipes(options.recipe_seeds, noise),
        )
    show(
        f"Early stopping, {options.val} val tasks in blocks of {WORKERS} (SIMULATED models)",
        await lossless(options.seeds, options.val),
    )
    show(
        "Limits at half of the cost of a run; after limits.minutes, running calls are finished",
        await caps(options.seeds),
    )


if __name__ == "__main__":
    asyncio.run(main())
