"""Creates metric, gates, races, parents and pruning from the settings."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.analysis.pruning import Prune
from skillopt.app.parts import make
from skillopt.app.policies import rate_control
from skillopt.config.parts import GATES
from skillopt.config.schema import Config, EvaluationSection, settings_for
from skillopt.core.abilities import complete_gate
from skillopt.core.ports import AcceptsShorter, CompleteGate, Gate, Pruner
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.halving import HalveByGain, ParentChoice, ParetoParents, current
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.gates.compared import Always, Metric, MetricSettings, Strict


def metric(config: Config) -> Metric:
    """The number that skills are ranked by."""
    return settings_for(MetricSettings, config, "evaluation").metric


def gates(config: Config) -> tuple[CompleteGate, CompleteGate]:
    """The gate for steps and the one for guidance."""
    strict = Strict(metric(config))
    chosen = complete_gate(own_gate(config), strict.value)
    if not config.optimizer.slow_update_gate_with_selection:
        return chosen, Always(strict.metric)
    return chosen, strict if chosen.forced else chosen


def own_gate(config: Config) -> Gate:
    """The gate for steps as it is, without defaults for the abilities that it does not have."""
    named = config.evaluation.gate
    return make(GATES.load(named), config, "evaluation") if isinstance(named, str) else named


def replication(config: Config) -> Replication:
    """How much evidence a decision takes.

    Volatility reads every task of rejected candidates too, so nothing is spared then.
    """
    spares = rate_control(config.optimizer) != "volatility"
    return Replication(
        replicates=config.evaluation.replicates,
        initial=2 if config.evaluation.calibrate else 1,
        most=_most_replicates(config.evaluation),
        changed_only=config.evaluation.inconclusive == "replicate_changed",
        block=config.evaluation.block if spares else 0,
    )


def _most_replicates(evaluation: EvaluationSection) -> int:
    again = evaluation.inconclusive != "reject"
    return max(evaluation.replicates, evaluation.max_replicates if again else 1)


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


def parents(config: Config) -> ParentChoice:
    """Where steps set out from."""
    if config.optimizer.parents == "current":
        return current
    return ParetoParents(marks=metric(config).marks, seed=config.train.seed)


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
