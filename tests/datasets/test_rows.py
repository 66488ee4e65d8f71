from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.datasets.rows import read_rows, rows_of
from skillopt.errors import DataError

text = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
items = st.lists(st.dictionaries(text, values, max_size=4), max_size=5)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def data(path: Path) -> list[object]:
    return [dict(row.data) for row in read_rows(path)]


@given(items, st.booleans())
def test_what_is_written_as_json_is_read_back(rows: list[dict[str, object]], ascii_only: bool):
    with TemporaryDirectory() as folder:
        document = json.dumps(rows, ensure_ascii=ascii_only)
        assert data(written(Path(folder), "a.json", document)) == rows
        wrapped = json.dumps({"data": rows}, ensure_ascii=ascii_only)
        assert data(written(Path(folder), "b.json", wrapped)) == rows


@given(items, st.booleans())
def test_what_is_written_as_jsonl_is_read_back(rows: list[dict[str, object]], ascii_only: bool):
    with TemporaryDirectory() as folder:
        lines = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
        assert data(written(Path(folder), "a.jsonl", lines)) == rows
        assert data(written(Path(folder), "a.ndjson", lines.replace("\n", "\r\n\r\n"))) == rows


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(
    st.lists(
        cells.filter(lambda name: name == name.strip() != ""), min_size=1, max_size=4, unique=True
    ),
    st.data(),
    st.booleans(),
)
def test_what_is_written_as_csv_is_read_back(header: list[str], draw: st.DataObject, bom: bool):
    width = len(header)
    rows = draw.draw(st.lists(st.lists(cells, min_size=width, max_size=width), max_size=4))
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    with TemporaryDirectory() as folder:
        path = written(Path(folder), "a.csv", ("\ufeff" if bom else "") + out.getvalue())
        assert data(path) == [dict(zip(header, row, strict=True)) for row in rows]


def test_an_object_of_objects_gives_each_row_its_key_as_id(tmp_path: Path):
    path = written(tmp_path, "a.json", '{"q1": {"x": 1}, "q2": {"x": 2, "id": "own"}}')
    assert data(path) == [{"id": "q1", "x": 1}, {"id": "own", "x": 2}]


def test_jsonl_under_the_name_json_is_read(tmp_path: Path):
    assert data(written(tmp_path, "a.json", '{"x": 1}\n{"x": 2}\n')) == [{"x": 1}, {"x": 2}]


def test_a_row_knows_its_place(tmp_path: Path):
    array = written(tmp_path, "train/items.json", '[{"x": 1}, {"x": 2}]')
    assert read_rows(tmp_path / "train")[1].where == f"{array}[1]"
    lines = written(tmp_path, "a.jsonl", '{"x": 1}\n\n{"x": 2}')
    assert read_rows(lines)[1].where == f"{lines}:3"
    table = written(tmp_path, "a.csv", 'x\n"two\nlines"\n2\n')
    assert [row.where for row in read_rows(table)] == [f"{table}:2", f"{table}:4"]
    assert rows_of([{"x": 1}], "items")[0].where == "items[0]"


@pytest.mark.parametrize(
    ("name", "content", "place", "reason"),
    [
        ("a.json", '[{"x": 1},\n {"x": }]', "a.json:2", "not valid JSON"),
        ("a.json", '[{"x": 1}, "two"]', "a.json[1]", "found text"),
        ("a.json", '{"q1": 5}', "a.json['q1']", "found a number"),
        ("a.json", "5", "a.json", "expected an array of objects"),
        ("a.json", "", "a.json:1", "not valid JSON"),
        ("a.json", '[{"x": 1}] junk', "a.json:1", "not valid JSON"),
        ("a.json", '[{"x": NaN}]', "a.json", "NaN is not a JSON value"),
        ("a.json", '{"q": {}, "q": {}}', "a.json", "'q' stands twice"),
        ("a.json", '[{"x": "\\ud800"}]', "a.json[0]", "surrogate"),
        ("a.json", "[" * 100_000, "a.json", "JSON"),
        ("a.jsonl", '{"x": 1}\n{"x"', "a.jsonl:2", "not valid JSON"),
        ("a.jsonl", '{"x": 1}\n\n[1]', "a.jsonl:3", "found a list"),
        ("a.jsonl", '{"x": 1}\n[]', "a.jsonl:2", "found an empty list"),
        ("a.jsonl", f'{{"x": {"1" * 5000}}}', "a.jsonl:1", "5,000 digits; write it as text"),
        ("a.csv", "", "a.csv:1", "no header"),
        ("a.csv", "x,,y\n1,2,3", "a.csv:1", "has no name"),
        ("a.csv", "x,x\n1,2", "a.csv:1", "two columns are named 'x'"),
        ("a.csv", "x,y\n1,2\n1,2,3", "a.csv:3", "3 cells under 2 columns"),
        ("a.csv", 'x,y\n1,"2', "a.csv:2", "not readable as CSV"),
        ("a.jsonl", b'{"x": 1}\n{"x": "\xe4"}', "a.jsonl:2", "not UTF-8"),
        ("a.csv", b"x\n\xff", "a.csv:2", "not UTF-8"),
        ("a.txt", "x", "a.txt", ".jsonl"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(
    tmp_path: Path, name: str, content: str | bytes, place: str, reason: str
):
    with pytest.raises(DataError) as caught:
        read_rows(written(tmp_path, name, content))
    assert str(caught.value).startswith(f"{tmp_path}/{place}: ")
    assert reason in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(DataError, match=r"absent\.jsonl: cannot be read"):
        read_rows(tmp_path / "absent.jsonl")


def test_a_folder_holds_exactly_one_data_file(tmp_path: Path):
    with pytest.raises(DataError, match="no data file"):
        read_rows(tmp_path)
    written(tmp_path, "README.md", "x")
    written(tmp_path, ".hidden.json", "[]")
    written(tmp_path, "a.jsonl", '{"x": 1}')
    assert data(tmp_path) == [{"x": 1}]
    written(tmp_path, "b.csv", "x\n1")
    with pytest.raises(DataError, match=r"2 data files \(a\.jsonl, b\.csv\)"):
        read_rows(tmp_path)


def test_rows_from_memory_are_copies():
    inner = [1]
    rows = rows_of([{"x": inner}], "items")
    inner.append(2)
    assert rows[0].data == {"x": [1]}


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, "\ud800", b"x"])
def test_a_value_that_is_not_json_is_refused_from_memory(value: object):
    with pytest.raises(DataError, match=r"^items\[0\]: "):
        rows_of([{"x": value}], "items")


def test_an_item_without_fields_is_refused_from_memory():
    with pytest.raises(DataError, match=r"items\[0\]: .* found text"):
        rows_of(["x"], "items")  # pyright: ignore[reportArgumentType]
