"""What a run uses while it is open: cache, models, harness and runner."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt.aio import map_all
from skillopt.app.environment import asked_roles, with_models
from skillopt.app.harness import make_harness
from skillopt.app.models import ModelFactory, preflight, unwatched
from skillopt.app.run_spec import RunParts
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.ports import Environment, Executor, Harness, Watcher
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.datasets.splits import SPLITS
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import hide_in_error
from skillopt.model.budget import Budget, Meter
from skillopt.model.handoff import HandoffQueue
from skillopt.model.http import Http
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout

PUBLISHED = (
    "the value of a key occurs in the data or in the skill, so it is not removed from what this "
    "run keeps; if it is a real key, take it out of the data and replace it by a new one"
)


@dataclass(frozen=True, slots=True)
class RunResources:
    parts: RunParts
    cache: SqliteCache
    factory: ModelFactory
    budget: Budget
    workspaces: Path
    """Where those of agents are kept, if they are."""

    def models(self) -> dict[Role, Model]:
        """One for each role of the run; none is called yet."""
        return self.factory.models_for(
            self.parts.config, self.parts.roles, self.parts.supplied.models
        )

    async def connected(self) -> tuple[Environment, Harness]:
        """The environment and the harness, whose models answer; the optimizer is not called."""
        roles: list[Role] = [role for role in self.parts.roles if role != "optimizer"]
        own = self.parts.supplied.models
        models = self.factory.models_for(self.parts.config, roles, own)
        await map_all(preflight, [models[role] for role in roles if role not in own])
        return with_models(self.parts.environment, models), self.harness(models["target"])

    def harness(self, target: Model) -> Harness:
        own = self.parts.supplied.harness
        if own is not None:
            return own
        return make_harness(self.parts.config, target, self.factory, self.workspaces)

    def runner(
        self,
        harness: Harness,
        environment: Environment,
        sink: EventSink,
        executor: Executor | None = None,
    ) -> RolloutRunner:
        config = self.parts.config
        return RolloutRunner(
            environment=environment,
            harness=harness,
            cache=self.cache,
            sink=sink,
            workers=config.env.workers,
            max_failed=config.evaluation.max_failure_share,
            score_timeout=score_timeout(config, environment),
            executor=executor,
        )


@asynccontextmanager
async def open_resources(
    parts: RunParts,
    layout: Layout,
    skill: Skill | None,
    secrets: Secrets | None = None,
    queue: HandoffQueue | None = None,
    watch: Watcher = unwatched,
) -> AsyncGenerator[RunResources, None]:
    """Go on from what is finished and paid for in a directory; without a queue nobody is asked.

    A value that occurs in the tasks or in the skill is not hidden as a secret: models read it.
    """
    secrets = secrets or Secrets.load()
    tasks = (task for split in SPLITS for task in parts.environment.tasks(split))
    document = [] if skill is None else [skill.render()]
    secrets.publish([*document, *(json.dumps(task.data, ensure_ascii=False) for task in tasks)])
    cache = SqliteCache(layout.cache, hide=secrets.hide_values)
    try:
        async with Http() as http:
            budget = Budget(Meter.after(cache.spent()), parts.limits, cache)
            factory = ModelFactory(secrets, http, cache, budget, queue, watch)
            yield RunResources(parts, cache, factory, budget, layout.root / "workspaces")
    except Exception as error:
        hide_in_error(error, secrets.hide_values)
        raise
    finally:
        cache.close()


def score_timeout(config: Config, environment: Environment) -> float | None:
    """Seconds for a scorer; None where it asks a model, which has time limits of its own."""
    return None if asked_roles(environment) else config.env.exec_timeout
