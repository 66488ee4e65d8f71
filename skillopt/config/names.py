"""Finds the key of the schema for a key as written, or the nearest key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from skillopt.config.legacy import IGNORED, MOVED, flat_names, modern
from skillopt.config.sections import KEYS, SECTIONS
from skillopt.core.nearest import nearest

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
