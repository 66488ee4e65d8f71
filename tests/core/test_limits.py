from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from skillopt.core.episode import EpisodeLimits
from skillopt.core.sandbox import SandboxLimits


@pytest.mark.parametrize("limit", [field.name for field in fields(SandboxLimits)])
def test_a_limit_of_a_sandbox_that_allows_nothing_is_refused_by_name(limit: str) -> None:
    for value in (0, -1, float("nan")):
        wrong: dict[str, Any] = {limit: value}
        with pytest.raises(ValueError, match=f"^{limit} should be above 0$"):
            SandboxLimits(**wrong)
    least: dict[str, Any] = {limit: 1}
    assert getattr(SandboxLimits(**least), limit) == 1
    assert SandboxLimits().cpu_seconds is None


@pytest.mark.parametrize("limit", ["turns", "seconds", "tokens"])
def test_a_limit_of_an_episode_that_allows_nothing_is_refused_by_name(limit: str) -> None:
    for value in (0, -1):
        wrong: dict[str, Any] = {limit: value}
        with pytest.raises(
            ValueError, match=f"^a limit on {limit} should be above 0, not {value}$"
        ):
            EpisodeLimits(**wrong)
    least: dict[str, Any] = {limit: 1}
    assert getattr(EpisodeLimits(**least), limit) == 1
