"""Evaluates one skill on one or all splits, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import cast

from skillopt.analysis.report import HARD, outcome
from skillopt.app.costs import caps_of, prices_of
from skillopt.app.environment import (
    asked_roles,
    data_of,
    final_test_tasks,
    open_environment,
)
from skillopt.app.harness import models_with_harness
from skillopt.app.judging import metric
from skillopt.app.models import PUBLISHED, check_backends, open_workshop, public_texts, settled
from skillopt.app.paths import default_name, out_root, seats, short
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model, Usage
from skillopt.core.intake import Json, change_texts
from skillopt.core.paths import not_a_folder
from skillopt.core.ports import Environment, Harness, Watcher
from skillopt.core.rollout import Evaluation, Rollout, Score
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import SPLITS, Splits, resolve_split
from skillopt.engine.rollout_group import Attempts
from skillopt.gates.compared import Metric
from skillopt.store.events import NullLog
from skillopt.store.files import BackgroundWriter, write_atomic, write_json
from skillopt.store.handoff import FolderQueue
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.lock import RunLock
from skillopt.store.projections import conversation_files, result_rows
from skillopt.store.results import spent_under

_NOTHING: Mapping[str, Score] = {}


@dataclass(frozen=True, slots=True)
class EvalResult:
    """The scores of a skill on each split."""

    skill: Skill
    evaluations: Mapping[Split, Evaluation]
    spent: Usage
    out: Path
    metric: Metric = HARD
    """The metric `evaluation.gate_metric`."""
    warnings: tuple[str, ...] = ()
    """Possible problems of the data."""

    @property
    def whole(self) -> Evaluation:
        """The evaluation on all splits together."""
        found = list(self.evaluations.values())
        rounds = [
            {task: score for marks in some for task, score in marks.items()}
            for some in zip_longest(*(each.replicates for each in found), fillvalue=_NOTHING)
        ]
        failures = {task: failure for each in found for task, failure in each.failures.items()}
        return Evaluation.over(found[0].skill, found[0].split, rounds, failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    """What is evaluated: the skill, under which name, on what."""

    skill: Skill
    name: str
    split: str = "all"
    splits: Splits | None = None
    environment: Environment | None = None
    """One with its tasks; then there are no `splits`."""
    models: Mapping[Role, Model] = field(default_factory=dict[Role, Model])
    """The caller's own; the configuration names those of the other roles."""
    harness: Harness | None = None


async def evaluate(
    config: Config, examinee: EvalRequest, watch: Watcher, secrets: Secrets | None = None
) -> EvalResult:
    """Measure a skill; finished attempts are kept, so a cut evaluation goes on where it was."""
    secrets = secrets or Secrets.load()
    config = settled(config, secrets)
    named = resolve_split(examinee.split)
    wanted: Sequence[Split] = SPLITS if named == "all" else (named,)
    own = models_with_harness(config, examinee.models, examinee.harness)
    world = open_environment(
        config, wanted, examinee.splits, examinee.harness, examinee.environment
    )
    roles: tuple[Role, ...] = ("target", *(asked := asked_roles(world.environment)))
    check_backends(config, [role for role in asked if role not in own])
    caps = caps_of(config, roles, prices_of(config, roles, own))
    identity = _identity(config, examinee, own, world.environment)
    out = _out(config, identity)
    booked = short(f"{sorted(identity.items())} {examinee.split}")
    layout, folder = Layout(out), RolloutFolder(out)
    with RunLock(out):
        async with open_workshop(
            config,
            layout,
            caps,
            public_texts(world.environment, examinee.skill),
            secrets,
            FolderQueue(layout.handoff),
            watch,
        ) as shop:
            # A folder may hold several evaluations; each tells what it has paid itself.
            shop.cache.enter(booked)
            environment, target = await shop.connected(world.environment, own)
            runner = shop.runner(
                shop.harness(target, examinee.harness),
                environment,
                EventSink(NullLog(), watch),
            )
            rounds = range(config.evaluation.replicates)
            found: dict[Split, list[Rollout]] = {}
            for split in wanted:
                tasks = _tasks(config, world.environment, split)
                async with runner.attempts([tasks], examinee.skill, split, replicates=rounds) as (
                    attempts,
                ):
                    found[split] = await _written(attempts, folder)
            spent = spent_under(shop.cache, booked)
            exceeded = shop.budget.exceeded
        evaluations: dict[Split, Evaluation] = {
            split: Evaluation.of(examinee.skill.digest, split, rollouts)
            for split, rollouts in found.items()
        }
        notices = [exceeded, PUBLISHED if secrets.published else ""]
        warnings = (*world.warnings, *filter(None, notices))
        verdict = EvalResult(examinee.skill, evaluations, spent, out, metric(config), warnings)
        # Of several attempts at a task, the first is shown.
        first = [each for some in found.values() for each in some if each.replicate == 0]
        kept = {each.task: each for each in first}
        write_atomic(folder.results, result_rows(verdict.whole, kept), durable=False)
        told = {**_summary(config, examinee, verdict), "booked": booked}
        write_json(layout.evaluation, change_texts(cast("Json", told), secrets.hide_values))
        return verdict


def _tasks(config: Config, environment: Environment, split: Split) -> Sequence[Task]:
    if split == "test":
        return final_test_tasks(config, environment) or environment.tasks("test")
    return environment.tasks(split)


def _identity(
    config: Config, examinee: EvalRequest, own: Mapping[Role, Model], environment: Environment
) -> Mapping[str, str]:
    return {
        **config.identity(),
        **seats(config, own, ("target", *asked_roles(environment))),
        "environment": environment.fingerprint,
        "skill": examinee.skill.digest,
    }


def _out(config: Config, identity: Mapping[str, str]) -> Path:
    """As configured; beside it, where the configured folder holds a training run."""
    root = out_root(config, "eval", "target", identity)
    if not_a_folder(root) or not Layout(root).events.exists():
        return root
    return root.parent / default_name(config, "eval", "target", identity)


async def _written(attempts: Attempts, folder: RolloutFolder) -> list[Rollout]:
    """All attempts; conversations are written while later ones are under way."""
    rollouts: list[Rollout] = []
    with BackgroundWriter() as scribe:
        async for rollout in attempts:
            rollouts.append(rollout)
            if rollout.replicate == 0:
                for path, data in conversation_files(folder, rollout):
                    scribe.write(path, data)
    return rollouts


def _summary(config: Config, examinee: EvalRequest, verdict: EvalResult) -> dict[str, object]:
    whole = verdict.whole
    return {
        "skill": examinee.name,
        "split": examinee.split,
        "benchmark": config.env.name,
        "target": config.model.role("target").model,
        "data": "" if examinee.splits or examinee.environment else data_of(config),
        "n_items": whole.n + len(whole.failures),
        "hard": whole.hard,
        "soft": whole.soft,
        **outcome(whole, verdict.metric),
        "splits": {
            split: outcome(each, verdict.metric) for split, each in verdict.evaluations.items()
        },
    }
