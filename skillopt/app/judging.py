"""Creates metric, gates, races, parents and pruning from the settings."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.analysis.pruning import Prune
from skillopt.app.policies import rate_control
from skillopt.config.schema import Config, EvaluationSection
from skillopt.core.ports import Gate, ParentChoice, Pruner
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.run import current
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.gates.compared import DIRECTIVE_WORDS, Density, Metric, NoRegression, Strict, always
from skillopt.gates.halving import HalveByGain, ParetoParents
from skillopt.gates.tested import Paired, Sequential


def metric(config: Config) -> Metric:
    """The number that skills are ranked by."""
    evaluation = config.evaluation
    weights = {"hard": 0.0, "soft": 1.0, "mixed": evaluation.gate_mixed_weight}
    return Metric(weights[evaluation.gate_metric], _density(evaluation))


def _density(evaluation: EvaluationSection) -> Density | None:
    if not evaluation.use_semantic_density:
        return None
    words = DIRECTIVE_WORDS if evaluation.leading_words is None else evaluation.leading_words
    return Density(evaluation.semantic_density_weight, words)


def gates(config: Config) -> tuple[Gate, Gate]:
    """The gate for steps and the one for guidance."""
    by = metric(config)
    free = always(by)
    gated = config.optimizer.slow_update_gate_with_selection
    chosen = _gate(config.evaluation, Strict(by))
    if chosen is None:
        return free, Strict(by) if gated else free
    return chosen, chosen if gated else free


def _gate(evaluation: EvaluationSection, strict: Strict) -> Gate | None:
    """None: no gate."""
    match evaluation.gate:
        case "strict":
            return strict
        case "paired":
            looks = _looks(evaluation)
            mid = evaluation.paired_test == "mid_p"
            return Paired(strict=strict, alpha=evaluation.alpha, looks=looks, mid=mid)
        case "sequential":
            return Sequential(
                strict=strict,
                alpha=evaluation.alpha,
                replicates=evaluation.replicates,
                rounds=_looks(evaluation),
            )
        case "no_regression":
            return _no_regression(evaluation, strict)
        case "always":
            return None


def _no_regression(evaluation: EvaluationSection, strict: Strict) -> NoRegression:
    return NoRegression(
        strict=strict,
        must_pass=frozenset(evaluation.must_pass),
        max_broken=evaluation.max_broken,
    )


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


def _looks(evaluation: EvaluationSection) -> int:
    """How often a gate looks at a candidate: after its attempts, and after each replicate."""
    return _most_replicates(evaluation) - evaluation.replicates + 1


def halving_schedule(config: Config) -> HalveByGain | None:
    """How one of several candidates comes to meet the gate."""
    optimizer = config.optimizer
    if optimizer.candidates == 1:
        return None
    return HalveByGain(
        metric=metric(config),
        screen=optimizer.screen_tasks,
        block=optimizer.race_block,
        seed=config.train.seed,
    )


def parents(config: Config) -> ParentChoice:
    """Where steps set out from."""
    if config.optimizer.parents == "current":
        return current
    return ParetoParents(metric=metric(config), seed=config.train.seed)


def pruner(config: Config, witness: LiveTargetProbe) -> Pruner | None:
    """What takes out rules that nothing misses, if anything does."""
    if not config.optimizer.prune_every:
        return None

    async def measure(trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
        return await witness.runner.measure_each(trials, "train", "leave one out", against="first")

    by = metric(config)
    return Prune(measure=measure, metric=by, gate=_lenient(config), tasks=witness.tasks)


def _lenient(config: Config) -> Gate:
    """For what is only shorter, as good is good enough; what must not break may not break here."""
    enough = Strict(metric(config), ties=True)
    guarded = config.evaluation.gate == "no_regression"
    return _no_regression(config.evaluation, enough) if guarded else enough
