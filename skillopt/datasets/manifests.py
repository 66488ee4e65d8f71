"""Splits written down, so that a cut can be looked at and used again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from skillopt.datasets.splits import SPLITS, Splits


def write_manifest(out: Path, splits: Splits, *, source: str, ratio: str, seed: int) -> None:
    """Write `<split>/items.json` for each split, and last `split_manifest.json` about them."""
    for split in SPLITS:
        _write(out / split / "items.json", [dict(row.data) for row in splits[split]])
    manifest = {
        "source_data_path": source,
        "split_mode": "ratio",
        "split_ratio": ratio,
        "split_seed": seed,
        "counts": {split: len(splits[split]) for split in SPLITS},
    }
    _write(out / "split_manifest.json", manifest)


def _write(path: Path, content: object) -> None:
    """Replace a file as a whole: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
