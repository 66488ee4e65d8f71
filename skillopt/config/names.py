"""Names of keys as somebody wrote them: dotted, flat, old or misspelt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from skillopt.config.keys import described
from skillopt.config.sections import KEYS, SECTIONS
from skillopt.core.nearest import nearest

IGNORED: Final = {
    "train.steps_per_epoch": "it follows from the size of the train split and the batch size",
    "gradient.max_analyst_rounds": "each minibatch is read once",
    "optimizer.meta_learning_rate": "meta reflect uses the learning rate of the epoch's last step",
    "model.codex_exec_full_auto": "say what the program may do with model.codex_exec_sandbox",
}
"""Keys that older files may hold and that have no effect, each with the reason."""

_OF_PARTS: Final = (
    "agent_seconds",
    "answer_file",
    "data_root",
    "image_detail",
    "max_api_workers",
    "max_steps",
    "max_turns",
    "mode",
    "shuffle_choices",
    "skill_use",
    "use_sketch",
    "use_theorem",
)
"""Flat names of keys that only some environments and harnesses have."""

_OLDER: Final = {"teacher": "optimizer", "student": "target"}
"""Roles as they were once called, alone or in front of an underscore."""

_SURE: Final = 0.75
"""How alike a key of another section must be."""

FLAT: Final = {key: described(field).flat for key, field in KEYS.items() if described(field).flat}
"""Keys whose flat name is not their last part."""
_ALSO: Final = {name: key for key, field in KEYS.items() for name in described(field).also}


def flat_name(key: str) -> str:
    """The flat name under which users know a dotted key."""
    return FLAT.get(key, key.partition(".")[2])


def _flat_names() -> dict[str, str]:
    by_bare: dict[str, list[str]] = {}
    for key in (*KEYS, *IGNORED, *(f"env.{name}" for name in _OF_PARTS)):
        by_bare.setdefault(key.partition(".")[2], []).append(key)
    # `name` alone says nothing of what it names; the environment is chosen by `env`.
    names = {bare: keys[0] for bare, keys in by_bare.items() if len(keys) == 1 and bare != "name"}
    names |= {flat: key for key, flat in FLAT.items()}
    names |= {name: key for name, key in _ALSO.items() if "." not in name}
    for old, new in _OLDER.items():
        roles = [name for name in names if name == new or name.startswith(f"{new}_")]
        names |= {old + name.removeprefix(new): names[name] for name in roles}
    return names


NAMES: Final[Mapping[str, str]] = _flat_names()
"""Every flat name, old ones included, with the dotted key that it stands for."""


def resolve(path: Sequence[str]) -> str | None:
    """The dotted key that a path of one or two names stands for; None when there is none.

    Every key of `env` stands for itself: only the environment knows which ones it has.
    """
    if len(path) == 1:
        return NAMES.get(path[0])
    section, name = path
    if section == "model":
        head, line, tail = name.partition("_")
        name = _OLDER.get(head, head) + line + tail
    key = _ALSO.get(f"{section}.{name}", f"{section}.{name}")
    if key in KEYS or key in IGNORED:
        return key
    renamed = NAMES.get(name, "")
    if renamed.startswith(f"{section}."):
        return renamed
    return key if section == "env" else None


def suggestion(written: str, extra: Collection[str] = ()) -> str:
    """The end of a complaint about an unknown key: the nearest known one, or where to look.

    `extra` are dotted keys beyond the schema's.
    """
    keys = [*KEYS, *extra]
    if near := _key_near(written, keys):
        return f"; did you mean {near!r}?"
    section = written.partition(".")[0]
    if section not in SECTIONS:
        close = nearest(section, SECTIONS)
        listed = f"the sections are {', '.join(SECTIONS)}"
        return f"; did you mean the section {close!r}?" if close else f"; {listed}"
    names = [key.partition(".")[2] for key in keys if key.startswith(f"{section}.")]
    shown = [name for name in names if not name.startswith(("optimizer_", "target_", "judge_"))]
    return f"; {section} has {', '.join(shown)}"


def _key_near(written: str, keys: Collection[str]) -> str | None:
    section, dot, name = written.rpartition(".")
    if not dot:
        return nearest(written, NAMES)
    if key := NAMES.get(name):
        return key
    inside = [key.partition(".")[2] for key in keys if key.startswith(f"{section}.")]
    if near := nearest(name, inside):
        return f"{section}.{near}"
    if near := nearest(written, keys, _SURE):
        return near
    near = nearest(name, NAMES, _SURE)
    return NAMES[near] if near else None
