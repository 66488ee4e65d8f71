from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.core.episode import Workspace
from skillopt.harness.workspace import read_files, write_files


def test_files_are_put_in_and_those_that_match_are_read_out(tmp_path: Path) -> None:
    workspace = Workspace(files={"in/data.csv": b"1,2\n"}, collect=("out/*", "report.md"))
    write_files(tmp_path, workspace)
    assert (tmp_path / "in" / "data.csv").read_bytes() == b"1,2\n"
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "sum.bin").write_bytes(b"\xff\x00")
    (tmp_path / "report.md").write_bytes(b"# 3")
    (tmp_path / "notes.md").write_bytes(b"no")
    left = read_files(tmp_path, workspace)
    assert left.files == {"out/deep/sum.bin": b"\xff\x00", "report.md": b"# 3"}
    assert left.left_out == {}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "C:/x", "a\\b", "."])
def test_no_path_leads_out_of_the_workspace(path: str) -> None:
    with pytest.raises(ValueError, match="inside of the workspace"):
        Workspace(files={path: b""})
    with pytest.raises(ValueError, match="inside of the workspace"):
        Workspace(collect=(path,))


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("sk-1")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "file.txt").symlink_to(secret / "key.txt")
    (folder / "folder").symlink_to(secret)
    left = read_files(folder, Workspace(collect=("*",)))
    assert left.files == {}
    assert left.left_out == dict.fromkeys(("file.txt", "folder"), "not a regular file")


def test_what_is_too_large_is_left_out_with_the_reason(tmp_path: Path) -> None:
    for name, size in {"a": 4, "b": 11, "c": 5, "d": 8}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    left = read_files(tmp_path, Workspace(collect=("*",), max_file_bytes=10, max_bytes=12))
    assert list(left.files) == ["a", "c"]
    assert left.left_out == {
        "b": "larger than 10 bytes",
        "d": "all files together are larger than 12 bytes",
    }
