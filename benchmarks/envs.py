"""How fast the benchmarks are that need more than a model: games and workbooks.

    python benchmarks/envs.py --alfworld FOLDER --games 8 --workbooks 100

FOLDER holds json_2.1.1/ with games; without it, no games are played. Workbooks are made here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Awaitable
from io import BytesIO
from pathlib import Path

from openpyxl import Workbook

from skillopt.aio import map_all
from skillopt.core.rollout import Trajectory
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import Splits
from skillopt.envs.alfworld.game import playing
from skillopt.envs.spreadsheetbench.env import SpreadsheetBench
from skillopt.harness.sandbox import Bubblewrap

SCRIPT = """```python
from openpyxl import load_workbook
book = load_workbook("input.xlsx")
sheet = book.active
sheet["C1"] = sum(row[0].value for row in sheet.iter_rows(max_col=1))
book.save("output.xlsx")
```"""


async def play(count: int, folder: Path) -> int:
    """Play so many games at once, each by its walkthrough; how many were won."""

    async def won(game: tuple[Path, list[str]]) -> bool:
        file, commands = game
        async with playing(file, max_steps=50, seconds=600) as played:
            for command in commands:
                await played.act(command)
            return played.state.won

    return sum(await map_all(won, _games(count, folder)))


def _games(count: int, folder: Path) -> list[tuple[Path, list[str]]]:
    files = sorted(folder.glob("json_2.1.1/*/*/*/game.tw-pddl"))[:count]
    return [(file, json.loads(file.read_text(encoding="utf-8"))["walkthrough"]) for file in files]


async def score(count: int, folder: Path) -> int:
    """Score so many scripts, two at a time; how many were right."""
    rows = rows_of([_task(folder, number) for number in range(count)], "rows")
    settings = SpreadsheetBench.Settings(data_root=folder, mode="single", formulas="forbid")
    environment = SpreadsheetBench(settings, Splits(tuple(rows), ())).with_sandbox(
        Bubblewrap.create()
    )
    room = asyncio.Semaphore(2)

    async def right(number: int) -> float:
        async with room, environment.open(environment.tasks("train")[number]) as episode:
            return (await episode.score(Trajectory((), SCRIPT))).hard

    return int(sum(await map_all(right, range(count))))


def _task(folder: Path, number: int) -> dict[str, object]:
    place = folder / "spreadsheet" / str(number)
    place.mkdir(parents=True)
    (place / f"1_{number}_input.xlsx").write_bytes(_workbook(number, gold=False))
    (place / f"1_{number}_answer.xlsx").write_bytes(_workbook(number, gold=True))
    return {"id": number, "instruction": f"Add up sheet {number}.", "answer_position": "C1"}


def _workbook(number: int, *, gold: bool) -> bytes:
    book, content = Workbook(), BytesIO()
    sheet = book.active
    assert sheet is not None
    values = range(number, number + 200)
    for row, value in enumerate(values, start=1):
        sheet.cell(row, 1, value)
    if gold:
        sheet["C1"] = sum(values)
    book.save(content)
    return content.getvalue()


async def measured(what: str, count: int, work: Awaitable[int]) -> None:
    start = time.monotonic()
    right = await work
    seconds = time.monotonic() - start
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(
        f"{what}: {right} of {count} right in {seconds:.1f} s ({seconds / count:.2f} s each); "
        f"memory {ours} MB here, {largest} MB in the largest process"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alfworld", type=Path)
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--workbooks", type=int, default=100)
    chosen = parser.parse_args()
    if chosen.alfworld is not None:
        games: int = chosen.games
        await measured("ALFWorld, games at once", games, play(games, chosen.alfworld))
    with tempfile.TemporaryDirectory(prefix="skillopt-bench-") as folder:
        books: int = chosen.workbooks
        await measured("SpreadsheetBench, workbooks", books, score(books, Path(folder)))


if __name__ == "__main__":
    asyncio.run(main())
