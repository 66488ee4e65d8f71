"""How good a skill each trainer finds with a real, small model on this machine's CPU.

    python benchmarks/real.py --quick         one family of tasks, one seed
    python benchmarks/real.py                 all families, three seeds (hours on two cores)
    python benchmarks/real.py --engine URL    the same with a model behind another endpoint

The model is target and optimizer of every trainer, behind one endpoint on loopback. A trainer may
ask it about train and val tasks so many times; then it is ended where it is, and its best skill is
tried on the test tasks. Finished cells and all replies are kept, so that it can be stopped and
continued, and a cell that changes nothing costs no time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import TypedDict

from real_tasks import DRAFT, FAMILIES, Family
from search_systems import Gepa, Job, Original, Ours, System, install_gepa, install_original
from worlds import World

from skillopt.envs.metrics import exact_match, extract_answer
from skillopt.gates.statistics import interval, matched
from skillopt.model.weights import CATALOGUE

HERE = Path(__file__).parent
SECONDS = 4 * 3600
"""A run that takes longer has failed."""
BUDGET_SPENT = 4
"""How a run of ours ends that its limit has stopped."""
SMALL = {
    "train.batch_size": "24",
    "gradient.proposer": "[instruct, patterns]",
    "gradient.samples": "2",
    "gradient.merge_mode": "union",
    "optimizer.select_mode": "trial",
    "optimizer.learning_rate": "6",
    "optimizer.min_learning_rate": "6",
    "optimizer.use_slow_update": "false",
    "optimizer.use_meta_skill": "false",
    "env.scorer": "f1",
    "model.timeout_seconds": "3600",
}
"""Ours as `backend: local` has it by itself (configs/presets/local.yaml)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run of a trainer came to."""

    system: str
    family: str
    seed: int
    model: str
    budget: int
    passed: list[float]
    """Of each test task."""
    calls: int
    """Of the target, on train and val tasks."""
    optimizer_calls: int
    tokens: tuple[int, int]
    """That the model read and wrote for both, as if no reply had been kept."""
    skill: str

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Result:
        return cls(**{each.name: values[each.name] for each in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class RealGepa(Gepa):
    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        argv, variables = Gepa.command(self, job)
        return [argv[0], str(HERE / "real_gepa.py"), *argv[2:]], variables


@dataclass(frozen=True, slots=True)
class Draft:
    """No trainer: the first draft as it is."""

    name: str = "draft"

    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        return [sys.executable, "-c", ""], {}

    def result(self, job: Job) -> Path:
        return job.skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all cells have in common."""

    model: str
    engine: str
    """Where the model is asked; empty: it is computed here."""
    budget: int
    threads: int
    folder: Path

    def run(self, system: System, family: Family, seed: int) -> Result:
        with tempfile.TemporaryDirectory(prefix="skillopt-real-") as name:
            folder = Path(name)
            data = family.write(folder / "data", seed)
            skill = folder / "initial.md"
            skill.write_text(DRAFT, encoding="utf-8")
            world = World(family.name, family.about, groups=(), sizes=family.sizes)
            # gepa counts its calls itself and has no skill to show before it ends.
            with self._serving(data, 0 if isinstance(system, Gepa) else self.budget) as server:
                job = Job(
                    world=world,
                    url=server.url,
                    data=data,
                    skill=skill,
                    folder=folder,
                    seed=seed,
                    budget=self.budget,
                )
                _train(system, job, server)
                served = server.served()
                best = system.result(job)
                text = best.read_text("utf-8") if best.exists() else DRAFT
                passed = [float(server.solves(text, item)) for item in _items(data)]
        return Result(
            system=system.name,
            family=family.name,
            seed=seed,
            model=self.model,
            budget=self.budget,
            passed=passed,
            calls=served.get("train", 0) + served.get("val", 0),
            optimizer_calls=served.get("optimizer", 0),
            tokens=(served.get("fed", 0), served.get("said", 0)),
            skill=text,
        )

    @contextmanager
    def _serving(self, data: Path, budget: int) -> Generator[Server, None, None]:
        replies = self.folder / "real-replies.sqlite"
        argv = [self.model, data, replies, budget, self.threads]
        argv += [self.engine] if self.engine else []
        with subprocess.Popen(
            [sys.executable, str(HERE / "real_server.py"), *map(str, argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the server has no pipes")
            try:
                yield Server(process, process.stdout.readline().strip())
            finally:
                process.stdin.close()


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[str]
    url: str

    def served(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/served") as response:
            return json.load(response)

    def solves(self, skill: str, item: TestItem) -> bool:
        """Whether a task is solved with a skill."""
        body = {
            "model": "world-target",
            "messages": [
                {"role": "system", "content": f"## Skill\n\n{skill}"},
                {"role": "user", "content": item["question"]},
            ],
        }
        request = urllib.request.Request(
            f"{self.url}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            reply: str = json.load(response)["choices"][0]["message"]["content"]
        return exact_match(extract_answer(reply), item["answers"])


class TestItem(TypedDict):
    question: str
    answers: list[str]


def _items(data: Path) -> list[TestItem]:
    return json.loads((data / "test" / "items.json").read_text("utf-8"))


def _train(system: System, job: Job, server: Server) -> None:
    """Run the trainer to its end, or until the budget is spent: then it is ended where it is."""
    argv, variables = system.command(job)
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
            """Ends the trainer when the server says that the budget is spent."""
            if server.process.stdout is not None and server.process.stdout.readline():
                spent.set()
                client.kill()

        threading.Thread(target=watch, daemon=True).start()
        try:
            status = client.wait(SECONDS)
        finally:
            client.kill()
    if isinstance(system, Ours) and status == BUDGET_SPENT:
        return
    if status != 0 and not spent.is_set():
        tail = log.read_text("utf-8", errors="replace")[-3000:]
        raise SystemExit(f"{system.name} on {job.world.name} ended with {status}:\n{tail}")


@dataclass(frozen=True, slots=True)
class Results:
    """Finished cells, in files with one line each."""

    path: Path
    """Where new ones go."""
    published: Path
    """Those that are part of this repository."""

    def read(self) -> dict[str, Result]:
        texts = [path.read_text("utf-8") for path in (self.published, self.path) if path.exists()]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        return {line["key"]: Result.parse(line["result"]) for line in lines}

    def add(self, key: str, result: Result) -> None:
        """One write, so that lines of cells that run side by side do not mix."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "result": asdict(result)}) + "\n")


def report(results: Sequence[Result]) -> str:
    """A table for each family and for all, with 95 % intervals over their test tasks."""
    lines: list[str] = []
    families = list(dict.fromkeys(result.family for result in results))
    for family in (*families, *(["all families"] if len(families) > 1 else [])):
        some = [r for r in results if family in (r.family, "all families")]
        seeds = len({result.seed for result in some})
        lines += ["", f"{family}, {seeds} seed{'s' if seeds > 1 else ''}", _HEAD]
        ours = {(r.family, r.seed): r.passed for r in some if r.system == "ours"}
        for system in dict.fromkeys(result.system for result in some):
            lines.append(_row(system, [r for r in some if r.system == system], ours))
    return "\n".join(lines)


_HEAD = (
    f"{'':10}{'test':>7}{'95 %':>14}{'worst':>7}{'ours minus it':>23}{'calls':>7}"
    f"{'optimizer':>11}{'k tokens in':>13}{'out':>6}"
)


def _row(
    system: str, results: Sequence[Result], ours: Mapping[tuple[str, int], Sequence[float]]
) -> str:
    score = interval(mark for result in results for mark in result.passed)
    worst = min(sum(result.passed) / len(result.passed) for result in results)
    changes = [
        our - other
        for result in results
        for our, other in zip(
            ours.get((result.family, result.seed), ()), result.passed, strict=False
        )
    ]
    gap = matched(changes)
    told = f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]" if system != "ours" else ""

    spread = f"[{score.low:.2f}, {score.high:.2f}]"
    return (
        f"{system:10}{score.mean:7.2f}{spread:>14}{worst:7.2f}{told:>23}"
        f"{fmean(result.calls for result in results):7.0f}"
        f"{fmean(result.optimizer_calls for result in results):11.0f}"
        f"{fmean(result.tokens[0] for result in results) / 1000:13.0f}"
        f"{fmean(result.tokens[1] for result in results) / 1000:6.0f}"
    )


PROMPTS = HERE.parent / "skillopt" / "optimizer" / "prompts"


def _original(venvs: Path) -> Original:
    """Its wheel lacks its prompts, and a real model needs some: ours, with its form of replies."""
    original = install_original(venvs)
    (folder,) = original.venv.glob("lib/python*/site-packages/skillopt/prompts")
    for path in folder.glob("*.md"):
        ours, form = PROMPTS / path.name, path.read_text("utf-8")
        if ours.exists():
            advice = ours.read_text("utf-8").partition("## Answer")[0]
            path.write_text(f"{advice}## Answer\n\n{form}", encoding="utf-8")
    return original


def _systems(names: str, venvs: Path, settings: Mapping[str, str]) -> list[System]:
    known = {
        "draft": Draft,
        "ours": lambda: Ours("ours", {**SMALL, **settings}),
        "original": lambda: _original(venvs),
        "gepa": lambda: RealGepa(install_gepa(venvs).venv),
    }
    return [known[name]() for name in names.split(",")]


def _key(system: System, family: Family, seed: int, bench: Bench) -> str:
    """With a digest of what decides about a result. Replies are kept: a new one costs little."""
    paths, settings = [HERE / "real_tasks.py"], ""
    if isinstance(system, Ours):
        package = HERE.parent / "skillopt"
        paths += sorted(path for path in package.rglob("*") if path.suffix in {".py", ".md"})
        settings = json.dumps(system.settings, sort_keys=True)
    digest = hashlib.blake2b(settings.encode(), digest_size=6)
    for path in paths:
        digest.update(path.read_bytes())
    name = Path(bench.model).stem
    return f"{system.name} {family.name} {seed} {name} {bench.budget} {digest.hexdigest()}"


def main() -> None:
    options = _parser().parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        model=options.model,
        engine=options.engine,
        budget=options.budget,
        threads=options.threads,
        folder=options.folder,
    )
    config = dict(pair.split("=", 1) for pair in options.config)
    systems = _systems(options.systems, options.folder / "real-trainers", config)
    families = [FAMILIES[name] for name in options.families.split(",")]
    kept = Results(options.folder / "real.jsonl", options.published)

    def cell(place: tuple[int, Family, System]) -> Result | None:
        seed, family, system = place
        key = _key(system, family, seed, bench)
        result = kept.read().get(key)
        if result is None and not options.report:
            result = bench.run(system, family, seed)
            kept.add(key, result)
        if result is not None:
            print(f"{key}: {interval(result.passed).mean:.2f}", file=sys.stderr)
        return result

    places = [
        (seed, family, system)
        for seed in ([0] if options.quick else options.seeds)
        for family in (families[:1] if options.quick else families)
        for system in systems
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        print(report([result for result in pool.map(cell, places) if result is not None]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first family, one seed")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--systems", default="draft,ours,original,gepa")
    parser.add_argument(
        "--model", default=CATALOGUE[0].name, help="a fetched model, or a GGUF file"
    )
    parser.add_argument(
        "--engine",
        default="",
        metavar="URL",
        help="an OpenAI-compatible endpoint to ask for the model, instead of computing it here",
    )
    parser.add_argument("--jobs", type=int, default=1, help="cells at the same time")
    parser.add_argument("--budget", type=int, default=120, help="target calls on train and val")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of ours"
    )
    parser.add_argument("--report", action="store_true", help="only tell what is finished")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "skillopt-benchmarks",
        help="where finished cells, replies and other trainers are kept",
    )
    parser.add_argument(
        "--published",
        type=Path,
        default=HERE / "real_cells.jsonl",
        help="finished cells that are not measured again; another path measures all",
    )
    return parser


if __name__ == "__main__":
    main()
