"""Published data: what is needed, what is here, tables that hold images, folders that were made."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support_bench import COUNT, WRITERS, png, write, write_raw
from support_cli import skillopt
from support_original import ROOT

from skillopt.api import benchmark_data, materialize
from skillopt.app.environment import ENVIRONMENTS, open_environment
from skillopt.config.load import load_config
from skillopt.datasets.raw import NeedsData, ReadsRaw
from skillopt.datasets.splits import SPLITS, from_directory
from skillopt.errors import ConfigError, DataError

OURS = sorted([*WRITERS, "searchqa"])


@pytest.mark.parametrize("name", OURS)
def test_every_benchmark_says_what_it_needs_and_reads_it(name: str) -> None:
    kind = ENVIRONMENTS.load(name)
    assert isinstance(kind, ReadsRaw)
    assert isinstance(kind, NeedsData)
    for source in kind.data.sources:
        assert source.url.startswith("https://")
        assert source.licence
    report = benchmark_data(name)
    assert (report.complete, report.items) == (False, None)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_what_is_here_is_counted_and_damage_is_found(name: str, tmp_path: Path) -> None:
    raw = write_raw(name, tmp_path)
    assert benchmark_data(name, raw).items == COUNT
    materialize(name, raw=raw, out=tmp_path / "split")
    whole = benchmark_data(name, tmp_path / "split")
    assert (whole.items, whole.problem) == (COUNT, "")
    items = tmp_path / "split" / "test" / "items.json"
    items.write_text(items.read_text("utf-8").replace("item-", "entry-"), encoding="utf-8")
    damaged = benchmark_data(name, tmp_path / "split")
    assert damaged.problem.startswith("1 file not as first written: test/")
    assert not damaged.complete


def test_a_file_with_another_checksum_is_different_and_one_without_is_missing(
    tmp_path: Path,
) -> None:
    write(tmp_path / "data" / "202511" / "qa_202511_final.json", [])
    report = benchmark_data("livemathematicianbench", tmp_path)
    states = {Path(file.name).name: file.state for file in report.files}
    assert states["qa_202511_final.json"] == "different"
    assert states["qa_202512_final.json"] == "missing"
    assert not report.complete


async def test_the_command_tells_sources_and_checks_a_folder(tmp_path: Path) -> None:
    raw = write_raw("livemathematicianbench", tmp_path)
    told = await skillopt("data", "livemathematicianbench", cwd=tmp_path)
    assert told.code == 0, told.err
    for part in ("https://github.com/LiveMath", "licence:", "sha256 f991211d", "48 %"):
        assert part in told.out
    looked = await skillopt("data", "livemathematicianbench", str(raw), "--json", cwd=tmp_path)
    assert looked.code == 1
    assert json.loads(looked.out)["items"] == COUNT
    absent = await skillopt("data", "livemathematicianbench", "nowhere", cwd=tmp_path)
    assert (absent.code, "no such file or folder" in absent.err) == (1, True)
    unknown = await skillopt("data", "docvqs", cwd=tmp_path)
    assert "did you mean 'docvqa'" in unknown.err


async def test_the_command_makes_a_split_folder_and_says_what_was_left_out(
    tmp_path: Path,
) -> None:
    raw = write_raw("docvqa", tmp_path)
    ids = tmp_path / "ids" / "test" / "items.json"
    rows = json.loads(ids.read_text("utf-8"))
    write(ids, [{"id": "absent", "topic": "form"}, *rows[1:]])
    command = ("materialize", "docvqa", "--raw", str(raw), "--manifest", "ids", "--out", "out")
    done = await skillopt(*command, cwd=tmp_path)
    assert done.code == 1
    assert "no item for 1 of 18 ids of ids: 'absent'" in done.err
    assert not (tmp_path / "out").exists()
    done = await skillopt(*command, "--partial", cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, "out: 8 train, 6 val, 3 test, 17 files")
    assert "1 id had no item" in done.err
    told = json.loads((tmp_path / "out" / "split_manifest.json").read_text("utf-8"))
    assert told["missing"] == ["absent"]


def test_what_only_the_manifest_says_of_an_item_is_kept(tmp_path: Path) -> None:
    raw = write_raw("docvqa", tmp_path)
    ids = tmp_path / "ids" / "train" / "items.json"
    rows = json.loads(ids.read_text("utf-8"))
    write(ids, [{**row, "topic": "form", "question": "not this"} for row in rows])
    materialize("docvqa", raw=raw, out=tmp_path / "out", manifest=tmp_path / "ids")
    row = from_directory(tmp_path / "out").train[0].data
    assert row["topic"] == "form"
    assert "item-" in str(row["question"])


EMBEDDED = {
    "docvqa": ({"questionId": "7", "question": "Total?", "answers": ["5"], "docId": 3}, "image"),
    "babyvision": (
        {"taskId": 7, "type": "t", "question": "Where?", "ansType": "blank", "blankAns": "5"},
        "image",
    ),
    "mathverse": (
        {"sample_index": "7", "question": "x?", "answer": "5", "question_type": "free-form"},
        "image",
    ),
    "mmrb": (
        {"source": "s", "subtask": "t", "index": 7, "question": "x?", "answer": "5"},
        "images",
    ),
}


@pytest.mark.parametrize("name", sorted(EMBEDDED))
def test_images_that_a_parquet_table_holds_are_written_out(name: str, tmp_path: Path) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    fields, column = EMBEDDED[name]
    key = next(iter(fields)) if name != "mmrb" else "index"
    rows: list[dict[str, object]] = []
    for n in range(9):
        image = {"bytes": png(n), "path": None}
        shown = [image, {"bytes": png(100 + n), "path": None}] if name == "mmrb" else image
        value = n if isinstance(fields[key], int) else str(n)
        rows.append({**fields, key: value, "question": f"x {n}?", column: shown})
    file = tmp_path / "raw" / "test-00000.parquet"
    file.parent.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), str(file))
    config = load_config(values={"env.name": name, "env.data_path": str(file)})
    with pytest.raises(ConfigError, match=f"skillopt materialize {name} --raw"):
        open_environment(config, SPLITS)
    made = materialize(name, raw=file.parent, out=tmp_path / "out", ratio="1:1:1")
    assert made.files == (18 if name == "mmrb" else 9)
    values = {
        "env.name": name,
        "env.split_mode": "split_dir",
        "env.split_dir": str(tmp_path / "out"),
    }
    environment, _, _ = open_environment(load_config(values=values), SPLITS)
    assert len(environment.tasks("train")) == 3
    written = {path.read_bytes() for path in (tmp_path / "out" / "files").rglob("*.png")}
    assert png(4) in written


def test_the_official_file_of_mrqa_is_read(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"header": {"dataset": "SearchQA"}}]
    for n in range(6):
        asked = [
            {"qid": f"q{n}{k}", "question": f"Who is {n}{k}?", "answers": [f"p{n}"]} for k in "ab"
        ]
        lines.append({"context": f"[DOC] [TLE] {n}", "qas": asked})
    packed = gzip.compress("\n".join(map(json.dumps, lines)).encode())
    write(tmp_path / "SearchQA.jsonl.gz", packed)
    made = materialize("searchqa", raw=tmp_path / "SearchQA.jsonl.gz", out=tmp_path / "out")
    assert sum(made.counts.values()) == 12
    write(tmp_path / "broken.jsonl.gz", packed[:50])
    with pytest.raises(DataError, match="not readable as JSON lines packed by gzip"):
        materialize("searchqa", raw=tmp_path / "broken.jsonl.gz", out=tmp_path / "o")


def test_a_path_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    raw = write_raw("babyvision", tmp_path)
    write(tmp_path / "secret.png", png(1))
    line = json.loads((raw / "meta_data.jsonl").read_text("utf-8").splitlines()[0])
    write(raw / "meta_data.jsonl", json.dumps({**line, "image": "../secret.png"}))
    with pytest.raises(DataError, match=r"no file '\.\./secret\.png'"):
        materialize("babyvision", raw=raw, out=tmp_path / "out")
    write(raw / "meta_data.jsonl", json.dumps({**line, "image": "x" * 5000}))
    with pytest.raises(DataError, match="no file 'xxx"):
        materialize("babyvision", raw=raw, out=tmp_path / "out")


@pytest.mark.parametrize("name", ["searchqa", "docvqa", "livemathematicianbench"])
def test_the_splits_of_the_original_are_here(name: str) -> None:
    folder = ROOT / "data" / f"{name}_id_split"
    told = json.loads((folder / "split_manifest.json").read_text("utf-8"))
    splits = from_directory(folder)
    assert told["counts"] == {split: len(splits[split]) for split in SPLITS}


def test_an_environment_without_published_data_says_so() -> None:
    with pytest.raises(ConfigError, match="'custom' does not say what data it needs"):
        benchmark_data("custom")
    with pytest.raises(ConfigError, match="'custom' reads no published data"):
        materialize("custom", raw="x", out="y")


def babyvision(raw: Path, **changes: object) -> Path:
    """Three items with an image each; the first one is changed."""
    line: dict[str, object] = {"ansType": "blank", "blankAns": "1"}
    rows: list[dict[str, object]] = [
        {**line, "taskId": n, "question": f"Question {n}?", "image": f"{n}.png"} for n in range(3)
    ]
    rows[0] |= changes
    for n in range(3):
        write(raw / "images" / f"{n}.png", png(n))
    write(raw / "meta_data.jsonl", "\n".join(map(json.dumps, rows)))
    return raw


def test_a_cache_of_the_hub_becomes_plain_files(tmp_path: Path) -> None:
    raw = babyvision(tmp_path / "snapshots" / "rev")
    image = raw / "images" / "0.png"
    image.rename(write(tmp_path / "blobs" / "abc", ""))
    image.symlink_to("../../../blobs/abc")
    made = materialize("babyvision", raw=raw, out=tmp_path / "out", ratio="1:1:1")
    placed = made.folder / "files" / "images" / "0.png"
    assert (placed.is_symlink(), placed.read_bytes()) == (False, png(0))


def test_a_link_out_of_the_data_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    raw = babyvision(tmp_path / "raw")
    outside = write(tmp_path / "outside.png", png(9))
    (raw / "images" / "2.png").unlink()
    (raw / "images" / "2.png").symlink_to(outside)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=rf"jsonl:3: 'images/2\.png' leads out of .*{outside}"):
        materialize("babyvision", raw=raw, out=tmp_path / "new" / "out", ratio="1:1:1")
    assert sorted(tmp_path.iterdir()) == before


def test_a_failure_leaves_what_was_made_before_as_it_was(tmp_path: Path) -> None:
    raw, out = babyvision(tmp_path / "raw"), tmp_path / "out"
    materialize("babyvision", raw=raw, out=out, ratio="1:1:1")
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    babyvision(raw, blankAns="")
    with pytest.raises(DataError, match="'blankAns' is empty"):
        materialize("babyvision", raw=raw, out=out, ratio="1:1:1")
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "image", "message"),
    [
        ({}, b"<html>", r"raw/images/0\.png is no PNG, JPEG, GIF or WebP image"),
        ({}, png(0)[:-8], r"raw/images/0\.png has no end, it was cut off"),
        ({"blankAns": ""}, png(0), r"meta_data\.jsonl:1: 'blankAns' is empty"),
        ({"taskId": "a/b"}, png(0), r"meta_data\.jsonl:1: the id 'a/b' holds a slash"),
        ({"taskId": ".."}, png(0), r"meta_data\.jsonl:1: the id '\.\.' holds '\.\.'"),
    ],
)
def test_what_loading_would_refuse_is_refused_when_it_is_made(
    changes: dict[str, object], image: bytes, message: str, tmp_path: Path
) -> None:
    raw = babyvision(tmp_path / "raw", **changes)
    write(raw / "images" / "0.png", image)
    with pytest.raises(DataError, match=message) as caught:
        materialize("babyvision", raw=raw, out=tmp_path / "out", ratio="1:1:1")
    assert "drop_bad_rows" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_items_that_cannot_be_used_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    raw = babyvision(tmp_path / "raw", blankAns="")
    made = materialize("babyvision", raw=raw, out=tmp_path / "out", ratio="1:1:1", partial=True)
    assert (sum(made.counts.values()), made.files, made.missing) == (2, 2, ("0",))
    assert not (tmp_path / "out" / "files" / "images" / "0.png").exists()


def test_whole_numbers_are_ids_of_a_manifest(tmp_path: Path) -> None:
    for n, split in enumerate(("train", "val", "test")):
        write(tmp_path / "ids" / split / "items.json", [{"id": n}])
    raw = babyvision(tmp_path / "raw")
    made = materialize("babyvision", raw=raw, out=tmp_path / "out", manifest=tmp_path / "ids")
    assert made.counts == {"train": 1, "val": 1, "test": 1}


def test_a_manifest_of_bare_texts_is_told_what_a_manifest_holds(tmp_path: Path) -> None:
    for n, split in enumerate(("train", "val", "test")):
        write(tmp_path / "ids" / split / "items.json", [str(n)])
    raw = babyvision(tmp_path / "raw")
    with pytest.raises(DataError, match=r'found text; a manifest holds \{"id": "\.\.\."\}'):
        materialize("babyvision", raw=raw, out=tmp_path / "out", manifest=tmp_path / "ids")
