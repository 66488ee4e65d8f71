"""Stored splits, so that a split can be inspected and used again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from skillopt.core.intake import MANIFEST_BYTES, read_file, read_json
from skillopt.datasets.splits import SPLITS, Splits
from skillopt.errors import DataError

MANIFEST = "split_manifest.json"
"""What a split folder says about itself."""


def write_manifest(out: Path, splits: Splits, *, source: str, ratio: str, seed: int) -> None:
    """Write `<split>/items.json` for each split, and last `split_manifest.json` about them.

    Raises `DataError` where that would replace a file that we did not write.
    """
    check_manifest_place(out, splits)
    for path, content in _items(out, splits).items():
        _write(path, content)
    manifest = {
        "source_data_path": source,
        "split_mode": "ratio",
        "split_ratio": ratio,
        "split_seed": seed,
        "counts": {split: len(splits[split]) for split in SPLITS},
    }
    write_json(out / MANIFEST, manifest)


def check_manifest_place(out: Path, splits: Splits) -> None:
    """Refuse a folder in which other files than ours would be replaced."""
    if _is_ours(out / MANIFEST):
        return
    written = _items(out, splits)
    for path in (*written, out / MANIFEST):
        # The same content: of a start that was killed while it wrote them.
        if path.exists() and not _holds(path, written.get(path)):
            raise DataError(
                f"{path} is there already and was not written by skillopt; it was not changed. "
                "Choose another folder (env.split_output_dir)."
            )


def _items(out: Path, splits: Splits) -> dict[Path, bytes]:
    return {
        out / split / "items.json": _text([dict(row.data) for row in splits[split]])
        for split in SPLITS
    }


def _holds(path: Path, content: bytes | None) -> bool:
    try:
        return content is not None and read_file(path, len(content)) == content
    except OSError:  # larger than that, or no regular file
        return False


def _is_ours(manifest: Path) -> bool:
    try:
        found = read_json(read_file(manifest, MANIFEST_BYTES))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"split_mode", "split_ratio", "counts"} <= found.keys()


def write_json(path: Path, content: object) -> None:
    _write(path, _text(content))


def _text(content: object) -> bytes:
    """JSON; a lone surrogate, which UTF-8 cannot hold, becomes its JSON escape."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    return text.encode(errors="backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.skillopt-part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
