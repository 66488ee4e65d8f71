"""Keys as somebody wrote them, and settings from the command line: `a.b=c` and flat flags."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from skillopt.config.given import GivenValue, merge
from skillopt.config.legacy import IGNORED, MOVED, flat_names, modern
from skillopt.config.redaction import redact, shown_value
from skillopt.config.sections import KEYS, SECTIONS
from skillopt.config.yaml12 import read_value
from skillopt.core.nearest import nearest
from skillopt.errors import ConfigError

NAMES: Final = flat_names(KEYS)
"""Every flat name with the dotted key it stands for."""

_SURE: Final = 0.75
"""How alike a key of another section must be."""
_KNOWN: Final = frozenset((*KEYS, *IGNORED))
_ALL_SECTIONS: Final = f"the sections are {', '.join(SECTIONS)}"


def resolve(path: Sequence[str]) -> str | None:
    """The dotted key that a path of one or two names stands for; None when there is none.

    Every key of `env` stands for itself: only the environment knows which ones it has.
    """
    if len(path) == 1:
        return NAMES.get(path[0])
    section, name = path[0], modern(path[1]) if path[0] == "model" else path[1]
    key = MOVED.get(f"{section}.{name}", f"{section}.{name}")
    if key in _KNOWN:
        return key
    renamed = NAMES.get(name, "")
    if renamed.startswith(f"{section}."):
        return renamed
    return key if section == "env" else None


def suggestion(written: str, extra: Collection[str] = ()) -> str:
    """The end of a complaint about an unknown key: the nearest known one, or where to look.

    `extra` are dotted keys beyond the schema's.
    """
    near = _key_near(written, [*KEYS, *extra])
    if near:
        return f"; did you mean {near!r}?"
    section = written.partition(".")[0]
    if section not in SECTIONS:
        close = nearest(section, SECTIONS)
        return f"; did you mean the section {close!r}?" if close else f"; {_ALL_SECTIONS}"
    names = [key.partition(".")[2] for key in (*KEYS, *extra) if key.startswith(f"{section}.")]
    shown = [name for name in names if not name.startswith(("optimizer_", "target_", "judge_"))]
    return f"; {section} has {', '.join(shown)}"


def _key_near(written: str, keys: Collection[str]) -> str | None:
    section, dot, name = written.rpartition(".")
    if not dot:
        return nearest(written, NAMES)
    if found := NAMES.get(name):
        return found
    inside = [key.partition(".")[2] for key in keys if key.startswith(f"{section}.")]
    if found := nearest(name, inside):
        return f"{section}.{found}"
    if found := nearest(written, keys, _SURE):
        return found
    found = nearest(name, NAMES, _SURE)
    return NAMES[found] if found else None


def flat_flags() -> Mapping[str, str]:
    """Every flat flag, without dashes, with the dotted key that it sets."""
    return NAMES


def read_overrides(overrides: Iterable[str]) -> dict[str, GivenValue]:
    """Settings from `key=value` texts; later ones win."""
    settings: dict[str, GivenValue] = {}
    wrong: list[str] = []
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = name.strip().split(".")
        if not equals or not all(parts):
            wrong.append(
                f"{redact(text)!r} is not an override; write key=value, as in train.num_epochs=2"
            )
            continue
        origin = f"command line ({name.strip()}={_hidden(parts[-1], value)})"
        settings = merge(settings, _setting(parts, read_value(value), origin))
    if wrong:
        raise ConfigError("\n".join(wrong))
    return settings


def read_flags(flags: Mapping[str, str]) -> dict[str, GivenValue]:
    """Settings from flags by their name, with `-` or `_`, without the leading dashes."""
    settings: dict[str, GivenValue] = {}
    for flag, text in flags.items():
        name = flag.lstrip("-").replace("-", "_")
        origin = f"command line (--{name} {_hidden(name, text)})"
        settings = merge(settings, _setting([name], read_value(text), origin))
    return settings


def read_values(values: Mapping[str, object]) -> dict[str, GivenValue]:
    """Settings from Python values by dotted or flat name."""
    settings: dict[str, GivenValue] = {}
    for name, value in values.items():
        settings = merge(settings, _setting(name.split("."), value, f"argument {name}"))
    return settings


def _setting(parts: Sequence[str], value: object, origin: str) -> dict[str, GivenValue]:
    if parts[0] == "env" and len(parts) > 2:
        for part in reversed(parts[2:]):
            value = {part: value}
        return {f"env.{parts[1]}": GivenValue(value, origin)}
    key = resolve(parts) if len(parts) <= 2 else None
    return {".".join(parts) if key is None else key: GivenValue(value, origin)}


def _hidden(name: str, value: str) -> str:
    text = shown_value(name, value.strip())
    return text if len(text) <= 60 else f"{text[:57]}..."
