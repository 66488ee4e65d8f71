"""Creates the parts of the optimizer from the settings.

Only this module looks at the names of modes; gates and proposers are made by `parts`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from skillopt.app.parts import make
from skillopt.config.parts import PROPOSERS, ProposerKind
from skillopt.config.schema import Config, GradientSection, OptimizerSection, RateControl
from skillopt.core.ports import MetaReflector, Proposer, Reviewer, Shortener
from skillopt.core.rollout import CHANGED, UNCHANGED, Change, Rollout
from skillopt.core.skill import Skill
from skillopt.engine.plan import PlanSettings
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.optimizer.forms import EDITS, REWRITES, SUGGESTIONS, Form
from skillopt.optimizer.learning_rate import (
    Autonomous,
    Constant,
    Cosine,
    Linear,
    Steadying,
    unbounded,
)
from skillopt.optimizer.merging import Aggregate, Portfolio, Several, Union
from skillopt.optimizer.meta_reflect import MetaReflect
from skillopt.optimizer.pipeline import Aggregating, Pipeline, Rating, Selecting, Updating
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.selection import OneBody, Select
from skillopt.optimizer.slow_update import LookBack, MetaSkill, SlowUpdate
from skillopt.optimizer.tools import ProposerTools
from skillopt.optimizer.trial import Trial
from skillopt.optimizer.update import Compress, Follow, Patch, TakeOver
from skillopt.optimizer.vary import Vary
from skillopt.prompts.ask import Asker
from skillopt.prompts.digest import NO_LIMIT, Digest

_PAIRS: Mapping[str, frozenset[Change]] = {
    "mixed": CHANGED | UNCHANGED,
    "changed": CHANGED,
    "unchanged": UNCHANGED,
}


def proposer_of(config: Config, asker: Asker, probing: Probing | None = None) -> Proposer:
    """What turns attempts into proposals, as the settings say."""
    tools = ProposerTools(
        asker=asker,
        form=form_of(config),
        reminders=_reminders(config.optimizer, asker),
        probing=probing,
    )

    def one(named: str | Proposer) -> Proposer:
        kind = PROPOSERS.load(named) if isinstance(named, str) else named
        if not inspect.isclass(kind):
            return cast("Proposer", kind)  # a function, or an object
        return make(cast("ProposerKind", kind), config, "gradient", tools)

    gradient = config.gradient
    chosen = tuple(one(named) for named in gradient.proposer)
    if len(chosen) == 1:
        return chosen[0]
    if gradient.portfolio_after:
        return Portfolio(chosen, gradient.portfolio_after)
    return Several(chosen)


def pipeline(config: Config, target_probe: LiveTargetProbe, asker: Asker) -> Pipeline:
    """The optimizer's stages; `target_probe` is how they reach the target."""
    form, reminders = form_of(config), _reminders(config.optimizer, asker)
    probing = _probing(config, target_probe, asker)
    return Pipeline(
        reflect=proposer_of(config, asker, probing),
        aggregate=_aggregate(config.gradient, form, asker),
        rate=_rate(config.optimizer, asker),
        select=_select(config.optimizer, form, target_probe, asker),
        update=_update(config, asker),
        annotate=reminders,
        vary=_vary(config),
    )


def _vary(config: Config) -> Vary | None:
    optimizer = config.optimizer
    if optimizer.candidates == 1:
        return None
    return Vary(
        most=optimizer.candidates - 1,
        shuffles=optimizer.candidate_shuffles,
        seed=config.train.seed,
    )


def shortener(config: Config, asker: Asker) -> Shortener | None:
    """What holds the skill to a size, if there is one to hold it to."""
    limit = config.optimizer.max_skill_tokens
    room = config.model.rewrite_max_completion_tokens
    return Compress(asker=asker, limit=limit, max_tokens=room) if limit else None


def reviewer(optimizer: OptimizerSection, asker: Asker) -> Reviewer:
    """What looks back at the end of an epoch."""
    return LookBack(
        slow_update=SlowUpdate(asker=asker) if optimizer.use_slow_update else None,
        meta_skill=MetaSkill(asker=asker) if optimizer.use_meta_skill else None,
    )


def limits(gradient: GradientSection) -> Digest:
    """How much of the attempts a question shows."""

    def bound(tokens: int) -> int:
        return NO_LIMIT if tokens == 0 else tokens

    return Digest(bound(gradient.trajectory_tokens), bound(gradient.evidence_tokens))


def meta_reflector(optimizer: OptimizerSection, asker: Asker) -> MetaReflector | None:
    """What thinks again about an epoch, if anything does."""
    if not optimizer.use_meta_reflect:
        return None
    return MetaReflect(asker=asker, update=Patch(sink=asker.sink))


def shape(config: Config) -> PlanSettings:
    """How the run is laid out."""
    optimizer = config.optimizer
    looks_back = optimizer.use_slow_update or optimizer.use_meta_skill
    return PlanSettings(
        epochs=config.train.num_epochs,
        batch=config.train.batch_size,
        accumulation=config.train.accumulation,
        sample=optimizer.slow_update_samples if looks_back else 0,
        last_sample=optimizer.slow_update_samples if optimizer.use_slow_update else 0,
        useful=_PAIRS[optimizer.longitudinal_pair_policy],
        searches=optimizer.longitudinal_pair_policy == "changed",
        meta_reflect=optimizer.use_meta_reflect,
        prune_every=optimizer.prune_every,
        prune_sample=optimizer.prune_tasks,
        forgets=optimizer.memory == "epoch",
        patience=config.train.patience,
        seed=config.train.seed,
    )


def schedule(optimizer: OptimizerSection) -> Callable[[int, int], int | None]:
    """The learning rate, step by step."""
    if rate_control(optimizer) == "none":
        return unbounded
    if rate_control(optimizer) == "volatility":
        return Constant(optimizer.learning_rate)
    high, low = optimizer.learning_rate, _lowest(optimizer)
    match optimizer.lr_scheduler:
        case "constant" | "autonomous":
            return Constant(high)
        case "linear":
            return Linear(high, low)
        case "cosine":
            return Cosine(high, low)


def _reminders(optimizer: OptimizerSection, asker: Asker) -> Reminders | None:
    if not optimizer.use_skill_aware_reflection:
        return None
    both = optimizer.skill_aware_appendix_source == "both"
    return Reminders(
        asker=asker,
        sources=frozenset(("failure", "success") if both else ("failure",)),
        threshold=optimizer.skill_aware_consolidate_threshold,
    )


def _probing(config: Config, target_probe: LiveTargetProbe, asker: Asker) -> Probing | None:
    gradient = config.gradient
    if not gradient.use_deep_reflect:
        return None
    return Probing(
        asker=asker,
        target_probe=target_probe,
        failures=gradient.deep_reflect_failures,
        successes=0 if gradient.failure_only else gradient.deep_reflect_successes,
        turns=gradient.deep_reflect_turns,
        seed=config.train.seed,
    )


def rate_control(optimizer: OptimizerSection) -> RateControl:
    """Who decides the learning rate: a body is taken whole, and a schedule may leave it open."""
    if optimizer.skill_update_mode == "full_rewrite_minibatch":
        return "none"
    return "autonomous" if optimizer.lr_scheduler == "autonomous" else optimizer.lr_control_mode


def _rate(optimizer: OptimizerSection, asker: Asker) -> Rating | None:
    match rate_control(optimizer):
        case "autonomous":
            open_ended = optimizer.lr_scheduler == "autonomous"
            return Autonomous(asker=asker, fallback=_lowest(optimizer) if open_ended else None)
        case "volatility":
            return Steadying(_lowest(optimizer))
        case "fixed" | "none":
            return None


def _lowest(optimizer: OptimizerSection) -> int:
    return min(optimizer.min_learning_rate, optimizer.learning_rate)


def form_of(config: Config) -> Form:
    """In what form proposals are asked for."""
    match config.optimizer.skill_update_mode:
        case "patch":
            return EDITS
        case "rewrite_from_suggestions":
            return SUGGESTIONS
        case "full_rewrite_minibatch":
            return replace(REWRITES, max_tokens=config.model.rewrite_max_completion_tokens)


def _update(config: Config, asker: Asker) -> Updating:
    match config.optimizer.skill_update_mode:
        case "patch":
            return Patch(sink=asker.sink)
        case "rewrite_from_suggestions":
            return Follow(
                asker=asker,
                max_tokens=config.model.rewrite_max_completion_tokens,
                effort=config.model.rewrite_reasoning_effort or None,
            )
        case "full_rewrite_minibatch":
            return TakeOver(sink=asker.sink)


def _aggregate(gradient: GradientSection, form: Form, asker: Asker) -> Aggregating:
    if gradient.merge_mode == "union":
        return Union()
    return Aggregate(asker=asker, merge_batch=gradient.merge_batch_size, form=form)


def _select(
    optimizer: OptimizerSection, form: Form, target_probe: LiveTargetProbe, asker: Asker
) -> Selecting:
    if optimizer.skill_update_mode == "full_rewrite_minibatch":
        return OneBody()
    if optimizer.select_mode == "ranking":
        return Select(asker=asker, form=form)

    async def attempt(skill: Skill, tasks: Sequence[str]) -> list[Rollout]:
        return await target_probe.runner.try_out(
            skill, [target_probe.tasks[each] for each in tasks]
        )

    return Trial(attempt=attempt, sink=asker.sink, tasks=optimizer.trial_tasks)
