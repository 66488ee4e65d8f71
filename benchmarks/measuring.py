"""Runs a client against a fresh simulator and tells what the client's process cost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from clients import Client, Command, Job
from workload import SKILL, write_split


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that one evaluation took; CPU includes the children of its process."""

    wall: float
    user: float
    system: float
    most_at_once: int
    """How many requests the simulator saw at the same time, at most."""

    @property
    def cpu(self) -> float:
        """User and system time."""
        return self.user + self.system


@dataclass(frozen=True, slots=True)
class Lab:
    """A working folder with data, and the one way to measure in it."""

    folder: Path

    def measure(self, client: Client, *, tasks: int, workers: int, latency_ms: int) -> Cost:
        """Evaluate once, from nothing; every task must have been asked and answered once."""
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        with _simulator(latency_ms, self._variables()) as url:
            job = Job(
                url=url,
                split_dir=self._split(tasks),
                skill=self._skill(),
                workers=workers,
                out=run / "out",
            )
            wall, user, system = self._run(client.command(job), run)
            stats = _stats(url)
        answered = stats["replies"]["target"]
        if answered != tasks:
            raise SystemExit(f"{client.name}: {answered} answers to {tasks} tasks")
        return Cost(wall, user, system, stats["max_concurrency"])

    def _split(self, tasks: int) -> Path:
        folder = self.folder / f"items_{tasks}"
        return folder if folder.exists() else write_split(folder, tasks)

    def _skill(self) -> Path:
        path = self.folder / "skill.md"
        path.write_text(SKILL, encoding="utf-8")
        return path

    def _variables(self) -> dict[str, str]:
        """The same surroundings for everybody: compiled modules are kept, no proxies, no keys."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPYCACHEPREFIX": str(self.folder / "compiled")}

    def _run(self, command: Command, folder: Path) -> tuple[float, float, float]:
        log = folder / "client.log"
        with log.open("wb") as output:
            start = time.perf_counter()
            client = subprocess.Popen(
                command.argv,
                cwd=folder,
                env={**self._variables(), **command.variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(client.pid, 0)
            wall = time.perf_counter() - start
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode != 0:
            tail = log.read_text("utf-8", errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command.argv)} ended with {client.returncode}:\n{tail}")
        return wall, used.ru_utime, used.ru_stime


@contextmanager
def _simulator(latency_ms: int, variables: Mapping[str, str]) -> Generator[str, None, None]:
    argv = [sys.executable, "-m", "skillopt.testing.simulator", "--watch-stdin"]
    with subprocess.Popen(
        [*argv, "--latency-ms", str(latency_ms)],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("the simulator has no pipes")
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.stdin.close()


class _Stats(TypedDict):
    replies: dict[str, int]
    max_concurrency: int


def _stats(url: str) -> _Stats:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/sim/stats") as response:
        return json.load(response)
