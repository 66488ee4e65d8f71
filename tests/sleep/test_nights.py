"""Many nights: the short version of benchmarks/nights.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nights", ROOT / "benchmarks" / "nights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nights"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.sandbox
async def test_the_live_skill_gets_better_and_never_worse_and_no_night_overspends() -> None:
    def tokens(night: int) -> int:
        return 20_000 if night == 2 else 400_000

    series = await benchmark().nights(3, tokens=tokens)
    assert series.fell == []
    assert series.true_scores[-1] > series.true_scores[0]
    assert series.overspent == []
    assert series.failed == []


@pytest.mark.sandbox
async def test_nights_in_which_the_skill_changes_nothing_accept_nothing() -> None:
    series = await benchmark().nights(2, seed=2, count=30, heeds=False)
    assert series.accepted == []
