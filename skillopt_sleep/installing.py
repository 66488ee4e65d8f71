"""Installs the plugin of an agent program below a home, and takes it away again exactly."""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError, StoreError
from skillopt.store.files import json_bytes, write_atomic
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.merging import Entry, mentions_us
from skillopt_sleep.plugins import Plugin, plugins
from skillopt_sleep.sources.fields import VARIABLES, variable_of
from skillopt_sleep.staging import digest, private_folder

_FOLDER: Final = "installed"
_VARIABLES: Final = {
    ".claude": VARIABLES["claude_home"],
    ".codex": VARIABLES["codex_home"],
    ".copilot": VARIABLES["copilot_home"],
    ".openclaw": VARIABLES["openclaw_home"],
}
"""Variables by which programs are told another folder than the one in the home."""


class _Merged(BaseModel):
    """A configuration file of the program that has an entry of ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: str | None
    """The file without the entry, in base64; none: there was no file. It is only for the file that
    `sha256` names: in any other one there is something that it does not have."""
    sha256: str
    """Of the file with the entry."""


class _Record(BaseModel):
    """What was installed: enough to take it away."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, str] = {}
    """Our own files below the home, with their SHA-256."""
    merged: dict[str, _Merged] = {}
    folders: list[str] = []
    """Those that were made for these files, the innermost first."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What a command did, by path."""

    agent: str
    changed: tuple[Path, ...]
    kept: tuple[Path, ...] = ()
    """Files of ours that the user has changed; they are left."""
    note: str = ""


def install(agent: str, *, home: Path | None = None, state: Path) -> Installation:
    """Install a plugin, or bring it up to date; a second time changes nothing.

    Raises:
        ConfigError: There is no plugin for this program.
        RefusedChange: A file is in the way, or a configuration cannot be changed without loss.
            Nothing was changed.
        StoreError: Something cannot be written.
    """
    return to_install(agent, home=home, state=state)()


def to_install(agent: str, *, home: Path | None = None, state: Path) -> Callable[[], Installation]:
    """The same in two steps, so that several can be checked before the first is written.

    Args:
        agent: The agent program.
        home: The user's home.
        state: Where it is written down what was installed.

    Raises:
        ConfigError: There is no plugin for this program.
        RefusedChange: A file is in the way, or a configuration cannot be changed without loss.
            Nothing was changed.
        StoreError: Something cannot be written.
    """
    plugin, below = _moved(plugin_of(agent), home), home or Path.home()
    path = state / _FOLDER / f"{agent}.json"
    record = _read(path)
    texts = {name: text.encode() for name, text in plugin.files.items()}
    for name, data in texts.items():
        _check_free(below / name, record.files.get(name), data)
    merged = {
        name: _merge(below / name, record.merged.get(name), entry)
        for name, entry in plugin.entries.items()
    }

    def write() -> Installation:
        old = [name for name in record.files if name not in texts]
        made = _missing_folders(below, [*texts, *merged])
        changed = [_write(below / name, data) for name, data in texts.items()]
        changed += [_write(below / name, after) for name, (after, _) in merged.items()]
        changed += [_remove(below / name) for name in old]
        known = {name: known for name, (_, known) in merged.items() if known is not None}
        files = {name: digest(data) for name, data in texts.items()}
        folders = sorted({*made, *record.folders}, key=len, reverse=True)
        _remove_empty(below, [folder for folder in folders if folder not in made])
        now = _Record(files=files, merged={**record.merged, **known}, folders=folders)
        private_folder(state)
        # It holds copies of configurations that others may not read.
        write_atomic(path, json_bytes(now.model_dump()), mode=0o600)
        return Installation(agent, tuple(place for place in changed if place), note=plugin.note)

    return write


def uninstall(agent: str, *, home: Path | None = None, state: Path) -> Installation:
    """Take a plugin away: its files, and its entry in each configuration.

    A configuration that nobody changed since is restored to the byte. A file of ours that the user
    has changed is left.

    Raises:
        ConfigError: There is no plugin for this program.
        RefusedChange: A configuration cannot be changed without loss. Nothing was changed.
        StoreError: Something cannot be written.
    """
    return to_uninstall(agent, home=home, state=state)()


def to_uninstall(
    agent: str, *, home: Path | None = None, state: Path
) -> Callable[[], Installation]:
    """The same in two steps, as `to_install`."""
    plugin, below = _moved(plugin_of(agent), home), home or Path.home()
    path = state / _FOLDER / f"{agent}.json"
    record = _read(path)
    # A variable may have named another folder when it was installed.
    entries = dict(plugin.entries)
    entries |= {name: entry for name in record.merged for entry in plugin.entries.values()}
    restored = {
        name: _restored(below / name, record.merged.get(name), entry)
        for name, entry in entries.items()
    }

    def write() -> Installation:
        changed = [_write(below / name, data) for name, data in restored.items()]
        kept: list[Path] = []
        # Files are known even if they were not written down because of a kill.
        files = {name: digest(text.encode()) for name, text in plugin.files.items()} | record.files
        for name, sha256 in files.items():
            place = below / name
            if place.is_file() and digest(place.read_bytes()) != sha256:
                kept.append(place)
            else:
                changed.append(_remove(place))
        _remove_empty(below, record.folders)
        path.unlink(missing_ok=True)
        return Installation(agent, tuple(place for place in changed if place), tuple(kept))

    return write


def plugin_of(agent: str) -> Plugin:
    """The plugin of a program.

    Raises:
        ConfigError: There is none.
    """
    known = plugins()
    if agent not in known:
        near = did_you_mean(agent, known) or f"there are {', '.join(known)}"
        raise ConfigError(f"there is no plugin for {agent!r}; {near}")
    return known[agent]


def _moved(plugin: Plugin, home: Path | None) -> Plugin:
    """The same with the folders that variables name, where it is for the user of this process."""

    def moved(name: str) -> str:
        folder, _, rest = name.partition("/")
        said = "" if home is not None else variable_of(_VARIABLES.get(folder, ""))
        return str(Path(said).expanduser().absolute() / rest) if said else name

    files = {moved(name): text for name, text in plugin.files.items()}
    entries = {moved(name): entry for name, entry in plugin.entries.items()}
    return replace(plugin, files=files, entries=entries)


def _read(path: Path) -> _Record:
    try:
        return _Record.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return _Record()
    except (OSError, ValidationError) as error:
        raise StoreError(f"{path} cannot be read; move it away: {error}") from None


def _check_free(place: Path, ours: str | None, data: bytes) -> None:
    """Refuse to replace a file that we did not write, or that was changed since."""
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise RefusedChange(f"{place} is in the way; move it away. Nothing was changed.")
    if place.is_file() and digest(place.read_bytes()) not in (ours, digest(data)):
        raise RefusedChange(
            f"{place} is there with other content; move it away. Nothing was changed."
        )


def _merge(place: Path, known: _Merged | None, entry: Entry) -> tuple[bytes, _Merged | None]:
    """A configuration as it is to be, and what to write down of it if it changes."""
    live = _one_name(place)
    try:
        after = _changed(live, entry.added)
        if after == live:
            return after, None
        if known and live is not None and digest(live) == known.sha256:
            before = known.before
        else:
            before = _packed(None if live is None else _changed(live, entry.removed))
    except RefusedChange as error:
        raise RefusedChange(f"{place}: {error}. Nothing was changed.") from None
    return after, _Merged(before=before, sha256=digest(after))


def _restored(place: Path, merged: _Merged | None, entry: Entry) -> bytes | None:
    live = _bytes(place)
    if live is None or not mentions_us(live):  # never installed there, or removed by hand
        return live
    _one_name(place)
    if merged and digest(live) == merged.sha256:
        return None if merged.before is None else b64decode(merged.before)
    try:
        return _changed(live, entry.removed)
    except RefusedChange as error:
        raise RefusedChange(f"{place}: {error}. Nothing was changed.") from None


def _changed(data: bytes | None, change: Callable[[str], str]) -> bytes:
    mark = BOM_UTF8 if data and data.startswith(BOM_UTF8) else b""
    try:
        return mark + change((data or b"").removeprefix(mark).decode("utf-8")).encode()
    except UnicodeError:  # in its bytes, or in what an escape stands for
        raise RefusedChange("it holds what is not UTF-8") from None
    except RecursionError:
        raise RefusedChange("it is nested too deeply to be read") from None


def _one_name(place: Path) -> bytes | None:
    """A configuration; one with a second name is refused, which would keep the old content."""
    live = _bytes(place)
    if live is not None and place.stat().st_nlink > 1:
        raise RefusedChange(
            f"{place} has several hard links, and only one would change; make it a symbolic link "
            "or a file of its own. Nothing was changed."
        )
    return live


def _bytes(place: Path) -> bytes | None:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedChange(f"{place} cannot be read: {error.strerror}") from None


def _packed(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _write(place: Path, data: bytes | None) -> Path | None:
    """The path if it changed. A link stays one: what it leads to is written."""
    real = Path(os.path.realpath(place))
    if _bytes(real) == data:
        return None
    if data is None:
        real.unlink()
        return place
    mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else None
    write_atomic(real, data, mode=mode)
    return place


def _remove(place: Path) -> Path | None:
    if not place.is_file():
        return None
    place.unlink()
    return place


def _missing_folders(home: Path, names: Sequence[str]) -> list[str]:
    """Folders of these files that are not there yet."""
    folders = {folder for name in names for folder in (home / name).parents}
    return [str(folder) for folder in folders if not folder.exists()]


def _remove_empty(home: Path, folders: Sequence[str]) -> None:
    """Remove those of the folders, the innermost first, in which nothing is left."""
    for folder in folders:
        place = home / folder
        if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
            place.rmdir()
