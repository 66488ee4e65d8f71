"""What all attempts of a run share: the cache, the models and the budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillopt.build.models import ModelFactory, unwatched
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.journal import EventSink
from skillopt.core.ports import Environment, Harness, Watcher
from skillopt.engine.bench import RolloutRunner
from skillopt.errors import hide_in_error
from skillopt.harness.chat import Chat
from skillopt.model.handoff import HandoffQueue
from skillopt.model.http import Http
from skillopt.model.meter import Meter
from skillopt.model.purse import Budget, Limits
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout


@dataclass(frozen=True, slots=True)
class RunResources:
    """The tools of one process in one directory."""

    config: Config
    cache: SqliteCache
    board: ModelFactory
    budget: Budget

    def harness(self, target: Model) -> Harness:
        """How this model works on tasks."""
        return Chat(target)

    def runner(self, target: Model, environment: Environment, sink: EventSink) -> RolloutRunner:
        """Where this model attempts tasks of this environment."""
        return RolloutRunner(
            environment=environment,
            harness=self.harness(target),
            cache=self.cache,
            sink=sink,
            workers=self.config.env.workers,
            max_failed=self.config.evaluation.max_failure_share,
            score_timeout=self.config.env.exec_timeout,
        )


@asynccontextmanager
async def open_workshop(
    config: Config,
    layout: Layout,
    caps: Limits,
    secrets: Secrets | None = None,
    queue: HandoffQueue | None = None,
    watch: Watcher = unwatched,
) -> AsyncGenerator[RunResources, None]:
    """Go on from what is finished and paid for in a directory; without a desk nobody is asked."""
    secrets = secrets or Secrets.load()
    cache = SqliteCache(layout.cache, hide=secrets.hide_values)
    try:
        async with Http() as http:
            budget = Budget(Meter.after(cache.spent()), caps, cache)
            board = ModelFactory(secrets, http, cache, budget, queue, watch)
            yield RunResources(config, cache, board, budget)
    except Exception as error:
        hide_in_error(error, secrets.hide_values)
        raise
    finally:
        cache.close()
