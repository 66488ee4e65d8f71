"""What a configuration asks for in vain is said before anything is spent."""

from __future__ import annotations

import re

import pytest

from skillopt.app.gating import setting_warnings
from skillopt.config.load import load_config

BUYING: dict[str, object] = {
    "evaluation.gate": "paired",
    "evaluation.inconclusive": "replicate",
    "env.workers": 8,
}


def said(settings: dict[str, object]) -> list[str]:
    return list(
        setting_warnings(load_config(None, values={"env.name": "custom", **BUYING, **settings}))
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"evaluation.gate": "strict"}, "gate strict is never inconclusive"),
        ({"evaluation.gate": "always"}, "gate always is never inconclusive"),
        ({"evaluation.replicates": 3}, r"max_replicates \(3\) is not above replicates \(3\)"),
        ({"model.target_temperature": 0.0}, "the target is deterministic"),
        ({"model.target_backend": "local"}, "set model.target_temperature"),
        ({"optimizer.screen_tasks": 5}, "raise optimizer.candidates"),
    ],
)
def test_what_can_bring_nothing_is_told_with_what_to_do(
    settings: dict[str, object], told: str
) -> None:
    (doubt,) = said(settings)
    assert re.search(told, doubt)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"evaluation.gate": "sequential", "evaluation.inconclusive": "replicate_changed"},
        {"evaluation.gate": "strict", "evaluation.inconclusive": "reject"},
        {"model.target_temperature": 0.0, "evaluation.inconclusive": "reject"},
        {"model.optimizer_temperature": 0.0},
    ],
)
def test_what_can_bring_something_is_left_alone(settings: dict[str, object]) -> None:
    assert said(settings) == []
