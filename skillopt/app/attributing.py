"""Measures the effect of each rule of a run's best skill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillopt.analysis.lineage import lineage, origins_of
from skillopt.analysis.pruning import worth
from skillopt.app.environment import validation_tasks
from skillopt.app.judging import metric
from skillopt.app.run_spec import RunSpec, SuppliedParts, prepare
from skillopt.app.training import open_training
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.attribution import Attributed, Attribution
from skillopt.core.chat import Usage
from skillopt.core.ports import Watcher
from skillopt.core.rules import Rule, rules_in, without
from skillopt.core.seeds import shuffled
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.store.reader import RunReader
from skillopt.store.results import write_attribution


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionPlan:
    """What is to be found out, and what that takes."""

    spec: RunSpec
    skill: Skill
    rules: Mapping[Rule, Skill]
    """Each rule with the skill without it."""
    tasks: Sequence[Task]
    replicates: range
    known: int
    """Attempts that are finished already."""
    spent: Usage
    """What the attempts of this run have cost so far."""

    @property
    def skills(self) -> list[Skill]:
        """All texts that are tried, the whole skill first, each once."""
        texts = [self.skill, *self.rules.values()]
        return list({each.digest: each for each in texts}.values())

    @property
    def attempts(self) -> int:
        """All that the answer is made from."""
        return len(self.skills) * len(self.tasks) * len(self.replicates)

    @property
    def new(self) -> int:
        """Those of them that are still to be made."""
        return self.attempts - self.known

    @property
    def cost(self) -> Usage:
        """What these will take, if they are like those that were made so far."""
        share = self.new / max(1, self.spent.calls)
        return Usage(
            calls=self.new,
            input=round(self.spent.input * share),
            output=round(self.spent.output * share),
            dollars=self.spent.dollars * share,
        )


def plan_attribution(config: Config, reader: RunReader, count: int) -> AttributionPlan:
    """Look at a run: its best skill, and up to so many of its val tasks. Asks no model.

    The tasks are the first ones of a seeded order, so that more of them include fewer.
    """
    spec = prepare(config, SuppliedParts(skill=reader.state.initial.skill))
    spec = replace(spec, out=reader.layout.root)
    skill = reader.state.best.skill
    val = validation_tasks(config, spec.environment)
    found = AttributionPlan(
        spec=spec,
        skill=skill,
        rules={rule: without(skill, [rule]) for rule in rules_in(skill)},
        tasks=shuffled(val, config.train.seed)[:count],
        replicates=range(config.evaluation.replicates),
        known=0,
        spent=_spent(reader),
    )
    return replace(found, known=sum(_known(reader, found, each) for each in found.skills))


async def attribute(
    plan: AttributionPlan, watch: Watcher, secrets: Secrets | None = None
) -> Attribution:
    """Try the skill without each of its rules, and keep what each of them is worth.

    Attempts are kept in the run directory: asked again, they cost nothing.
    """
    spec, skill = plan.spec, plan.skill
    async with open_training(spec, watch, secrets) as training:
        run = training.run
        run.enter("attribution")
        if plan.new:
            await training.preflight_attempts()
        trials = [(each, plan.tasks) for each in plan.skills]
        evaluations = await run.runner.measure_each(
            trials, "val", "leave one out", replicates=plan.replicates, against="first"
        )
        origins = lineage(run.sink.record.events())[skill.digest]
    found = {each.skill: each for each in evaluations}
    by = metric(spec.config)
    attribution = Attribution(
        skill=skill.digest,
        tasks=tuple(task.id for task in plan.tasks),
        rules=tuple(
            Attributed(
                worth(rule, found[skill.digest], found[less.digest], by),
                origins_of(rule, origins),
            )
            for rule, less in plan.rules.items()
        ),
    )
    write_attribution(training.layout, attribution)
    return attribution


def _known(reader: RunReader, plan: AttributionPlan, skill: Skill) -> int:
    wanted = {task.id for task in plan.tasks}
    return len(
        {
            (each.task, each.replicate)
            for each in reader.rollouts(skill=skill.digest)
            if each.task in wanted and each.replicate in plan.replicates
        }
    )


def _spent(reader: RunReader) -> Usage:
    return sum(
        (usage for (_, *kind), usage in reader.spent().items() if kind == ["target", "rollout"]),
        Usage(),
    )
