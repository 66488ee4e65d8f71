from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.app.environment import describe_cut
from skillopt.core.task import Split
from skillopt.datasets.manifests import write_manifest
from skillopt.datasets.rows import Row, read_rows, rows_of
from skillopt.datasets.splits import (
    SPLITS,
    BadRows,
    Splits,
    by_ratio,
    check_apart,
    from_directory,
    limit,
    require,
    resolve_split,
    row_id,
)
from skillopt.errors import DataError

shares = st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))


def some(count: int, name: str = "items") -> list[Row]:
    return rows_of([{"id": f"{name}-{n}", "x": f"{name} {n}"} for n in range(count)], name)


def splits_of(train: list[object], val: list[object], test: list[object] | None = None) -> Splits:
    def made(rows: list[object], name: str) -> tuple[Row, ...]:
        return tuple(
            Row(row if isinstance(row, dict) else {"x": row}, f"{name}.jsonl:{number}")  # pyright: ignore[reportUnknownArgumentType]
            for number, row in enumerate(rows, start=1)
        )

    return Splits(made(train, "train"), made(val, "val"), made(test or [], "test"))


def folder_of(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


@given(st.integers(3, 200), shares, st.integers())
def test_a_cut_is_disjoint_and_complete(count: int, ratio: tuple[int, int, int], seed: int):
    rows = some(count)
    cut = by_ratio(rows, ":".join(map(str, ratio)), seed)
    found = [row.where for split in SPLITS for row in cut[split]]
    assert sorted(found) == sorted(row.where for row in rows)


@given(st.integers(3, 100), st.integers())
def test_a_cut_depends_on_the_seed_only(count: int, seed: int):
    assert by_ratio(some(count), "2:1:7", seed) == by_ratio(some(count), "2:1:7", seed)


def test_another_seed_gives_another_cut():
    assert by_ratio(some(50), seed=1) != by_ratio(some(50), seed=2)


@given(st.integers(3, 500), shares)
def test_sizes_sum_up_and_stay_within_one_of_their_share(count: int, ratio: tuple[int, int, int]):
    cut = by_ratio(some(count), ":".join(map(str, ratio)))
    sizes = [len(cut[split]) for split in SPLITS]
    quotas = [Fraction(count * share, sum(ratio)) for share in ratio]
    assert sum(sizes) == count
    assert all(bool(size) == bool(share) for size, share in zip(sizes, ratio, strict=True))
    if all(quota >= 1 for quota in quotas if quota):
        assert all(abs(size - quota) < 1 for size, quota in zip(sizes, quotas, strict=True))


@pytest.mark.parametrize(
    ("count", "ratio", "sizes"),
    [
        (10, "2:1:7", (2, 1, 7)),
        (2000, "2:1:7", (400, 200, 1400)),
        (5, "2:1:7", (1, 1, 3)),
        (4, "2:1:7", (1, 1, 2)),
        (3, "2:1:7", (1, 1, 1)),
        (7, "1:1:1", (3, 2, 2)),
        (3, "1:0:1", (2, 0, 1)),
        (10, "0.2:0.1:0.7", (2, 1, 7)),
    ],
)
def test_sizes_follow_the_largest_remainder(count: int, ratio: str, sizes: tuple[int, ...]):
    cut = by_ratio(some(count), ratio)
    assert tuple(len(cut[split]) for split in SPLITS) == sizes


def test_too_few_rows_for_a_ratio_are_refused():
    with pytest.raises(DataError, match="2 rows cannot fill the 3 splits"):
        by_ratio(some(2))
    with pytest.raises(DataError, match=r"^1 row cannot fill .* a ratio of 0:0:1 .*--split test$"):
        by_ratio(some(1))
    with pytest.raises(DataError, match=r"^there are no rows$"):
        by_ratio(some(0), "0:0:1")
    assert len(by_ratio(some(1), "0:0:1").test) == 1


@pytest.mark.parametrize("ratio", ["", "2:1", "2:1:7:1", "a:b:c", "0:0:0", "-1:1:1", "1/0:1:1"])
def test_a_ratio_is_three_numbers(ratio: str):
    with pytest.raises(DataError, match="split ratio"):
        by_ratio(some(9), ratio)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("val", "val"),
        ("valid_seen", "val"),
        ("selection", "val"),
        ("valid", "val"),
        ("dev", "val"),
        ("test", "test"),
        ("valid_unseen", "test"),
        ("all", "all"),
    ],
)
def test_a_split_is_known_by_its_aliases(name: str, split: str):
    assert resolve_split(name) == split


def test_an_unknown_split_is_refused_and_the_known_ones_are_named():
    with pytest.raises(
        DataError, match=r"unknown split 'tset'; use one of train, val, .*test.* all"
    ):
        resolve_split("tset")


def test_splits_are_read_from_folders_and_files_and_aliases(tmp_path: Path):
    folder = folder_of(
        tmp_path,
        {
            "train/items.json": '[{"x": 1}]',
            "selection.csv": "x\n2",
            "valid_unseen/a.jsonl": '{"x": 3}',
        },
    )
    cut = from_directory(folder)
    assert [row.data["x"] for split in SPLITS for row in cut[split]] == [1, "2", 3]


def test_a_split_may_be_absent_only_if_it_is_not_needed(tmp_path: Path):
    folder = folder_of(tmp_path, {"train.jsonl": '{"x": 1}', "val.jsonl": '{"x": 2}'})
    with pytest.raises(DataError, match=r"no test split; add test/ or test\.jsonl"):
        from_directory(folder)
    assert from_directory(folder, needs=("train", "val")).test == ()


@pytest.mark.parametrize("split", SPLITS)
def test_an_empty_split_is_refused(tmp_path: Path, split: Split):
    files = {f"{name}.json": '[{"x": 1}]' for name in SPLITS} | {f"{split}.json": "[]"}
    with pytest.raises(DataError, match=rf"{split}\.json: the {split} split is empty"):
        from_directory(folder_of(tmp_path, files))


def test_two_places_for_one_split_are_refused(tmp_path: Path):
    files = {"train.json": "[]", "val/a.json": "[]", "dev.jsonl": "", "test.json": "[]"}
    with pytest.raises(DataError, match=r"val, dev\.jsonl could each be the val split"):
        from_directory(folder_of(tmp_path, files), needs=())


def test_a_split_folder_must_be_a_folder(tmp_path: Path):
    with pytest.raises(DataError, match="does not exist"):
        from_directory(tmp_path / "absent")
    folder_of(tmp_path, {"a.json": "[]"})
    with pytest.raises(DataError, match="is a file"):
        from_directory(tmp_path / "a.json")


def test_needed_splits_hold_rows():
    cut = splits_of([1], [2])
    assert require(cut, needs=("train", "val")) is cut
    with pytest.raises(DataError, match="the test split is empty"):
        require(cut)


def test_a_limit_keeps_the_first_rows_of_each_split():
    cut = splits_of([1, 2, 3], [4, 5], [6])
    assert limit(cut, 2) == splits_of([1, 2], [4, 5], [6])
    assert limit(cut, 0) == cut
    with pytest.raises(DataError, match="limit is -1"):
        limit(cut, -1)


def test_a_written_cut_is_read_back(tmp_path: Path):
    rows = some(10)
    cut = by_ratio(rows, "2:1:7", 7)
    write_manifest(tmp_path / "out", cut, source="data.jsonl", ratio="2:1:7", seed=7)
    again = from_directory(tmp_path / "out")
    for split in SPLITS:
        assert [row.data for row in again[split]] == [row.data for row in cut[split]]
    assert json.loads((tmp_path / "out/split_manifest.json").read_text(encoding="utf-8")) == {
        "source_data_path": "data.jsonl",
        "split_mode": "ratio",
        "split_ratio": "2:1:7",
        "split_seed": 7,
        "counts": {"train": 2, "val": 1, "test": 7},
    }


def test_writing_a_cut_again_replaces_it_and_leaves_nothing_beside_it(tmp_path: Path):
    for count in (10, 20):
        cut = by_ratio(some(count), "2:1:7")
        write_manifest(tmp_path, cut, source="é", ratio="2:1:7", seed=42)
    assert len(read_rows(tmp_path / "train")) == 4
    files = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )
    assert files == [
        "split_manifest.json",
        "test/items.json",
        "train/items.json",
        "val/items.json",
    ]


def test_an_id_in_two_splits_is_refused_with_both_places():
    cut = splits_of([{"id": "a", "x": 1}], [{"id": "a", "x": 2}])
    with pytest.raises(
        DataError, match=r"id 'a' is in train \(train.jsonl:1\) and in val \(val.*:1"
    ):
        check_apart(cut)


def test_an_id_twice_in_a_split_is_refused_with_both_places():
    cut = splits_of([{"id": 1, "x": 1}, {"id": "1", "x": 2}], ["v"])
    with pytest.raises(DataError, match=r"id '1' is in train \(.*:1\) and in train \(.*:2\)"):
        check_apart(cut)


def test_the_same_content_in_two_splits_is_refused_whatever_the_ids():
    cut = splits_of([{"id": "a", "x": 1}], ["v"], [{"x": 1, "id": "b"}])
    with pytest.raises(
        DataError, match=r"same row is in train \(train.*:1\) and in test \(test.*:1"
    ):
        check_apart(cut)


def test_content_is_compared_without_the_column_that_holds_the_id():
    cut = splits_of([{"uid": "a", "x": 1}], [{"uid": "b", "x": 1}])
    assert check_apart(splits_of([{"uid": "a", "x": 1}], [{"uid": "b", "x": 2}]), "uid") == []
    with pytest.raises(DataError, match="same row"):
        check_apart(cut, "uid")


def test_near_duplicates_across_splits_are_reported_not_refused():
    cut = splits_of([{"id": "a", "x": ["What  is it?"]}], [{"id": "b", "x": ["what is\nit"]}])
    assert check_apart(cut) == [
        "almost the same row is in train (train.jsonl:1) and in val (val.jsonl:1)"
    ]


def test_many_near_duplicates_are_one_warning_with_a_count():
    cut = splits_of(["What is it?", "Who is it?", "One"], ["what is it", "who  is it", "Two"])
    assert check_apart(cut) == [
        "almost the same row is in train (train.jsonl:1) and in val (val.jsonl:1), "
        "and 1 more like it"
    ]


@pytest.mark.parametrize(
    "copy", ["What is Rome\uff1f", "\uff37\uff48\uff41\uff54 is Rome?", "What is Ro\u200bme?"]
)
def test_full_width_and_invisible_characters_hide_no_near_duplicate(copy: str) -> None:
    train, val = rows_of([{"input": "What is Rome?"}], "a"), rows_of([{"input": copy}], "b")
    assert check_apart(Splits(tuple(train), tuple(val)))


def test_rows_that_differ_in_words_are_no_near_duplicates():
    assert check_apart(splits_of(["What is it?"], ["What was it?"])) == []


@pytest.mark.parametrize(
    "name",
    ["a/b", "a\\b", "..", "a..b", ".hidden", "a\nb", "a\x00b", "x" * 121, "\N{SNOWMAN}" * 41],
)
def test_an_id_that_cannot_name_a_file_is_refused_by_name(name: str):
    with pytest.raises(DataError, match=r"^items\[0\]: the id '"):
        row_id(Row({"id": name}, "items[0]"))


@pytest.mark.parametrize("value", [1.5, True, ["a"], {"a": 1}])
def test_an_id_is_text_or_a_whole_number(value: object):
    with pytest.raises(DataError, match=r"items\[0\]: 'id' is"):
        row_id(Row({"id": value}, "items[0]"))


@pytest.mark.parametrize("value", ["q-1", "test:0000", "Ünïcode 7", "x" * 120])
def test_an_ordinary_id_is_kept(value: str):
    assert row_id(Row({"id": value}, "items[0]")) == value
    assert row_id(Row({"id": 7}, "items[0]")) == "7"


@given(st.dictionaries(st.sampled_from("abc"), st.integers(), min_size=1))
def test_a_row_without_an_id_is_named_after_its_content(data: dict[str, int]):
    name = row_id(Row(data, "here"))
    assert name == row_id(Row({"id": None, **dict(reversed(data.items()))}, "there"))
    assert name == row_id(Row({"id": " ", **data}, "there"))
    assert name != row_id(Row({**data, "d": 0}, "here"))


def test_an_id_that_many_rows_share_takes_one_line():
    rows = rows_of([{"id": "x", "input": str(n)} for n in range(30)], "data")
    with pytest.raises(BadRows) as caught:
        check_apart(by_ratio(rows))
    (line,) = str(caught.value).splitlines()
    assert line.count(" and in 28 more; ids must be unique") == 1
    assert "(data[0]) and in" in line


def test_bad_rows_are_told_in_the_order_of_their_file():
    rows = rows_of([{"input": str(n)} for n in range(12)], "data")
    faults = [(row, row.where) for split in SPLITS for row in by_ratio(rows)[split]]
    assert [row.where for row, _ in BadRows(faults).faults] == [f"data[{n}]" for n in range(12)]


def test_a_cut_is_told_as_it_was_whatever_is_used_of_it():
    rows = rows_of([{"input": str(n)} for n in range(60)], "data")
    told = describe_cut(limit(by_ratio(rows), 1))
    assert told == "data split 1:1:1 into 20/20/20 train/val/test items (env.split_ratio)"
