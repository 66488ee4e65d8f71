from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.core.episode import Workspace, check_inside
from skillopt.core.paths import not_a_folder, similar_path


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "./",
        "/",
        "/etc/passwd",
        "..",
        "a/../b",
        "../a",
        "a/..",
        "a\\b",
        "C:",
        "c:/a",
        "a\0",
    ],
)
def test_a_path_that_may_lead_out_of_the_workspace_is_refused_by_name(path: str) -> None:
    for make in (lambda: Workspace(collect=(path,)), lambda: Workspace(files={path: b""})):
        with pytest.raises(ValueError, match="is not a relative path") as refused:
            make()
        assert str(refused.value) == f"{path!r} is not a relative path inside of the workspace"


@pytest.mark.parametrize("path", ["a", "a.md", "out/*.csv", "./a", "a/./b", "ab:c", "...", "a..b"])
def test_a_relative_path_stays_inside_of_the_workspace(path: str) -> None:
    check_inside(path)


def test_a_misspelt_path_is_led_to_what_is_there_also_below_a_misspelt_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "data" / "items").mkdir(parents=True)
    (tmp_path / "data" / "train.json").touch()
    (tmp_path / "data" / "items" / "a").touch()
    found = {
        path: similar_path(tmp_path / path)
        for path in (
            "data",
            "data/tran.json",
            "dta",
            "dta/train.json",
            "dta/tran.json",
            "dta/itms/a",
            "dta/items/a",
            "data/other",
            "data/other/train.json",
            "other/train.json",
        )
    }
    assert {path: near and str(near.relative_to(tmp_path)) for path, near in found.items()} == {
        "data": None,
        "data/tran.json": "data/train.json",
        "dta": "data",
        "dta/train.json": "data/train.json",
        "dta/tran.json": None,
        "dta/itms/a": None,
        "dta/items/a": "data/items/a",
        "data/other": None,
        "data/other/train.json": None,
        "other/train.json": None,
    }


def test_it_is_told_what_is_in_the_way_of_a_folder(tmp_path: Path) -> None:
    file, link, good = tmp_path / "file", tmp_path / "link", tmp_path / "good"
    file.touch()
    link.symlink_to("nothing")
    good.symlink_to(tmp_path)
    gone = f"{link} is a symbolic link to nothing, where nothing is"
    assert not_a_folder(tmp_path / "new" / "newer") == ""
    assert not_a_folder(tmp_path) == ""
    assert not_a_folder(good / "new") == ""
    assert not_a_folder(file) == f"{file} is a file"
    assert not_a_folder(file / "new") == f"{file / 'new'}: {file} is a file"
    assert not_a_folder(link) == gone
    assert not_a_folder(link / "new") == f"{link / 'new'}: {gone}"
    long = tmp_path / ("x" * 300)
    assert not_a_folder(long) == f"{long} cannot be a folder: File name too long"
