"""The versions that pyproject.toml allows are versions that work."""

from __future__ import annotations

import os
import re
from importlib.metadata import requires, version

import pytest

REQUIREMENT = re.compile(r"([A-Za-z0-9-]+)(?:\[\w+\])?([^;]*)(?:;\s*extra == ['\"](\w+)['\"])?")


def floors() -> list[tuple[str, str, str]]:
    """Name, floor and extra of every dependency."""
    found: list[tuple[str, str, str]] = []
    for each in requires("skillopt") or []:
        match = REQUIREMENT.match(each)
        assert match is not None, each
        floor = re.search(r">=\s*([\w.]+)", match[2])
        found.append((match[1], floor[1] if floor else "", match[3] or ""))
    return found


def test_every_dependency_has_a_floor() -> None:
    assert [name for name, floor, _ in floors() if not floor and name != "skillopt"] == []


@pytest.mark.skipif(not os.environ.get("SKILLOPT_LOWEST"), reason="`make test-lowest` runs it")
@pytest.mark.parametrize(("name", "floor"), [row[:2] for row in floors() if not row[2]])
def test_the_lowest_versions_are_the_ones_that_are_tested(name: str, floor: str) -> None:
    """A floor below what another dependency forces would never be tried."""
    parts = [int(part) for part in floor.split(".")]
    assert [int(part) for part in version(name).split(".")[: len(parts)]] == parts
