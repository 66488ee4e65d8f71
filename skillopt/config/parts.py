"""Parts of a run that a configuration names, and the classes that they are made from."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeGuard, cast, get_type_hints

from skillopt.config.problems import shown
from skillopt.config.registry import Registry
from skillopt.core.callables import Anything, identify, reference

TOOLS: Final = frozenset(
    (
        *("asker", "sink", "form", "reminders", "probing", "attempt", "ahead"),
        *("rewrite_tokens", "rewrite_effort", "mark", "marks", "seed"),
    )
)
"""Fields of a dataclass that are no settings: what the part gets from the run."""


@dataclass(frozen=True, slots=True)
class PartKey:
    """A key that names a part, or several: a registered name, `module:Name`, or an object.

    A registered part is a class with this method; a function, if the method is `__call__`. A class
    may declare its settings as a dataclass `Settings`, with which it is called; or it is a
    dataclass, and its fields are its settings, except those of `TOOLS`. A class method
    `from_settings` is called instead of the class, with the settings and an object that has all
    tools.
    """

    section: str
    key: str
    group: str
    what: str
    method: str = "__call__"
    aliases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Other names of its parts."""

    @property
    def registry(self) -> Registry[Any]:
        return Registry(f"skillopt.{self.group}", self.what, self._is_kind)

    def _is_kind(self, found: object) -> TypeGuard[Any]:
        if inspect.isclass(found):
            return any(self.method in vars(base) for base in found.__mro__)
        return self._is_object(found) and callable(found)

    def _is_object(self, found: object) -> bool:
        return not isinstance(found, type) and callable(getattr(found, self.method, None))

    @property
    def dotted(self) -> str:
        return f"{self.section}.{self.key}"

    def check(self, value: object) -> object:
        """The value, if it is the name of a part or a part; for pydantic."""
        if isinstance(value, str):
            value = self.aliases.get(value, value)
            problem = self.registry.unknown(value)
        elif self._is_object(value):
            problem = ""
        else:
            article = "an" if self.what.startswith(tuple("aeiou")) else "a"
            problem = f"should be {article} {self.what} or the name of one, not {shown(value)}"
        if problem:
            raise ValueError(problem)
        return value

    def named(self, section: object) -> Sequence[object]:
        """What the key names in this section: names and objects."""
        value: object = getattr(section, self.key)
        return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)

    def kinds(self, section: object) -> list[object]:
        """The classes of registered parts and of `module:Name`, and the objects."""
        return [
            self.registry.load(part) if isinstance(part, str) else part
            for part in self.named(section)
        ]

    def names(self, section: object) -> str:
        return ", ".join(map(part_name, self.named(section)))

    def told(self, section: object) -> str:
        """The same in words: `gate 'strict'`."""
        return f"{self.what} {', '.join(repr(part_name(part)) for part in self.named(section))}"

    def settings(self, section: object) -> list[str] | None:
        """The settings of all registered parts that the key names.

        None: not known before the parts are made, because one is named as `module:Name`.
        """
        names = [part for part in self.named(section) if isinstance(part, str)]
        return None if any(":" in name for name in names) else self.all_settings(section)

    def all_settings(self, section: object) -> list[str]:
        """The settings of all parts that the key names."""
        names = [part for part in self.named(section) if isinstance(part, str)]
        kinds = [settings_class(self.registry.load(name)) for name in names]
        return [setting.name for kind in kinds if kind for setting in dataclasses.fields(kind)]

    def identity(self, section: object) -> list[str]:
        """The code of each part that is not a registered one: those are identified by name."""
        parts = zip(self.named(section), self.kinds(section), strict=True)
        return [_identity(kind) for part, kind in parts if not isinstance(part, str) or ":" in part]


GATE: Final = PartKey("evaluation", "gate", "gates", "gate", "judge")
PROPOSER: Final = PartKey("gradient", "proposer", "proposers", "proposer")
MERGER: Final = PartKey("gradient", "merge_mode", "mergers", "merge mode")
SELECTOR: Final = PartKey("optimizer", "select_mode", "selectors", "select mode")
SCHEDULE: Final = PartKey("optimizer", "lr_scheduler", "schedules", "learning rate schedule")
CONTROL: Final = PartKey("optimizer", "lr_control_mode", "rate_controls", "learning rate control")
UPDATE_MODE: Final = PartKey(
    *("optimizer", "skill_update_mode", "update_modes", "update mode"),
    aliases={
        "edits": "patch",
        "rewrite": "rewrite_from_suggestions",
        "suggestions": "rewrite_from_suggestions",
        "rewrite_suggestions": "rewrite_from_suggestions",
        "full_rewrite": "full_rewrite_minibatch",
        "minibatch_full_rewrite": "full_rewrite_minibatch",
        "skill_rewrite_minibatch": "full_rewrite_minibatch",
    },
)
MEMORY: Final = PartKey("optimizer", "memory", "memory_policies", "memory policy")
PAIRS: Final = PartKey(
    *("optimizer", "longitudinal_pair_policy", "pair_policies", "pair policy"),
    aliases={
        **dict.fromkeys(("all", "mix"), "mixed"),
        **dict.fromkeys(("change", "changed_only", "only_changed"), "changed"),
        **dict.fromkeys(("unchanged_only", "only_unchanged", "same"), "unchanged"),
    },
)
PARENTS: Final = PartKey("optimizer", "parents", "parents", "choice of parents")
PARTS: Final = (
    *(GATE, PROPOSER, MERGER, SELECTOR, SCHEDULE),
    *(CONTROL, UPDATE_MODE, MEMORY, PAIRS, PARENTS),
)


def parts_in(section: str) -> list[PartKey]:
    return [part for part in PARTS if part.section == section]


def settings_class(kind: object) -> type[Any] | None:
    """The dataclass that declares the settings of a part; None if it has none."""
    declared: object = getattr(kind, "Settings", None)
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        return declared
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return None
    return _without_tools(kind)


@cache
def _without_tools(kind: type[Any]) -> type[Any]:
    types = get_type_hints(kind, include_extras=True)
    settings = [setting for setting in dataclasses.fields(kind) if setting.name not in TOOLS]
    return dataclasses.make_dataclass(
        kind.__name__,
        [(setting.name, types[setting.name], copy(setting)) for setting in settings],
        frozen=True,
        kw_only=True,
    )


def _identity(part: object) -> str:
    """The fingerprint that a class declares for its parts; else as callables are identified."""
    declared: object = getattr(part, "fingerprint", None)
    if isinstance(part, type) and isinstance(declared, str):
        return f"{part_name(part)}/fingerprint={declared}"
    return identify(code_of(part)).text


def part_name(part: object) -> str:
    """The name of a part in the settings; of an object, `module:Class`."""
    return part if isinstance(part, str) else reference(cast("Anything", part))


def code_of(part: object) -> Anything:
    """What identifies a part: the class or callable, or the method `judge` of an object."""
    return part if callable(part) else cast("Anything", cast("Any", part).judge)
