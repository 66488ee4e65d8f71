"""Makes the parts that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from skillopt.config.parts import PARTS, part_name
from skillopt.config.schema import Config, settings_for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For a part that declares none."""


def make(kind: Callable[..., T], config: Config, section: str, *tools: object) -> T:
    """A part from its class, with its settings from a section of the configuration.

    The class is called with an object of its `Settings`, or with nothing if it declares none. If
    it has a class method `from_settings`, that is called instead, with the `tools` as well.
    """
    declared: type[object] | None = getattr(kind, "Settings", None)
    checked = settings_for(NoSettings if declared is None else declared, config, section)
    settings = () if declared is None else (checked,)
    create: Callable[..., T] | None = getattr(kind, "from_settings", None)
    try:
        return kind(*settings) if create is None else create(*settings, *tools)
    except (TypeError, ValueError) as error:
        named = part_name(cast("Any", kind))
        raise config.complaint(PARTS[section].dotted, f"{named} cannot be made: {error}") from error


def parts_identity(config: Config) -> dict[str, str]:
    """The code of parts that are not registered, by what they are."""
    found = {
        part.registry.what: " + ".join(part.identity(getattr(config, part.section)))
        for part in PARTS.values()
    }
    return {what: told for what, told in found.items() if told}
