"""A temporary home directory for one call, with the user's credentials only."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_KEYCHAINS: Final = "Library/Keychains"
"""Where macOS keeps what programs would else keep in a file."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What a program would find of the user's if it were run by hand."""

    home: Path
    folder: Path
    """The program's own folder."""
    cache: Path
    """Where programs keep what they can make again, such as their unpacked selves."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs for one call."""

    root: Path
    folder: Path
    """The program's own folder, as far as it knows."""
    owner: Owner

    @property
    def work(self) -> Path:
        """The current folder: empty."""
        return self.root / "work"

    @property
    def side(self) -> Path:
        """For files that go to the program or come from it."""
        return self.root / "side"

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that lead the program here and not to the user's own files."""
        home, temporary = str(self.root / "home"), str(self.root / "tmp")
        return {
            "HOME": home,
            "USERPROFILE": home,
            "TMPDIR": temporary,
            "TEMP": temporary,
            "TMP": temporary,
        }


@contextmanager
def temporary_home(owner: Owner, folder: str, credentials: Iterable[str]) -> Generator[Place]:
    """A home in which the program's `folder` holds links to these files of the user's.

    A program that renews a credential writes through the link; if it puts a new file in place of
    the link, that file becomes the user's, whose old one may no longer be valid.
    """
    with TemporaryDirectory(prefix="skillopt-", ignore_cleanup_errors=True) as made:
        root = Path(made)
        place = Place(root, root / "home" / folder, owner)
        for each in (place.folder, place.work, place.side, root / "tmp"):
            each.mkdir(parents=True, mode=0o700)
        _link(owner.home / _KEYCHAINS, root / "home" / _KEYCHAINS)
        lent = [(owner.folder / name, place.folder / name) for name in credentials]
        for own, here in lent:
            _link(own, here)
        try:
            yield place
        finally:
            for own, here in lent:
                _keep(own, here)


def _link(own: Path, here: Path) -> None:
    if own.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        try:
            here.symlink_to(own.absolute())
        except OSError:  # Windows, for users without the right to make links
            if own.is_file():
                shutil.copyfile(own, here)


def _keep(own: Path, here: Path) -> None:
    """Take over a file that the program put in place of the link, unless it is half written."""
    if here.is_symlink() or not own.is_file():
        return
    with suppress(OSError, ValueError, RecursionError):
        new = here.read_bytes()
        json.loads(new)
        if new != own.read_bytes():
            fresh = own.with_name(f".{own.name}.skillopt")
            fresh.touch(mode=0o600)
            fresh.write_bytes(new)
            os.replace(fresh, own.resolve())  # noqa: PTH105 - the user's file may be a link itself
