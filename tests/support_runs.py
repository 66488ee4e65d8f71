"""Whole runs against the simulator, in this process or in one that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from skillopt.api import Result, train_async
from skillopt.testing.simulator import Simulator, initial_skill, write_data

ROOT = Path(__file__).parent.parent
TIMES = {"timing", "wall_time_s", "time_s", "total_wall_time_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command: run twice, it continues."""

    url: str
    data: Path
    out: Path
    epochs: int = 2
    batch: int = 20
    workers: int = 16
    analysts: int = 16
    seed: int = 42

    def settings(self) -> dict[str, object]:
        return {
            "model.backend": "openai_compatible",
            "model.base_url": self.url,
            "model.target": "simulated-target",
            "model.optimizer": "simulated-optimizer",
            "env.name": "custom",
            "env.split_mode": "split_dir",
            "env.split_dir": str(self.data),
            "env.out_root": str(self.out),
            "env.workers": self.workers,
            "gradient.analyst_workers": self.analysts,
            "train.num_epochs": self.epochs,
            "train.batch_size": self.batch,
            "train.seed": self.seed,
        }

    async def here(self, more: Mapping[str, object] | None = None) -> Result:
        """Run in this process."""
        settings = {**self.settings(), **(more or {})}
        return await train_async(skill=initial_skill(), settings=settings)

    async def apart(self) -> asyncio.subprocess.Process:
        """Start in a process of its own."""
        words = [f"{key}={json.dumps(value)}" for key, value in self.settings().items()]
        start = f"env.skill_init={self.data / 'start.md'}"
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "skillopt", "train", *words, start),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )


def make_data(folder: Path, sizes: tuple[int, int, int] = (40, 30, 20), seed: int = 3) -> Path:
    """Data and a skill to start from."""
    write_data(folder, sizes, seed)
    (folder / "start.md").write_text(initial_skill(), encoding="utf-8")
    return folder


def told(out: Path) -> dict[str, object]:
    """What a run directory says, without how long things took."""
    found: dict[str, object] = {"best": (out / "best_skill.md").read_text(encoding="utf-8")}
    for name in ("history.json", "summary.json", "runtime_state.json"):
        found[name] = timeless(json.loads((out / name).read_text(encoding="utf-8")))
    return found


def timeless(value: object) -> object:
    """The same JSON without durations and places."""
    match value:
        case dict():
            items = cast("dict[str, object]", value).items()
            skipped = TIMES | {"config", "out_root", "base_url"}
            return {key: timeless(each) for key, each in items if key not in skipped}
        case list():
            return [timeless(each) for each in cast("list[object]", value)]
        case _:
            return value


def facts(out: Path) -> list[object]:
    """The facts of a record, as JSON without their place in the chain."""
    lines = (out / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [cast("dict[str, object]", json.loads(line)) for line in lines]
    kept = ("begun", "stepped", "epoch_closed", "examined")
    chain = ("seq", "sum", "identity")
    return [
        {key: value for key, value in event.items() if key not in chain}
        for event in events
        if event["type"] in kept
    ]


def kept_calls(out: Path) -> int:
    """How many finished calls a run directory holds."""
    path = out / "cache.sqlite"
    if not path.exists():
        return 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        try:
            (count,) = db.execute("select count(*) from calls").fetchone()
        except sqlite3.OperationalError:
            return 0
    db.close()
    return int(count)


async def until_quiet(sim: Simulator) -> int:
    """Wait until the server has nothing under way; how many calls it has finished."""
    while sim.stats().in_flight:  # noqa: ASYNC110 - the server is asked, as a client would
        await asyncio.sleep(0.01)
    return sum(sim.stats().completed.values())
