"""SpreadsheetBench: requests from forums of users, each with workbooks to change."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.aio import in_thread
from skillopt.core.chat import Tool, ToolCall
from skillopt.core.episode import (
    EpisodeLimits,
    EpisodeNeed,
    NextTurn,
    Workspace,
    check_inside,
)
from skillopt.core.extras import install_command
from skillopt.core.ports import Sandbox
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Split, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_files, raw_folder
from skillopt.datasets.rows import Row, read_rows
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import Tasks, filled_field, fingerprint, named_field, row_of
from skillopt.envs.spreadsheetbench.cells import (
    BadWorkbook,
    CellRange,
    Workbook,
    cell_ranges,
    read_workbook,
)
from skillopt.envs.spreadsheetbench.workbooks import (
    INPUT,
    NO_OFFICE,
    OUTPUT,
    SOLUTION,
    CaseResult,
    Example,
    Grader,
    ScriptRunner,
    check_sheets,
    digest,
    examples,
    preview,
    wrong_cells,
)
from skillopt.errors import ConfigError, DataError, EnvironmentFault

_ROLE: Final = f"""\
You change a workbook as its user asks for. You write a Python script that reads {INPUT} and saves \
the changed workbook as {OUTPUT}, both in the current folder; openpyxl and pandas are installed. \
The same script is then run on other workbooks with the same layout and other values, so compute \
from what is in the cells. {{formulas}}"""
_FORMULAS: Final = {
    "recalculate": "You may write values or formulas that Excel and LibreOffice know.",
    "forbid": "Write values, not formulas: formulas are not computed and count as empty cells.",
}
_ANSWER: Final = {
    "single": "Reply with the whole script in one ```python block.",
    "multi": """\
Reply with the whole script in one ```python block. If it fails, you are told how, and reply with \
a better one.""",
    "react": f"""\
Look at the workbook and try things out with the tool bash. When you are done, the script must be \
in the file {SOLUTION}.""",
    "workspace": f"""\
{INPUT} is in your workspace. Leave the script there as {SOLUTION}. It is run elsewhere: what is \
installed there may be missing in your workspace.""",
}
_NO_SCRIPT: Final = "There is no ```python block in your reply. Reply with the whole script in one."
_BLOCK: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_PASSES, _FAILS = "unchanged workbook passes", "unchanged workbook fails"
_TOOLS: Final = (
    Tool(
        "bash",
        "Runs a command in your folder, without a network; files stay for the next command.",
        {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    ),
    Tool(
        "write_file",
        "Writes a text file into your folder.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    ),
)


class SpreadsheetBench:
    """Hard: all test cases are right. Soft: the share of them that is."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """Where the workbooks are, how the agent works, and what counts."""

        data_root: Path | None = None
        """The folder with `spreadsheet/` in it; empty: the folder of the items."""
        mode: Literal["single", "multi", "react"] = "multi"
        """One script | scripts until one runs | tools to try things out."""
        max_turns: int = 30
        formulas: Literal["recalculate", "forbid"] = "recalculate"
        """Computed by LibreOffice before cells are compared | not computed, as in the original."""
        use_eval_feedback: bool = False
        """multi: a script that runs on a training task and gets cells wrong is told which ones."""
        code_timeout: float = 120.0
        """Seconds for each run of a script or a command."""
        workspace: bool = False
        """Whether the target gets the workbook as a file of its workspace, so that `mode` has no
        effect; agent programs do where they cannot serve the mode."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    prompts: ClassVar[Path | None] = None
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="SpreadsheetBench: requests of users, with workbooks to change",
        sources=(
            DataSource(
                what="400 tasks that experts have checked, one test case each",
                url="https://huggingface.co/datasets/KAKA22/SpreadsheetBench",
                licence="CC BY-SA 4.0",
                revision="ab0b742b0fc95b946f212d80ac7771b5531272e4",
                files={"spreadsheetbench_verified_400.tar.gz": ""},
            ),
            DataSource(
                what="all 912 tasks, or 200 of them, with three test cases each",
                url="https://github.com/RUCKBReasoning/SpreadsheetBench",
                licence="CC BY-SA 4.0",
                files={"*.tar.gz": ""},
            ),
        ),
        items={"verified": 400, "all": 912, "sample": 200},
        extra="spreadsheetbench",
        programs=("bwrap", "soffice"),
        notes=("unpack the archive, and name the folder with dataset.json in it",),
    )
    name = "spreadsheetbench"

    def __init__(self, settings: SpreadsheetBench.Settings, splits: Splits) -> None:
        _check(settings)
        self._settings = settings
        self._root = settings.data_root or splits.root or Path()
        self._sandbox: Sandbox | None = None
        self._unchanged: dict[str, tuple[bool, float]] = {}
        self._tasks = Tasks.of(splits, self._task)
        self._training = {task.id for task in self._tasks.splits["train"]}

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The tasks of a `dataset.json`, with the workbooks in the folders beside it."""
        for file in raw_files(source, ("dataset.json",)):
            for row in read_rows(file):
                name = named_field(row, "id")
                within = _folder(row, name)
                folder, top = file.parent / within, raw_folder(source)
                cases = examples(file.parent, within, row)
                paths = [path for case in cases for path in (case.input, case.gold)]
                data = {**row.data, "id": name, "spreadsheet_path": _below(folder, top)}
                yield RawItem(Row(data, row.where), tuple(_below(path, top) for path in paths))

    @property
    def fingerprint(self) -> str:
        chosen = self._settings
        how = ["workspace"] if chosen.workspace else [chosen.mode, chosen.max_turns]
        counts = [chosen.formulas, chosen.code_timeout, chosen.use_eval_feedback]
        return fingerprint(f"{self.name}/1", {"how": how, "counts": counts})

    @property
    def warnings(self) -> Sequence[str]:
        return self._tasks.warnings

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        if self._settings.workspace:
            return ("workspace",)
        by_mode: dict[str, tuple[EpisodeNeed, ...]] = {"multi": ("turns",), "react": ("tools",)}
        return by_mode.get(self._settings.mode, ())

    def with_sandbox(self, sandbox: Sandbox) -> SpreadsheetBench:
        made = copy(self)
        made._sandbox = sandbox
        return made

    def in_folder(self) -> SpreadsheetBench:
        """The workbook as a file."""
        made = copy(self)
        made._settings = replace(self._settings, workspace=True)
        return made

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks.splits[split]

    def groups(self, task: Task) -> tuple[str, ...]:
        """Its type, and whether doing nothing passes: the score of that is no merit of a skill.

        The type alone if its workbooks cannot be compared, which its attempts tell.
        """
        try:
            return task.kind, _PASSES if self.unchanged(task)[0] else _FAILS
        except EnvironmentFault:
            return (task.kind,)

    def unchanged(self, task: Task) -> tuple[bool, float]:
        """Hard and soft score of an agent that changes nothing."""
        if task.id not in self._unchanged:
            row = row_of(task)
            ranges = self._ranges(row)
            passed = [not wrong_cells(case, _opened(case), ranges) for case in self._examples(row)]
            self._unchanged[task.id] = all(passed), sum(passed) / len(passed)
        return self._unchanged[task.id]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[SpreadsheetEpisode, None]:
        if self._sandbox is None:
            raise EnvironmentFault("scripts of an agent need the sandbox of a run")
        row, chosen = row_of(task), self._settings
        cases = self._examples(row)
        workbook = cases[0].input.read_bytes()
        kind = SpreadsheetEpisode
        if not chosen.workspace:
            kind = {"multi": ScriptDialogue, "react": ScriptWorkshop}.get(chosen.mode, kind)
        yield kind(
            settings=chosen,
            request=await in_thread(_request, row, workbook),
            workbook=workbook,
            cases=cases,
            runner=ScriptRunner(self._sandbox, chosen.code_timeout),
            grader=Grader(
                self._ranges(row), self._sandbox, recalculates=chosen.formulas == "recalculate"
            ),
            unchanged=await in_thread(self.unchanged, task),
            hints=chosen.use_eval_feedback and task.id in self._training,
        )

    def _task(self, name: str, row: Row) -> Task:
        filled_field(row, "instruction")
        ranges, cases = self._ranges(row), self._examples(row)
        files = [path for case in cases for path in (case.input, case.gold)]
        digests = {path.name: digest(path, row) for path in files}
        for case in cases:
            check_sheets(case, ranges, row)
        kind = named_field(row, "instruction_type") or "default"
        return Task(name, kind, {**row.data, "workbooks": digests})

    def _examples(self, row: Row) -> list[Example]:
        return examples(self._root, _folder(row, named_field(row, "id")), row)

    def _ranges(self, row: Row) -> tuple[CellRange, ...]:
        position = filled_field(row, "answer_position")
        try:
            return tuple(cell_ranges(position, named_field(row, "answer_sheet")))
        except ValueError as error:
            raise DataError(f"{row.where}: 'answer_position' is {position!r}: {error}") from error


@dataclass(slots=True, kw_only=True)
class SpreadsheetEpisode:
    """A request; the answer is a script, which is run on the workbook of every test case."""

    settings: SpreadsheetBench.Settings
    request: str
    workbook: bytes
    cases: Sequence[Example]
    runner: ScriptRunner
    grader: Grader
    unchanged: tuple[bool, float]
    hints: bool
    results: list[CaseResult] = field(default_factory=list[CaseResult])

    @property
    def instructions(self) -> str:
        role = _ROLE.format(formulas=_FORMULAS[self.settings.formulas])
        how = "workspace" if self.settings.workspace else self.settings.mode
        return f"{role}\n\n{_ANSWER[how]}"

    @property
    def brief(self) -> str:
        return self.request

    @property
    def workspace(self) -> Workspace | None:
        if not self.settings.workspace:
            return None
        return Workspace(files={INPUT: self.workbook}, collect=(SOLUTION,))

    def script(self, trajectory: Trajectory) -> str:
        """The script that counts; empty if there is none."""
        if SOLUTION in trajectory.files:
            return trajectory.files[SOLUTION].decode(errors="replace")
        return _code(trajectory.answer)

    async def score(self, trajectory: Trajectory) -> Score:
        code = self.script(trajectory)
        if not code.strip():
            return Score(0, 0, "no script: the attempt ended without one")
        self.results = [await self._result(code, case) for case in self.cases]
        passed = [result.passed for result in self.results]
        if all(passed):
            return Score(1, 1, "correct")
        soft = sum(passed) / len(passed)
        case, wrong = next(
            (case, result)
            for case, result in zip(self.cases, self.results, strict=True)
            if not result.passed
        )
        what = "wrong cells" if wrong.cells else "no result"
        return Score(0, soft, f"{what}: in test case {case.number}: {wrong.told}")

    async def _result(self, code: str, case: Example) -> CaseResult:
        output = await self.runner.script(code, case.input.read_bytes())
        if isinstance(output, str):
            return CaseResult(passed=False, told=output)
        return await self.grader.grade(case, output)

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        return {
            "question": self.request,
            "predicted_answer": self.script(trajectory),
            "test_case_results": [int(result.passed) for result in self.results],
            "unchanged_hard": float(self.unchanged[0]),
            "unchanged_soft": self.unchanged[1],
        }


@dataclass(slots=True, kw_only=True)
class ScriptDialogue(SpreadsheetEpisode):
    """The agent is told how its script failed, until one runs."""

    code: str = ""
    """The last script."""

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(turns=self.settings.max_turns)

    def script(self, trajectory: Trajectory) -> str:
        return _code(trajectory.answer) or self.code

    async def respond(self, reply: str) -> NextTurn | None:
        code = _code(reply)
        if not code.strip():
            return NextTurn(_NO_SCRIPT)
        self.code = code
        output = await self.runner.script(code, self.workbook)
        if isinstance(output, str):
            return NextTurn(f"Your script did not work: {output}")
        if not self.hints:
            return None
        result = await self.grader.grade(self.cases[0], output)
        if result.passed:
            return None
        return NextTurn(
            f"Your script runs, but these are not right yet: {result.cells or result.told}"
        )


@dataclass(slots=True, kw_only=True)
class ScriptWorkshop(SpreadsheetEpisode):
    """The agent tries things out with tools, in a folder of its own."""

    tools: tuple[Tool, ...] = _TOOLS
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def __post_init__(self) -> None:
        self.files = {INPUT: self.workbook}

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(turns=self.settings.max_turns)

    def script(self, trajectory: Trajectory) -> str:
        written = self.files.get(SOLUTION, b"").decode(errors="replace")
        return written or _code(trajectory.answer)

    async def call(self, call: ToolCall) -> str:
        given = cast("dict[str, object]", json.loads(call.arguments))
        if call.name == "bash":
            printed, self.files = await self.runner.shell(_text(given, "command"), self.files)
            return printed
        path, content = _text(given, "path"), _text(given, "content")
        check_inside(path)
        self.files = {**self.files, path: content.encode(errors="replace")}
        return f"{path} is written"


def _check(settings: SpreadsheetBench.Settings) -> None:
    if settings.max_turns < 1:
        raise ConfigError(f"env.max_turns: {settings.max_turns}; use 1 or more")
    if settings.code_timeout <= 0:
        raise ConfigError(f"env.code_timeout: {settings.code_timeout}; use some seconds")
    if find_spec("openpyxl") is None:
        needed = install_command("spreadsheetbench")
        raise ConfigError(f"env.name: spreadsheetbench reads workbooks with packages ({needed})")
    if settings.formulas == "recalculate" and shutil.which("soffice") is None:
        raise ConfigError(f"env.formulas: scripts may write formulas; {NO_OFFICE}")


def _folder(row: Row, name: str) -> str:
    path = named_field(row, "spreadsheet_path") or f"spreadsheet/{name}"
    try:
        check_inside(path)
    except ValueError as error:
        raise DataError(f"{row.where}: 'spreadsheet_path': {error}") from error
    return path


def _below(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()


def _opened(case: Example) -> Workbook:
    try:
        return read_workbook(case.input.read_bytes())
    except (BadWorkbook, OSError) as error:
        raise EnvironmentFault(f"{case.input} cannot be opened: {error}") from error


def _request(row: Row, workbook: bytes) -> str:
    try:
        shown = preview(workbook)
    except BadWorkbook as error:
        raise EnvironmentFault(f"{row.where}: its workbook cannot be opened: {error}") from error
    sheet = named_field(row, "answer_sheet")
    where = filled_field(row, "answer_position")
    return "\n\n".join(
        [
            f"## Request\n{filled_field(row, 'instruction').strip()}",
            f"## Type\n{named_field(row, 'instruction_type') or 'not given'}",
            f"## Cells that count\n{where}{f' (of sheet {sheet})' if sheet else ''}",
            f"## {INPUT}\n{shown}",
        ]
    )


def _code(reply: str) -> str:
    """The last block of code in a reply."""
    blocks = _BLOCK.findall(reply)
    return blocks[-1] if blocks else ""


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise TypeError(f"{name} should be a text")
    return value
