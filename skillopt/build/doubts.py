"""Warnings about settings that are allowed but have no effect together with others."""

from __future__ import annotations

from collections.abc import Iterator

from skillopt.build.judging import gates
from skillopt.build.speculating import hindrance
from skillopt.config.schema import Config, RoleModel
from skillopt.evaluation.gates import Strict


def setting_warnings(config: Config) -> list[str]:
    """Each with what to do about it."""
    return [*_races(config), *_replicates(config), *_guesses(config)]


def _races(config: Config) -> Iterator[str]:
    optimizer = config.optimizer
    if optimizer.candidates == 1 and (optimizer.candidate_shuffles or optimizer.screen_tasks):
        yield (
            "optimizer.candidate_shuffles and screen_tasks have no effect with one candidate; "
            "raise optimizer.candidates, or remove these settings"
        )


def _replicates(config: Config) -> Iterator[str]:
    evaluation = config.evaluation
    buys = evaluation.inconclusive != "reject"
    if buys and isinstance(gates(config)[0], Strict):
        yield (
            f"evaluation.inconclusive: {evaluation.inconclusive} has no effect, because gate "
            f"{evaluation.gate} is never inconclusive; use gate paired or sequential"
        )
    elif buys and evaluation.max_replicates <= evaluation.replicates:
        yield (
            f"evaluation.inconclusive: {evaluation.inconclusive} has no effect, because "
            f"max_replicates ({evaluation.max_replicates}) is not above replicates "
            f"({evaluation.replicates}); raise max_replicates"
        )
    elif (buys or evaluation.replicates > 1) and _steady(config.model.role("target")):
        yield (
            "replicates have no effect, because the target is deterministic (temperature 0); set "
            "model.target_temperature, or remove the replicates"
        )


def _guesses(config: Config) -> Iterator[str]:
    if config.engine.speculate and (why := hindrance(config)):
        yield f"engine.speculate has no effect: {why}; change that, or remove engine.speculate"


def _steady(target: RoleModel) -> bool:
    """Whether the target chooses the likeliest word each time; backend local does unless told."""
    warmth = target.temperature
    return warmth == 0 or (warmth is None and target.backend == "local")
