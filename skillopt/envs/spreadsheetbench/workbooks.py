"""The workbooks of a task, what an agent is shown of them, and scripts that are run on them."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from skillopt.aio import in_thread
from skillopt.core.episode import Workspace
from skillopt.core.intake import MIB, read_file
from skillopt.core.ports import Sandbox
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.core.wording import counted
from skillopt.datasets.raw import plain_file
from skillopt.datasets.rows import Row
from skillopt.envs.processes import python_folders
from skillopt.envs.spreadsheetbench.cells import (
    BadWorkbook,
    CellRange,
    Difference,
    TooLarge,
    Workbook,
    check_readable,
    differences,
    has_formulas,
    marked_formulas,
    read_workbook,
    sheet_names,
)
from skillopt.errors import DataError, EnvironmentFault

INPUT, OUTPUT, SOLUTION = "input.xlsx", "output.xlsx", "solution.py"
_BYTES: Final = 64 * MIB
_NUMBERED: Final = re.compile(r"(\d+)_.*_(?:input|init)\.xlsx", re.IGNORECASE)
_GOLD_NAMES: Final = (("_input.", "_answer."), ("_init.", "_golden."))
_BARE: Final = ("initial.xlsx", "golden.xlsx")
_ROWS, _COLUMNS, _CHARS = 5, 20, 40
_SHOWN_OUTPUT: Final = 4000
_MEMORY: Final = 4 * 2**30
"""Of one process; numerical libraries reserve far more than they use."""
_OFFICE_SECONDS: Final = 120.0
_OFFICE_SETTINGS: Final = Path("/etc/libreoffice")
_WITH_OUR_PYTHON: Final = 'PATH="$1:$PATH"; export PATH; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class Example:
    """A workbook, and what it should be like in the end."""

    number: int
    input: Path
    gold: Path


def examples(root: Path, within: str, row: Row) -> list[Example]:
    """The test cases in the folder of a task, whichever way its files are named.

    None is a link that leads out of the data.
    """
    folder = root / within
    if not folder.is_dir():
        raise DataError(f"{row.where}: there is no folder {folder}; set env.data_root")
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith(("~$", ".")))
    cases: list[Example] = []
    for name in names:
        if found := _NUMBERED.fullmatch(name):
            golds = [name.replace(old, new) for old, new in _GOLD_NAMES if old in name]
            gold = next((each for each in golds if each in names), None)
            if gold is None:
                raise DataError(f"{row.where}: {folder / name} has no workbook with the answer")
            cases.append(Example(int(found[1]), folder / name, folder / gold))
    if not cases and set(_BARE) <= set(names):
        cases = [Example(1, *(folder / name for name in _BARE))]
    if not cases:
        raise DataError(f"{row.where}: {folder} has no workbooks that a test case consists of")
    try:
        for case in cases:
            for path in (case.input, case.gold):
                plain_file(root, path.relative_to(root).as_posix())
    except (OSError, ValueError) as error:
        raise DataError(f"{row.where}: the workbook {error}; set env.data_root") from error
    return sorted(cases, key=lambda case: case.number)


def digest(file: Path, row: Row) -> str:
    """Of the content; a `DataError` if it is no workbook."""
    try:
        content = read_file(file, _BYTES)
        with ZipFile(BytesIO(content)) as archive:
            sound = "xl/workbook.xml" in archive.namelist()
    except OSError as error:
        raise DataError(f"{row.where}: {file} cannot be read ({error.strerror})") from error
    except BadZipFile:
        sound, content = False, b""
    if not sound:
        raise DataError(f"{row.where}: {file} is no .xlsx workbook; fetch it again")
    return hashlib.sha256(content).hexdigest()[:16]


def check_sheets(case: Example, ranges: Sequence[CellRange], row: Row) -> None:
    """Refuse ranges of sheets that the workbook with the answer does not have."""
    try:
        with ZipFile(BytesIO(read_file(case.gold, _BYTES))) as archive:
            names = sheet_names(archive)
    except (BadWorkbook, BadZipFile, OSError) as error:
        raise DataError(f"{row.where}: {case.gold} cannot be opened: {error}") from error
    for area in ranges:
        if area.sheet and area.sheet not in names:
            raise DataError(
                f"{row.where}: 'answer_position' names the sheet {area.sheet!r}, which "
                f"{case.gold} does not have (it has {', '.join(map(repr, names))})"
            )


def preview(content: bytes) -> str:
    """The first cells of each sheet, as the agent is shown them."""
    parts: list[str] = []
    for sheet in read_workbook(content).worksheets:
        size = f"{sheet.max_row} rows, {sheet.max_column} columns"
        lines = [
            " | ".join(_short(value) for value in row)
            for row in sheet.iter_rows(max_row=_ROWS, max_col=_COLUMNS, values_only=True)
        ]
        parts.append("\n".join([f"### Sheet {sheet.title!r} ({size}), from A1", *lines]))
    return "\n\n".join(parts)


def _short(value: object) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class CaseResult:
    passed: bool
    told: str
    """What is wrong, with the right values."""
    cells: str = ""
    """The cells that are wrong, without any values."""


@dataclass(frozen=True, slots=True)
class Grader:
    """Compares workbooks of an agent with those that they should be like."""

    ranges: tuple[CellRange, ...]
    sandbox: Sandbox
    recalculates: bool

    async def grade(self, case: Example, output: bytes) -> CaseResult:
        """Whether an output is right; an `EnvironmentFault` if that cannot be found out."""
        try:
            await check_readable(output)
            book, computes = await in_thread(self._read, output)
            if computes:
                book = await self._recalculated(output)
        except BadWorkbook as error:
            return CaseResult(passed=False, told=f"{OUTPUT} cannot be opened: {error}")
        wrong = await in_thread(wrong_cells, case, book, self.ranges)
        if not wrong:
            return CaseResult(passed=True, told="")
        if not computes and any(each.found is None for each in wrong):
            wrong = await in_thread(marked_formulas, wrong, output)
        cells = ", ".join(each.where for each in wrong[:10])
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        return CaseResult(passed=False, told=_told(wrong), cells=f"{cells}{more}")

    def _read(self, output: bytes) -> tuple[Workbook, bool]:
        """The workbook, and whether its formulas have to be computed."""
        return read_workbook(output), self.recalculates and has_formulas(output)

    async def _recalculated(self, output: bytes) -> Workbook:
        """With its formulas computed; `TooLarge` if that takes more than it may."""
        office = shutil.which("soffice")
        if office is None:
            raise EnvironmentFault(f"{OUTPUT} has formulas; {NO_OFFICE}")
        result = await self.sandbox.run(
            [office, *_OFFICE_OPTIONS, "--outdir", "computed", OUTPUT],
            _files({OUTPUT: output}, f"computed/{OUTPUT}"),
            SandboxLimits(seconds=_OFFICE_SECONDS, memory=_MEMORY, processes=256),
            programs=[_OFFICE_SETTINGS] if _OFFICE_SETTINGS.exists() else [],
        )
        if result.ended_by in {"memory", "disk", "output"}:
            raise TooLarge(f"computing its formulas takes too much {result.ended_by}")
        computed = result.files.get(f"computed/{OUTPUT}")
        if computed is None:
            reason = result.ended_by or result.stderr.strip()[-300:] or f"status {result.status}"
            raise EnvironmentFault(f"LibreOffice could not compute the formulas ({reason})")
        try:
            await check_readable(computed)
            return await in_thread(read_workbook, computed)
        except TooLarge:
            raise
        except BadWorkbook as error:
            raise EnvironmentFault(f"LibreOffice left no workbook: {error}") from error


def wrong_cells(case: Example, book: Workbook, ranges: Sequence[CellRange]) -> list[Difference]:
    """The cells of a workbook that are not as they should be."""
    try:
        return differences(read_workbook(read_file(case.gold, _BYTES)), book, ranges)
    except (BadWorkbook, OSError, KeyError) as error:
        raise EnvironmentFault(f"{case.gold} cannot be compared with: {error}") from error


NO_OFFICE: Final = (
    "computing them takes LibreOffice, and soffice cannot be found: install it (apt-get install "
    "libreoffice-calc-nogui), or set env.formulas=forbid, which counts a formula as an empty cell"
)
_OFFICE_OPTIONS: Final = (
    "--headless",
    "--norestore",
    "-env:UserInstallation=file:///tmp/office",
    "--calc",
    "--convert-to",
    "xlsx:Calc MS Excel 2007 XML",
)


def _told(wrong: Sequence[Difference]) -> str:
    more = f"; {counted(len(wrong) - 3, 'more wrong cell')}" if len(wrong) > 3 else ""
    return "; ".join(map(str, wrong[:3])) + more


@dataclass(frozen=True, slots=True)
class ScriptRunner:
    """Runs code of an agent, with the packages of this Python."""

    sandbox: Sandbox
    seconds: float

    async def script(self, code: str, workbook: bytes) -> bytes | str:
        """What a script makes of a workbook; or why it makes nothing, as the agent is told."""
        files = {INPUT: workbook, SOLUTION: code.encode(errors="replace")}
        result = await self._run(["python", SOLUTION], _files(files, OUTPUT))
        if OUTPUT in result.files and result.status == 0 and not result.ended_by:
            return result.files[OUTPUT]
        if result.status == 0 and not result.ended_by:
            left_out = result.left_out.get(OUTPUT)
            return f"{OUTPUT} is {left_out}" if left_out else f"the script wrote no {OUTPUT}"
        return f"the script failed\n{self.shown(result)}"

    async def shell(
        self, command: str, files: Mapping[str, bytes]
    ) -> tuple[str, Mapping[str, bytes]]:
        """What a command prints, and the files that are there afterwards."""
        result = await self._run(["bash", "-c", command], _files(files, "*"))
        lost = [f"{name} was not kept: {why}" for name, why in result.left_out.items()]
        return "\n".join([self.shown(result), *lost]), result.files

    async def _run(self, command: Sequence[str], files: Workspace) -> SandboxResult:
        place = str(Path(sys.executable).parent)
        return await self.sandbox.run(
            ["/bin/sh", "-c", _WITH_OUR_PYTHON, "sh", place, *command],
            files,
            SandboxLimits(seconds=self.seconds, memory=_MEMORY, processes=128),
            programs=python_folders(Path(sys.prefix)),
        )

    def shown(self, result: SandboxResult) -> str:
        """What a program printed, its end if it is long, and how it ended."""
        text = "\n".join(filter(None, (result.stdout.strip(), result.stderr.strip())))
        if len(text) > _SHOWN_OUTPUT:
            text = f"…{text[-_SHOWN_OUTPUT:]}"
        ended = {
            "": f"status {result.status}",
            "seconds": f"ended after {self.seconds:g} s",
            "output": "ended, because it printed too much",
            "disk": "ended, because it wrote too much",
            "memory": "ended, because it took too much memory",
        }[result.ended_by]
        return f"{text}\n({ended})"


def _files(files: Mapping[str, bytes], collect: str) -> Workspace:
    return Workspace(files=files, collect=(collect,), max_file_bytes=_BYTES, max_bytes=_BYTES)
