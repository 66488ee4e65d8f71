from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from skillopt.app.run_spec import RunSpec, prepare
from skillopt.config.load import load_config
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import by_ratio
from skillopt.errors import ConfigError, DataError
from skillopt.store.layout import Layout


def brief_of(folder: Path, rows: Sequence[Mapping[str, object]], **env: object) -> RunSpec:
    lines = "\n".join(json.dumps(each) for each in rows)
    (folder / "tickets.jsonl").write_text(lines, encoding="utf-8")
    return prepare(settings(folder, {"data_path": str(folder / "tickets.jsonl"), **env}))


def settings(folder: Path, env: Mapping[str, object]):
    values: dict[str, object] = {
        "model.backend": "openai_compatible",
        "model.base_url": "http://127.0.0.1:9/v1",
        "env.name": "custom",
        "env.skill_init": "blank",
        "env.out_root": str(folder / "run"),
        **{f"env.{key}": value for key, value in env.items()},
    }
    return load_config(None, values=values)


def many(count: int) -> list[dict[str, object]]:
    return [{"input": f"question {n} is {n * n}", "answer": str(n)} for n in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(30, (10, 10, 10)), (60, (20, 20, 20)), (199, (67, 66, 66)), (200, (40, 20, 140))],
)
def test_fewer_than_200_rows_are_cut_into_thirds(count: int, sizes: tuple[int, int, int]) -> None:
    cut = by_ratio(rows_of(many(count), "rows"))
    assert sorted((len(cut.train), len(cut.val), len(cut.test))) == sorted(sizes)
    assert cut.ratio == ("2:1:7" if count >= 200 else "1:1:1")


def test_a_ratio_that_the_user_gives_is_kept_whatever_the_number_of_rows(tmp_path: Path) -> None:
    splits = brief_of(tmp_path, many(60), split_ratio="2:1:7").splits
    assert (len(splits.train), len(splits.val), len(splits.test)) == (12, 6, 42)


def test_a_run_that_was_cut_2_1_7_by_default_is_still_the_same_run(tmp_path: Path) -> None:
    now = brief_of(tmp_path, many(200))
    then = brief_of(tmp_path, many(200), split_ratio="2:1:7")
    assert now.config.identity() == then.config.identity()


def test_fewer_than_20_val_items_are_warned_about(tmp_path: Path) -> None:
    (told,) = brief_of(tmp_path, many(30)).data_warnings
    assert "val has only 10 items" in told
    assert brief_of(tmp_path, many(60)).data_warnings == ()


@pytest.mark.parametrize(
    ("count", "env", "advice"),
    [
        (
            60,
            {"split_ratio": "2:1:7"},
            ": add rows, or give val a larger share: env.split_ratio=1:1:1",
        ),
        (30, {"split_ratio": "1:1:1"}, ": add about 30 rows (of which val gets its share)"),
        (30, {}, ": add about 30 rows (of which val gets its share)"),
        (60, {"limit": 5}, ": raise env.limit, which is 5, or remove it"),
    ],
)
def test_advice_on_a_small_val_would_help(
    count: int, env: dict[str, object], advice: str, tmp_path: Path
) -> None:
    (told,) = brief_of(tmp_path, many(count), **env).data_warnings
    assert told.endswith(f"Use at least 20 val items{advice}")


@pytest.mark.parametrize(
    ("train", "advice"),
    [
        (90, "add 5 rows to the val split or move 5 items there from train or test"),
        (10, "add 5 rows to the val split"),
    ],
)
def test_advice_on_a_small_val_of_a_split_folder_leaves_the_ratio_out(
    train: int, advice: str, tmp_path: Path
) -> None:
    rows = many(train + 25)
    parts = {"val": rows[:15], "test": rows[15:25], "train": rows[25:]}
    for name, part in parts.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        lines = "\n".join(json.dumps(each) for each in part)
        (tmp_path / "data" / name / "items.jsonl").write_text(lines, encoding="utf-8")
    (told,) = prepare(settings(tmp_path, {"data_path": str(tmp_path / "data")})).data_warnings
    assert told.endswith(f"Use at least 20 val items: {advice}")


def test_all_bad_rows_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    rows = many(60)
    rows[3]["answer"] = ""
    rows[7]["answer"] = " "
    rows[11] = {"input": "no answer"}
    with pytest.raises(DataError) as refused:
        brief_of(tmp_path, rows)
    for line in (4, 8, 12):
        assert f"tickets.jsonl:{line}: " in str(refused.value)
    assert "env.drop_bad_rows=true" in str(refused.value)


def test_all_duplicates_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    rows = [*many(60), *many(3)]
    with pytest.raises(DataError) as refused:
        brief_of(tmp_path, rows)
    for line in (1, 61, 2, 62, 3, 63):
        assert f"tickets.jsonl:{line})" in str(refused.value)


def test_bad_rows_are_dropped_if_asked_for_and_named(tmp_path: Path) -> None:
    rows = [*many(60), *many(2), {"input": "no answer", "answer": ""}]
    world = brief_of(tmp_path, rows, drop_bad_rows=True)
    assert sum(len(world.environment.tasks(each)) for each in ("train", "val", "test")) == 60
    (told,) = [each for each in world.data_warnings if "drop_bad_rows" in each]
    assert "3 bad rows" in told
    assert "tickets.jsonl:63" in told


def test_an_item_without_an_id_is_called_by_its_place_and_known_by_its_content(
    tmp_path: Path,
) -> None:
    tasks = brief_of(tmp_path, many(60)).environment.tasks("train")
    shifted = [{"input": "one more", "answer": "x"}, *many(60)]
    after = brief_of(tmp_path, shifted).environment
    again = {each.id: each for split in ("train", "val", "test") for each in after.tasks(split)}
    for task in tasks:
        line = int(task.told.rpartition("tickets.jsonl:")[2])
        assert task.data == many(60)[line - 1]
        assert again[task.id].digest == task.digest
        assert again[task.id].told.endswith(f":{line + 1}")


def test_an_item_with_an_id_is_called_by_it(tmp_path: Path) -> None:
    rows = [{"id": f"t{n}", **each} for n, each in enumerate(many(60))]
    tasks = brief_of(tmp_path, rows).environment.tasks("val")
    assert all(task.told == task.id for task in tasks)


def test_a_folder_of_splits_is_recognised_as_data_path(tmp_path: Path) -> None:
    rows = many(9)
    for index, split in enumerate(("train", "val", "test")):
        (tmp_path / "data" / split).mkdir(parents=True)
        part = "\n".join(json.dumps(each) for each in rows[3 * index : 3 * index + 3])
        (tmp_path / "data" / split / "items.jsonl").write_text(part, encoding="utf-8")
    brief = prepare(settings(tmp_path, {"data_path": str(tmp_path / "data")}))
    assert [row.data for row in brief.splits.val] == rows[3:6]
    assert brief.splits.ratio == ""
    assert not Layout(brief.out).root.exists()


@pytest.mark.parametrize(
    ("mode", "unused", "other"),
    [("split_dir", "data_path", "ratio"), ("ratio", "split_dir", "split_dir")],
)
def test_data_that_would_not_be_used_is_refused(
    mode: str, unused: str, other: str, tmp_path: Path
) -> None:
    for split in ("train", "val", "test"):
        rows = json.dumps([{"input": f"{split}?", "answer": "yes"}])
        (tmp_path / "data" / split).mkdir(parents=True)
        (tmp_path / "data" / split / "items.json").write_text(rows, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        brief_of(tmp_path, many(30), split_mode=mode, split_dir=str(tmp_path / "data"))
    assert str(caught.value).startswith(f"env.{unused}: has no effect with env.split_mode={mode}")
    assert f"set env.split_mode={other} as well, or remove it" in str(caught.value)
