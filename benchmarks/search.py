"""How good a skill each trainer finds, on simulated worlds with known rules.

Every run of a trainer (a cell: system, world, seed, budget) gets a server of its own. The score is
that of its best skill on the test tasks by a target without noise, as a share of what the perfect
skill reaches. Finished cells are kept in a file, so that a run can be stopped and continued.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TypedDict

from search_report import Result, report, summary
from search_systems import Job, Ours, System, install_gepa, install_original, protocol_calls
from world_models import Optimizer, Target, rows, skipping
from worlds import INITIAL_SKILL, WORLDS, Scene, World

from skillopt.api import train_async
from skillopt.errors import BudgetSpent

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "skillopt"
SOURCES = (
    "worlds",
    "world_optimizer",
    "world_server",
    "world_models",
    "search_systems",
    "gepa_client",
    "search",
)
SECONDS = 1800
"""A run that takes longer has failed."""
LATENCY = 0.2
"""Seconds per call in this process, by a clock that does not wait."""
BUDGET_SPENT = 4
"""How a run of ours ends that its limit has stopped."""

_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Cell:
    system: System
    world: World
    seed: int
    budget: int
    version: str
    """A digest of the code and the settings that the result depends on."""

    @property
    def key(self) -> str:
        return f"{self.system.name} {self.world.name} {self.seed} {self.budget} {self.version}"


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[str]
    url: str

    def served(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/served") as response:
            return json.load(response)


class Kept(TypedDict):
    key: str
    result: dict[str, object]


@contextmanager
def serve(cell: Cell, budget: int, log: Path) -> Generator[Server, None, None]:
    argv = [sys.executable, str(HERE / "world_server.py"), cell.world.name, str(cell.seed)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*argv, str(budget)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the server has no pipes")
        try:
            yield Server(process, process.stdout.readline().strip())
        finally:
            process.stdin.close()


def run(cell: Cell, folder: Path) -> Result:
    """Train once and find out what the skill is worth."""
    scene = Scene(cell.world, cell.seed)
    skill = folder / "initial.md"
    skill.write_text(INITIAL_SKILL, encoding="utf-8")
    data = scene.write(folder / "data")
    # gepa counts its calls itself and has no skill to show before it ends.
    budget = 0 if cell.system.name == "gepa" else cell.budget
    with serve(cell, budget, folder / "server.log") as server:
        job = Job(
            world=cell.world,
            url=server.url,
            data=data,
            skill=skill,
            folder=folder,
            seed=cell.seed,
            budget=cell.budget,
        )
        start = time.perf_counter()
        stopped = _train(cell, job, server)
        seconds = time.perf_counter() - start
        served = server.served()
    return _result(cell, scene, cell.system.result(job), served, stopped=stopped, seconds=seconds)


def run_here(cell: Cell, folder: Path) -> Result:
    """The same for a run of ours in this process, without HTTP; `seconds` as if calls took 0.2."""
    if not isinstance(cell.system, Ours):
        raise SystemExit(f"{cell.system.name} cannot run in this process")
    scene = Scene(cell.world, cell.seed)
    target, optimizer = Target(scene, LATENCY), Optimizer(scene, LATENCY)
    settings: dict[str, object] = {"train.seed": cell.seed, **cell.system.settings}
    if cell.world.graded:
        settings |= {"env.scorer": "f1", "evaluation.gate_metric": "soft"}
    if cell.budget:
        settings |= {"limits.calls": cell.budget, "evaluation.eval_test": False}

    async def train() -> bool:
        try:
            await train_async(
                train=rows(scene, "train"),
                val=rows(scene, "val"),
                test=rows(scene, "test"),
                skill=INITIAL_SKILL,
                target=target,
                optimizer=optimizer,
                out=folder / "out",
                settings=settings,
                progress=False,
            )
        except BudgetSpent:
            return True
        return False

    stopped, seconds = skipping(train())
    served = {**target.served, "optimizer": optimizer.served}
    return _result(
        cell, scene, folder / "out" / "best_skill.md", served, stopped=stopped, seconds=seconds
    )


def _result(
    cell: Cell,
    scene: Scene,
    best: Path,
    served: Mapping[str, int],
    *,
    stopped: bool,
    seconds: float,
) -> Result:
    text = best.read_text("utf-8") if best.exists() else INITIAL_SKILL
    reading, true = scene.read(text), scene.truth(text)
    return Result(
        system=cell.system.name,
        world=cell.world.name,
        aside=cell.world.aside,
        seed=cell.seed,
        budget=cell.budget,
        share=true / scene.truth(scene.perfect_skill()),
        true=true,
        calls=served.get("train", 0) + served.get("val", 0),
        calls_with_test=sum(served.get(split, 0) for split in ("train", "val", "test")),
        optimizer_calls=served.get("optimizer", 0),
        harmful=any(sentence.kind in {"harmful", "general"} for sentence in reading.sentences),
        rules_missing=sum(not reading.kinds(rule) for rule in range(cell.world.rules)),
        stopped=stopped,
        seconds=round(seconds, 1),
    )


def _train(cell: Cell, job: Job, server: Server) -> bool:
    """Run the trainer to its end, or until the budget is spent: then it is ended where it is."""
    argv, variables = cell.system.command(job)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    log = job.folder / "client.log"
    spent = threading.Event()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            argv,
            cwd=job.folder,
            env={**kept, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as client,
    ):

        def watch() -> None:
            """Ends the trainer when the server says that the budget is spent, or ends itself."""
            if server.process.stdout is not None and server.process.stdout.readline():
                spent.set()
            client.kill()

        threading.Thread(target=watch, daemon=True).start()
        _running.add(client)
        try:
            status = client.wait(SECONDS)
        except subprocess.TimeoutExpired:
            client.kill()
            raise SystemExit(f"{cell.key} took more than {SECONDS} seconds") from None
        finally:
            _running.discard(client)
    if isinstance(cell.system, Ours) and status == BUDGET_SPENT:
        return True
    if status != 0 and not spent.is_set():
        logs = (log, job.folder / "server.log")
        tails = "\n".join(path.read_text("utf-8", errors="replace")[-2000:] for path in logs)
        raise SystemExit(f"{cell.key} ended with {status}:\n{tails}")
    return spent.is_set()


class Results:
    """The results of finished cells, in a file with one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                kept: Kept = json.loads(line)
                self._kept[kept["key"]] = Result.parse(kept["result"])

    def get(self, cell: Cell) -> Result | None:
        return self._kept.get(cell.key)

    def add(self, cell: Cell, result: Result) -> None:
        line = json.dumps(Kept(key=cell.key, result=asdict(result)))
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            self._kept[cell.key] = result


def measure(cells: Sequence[Cell], results: Results, jobs: int, *, here: bool) -> Iterator[Result]:
    """The results of all cells, those that are missing first measured."""

    def one(cell: Cell) -> Result:
        known = results.get(cell)
        if known is not None:
            return known
        with tempfile.TemporaryDirectory(prefix="skillopt-search-") as folder:
            result = (run_here if here else run)(cell, Path(folder))
        results.add(cell, result)
        return result

    with ThreadPoolExecutor(jobs) as pool, _ending_clients():
        for done, (cell, result) in enumerate(zip(cells, pool.map(one, cells), strict=True), 1):
            print(
                f"{done}/{len(cells)} {cell.world.name} {cell.seed} {cell.budget or 'own'} "
                f"{cell.system.name}: {result.share:.3f}, {result.calls} calls, "
                f"{result.seconds} s",
                file=sys.stderr,
            )
            yield result


def _stop(_: int, __: FrameType | None) -> None:
    sys.exit(143)


@contextmanager
def _ending_clients() -> Generator[None, None, None]:
    """Whoever stops this script also stops the trainers that it runs."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        for client in list(_running):
            client.kill()


def version(system: System) -> str:
    paths = [HERE / f"{name}.py" for name in SOURCES]
    settings = ""
    if isinstance(system, Ours):
        paths += sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".md"})
        settings = json.dumps(system.settings, sort_keys=True)
    digest = hashlib.blake2b(settings.encode(), digest_size=6)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def systems(options: argparse.Namespace) -> list[System]:
    config = dict(pair.split("=", 1) for pair in options.config)
    found: list[System] = []
    for name in filter(None, options.systems.split(",")):
        match name:
            case "ours":
                found.append(Ours("ours", config))
            case "original":
                found.append(install_original(options.venvs))
            case "gepa":
                found.append(install_gepa(options.venvs))
            case _:
                raise SystemExit(f"no such system: {name}")
    for variant in options.variant:
        name, _, pairs = variant.partition(":")
        settings = dict(pair.split("=", 1) for pair in re.split(r",(?![^\[]*\])", pairs))
        found.append(Ours(name, {**config, **settings}))
    return found


def worlds(options: argparse.Namespace) -> list[World]:
    wanted = {"tune": (False,), "aside": (True,), "all": (False, True)}[options.set]
    if options.worlds:
        return [WORLDS[name] for name in options.worlds.split(",")]
    return [world for world in WORLDS.values() if world.aside in wanted]


def budgets(world: World, text: str) -> Iterable[int]:
    """0 stands for what each trainer does by default."""
    if not text:
        return (*world.budgets, 0)

    def calls(part: str) -> int:
        if part == "own":
            return 0
        share = part.removesuffix("%")
        return int(part) if share == part else protocol_calls(world) * int(share) // 100

    return [calls(part) for part in text.split(",")]


def main() -> None:
    options = _parser().parse_args()
    chosen = [(system, version(system)) for system in systems(options)]
    cells = [
        Cell(system, world, seed, budget, digest)
        for seed in range(options.seeds)
        for world in worlds(options)
        for budget in budgets(world, options.budgets)
        for system, digest in chosen
    ]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = list(measure(cells, Results(options.results), options.jobs, here=options.here))
    print(report(results))
    if options.json is not None:
        found = {"summary": summary(results), "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    cache = Path(tempfile.gettempdir()) / "skillopt-benchmarks"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=("tune", "aside", "all"), default="all")
    parser.add_argument("--worlds", help=f"instead of a set: some of {','.join(WORLDS)}")
    parser.add_argument("--seeds", type=int, default=12, help="runs of each system per world")
    parser.add_argument("--systems", default="ours,original,gepa")
    parser.add_argument(
        "--budgets",
        default="",
        help="target calls, 40%% of the original's, or own; default: those of each world, and own",
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of ours"
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME:KEY=VALUE,...",
        help="a further version of ours",
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument(
        "--here", action="store_true", help="runs of ours in this process, without HTTP"
    )
    parser.add_argument("--venvs", type=Path, default=cache, help="where others are installed")
    parser.add_argument(
        "--results",
        type=Path,
        default=cache / "search.jsonl",
        help="where finished cells are kept; cells that it holds are not measured again",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    return parser


if __name__ == "__main__":
    main()
