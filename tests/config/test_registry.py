from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import pytest

from skillopt.config.registry import Registry
from skillopt.errors import ConfigError


def is_function(found: object) -> TypeGuard[Callable[..., object]]:
    return callable(found)


parts = Registry("skillopt_test.parts", "part", is_function)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real distribution with entry points, installed in a folder of its own."""
    site = tmp_path / "site"
    info = site / "parts-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[skillopt_test.parts]\ngood = parts_a:make\nheavy = parts_b:make [gpu]\n"
        "broken = parts_a:gone\nnumber = parts_a:NUMBER\n"
    )
    (site / "parts_a.py").write_text("NUMBER = 3\ndef make(): return 'made'\n")
    (site / "parts_b.py").write_text("import a_package_that_is_not_there\n")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return work


def complaint(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parts.load(name)
    return str(caught.value)


def test_a_registered_name_is_loaded_only_when_asked_for() -> None:
    assert parts.names == ["broken", "good", "heavy", "number"]
    assert "parts_b" not in sys.modules
    assert parts.load("good")() == "made"


def test_an_unknown_name_suggests_the_nearest_and_lists_the_known() -> None:
    known = "known: broken, good, heavy, number, or module:Name for your own"
    assert complaint("goood") == f"no part is named 'goood'; did you mean 'good'? ({known})"
    assert complaint("xyz") == f"no part is named 'xyz'; {known}"


def test_a_group_without_any_part_says_that_the_installation_is_out_of_date() -> None:
    """An editable installation keeps the entry points of the day on which it was made."""
    stale = Registry("skillopt_test.none", "part", is_function)
    with pytest.raises(ConfigError, match=r"no part is registered .* install it again"):
        stale.load("good")


def test_a_missing_extra_is_named() -> None:
    assert complaint("heavy") == (
        "the part 'heavy' cannot be imported: No module named 'a_package_that_is_not_there'; "
        "install it with: pip install 'parts[gpu]'"
    )


def test_an_entry_point_to_nothing_is_an_error() -> None:
    assert "the part 'broken' cannot be imported: " in complaint("broken")


def test_a_part_of_the_wrong_kind_is_refused() -> None:
    assert complaint("number") == "'number' can be imported but is no part"


def test_an_unpackaged_part_is_imported_from_the_current_directory(installed: Path) -> None:
    (installed / "unpackaged_part.py").write_text(
        "class Outer:\n    @staticmethod\n    def make(): return 'own'\n"
    )
    assert parts.load("unpackaged_part:Outer.make")() == "own"


@pytest.mark.parametrize("name", ["no_such_module_x:Name", "parts_a:Gone", ":x", "parts_a:"])
def test_an_unpackaged_part_that_is_not_there_says_how_to_write_it(name: str) -> None:
    message = complaint(name)
    assert message.startswith(f"the part {name!r} cannot be imported: ")
    assert message.endswith(
        "write module:Name, with the module installed or in the current directory"
    )


def test_our_own_parts_are_registered_the_same_way() -> None:
    environments = Registry("skillopt.environments", "environment", is_function)
    assert {"custom", "searchqa"} <= set(environments.names)


def test_a_name_that_two_packages_register_is_an_error_that_names_both(
    tmp_path: Path,
) -> None:
    info = tmp_path / "site" / "rivals-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rivals\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[skillopt_test.parts]\ngood = rivals:make\nnumber = parts_a:NUMBER\n"
        "[skillopt.environments]\ncustom = rivals:Custom\n"
    )
    message = complaint("good")
    assert message.startswith("several packages register part 'good': ")
    assert "parts (parts_a:make)" in message
    assert "rivals (rivals:make)" in message
    assert complaint("number") == "'number' can be imported but is no part"
    assert parts.names == ["broken", "good", "heavy", "number"]
    environments = Registry("skillopt.environments", "environment", is_function)
    with pytest.raises(ConfigError, match=r"rivals \(rivals:Custom\)") as caught:
        environments.load("custom")
    assert "skillopt (skillopt.envs" in str(caught.value)


def test_a_module_that_raises_anything_is_named(installed: Path) -> None:
    (installed / "raising_part.py").write_text("raise ZeroDivisionError('import boom')\n")
    assert "'raising_part:x' cannot be imported: import boom" in complaint("raising_part:x")
