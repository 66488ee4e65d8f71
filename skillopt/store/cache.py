"""The cache of finished attempts and calls, in one SQLite file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from skillopt.core.chat import Reply, Usage
from skillopt.core.rollout import Failure, Rollout, Score
from skillopt.errors import OldFormat, StoreError
from skillopt.store import codec
from skillopt.store.files import unwritable
from skillopt.store.ledger import (
    AMOUNTS,
    DELETE_RESERVATION,
    SUMS,
    TABLES,
    CallReservation,
    PrefetchCount,
    PrefetchTable,
    ReservationTable,
    amounts,
    attempt_ahead,
    booked,
    spend_ahead,
)

T = TypeVar("T")
_Statement: TypeAlias = tuple[str, tuple[object, ...]]
"""SQL and its values."""

SCHEMA = 2

# `value` comes last: sums over the other columns then need not read it.
_CREATE = f"""
BEGIN;
CREATE TABLE rollouts (
    crc INTEGER NOT NULL, key TEXT PRIMARY KEY, task TEXT NOT NULL, skill TEXT NOT NULL,
    replicate INTEGER NOT NULL, hard REAL NOT NULL, soft REAL NOT NULL, at REAL NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX rollouts_by_skill ON rollouts (skill, task);
CREATE TABLE calls (
    crc INTEGER NOT NULL, key TEXT PRIMARY KEY, move TEXT NOT NULL, role TEXT NOT NULL,
    stage TEXT NOT NULL, {AMOUNTS}, at REAL NOT NULL, value TEXT NOT NULL
);
{TABLES}
PRAGMA user_version = {SCHEMA};
COMMIT;
"""
_SURROUNDINGS = (
    "is full",
    "readonly",
    "unable to open",
    "locked",
    "disk I/O error",
    "out of memory",
    "interrupted",
)
"""Words of SQLite about the disk, permissions and other processes; any other is about the file."""
# Keys are hashes, so rows land all over the index: rare checkpoints write each page fewer times.
_PAGES_IN_WAL = 4000
# In files of this format that an earlier version wrote, there are no images apart.
_CREATE_IMAGES = (
    "CREATE TABLE IF NOT EXISTS images (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)"
)
_KEEP_IMAGE = "INSERT OR IGNORE INTO images VALUES (?,?)"
_FIND_IMAGE = "SELECT content FROM images WHERE sha256 = ?"
_KEEP_ROLLOUT = "INSERT OR IGNORE INTO rollouts VALUES (?,?,?,?,?,?,?,?,?)"
_KEEP_CALL = "INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
_FIND_ROLLOUT = "SELECT * FROM rollouts WHERE key = ?"
_FIND_CALL = "SELECT * FROM calls WHERE key = ?"
_ALL_KEYS = "SELECT key FROM rollouts UNION ALL SELECT key FROM calls"
# Rows of `calls` are never changed or deleted, so their numbers only grow.
_SPENT = (
    f"SELECT move, role, stage, max(rowid), {SUMS} FROM calls "  # noqa: S608 - fixed text
    "WHERE rowid > ? GROUP BY move, role, stage"
)


@dataclass(slots=True)
class ReuseCount:
    """What was asked for again and cost nothing."""

    attempts: int = 0
    calls: int = 0
    """Other than those of the attempts."""
    spared: dict[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])
    """What they took when they were made, by (role, stage)."""

    def spare(self, role: str, stage: str, usage: Usage) -> None:
        """Count what was not paid again."""
        self.spared[role, stage] = self.spared.get((role, stage), Usage()) + usage


class SqliteCache:
    """`Work` in a file: on disk before it is returned, so that it survives `kill -9`.

    Nothing is created before a call is about to be sent under a limit, or a piece of work is done.
    A `read_only` cache answers lookups only, and may be open while a run in another process writes.
    Of others, one may be open at a time: calls under way when it opens count as interrupted.
    `hide` takes secrets out of the texts of an attempt, of one that failed, too.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, hide: Callable[[str], str] = str
    ) -> None:
        self._path = path
        self._hide = hide
        self._read_only = read_only
        self.reused = ReuseCount()
        """In this process."""
        self._move = ""
        self._flights: dict[str, asyncio.Future[object]] = {}
        self._keys: set[str] = set()
        """What is kept, so that work which is new costs no lookup."""
        self._calls: dict[tuple[str, str, str], Usage] = {}
        self._counted = 0
        """What calls took by (move, role, stage), up to this row."""
        self._early: set[str] = set()
        """What was made ahead in this process for a move that is certain to come."""
        self._made = False
        """Whether the file was not there before."""
        self._db = self._open() if path.exists() and path.stat().st_size else None
        self._advances = PrefetchTable(self._run, self._rows)
        self._reservations = ReservationTable(self._run, self._rows)
        if not read_only:
            self._keys |= {key for (key,) in self._rows(_ALL_KEYS)}
            self._reservations.charge_unfinished()

    def enter(self, move: str) -> None:
        """From now on, calls are booked under this move."""
        self._move = move

    async def rollout(
        self,
        key: str,
        make: Callable[[], Awaitable[Rollout]],
        *,
        prefetch_for: str = "",
        certain: bool = False,
    ) -> tuple[Rollout, bool]:
        """The rollout kept under `key`, or make and keep it; True when it was there."""

        async def finish() -> Rollout:
            with attempt_ahead(prefetch_for, certain=certain) as ahead:
                made = await make()
            if certain:
                self._early.add(key)
            elif prefetch_for:
                self._advances.keep(key, made, sum(ahead.spent, Usage()))
            return self._keep_rollout(key, made)

        def find() -> Rollout | None:
            found = self._find(_FIND_ROLLOUT, codec.codec_of(Rollout), key)
            return None if found is None else self._whole(found)

        rollout, there = await self._once(f"rollout {key}", find, finish)
        if prefetch_for:
            return rollout, there
        ahead = key in self._early or self._advances.use(key)
        self._early.discard(key)
        there = there and not ahead
        self.reused.attempts += there
        if there and rollout.trajectory is not None:
            self.reused.spare("target", "rollout", rollout.trajectory.usage)
        return rollout, there

    async def reply(
        self, key: str, *, role: str, stage: str, make: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """The reply kept under `key`, or make and keep it."""

        async def finish() -> Reply:
            with self._reservations.answered() as calls:
                kept = self._keep_reply(key, role, stage, await make(), calls)
            spend_ahead(kept.usage)
            return kept

        find = partial(self._find, _FIND_CALL, codec.codec_of(Reply), key)
        reply, there = await self._once(f"reply {key}", find, finish)
        self.reused.calls += there
        if there:
            self.reused.spare(role, stage, reply.usage)
        return reply

    def spent(self) -> dict[tuple[str, str, str], Usage]:
        """What was paid in all processes of the run, by (move, role, stage)."""
        for move, role, stage, row, *numbers in self._rows(_SPENT, self._counted):
            place = move, role, stage
            self._calls[place] = self._calls.get(place, Usage()) + Usage(*numbers)
            self._counted = max(self._counted, row)
        spent = self._reservations.paid()
        for place, usage in self._calls.items():
            spent[place] = spent.get(place, Usage()) + usage
        return spent

    def reserve(self, role: str, stage: str, worst: Usage, *, limited: bool) -> CallReservation:
        """Write down the worst case of a call before it is sent, if a limit depends on it."""
        place = (booked() or self._move, role, stage)
        return self._reservations.reserve(place, worst, limited=limited)

    def charge(self, role: str, stage: str, usage: Usage) -> None:
        """Write down what was spent outside of a call, under the current move."""
        spend_ahead(usage)
        self._reservations.charge((booked() or self._move, role, stage), usage)

    def interrupted(self) -> Usage:
        """Worst cases of the calls that were under way when a process was killed or stopped."""
        return self._reservations.interrupted()

    def ahead(self) -> PrefetchCount:
        """What was made ahead in all processes of the run, and what came of it."""
        return self._advances.count()

    def rollouts(
        self, *, skill: str | None = None, tasks: Sequence[str] | None = None
    ) -> list[Rollout]:
        """Kept rollouts, oldest first: of a skill (by digest), of some tasks (by id), or all."""
        wanted, values = ["TRUE"], list[str]()
        if skill is not None:
            wanted.append("skill = ?")
            values.append(skill)
        if tasks is not None:
            wanted.append("task IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(tasks)))
        # Only fixed text is joined here; every value is a parameter.
        query = f"SELECT * FROM rollouts WHERE {' AND '.join(wanted)} ORDER BY rowid"  # noqa: S608
        rows = self._rows(query, *values)
        return [self._whole(self._decode(codec.codec_of(Rollout), row)) for row in rows]

    def close(self) -> None:
        """Move everything into the one file, and let go of it; a new one without content goes."""
        if self._db is not None:
            useless = self._made and not self._keys and self._reservations.empty
            db, self._db = self._db, None
            with self._explained():
                db.close()
                if useless:
                    self._path.unlink()

    async def _once(
        self, name: str, find: Callable[[], T | None], make: Callable[[], Awaitable[T]]
    ) -> tuple[T, bool]:
        """Find, or make once however many ask at a time; True for all but the one who made it.

        An error is everybody's error. When the maker is cancelled, another of them makes it.
        """
        while True:
            if (value := find()) is not None:
                return value, True
            if (flight := self._flights.get(name)) is None:
                break
            await asyncio.wait((flight,))
            if not flight.cancelled():
                return cast("T", flight.result()), True
        flight = self._flights[name] = asyncio.get_running_loop().create_future()
        try:
            value = await make()
        except Exception as error:
            flight.set_exception(error)
            flight.exception()  # there may be nobody else to look at it
            raise
        except BaseException:
            flight.cancel()
            raise
        else:
            flight.set_result(value)
            return value, False
        finally:
            del self._flights[name]

    def _find(self, query: str, kind: codec.Codec[T], key: str) -> T | None:
        rows = self._rows(query, key) if key in self._keys else []
        return self._decode(kind, rows[0]) if rows else None

    def _keep_rollout(self, key: str, rollout: Rollout) -> Rollout:
        kind = codec.codec_of(Rollout)
        try:
            small, images = codec.without_images(rollout)
            value, _ = kind.encode_without(small, self._hide)
            kept = codec.with_images(kind.decode(value), images.__getitem__)
        except ValueError as error:
            why = f"the attempt cannot be kept: {codec.problem(error)}"
            return replace(rollout, outcome=Failure("RolloutError", why), trajectory=None)
        match kept.outcome:
            case Failure():
                return kept
            case Score(hard, soft):
                marks = (float(hard), float(soft))
        self._write(
            _KEEP_ROLLOUT,
            (key, rollout.task, rollout.skill, rollout.replicate, *marks, time.time(), value),
            *((_KEEP_IMAGE, image) for image in images.items()),
        )
        return kept

    def _whole(self, rollout: Rollout) -> Rollout:
        """An attempt with its images, each of which was kept once."""

        def find(name: str) -> str:
            rows = self._rows(_FIND_IMAGE, name)
            if not rows or hashlib.sha256(rows[0][0].encode()).hexdigest() != name:
                raise self._damaged(f"the image {name[:16]} is not as it was written")
            return str(rows[0][0])

        return codec.with_images(rollout, find)

    def _keep_reply(
        self, key: str, role: str, stage: str, reply: Reply, calls: list[CallReservation]
    ) -> Reply:
        """Keep a reply, and let go of the reservation of the last call, which brought it."""
        used = reply.usage
        value = codec.codec_of(Reply).encode(reply).decode()
        reserved = calls.pop().row if calls else None
        row = (key, booked() or self._move, role, stage, *amounts(used), time.time(), value)
        also = [] if reserved is None else [(DELETE_RESERVATION, (reserved,))]
        self._write(_KEEP_CALL, row, *also)
        # What is returned is what a resumed run would read, to the last character.
        return codec.codec_of(Reply).decode(value)

    def _write(self, statement: str, row: tuple[object, ...], *also: _Statement) -> None:
        """All of it or nothing; on disk when this returns."""
        with self._explained():
            db = self._writable()
            if not also:  # a transaction of its own
                db.execute(statement, (_crc(row), *row))
            else:
                with db:
                    db.execute("BEGIN")
                    db.execute(statement, (_crc(row), *row))
                    for other, values in also:
                        db.execute(other, values)
        self._keys.add(str(row[0]))

    def _run(self, statement: str, values: tuple[object, ...]) -> int:
        """On disk when it returns; the number of the row, if one was inserted."""
        with self._explained():
            return self._writable().execute(statement, values).lastrowid or 0

    def _writable(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._made = not self._path.exists()
            self._db = self._open()
        return self._db

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        if self._db is None:
            return []
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def _decode(self, kind: codec.Codec[T], row: tuple[Any, ...]) -> T:
        crc, *rest = row
        if crc != _crc(rest):
            raise self._damaged(f"the row {rest[0]} was changed")
        return kind.decode(rest[-1])

    def _open(self) -> sqlite3.Connection:
        mode = "ro" if self._read_only else "rwc"
        with self._explained():
            check_cache_format(self._path)
            uri = f"{self._path.absolute().as_uri()}?mode={mode}"
            db = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Check a file and set it up for writing."""
        (version,) = db.execute("PRAGMA user_version").fetchone()
        _check_version(self._path, version)
        if self._read_only:
            return
        if version == 0:
            # Before WAL, so that the file has either no content or all tables.
            db.executescript(_CREATE)
        db.execute(_CREATE_IMAGES)
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(verdict.replace("\n", " "))
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_IN_WAL}")

    @contextmanager
    def _explained(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if not any(words in str(error) for words in _SURROUNDINGS):
                raise self._damaged(_brief(error)) from error
            raise StoreError(
                f"cannot use {self._path}: {error}. Finished work is saved: check disk space and "
                "permissions, then run the same command again."
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(_brief(error)) from error
        except UnicodeDecodeError as error:
            raise self._damaged("not UTF-8 where text should be") from error
        except OSError as error:
            raise unwritable(self._path, error) from error

    def _damaged(self, reason: str) -> StoreError:
        return StoreError(
            f"{self._path} is damaged: {reason}. Restore it from a copy, or move it away (with the "
            f"files {self._path.name}-wal and -shm beside it) and run the same command again: the "
            "record in events.jsonl stays valid, and only work that is needed again is paid again."
        )


def check_cache_format(path: Path) -> None:
    """Refuse a file of another format, and leave it as it is."""
    if rows := _rows_without_log(path, "PRAGMA user_version"):
        _check_version(path, rows[0][0])


def is_cache(path: Path) -> bool:
    """Whether a file is a cache, of this format or an earlier one."""
    return bool(_rows_without_log(path, "SELECT 1 FROM sqlite_schema WHERE name = 'rollouts'"))


def _rows_without_log(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a file as it is without its log (`-wal`); none where it is no file of SQLite.

    Immutable, because SQLite would otherwise take the log into the file when it closes it. By
    SQLite, because a process that opens the file itself and closes it again loses all locks that
    its connections hold on it, and a writer elsewhere then deletes the log under them.
    """
    if not path.is_file():
        return []
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            return db.execute(query).fetchall()
    except sqlite3.Error:
        return []  # told when it is opened


def _check_version(path: Path, version: int) -> None:
    if version > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer version of skillopt (format {version}, "
            f"this one reads {SCHEMA}). Upgrade skillopt to use it."
        )
    if 0 < version < SCHEMA:
        raise OldFormat(
            f"{path} was written by an earlier version of skillopt (format {version}, this one "
            f"reads {SCHEMA}). Only the version that wrote it (0.3.0 or earlier) can show or "
            "finish what is there; with this one, choose another directory (env.out_root)."
        )


def _brief(error: sqlite3.Error) -> str:
    """What SQLite says, without the content of the row that it says it about."""
    return str(error).partition(" with text ")[0]


def _crc(row: Sequence[object]) -> int:
    return zlib.crc32("\x1f".join(map(str, row)).encode())
