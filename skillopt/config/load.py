"""Loads a configuration from files, overrides, flags and Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from skillopt.config.given import GivenValue, merge, read
from skillopt.config.local_models import local_defaults
from skillopt.config.names import NAMES, resolve
from skillopt.config.recipe import recipe_defaults
from skillopt.config.redaction import redact, shown_value
from skillopt.config.schema import Config, configure
from skillopt.config.sections import SECTIONS
from skillopt.config.yaml12 import FileEntry, read_entries, read_value
from skillopt.core.nearest import did_you_mean
from skillopt.core.paths import STARTED_IN
from skillopt.errors import ConfigError

_BASE = "_base_"
_DERIVED = ("steps_per_epoch", "batches_per_epoch", "samples_per_epoch", STARTED_IN)
"""What a run writes beside its settings, because it follows from them, the data and the place."""


def load_config(
    path: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
    values: Mapping[str, object] | None = None,
) -> Config:
    """Read a configuration; each source goes before the ones named earlier.

    Args:
        path: A YAML file; without one, the defaults of the schema are the start.
        overrides: `a.b=c` texts; the value is read as YAML reads it.
        flags: Flat flags by name, each with the text that followed it.
        values: Python values by dotted or flat name.

    Raises:
        ConfigError: With every mistake on a line of its own: key, reason, nearest key, origin.
    """
    settings = _read_file(path, ()) if path is not None else {}
    settings = merge(settings, _typed(overrides, flags or {}))
    settings = merge(settings, _values(values or {}))
    config = configure(settings)
    chosen = {**recipe_defaults(config), **local_defaults(config)}
    return configure({**settings, **chosen}) if chosen else config


def load_kept(
    kept: Mapping[str, object],
    *,
    overrides: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
) -> Config:
    """The configuration that `Config.flat` told; overrides and flags go before it.

    Names that are no keys of the schema are the environment's own. A relative path that is not in
    the current directory is looked for where the run was started.
    """
    settings = _values(
        {
            name if "." in name or name in NAMES else f"env.{name}": value
            for name, value in kept.items()
            if name not in _DERIVED
        }
    )
    if started_in := kept.get(STARTED_IN):
        folder = Path(str(started_in))
        settings = {key: replace(each, folder=folder) for key, each in settings.items()}
    return configure(merge(settings, _typed(overrides, flags or {})))


def _typed(overrides: Iterable[str], flags: Mapping[str, str]) -> dict[str, GivenValue]:
    """Settings from `key=value` texts and, after them, from flags; later ones win."""
    settings: dict[str, GivenValue] = {}
    wrong: list[str] = []
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = name.strip().split(".")
        if equals and all(parts):
            origin = f"command line ({name.strip()}={_hidden(parts[-1], value)})"
            settings = merge(settings, _setting(parts, read_value(value), origin))
        else:
            wrong.append(
                f"{redact(text)!r} is not an override; write key=value, as in train.num_epochs=2"
            )
    if wrong:
        raise ConfigError("\n".join(wrong))
    for flag, text in flags.items():
        name = flag.lstrip("-").replace("-", "_")
        origin = f"command line (--{name} {_hidden(name, text)})"
        settings = merge(settings, _setting([name], read_value(text), origin))
    return settings


def _values(values: Mapping[str, object]) -> dict[str, GivenValue]:
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


def _read_file(path: Path, above: tuple[Path, ...]) -> dict[str, GivenValue]:
    """The settings of a file and of the files it is based on."""
    place, name = path.resolve(), _name(path)
    if place in above:
        chain = " -> ".join(_name(file) for file in (*above[above.index(place) :], place))
        raise ConfigError(f"{name}: {_BASE} leads back to the file itself: {chain}")
    if above and not path.is_file():
        raise ConfigError(f"{name}: no such file; it is the {_BASE} of {_name(above[-1])}")
    if not path.exists() or path.is_dir():
        raise ConfigError(f"{name}: no such file{_neighbour(path)}")
    entries = read_entries(path, name)
    settings: dict[str, GivenValue] = {}
    for base in _bases(entries, name):
        settings = merge(settings, _read_file(path.parent / base, (*above, place)))
    own = [entry for entry in entries if entry.path[0] != _BASE]
    for structured in (False, True):
        tier = [entry for entry in own if (len(entry.path) == 2) is structured]
        settings = merge(settings, _tier(tier, name, path.parent))
    return settings


def _bases(entries: Iterable[FileEntry], name: str) -> list[str]:
    for entry in entries:
        if entry.path[0] == _BASE:
            value = read(entry.value)
            bases = cast("list[object]", value) if isinstance(value, list) else [value]
            if len(entry.path) == 1 and all(isinstance(base, str) for base in bases):
                return cast("list[str]", bases)
            raise ConfigError(f"{name}:{entry.line}: {_BASE} should be a path or a list of paths")
    return []


def _tier(entries: Iterable[FileEntry], name: str, folder: Path) -> dict[str, GivenValue]:
    """Settings of one file in one spelling; a key under two names is given twice."""
    settings: dict[str, GivenValue] = {}
    first: dict[str, FileEntry] = {}
    for entry in entries:
        if len(entry.path) == 1 and entry.path[0] in SECTIONS and read(entry.value) is None:
            continue  # a section without keys
        written = ".".join(entry.path)
        key = resolve(entry.path)
        key = written if key is None else key
        if key in first:
            other = first[key]
            raise ConfigError(
                f"{name}:{entry.line}: {written!r} and {'.'.join(other.path)!r} "
                f"(line {other.line}) are the same key {key!r}; keep one"
            )
        first[key] = entry
        settings[key] = GivenValue(entry.value, f"{name}:{entry.line}", folder)
    return settings


def _name(path: Path) -> str:
    """What messages call a file: its path in the current directory if it lies there."""
    place, here = path.resolve(), Path.cwd()
    return str(place.relative_to(here) if place.is_relative_to(here) else place)


def _neighbour(path: Path) -> str:
    if path.is_dir():
        return "; it is a folder, name a file in it"
    beside = [file.name for file in path.parent.glob("*.yaml")]
    return f"; {did_you_mean(path.name, beside) or 'check the path'}"
