"""The event log of a run in one append-only file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.core.events import Event, Fact
from skillopt.errors import StoreError
from skillopt.store import codec
from skillopt.store.files import sync_folder, unwritable

FORMAT = 1

_HEAD = re.compile(rb'\{"v":\d+,"seq":\d+,"sum":"[0-9a-f]{16}",')
_VERSION = re.compile(rb'\{"v":(\d{1,9}),')


@dataclass(frozen=True, slots=True)
class LogContent:
    """The sound part of a log file."""

    events: tuple[Event, ...] = ()
    size: int = 0
    """Its length in bytes; what the file holds beyond is a torn last line."""
    sum: str = ""


def read_log(path: Path) -> LogContent:
    """Read and verify a log; an absent file is an empty one, a torn last line is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return LogContent()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    lines = data.split(b"\n")
    torn = lines.pop()
    if lines and not torn and not _parses(lines[-1]):
        torn = lines.pop() + b"\n"
    events: list[Event] = []
    previous = ""
    for number, line in enumerate(lines, start=1):
        event, previous = _read_line(path, number, line, previous)
        events.append(event)
    return LogContent(tuple(events), len(data) - len(torn), previous)


class EventFile:
    """A `Record` in a file. Nothing is created before the first event.

    Only one process may write: hold the run's lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        log = read_log(path)
        self._events = list(log.events)
        self._size = log.size
        self._sum = log.sum
        self.dropped = path.stat().st_size - log.size if path.exists() else 0
        """Bytes of a torn last line that were cut off."""
        if self.dropped:
            self._cut()

    def append(self, event: Event) -> None:
        """Record before returning: a fact durably, a note at least beyond this process."""
        payload = codec.events().encode(event)
        line, checksum = _line(len(self._events) + 1, payload, self._sum)
        try:
            self._write(line, durable=isinstance(event, Fact))
        except OSError as error:
            self._cut()
            raise unwritable(self._path, error) from error
        self._size += len(line)
        self._sum = checksum
        self._events.append(event)

    def events(self) -> Sequence[Event]:
        """Everything recorded so far, oldest first."""
        return tuple(self._events)

    def _write(self, line: bytes, *, durable: bool) -> None:
        first = self._size == 0
        if first:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            if file.tell() != self._size:
                raise StoreError(
                    f"{self._path} was changed by another program while this run was writing it. "
                    "Run the same command again to continue from what it holds now."
                )
            file.write(line)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if first:
            sync_folder(self._path.parent)

    def _cut(self) -> None:
        """Remove what is not a whole line, so that the next one starts on its own."""
        if not self._path.exists():
            return
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._size)
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error


def _line(number: int, payload: bytes, previous: str) -> tuple[bytes, str]:
    checksum = _checksum(number, payload, previous)
    head = f'{{"v":{FORMAT},"seq":{number},"sum":"{checksum}",'
    return head.encode() + payload[1:] + b"\n", checksum


def _checksum(number: int, payload: bytes, previous: str) -> str:
    return hashlib.sha256(f"{previous}/{number}/".encode() + payload).hexdigest()[:16]


def _read_line(path: Path, number: int, line: bytes, previous: str) -> tuple[Event, str]:
    version = _VERSION.match(line)
    if version and int(version[1]) > FORMAT:
        raise StoreError(
            f"{path} was written by a newer version of skillopt (record format {int(version[1])}, "
            f"this one reads {FORMAT}). Upgrade skillopt to continue this run."
        )
    head = _HEAD.match(line)
    payload = b"{" + line[head.end() :] if head else b""
    whole, checksum = _line(number, payload, previous)
    if whole != line + b"\n":
        raise _damaged(path, number)
    try:
        return codec.events().decode(payload), checksum
    except ValueError as error:
        raise _damaged(path, number) from error


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _damaged(path: Path, number: int) -> StoreError:
    return StoreError(
        f"{path}, line {number}: the record was changed or is damaged here. "
        "Restore the file from a copy, or delete this line and all after it and run the same "
        "command again: finished work is safe in cache.sqlite and is not paid twice."
    )


class NullLog:
    """Keeps nothing."""

    def append(self, event: Event) -> None:
        """Let it pass."""

    def events(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()
