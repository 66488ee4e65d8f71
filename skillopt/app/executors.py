"""Attempts that are made in another process: the side that asks, and the side that makes them.

Both exchange lines of JSON, one for a `RolloutSpec` and one for what came of it, over whatever
connects them:

    # in the process of the run, for SuppliedParts.executor
    yield RemoteExecutor(exchange, budget)      # exchange: async bytes -> bytes

    # in the other process, with the same configuration
    async with open_worker(config) as worker:
        answer = await worker.answer(line)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from skillopt import errors
from skillopt.app.environment import with_models
from skillopt.app.resources import open_resources, score_timeout
from skillopt.app.run_spec import SuppliedParts, prepare_parts, splits_of
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.ports import Executor
from skillopt.core.rollout import Rollout, RolloutSpec
from skillopt.engine.executor import LocalExecutor
from skillopt.errors import BudgetSpent, ConfigError, HarnessError, SkilloptError
from skillopt.model.budget import Budget, Limits, Meter, negative
from skillopt.store.codec import Codec
from skillopt.store.layout import Layout

_ENDS = {
    error.__name__: error
    for error in (
        errors.ConfigError,
        errors.DataError,
        errors.SkillError,
        errors.StoreError,
        errors.AccessError,
        errors.Unavailable,
        errors.BudgetSpent,
    )
}
"""Errors that end a run, by name; any other costs the attempt its score."""


@dataclass(frozen=True, slots=True)
class Spent:
    role: str
    stage: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What came of an attempt: the attempt, or the error that it was given up with."""

    rollout: Rollout | None = None
    error: str = ""
    """The name of the error's class; empty: there was none."""
    message: str = ""
    spent: tuple[Spent, ...] = ()
    """What the worker has paid and not told yet; with several attempts at a time, not all of it was
    for this one."""


@cache
def specs() -> Codec[RolloutSpec]:
    return Codec(TypeAdapter(RolloutSpec))


@cache
def answers() -> Codec[WorkerAnswer]:
    return Codec(TypeAdapter(WorkerAnswer))


@dataclass(frozen=True, slots=True)
class RemoteExecutor:
    """An `Executor` whose attempts are made by a worker; their cost is charged here.

    Nothing is sent once a limit is reached. What an attempt will cost is not known before, so those
    under way at that moment may exceed it.
    """

    exchange: Callable[[bytes], Awaitable[bytes]]
    """Sends a line to the worker and returns its answer; may be called again before that.

    It raises a `RolloutError` if the worker is lost: then the attempt has no score.
    """
    budget: Budget

    async def run(self, spec: RolloutSpec) -> Rollout:
        await self.budget.check()
        line = await self.exchange(specs().encode(spec))
        try:
            answer = answers().decode(line)
        except ValueError as error:
            raise HarnessError(f"the answer of a worker cannot be read: {error}") from error
        for spent in answer.spent:
            # An attempt that is paid is kept, also if it was the last one that a limit allows.
            with suppress(BudgetSpent):
                await self.budget.charge(spent.usage, role=spent.role, stage=spent.stage)
        if answer.rollout is not None:
            return answer.rollout
        raise _ENDS.get(answer.error, HarnessError)(answer.message)


@dataclass(frozen=True, slots=True)
class Worker:
    """Makes attempts that another process asks for.

    It has no limits, caches no attempts, and caches calls only as long as it is open.
    """

    executor: Executor
    environment: str
    harness: str
    """The fingerprints of what it has built."""
    meter: Meter
    _reported: dict[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])

    async def answer(self, line: bytes) -> bytes:
        """Make one attempt; the line is what `RemoteExecutor` sends."""
        try:
            rollout = await self._run(specs().decode(line))
        except SkilloptError as error:
            return self._encoded(error=type(error).__name__, message=str(error))
        except ValueError as error:
            return self._encoded(error="ConfigError", message=f"not an attempt to make: {error}")
        return self._encoded(rollout)

    async def _run(self, spec: RolloutSpec) -> Rollout:
        for part, built, asked in (
            ("environment", self.environment, spec.environment),
            ("harness", self.harness, spec.harness),
        ):
            if asked != built:
                raise ConfigError(
                    f"the {part} of a worker is {built!r}, but the run has {asked!r}; "
                    "start workers with the configuration, data and version of the run"
                )
        return await self.executor.run(spec)

    def _encoded(
        self, rollout: Rollout | None = None, *, error: str = "", message: str = ""
    ) -> bytes:
        spent: list[Spent] = []
        for place, usage in self.meter.totals.items():
            new = usage + negative(self._reported.get(place, Usage()))
            if new != Usage():
                spent.append(Spent(*place, new))
                self._reported[place] = usage
        return answers().encode(WorkerAnswer(rollout, error, message, tuple(spent)))


@asynccontextmanager
async def open_worker(
    config: Config, secrets: Secrets | None = None
) -> AsyncGenerator[Worker, None]:
    """Build environment, models and harness from the configuration of a run, in another process."""
    secrets = secrets or Secrets.load()
    parts = prepare_parts(config, SuppliedParts(), ("target",), splits_of(config), secrets)
    parts = replace(parts, limits=Limits())
    with TemporaryDirectory(prefix="skillopt-worker-") as folder:
        async with open_resources(parts, Layout(Path(folder)), None, secrets) as resources:
            models = resources.models()
            environment = with_models(parts.environment, models)
            harness = resources.harness(models["target"])
            timeout = score_timeout(parts.config, environment)
            executor = LocalExecutor(environment, harness, timeout)
            meter = resources.budget.meter
            yield Worker(executor, environment.fingerprint, harness.fingerprint, meter)
