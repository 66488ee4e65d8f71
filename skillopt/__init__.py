"""Train skill documents for frozen agents."""

from __future__ import annotations

from typing import TYPE_CHECKING  # noqa: TID251 - for laziness, not for a cycle

if TYPE_CHECKING:
    from skillopt.api import (
        Result,
        Run,
        attribute,
        attribute_async,
        calibrate,
        calibrate_async,
        check,
        check_async,
        describe_run,
        doctor,
        doctor_async,
        estimate,
        estimate_async,
        evaluate,
        evaluate_async,
        list_runs,
        load_evaluation,
        load_run,
        open_run,
        train,
        train_async,
    )
    from skillopt.core.rollout import Score

__version__ = "0.3.0"

__all__ = [
    "Result",
    "Run",
    "Score",
    "__version__",
    "attribute",
    "attribute_async",
    "calibrate",
    "calibrate_async",
    "check",
    "check_async",
    "describe_run",
    "doctor",
    "doctor_async",
    "estimate",
    "estimate_async",
    "evaluate",
    "evaluate_async",
    "list_runs",
    "load_evaluation",
    "load_run",
    "open_run",
    "train",
    "train_async",
]

_HOMES = {"Score": "skillopt.core.rollout"}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import skillopt` stays light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "skillopt.api")), name)
