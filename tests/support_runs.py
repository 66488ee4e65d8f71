"""Whole runs against the simulator, in this process or in one that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    start: str = "start.md"
    """The skill to start from, within the data."""
    more: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings of the mode under test."""

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
            # The published protocol, so that modes are tried one by one.
            "optimizer.select_mode": "ranking",
            **self.more,
        }

    async def here(self, more: Mapping[str, object] | None = None) -> Result:
        """Run in this process."""
        settings = {**self.settings(), **(more or {})}
        return await train_async(skill=self.data / self.start, settings=settings)

    async def apart(self) -> asyncio.subprocess.Process:
        """Start in a process of its own."""
        words = [f"{key}={json.dumps(value)}" for key, value in self.settings().items()]
        start = f"env.skill_init={self.data / self.start}"
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "skillopt", "train", *words, start),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


def make_data(folder: Path, sizes: tuple[int, int, int] = (40, 30, 20), seed: int = 3) -> Path:
    """Data and a skill to start from."""
    write_data(folder, sizes, seed)
    (folder / "start.md").write_text(initial_skill(), encoding="utf-8")
    return folder


def make_package(folder: Path) -> Path:
    """The skill to start from, as a package whose references have no rules yet."""
    references = folder / "references"
    references.mkdir(parents=True)
    front = "---\nname: office-clerk\ndescription: Fills in forms.\n---\n"
    (folder / "SKILL.md").write_text(front + initial_skill(), encoding="utf-8")
    for name, about in (
        ("money", "Invoice amounts and billable time."),
        ("times", "Delivery dates, planning weeks and start times."),
    ):
        text = f"# House style: {name}\n\n{about}\n"
        (references / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def told(out: Path) -> dict[str, object]:
    """What a run directory says, without how long things took."""
    found: dict[str, object] = {"best": (out / "best_skill.md").read_text(encoding="utf-8")}
    for name in ("history.json", "summary.json", "runtime_state.json"):
        found[name] = timeless(json.loads((out / name).read_text(encoding="utf-8")))
    return found


def timeless(value: object) -> object:
    """The same JSON without durations, places and what a process found finished."""
    match value:
        case dict():
            items = cast("dict[str, object]", value).items()
            skipped = TIMES | {"config", "out_root", "base_url", "reused"}
            return {
                key: Path(str(each)).name if key.endswith("_skill_path") else timeless(each)
                for key, each in items
                if key not in skipped
            }
        case list():
            return [timeless(each) for each in cast("list[object]", value)]
        case _:
            return value


def facts(out: Path) -> list[object]:
    """The facts of a record, as JSON without their place in the chain."""
    lines = (out / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [cast("dict[str, object]", json.loads(line)) for line in lines]
    kept = ("begun", "stepped", "meta_reflected", "pruned", "epoch_closed", "examined")
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


@dataclass(frozen=True, slots=True)
class Uncut:
    """A run that nobody disturbed: how it was started, what it says, and the calls it took."""

    job: Job
    says: dict[str, object]
    facts: list[object]
    calls: int


def run_uncut(folder: Path, *, epochs: int = 2, **more: object) -> Uncut:
    """Run once on a simulator of its own; `more`: settings, with `__` for the dot of a key."""
    data = make_data(folder / "data")
    settings = {key.replace("__", "."): value for key, value in more.items()}

    async def run() -> Uncut:
        async with Simulator(seed=1) as sim:
            job = Job(url=sim.url, data=data, out=folder / "run", epochs=epochs, more=settings)
            await job.here()
            return Uncut(job, told(job.out), facts(job.out), await until_quiet(sim))

    return asyncio.run(run())


async def killed(
    job: Job, sim: Simulator, moment: int, calls: int, by: signal.Signals = signal.SIGKILL
) -> int:
    """Stop a run of so many calls at a moment; how many calls were finished and not kept."""
    process = await job.apart()
    kill_at = random.Random(moment).randrange(1, calls)
    while sim.stats().requests < kill_at and process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    process.send_signal(by)
    await process.communicate()
    return await until_quiet(sim) - kept_calls(job.out)


async def finished(job: Job) -> None:
    """Run to the end in a process of its own."""
    process = await job.apart()
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def kill_and_resume(
    moment: int, uncut: Uncut, out: Path, by: signal.Signals = signal.SIGKILL
) -> None:
    """Stop the same run at a moment, start it again, and find that nothing shows or costs more."""
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        job = replace(uncut.job, url=sim.url, out=out)
        lost = await killed(job, sim, moment, uncut.calls, by)
        assert 0 <= lost <= job.workers + job.analysts
        await finished(job)
        assert told(job.out) == uncut.says
        assert facts(job.out) == uncut.facts
        assert await until_quiet(sim) == uncut.calls + lost
