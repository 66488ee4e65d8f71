"""Makes the parts that a configuration names, and guards those that somebody else wrote."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Final, cast

from pydantic import FiniteFloat, NonNegativeInt

from skillopt.config.parts import (
    CONTROL,
    GATE,
    MEMORY,
    MERGER,
    PAIRS,
    PARENTS,
    PARTS,
    PROPOSER,
    SCHEDULE,
    SELECTOR,
    UPDATE_MODE,
    PartKey,
    part_name,
    settings_class,
)
from skillopt.config.schema import Config, settings_for
from skillopt.core.events import GateVerdict, Measured
from skillopt.core.proposal import Finding, ProposalSet, Rate, Selection
from skillopt.errors import PartError, SkilloptError, attributed_to
from skillopt.optimizer.parts import Update
from skillopt.store import codec

_CALL: Final = "__call__"
_RATE: Any = cast("Any", NonNegativeInt) | None
_RETURNS: Final[dict[tuple[PartKey, str], Any]] = {
    (GATE, "judge"): GateVerdict,
    (GATE, "foresee"): GateVerdict | None,
    (GATE, "order"): Sequence[str],
    (GATE, "value"): FiniteFloat,
    (GATE, "alpha"): FiniteFloat,
    (GATE, "fewest_wins"): int | None,
    (GATE, "forced"): bool,
    (GATE, "decisive"): bool,
    (PROPOSER, _CALL): tuple[Finding, ...],
    (MERGER, _CALL): ProposalSet,
    (SELECTOR, _CALL): Selection,
    (SCHEDULE, _CALL): _RATE,
    (CONTROL, _CALL): Rate | None,
    (CONTROL, "schedule"): _RATE,
    (UPDATE_MODE, _CALL): Update,
    (MEMORY, _CALL): bool,
    (PAIRS, _CALL): bool,
    (PARENTS, _CALL): Measured,
}
_ASYNC: Final = (PROPOSER, MERGER, SELECTOR, CONTROL, UPDATE_MODE)
"""Parts that are called with `await`."""
_MAKES: Final = {(SCHEDULE, "control"): CONTROL, (GATE, "for_shorter"): GATE}
"""Methods that return a part."""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For a part that declares none."""


def make(key: PartKey, config: Config, tools: object = None) -> Any:  # noqa: ANN401 - the key says which protocol
    """The part that a key names; see `PartKey` for what it is made from."""
    (part,) = make_all(key, config, tools)
    return part


def make_all(key: PartKey, config: Config, tools: object = None) -> list[Any]:
    section = getattr(config, key.section)
    return [
        _guarded(
            _make(kind, key, config, tools) if isinstance(kind, type) else kind,
            key,
            part_name(part),
        )
        for part, kind in zip(key.named(section), key.kinds(section), strict=True)
    ]


def _make(kind: type[object], key: PartKey, config: Config, tools: object) -> object:
    try:
        declared = settings_class(kind)
        settings = settings_for(declared or NoSettings, config, key.section, part=key)
        create: Callable[..., object] | None = getattr(kind, "from_settings", None)
        given = (settings,) if declared else ()
        if create is not None:
            return create(*given) if tools is None else create(*given, tools)
        if declared is None or hasattr(kind, "Settings"):
            return kind(*given)
        return kind(**vars(settings), **_tools_of(kind, tools))
    except (SkilloptError, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit, too: it is not its author's program
        named = part_name(cast("Any", kind))
        raise config.complaint(key.dotted, f"{named} cannot be made: {error}") from error


def _tools_of(kind: type[object], tools: object) -> dict[str, object]:
    """The tools that a dataclass asks for by the names of its fields."""
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    return {name: getattr(tools, name) for name in names if hasattr(tools, name)}


def parts_identity(config: Config) -> dict[str, str]:
    """The code of parts that are not registered, by what they are."""
    found = {key.what: key.identity(getattr(config, key.section)) for key in PARTS}
    return {what: " + ".join(codes) for what, codes in found.items() if codes}


def _guarded(part: object, key: PartKey, name: str) -> Any:  # noqa: ANN401 - the key says which protocol
    """The part; somebody else's with a guard around everything that it has."""
    return _guard(part, key, f"{key.dotted} {name}") if is_foreign(part) else part


def is_foreign(part: object) -> bool:
    """Whether somebody else wrote it."""
    module = str(getattr(part, "__module__", type(part).__module__))
    return module.partition(".")[0] != "skillopt"


def blamed(part: object, named: str) -> AbstractContextManager[None]:
    """What is raised within is an error of this part, if somebody else wrote it."""
    return attributed_to(PartError, named) if is_foreign(part) else nullcontext()


def _guard(part: object, key: PartKey, named: str) -> object:
    """An object with the same attributes: protocols are told apart by what its class has."""
    members: dict[str, object] = {
        name: property(_Member(part, key, name, named).read)
        for name in dir(part)
        if not name.startswith("_")
    }
    if callable(part):
        members[_CALL] = partial(_Member(part, key, _CALL, named).called, part)
    return type(type(part).__name__, (), members)()


@dataclass(frozen=True, slots=True)
class _Member:
    """An attribute or a method of a part."""

    part: object
    key: PartKey
    name: str
    named: str
    """The part in messages: `evaluation.gate house:Margin`."""

    def read(self, _: object) -> object:
        with attributed_to(PartError, self.named):
            value = getattr(self.part, self.name)
        if not callable(value) or isinstance(value, type):
            return self._checked(value)
        return partial(self.called, value)

    def called(self, method: Callable[..., object], *given: object, **more: object) -> object:
        with attributed_to(PartError, self.named):
            value = method(*given, **more)
            if isinstance(value, Generator):
                value = tuple(cast("Iterator[object]", value))
        waits = self.name == _CALL and self.key in _ASYNC
        if not inspect.iscoroutine(value):
            if waits and not inspect.isawaitable(value):
                raise PartError(f"{self.named} must be called with await: define it as async def")
            return value if waits else self._checked(value)
        if waits or (self.key, self.name) not in _RETURNS:
            return self._awaited(value)
        value.close()
        raise PartError(f"{self.named}: {self.name} must not be async: define it as def")

    async def _awaited(self, work: Coroutine[object, object, object]) -> object:
        with attributed_to(PartError, self.named):
            value = await work
        return self._checked(value)

    def _checked(self, value: object) -> object:
        if made := _MAKES.get((self.key, self.name)):
            return _guard(value, made, self.named)
        expected = _RETURNS.get((self.key, self.name))
        if expected is None:
            return value
        value = tuple(cast("list[object]", value)) if isinstance(value, list) else value
        try:
            codec.check(expected, value)
        except ValueError as error:
            of = "" if self.name == _CALL else f" ({self.name})"
            raise PartError(
                f"{self.named} returned {reprlib.repr(value)}{of}: {codec.problem(error)}"
            ) from error
        return value
