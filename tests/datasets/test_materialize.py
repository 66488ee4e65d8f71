"""Manifests of ids become split folders with the items."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support_original import ROOT, samples, searchqa_items, write_manifest

from skillopt.api import materialize
from skillopt.app.run_spec import prepare
from skillopt.config.load import load_config
from skillopt.core.task import Split
from skillopt.datasets.splits import from_directory
from skillopt.errors import ConfigError, DataError

IDS = {"train": ["a", "b"], "val": ["c"], "test": ["d"]}


def payload(folder: Path, ids: str, **changes: object) -> Path:
    rows = [
        {"key": name, "question": f"Who is {name}?", "context": "[DOC] x", "answers": [name]}
        for name in ids
    ]
    path = folder / "searchqa.jsonl"
    lines = [json.dumps({**row, **changes, "labels": [0]}) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def made(manifest: Path, folder: Path, data: Path) -> Mapping[Split, int]:
    return materialize("searchqa", manifest=manifest, raw=data, out=folder / "out").counts


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "materialize_searchqa.py"), *args],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_joins_ids_and_items_in_the_order_of_the_manifest(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "searchqa_id_split", IDS)
    out, data = tmp_path / "searchqa_split", payload(tmp_path, "dxcba")
    args = ("--manifest-dir", str(manifest), "--output-dir", str(out), "--dataset", str(data))
    for _ in range(2):
        done = run(*args)
        assert (done.returncode, done.stdout) == (0, f"{out}: 2 train, 1 val, 1 test\n")
    splits = from_directory(out)
    assert [row.data["id"] for row in splits.train] == ["a", "b"]
    assert dict(splits.test[0].data) == {
        "id": "d",
        "question": "Who is d?",
        "context": "[DOC] x",
        "answers": ["d"],
    }
    told = json.loads((out / "split_manifest.json").read_text(encoding="utf-8"))
    assert told["counts"] == {"train": 2, "val": 1, "test": 1}
    assert told["source_url"] == "https://example.org/searchqa"


def test_several_files_of_a_folder_make_one_dataset(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "ids", IDS)
    for part in ("ab", "cd"):
        folder = tmp_path / "data" / part
        folder.mkdir(parents=True)
        payload(folder, part)
    assert made(manifest, tmp_path, tmp_path / "data")["train"] == 2


def test_parquet_is_read_where_pyarrow_is_installed(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [json.loads(line) for line in payload(tmp_path, "abcd").read_text("utf-8").split("\n")]
    parquet.write_table(pyarrow.Table.from_pylist(rows), str(tmp_path / "a.parquet"))
    manifest = write_manifest(tmp_path / "ids", IDS)
    assert made(manifest, tmp_path, tmp_path / "a.parquet")["test"] == 1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({**IDS, "train": ["a", "b", "a"]}, "given twice in train: 'a'"),
        ({**IDS, "test": ["d", "b"]}, "given in train and in test: 'b'"),
        ({**IDS, "val": ["c", "nobody"]}, "no item for 1 of 5 ids of .*: 'nobody'"),
    ],
)
def test_ids_given_twice_shared_or_without_an_item_are_named(
    ids: dict[str, list[str]], message: str, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path / "ids", ids)
    with pytest.raises(DataError, match=message):
        made(manifest, tmp_path, payload(tmp_path, "abcd"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ids", "changes", "message"),
    [
        ("abcda", {}, "the item 'a' is given twice"),
        ("abcd", {"key": 3}, "no field 'key' that holds the item's id"),
    ],
)
def test_data_that_cannot_be_joined_is_named(
    ids: str, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path / "ids", IDS)
    with pytest.raises(DataError, match=message):
        made(manifest, tmp_path, payload(tmp_path, ids, **changes))


def test_a_manifest_that_lost_ids_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "ids", IDS, counts={"train": 3, "val": 1, "test": 1})
    with pytest.raises(DataError, match="its splits hold"):
        made(manifest, tmp_path, payload(tmp_path, "abcd"))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "ids", IDS)
    mine = tmp_path / "out" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="holds something else"):
        made(manifest, tmp_path, payload(tmp_path, "abcd"))
    assert [each.name for each in mine.parent.iterdir()] == ["notes.txt"]


def test_items_that_were_changed_since_are_replaced_only_by_force(tmp_path: Path) -> None:
    data, out = payload(tmp_path, "abcdefghij"), tmp_path / "out"
    materialize("searchqa", raw=data, out=out)
    materialize("searchqa", raw=data, out=out, seed=8)
    items = out / "train" / "items.json"
    items.write_text("[]", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"changed since it was written: 'train/items.json'.*--force"
    ):
        materialize("searchqa", raw=data, out=out, seed=8)
    assert items.read_text(encoding="utf-8") == "[]"
    items.unlink()
    assert sum(materialize("searchqa", raw=data, out=out).counts.values()) == 10
    items.write_text("[]", encoding="utf-8")
    materialize("searchqa", raw=data, out=out, force=True)
    assert len(from_directory(out).train) == 2


def test_a_folder_that_leads_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    data, out = payload(tmp_path, "abcdefghij"), tmp_path / "out"
    materialize("searchqa", raw=data, out=out)
    elsewhere = tmp_path / "elsewhere"
    (out / "train").rename(elsewhere)
    (elsewhere / "items.json").write_text("mine", encoding="utf-8")
    (out / "train").symlink_to(elsewhere)
    with pytest.raises(DataError, match="train: is a link"):
        materialize("searchqa", raw=data, out=out, force=True)
    assert (elsewhere / "items.json").read_text(encoding="utf-8") == "mine"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is a link to nothing"):
        materialize("searchqa", raw=data, out=tmp_path / "dangling")


def test_what_is_read_is_not_written_into(tmp_path: Path) -> None:
    raw = payload(tmp_path, "abcdefghij").parent
    with pytest.raises(DataError, match="which is read; name a folder outside of it"):
        materialize("searchqa", raw=raw, out=raw / "split")


def test_the_script_leaves_out_ids_without_an_item_where_that_is_asked_for(tmp_path: Path) -> None:
    manifest, data = write_manifest(tmp_path / "ids", IDS), payload(tmp_path, "acd")
    out = tmp_path / "out"
    args = ("--manifest-dir", str(manifest), "--output-dir", str(out), "--dataset", str(data))
    done = run(*args)
    assert (done.returncode, "--partial leaves them out" in done.stderr) == (1, True)
    assert run(*args, "--partial").stdout == f"{out}: 1 train, 1 val, 1 test\n"


def test_a_dataset_that_is_not_here_is_not_fetched(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "ids", IDS)
    done = run("--manifest-dir", str(manifest), "--dataset", "lucadiliello/searchqa")
    assert done.returncode == 1
    assert "Nothing is downloaded" in done.stderr


@pytest.mark.parametrize("name", ["searchqa_id_split", "searchqa_split"])
def test_training_on_ids_or_on_nothing_names_the_command_that_makes_the_items(
    name: str, tmp_path: Path
) -> None:
    manifest = write_manifest(tmp_path / "searchqa_id_split", IDS)
    config = load_config(
        values={"env": "searchqa", "split_mode": "split_dir", "split_dir": str(tmp_path / name)}
    )
    with pytest.raises(ConfigError) as caught:
        prepare(config)
    assert (
        f"skillopt materialize searchqa --manifest {manifest} --raw DATA --out "
        f"{tmp_path / 'searchqa_split'}" in str(caught.value)
    )


def test_rows_that_are_bare_ids_name_the_command_without_a_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for split in ("train", "val", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "items.json").write_text(f'[{{"id": "{split}-1"}}]', encoding="utf-8")
    config = load_config(
        values={"env": "searchqa", "split_mode": "split_dir", "split_dir": str(folder)}
    )
    with pytest.raises(ConfigError, match=f"materialize searchqa --manifest {folder} "):
        prepare(config)


def test_the_manifest_of_the_original_is_read_whole(tmp_path: Path) -> None:
    manifest = samples() / "data" / "searchqa_id_split"
    items = searchqa_items(2000)
    names = [row.data["id"] for some in ("train", "val", "test") for row in
             getattr(from_directory(manifest), some)]  # fmt: skip
    rows = [{**item, "key": name} for item, name in zip(items, names, strict=True)]
    data = tmp_path / "all.json"
    data.write_text(json.dumps(rows), encoding="utf-8")
    assert made(manifest, tmp_path, data) == {"train": 400, "val": 200, "test": 1400}
    config = load_config(
        values={
            "env": "searchqa",
            "split_mode": "split_dir",
            "split_dir": str(tmp_path / "out"),
            "skill_init": "blank",
        }
    )
    assert len(prepare(config).environment.tasks("test")) == 1400
