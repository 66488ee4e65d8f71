"""Time saved and calls wasted by speculation: pairs of runs with a slow simulator."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from simulated import settings

from skillopt.api import train_async
from skillopt.core.state import State
from skillopt.testing.simulator import Simulator, initial_skill, write_data

HEAD = (
    *("start", "seed", "steps", "rejected", "same result", "without, s", "with, s", "time"),
    *("speculative", "unused", "calls", "wasted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """Settings of a pair of runs."""

    seed: int
    data: Path
    skill: str
    workers: int
    latency: tuple[float, float]


class Told(TypedDict):
    """What the summary of a run says; some of it."""

    total_steps: int
    total_rejects: int
    receipt: dict[str, dict[str, int]]
    speculation: dict[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went."""

    seconds: float
    state: State
    told: Told

    @property
    def calls(self) -> int:
        return self.told["receipt"]["_total"]["calls"]

    @property
    def begun(self) -> tuple[int, int]:
        """Attempts ahead: all, and those that nobody used."""
        match self.told.get("speculation"):
            case {"attempts": int(begun), "unused": {"attempts": int(unused)}}:
                return begun, unused
            case _:
                return 0, 0


async def run(bout: Bout, out: Path, *, ahead: bool) -> Outcome:
    async with Simulator(seed=bout.seed, noise=0.1, latency=bout.latency) as simulator:
        start = time.perf_counter()
        result = await train_async(
            skill=bout.skill,
            out=out,
            settings={
                **settings(simulator.url, bout.data, bout.workers),
                "num_epochs": 2,
                "batch_size": 10,
                "evaluation.block": bout.workers,
                "eval_test": False,
                "seed": bout.seed,
                "engine.speculate": ahead,
            },
        )
        seconds = time.perf_counter() - start
    told = cast("Told", json.loads((out / "summary.json").read_text("utf-8")))
    return Outcome(seconds, result.state, told)


def row(start: str, seed: int, plain: Outcome, ahead: Outcome) -> tuple[str, ...]:
    begun, unused = ahead.begun
    return (
        start,
        str(seed),
        str(plain.told["total_steps"]),
        str(plain.told["total_rejects"]),
        "yes" if plain.state == ahead.state else "NO",
        f"{plain.seconds:.1f}",
        f"{ahead.seconds:.1f}",
        f"{ahead.seconds / plain.seconds:.0%}",
        str(begun),
        str(unused),
        str(ahead.calls),
        f"{(ahead.calls - plain.calls) / ahead.calls:.1%}",
    )


async def compare(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Two rows for each seed: from a poor skill, and from the one that was learnt."""
    rows: list[tuple[str, ...]] = [HEAD]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            data = Path(folder) / f"data-{seed}"
            write_data(data, (60, options.val, 10), seed)
            skill = initial_skill()
            for start in ("poor", "learnt"):
                bout = Bout(
                    seed=seed,
                    data=data,
                    skill=skill,
                    workers=options.workers,
                    latency=(options.latency / 2, options.latency),
                )
                plain, ahead = await asyncio.gather(
                    run(bout, Path(folder) / f"{seed}-{start}-plain", ahead=False),
                    run(bout, Path(folder) / f"{seed}-{start}-ahead", ahead=True),
                )
                rows.append(row(start, seed, plain, ahead))
                skill = plain.state.best.skill.render()
    return rows


def show(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for each in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--val", type=int, default=40, help="val tasks")
    parser.add_argument("--workers", type=int, default=24, help="parallel attempts")
    parser.add_argument("--latency", type=float, default=1.0, help="maximum seconds of a call")
    show(asyncio.run(compare(parser.parse_args())))


if __name__ == "__main__":
    main()
