"""Evaluates one skill on one or all splits, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import cast

from skillopt.analysis.report import HARD, outcome
from skillopt.app.environment import data_of, final_test_tasks
from skillopt.app.gating import metric
from skillopt.app.resources import PUBLISHED, open_resources
from skillopt.app.run_spec import (
    RunParts,
    SuppliedParts,
    default_name,
    out_root,
    prepare_parts,
    short,
)
from skillopt.app.wording import count
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.intake import Json, change_texts
from skillopt.core.paths import not_a_folder
from skillopt.core.ports import Environment, TellsGroups, Watcher
from skillopt.core.rollout import Evaluation, Rollout, Score
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import SPLITS, resolve_split
from skillopt.engine.rollouts import Attempts
from skillopt.gates.compared import Metric
from skillopt.store.files import BackgroundWriter, write_atomic, write_json
from skillopt.store.handoff import FolderQueue
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.lock import RunLock
from skillopt.store.results import spent_under, write_places
from skillopt.store.rollout_files import conversation_files, result_rows

_NOTHING: Mapping[str, Score] = {}


@dataclass(frozen=True, slots=True)
class EvalResult:
    skill: Skill
    evaluations: Mapping[Split, Evaluation]
    spent: Usage
    out: Path
    metric: Metric = HARD
    """The metric `evaluation.gate_metric`."""
    warnings: tuple[str, ...] = ()
    groups: Mapping[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    """The same by groups of tasks, where the environment tells any."""

    def __str__(self) -> str:
        """The scores of each split in a line, and where the files are."""
        lines = [
            f"{split}: hard {found.hard:.3f}, soft {found.soft:.3f}, {count(found.n, 'item')}"
            + (f", {len(found.failures)} without a score" if found.failures else "")
            for split, found in self.evaluations.items()
        ]
        return "\n".join([*lines, f"files: {self.out}"])

    @property
    def whole(self) -> Evaluation:
        evaluations = list(self.evaluations.values())
        replicates = zip_longest(
            *(evaluation.replicates for evaluation in evaluations), fillvalue=_NOTHING
        )
        scores = [
            {task: score for split in splits for task, score in split.items()}
            for splits in replicates
        ]
        failures = {
            task: failure
            for evaluation in evaluations
            for task, failure in evaluation.failures.items()
        }
        return Evaluation.over(evaluations[0].skill, evaluations[0].split, scores, failures)


async def evaluate(
    config: Config,
    supplied: SuppliedParts,
    watch: Watcher,
    secrets: Secrets | None = None,
    *,
    split: str = "all",
    name: str = "",
) -> EvalResult:
    """Measure the skill among the supplied parts; `name` is what reports call it.

    Finished attempts are kept, so an evaluation that was cut short goes on where it was.
    """
    secrets = secrets or Secrets.load()
    skill = supplied.skill or Skill()
    chosen = resolve_split(split)
    wanted: Sequence[Split] = SPLITS if chosen == "all" else (chosen,)
    parts = prepare_parts(config, supplied, ("target",), wanted, secrets)
    config = parts.config
    identity = {
        **config.identity(),
        "environment": parts.environment.fingerprint,
        "skill": skill.digest,
    }
    layout = Layout(_out(parts, identity))
    folder = RolloutFolder(layout.root)
    # A folder may hold several evaluations; each tells what it has paid itself.
    booked = short(f"{default_name(parts, 'eval', identity)} {split}")
    rollouts: dict[Split, list[Rollout]] = {}
    with RunLock(layout.root):
        queue = FolderQueue(layout.handoff)
        async with open_resources(parts, layout, skill, secrets, queue, watch) as resources:
            resources.cache.enter(booked)
            environment, harness = await resources.connected()
            runner = resources.runner(harness, environment, EventSink(MemoryLog(), watch))
            replicates = range(config.evaluation.replicates)
            for part in wanted:
                async with runner.attempts(
                    [_tasks(parts, part)], skill, part, replicates=replicates
                ) as (attempts,):
                    rollouts[part] = await _written(attempts, folder)
            spent = spent_under(resources.cache, booked)
            exceeded = resources.budget.exceeded
        notices = [exceeded, PUBLISHED if secrets.published else ""]
        result = EvalResult(
            skill,
            {each: Evaluation.of(skill.digest, each, made) for each, made in rollouts.items()},
            spent,
            layout.root,
            metric(config),
            (*parts.data_warnings, *filter(None, notices)),
        )
        groups = _groups(environment, [task for each in wanted for task in _tasks(parts, each)])
        result = replace(
            result, groups={name: result.whole.ordered(tasks) for name, tasks in groups.items()}
        )
        # Of several attempts at a task, the first is shown.
        made = [rollout for each in rollouts.values() for rollout in each]
        first = {rollout.task: rollout for rollout in made if rollout.replicate == 0}
        tasks = (task for each in wanted for task in _tasks(parts, each))
        write_places(layout, tasks, secrets.hide_values)
        write_atomic(folder.results, result_rows(result.whole, first), durable=False)
        summary = {
            "skill": name,
            "split": split,
            **_summary(parts, result),
            "booked": booked,
        }
        write_json(layout.evaluation, change_texts(cast("Json", summary), secrets.hide_values))
        return result


def _tasks(parts: RunParts, split: Split) -> Sequence[Task]:
    limited = final_test_tasks(parts.config, parts.environment) if split == "test" else None
    return limited or parts.environment.tasks(split)


def _groups(environment: Environment, tasks: Sequence[Task]) -> dict[str, list[str]]:
    """The tasks of each group; none if all are in one."""
    groups: dict[str, list[str]] = {}
    grouped = environment if isinstance(environment, TellsGroups) else None
    for task in tasks:
        for name in (task.kind,) if grouped is None else grouped.groups(task):
            groups.setdefault(name, []).append(task.id)
    return dict(sorted(groups.items())) if len(groups) > 1 else {}


def _out(parts: RunParts, identity: Mapping[str, str]) -> Path:
    """As configured; beside it, where the configured folder holds a training run."""
    root = out_root(parts, "eval", identity)
    if not_a_folder(root) or not Layout(root).events.exists():
        return root
    return root.parent / default_name(parts, "eval", identity)


async def _written(attempts: Attempts, folder: RolloutFolder) -> list[Rollout]:
    """All attempts; conversations are written while later ones are under way."""
    rollouts: list[Rollout] = []
    with BackgroundWriter() as writer:
        async for rollout in attempts:
            rollouts.append(rollout)
            if rollout.replicate == 0:
                for path, data in conversation_files(folder, rollout):
                    writer.write(path, data)
    return rollouts


def _summary(parts: RunParts, result: EvalResult) -> dict[str, object]:
    config, whole, supplied = parts.config, result.whole, parts.supplied
    return {
        "benchmark": config.env.name,
        "target": config.model.role("target").model,
        "data": "" if supplied.splits or supplied.environment else data_of(config),
        "n_items": whole.n + len(whole.failures),
        "hard": whole.hard,
        "soft": whole.soft,
        **outcome(whole, result.metric),
        "splits": {
            split: outcome(evaluation, result.metric)
            for split, evaluation in result.evaluations.items()
        },
        "groups": {
            name: outcome(evaluation, result.metric) for name, evaluation in result.groups.items()
        },
    }
