"""Parts of a run that a configuration names, and the classes that they are made from."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeGuard, cast

from skillopt.config.registry import Registry
from skillopt.core.callables import Anything, identify, reference
from skillopt.core.ports import Gate, Proposer


class GateKind(Protocol):
    """A class registered under `skillopt.gates`.

    Optional: `Settings`, a dataclass of its settings, with which it is called; and a class method
    `from_settings`, which is called instead of the class.
    """

    def __call__(self, *settings: object) -> Gate:
        """The gate with these settings; without any, if it declares none."""
        ...


def _is_gate(found: object) -> TypeGuard[GateKind]:
    return inspect.isclass(found) and callable(getattr(found, "judge", None))


GATES: Final = Registry[GateKind]("skillopt.gates", "gate", _is_gate)


class ProposerKind(Protocol):
    """A class registered under `skillopt.proposers`, or a function that is a proposer.

    A class may have `Settings` and `from_settings`, as one of gates; the latter gets a
    `ProposerTools` as well. Optional attributes, with their defaults: `edits_only` (True),
    `writes_reminders` (False), `reads_probes` (False), `asks_model` (True).
    """

    def __call__(self, *settings: object) -> Proposer:
        """The proposer with these settings; without any, if it declares none."""
        ...


def _is_proposer(found: object) -> TypeGuard[ProposerKind]:
    if not inspect.isclass(found):
        return callable(found)
    return any("__call__" in vars(each) for each in found.__mro__)


PROPOSERS: Final = Registry[ProposerKind]("skillopt.proposers", "proposer", _is_proposer)


@dataclass(frozen=True, slots=True)
class PartKey:
    """A key that names a part, or several."""

    section: str
    key: str
    registry: Registry[Any]

    @property
    def dotted(self) -> str:
        """Section and key."""
        return f"{self.section}.{self.key}"

    def named(self, section: object) -> Sequence[object]:
        """What the key names in this section: names and objects."""
        found: object = getattr(section, self.key)
        return cast("tuple[object, ...]", found) if isinstance(found, tuple) else (found,)

    def kinds(self, section: object) -> list[object]:
        """The classes of registered parts and of `module:Name`, and the objects."""
        return [
            self.registry.load(each) if isinstance(each, str) else each
            for each in self.named(section)
        ]

    def told(self, section: object) -> str:
        """The same in words: `gate 'strict'`."""
        names = ", ".join(repr(part_name(each)) for each in self.named(section))
        return f"{self.registry.what} {names}"

    def settings(self, section: object) -> list[str] | None:
        """The settings of all registered parts that the key names.

        None: not known before the parts are made, because one is named as `module:Name`.
        """
        names = [each for each in self.named(section) if isinstance(each, str)]
        return None if any(":" in each for each in names) else self.all_settings(section)

    def all_settings(self, section: object) -> list[str]:
        """The settings of all parts that the key names."""
        names = [each for each in self.named(section) if isinstance(each, str)]
        return [key for each in names for key in setting_names(self.registry.load(each))]

    def identity(self, section: object) -> list[str]:
        """The code of each part that is not a registered one: those are identified by name."""
        own = [each for each in self.named(section) if not isinstance(each, str) or ":" in each]
        found = [self.registry.load(each) if isinstance(each, str) else each for each in own]
        return [_identity(each) for each in found]


PARTS: Final[Mapping[str, PartKey]] = {
    each.section: each
    for each in (
        PartKey("evaluation", "gate", GATES),
        PartKey("gradient", "proposer", PROPOSERS),
    )
}
"""By section: the sections that accept settings of parts."""


def _identity(part: object) -> str:
    """The fingerprint that a class declares for its parts; else as callables are identified."""
    declared: object = getattr(part, "fingerprint", None)
    if isinstance(part, type) and isinstance(declared, str):
        return f"{part_name(part)}/fingerprint={declared}"
    return identify(code_of(part)).text


def setting_names(kind: object) -> list[str]:
    """The keys that a class of parts declares with its `Settings`."""
    declared: object = getattr(kind, "Settings", None)
    if not (isinstance(declared, type) and dataclasses.is_dataclass(declared)):
        return []
    return [each.name for each in dataclasses.fields(declared)]


def asks_model(proposer: object) -> bool:
    """Whether a proposer, or its class, asks the optimizer model."""
    return bool(getattr(proposer, "asks_model", True))


def part_name(part: object) -> str:
    """The name of a part in the settings; of an object, `module:Class`."""
    return part if isinstance(part, str) else reference(cast("Anything", part))


def code_of(part: object) -> Anything:
    """What identifies a part: the class or callable, or the method `judge` of an object."""
    return part if callable(part) else cast("Anything", cast("Any", part).judge)
