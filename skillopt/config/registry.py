"""Finds built-in parts and extensions by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, reduce
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Generic, TypeGuard, TypeVar

from skillopt.core.extras import install_command
from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError

T = TypeVar("T")


def points(group: str) -> EntryPoints:
    """The entry points of a group."""
    return _points(group, tuple(sys.path))


@cache
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:
    return _installed(path).select(group=group)


@cache
def _installed(path: tuple[str, ...]):  # the type has another name before Python 3.12
    """All of them; finding any reads a file of every installed package."""
    return entry_points()


@dataclass(frozen=True)
class Registry(Generic[T]):
    """A lazy view of one entry-point group; nothing is imported until it is asked for."""

    group: str
    what: str
    """One of its parts in words: `environment`."""
    accepts: Callable[[object], TypeGuard[T]]
    """Whether a loaded object is such a part."""
    aliases: Collection[str] = ()
    """Other names that a configuration may use."""

    @property
    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted({point.name for point in points(self.group)})

    def load(self, name: str) -> T:
        """Import what a registered name or a `module:Name` stands for."""
        part = _import_path(name, self.what) if ":" in name else self._registered(name)
        if not self.accepts(part):
            raise ConfigError(f"{name!r} can be imported but is no {self.what}")
        return part

    def unknown(self, name: str) -> str:
        """What is wrong with a name that no or several parts have; blank if it names a module."""
        if ":" in name:
            return ""
        names = self.names
        if name in names:
            return self._ambiguous(name)
        if not names:
            return (
                f"no {self.what} is registered (entry points {self.group}), so the installation is "
                "older than the source; install it again, as in: pip install --no-deps -e ."
            )
        listed = f"known: {', '.join(names)}, or module:Name for your own"
        hint = did_you_mean(name, (*names, *self.aliases))
        return f"no {self.what} is named {name!r}; " + (f"{hint} ({listed})" if hint else listed)

    def _ambiguous(self, name: str) -> str:
        """Which packages register different parts by this name; blank if there is one part."""
        same = [point for point in points(self.group) if point.name == name]
        if len({point.value for point in same}) == 1:
            return ""
        listed = " and ".join(
            f"{point.dist.name if point.dist else 'an unknown package'} ({point.value})"
            for point in same
        )
        return (
            f"several packages register {self.what} {name!r}: {listed}; uninstall one, or write "
            "module:Name"
        )

    def _registered(self, name: str) -> object:
        if problem := self.unknown(name):
            raise ConfigError(problem)
        point = next(point for point in points(self.group) if point.name == name)
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the {self.what} {name!r} cannot be imported: {error}{_extra(point)}"
            ) from error


def _extra(point: EntryPoint) -> str:
    if not point.extras or point.dist is None:
        return ""
    return f"; install it with: {install_command(','.join(point.extras), point.dist.name)}"


def _import_path(path: str, what: str) -> object:
    module, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # At the end, so that a file beside the configuration cannot shadow an installed package.
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        return reduce(getattr, name.split("."), importlib.import_module(module))
    except (Exception, SystemExit) as error:  # by mistake of who wrote the module
        raise ConfigError(
            f"the {what} {path!r} cannot be imported: {error}; "
            "write module:Name, with the module installed or in the current directory"
        ) from error
