"""What users of the original have: its files where they are at hand, and ours in the same shape."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillopt.testing.simulator.world import make_items

ROOT = Path(__file__).parents[1]
VARIABLE = "SKILLOPT_SAMPLES"
SPLITS = ("train", "val", "test")


def samples() -> Path:
    """The folder of the original's own files; the test is skipped where there is none."""
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else []
    places += [above / "shared" / "samples" for above in ROOT.parents]
    for place in places:
        if (place / "original").is_dir():
            return place / "original"
    pytest.skip(f"the original's files are not here; {VARIABLE} may name their folder")


def searchqa_items(count: int, seed: int = 0) -> list[dict[str, object]]:
    """Items of the simulator's office, with the fields of SearchQA."""
    return [
        {
            "id": row["id"],
            "question": row["input"],
            "context": f"[DOC] [TLE] Forms of the house [PAR] Sheet {number}.",
            "answers": [row["answer"]],
        }
        for number, row in enumerate(make_items(count, seed))
    ]


def write_splits(folder: Path, sizes: tuple[int, int, int], seed: int = 0) -> Path:
    """A split folder as the original writes it: `train/items.json` and so on."""
    items = searchqa_items(sum(sizes), seed)
    for name, size in zip(SPLITS, sizes, strict=True):
        part, items = items[:size], items[size:]
        write_items(folder / name, part)
    return folder


def write_items(folder: Path, items: object) -> None:
    """One split."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.json").write_text(json.dumps(items), encoding="utf-8")


def write_manifest(folder: Path, ids: dict[str, list[str]], **more: object) -> Path:
    """A manifest that holds ids only."""
    for name in SPLITS:
        write_items(folder / name, [{"id": each} for each in ids[name]])
    told: dict[str, object] = {
        "benchmark": "SearchQA",
        "manifest_type": "id_split",
        "source_repo": "someone/searchqa",
        "source_url": "https://example.org/searchqa",
        "source_id_field": "key",
        "counts": {name: len(ids[name]) for name in SPLITS},
        "item_fields": ["id"],
        **more,
    }
    (folder / "split_manifest.json").write_text(json.dumps(told), encoding="utf-8")
    return folder
