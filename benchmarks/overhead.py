"""The overhead of an evaluation beyond the model calls, compared with version 0.2.0 from PyPI.

Every client evaluates the same skill on the same items with the same simulator. Figures are the
best of several repeats; the clients take turns, so that other load affects all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clients import OURS, PEER, Bare, Client, install_peer
from measuring import Cost, Lab

LATENCY_MS = 200
LOADS = ((8, 200), (32, 800), (128, 1024))
"""Concurrent calls, and tasks: a multiple of them, so that the last round is full too."""
ZERO_LATENCY_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Overhead:
    """CPU of a client at zero latency."""

    client: str
    startup_ms: float
    """CPU of an evaluation of one task."""
    rollout_ms: float
    """CPU of each further task."""
    rollout_user_ms: float
    rollout_system_ms: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Wall time of a client at a fixed latency."""

    client: str
    workers: int
    tasks: int
    seconds: float
    """From the start of the process to its end."""
    startup_seconds: float
    """The same for one task, without the wait for its answer."""
    most_at_once: int

    @property
    def ideal_seconds(self) -> float:
        """When all workers wait for answers all the time."""
        return self.tasks / self.workers * LATENCY_MS / 1000

    @property
    def efficiency(self) -> float:
        """Ideal over actual time, start-up left out."""
        return self.ideal_seconds / (self.seconds - self.startup_seconds)

    @property
    def efficiency_in_all(self) -> float:
        """Ideal over actual time, start-up included."""
        return self.ideal_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class Bench:
    """The clients, and how often each is asked."""

    lab: Lab
    clients: Sequence[Client]
    repeats: int
    tell: Callable[[str], None]

    def warm_up(self) -> None:
        """Let everybody compile their modules."""
        for client in self.clients:
            self.tell(f"warming up: {client.name}")
            self.lab.measure(client, tasks=1, workers=1, latency_ms=0)

    def overheads(self, tasks: int) -> list[Overhead]:
        """CPU at zero latency: once for one task, once for many."""
        one = self._best(_cpu, tasks=1, workers=ZERO_LATENCY_WORKERS, latency_ms=0)
        many = self._best(_cpu, tasks=tasks, workers=ZERO_LATENCY_WORKERS, latency_ms=0)
        return [
            Overhead(
                client.name,
                1000 * first.cpu,
                1000 * (all_.cpu - first.cpu) / (tasks - 1),
                1000 * (all_.user - first.user) / (tasks - 1),
                1000 * (all_.system - first.system) / (tasks - 1),
            )
            for client, first, all_ in zip(self.clients, one, many, strict=True)
        ]

    def paces(self) -> list[Pace]:
        """Wall time at each load."""
        one = self._best(_wall, tasks=1, workers=1, latency_ms=LATENCY_MS)
        found: list[Pace] = []
        for workers, tasks in LOADS:
            many = self._best(_wall, tasks=tasks, workers=workers, latency_ms=LATENCY_MS)
            found += [
                Pace(
                    client.name,
                    workers,
                    tasks,
                    all_.wall,
                    first.wall - LATENCY_MS / 1000,
                    all_.most_at_once,
                )
                for client, first, all_ in zip(self.clients, one, many, strict=True)
            ]
        return found

    def _best(
        self, by: Callable[[Cost], float], *, tasks: int, workers: int, latency_ms: int
    ) -> list[Cost]:
        """The cheapest run of each client."""
        runs: list[list[Cost]] = [[] for _ in self.clients]
        for repeat in range(self.repeats):
            for client, costs in zip(self.clients, runs, strict=True):
                self.tell(
                    f"{tasks} tasks, {workers} at once, {latency_ms} ms: "
                    f"{client.name} ({repeat + 1} of {self.repeats})"
                )
                costs.append(
                    self.lab.measure(client, tasks=tasks, workers=workers, latency_ms=latency_ms)
                )
        return [min(costs, key=by) for costs in runs]


def _cpu(cost: Cost) -> float:
    return cost.cpu


def _wall(cost: Cost) -> float:
    return cost.wall


def overhead_table(rows: Sequence[Overhead]) -> str:
    peer = next((row for row in rows if row.client == PEER), None)
    lines = [
        ["client", "start-up CPU ms", "of peer", "CPU ms per rollout", "user", "system", "of peer"]
    ]
    lines += [
        [
            row.client,
            f"{row.startup_ms:.0f}",
            "" if peer is None else f"{row.startup_ms / peer.startup_ms:.2f}",
            f"{row.rollout_ms:.2f}",
            f"{row.rollout_user_ms:.2f}",
            f"{row.rollout_system_ms:.2f}",
            "" if peer is None else f"{row.rollout_ms / peer.rollout_ms:.2f}",
        ]
        for row in rows
    ]
    return _table(lines)


def pace_table(rows: Sequence[Pace]) -> str:
    lines = [["client", "at once", "tasks", "ideal s", "total s", "ideal/actual", "with start-up"]]
    lines += [
        [
            row.client,
            str(row.workers),
            str(row.tasks),
            f"{row.ideal_seconds:.2f}",
            f"{row.seconds:.2f}",
            f"{row.efficiency:.2f}",
            f"{row.efficiency_in_all:.2f}",
        ]
        for row in rows
    ]
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown, in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def row(cells: Sequence[str]) -> str:
        name, *numbers = (cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:]))
        return f"| {' | '.join([name, *numbers])} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(map(row, [lines[0], rule, *lines[1:]]))


def main() -> None:
    options = _parser().parse_args()
    clients: list[Client] = [*OURS, Bare()]
    if not options.no_peer:
        clients.append(install_peer(options.peer_venv))
    with tempfile.TemporaryDirectory(prefix="skillopt-overhead-", dir=options.work) as work:
        runner = Bench(Lab(Path(work)), clients, options.repeats, _tell)
        runner.warm_up()
        overheads = runner.overheads(options.tasks)
        paces = [] if options.no_latency else runner.paces()
    if options.json:
        found = {"overhead": list(map(asdict, overheads)), "pace": list(map(_pace_json, paces))}
        print(json.dumps(found, indent=2))
        return
    print(f"\nZero latency, {ZERO_LATENCY_WORKERS} calls at once, {options.tasks} tasks:\n")
    print(overhead_table(overheads))
    if paces:
        print(f"\nEvery answer after {LATENCY_MS} ms:\n")
        print(pace_table(paces))


def _pace_json(pace: Pace) -> dict[str, object]:
    return {
        **asdict(pace),
        "ideal_seconds": pace.ideal_seconds,
        "efficiency": pace.efficiency,
        "efficiency_in_all": pace.efficiency_in_all,
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    cache = Path(tempfile.gettempdir()) / "skillopt-benchmarks" / PEER.replace("==", "-")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--tasks", type=int, default=1000, help="tasks at zero latency")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument(
        "--work", type=Path, help="where clients write; default: a new temporary one"
    )
    parser.add_argument("--peer-venv", type=Path, default=cache, help=f"where {PEER} is installed")
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out")
    parser.add_argument("--no-latency", action="store_true", help="measure CPU only")
    return parser


if __name__ == "__main__":
    main()
