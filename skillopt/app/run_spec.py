"""A training run, read and checked, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from skillopt.app.costs import caps_of, prices_of
from skillopt.app.environment import (
    OpenEnvironment,
    asked_roles,
    few_to_decide,
    final_test_tasks,
    initial_skill,
    more_val,
    open_environment,
    other_size,
    validation_tasks,
)
from skillopt.app.harness import models_with_harness
from skillopt.app.models import check_backends, settled, supplied_models
from skillopt.app.parts import parts_identity
from skillopt.app.paths import out_root, seats, short
from skillopt.app.policies import schedule, shape
from skillopt.app.reach import unreachable
from skillopt.app.setting_rules import check, setting_warnings
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.ports import Environment, Executor, Harness
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.datasets.splits import Splits
from skillopt.engine.plan import Plan, digest
from skillopt.errors import ConfigError, SkillError, SkilloptError
from skillopt.model.budget import Budget, Limits
from skillopt.model.prices import Tariff
from skillopt.prompts.library import Library

ROLES: tuple[Role, ...] = ("target", "optimizer")
"""Those that every training asks."""


OpenExecutor: TypeAlias = Callable[[Budget], AbstractAsyncContextManager[Executor]]
"""Opens an executor for a run; what it spends is charged to the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppliedParts:
    """What the Python API brings along instead of naming it in the configuration."""

    splits: Splits | None = None
    environment: Environment | None = None
    """One with its tasks; then there are no `splits`."""
    models: Mapping[Role, Model] = field(default_factory=dict[Role, Model])
    """The caller's own; the configuration names those of the other roles."""
    skill: Skill | None = None
    harness: Harness | None = None
    executor: OpenExecutor | None = None
    """Opens what makes the attempts; None: they are made in this process."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What is known before anything is spent: everything here was read and checked."""

    config: Config
    world: OpenEnvironment
    skill: Skill
    plan: Plan
    prompts: Library
    supplied: SuppliedParts
    identity: Mapping[str, str]
    """Settings and fingerprints that make the run, without those of its models."""
    out: Path
    prices: Mapping[Role, Tariff]
    """Those that are known."""
    caps: Limits

    @property
    def roles(self) -> tuple[Role, ...]:
        """All that this run asks; a judge only where the environment asks for one."""
        return (*ROLES, *asked_roles(self.world.environment))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the run doubtful before it begins, each with what to do."""
        return (*self.world.warnings, *setting_warnings(self.config))


def prepare(
    config: Config, supplied: SuppliedParts | None = None, secrets: Secrets | None = None
) -> RunSpec:
    """Read and check everything that a run needs; writes nothing and asks nobody."""
    given = supplied or SuppliedParts()
    given = replace(given, models=models_with_harness(config, given.models, given.harness))
    check_backends(config, [role for role in ROLES if role not in given.models])
    config = settled(config, secrets or Secrets.load())
    check(config)
    needs: list[Split] = ["train", "val"]
    if config.evaluation.eval_test:
        needs.append("test")
    world = open_environment(config, needs, given.splits, given.harness, given.environment)
    roles = (*ROLES, *(asked := asked_roles(world.environment)))
    given = replace(given, models=supplied_models(config, roles, given.models))
    check_backends(config, [role for role in asked if role not in given.models])
    skill = given.skill or initial_skill(config, world.initial_skill)
    train_tasks = world.environment.tasks("train")
    world = replace(world, warnings=(*world.warnings, *other_size(config, len(train_tasks))))
    val = validation_tasks(config, world.environment)
    world = replace(
        world,
        warnings=(
            *world.warnings,
            *few_to_decide(len(val), more_val(config, world.splits, len(val))),
        ),
    )
    test = final_test_tasks(config, world.environment)
    plan = Plan.build(train_tasks, shape(config), schedule(config.optimizer), test)
    world = replace(world, warnings=(*world.warnings, *unreachable(config, plan, len(val))))
    folders = [each for each in (config.path("env.prompts"), world.prompts) if each]
    prompts = Library.of(folders)
    identity = {
        **config.identity(),
        "environment": world.environment.fingerprint,
        "initial skill": skill.digest,
        "train tasks": digest(train_tasks),
        "val tasks": digest(val),
        "prompts": short(prompts.fingerprint),
        **parts_identity(config),
    }
    out = out_root(
        config, "skillopt", "optimizer", {**identity, **seats(config, given.models, roles)}
    )
    prices = prices_of(config, roles, given.models)
    caps = caps_of(config, roles, prices)
    return RunSpec(config, world, skill, plan, prompts, given, identity, out, prices, caps)


def at_fault(error: SkilloptError) -> tuple[str, str]:
    """Which part of a training an error of `prepare` is about, and what is the matter with it."""
    match error:
        case ConfigError():
            return "settings", "missing or wrong"
        case SkillError():
            return "first skill", "cannot be used"
        case _:
            return "data", "cannot be used"
