from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

import pytest

from skillopt.datasets.rows import read_rows
from skillopt.errors import DataError

_ROWS = [
    {"question": "Colour, of grass?", "answer": "green"},
    {"question": "2; then?", "answer": "3"},
]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_stand_between_commas_semicolons_tabs_or_pipes(
    delimiter: str, name: str, tmp_path: Path
) -> None:
    lines = [
        delimiter.join(f'"{cell}"' for cell in cells)
        for cells in (("question", "answer"), *(each.values() for each in _ROWS))
    ]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    rows = read_rows(tmp_path / name)
    assert [row.data for row in rows] == _ROWS
    assert rows[1].where == f"{tmp_path / name}:3"


@pytest.mark.parametrize(
    ("delimiter", "end"), [(";", "\r\n"), (",", "\n"), ("\t", "\n"), ("|", "\n")]
)
def test_a_first_line_may_say_what_the_delimiter_is(
    delimiter: str, end: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    lines = [f"sep={delimiter}", f"input{delimiter}answer", f"a, b; c{delimiter}d"]
    if delimiter in ",;":
        lines[2] = f'"a, b; c"{delimiter}d'
    file.write_bytes(end.join(lines).encode())
    (row,) = read_rows(file)
    assert row.data == {"input": "a, b; c", "answer": "d"}
    assert row.where == f"{file}:3"


def test_a_header_below_the_delimiter_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=;\na;a\n1;2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv:2: two columns are named 'a'"):
        read_rows(tmp_path / "a.csv")


def test_commas_within_cells_are_no_delimiter_where_semicolons_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question;answer\na, b;c\nd;e, f\n", encoding="utf-8")
    assert [dict(row.data) for row in read_rows(tmp_path / "a.csv")] == [
        {"question": "a, b", "answer": "c"},
        {"question": "d", "answer": "e, f"},
    ]


@pytest.mark.parametrize(
    ("delimiter", "named"),
    [(",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "pipes")],
)
def test_a_row_with_too_many_cells_is_told_by_the_delimiter_of_the_header(
    delimiter: str, named: str, tmp_path: Path
) -> None:
    lines = [["question", "answer"], ["a", "b"], ["c", "d", "e"]]
    (tmp_path / "a.csv").write_text("\n".join(map(delimiter.join, lines)), encoding="utf-8")
    told = rf"a\.csv:3: 3 cells under 2 columns; quote cells that hold {named} or line breaks"
    with pytest.raises(DataError, match=told):
        read_rows(tmp_path / "a.csv")


def test_pipes_within_cells_are_no_delimiter_where_the_header_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer\na|b,c|d\n", encoding="utf-8")
    (row,) = read_rows(tmp_path / "a.csv")
    assert row.data == {"question": "a|b", "answer": "c|d"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_with_a_byte_order_mark_are_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("question,answer\nGröße,é\n".encode(encoding))
    (row,) = read_rows(tmp_path / "a.csv")
    assert row.data == {"question": "Größe", "answer": "é"}


def test_another_encoding_is_told_with_the_line_and_the_command_that_mends_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("question,answer\nok,1\nGröße,2\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"a\.csv:3: not UTF-8.*Größe.*iconv -f WINDOWS-1252"):
        read_rows(file)


def test_a_spreadsheet_is_read_like_a_table(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (["question", "answer", "due"], ["a", 3, date(2026, 3, 5)], [], ["b", "x", None]):
        book.active.append(line)
    book.create_sheet("empty")
    book.save(tmp_path / "a.xlsx")
    rows = read_rows(tmp_path / "a.xlsx")
    assert [dict(row.data) for row in rows] == [
        {"question": "a", "answer": 3, "due": "2026-03-05T00:00:00"},
        {"question": "b", "answer": "x", "due": ""},
    ]
    assert rows[1].where.endswith("a.xlsx:4")


def test_a_spreadsheet_with_two_filled_sheets_or_another_content_is_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["question", "answer"])
    book.create_sheet("more").append(["question", "answer"])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="2 sheets"):
        read_rows(tmp_path / "a.xlsx")
    (tmp_path / "b.xlsx").write_text("question,answer\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"not an \.xlsx file"):
        read_rows(tmp_path / "b.xlsx")


@pytest.mark.parametrize("name", ["tickts.csv", "tickets.cvs", "tickets"])
def test_a_misspelt_file_names_the_nearest_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"did you mean .*tickets\.csv\?"):
        read_rows(tmp_path / name)


def test_a_cell_may_be_as_long_as_a_row_and_the_limit_of_others_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "word " * 100_000
    file = tmp_path / "a.csv"
    file.write_text(f'question,answer\n"{long}",x\n', encoding="utf-8")
    assert read_rows(file)[0].data["question"] == long
    assert csv.field_size_limit() == before
