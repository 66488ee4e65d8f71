"""Makes what decides about candidates from the settings: metric, gates, races, parents, pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillopt.analysis.pruning import Prune
from skillopt.app.optimizing import planned_parts
from skillopt.app.parts import make
from skillopt.app.speculating import hindrance
from skillopt.config.parts import GATE, PARENTS
from skillopt.config.schema import Config, RoleModel, settings_for
from skillopt.core.abilities import complete_gate
from skillopt.core.ports import AcceptsShorter, CompleteGate, Decisive, Gate, Pruner
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.halving import HalveByGain, ParentChoice
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.gates.compared import Always, Metric, MetricSettings, Strict


def metric(config: Config) -> Metric:
    """The number that skills are ranked by."""
    return settings_for(MetricSettings, config, GATE.section).metric


def own_gate(config: Config) -> Gate:
    """The gate for steps as it is, without defaults for the abilities that it does not have."""
    return make(GATE, config)


def gates(config: Config) -> tuple[CompleteGate, CompleteGate]:
    """The gate for steps and the one for guidance."""
    strict = Strict(metric(config))
    chosen = complete_gate(own_gate(config), strict.value)
    if not config.optimizer.slow_update_gate_with_selection:
        return chosen, Always(strict.metric)
    return chosen, strict if chosen.forced else chosen


def replication(config: Config) -> Replication:
    """How much evidence a decision takes; nothing is spared if all scores are read later."""
    evaluation = config.evaluation
    again = evaluation.inconclusive != "reject"
    spares = not getattr(planned_parts(config).pipeline.rate, "reads_all_scores", False)
    return Replication(
        replicates=evaluation.replicates,
        initial=2 if evaluation.calibrate else 1,
        most=max(evaluation.replicates, evaluation.max_replicates if again else 1),
        changed_only=evaluation.inconclusive == "replicate_changed",
        block=evaluation.block if spares else 0,
    )


def halving_schedule(config: Config) -> HalveByGain | None:
    """How one of several candidates comes to meet the gate."""
    optimizer = config.optimizer
    if optimizer.candidates == 1:
        return None
    return HalveByGain(
        marks=metric(config).marks,
        screen=optimizer.screen_tasks,
        block=optimizer.race_block,
        seed=config.train.seed,
    )


@dataclass(frozen=True, slots=True)
class ParentTools:
    """What a choice of parents may use."""

    marks: Callable[[Evaluation], Mapping[str, float]]
    """The number for each task."""
    seed: int


def parents(config: Config) -> ParentChoice:
    return make(PARENTS, config, ParentTools(metric(config).marks, config.train.seed))


def pruner(config: Config, target_probe: LiveTargetProbe) -> Pruner | None:
    """What takes out rules that nothing misses, if anything does."""
    if not config.optimizer.prune_every:
        return None

    async def measure(trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
        return await target_probe.runner.measure_each(
            trials, "train", "leave one out", against="first"
        )

    by = metric(config)
    return Prune(measure=measure, metric=by, gate=_for_shorter(config), tasks=target_probe.tasks)


def _for_shorter(config: Config) -> CompleteGate:
    """For what is only shorter, as good is good enough, unless the gate asks for more."""
    gate, enough = own_gate(config), Strict(metric(config), ties=True)
    own = gate.for_shorter() if isinstance(gate, AcceptsShorter) else enough
    return complete_gate(own, enough.value)


def setting_warnings(config: Config) -> Iterator[str]:
    """Settings that cannot do what they were probably set for, each with what to do about it."""
    optimizer = config.optimizer
    if optimizer.candidates == 1 and (optimizer.candidate_shuffles or optimizer.screen_tasks):
        yield (
            "optimizer.candidate_shuffles and screen_tasks have no effect with one candidate; "
            "raise optimizer.candidates, or remove these settings"
        )
    yield from _replicate_warnings(config)
    if config.engine.speculate and (why := hindrance(config)):
        yield f"engine.speculate has no effect: {why}; change that, or remove engine.speculate"


def _replicate_warnings(config: Config) -> Iterator[str]:
    evaluation = config.evaluation
    buys = evaluation.inconclusive != "reject"
    gate = own_gate(config)
    if buys and isinstance(gate, Decisive) and gate.decisive:
        yield (
            f"evaluation.inconclusive: {evaluation.inconclusive} has no effect, because gate "
            f"{GATE.names(evaluation)} is never inconclusive; use gate paired or sequential"
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


def _steady(target: RoleModel) -> bool:
    """Whether the target chooses the likeliest word each time; backend local does unless told."""
    warmth = target.temperature
    return warmth == 0 or (warmth is None and target.backend == "local")
