"""A run, read and checked, before anything is spent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from skillopt.app.costs import caps_of, prices_of
from skillopt.app.environment import (
    asked_roles,
    final_test_tasks,
    initial_skill,
    open_environment,
    size_warnings,
    validation_tasks,
)
from skillopt.app.gating import setting_warnings
from skillopt.app.harness import models_with_harness, with_agent
from skillopt.app.models import check_backends, supplied_models, with_backend_defaults
from skillopt.app.optimizing import plan_settings, planned_parts
from skillopt.app.parts import parts_identity
from skillopt.app.reach import unreachable
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.memory import Memory
from skillopt.core.ports import Environment, Executor, Harness
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.datasets.splits import SPLITS, Splits
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
    """None: attempts are made in this process."""
    memory: Memory | None = None
    """What the optimizer remembers of earlier runs; None: the run stands alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What every run is made of, an evaluation too: all of it was read and checked."""

    config: Config
    environment: Environment
    splits: Splits
    data_warnings: tuple[str, ...]
    supplied: SuppliedParts
    roles: tuple[Role, ...]
    """Those that it asks; a judge only where the environment asks for one."""
    prices: Mapping[Role, Tariff]
    """Those that are known."""
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec(RunParts):
    skill: Skill
    plan: Plan
    prompts: Library
    identity: Mapping[str, str]
    """Settings and fingerprints that make the run, without those of its models."""
    out: Path

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the run doubtful before it begins, each with what to do."""
        return (*self.data_warnings, *setting_warnings(self.config))


def prepare(
    config: Config, supplied: SuppliedParts | None = None, secrets: Secrets | None = None
) -> RunSpec:
    """Read and check everything that a training needs; writes nothing and asks nobody."""
    schedule = planned_parts(config).schedule
    parts = prepare_parts(config, supplied or SuppliedParts(), ROLES, splits_of(config), secrets)
    config, environment = parts.config, parts.environment
    shipped: Path | None = getattr(environment, "initial_skill", None)
    skill = parts.supplied.skill or initial_skill(config, shipped)
    train, val = environment.tasks("train"), validation_tasks(config, environment)
    test = final_test_tasks(config, environment)
    memory = parts.supplied.memory
    shape = plan_settings(config, continues=memory is not None)
    plan = Plan.build(train, shape, schedule, test)
    folders = (config.path("env.prompts"), getattr(environment, "prompts", None))
    prompts = Library.of([folder for folder in folders if folder])
    identity = {
        **config.identity(),
        "environment": environment.fingerprint,
        "initial skill": skill.digest,
        "train tasks": digest(train),
        "val tasks": digest(val),
        "prompts": short(prompts.fingerprint),
        **({} if memory is None else {"memory": short(repr((memory.steps, memory.lessons)))}),
        **parts_identity(config),
    }
    warnings = (
        *parts.data_warnings,
        *size_warnings(config, parts.splits, len(train), len(val)),
        *unreachable(config, plan, len(val)),
    )
    return RunSpec(
        config=config,
        environment=environment,
        splits=parts.splits,
        data_warnings=warnings,
        supplied=parts.supplied,
        roles=parts.roles,
        prices=parts.prices,
        limits=parts.limits,
        skill=skill,
        plan=plan,
        prompts=prompts,
        identity=identity,
        out=out_root(parts, "skillopt", identity),
    )


def prepare_parts(
    config: Config,
    supplied: SuppliedParts,
    roles: Sequence[Role],
    needs: Sequence[Split],
    secrets: Secrets | None = None,
) -> RunParts:
    """Read and check what a run needs that asks these roles and has tasks in these splits."""
    if supplied.harness is None and "target" not in supplied.models:
        config = with_agent(config)
    models = models_with_harness(config, supplied.models, supplied.harness)
    check_backends(config, [role for role in roles if role not in models])
    config = with_backend_defaults(config, secrets or Secrets.load())
    environment, splits, warnings = open_environment(
        config, needs, supplied.splits, supplied.harness, supplied.environment
    )
    return parts_of(config, replace(supplied, models=models), roles, environment, splits, warnings)


def parts_of(
    config: Config,
    supplied: SuppliedParts,
    roles: Sequence[Role],
    environment: Environment,
    splits: Splits,
    warnings: tuple[str, ...] = (),
) -> RunParts:
    """Check the models of an environment that is open: those of these roles and its own."""
    asked = asked_roles(environment)
    roles = (*roles, *asked)
    models = supplied_models(config, roles, supplied.models)
    check_backends(config, [role for role in asked if role not in models])
    prices = prices_of(config, roles, models)
    return RunParts(
        config=config,
        environment=environment,
        splits=splits,
        data_warnings=warnings,
        supplied=replace(supplied, models=models),
        roles=roles,
        prices=prices,
        limits=caps_of(config, roles, prices),
    )


def splits_of(config: Config) -> Sequence[Split]:
    return SPLITS if config.evaluation.eval_test else ("train", "val")


def at_fault(error: SkilloptError) -> tuple[str, str]:
    """Which part of a training an error of `prepare` is about, and what is the matter with it."""
    match error:
        case ConfigError():
            return "settings", "missing or wrong"
        case SkillError():
            return "first skill", "cannot be used"
        case _:
            return "data", "cannot be used"


def out_root(
    parts: RunParts, kind: Literal["skillopt", "eval"], identity: Mapping[str, str]
) -> Path:
    """As configured, or named after the settings, so that the same command finds it again."""
    configured = parts.config.env.out_root
    if configured:
        return Path(configured).expanduser()
    return Path("outputs") / default_name(parts, kind, identity)


def default_name(
    parts: RunParts, kind: Literal["skillopt", "eval"], identity: Mapping[str, str]
) -> str:
    config, own = parts.config, parts.supplied.models
    named_by = dict(identity)
    for name in parts.roles:
        role = config.model.role(name)
        usual = (role.backend, role.model, role.temperature, role.max_tokens, role.reasoning_effort)
        named_by[name] = own[name].fingerprint if name in own else "/".join(map(str, usual))
    listed = "\n".join(f"{key}={value}" for key, value in sorted(named_by.items()))
    named = config.model.role("optimizer" if kind == "skillopt" else "target").model
    name = f"{kind}_{config.env.name}_{named}_{short(listed)}"
    return re.sub(r"[^\w.-]+", "-", name)


def short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
