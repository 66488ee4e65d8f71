"""What a configuration needs, tried out before money is spent."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal, TypeAlias

from skillopt.aio import map_all
from skillopt.app.harness import models_with_harness, with_agent
from skillopt.app.models import provider_model, roles_of, unwatched, with_backend_defaults
from skillopt.app.optimizing import limits, proposer_of
from skillopt.app.run_spec import at_fault, prepare
from skillopt.config.parts import PROPOSER, part_name
from skillopt.config.schema import Config, Role, RoleModel
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Reply, Request, Tool
from skillopt.core.memory import Memory
from skillopt.core.paths import not_a_folder
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import ModelError, Refused, SkilloptError
from skillopt.model.errors import place
from skillopt.model.http import Http
from skillopt.model.provider import HttpAnswer, Transport
from skillopt.prompts.ask import Asker
from skillopt.prompts.jsonish import read_object
from skillopt.prompts.library import Library

_SKILL = Skill.parse("# Dates\n\n- Read the note and answer the question.\n")
_CASES = (
    ("The lamp should come on May 3, 2026.", "May 3, 2026", "2026-05-03"),
    ("We need the desk by 17 August 2027.", "17 August 2027", "2027-08-17"),
    ("The party is on the 9th of January 2026.", "the 9th of January", "2026-01-09"),
)


class _Attempts:
    """Attempts that can be read more than once, as those of a run can."""

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for number, (note, said, right) in enumerate(_CASES, start=1):
            asked = f"Note: {note}\nWhich date is meant?"
            yield Rollout(
                task=f"example-{number}",
                kind="default",
                skill=_SKILL.digest,
                outcome=Score(0.0, 0.0, f"wrong answer: expected '{right}', got '{said}'"),
                trajectory=Trajectory((Message("user", asked), Message("assistant", said)), said),
            )


State: TypeAlias = Literal["ok", "note", "warning", "failure"]

_PATIENCE = 60.0
"""Seconds for one call to a server or a program; one that is slower is not fit for thousands of
calls. A local model has no such limit: its first call reads the file, on a CPU that may be busy."""
_SLOW = 20.0
_LITTLE, _NO_DISK = 1_000_000_000, 100_000_000
_SKEW = 60.0
_CLOCK = Tool("clock", "Tells the time of day.", {"type": "object", "properties": {}})
_CLOCK_QUESTION = "What time is it? Use the tool to find out."
_HELLO = "Reply with OK."
_JSON = 'Reply with this JSON object and nothing else: {"ok": true}'


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    what: str
    state: State
    found: str
    advice: str = ""
    """What to do; empty if there is nothing to do."""


async def doctor(config: Config | None, secrets: Secrets, *, offline: bool) -> list[DoctorFinding]:
    """Check data, disk, keys, servers and models; without a configuration, only the disk."""
    if config is None:
        return [check_disk(Path.cwd())]
    return [*check_data(config), *await check_models(config, secrets, offline=offline)]


async def check_models(config: Config, secrets: Secrets, *, offline: bool) -> list[DoctorFinding]:
    """Each role's backend, key and address; unless offline, its answers and the clock, too."""
    config = with_backend_defaults(with_agent(config), secrets)
    async with Http() as http:
        ears = _Listening(http)

        async def one(role: Role) -> list[DoctorFinding]:
            return await _check_role(config, role, secrets, ears, offline=offline)

        by_role = await map_all(one, _roles(config))
    checks = [check for checks in by_role for check in checks]
    return [*checks, *ears.clock()]


def _roles(config: Config) -> list[Role]:
    """The roles that a run asks, and those that the settings name besides."""
    roles: list[Role] = roles_of(config)
    with suppress(SkilloptError):  # a harness that is not there is told elsewhere
        stand_ins = models_with_harness(config, {}, None)
        roles = [role for role in roles if role not in stand_ins]
    with suppress(SkilloptError):  # what is wrong with the data is told elsewhere
        roles.extend(role for role in prepare(config).roles if role not in roles)
    return roles


def check_data(config: Config) -> list[DoctorFinding]:
    """The data, the first skill and the place for results."""
    try:
        spec = prepare(config)
    except SkilloptError as error:
        part, problem = at_fault(error)
        return [DoctorFinding(part, "failure", problem, str(error))]
    splits = spec.splits
    sizes = f"{len(splits.train)} train, {len(splits.val)} val, {len(splits.test)} test items"
    checks = [DoctorFinding("data", "ok", f"{config.env.name}: {sizes}")]
    checks += [
        DoctorFinding("data", "warning", "suspicious", warning) for warning in spec.data_warnings
    ]
    length = len(spec.skill.render())
    checks.append(DoctorFinding("first skill", "ok", f"{length:,} characters"))
    return [*checks, check_disk(spec.out)]


def check_disk(folder: Path) -> DoctorFinding:
    """Whether there is room, and leave to use it, where the folder is or will be."""
    if why := not_a_folder(folder):
        return DoctorFinding("disk", "failure", why, "choose another env.out_root")
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    room = f"{free / 1e9:.1f} GB free in {there}"
    if not os.access(there, os.W_OK):
        return DoctorFinding(
            "disk", "failure", f"{there} is not writable", "choose another env.out_root"
        )
    if free < _LITTLE:
        state: State = "failure" if free < _NO_DISK else "warning"
        return DoctorFinding("disk", state, room, "make room, or choose another env.out_root")
    return DoctorFinding("disk", "ok", room)


def limited(role: RoleModel) -> RoleModel:
    """The role with the time limit of a checkup, except where a call waits for this machine."""
    if role.backend == "local":
        return role
    return replace(role, timeout_seconds=min(role.timeout_seconds, _PATIENCE))


async def _check_role(
    config: Config, name: Role, secrets: Secrets, http: Transport, *, offline: bool
) -> list[DoctorFinding]:
    what = f"{name} model"
    try:
        role = limited(config.model.role(name))
        if role.backend == "handoff":
            advice = "prompts will be written to the run directory and wait there for answers"
            return [DoctorFinding(what, "note", f"{role.model} by handoff", advice)]
        connection = provider_model(role, secrets, http)
    except SkilloptError as error:
        return [DoctorFinding(what, "failure", "cannot be set up", str(error))]
    settings = connection.settings
    where = f" at {place(connection.url)}" if connection.url else ""
    key = f", key from {settings.key_source}" if settings.key_source else ""
    described = f"{role.model} by {role.backend}{where}{key}"
    if offline:
        return [DoctorFinding(what, "note", f"{described}; not called")]
    return await _ask(what, described, config, role, connection.wire)


async def _ask(
    what: str, described: str, config: Config, role: RoleModel, model: Model
) -> list[DoctorFinding]:
    """A tiny question, one that wants a tool called, and one of the kind that a run asks."""
    start = time.perf_counter()
    try:
        await _say(model, _HELLO, 16)
    except Refused as error:
        return [
            DoctorFinding(what, "warning", f"{described}; refuses a short test request", str(error))
        ]
    except SkilloptError as error:
        return [DoctorFinding(what, "failure", f"{described}; no answer", str(error))]
    seconds = time.perf_counter() - start
    slow = "slow: a run makes hundreds of calls" if seconds > _SLOW else ""
    took = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
    answered = f"{described}; answered in {took}"
    first = DoctorFinding(what, "warning" if slow else "ok", answered, slow)
    optimizer = role.role == "optimizer"
    fit = await (_reflection(config, model) if optimizer else _json(role, model))
    return [first, fit, await _tools(role, model)]


async def _reflection(config: Config, model: Model) -> DoctorFinding:
    """Put three plain failures to the configured proposers, and judge the reply as a run would."""
    what, gradient = "optimizer, reflection", config.gradient
    try:
        prompts = prepare(config).prompts
    except SkilloptError:
        prompts = Library()  # what is wrong with the data is told elsewhere
    kinds = zip(PROPOSER.named(gradient), PROPOSER.kinds(gradient), strict=True)
    names = [part_name(named) for named, kind in kinds if getattr(kind, "asks_model", True)]
    if not names:
        return DoctorFinding(what, "note", "the configured proposer calls no model")
    request = f"a reflection request (gradient.proposer: {' and '.join(names)})"
    asker = Asker(model, prompts, EventSink(MemoryLog(), unwatched), limits(gradient))
    try:
        findings = await proposer_of(config, asker)(_SKILL, [_Attempts()], Memory(), budget=4)
    except SkilloptError as error:
        return DoctorFinding(what, "failure", f"{request} got no reply", str(error))
    proposals = [proposal for finding in findings for proposal in finding.proposals]
    if any(proposal.asked for proposal in proposals):
        return DoctorFinding(what, "ok", f"{request} got a usable reply")
    problem = next((finding.problem for finding in findings if finding.problem), "")
    if problem:
        advice = (
            f"{problem}. Choose a more capable model.optimizer, raise "
            "model.optimizer_max_tokens, or set gradient.proposer=instruct for a small model"
        )
        return DoctorFinding(what, "failure", f"{request} got no usable reply", advice)
    advice = "it read three simple failures and proposed nothing; try another model"
    return DoctorFinding(what, "warning", f"{request} got no proposal", advice)


async def _json(role: RoleModel, model: Model) -> DoctorFinding:
    what = f"{role.role}, JSON"
    try:
        reply = await _say(model, _JSON, role.max_tokens)
    except ModelError as error:
        return DoctorFinding(what, "warning", "no answer", str(error))
    if read_object(reply.text, {"ok"}) is not None:
        return DoctorFinding(what, "ok", "answers with JSON when asked to")
    return DoctorFinding(what, "note", "does not answer with JSON; few environments need it")


async def _tools(role: RoleModel, model: Model) -> DoctorFinding:
    what = f"{role.role}, tools"
    asked = Request(
        stage="preflight",
        messages=(Message("user", _CLOCK_QUESTION),),
        max_tokens=role.max_tokens,
        tools=(_CLOCK,),
    )
    try:
        reply = await model.complete(asked)
    except SkilloptError:
        return DoctorFinding(what, "note", "does not support tools; only agent harnesses need them")
    if any(call.name == _CLOCK.name for call in reply.calls):
        return DoctorFinding(what, "ok", "calls tools")
    return DoctorFinding(
        what, "note", "did not call the tool it was offered; only agent harnesses need tools"
    )


async def _say(model: Model, text: str, limit: int) -> Reply:
    messages = (Message("user", text),)
    return await model.complete(Request(stage="preflight", messages=messages, max_tokens=limit))


@dataclass(slots=True)
class _Listening:
    """A transport that hears what time it is on the other side."""

    inner: Transport
    skew: float | None = None

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        answer = await self.inner.send(url, headers=headers, timeout=timeout, body=body)
        if body is None:  # somebody who vouches for us, not the server
            return answer
        try:
            server_time = parsedate_to_datetime(answer.headers.get("Date", ""))
            self.skew = time.time() - server_time.timestamp()
        except ValueError:
            pass
        return answer

    def clock(self) -> list[DoctorFinding]:
        """Whether our clock agrees with the servers'; nothing where none told the time."""
        if self.skew is None:
            return []
        if abs(self.skew) <= _SKEW:
            return [DoctorFinding("clock", "ok", "agrees with the servers")]
        way = "ahead of" if self.skew > 0 else "behind"
        skew = f"{abs(self.skew) / 60:.0f} min {way} the servers"
        return [
            DoctorFinding("clock", "warning", skew, "set it: tokens and certificates depend on it")
        ]
