"""Settings that exclude each other, and settings that cannot do what they were probably set for."""

from __future__ import annotations

from collections.abc import Iterator

from skillopt.app.judging import own_gate
from skillopt.app.speculating import hindrance
from skillopt.config.parts import PARTS, part_name
from skillopt.config.schema import Config, RoleModel
from skillopt.core.ports import Decisive


def check(config: Config) -> None:
    """Refuse settings that exclude each other, before anything is spent."""
    gradient, optimizer = config.gradient, config.optimizer
    kinds, mode = PARTS["gradient"].kinds(gradient), optimizer.skill_update_mode
    patching, asked = mode == "patch", optimizer.lr_scheduler == "autonomous"
    control = optimizer.lr_control_mode
    proposers = ", ".join(map(part_name, gradient.proposer))
    edits_only = f"works with edits only; with optimizer.skill_update_mode: {mode} it must be"
    for key, wrong, what in (
        (
            "optimizer.use_skill_aware_reflection",
            optimizer.use_skill_aware_reflection
            and not any(getattr(each, "writes_reminders", False) for each in kinds),
            "needs analyst among gradient.proposer; the other proposers write no reminders",
        ),
        (
            "optimizer.use_skill_aware_reflection",
            optimizer.use_skill_aware_reflection and mode == "full_rewrite_minibatch",
            f"has no effect with skill_update_mode: {mode}, which rewrites the whole body",
        ),
        (
            "gradient.use_deep_reflect",
            gradient.use_deep_reflect
            and not any(getattr(each, "reads_probes", False) for each in kinds),
            "needs analyst among gradient.proposer; the other proposers read no probes",
        ),
        (
            "gradient.proposer",
            not patching and any(getattr(each, "edits_only", True) for each in kinds),
            f"{proposers} {edits_only} analyst",
        ),
        (
            "optimizer.select_mode",
            not patching and optimizer.select_mode == "trial",
            f"trial {edits_only} ranking",
        ),
        (
            "optimizer.lr_control_mode",
            asked and control in ("none", "volatility"),
            f"{control} and optimizer.lr_scheduler: autonomous cannot be combined; change one",
        ),
    ):
        if wrong:
            raise config.complaint(key, what)


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
    gate = own_gate(config)
    if buys and isinstance(gate, Decisive) and gate.decisive:
        yield (
            f"evaluation.inconclusive: {evaluation.inconclusive} has no effect, because gate "
            f"{part_name(evaluation.gate)} is never inconclusive; use gate paired or sequential"
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
