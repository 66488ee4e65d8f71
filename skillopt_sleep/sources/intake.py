"""Takes sessions in: reads files that may be damaged, leaves out what is not wanted, redacts."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Final

from skillopt.config.redaction import redact
from skillopt.core.intake import ROW_BYTES, Json, clean_text, read_json
from skillopt_sleep.redacting import redaction
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import path_of
from skillopt_sleep.sources.prompts import is_ours, is_own_folder, is_own_skill
from skillopt_sleep.sources.reactions import Reactions
from skillopt_sleep.values import Session, SessionsRead

PROMPT_CHARS: Final = 20_000
ANSWER_CHARS: Final = 8_000
_COMMAND_CHARS: Final = 4_000
_NAME_CHARS: Final = 200
_READ_CHARS: Final = 100_000
"""Characters of one text that are looked at; what is cut from it is cut with a margin, so that no
half of a secret stays that is too short to be recognised."""
_MARGIN: Final = 500
_MOST: Final = 500
"""Prompts, commands, files of one session."""
_MOST_ROWS: Final = 200_000
_KEY_IN_PATH: Final = "secret in its path"
_QUICK: Final = timedelta(seconds=3)
_SHORT: Final = 200


class Intake:
    """Decides what becomes a session, redacts it, and counts what does not."""

    def __init__(self, source: str, settings: Settings, since: datetime | None) -> None:
        self._source = source
        self._settings = settings
        self._since = since
        self._clean = redaction(settings)
        self._reactions = Reactions(settings.negative_phrases, settings.positive_phrases)
        self._taken: list[Session] = []
        self._left_out: Counter[str] = Counter()
        self._notices: list[str] = []
        self._without_first_line: set[Path] = set()
        """Files whose first line, which may have been the first prompt, could not be read."""

    def count(self, reason: str, number: int = 1) -> None:
        if number:
            self._left_out[reason] += number

    def damaged(self, path: Path, what: str, reason: str = "damaged") -> None:
        """Something cannot be read; that is told, and the rest goes on."""
        self.count(reason)
        self._notices.append(redact(f"{path}: {what}"))

    def is_new(self, path: Path) -> bool:
        """Whether a file can hold something new: it was written after `since`."""
        if self._since is None:
            return True
        try:
            return path.stat().st_mtime >= self._since.timestamp() - 1
        except OSError:
            return True

    def rows(self, path: Path) -> Iterator[dict[str, Json]]:
        """The objects of a JSONL file; lines that are damaged are passed over and told."""
        bad = 0
        try:
            for number, line in enumerate(_lines(path)):
                if number >= _MOST_ROWS:
                    self.damaged(path, f"more than {_MOST_ROWS} lines; the rest was not read")
                    break
                if not line.strip():
                    continue
                try:
                    row = read_json(line.decode("utf-8", "replace"))
                except ValueError:
                    row = None
                if isinstance(row, dict):
                    yield row
                else:
                    bad += 1
                    if number == 0:
                        self._without_first_line.add(path)
        except OSError as error:
            self.damaged(path, f"cannot be read: {error.strerror or error}")
        if bad:
            self.count("damaged line", bad)
            told = "1 damaged line was" if bad == 1 else f"{bad} damaged lines were"
            self._notices.append(redact(f"{path}: {told} passed over"))

    @contextmanager
    def line(self) -> Generator[None, None, None]:
        """Whatever does not fit within this block makes the line a damaged one."""
        try:
            yield
        except (IndexError, KeyError, TypeError):
            self.count("damaged line")

    def take(self, draft: SessionDraft) -> None:
        """Take a session, unless there is a reason not to."""
        if draft.first is None or draft.last is None:
            draft.seen(_written(draft.origin))
        first, last = draft.first, draft.last
        if first is None or last is None or (self._since is not None and last <= self._since):
            return
        if draft.origin in self._without_first_line:
            # A reaction to an answer is no task, although it is the first thing that is left.
            while draft.prompts and self._reactions.reacts(draft.prompts[0]):
                del draft.prompts[0], draft.answers[:1]
        for reason, number in draft.left_out.items():
            self.count(reason, number)
        reason = self._reason(draft)
        if reason:
            self.count(reason)
            if reason == _KEY_IN_PATH:
                self._notice(
                    f"sessions in {redact(draft.project)} were left out: a part of this path looks "
                    "like a key. Rename the folder, or take them as they are with --no-redact"
                )
        else:
            self._taken.append(self._session(draft, first, last))

    def read(self) -> SessionsRead:
        """All that was taken, oldest first; a session that was found twice only once."""
        best: dict[str, Session] = {}
        for session in sorted(self._taken, key=lambda each: (-len(each.prompts), str(each.origin))):
            keys = (session.id, f"{session.started.isoformat()}\0{session.prompts[0]}")
            if any(key in best for key in keys):
                self.count("duplicate")
                continue
            best.update(dict.fromkeys(keys, session))
        kept = {id(session): session for session in best.values()}
        return SessionsRead(
            tuple(sorted(kept.values(), key=lambda each: (each.ended, each.id))),
            dict(sorted(self._left_out.items())),
            tuple(self._notices),
        )

    def _reason(self, draft: SessionDraft) -> str:
        first = draft.prompts[0] if draft.prompts else ""
        markers = self._settings.agent_markers
        reasons = {
            "side chain": draft.side_chain,
            "own": draft.own or _is_own(draft),
            "no prompt": not draft.prompts,
            "another tool": any(marker and marker in first for marker in markers),
            "headless": self._is_headless(draft),
            "no project": not draft.project,
            _KEY_IN_PATH: self._settings.redact and redact(draft.project) != draft.project,
        }
        return next((reason for reason, true in reasons.items() if true), "")

    def _notice(self, text: str) -> None:
        if text not in self._notices:
            self._notices.append(text)

    def _is_headless(self, draft: SessionDraft) -> bool:
        """Whether nobody took part: one prompt, and the program or the clock says so."""
        if self._settings.headless or len(draft.prompts) != 1:
            return False
        if draft.headless is not None or draft.first is None or draft.last is None:
            return draft.headless or False
        return len(draft.prompts[0]) < _SHORT and draft.last - draft.first < _QUICK

    def _session(self, draft: SessionDraft, first: datetime, last: datetime) -> Session:
        project = Path(os.path.normpath(path_of(draft.project)))
        prompts = self._texts(draft.prompts, PROMPT_CHARS)
        hidden = self._settings.redact and redact(str(draft.origin)) != str(draft.origin)
        return Session(
            id=self._text(draft.id or draft.origin.stem, _NAME_CHARS),
            source=self._source,
            project=project,
            started=first,
            ended=last,
            prompts=prompts,
            answers=self._texts(draft.answers, ANSWER_CHARS),
            tools=self._texts(draft.tools, _NAME_CHARS),
            commands=self._texts(draft.commands, _COMMAND_CHARS),
            skills=self._texts(draft.skills, _NAME_CHARS),
            files=self._texts([_below(project, path) for path in draft.files], _COMMAND_CHARS),
            reactions=self._reactions.among(prompts),
            troubles=draft.troubles,
            branch=self._text(draft.branch, _NAME_CHARS),
            commit=draft.commit if re.fullmatch(r"[0-9a-f]{7,64}", draft.commit) else "",
            origin=None if hidden else draft.origin,
        )

    def _texts(self, texts: list[str], longest: int) -> tuple[str, ...]:
        return tuple(self._text(text, longest) for text in texts[:_MOST])

    def _text(self, text: str, longest: int) -> str:
        """Redacted first and cut then, so that no secret is cut into something unknown."""
        if len(text) <= _READ_CHARS:
            return self._clean(clean_text(text))[:longest]
        return self._clean(clean_text(text[:_READ_CHARS]))[: min(longest, _READ_CHARS - _MARGIN)]


def _is_own(draft: SessionDraft) -> bool:
    return (
        is_own_folder(draft.project)
        or any(map(is_own_skill, draft.skills))
        or any(map(is_ours, draft.prompts[:1]))
    )


def _below(project: Path, path: str) -> str:
    """A path relative to the project, where it is below it."""
    given = PurePath(path)
    if not given.is_absolute():
        return path
    try:
        return PurePath(os.path.normpath(given)).relative_to(project).as_posix()
    except ValueError:
        return path


def _written(path: Path) -> Json:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; of one that is too long, its beginning, which is no JSON."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        while line := file.readline(ROW_BYTES):
            yield line
            while len(line) == ROW_BYTES and not line.endswith(b"\n"):
                line = file.readline(ROW_BYTES)


def files_below(folder: Path, *patterns: str) -> list[Path]:
    """Files that match, sorted; none where the folder cannot be read."""
    try:
        return sorted({path for pattern in patterns for path in folder.glob(pattern)})
    except OSError:
        return []


@contextmanager
def opened_database(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """A database of another program, which is only read; a copy of it where it is locked.

    Raises:
        sqlite3.Error: It is no database, or damaged.
        OSError: It cannot be copied.
    """
    try:
        connection = _connected(path)
    except sqlite3.OperationalError:
        with TemporaryDirectory(prefix="skillopt-") as folder:
            for each in files_below(path.parent, f"{path.name}*"):
                if each.name.removeprefix(path.name) in ("", "-wal", "-shm"):
                    shutil.copyfile(each, Path(folder) / each.name)
            with closing(sqlite3.connect(Path(folder) / path.name)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
        return
    with closing(connection):
        yield connection


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = _decoded
        connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns that a table has in this version of the program."""
    return {str(row["name"]) for row in connection.execute(f"PRAGMA table_info({table})")}


def read_all(
    intake: Intake, paths: Iterable[Path], read: Callable[[Path, Intake], SessionDraft | None]
) -> SessionsRead:
    """Read files with a session each; what one of them does wrong stays with it."""
    for path in paths:
        if not intake.is_new(path):
            continue
        try:
            draft = read(path, intake)
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            intake.damaged(path, f"cannot be understood: {type(error).__name__}")
            continue
        if draft is not None:
            intake.take(draft)
    return intake.read()
