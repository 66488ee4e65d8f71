from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import StoreError
from skillopt.store.files import (
    BackgroundWriter,
    json_bytes,
    json_list,
    json_row,
    list_item,
    part_of,
    sweep,
    write_atomic,
    write_json,
    write_new,
)


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "new" / "file.md"
    write_atomic(path, "old", durable=durable)
    write_atomic(path, "é\r\n", durable=durable)
    assert path.read_bytes() == b"\xc3\xa9\r\n"
    assert list(path.parent.iterdir()) == [path]


def test_what_has_the_name_of_an_unfinished_file_is_not_written_through(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "file.md", tmp_path / "elsewhere"
    elsewhere.write_text("theirs", encoding="utf-8")
    part_of(path, os.getpid()).symlink_to(elsewhere)
    write_atomic(path, "ours")
    assert elsewhere.read_text(encoding="utf-8") == "theirs"
    assert not path.is_symlink()
    assert path.read_text(encoding="utf-8") == "ours"


def test_a_write_that_fails_says_so_and_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    (path / "inside").touch()
    with pytest.raises(StoreError, match=r"cannot write .*file: .* run the same command again"):
        write_atomic(path, b"data")
    assert [each.name for each in tmp_path.rglob("*")] == ["file", "inside"]


def test_json_is_readable_and_keeps_the_order_of_keys(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"z": "ü", "a": [1]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text == '{\n  "z": "ü",\n  "a": [\n    1\n  ]\n}\n'


@given(st.text(st.characters()))
def test_any_text_can_be_written_as_json_even_half_a_surrogate_pair(text: str) -> None:
    assert json.loads(json_bytes({"t": text})) == {"t": text}
    assert json.loads(json_row({"t": text})) == {"t": text}
    assert json_row({"t": text}).count(b"\n") == 1


def test_sweeping_removes_what_killed_writers_left_and_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "steps" / "a.json"
    write_json(kept, 1)
    part = kept.parent / ".a.json.123.skillopt-part"
    part.touch()
    theirs = [kept.parent / ".a.json.123.tmp", tmp_path / ".notes.tmp"]
    for each in theirs:
        each.touch()
    sweep(tmp_path)
    assert not part.exists()
    assert all(each.exists() for each in (kept, *theirs))


def test_a_link_inside_a_folder_is_not_followed_when_it_is_swept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / ".a.1.skillopt-part"
    elsewhere.parent.mkdir()
    elsewhere.touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(elsewhere.parent)
    sweep(tmp_path / "run")
    assert elsewhere.exists()


def test_new_files_never_replace_others_and_a_killed_write_can_be_repeated(tmp_path: Path) -> None:
    files = {tmp_path / "data" / "a": b"1", tmp_path / "skill.md": b"2"}
    (tmp_path / "skill.md").write_bytes(b"mine")
    with pytest.raises(StoreError, match=r"skill\.md is there already"):
        write_new(files)
    assert not (tmp_path / "data").exists()
    assert (tmp_path / "skill.md").read_bytes() == b"mine"
    (tmp_path / "skill.md").unlink()
    write_new(dict([files.popitem()]))
    write_new({**files, tmp_path / "skill.md": b"2"})
    assert (tmp_path / "data" / "a").read_bytes() == b"1"


def test_a_background_writer_has_written_everything_when_its_block_ends(tmp_path: Path) -> None:
    with BackgroundWriter() as writer:
        for number in range(50):
            writer.write(tmp_path / str(number) / "file", b"x" * number)
    for number in range(50):
        assert (tmp_path / str(number) / "file").read_bytes() == b"x" * number


def test_what_cannot_be_written_in_the_background_is_an_error_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    writer = BackgroundWriter()
    writer.__enter__()
    writer.write(tmp_path / "file" / "below", b"x")
    writer.write(tmp_path / "other", b"x")
    with pytest.raises(StoreError, match="file"):
        writer.__exit__(None)
    assert (tmp_path / "other").read_bytes() == b"x"


def test_what_cannot_be_written_in_the_background_does_not_hide_why_a_block_failed(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"")
    writer = BackgroundWriter()
    writer.__enter__()
    writer.write(tmp_path / "file" / "below", b"x")
    writer.__exit__(KeyError)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(VALUES))
def test_a_list_put_together_from_documents_is_as_if_written_whole(values: list[object]) -> None:
    assert json_list(list_item(json_bytes(value)) for value in values) == json_bytes(values)
