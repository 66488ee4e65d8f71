"""Makes the parts that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from skillopt.config.parts import PARTS, PartKey, part_name, settings_class
from skillopt.config.schema import Config, settings_for


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For a part that declares none."""


def make(key: PartKey, config: Config, tools: object = None) -> Any:  # noqa: ANN401 - the key says which protocol
    """The part that a key names; see `PartKey` for what it is made from."""
    (part,) = make_all(key, config, tools)
    return part


def make_all(key: PartKey, config: Config, tools: object = None) -> list[Any]:
    return [
        _make(kind, key, config, tools) if isinstance(kind, type) else kind
        for kind in key.kinds(getattr(config, key.section))
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
    except (NameError, TypeError, ValueError) as error:
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
