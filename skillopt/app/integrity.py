"""Runs the checks of `skillopt check` on data, scorer and skills."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from skillopt.analysis.integrity.duplicates import duplicates
from skillopt.analysis.integrity.findings import LEARNING, CheckFinding, Item, balance
from skillopt.analysis.integrity.leaks import brief_leaks, copying, skill_leaks
from skillopt.analysis.integrity.shortcuts import shortcuts
from skillopt.analysis.integrity.trials import (
    ScorerTrial,
    baseline,
    formed_replies,
    scorer,
    wrong_replies,
)
from skillopt.app.environment import (
    asked_roles,
    describe_cut,
    few_to_decide,
    more_val,
    open_environment,
    validation_tasks,
)
from skillopt.app.models import unwatched
from skillopt.app.reach import needs, reach
from skillopt.app.resources import open_resources
from skillopt.app.run_spec import RunSpec, SuppliedParts, at_fault, prepare
from skillopt.app.wording import count
from skillopt.config.load import load_kept
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.abilities import call_tool, images_of, limits_of, tools_of, workspace_of
from skillopt.core.ports import Environment, Episode, TellsGold, Watcher
from skillopt.core.rollout import Evaluation, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Gold, Split, Task
from skillopt.core.wording import counted
from skillopt.datasets.splits import SPLITS
from skillopt.engine.plan import Plan
from skillopt.errors import (
    ConfigError,
    DataError,
    EnvironmentFault,
    RolloutError,
    SkilloptError,
    StoreError,
    attributed_to,
)
from skillopt.store.layout import Layout
from skillopt.store.reader import RunReader

_TRIED = 200
"""Items of a split whose answers are put to the scorer."""
_SHAPED, _OTHERS = 20, 20
"""Items of a split on which wrong answers are tried, and other items to take one from."""
_UNTOLD = "the environment does not provide right answers; add a method gold(task)"


async def check(
    config: Config,
    supplied: SuppliedParts | None = None,
    *,
    trained: Skill | None = None,
    sample: int | None = None,
    watch: Watcher = unwatched,
    secrets: Secrets | None = None,
) -> list[CheckFinding]:
    """Check data, scorer and first skill; or whether a `trained` skill has copied items.

    `sample` is the number of val items on which the target is called; without it, no model is.
    """
    if trained is not None:
        return await _check_skill(config, trained, supplied or SuppliedParts())
    try:
        spec = prepare(config, supplied)
        items, instructions = await _read(spec.environment)
    except SkilloptError as error:
        part, problem = at_fault(error)
        return [CheckFinding(part, "bad", problem, str(error))]
    environment = spec.environment
    fixed = f"{instructions}\n\n{spec.skill.render()}"
    return [
        CheckFinding("data", "ok", _sizes(spec)),
        _val_size(spec, val := len(validation_tasks(config, environment))),
        *_gate(config, spec.plan, val),
        *duplicates(items),
        *_answers(items, fixed),
        await _scorer(environment),
        await _bare(spec, sample, watch, secrets),
    ]


async def check_run(folder: Path, skill: Skill | None) -> list[CheckFinding]:
    """The best skill of a run, or another one, on the data that its own settings name."""
    with RunReader(folder) as reader:
        best = reader.state.best.skill if skill is None else skill
        initial = reader.state.initial.skill
        instead = f"skillopt check CONFIG --skill {quote(str(reader.layout.best_skill))}"
        try:
            kept = reader.config
        except StoreError as error:
            raise StoreError(f"{error}\nwithout it: {instead}") from error
    try:
        return await _check_skill(load_kept(kept), best, SuppliedParts(skill=initial))
    except (ConfigError, DataError) as error:
        raise type(error)(f"{error}\nif the data has moved: {instead}") from error


async def _check_skill(config: Config, skill: Skill, supplied: SuppliedParts) -> list[CheckFinding]:
    """Compare it with the initial skill; without one, with that of the configuration."""
    if supplied.skill is None:
        spec = prepare(config, supplied)
        return await scan_skill(spec.environment, skill, spec.skill)
    environment, *_ = open_environment(
        config, LEARNING, supplied.splits, supplied.harness, supplied.environment
    )
    return await scan_skill(environment, skill, supplied.skill)


async def scan_skill(environment: Environment, skill: Skill, initial: Skill) -> list[CheckFinding]:
    """Copied phrases and answers in a skill that were not in the initial one."""
    items, _ = await _read(environment)
    document, before = skill.render(), initial.render()
    answered = [item for item in items if item.gold is not None]
    name = "gold in the skill"
    leaks = (
        skill_leaks(answered, document, name=name, before=before)
        if answered
        else CheckFinding(name, "left out", _UNTOLD)
    )
    return [copying(items, document, before), leaks]


def _answers(items: Sequence[Item], fixed: str) -> list[CheckFinding]:
    """What can be said only where right answers are known."""
    answered = [item for item in items if item.gold is not None]
    if not answered:
        return [CheckFinding("gold answers", "left out", _UNTOLD)]
    learning = [item for item in answered if item.split in LEARNING]
    golds = [item.gold for item in learning if item.gold is not None]
    return [
        brief_leaks(answered),
        skill_leaks(answered, fixed, name="gold in the first skill"),
        *([balance(golds)] if golds else []),
        shortcuts(learning, fixed),
    ]


async def _read(environment: Environment) -> tuple[list[Item], str]:
    """Every task as the agent sees it, and what the agent is told with each of them."""
    items: list[Item] = []
    instructions = ""
    for split in SPLITS:
        for task in environment.tasks(split):
            with attributed_to(EnvironmentFault, f"opening task {task.id!r}"):
                gold = _gold(environment, task)
                async with environment.open(task) as episode:
                    items.append(Item(task.id, split, episode.brief, gold, task.told))
                    instructions = episode.instructions
    return items, instructions


def _gold(environment: Environment, task: Task) -> Gold | None:
    return environment.gold(task) if isinstance(environment, TellsGold) else None


async def _scorer(environment: Environment) -> CheckFinding:
    if asked_roles(environment):
        return CheckFinding("scorer", "left out", "asks the judge model, which may cost money")
    trials: list[ScorerTrial] = []
    try:
        for split in SPLITS:
            tasks = _spread(environment.tasks(split), _TRIED)
            golds = [_gold(environment, task) for task in tasks]
            shaped = {task.id for task in _spread(tasks, _SHAPED)}
            for index, (task, gold) in enumerate(zip(tasks, golds, strict=True)):
                reply = None if gold is None else gold.reply
                right = None if reply is None else await _score(environment, task, reply)
                empty = await _score(environment, task, "")
                trial = ScorerTrial(f"{split} {task.told}", right, empty)
                if task.id in shaped:
                    rest = [other for other in (*golds[index + 1 :], *golds[:index]) if other]
                    wrong, formed = wrong_replies(gold, rest[:_OTHERS]), formed_replies(gold)
                    trial = replace(
                        trial,
                        wrong={k: await _score(environment, task, v) for k, v in wrong.items()},
                        formed={k: await _score(environment, task, v) for k, v in formed.items()},
                    )
                trials.append(trial)
    except RolloutError as error:
        return CheckFinding("scorer", "bad", "fails on a right or an empty answer", str(error))
    return scorer(trials)


async def _score(environment: Environment, task: Task, answer: str) -> Score:
    with attributed_to(EnvironmentFault, f"scoring task {task.id!r}"):
        async with environment.open(task) as episode:
            return await episode.score(Trajectory((), answer))


def _spread(tasks: Sequence[Task], most: int) -> Sequence[Task]:
    """So many of them, evenly spaced."""
    return [tasks[k * len(tasks) // most] for k in range(most)] if len(tasks) > most else tasks


async def _bare(
    spec: RunSpec, sample: int | None, watch: Watcher, secrets: Secrets | None
) -> CheckFinding:
    if sample is None:
        asks = "calls the target model, which may cost money; add --spend"
        return CheckFinding("bare prompt", "left out", asks)
    tasks = _spread(validation_tasks(spec.config, spec.environment), sample)
    try:
        with TemporaryDirectory() as folder:
            bare, first = await _measure(spec, tasks, Layout(Path(folder)), watch, secrets)
    except SkilloptError as error:
        return CheckFinding("bare prompt", "bad", "cannot be measured", str(error))
    return baseline(bare, first)


async def _measure(
    spec: RunSpec, tasks: Sequence[Task], layout: Layout, watch: Watcher, secrets: Secrets | None
) -> tuple[Evaluation, Evaluation]:
    async with open_resources(spec, layout, spec.skill, secrets) as resources:
        environment, harness = await resources.connected()
        sink = EventSink(MemoryLog(), watch)
        runner = resources.runner(harness, _Bare(environment), sink)
        bare = await runner.measure(Skill(), "val", tasks, "bare prompt")
        runner = resources.runner(harness, environment, sink)
        return bare, await runner.measure(spec.skill, "val", tasks, "first skill")


@dataclass(frozen=True, slots=True)
class _Bare:
    """The same environment without a word beyond the request."""

    inner: Environment

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def fingerprint(self) -> str:
        return f"bare/{self.inner.fingerprint}"

    def tasks(self, split: Split) -> Sequence[Task]:
        return self.inner.tasks(split)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Episode, None]:
        async with self.inner.open(task) as episode:
            yield _Uninstructed(episode)


class _Uninstructed:
    instructions = ""

    def __init__(self, episode: Episode) -> None:
        self.brief, self.score = episode.brief, episode.score
        self.images, self.tools = images_of(episode), tools_of(episode)
        self.call = partial(call_tool, episode)
        self.workspace, self.limits = workspace_of(episode), limits_of(episode)


def _val_size(spec: RunSpec, val: int) -> CheckFinding:
    decide = "decides" if val == 1 else "decide"
    name, decides = "val size", f"{count(val, 'item')} {decide} what is kept"
    few = few_to_decide(val, more_val(spec.config, spec.splits, val))
    return CheckFinding(name, "look" if few else "ok", decides, "".join(few))


def _gate(config: Config, plan: Plan, val: int) -> Iterator[CheckFinding]:
    """Whether a gate that tests can accept anything; nothing is said of other gates."""
    reached = reach(config, plan, val)
    if reached is None:
        return
    if reached.closed:
        verdict = "look" if reached.able else "bad"
        yield CheckFinding(
            "gate", verdict, f"{reached.gate}: {reached.closed}", needs(config, reached, val)
        )
        return
    wins = f"{reached.wins} of {val} val items won and none lost"
    yield CheckFinding(
        "gate",
        "ok",
        f"{reached.gate}: {counted(reached.decisions, 'decision')}, each accepts {wins}",
    )


def _sizes(spec: RunSpec) -> str:
    splits = spec.splits
    sizes = f"{len(splits.train)} train, {len(splits.val)} val, {len(splits.test)} test items"
    cut = describe_cut(splits)
    parts = f"{sizes}, {cut}" if cut else sizes
    return f"{spec.environment.name}: {parts}; no shared ids, no shared rows"
