"""The effect of each rule of a skill, measured by leaving it out, and the origin of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from skillopt.analysis.lineage import lineage, origins_of
from skillopt.analysis.pruning import worth
from skillopt.app.environment import validation_tasks
from skillopt.app.gating import metric
from skillopt.app.run_spec import RunSpec, SuppliedParts, prepare
from skillopt.app.training import open_training
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.attribution import Attributed, Attribution, Origin
from skillopt.core.chat import Usage
from skillopt.core.ports import Watcher
from skillopt.core.rules import Rule, Worth, rules_in, without
from skillopt.core.seeds import shuffled
from skillopt.core.skill import MAIN, Region, Skill
from skillopt.core.task import Task
from skillopt.errors import StoreError
from skillopt.store.layout import Layout
from skillopt.store.packages import read_skill
from skillopt.store.reader import RunReader
from skillopt.store.results import read_attribution, write_attribution

Protection: TypeAlias = Literal["", "front matter", "guidance", "notes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionPlan:
    spec: RunSpec
    skill: Skill
    rules: Mapping[Rule, Skill]
    """Each rule with the skill without it."""
    tasks: Sequence[Task]
    replicates: range
    cached: int
    """Attempts that are finished already."""
    spent: Usage
    """What the attempts of this run have cost so far."""

    @property
    def skills(self) -> list[Skill]:
        """All texts that are tried, the whole skill first, each once."""
        texts = [self.skill, *self.rules.values()]
        return list({skill.digest: skill for skill in texts}.values())

    @property
    def attempts(self) -> int:
        """All that the answer is made from."""
        return len(self.skills) * len(self.tasks) * len(self.replicates)

    @property
    def new(self) -> int:
        """Those of them that are still to be made."""
        return self.attempts - self.cached

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
    plan = AttributionPlan(
        spec=spec,
        skill=skill,
        rules={rule: without(skill, [rule]) for rule in rules_in(skill)},
        tasks=shuffled(val, config.train.seed)[:count],
        replicates=range(config.evaluation.replicates),
        cached=0,
        spent=_spent(reader),
    )
    return replace(plan, cached=sum(_cached(reader, plan, skill) for skill in plan.skills))


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
        trials = [(tried, plan.tasks) for tried in plan.skills]
        evaluations = await run.runner.measure_each(
            trials, "val", "leave one out", replicates=plan.replicates, against="first"
        )
        origins = lineage(run.sink.record.events())[skill.digest]
    by_skill = {evaluation.skill: evaluation for evaluation in evaluations}
    by = metric(spec.config)
    attribution = Attribution(
        skill=skill.digest,
        tasks=tuple(task.id for task in plan.tasks),
        rules=tuple(
            Attributed(
                worth(rule, by_skill[skill.digest], by_skill[less.digest], by),
                origins_of(rule, origins),
            )
            for rule, less in plan.rules.items()
        ),
    )
    write_attribution(training.layout, attribution)
    return attribution


def _cached(reader: RunReader, plan: AttributionPlan, skill: Skill) -> int:
    wanted = {task.id for task in plan.tasks}
    return len(
        {
            (rollout.task, rollout.replicate)
            for rollout in reader.rollouts(skill=skill.digest)
            if rollout.task in wanted and rollout.replicate in plan.replicates
        }
    )


def _spent(reader: RunReader) -> Usage:
    return sum(
        (usage for (_, *kind), usage in reader.spent().items() if kind == ["target", "rollout"]),
        Usage(),
    )


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line of a skill with what is known of it."""

    file: str
    number: int
    text: str
    origin: Origin | None
    """None: a blank line, or one that is not from the run."""
    rule: Rule | None
    """The rule that begins here."""
    worth: Worth | None
    """Its effect, if `attribute` has measured it."""
    protected: Protection = ""
    """What keeps edits away from it; empty: nothing does."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Where each line of a skill came from."""

    run: Path
    lines: tuple[BlamedLine, ...]
    measured: bool
    """Whether the effects of its rules were measured."""
    is_best: bool
    """Whether it is the best skill of the run; only of that one they can be."""


def blame(path: Path, run: Path | None) -> Blame:
    """The origin of each line of a skill; `path` may be a run directory, for its best skill."""
    if run is None and Layout(path).events.exists():
        path, run = Layout(path).best_skill, path
    skill = read_skill(path)
    with RunReader(_run_of(path) if run is None else run) as reader:
        return blame_skill(reader, skill)


def blame_skill(reader: RunReader, skill: Skill) -> Blame:
    """The origin of each line of a skill, one of a run or one that was made of it."""
    best = reader.state.best.skill.digest
    lineages = lineage(reader.facts)
    origins = lineages.get(skill.digest, lineages[best])
    attribution = read_attribution(reader.layout)
    measured = attribution is not None and attribution.skill == skill.digest
    rules = attribution.rules if attribution is not None and measured else ()
    worths = {attributed.worth.rule: attributed.worth for attributed in rules}
    starts = {(rule.file, rule.line): rule for rule in rules_in(skill)}
    protections = protected_lines(skill)
    lines: list[BlamedLine] = []
    for file, content in skill.files.items():
        for number, text in enumerate(content.splitlines(), start=1):
            rule = starts.get((file, number))
            worth = None if rule is None else worths.get(rule)
            origin = origins.get(text.strip())
            protected = protections.get(number, "") if file == MAIN else ""
            lines.append(BlamedLine(file, number, text, origin, rule, worth, protected))
    return Blame(reader.layout.root, tuple(lines), measured, skill.digest == best)


def protected_lines(skill: Skill) -> dict[int, Protection]:
    """The lines of SKILL.md that edits cannot change, by number."""
    found: dict[int, Protection] = {}
    before = ""

    def mark(text: str, protection: Protection) -> None:
        nonlocal before
        if protection:
            first = before.count("\n") + 1
            lines = max(1, len(text.splitlines()))
            found.update(dict.fromkeys(range(first, first + lines), protection))
        before += text

    if skill.front:
        mark(skill.front, "front matter")
    for part in skill.parts:
        if isinstance(part, Region):
            mark(part.render(), part.kind)
        else:
            mark(part.text, "")
    return found


def _run_of(path: Path) -> Path:
    for folder in (*path.parents, *path.resolve().parents):
        if Layout(folder).events.exists():
            return folder
    raise StoreError(f"{path} is not inside a run directory; give the run directory with --run RUN")
