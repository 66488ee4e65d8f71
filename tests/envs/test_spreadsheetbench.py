from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Font
from support_benchmark_agents import real_agents, trained_by_agent
from support_benchmarks import calling, knows_the_rule, results, sample, scored, trained

from skillopt.app.environment import open_environment
from skillopt.config.load import load_config
from skillopt.core.chat import Reply, Request, ToolCall
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import SPLITS, Splits
from skillopt.envs.spreadsheetbench.cells import (
    BadWorkbook,
    TooLarge,
    cell_ranges,
    check_readable,
    differences,
    has_formulas,
    read_workbook,
    same_value,
)
from skillopt.envs.spreadsheetbench.env import ScriptDialogue, ScriptWorkshop, SpreadsheetBench
from skillopt.errors import ConfigError, DataError, EnvironmentFault
from skillopt.harness.chat import Chat
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.scripted import from_callable
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS

PLAIN = SpreadsheetBench.Settings(mode="single", formulas="forbid")
CANARY = 8_675_309
SUM = """\
from openpyxl import load_workbook
book = load_workbook("input.xlsx")
sheet = book["Data"]
values = [row[0].value for row in sheet.iter_rows(min_row=2, max_col=1) if row[0].value is not None]
sheet["C1"] = sum(values)
book.save("output.xlsx")
"""
SAVE = "import openpyxl; openpyxl.load_workbook('input.xlsx').save('output.xlsx')"
FORMULA = SUM.replace("sum(values)", '"=SUM(A2:A100)"')


def block(code: str) -> str:
    return f"Here it is.\n```python\n{code}```"


def workbook(cells: Mapping[str, str | int], title: str = "Data") -> bytes:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = title
    for name, value in cells.items():
        sheet[name] = value
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def column(values: list[int], total: int | None = None) -> bytes:
    cells = {f"A{row}": value for row, value in enumerate(["Amount", *values], start=1)}
    return workbook(cells if total is None else {**cells, "C1": total})


def write_task(
    root: Path, number: int, cases: int = 2, gold: int | None = None
) -> dict[str, object]:
    """A task to add up a column, with its workbooks."""
    folder = root / "spreadsheet" / str(number)
    folder.mkdir(parents=True)
    for case in range(1, cases + 1):
        values = [number, case, 10 * case]
        total = sum(values) if gold is None else gold
        (folder / f"{case}_{number}_input.xlsx").write_bytes(column(values))
        (folder / f"{case}_{number}_answer.xlsx").write_bytes(column(values, total))
    return {
        "id": number,
        "instruction": f"Request {number}: put the sum of the amounts into C1.",
        "spreadsheet_path": f"spreadsheet/{number}",
        "instruction_type": "Cell-Level Manipulation",
        "answer_position": "'Data'!C1",
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def made(
    root: Path, settings: SpreadsheetBench.Settings = PLAIN, **changes: object
) -> SpreadsheetBench:
    if not root.exists():
        write_task(root, 1)
        write_task(root, 2)
    row = {
        "id": 1,
        "instruction": "Request 1: put the sum of the amounts into C1.",
        "spreadsheet_path": "spreadsheet/1",
        "instruction_type": "Cell-Level Manipulation",
        "answer_position": "'Data'!C1",
        **changes,
    }
    other = {
        **row,
        "id": 2,
        "instruction": "Request 2: the sum.",
        "spreadsheet_path": "spreadsheet/2",
    }
    splits = Splits(tuple(rows_of([row], "train")), tuple(rows_of([other], "val")))
    return SpreadsheetBench(replace(settings, data_root=root), splits).with_sandbox(
        Bubblewrap.create()
    )


@asynccontextmanager
async def opened(
    environment: SpreadsheetBench, split: Split = "train"
) -> AsyncGenerator[Any, None]:
    async with environment.open(environment.tasks(split)[0]) as episode:
        yield episode


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "settings", [PLAIN, replace(PLAIN, mode="multi"), replace(PLAIN, mode="react")]
)
async def test_it_keeps_the_contract_of_environments(
    root: Path, settings: SpreadsheetBench.Settings
) -> None:
    environment = made(root, settings)
    for check in ENVIRONMENT_CHECKS:
        await check(environment)


def test_the_official_vectors_compare_as_labelled() -> None:
    vectors = json.loads(sample("spreadsheetbench", "spreadsheet_cell_vectors.json").read_bytes())
    assert len(vectors) > 20
    for case in vectors:
        one, other = (eval(case[key], {"datetime": datetime}) for key in ("a", "b"))
        assert same_value(one, other) is case["equal"], case


VALUES = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False),
    st.booleans(),
    st.datetimes(),
    st.times(),
    st.sampled_from(["", "1.0", "1e400", "1_0"]),
)


@given(VALUES, VALUES)
def test_comparing_cells_is_symmetric_and_every_value_equals_itself(
    one: object, other: object
) -> None:
    assert same_value(one, one)
    assert same_value(one, other) is same_value(other, one)


@pytest.mark.parametrize(
    ("position", "cells"),
    [
        ("B2", ["Data!B2"]),
        ("'Data'!B2:B3", ["Data!B2", "Data!B3"]),
        ("Data'!B2", ["Data!B2"]),
        ("$B$3:A3", ["Data!A3", "Data!B3"]),
        ("A1,'Data'!B1", ["Data!A1", "Data!B1"]),
        ("B:B", ["Data!B1", "Data!B2", "Data!B3"]),
        ("b1 , ", ["Data!B1"]),
    ],
)
def test_positions_are_read_as_they_are_written_in_the_data(
    position: str, cells: list[str]
) -> None:
    full = workbook({f"{letter}{row}": "x" for letter in "AB" for row in (1, 2, 3)})
    empty = workbook({})
    found = differences(read_workbook(full), read_workbook(empty), cell_ranges(position))
    assert [each.where for each in found] == cells


def rewritten(book: bytes, sheet: Callable[[str], str]) -> bytes:
    """The same workbook with another text of its first sheet."""
    written = BytesIO()
    with ZipFile(BytesIO(book)) as old, ZipFile(written, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = sheet(content.decode()).encode()
            new.writestr(name, content)
    return written.getvalue()


@pytest.mark.parametrize(
    ("before", "more"),
    [
        ("</sheetData>", '</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'),
        ("</sheetData>", '</sheetData><mergeCells><mergeCell ref="A:B"/></mergeCells>'),
        ("</sheetData>", '</sheetData><hyperlinks><hyperlink ref="A1:B900000"/></hyperlinks>'),
        ("</sheetData>", "<row>" + "<c/>" * 1_000_001 + "</row></sheetData>"),
    ],
)
def test_a_small_file_that_would_fill_the_memory_is_not_read(before: str, more: str) -> None:
    hostile = rewritten(workbook({"A1": 1}), lambda text: text.replace(before, more))
    assert len(hostile) < 20_000
    with pytest.raises(TooLarge, match="more than 1,000,000 cells"):
        read_workbook(hostile)


async def test_what_no_count_foresees_is_found_in_a_process_of_its_own() -> None:
    cells = "<row>" + "<c><v>1</v></c>" * 16_000 + "</row></sheetData>"
    filled = rewritten(workbook({"A1": 1}), lambda text: text.replace("</sheetData>", cells))
    written = BytesIO()
    with ZipFile(BytesIO(filled)) as old, ZipFile(written, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "xl/workbook.xml":  # one sheet, under many names
                (sheet,) = re.findall(rb"<sheet [^>]*>", content)
                named = [sheet.replace(b'"Data"', b'"Data%d"' % n) for n in range(2000)]
                content = content.replace(sheet, b"".join(named))
            new.writestr(name, content)
    await check_readable(filled)
    with pytest.raises(TooLarge, match="reading it takes more than 3 s"):
        await check_readable(written.getvalue(), seconds=3)


@pytest.mark.parametrize("encoding", ["foo", "shift_jis", "idna"])
def test_a_part_in_an_encoding_that_nobody_knows_is_no_part_of_a_workbook(encoding: str) -> None:
    odd = BytesIO(workbook({"A1": 1}))
    with ZipFile(odd, "a") as archive:
        archive.writestr("xl/x.xml", f'<?xml version="1.0" encoding="{encoding}"?><x/>')
    with pytest.raises(BadWorkbook):
        read_workbook(odd.getvalue())


def test_a_workbook_with_too_much_besides_cells_is_not_read() -> None:
    many = "<cols>" + '<col min="1" max="1"/>' * 500_001 + "</cols><sheetData>"
    hostile = rewritten(workbook({"A1": 1}), lambda text: text.replace("<sheetData>", many))
    with pytest.raises(TooLarge, match="too many styles"):
        read_workbook(hostile)


def test_a_cell_in_the_last_row_and_a_chart_are_no_formulas_and_cost_nothing() -> None:
    book = Workbook()
    sheet: Any = book.active
    sheet["A1"] = 1
    sheet["A1048576"].font = Font(bold=True)
    chart: Any = BarChart()
    chart.add_data(Reference(sheet, min_col=1, min_row=1, max_row=2))
    sheet.add_chart(chart, "C3")
    written = BytesIO()
    book.save(written)
    assert not has_formulas(written.getvalue())
    assert has_formulas(workbook({"A1": "=1+1"}))


def test_a_comma_in_a_quoted_sheet_name_separates_nothing() -> None:
    first, second = cell_ranges("'Paid, 2020'!A1:B2,C3")
    assert (first.sheet, second.sheet) == ("Paid, 2020", "")
    assert cell_ranges("C3", "Paid")[0].sheet == "Paid"


@pytest.mark.parametrize("position", ["", ",", "'Data'!", "1A", "A1:B2:C3", "A1:ZZZ9999999"])
def test_a_position_that_names_no_cells_is_refused(root: Path, position: str) -> None:
    with pytest.raises(DataError, match="answer_position"):
        made(root, answer_position=position)


@pytest.mark.sandbox
def test_a_sheet_that_the_gold_lacks_is_a_fault_of_the_row(root: Path) -> None:
    rows = [write_task(root, number) for number in range(1, 5)]
    bad = root / "spreadsheet/2/2_2_answer.xlsx"
    bad.write_bytes(workbook({"C1": 1}, title="Other & more"))
    for split, some in (("train", rows[:2]), ("val", rows[2:3]), ("test", rows[3:])):
        (root / f"{split}.json").write_text(json.dumps(some), encoding="utf-8")
    values: dict[str, object] = {
        "env.name": "spreadsheetbench",
        "env.split_mode": "split_dir",
        "env.split_dir": str(root),
        "env.formulas": "forbid",
    }
    with pytest.raises(DataError) as caught:
        open_environment(load_config(values=values), SPLITS)
    told, hint = str(caught.value).split("\n")
    assert told == (
        f"{root / 'train.json'}[1]: 'answer_position' names the sheet 'Data', which {bad} does not "
        "have (it has 'Other & more')"
    )
    assert "env.drop_bad_rows=true" in hint
    kept, _, _ = open_environment(load_config(values={**values, "env.drop_bad_rows": True}), SPLITS)
    assert [task.id for task in kept.tasks("train")] == ["1"]


@pytest.mark.sandbox
def test_a_gold_that_cannot_be_compared_with_leaves_a_task_in_the_group_of_its_type(
    root: Path,
) -> None:
    environment = made(root)
    task = environment.tasks("train")[0]
    (root / "spreadsheet/1/1_1_answer.xlsx").write_bytes(b"broken")
    assert environment.groups(task) == (task.kind,)


@pytest.mark.sandbox
async def test_a_script_is_scored_on_every_test_case(root: Path) -> None:
    environment = made(root)
    async with opened(environment) as episode:
        assert (await scored(episode, block(SUM))).hard == 1
        constant = SUM.replace("sum(values)", "12")
        half = await scored(episode, block(constant))
        assert (half.hard, half.soft) == (0, 0.5)
        assert half.feedback == ("wrong cells: in test case 2: Data!C1 should be 23 and is 12")
        told = episode.details(Trajectory((), block(constant)))
        assert told["test_case_results"] == [1, 0]
        assert told["unchanged_hard"] == 0


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("code", "feedback"),
    [
        ("print('x')", "no result: in test case 1: the script wrote no output.xlsx"),
        ("raise SystemExit(3)", "(status 3)"),
        ("1 / 0", "ZeroDivisionError"),
        ("open('output.xlsx', 'w').write('no')", "cannot be opened: it is no .xlsx file"),
        ("while True: pass", "(ended after 5 s)"),
    ],
)
async def test_a_script_that_makes_no_workbook_scores_nothing_and_is_told_why(
    root: Path, code: str, feedback: str
) -> None:
    async with opened(made(root, replace(PLAIN, code_timeout=5))) as episode:
        score = await scored(episode, block(code))
        assert (score.hard, score.soft) == (0, 0)
        assert feedback in score.feedback


@pytest.mark.sandbox
async def test_a_reply_without_a_script_scores_nothing(root: Path) -> None:
    async with opened(made(root)) as episode:
        assert (await scored(episode, "I cannot do that.")).feedback.startswith("no script")


@pytest.mark.sandbox
async def test_a_missing_sheet_is_a_wrong_answer(root: Path) -> None:
    async with opened(made(root)) as episode:
        renamed = SUM.replace("book.save", "sheet.title = 'Other'\nbook.save")
        assert "there is no sheet 'Data'" in (await scored(episode, block(renamed))).feedback


@pytest.mark.sandbox
async def test_a_broken_gold_workbook_is_a_failure_and_no_score(root: Path) -> None:
    environment = made(root)
    (root / "spreadsheet/1/1_1_answer.xlsx").write_bytes(workbook({}, "Elsewhere"))
    async with environment.open(environment.tasks("val")[0]):
        pass
    with pytest.raises(EnvironmentFault, match="cannot be compared with"):
        await environment.open(environment.tasks("train")[0]).__aenter__()


@pytest.mark.sandbox
async def test_scripts_see_neither_answers_nor_other_workbooks(root: Path, tmp_path: Path) -> None:
    write_task(root, 1, gold=CANARY)
    write_task(root, 2)
    environment = made(root)
    look = f"""
import pathlib, sys
seen = []
for top in ("/workspace", "/tmp", {str(root)!r}, {str(tmp_path)!r}):
    seen += [str(path) for path in pathlib.Path(top).rglob("*")]
raise SystemExit(" ".join(path for path in seen if not path.startswith({sys.prefix!r})))
"""
    async with opened(environment) as episode:
        score = await scored(episode, block(look))
        assert "/workspace/input.xlsx" in score.feedback
        assert "answer" not in score.feedback
        assert "spreadsheet/2" not in score.feedback
        assert str(CANARY) not in f"{episode.brief}{episode.instructions}"
    async with opened(made(root, replace(PLAIN, workspace=True))) as episode:
        assert list(episode.workspace.files) == ["input.xlsx"]
        assert (await scored(episode, "", {"solution.py": SUM.encode()})).soft == 0


@pytest.mark.sandbox
async def test_an_agent_leaves_its_script_in_the_workspace(root: Path) -> None:
    async with opened(made(root, replace(PLAIN, workspace=True))) as episode:
        assert episode.workspace.collect == ("solution.py",)
        assert (await scored(episode, "Done.", {"solution.py": SUM.encode()})).hard == 1


@pytest.mark.sandbox
async def test_in_several_turns_errors_come_back_until_a_script_runs(root: Path) -> None:
    replies = iter(["Let me think.", block("import nothing_of_this_name"), block(SUM)])
    async with opened(made(root, replace(PLAIN, mode="multi"))) as episode:
        harness = Chat(from_callable(lambda request: next(replies)))
        trajectory = await harness.run(episode, Skill.parse(""))
        told = [message.text for message in trajectory.messages if message.role == "user"]
        assert "no ```python block" in told[1]
        assert "No module named 'nothing_of_this_name'" in told[2]
        assert trajectory.turns == 3
        assert (await episode.score(trajectory)).hard == 1


@pytest.mark.sandbox
async def test_only_training_tasks_are_told_wrong_cells_and_never_the_right_values(
    root: Path,
) -> None:
    environment = made(root, replace(PLAIN, mode="multi", use_eval_feedback=True))
    wrong = block(SUM.replace("sum(values)", "5"))
    async with opened(environment) as episode:
        assert isinstance(episode, ScriptDialogue)
        turn = await episode.respond(wrong)
        assert turn is not None
        assert turn.text.endswith("not right yet: Data!C1")
        assert await episode.respond(block(SUM)) is None
    async with opened(environment, "val") as episode:
        assert await episode.respond(wrong) is None


@pytest.mark.sandbox
async def test_with_tools_files_stay_from_call_to_call_and_the_solution_counts(root: Path) -> None:
    async with opened(made(root, replace(PLAIN, mode="react"))) as episode:
        assert isinstance(episode, ScriptWorkshop)

        async def use(name: str, **arguments: str) -> str:
            return await episode.call(ToolCall("c", name, json.dumps(arguments)))

        assert await use("write_file", path="solution.py", content=SUM) == "solution.py is written"
        assert "input.xlsx\nsolution.py" in await use("bash", command="ls; echo x > note.txt")
        assert await use("bash", command="cat note.txt; python solution.py; ls | wc -l") == (
            "x\n4\n(status 0)"
        )
        assert "(status 1)" in await use(
            "bash", command="curl -s http://127.0.0.1/ && exit 0; exit 1"
        )
        for path in ("../out.py", "/etc/x", ""):
            with pytest.raises((ValueError, TypeError)):
                await use("write_file", path=path, content="x")
        assert (await scored(episode, "Done.")).hard == 1


office = pytest.mark.skipif(
    shutil.which("soffice") is None, reason="LibreOffice is not installed; make test-envs"
)


@office
async def test_formulas_are_computed_before_cells_are_compared(root: Path) -> None:
    environment = made(root, replace(PLAIN, formulas="recalculate"))
    async with opened(environment) as episode:
        assert "formulas that Excel" in episode.instructions
        assert (await scored(episode, block(FORMULA))).hard == 1
        wrong = await scored(episode, block(FORMULA.replace("A100", "A2")))
        assert (wrong.hard, wrong.soft) == (0, 0)


@pytest.mark.sandbox
async def test_a_formula_that_is_forbidden_counts_as_an_empty_cell(root: Path) -> None:
    async with opened(made(root)) as episode:
        assert "not formulas" in episode.instructions
        formula = await scored(episode, block(FORMULA))
        assert (formula.hard, formula.soft) == (0, 0)
        assert formula.feedback == (
            "wrong cells: in test case 1: Data!C1 should be 12 and has a formula without a "
            "computed value"
        )
        assert (await scored(episode, block(SAVE))).feedback.endswith("should be 12 and is empty")


@pytest.mark.sandbox
async def test_without_libreoffice_formulas_are_an_error_and_never_a_wrong_score(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = made(root)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"env\.formulas: .*apt-get install libreoffice"):
        SpreadsheetBench(replace(PLAIN, formulas="recalculate"), Splits((), ()))
    monkeypatch.undo()
    async with opened(environment) as episode:
        episode.grader = replace(episode.grader, recalculates=True)
        output = await episode.runner.script(FORMULA, episode.workbook)
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(EnvironmentFault, match="soffice cannot be found"):
            await episode.grader.grade(episode.cases[0], output)


@pytest.mark.sandbox
def test_tasks_that_pass_without_a_change_are_a_group_of_their_own(root: Path) -> None:
    write_task(root, 1)
    write_task(root, 2)
    for case in (1, 2):
        folder = root / "spreadsheet/2"
        shutil.copy(folder / f"{case}_2_input.xlsx", folder / f"{case}_2_answer.xlsx")
    environment = made(root)
    task: Task = environment.tasks("train")[0]
    assert environment.groups(task) == ("Cell-Level Manipulation", "unchanged workbook fails")
    assert environment.groups(environment.tasks("val")[0])[1] == "unchanged workbook passes"
    assert environment.unchanged(environment.tasks("val")[0]) == (True, 1.0)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (("1_7_init.xlsx", "1_7_golden.xlsx", "prompt.txt"), [1]),
        (("initial.xlsx", "golden.xlsx", "~$golden.xlsx"), [1]),
        (
            (
                "2_7_input.xlsx",
                "2_7_answer.xlsx",
                "1_7_input.xlsx",
                "1_7_answer.xlsx",
                "~$1_7_input.xlsx",
            ),
            [1, 2],
        ),
    ],
)
def test_workbooks_are_found_whichever_way_they_are_named(
    root: Path, names: tuple[str, ...], numbers: list[int]
) -> None:
    write_task(root, 2)
    folder = root / "spreadsheet/1"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(column([1]))
    task = made(root).tasks("train")[0]
    assert len(cast("dict[str, str]", task.data["workbooks"])) == 2 * len(numbers)


@pytest.mark.sandbox
def test_bad_items_are_refused_with_their_place(root: Path) -> None:
    def complaint(**changes: object) -> str:
        with pytest.raises(DataError) as caught:
            made(root, PLAIN, **changes)
        assert str(caught.value).startswith("train[0]: ")
        return str(caught.value)

    made(root)
    assert "'instruction' is empty" in complaint(instruction=" ")
    assert "there is no folder" in complaint(spreadsheet_path="spreadsheet/9")
    assert "not a relative path" in complaint(spreadsheet_path="../elsewhere")
    (root / "spreadsheet/1/1_1_input.xlsx").write_bytes(b"PK\x03\x04 broken")
    assert "1_1_input.xlsx is no .xlsx workbook" in complaint()
    (root / "spreadsheet/1/1_1_answer.xlsx").unlink()
    assert "has no workbook with the answer" in complaint()


@pytest.mark.sandbox
def test_an_attempt_counts_for_the_workbooks_as_they_were(root: Path) -> None:
    before = made(root).tasks("train")[0].digest
    assert made(root).tasks("train")[0].digest == before
    (root / "spreadsheet/1/1_1_answer.xlsx").write_bytes(column([1], 5))
    assert made(root).tasks("train")[0].digest != before


def test_settings_that_cannot_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for change, complaint in (
        ({"max_turns": 0}, "env.max_turns"),
        ({"code_timeout": 0}, "env.code_timeout"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            SpreadsheetBench(replace(PLAIN, **change), Splits((), ()))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ConfigError, match=r"pip install .*openpyxl.*pandas"):
        SpreadsheetBench(PLAIN, Splits((), ()))


def clerk(request: Request) -> Reply | str:
    """Adds up if it knows the rule, and guesses if it does not; with tools, by a file."""
    code = SUM if knows_the_rule(request) else SUM.replace("sum(values)", "0")
    if not request.tools:
        return block(code)
    if results(request):
        return "Done."
    return calling("write_file", json.dumps({"path": "solution.py", "content": code}))


@pytest.mark.sandbox
@pytest.mark.parametrize("mode", ["multi", "react"])
async def test_it_trains_with_a_target_that_writes_scripts(
    root: Path, tmp_path: Path, mode: str
) -> None:
    rows = [write_task(root, number, cases=1) for number in range(1, 7)]
    result = await trained(
        "spreadsheetbench", rows, clerk, tmp_path / "run",
        data_root=str(root), mode=mode, formulas="forbid", workers=2,
    )  # fmt: skip
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)


@pytest.mark.sandbox
async def test_it_trains_with_a_target_that_works_on_files_in_a_workspace(
    root: Path, tmp_path: Path
) -> None:
    rows = [write_task(root, number, cases=1) for number in range(1, 7)]
    result = await trained(
        "spreadsheetbench", rows, clerk, tmp_path / "run",
        data_root=str(root), harness="tools", workspace=True, formulas="forbid", workers=2,
    )  # fmt: skip
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)


COMPUTED = ("58994", "53068", "57590")
"""Real tasks whose gold has formulas in the cells that count."""


def real() -> SpreadsheetBench:
    folder = sample("spreadsheetbench", "sample_data_200")
    rows = [item.row for item in SpreadsheetBench.read_raw(folder)]
    assert len(rows) == 36
    settings = replace(PLAIN, data_root=folder)
    return SpreadsheetBench(settings, Splits(tuple(rows), ())).with_sandbox(Bubblewrap.create())


@pytest.mark.sandbox
def test_real_gold_workbooks_pass_against_themselves_and_few_inputs_do() -> None:
    environment = real()
    unchanged = [environment.unchanged(task)[0] for task in environment.tasks("train")]
    assert 0 <= sum(unchanged) <= 6
    for task in environment.tasks("train"):
        folder = sample("spreadsheetbench", "sample_data_200") / str(task.data["spreadsheet_path"])
        for gold in folder.glob("[123]_*_answer.xlsx"):
            book = read_workbook(gold.read_bytes())
            assert differences(book, book, cell_ranges(str(task.data["answer_position"]))) == []


@pytest.mark.sandbox
async def test_a_real_task_is_opened_and_scored_by_a_script_that_copies() -> None:
    environment = real()
    copy = 'import shutil; shutil.copy("input.xlsx", "output.xlsx")'
    for task in environment.tasks("train")[:3]:
        async with environment.open(task) as episode:
            assert "## input.xlsx\n### Sheet" in episode.brief
            score = await scored(episode, block(copy))
            assert (score.hard, score.soft) == (float(episode.unchanged[0]), episode.unchanged[1])


@office
async def test_real_gold_workbooks_pass_after_libreoffice_has_written_them() -> None:
    environment = real()
    passed = 0
    for task in (task for task in environment.tasks("train") if task.id in COMPUTED):
        async with environment.open(task) as episode:
            grader = replace(episode.grader, recalculates=True)
            case = episode.cases[0]
            # Saved by openpyxl, a workbook has its formulas and none of their values.
            saved = await episode.runner.script(SAVE, case.gold.read_bytes())
            assert isinstance(saved, bytes)
            passed += (await grader.grade(case, saved)).passed
    assert passed == len(COMPUTED)


@pytest.mark.sandbox
def test_a_workbook_that_is_a_link_out_of_the_data_is_refused(root: Path, tmp_path: Path) -> None:
    made(root)
    gold = root / "spreadsheet/1/1_1_answer.xlsx"
    gold.rename(tmp_path / "elsewhere.xlsx")
    gold.symlink_to(tmp_path / "elsewhere.xlsx")
    with pytest.raises(DataError, match=rf"the workbook .* leads out of {root}.*env\.data_root"):
        made(root)
    gold.unlink()
    gold.symlink_to("2_1_answer.xlsx")
    made(root)


@pytest.mark.agents
@real_agents
async def test_it_trains_with_a_real_agent_that_finds_the_workbook_in_its_folder(
    agent: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [write_task(root, number) for number in range(1, 5)]
    work = f"test -s input.xlsx && cat > solution.py <<'END'\n{SUM}END"
    result, asked = await trained_by_agent(
        agent,
        "spreadsheetbench",
        rows,
        lambda _: work,
        lambda _, __: "Done.",
        tmp_path / "run",
        monkeypatch,
        data_root=str(root),
        formulas="forbid",
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert any("Leave the script there as solution.py" in text for text in asked)
