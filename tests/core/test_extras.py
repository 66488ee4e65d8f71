from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from skillopt.core.extras import install_command, packages_of

ROOT = Path(__file__).parents[2]


def declared(extra: str) -> list[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf"^{extra} = \[(.*)\]$", text, re.MULTILINE)
    assert found
    return re.findall(r'"([^"]+)"', found[1])


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=]", each)[0] for each in requirements]


@pytest.mark.parametrize("extra", ["local", "litellm", "prices", "xlsx"])
def test_the_command_for_an_extra_names_its_packages_and_not_our_own_name(extra: str) -> None:
    command, verb, *needed = shlex.split(install_command(extra))
    assert (command, verb) == ("pip", "install")
    assert names(needed) == names(declared(extra))
    assert packages_of(extra) == [re.split(r"\[", name)[0] for name in names(needed)]


def test_the_extra_of_another_package_is_installed_by_its_name() -> None:
    assert install_command("gpu", "parts") == "pip install 'parts[gpu]'"


def test_an_extra_that_we_do_not_have_installs_what_is_declared_in_this_folder() -> None:
    assert install_command("no such") == "pip install '.[no such]'"
    assert packages_of("no such") == []


def test_no_message_installs_our_own_name_from_the_public_index() -> None:
    for path in (ROOT / "skillopt").rglob("*.py"):
        assert "skillopt[" not in path.read_text(encoding="utf-8"), path
