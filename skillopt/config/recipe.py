"""The recipe for tasks of one's own: settings of the search where the user set none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillopt.config.given import GivenValue
from skillopt.config.schema import Config
from skillopt.config.sections import KEYS

ORIGIN: Final = "recipe for tasks of your own"
RECIPE: Final[Mapping[str, object]] = {
    "train.num_epochs": 10,
    "train.batch_size": 100,
    "train.patience": 1,
    "train.repeat_solved": False,
    "gradient.failure_only": True,
    "gradient.minibatch_by": "likeness",
    "gradient.merge_mode": "union",
    "optimizer.select_mode": "credit",
    "optimizer.trial_tasks": 2,
    "optimizer.trial_probes": 4,
    "optimizer.rounds": 6,
    "optimizer.lr_control_mode": "none",
    "optimizer.use_slow_update": False,
    "optimizer.use_meta_skill": False,
    "evaluation.gate": "not_worse",
}
"""What docs/evidence.md measures; configs/presets/efficient.yaml says why."""
_TOGETHER: Final = (
    "optimizer.select_mode",
    "optimizer.skill_update_mode",
    "optimizer.candidates",
    "optimizer.use_skill_aware_reflection",
)
"""Keys that decide what the others are good for: whoever sets one of them chooses the search."""
_RATES: Final = (
    "optimizer.learning_rate",
    "optimizer.min_learning_rate",
    "optimizer.lr_scheduler",
)
_INSTEAD: Final = {
    "optimizer.lr_control_mode": _RATES,
    "optimizer.use_slow_update": (
        "optimizer.slow_update_samples",
        "optimizer.slow_update_gate_with_selection",
        "optimizer.longitudinal_pair_policy",
    ),
    "evaluation.gate": ("evaluation.use_gate",),
}
"""Keys that say the same in another way, or that mean nothing with the recipe's value."""


_LENGTH: Final = ("train.num_epochs", "train.batch_size")
"""They do not tell one search from another."""


def recipe_defaults(config: Config) -> dict[str, GivenValue]:
    """The recipe for tasks of one's own; none for a key that was given.

    Benchmarks keep the published protocol, and small local optimizers have settings of their own.
    """
    given = config.given
    own = config.env.name == "custom" or ":" in config.env.name
    if not own or config.model.role("optimizer").backend == "local":
        return {}
    if any(key in given for key in _TOGETHER):
        return {}
    return {
        key: GivenValue(value, ORIGIN)
        for key, value in RECIPE.items()
        if key not in given and not any(other in given for other in _INSTEAD.get(key, ()))
    }


def told_recipe(config: Config) -> str:
    """Which recipe a run uses, in one line."""
    chosen = sum(setting.origin == ORIGIN for setting in config.given.values())
    values = config.values()
    if chosen:
        changed = [key for key, value in RECIPE.items() if values[key] != value]
        but = f" but {', '.join(changed)}" if changed else ""
        return f"recipe: credit, for tasks of your own{but} (docs/efficient.md)"
    if all(values[key] == value for key, value in RECIPE.items()):
        return "recipe: credit (docs/efficient.md)"
    decisive = {*RECIPE, *_TOGETHER}.difference(_LENGTH)
    published = all(values[key] == KEYS[key].default for key in decisive)
    return "recipe: the published protocol" if published else "recipe: settings of your own"
