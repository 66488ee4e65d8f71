"""How long a whole training takes: ours and `skillopt==0.2.0`, on a simulated world with latency.

Each trainer runs with its defaults, the final test included, and every call takes the same time.
So what counts is how many calls there are and how many of them wait for each other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from aiohttp import web
from aiohttp.typedefs import Handler
from search_systems import Job, Ours, System, install_original
from world_server import Server
from worlds import INITIAL_SKILL, WORLDS, Scene

WORKERS = (8, 32, 128)


class SlowServer(Server):
    """A world whose models take their time over every call."""

    def __init__(self, scene: Scene, latency: float) -> None:
        super().__init__(scene, 0)
        self._latency = latency

    def app(self) -> web.Application:
        app = super().app()
        app.middlewares.append(self._wait)
        return app

    @web.middleware
    async def _wait(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST":
            await asyncio.sleep(self._latency)
        return await handler(request)


@contextmanager
def serve(world: str, seed: int, latency: float) -> Generator[str, None, None]:
    argv = [sys.executable, __file__, "--serve", world, "--seeds", str(seed)]
    argv += ["--latency", str(latency)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the server has no pipes")
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def seconds(
    system: System, world: str, seed: int, workers: int, latency: float, folder: Path
) -> float:
    """The wall time of one training that writes into a folder."""
    with serve(world, seed, latency) as url:
        folder.mkdir()
        skill = folder / "initial.md"
        skill.write_text(INITIAL_SKILL, encoding="utf-8")
        data = Scene(WORLDS[world], seed).write(folder / "data")
        job = Job(
            world=WORLDS[world],
            url=url,
            data=data,
            skill=skill,
            folder=folder,
            seed=seed,
            budget=0,
            workers=workers,
        )
        argv, variables = system.command(job)
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        start = time.perf_counter()
        with (folder / "log").open("wb") as log:
            subprocess.run(
                argv, cwd=folder, env={**kept, **variables}, stdout=log, stderr=log, check=True
            )
        return time.perf_counter() - start


def report(options: argparse.Namespace, systems: Sequence[System], root: Path) -> None:
    """Mean wall times, and in brackets their ratio to that of the last system.

    Each training gets a folder below the root.

    None is removed before the end: on some file systems (ext4 without a journal) a new file costs
    up to a millisecond while many have been removed in the last minutes.
    """
    print(f"{options.world}, {options.seeds} seeds, {options.latency:g} s per call")
    print(f"{'workers':>8}" + "".join(f"{system.name:>18}" for system in systems))
    for workers in options.workers:
        # The trainers take turns, so that other load on the machine affects both.
        found = [
            [
                seconds(
                    system,
                    options.world,
                    seed,
                    workers,
                    options.latency,
                    root / f"{system.name}-{workers}-{seed}",
                )
                for system in systems
            ]
            for seed in range(options.first, options.first + options.seeds)
        ]
        means = [fmean(times) for times in zip(*found, strict=True)]
        row = "".join(f"{mean:9.1f} s ({mean / means[-1]:4.2f})" for mean in means)
        print(f"{workers:8}{row}", flush=True)


async def _serve(server: Server) -> None:
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", choices=sorted(WORLDS), default="long-tail")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--serve", metavar="WORLD", help=argparse.SUPPRESS)
    cache = Path(tempfile.gettempdir()) / "skillopt-benchmarks"
    parser.add_argument("--venvs", type=Path, default=cache, help="where others are installed")
    options = parser.parse_args()
    if options.serve:
        scene = Scene(WORLDS[options.serve], options.seeds)
        asyncio.run(_serve(SlowServer(scene, options.latency)))
        return
    with tempfile.TemporaryDirectory(prefix="skillopt-time-") as folder:
        speculating = Ours("ours, speculating", {"engine.speculate": "true"})
        systems = [Ours(), speculating, install_original(options.venvs)]
        report(options, systems, Path(folder))


if __name__ == "__main__":
    main()
