"""Split folders with a manifest: written for a split that we cut, or made from published data."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from skillopt.core.episode import check_inside
from skillopt.core.intake import MANIFEST_BYTES, read_file, read_json
from skillopt.core.task import Split
from skillopt.datasets.raw import MANIFEST, RawItem, plain_file, raw_folder, sha256_of
from skillopt.datasets.rows import NoObject, Row
from skillopt.datasets.splits import (
    FILES,
    SPLITS,
    BadRows,
    Splits,
    by_ratio,
    from_directory,
    has_id,
    row_id,
    without,
)
from skillopt.errors import DataError

_ID_SPLIT, _DONE = "id_split", "materialized_split"
_PART: Final = ".skillopt-part"
"""How the names of what is still being written end."""
_PATH: Final = "gamefile"
"""The field by which a manifest of paths names its items."""


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
    _write(out / MANIFEST, _json(manifest))


def check_manifest_place(out: Path, splits: Splits) -> None:
    """Refuse a folder in which other files than ours would be replaced."""
    try:
        manifest = _read_manifest(out)
    except DataError:
        manifest = {}
    if {"split_mode", "split_ratio", "counts"} <= manifest.keys():
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
        out / split / "items.json": _json([dict(row.data) for row in splits[split]])
        for split in SPLITS
    }


def _holds(path: Path, content: bytes | None) -> bool:
    try:
        return content is not None and read_file(path, len(content)) == content
    except OSError:  # larger than that, or no regular file
        return False


def _read_manifest(folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    try:
        manifest = read_json(read_file(path, MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return manifest if isinstance(manifest, dict) else {}


def _json(content: object) -> bytes:
    """JSON; a lone surrogate, which UTF-8 cannot hold, becomes its JSON escape."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    return text.encode(errors="backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def holds_ids_only(folder: Path) -> bool:
    """Whether a split folder has no content: its manifest says so, or its rows are bare ids."""
    if _read_manifest(folder).get("manifest_type") == _ID_SPLIT:
        return True
    try:
        rows = from_directory(folder, ()).train
    except DataError:
        return False
    return bool(rows) and all(row.data.keys() <= {"id"} for row in rows)


@dataclass(frozen=True, slots=True)
class Materialized:
    """A split folder that was made."""

    folder: Path
    counts: Mapping[Split, int]
    files: int = 0
    """Files of items that were put into it."""
    missing: tuple[str, ...] = ()
    """Ids of the manifest that the data does not have, and of items that cannot be used."""


def materialize(
    items: Iterable[RawItem],
    source: Path,
    out: Path,
    *,
    manifest: Path | None = None,
    ratio: str = "2:1:7",
    seed: int = 42,
    partial: bool = False,
    force: bool = False,
    check: Callable[[Splits], object] | None = None,
) -> Materialized:
    """Write items of published data into a split folder, with the files that belong to them.

    Args:
        items: What an environment reads from `source`.
        source: The file or folder with the data.
        out: A new folder, or one that this function has written before.
        manifest: A folder with `train/`, `val/` and `test/` of `{"id": ...}` rows; further fields
            of these rows are added to the items. None: all items, cut by `ratio` and `seed`.
        ratio: Shares of train, val and test.
        seed: Of the order in which they are cut.
        partial: Whether ids without an item, and items that `check` refuses, are left out.
        force: Whether files in `out` that were changed since they were written are replaced.
        check: What loads the rows later; it raises `BadRows` for those that it cannot use.

    Raises:
        DataError: Naming ids that are given twice, belong to two splits, or have no item, and
            items that cannot be used; nothing is written then.
    """
    described: Mapping[str, object] = _read_manifest(manifest) if manifest else {}
    named = _named(manifest, described.get("counts")) if manifest else None
    if out.is_symlink() and not out.exists():
        raise DataError(f"{out}: is a link to nothing; name a new folder")
    empty = not out.exists() or (out.is_dir() and all(map(_is_part, out.iterdir())))
    if not empty and _read_manifest(out).get("manifest_type") != _DONE:
        raise DataError(f"{out}: holds something else; name a new folder")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise DataError(f"{out}: lies in {source}, which is read; name a folder outside of it")
    for name in (*SPLITS, FILES):
        if (out / name).is_symlink():
            raise DataError(f"{out / name}: is a link, so files elsewhere would be replaced")
    changed = [name for name in damaged(out) or () if (out / name).exists()]
    if changed and not force:
        raise DataError(
            f"{out}: changed since it was written: {_first(changed)}; name a new folder, or "
            "replace it with --force"
        )
    found = _by_id(
        items if named is None else _renamed(items, named),
        None if named is None else {name for rows in named.values() for name in rows},
    )
    missing: list[str] = []
    if named is None:
        cut = by_ratio([item.row for item in found.values()], ratio, seed)
        chosen: dict[Split, list[RawItem]] = {
            split: [found[str(row.data["id"])] for row in cut[split]] for split in SPLITS
        }
    else:
        wanted = [name for rows in named.values() for name in rows]
        missing = [name for name in wanted if name not in found]
        if missing and (not partial or len(missing) == len(wanted)):
            hint = "" if len(missing) == len(wanted) else "; --partial leaves them out"
            raise DataError(
                f"{source}: no item for {len(missing)} of {len(wanted)} ids of {manifest}: "
                f"{_first(missing)}; the data may be incomplete, or of another release{hint}"
            )
        chosen = {
            split: [_joined(found[name], row) for name, row in rows.items() if name in found]
            for split, rows in named.items()
        }
    with _staged(out) as stage:
        _place_files(stage / FILES, raw_folder(source), _all(chosen))
        if check:
            unusable = _refused(chosen, stage, raw_folder(source), check, partial=partial)
            missing += unusable
            chosen = {
                split: [item for item in of_split if _id(item.row) not in unusable]
                for split, of_split in chosen.items()
            }
        return _write_items(
            stage, out, source, chosen, _about(described, ratio, seed, missing), missing
        )


def _all(chosen: Mapping[Split, Sequence[RawItem]]) -> list[RawItem]:
    return [item for items in chosen.values() for item in items]


def _is_part(path: Path) -> bool:
    return path.name.endswith(_PART)


@contextmanager
def _staged(out: Path) -> Generator[Path, None, None]:
    """A folder on the disk of `out` in which all is put together; nothing stays if that fails."""
    above = next(each for each in (out.resolve(), *out.resolve().parents) if each.is_dir())
    stage = above / f".{out.resolve().name}.{os.getpid()}{_PART}"
    stage.mkdir()
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _refused(
    chosen: Mapping[Split, Sequence[RawItem]],
    stage: Path,
    raw: Path,
    check: Callable[[Splits], object],
    *,
    partial: bool,
) -> list[str]:
    """The ids of items that cannot be used; a `DataError` unless they may be left out."""
    train, val, test = (tuple(item.row for item in chosen[split]) for split in SPLITS)
    files = stage / FILES
    rows = Splits(train, val, test, root=files if files.is_dir() else stage)
    refused: list[str] = []
    while True:
        try:
            check(rows)
        except BadRows as bad:  # noqa: PERF203 - once for each kind of fault
            # Its files were read from an unfinished folder; users know the folder they come from.
            told = bad.listed.replace(str(files), str(raw))
            if not bad.faults or not partial or len(bad.faults) == len(rows):
                hint = "; --partial leaves such items out" if bad.faults and not partial else ""
                raise DataError(f"{told}{hint}") from bad
            refused += [_id(row) for row, _ in bad.faults]
            rows = without(rows, [row for row, _ in bad.faults])
        else:
            return refused


def _about(
    described: Mapping[str, object], ratio: str, seed: int, missing: Sequence[str]
) -> dict[str, object]:
    if not described:
        return {"split_mode": "ratio", "split_ratio": ratio, "split_seed": seed}
    told = {key: value for key, value in described.items() if key.startswith("source_")}
    left_out = {"missing": list(missing)} if missing else {}
    return {"benchmark": described.get("benchmark", ""), **told, **left_out}


def _write_items(
    stage: Path,
    out: Path,
    source: Path,
    chosen: Mapping[Split, Sequence[RawItem]],
    about: Mapping[str, object],
    missing: Sequence[str],
) -> Materialized:
    used = _all(chosen)
    files = dict.fromkeys(name for item in used for name in (*item.files, *item.embedded))
    for split, items in chosen.items():
        _write(stage / split / "items.json", _json([dict(item.row.data) for item in items]))
    counts: dict[Split, int] = {split: len(items) for split, items in chosen.items()}
    written = [*(f"{split}/items.json" for split in chosen), *(f"{FILES}/{name}" for name in files)]
    made = {
        **about,
        "manifest_type": _DONE,
        "source_data_path": str(source),
        "counts": counts,
        "item_fields": sorted({name for item in used for name in item.row.data}),
        "sha256": {name: sha256_of(stage / name) for name in written},
    }
    _write(stage / MANIFEST, _json(made))
    for name in (*written, MANIFEST):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(out / name)
    return Materialized(out, counts, len(files), tuple(missing))


def _place_files(out: Path, folder: Path, items: Sequence[RawItem]) -> None:
    """Put the files of items where a split folder keeps them: as links where possible."""
    placed: set[str] = set()
    for item in items:
        for name in (*item.files, *item.embedded):
            try:
                check_inside(name)
            except ValueError as error:
                raise DataError(f"{item.row.where}: {error}") from error
            if name in placed:
                continue
            placed.add(name)
            if name in item.embedded:
                _write(out / name, item.embedded[name])
            else:
                _link(folder, name, out / name, item.row.where)


def _link(folder: Path, name: str, place: Path, where: str) -> None:
    try:
        source = plain_file(folder, name)
    except ValueError as error:
        raise DataError(f"{where}: {error}; put the file itself there") from error
    place.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # on another disk, or where links are not allowed
        os.link(source, place)
        return
    try:
        _write(place, source.read_bytes())
    except OSError as error:
        raise DataError(f"{where}: {source} cannot be read: {error.strerror}") from error


def damaged(folder: Path) -> list[str] | None:
    """Files of a split folder that are not as they were written; None: it was not made by us."""
    told = _read_manifest(folder)
    if told.get("manifest_type") != _DONE or not isinstance(told.get("sha256"), dict):
        return None
    sums = cast("dict[str, str]", told["sha256"])
    return [name for name, sha256 in sums.items() if not _is(folder / name, sha256)]


def _is(file: Path, sha256: str) -> bool:
    return file.is_file() and sha256_of(file) == sha256


def _joined(item: RawItem, told: Row) -> RawItem:
    """An item with what only the manifest says of it."""
    return RawItem(Row({**told.data, **item.row.data}, item.row.where), item.files, item.embedded)


def _named(manifest: Path, expected: object) -> dict[Split, dict[str, Row]]:
    """The rows of a manifest by id, in each split."""
    try:
        splits = from_directory(manifest)
    except NoObject as error:
        raise DataError(f'{error.told}; a manifest holds {{"id": "..."}} for each item') from error
    first: dict[str, Split] = {}
    named: dict[Split, dict[str, Row]] = {}
    for split in SPLITS:
        names = list(map(_id, splits[split]))
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise DataError(f"{manifest}: given twice in {split}: {_first(twice)}")
        shared = [name for name in names if name in first]
        if shared:
            other = first[shared[0]]
            raise DataError(f"{manifest}: given in {other} and in {split}: {_first(shared)}")
        first |= dict.fromkeys(names, split)
        named[split] = dict(zip(names, splits[split], strict=True))
    counts = {split: len(rows) for split, rows in named.items()}
    if isinstance(expected, dict) and expected != counts:
        raise DataError(f"{manifest}: {MANIFEST} counts {expected}, its splits hold {counts}")
    return named


def _id(row: Row) -> str:
    if not has_id(row):
        raise DataError(f'{row.where}: no id; write {{"id": "..."}}')
    return row_id(row)


def _renamed(
    items: Iterable[RawItem], named: Mapping[Split, Mapping[str, Row]]
) -> Iterator[RawItem]:
    """Items with the ids of a manifest that names them by path."""
    ids = {
        row.data[_PATH]: name
        for rows in named.values()
        for name, row in rows.items()
        if isinstance(row.data.get(_PATH), str)
    }
    for item in items:
        name = ids.get(item.row.data.get(_PATH))
        data = item.row.data if name is None else {**item.row.data, "id": name}
        yield replace(item, row=Row(data, item.row.where))


def _by_id(items: Iterable[RawItem], wanted: set[str] | None) -> dict[str, RawItem]:
    found: dict[str, RawItem] = {}
    for item in _wanted(items, wanted):
        name = _id(item.row)
        if name in found:
            raise DataError(f"{item.row.where}: the item {name!r} is given twice; remove one")
        found[name] = item
    return found


def _wanted(items: Iterable[RawItem], wanted: set[str] | None) -> Iterator[RawItem]:
    return (
        item
        for item in items
        if wanted is None or str(item.row.data.get("id", "")).strip() in wanted
    )


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
