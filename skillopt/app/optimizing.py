"""Makes the optimizer of a run: its parts, put together, and what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import get_args

from skillopt.app.parts import make, make_all
from skillopt.app.speculating import speculates
from skillopt.config.parts import (
    CONTROL,
    MEMORY,
    MERGER,
    PAIRS,
    PROPOSER,
    SCHEDULE,
    SELECTOR,
    UPDATE_MODE,
    PartKey,
)
from skillopt.config.schema import Config, settings_for
from skillopt.config.sections import GradientSection
from skillopt.core.chat import Reply, Request
from skillopt.core.events import Event, Signal
from skillopt.core.ports import Proposer
from skillopt.core.rollout import Change, Rollout
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.engine.plan import PlanSettings
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.gates.compared import MetricSettings
from skillopt.optimizer.learning_rate import Fixed, unbounded
from skillopt.optimizer.merging import Portfolio, Several
from skillopt.optimizer.meta_reflect import MetaReflect
from skillopt.optimizer.parts import (
    HasControl,
    HasSchedule,
    MemoryPolicy,
    OptimizerTools,
    PairPolicy,
    RateControl,
    Schedule,
)
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.replies import EDITS, Form
from skillopt.optimizer.rounds import Reserve, Rounds
from skillopt.optimizer.selection import OneBody
from skillopt.optimizer.slow_update import LookBack
from skillopt.optimizer.update import Compress, Patch
from skillopt.optimizer.vary import Vary
from skillopt.prompts.ask import Asker
from skillopt.prompts.digest import NO_LIMIT, Digest
from skillopt.prompts.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerParts:
    """Everything that asks the optimizer model, and the schedule that it works by."""

    pipeline: Pipeline
    optimizer: Pipeline | Rounds
    """The pipeline, or several rounds of it."""
    schedule: Schedule
    reviewer: LookBack
    meta_reflector: MetaReflect | None
    """None: epochs are not thought about again."""
    shortener: Compress | None
    """None: a skill may have any size."""


def optimizer_parts(
    config: Config,
    asker: Asker,
    target_probe: LiveTargetProbe | None = None,
    reserve: Reserve | None = None,
) -> OptimizerParts:
    """The parts as the settings say; `target_probe` is how they reach the target."""
    optimizer, room = config.optimizer, config.model.rewrite_max_completion_tokens
    tools = _tools(config, asker, target_probe)
    update = make(UPDATE_MODE, config, tools)
    tools = replace(tools, form=getattr(update, "form", EDITS))
    proposers, select = make_all(PROPOSER, config, tools), make(SELECTOR, config, tools)
    _check_form(config, PROPOSER, proposers, tools.form, default=True)
    _check_form(config, SELECTOR, [select], tools.form, default=False)
    _check_abilities(config, proposers, tools.form)
    schedule, control = _rates(config, tools)
    pipeline = Pipeline(
        reflect=_combined(config, proposers),
        merge=make(MERGER, config, tools),
        rate=control,
        select=OneBody() if tools.form.whole else select,
        update=update,
        annotate=tools.reminders,
        vary=None
        if optimizer.candidates == 1
        else Vary(
            most=optimizer.candidates - 1,
            shuffles=optimizer.candidate_shuffles,
            seed=config.train.seed,
        ),
    )
    limit, rounds = optimizer.max_skill_tokens, optimizer.rounds
    # What tries proposals must leave the gate its share of a limit.
    alone = rounds == 1 and (reserve is None or not getattr(select, "attempt", None))
    return OptimizerParts(
        pipeline=pipeline,
        optimizer=pipeline
        if alone
        else Rounds(
            pipeline=pipeline,
            attempt=tools.attempt,
            most=rounds,
            reserve=reserve,
            spends_by_task=getattr(select, "spends_by_task", True),
        ),
        schedule=schedule,
        reviewer=LookBack(
            asker=asker, guides=optimizer.use_slow_update, teaches=optimizer.use_meta_skill
        ),
        meta_reflector=MetaReflect(asker=asker, update=Patch(sink=asker.sink))
        if optimizer.use_meta_reflect
        else None,
        shortener=Compress(asker=asker, limit=limit, max_tokens=room) if limit else None,
    )


def planned_parts(config: Config) -> OptimizerParts:
    """The same before there is a model: for the plan, and for what the parts cost."""
    sink = EventSink(MemoryLog(), _unseen)
    return optimizer_parts(config, Asker(_Nobody(), Library(), sink, limits(config.gradient)))


class _Nobody:
    """The model and the target before anything is asked."""

    fingerprint = ""

    async def complete(self, request: Request) -> Reply:
        raise RuntimeError("a part asks a model before the run has begun")

    def leaked_reference(self, rollout: Rollout, text: str) -> str:
        return ""

    async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
        raise RuntimeError("a part asks the target before the run has begun")

    async def retry(self, rollout: Rollout, skill: Skill, instruction: str) -> Rollout:
        raise RuntimeError("a part asks the target before the run has begun")

    async def try_out(
        self, skill: Skill, tasks: Sequence[str], replicate: int = 0
    ) -> list[Rollout]:
        raise RuntimeError("a part asks the target before the run has begun")

    def ahead(self, skill: Skill, tasks: Sequence[str]) -> AbstractAsyncContextManager[None]:
        raise RuntimeError("a part asks the target before the run has begun")


def _unseen(event: Event | Signal) -> None:
    """Nobody watches."""


def proposer_of(config: Config, asker: Asker) -> Proposer:
    """What turns attempts into proposals, as the settings say, without the other parts."""
    return optimizer_parts(config, asker).pipeline.reflect


def _combined(config: Config, proposers: Sequence[Proposer]) -> Proposer:
    if len(proposers) == 1:
        return proposers[0]
    after = config.gradient.portfolio_after
    return Portfolio(tuple(proposers), after) if after else Several(tuple(proposers))


def _tools(config: Config, asker: Asker, target_probe: LiveTargetProbe | None) -> OptimizerTools:
    gradient, optimizer, model = config.gradient, config.optimizer, config.model
    reminders = Reminders(
        asker=asker,
        failure_only=optimizer.skill_aware_appendix_source == "failure_only",
        threshold=optimizer.skill_aware_consolidate_threshold,
    )
    probing = Probing(
        asker=asker,
        target_probe=target_probe or _Nobody(),
        failures=gradient.deep_reflect_failures,
        successes=0 if gradient.failure_only else gradient.deep_reflect_successes,
        turns=gradient.deep_reflect_turns,
        seed=config.train.seed,
    )
    return OptimizerTools(
        asker=asker,
        sink=asker.sink,
        attempt=(target_probe or _Nobody()).try_out,
        ahead=(target_probe or _Nobody()).ahead if speculates(config) else None,
        reminders=reminders if optimizer.use_skill_aware_reflection else None,
        probing=probing if gradient.use_deep_reflect else None,
        mark=settings_for(MetricSettings, config, "evaluation").metric.of,
        seed=config.train.seed,
        rewrite_tokens=model.rewrite_max_completion_tokens,
        rewrite_effort=model.rewrite_reasoning_effort or None,
    )


def _rates(config: Config, tools: OptimizerTools) -> tuple[Schedule, RateControl]:
    """A body is taken whole; otherwise either of the two may stand in for the other."""
    schedule: Schedule = make(SCHEDULE, config, tools)
    control: RateControl = make(CONTROL, config, tools)
    if tools.form.whole:
        return unbounded, Fixed()
    if not isinstance(schedule, HasControl):
        return control.schedule if isinstance(control, HasSchedule) else schedule, control
    if isinstance(control, HasSchedule):
        both = [key.names(config.optimizer) for key in (CONTROL, SCHEDULE)]
        what = f"{both[0]} and {SCHEDULE.dotted}: {both[1]} cannot be combined; change one"
        raise config.complaint(CONTROL.dotted, what)
    return schedule, schedule.control(tools)


def _check_form(
    config: Config, key: PartKey, parts: Sequence[object], form: Form, *, default: bool
) -> None:
    """Refuse parts that work with edits only where proposals are something else."""
    if form is EDITS or not any(getattr(part, "edits_only", default) for part in parts):
        return
    section = getattr(config, key.section)
    usual = key.names(type(section)())
    mode = f"{UPDATE_MODE.dotted}: {UPDATE_MODE.names(config.optimizer)}"
    what = f"{key.names(section)} works with edits only; with {mode} it must be {usual}"
    raise config.complaint(key.dotted, what)


def _check_abilities(config: Config, proposers: Sequence[object], form: Form) -> None:
    """Refuse settings that no proposer, or no form of proposals, can follow."""
    reminds = config.optimizer.use_skill_aware_reflection
    several_rounds = config.optimizer.rounds > 1

    def unable(ability: str) -> bool:
        return not any(getattr(proposer, ability, False) for proposer in proposers)

    for key, wrong, what in (
        (
            "optimizer.use_skill_aware_reflection",
            reminds and unable("writes_reminders"),
            "needs analyst among gradient.proposer; the other proposers write no reminders",
        ),
        (
            "optimizer.use_skill_aware_reflection",
            reminds and form.whole,
            f"has no effect with {UPDATE_MODE.key}: {UPDATE_MODE.names(config.optimizer)}, which "
            "rewrites the whole body",
        ),
        (
            "optimizer.rounds",
            several_rounds and (config.optimizer.candidates > 1 or reminds or form is not EDITS),
            "above 1 needs edits (skill_update_mode: patch), one candidate and no reminders "
            "(use_skill_aware_reflection: false)",
        ),
        (
            "gradient.use_deep_reflect",
            config.gradient.use_deep_reflect and unable("reads_probes"),
            "needs analyst among gradient.proposer; the other proposers read no probes",
        ),
    ):
        if wrong:
            raise config.complaint(key, what)


def limits(gradient: GradientSection) -> Digest:
    """How much of the attempts a question shows."""
    return Digest(gradient.trajectory_tokens or NO_LIMIT, gradient.evidence_tokens or NO_LIMIT)


def plan_settings(config: Config, *, continues: bool = False) -> PlanSettings:
    """The shape of the plan; `continues`: the run is one of a series."""
    optimizer = config.optimizer
    looks_back = optimizer.use_slow_update or optimizer.use_meta_skill
    shows: PairPolicy = make(PAIRS, config)
    forgets: MemoryPolicy = make(MEMORY, config)
    return PlanSettings(
        epochs=config.train.num_epochs,
        batch=config.train.batch_size,
        accumulation=config.train.accumulation,
        sample=optimizer.slow_update_samples if looks_back else 0,
        last_sample=optimizer.slow_update_samples if optimizer.use_slow_update else 0,
        useful=frozenset(change for change in get_args(Change) if shows(change)),
        searches=getattr(shows, "searches", False),
        meta_reflect=optimizer.use_meta_reflect,
        prune_every=optimizer.prune_every,
        prune_sample=optimizer.prune_tasks,
        forgets=forgets,
        patience=config.train.patience,
        repeat_solved=config.train.repeat_solved,
        seed=config.train.seed,
        continues=continues,
    )
