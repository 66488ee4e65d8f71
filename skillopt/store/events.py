"""The event log of a run in one append-only file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillopt.core.events import Event, Fact
from skillopt.errors import LogRewritten, OldFormat, StoreError
from skillopt.store import codec
from skillopt.store.files import sync_folder, unwritable

FORMAT = 2

_HEAD = re.compile(rb'\{"v":\d+,"seq":(?P<number>\d{1,18}),"sum":"(?P<sum>[0-9a-f]{16})",')
_VERSION = re.compile(rb'\{"v":(\d{1,9})(?:,|\Z)')
_BLOCK = 64 * 1024
"""Bytes that are read at once on the way back to the start of a line."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its position in the log."""

    event: Event
    position: int
    """Bytes from the start of the log to the end of this event: `after` for what follows it."""


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The end of a whole line: what the checksum of the next one depends on."""

    position: int = 0
    number: int = 0
    sum: str = ""


class LogReader:
    """Reads a log that may still grow. Reading on costs what is new, however long the log is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.last = LineEnd()
        """The end of the last line that was read."""

    def read(self, after: int = 0) -> list[LoggedEvent]:
        """The events behind a position, each verified; a torn last line is left for later.

        An absent file is an empty one. `LogRewritten` if the log no longer has a line that ends at
        this position, or if it is not the line that this reader has read there.
        """
        try:
            with self._path.open("rb") as file:
                line_end = self._line_end(file, after)
                data = file.read()
        except FileNotFoundError:
            if after:
                raise self._rewritten(after) from None
            return []
        except OSError as error:
            raise StoreError(f"cannot read {self._path}: {error.strerror}") from error
        if not after:
            _check_version(self._path, data)  # also of a first line that is torn
        lines = data.split(b"\n")
        torn = lines.pop()
        if lines and not torn and not _parses(lines[-1]):
            lines.pop()
        entries: list[LoggedEvent] = []
        for line in lines:
            event, line_end = _read_line(self._path, line, line_end)
            entries.append(LoggedEvent(event, line_end.position))
        self.last = line_end
        return entries

    def _line_end(self, file: BinaryIO, position: int) -> LineEnd:
        """The line that ends at a position; the file is left there."""
        if position == 0:
            return LineEnd()
        if not 0 < position <= file.seek(0, os.SEEK_END):
            raise self._rewritten(position)
        start, tail = position, b""
        while start and b"\n" not in tail[:-1]:
            size = min(_BLOCK, start)
            start = file.seek(start - size)
            tail = file.read(size) + tail
        line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        head = _HEAD.match(line)
        if head is None or not line.endswith(b"\n"):
            raise self._rewritten(position)
        line_end = LineEnd(position, int(head["number"]), head["sum"].decode())
        if self.last.position == position and self.last != line_end:
            raise self._rewritten(position)
        file.seek(position)
        return line_end

    def _rewritten(self, position: int) -> LogRewritten:
        return LogRewritten(
            f"{self._path} was cut or rewritten: it no longer has the event that ended at byte "
            f"{position}. Open the run again and read it from the beginning."
        )


def read_log(path: Path) -> tuple[Event, ...]:
    """All events of a log, verified; a torn last line is left out."""
    return tuple(entry.event for entry in LogReader(path).read())


def check_log_format(path: Path) -> None:
    """Refuse a log of another format, by its first bytes; what it holds is not looked at."""
    try:
        with path.open("rb") as file:
            _check_version(path, file.read(32))
    except OSError:
        return  # told when it is read


class EventFile:
    """The `EventLog` in a file. Nothing is created before the first event.

    Only one process may write: hold the run's lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = LogReader(path)
        self._events = [entry.event for entry in reader.read()]
        self._last = reader.last
        self.dropped = path.stat().st_size - self._last.position if path.exists() else 0
        """Bytes of a torn last line that were cut off."""
        if self.dropped:
            self._cut()

    def append(self, event: Event) -> None:
        """Record before returning: a fact durably, a note at least beyond this process."""
        payload = codec.events().encode(event)
        try:
            codec.events().decode(payload)
        except ValueError as error:
            raise StoreError(
                f"{self._path}: {type(event).__name__} is not written, because it could not be "
                f"read back: {codec.problem(error)}"
            ) from error
        line, last = _line(payload, self._last)
        try:
            self._write(line, durable=isinstance(event, Fact))
        except OSError as error:
            self._cut()
            raise unwritable(self._path, error) from error
        self._last = last
        self._events.append(event)

    def events(self) -> Sequence[Event]:
        return tuple(self._events)

    def _write(self, line: bytes, *, durable: bool) -> None:
        first = self._last.position == 0
        if first:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            if file.tell() != self._last.position:
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
                file.truncate(self._last.position)
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error


def _line(payload: bytes, previous: LineEnd) -> tuple[bytes, LineEnd]:
    number = previous.number + 1
    summed = f"{previous.sum}/{number}/".encode() + payload
    checksum = hashlib.sha256(summed).hexdigest()[:16]
    head = f'{{"v":{FORMAT},"seq":{number},"sum":"{checksum}",'
    line = head.encode() + payload[1:] + b"\n"
    return line, LineEnd(previous.position + len(line), number, checksum)


def _read_line(path: Path, line: bytes, previous: LineEnd) -> tuple[Event, LineEnd]:
    _check_version(path, line)
    head = _HEAD.match(line)
    payload = b"{" + line[head.end() :] if head else b""
    whole, end = _line(payload, previous)
    if whole != line + b"\n":
        raise _damaged(path, end.number)
    try:
        return codec.events().decode(payload), end
    except ValueError as error:
        if kind := codec.unknown_kind(error):
            raise StoreError(
                f"{path}, line {end.number}: {kind!r} is no kind of event that is installed here. "
                "Install the package that wrote it (an entry point of the group skillopt.facts)."
            ) from error
        raise _damaged(path, end.number) from error


def _check_version(path: Path, line: bytes) -> None:
    match = _VERSION.match(line)
    version = int(match[1]) if match else FORMAT
    if version > FORMAT:
        raise StoreError(
            f"{path} was written by a newer version of skillopt (record format {version}, "
            f"this one reads {FORMAT}). Upgrade skillopt to continue this run."
        )
    if version < FORMAT:
        raise OldFormat(
            f"{path} was written by an earlier version of skillopt (record format {version}, this "
            f"one reads {FORMAT}). Only the version that wrote it (0.3.0 or earlier) can show or "
            "finish this run; with this one, train into another directory (env.out_root), for "
            "example from its best_skill.md (env.skill_init)."
        )


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _damaged(path: Path, number: int) -> StoreError:
    return StoreError(
        f"{path}, line {number}: the record was changed or is damaged here. "
        "Restore the file from a copy, or delete this line and all after it and run the same "
        "command again: finished work is safe in cache.sqlite and is not paid twice."
    )
