"""One stream of server-sent events for each page: what a run records, and how far it is.

The id of an event is its position in the record, so that a page that reconnects misses nothing and
sees nothing twice. A run is read once for all pages that follow it.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from skillopt.aio import within
from skillopt.api import RunViews
from skillopt.core.events import Fact
from skillopt.errors import LogRewritten, SkilloptError
from skillopt.store.events import LoggedEvent
from skillopt_webui.payloads import log_line, plain, step_row
from skillopt_webui.runs import Json, OpenRun, at_work_since

_PAUSE: Final = 0.4
"""Seconds between two looks at a run."""
_BEAT: Final = 15
"""Seconds after which a quiet stream says that it lives."""
_LINES: Final = 5_000
"""Lines of a process that are kept for pages that come later."""


class Process(Protocol):
    """The process that was launched for a run, if one was."""

    def shown(self, run: OpenRun) -> Json | None:
        """How it stands."""
        ...

    def output(self, run: OpenRun) -> Path | None:
        """Where it writes what it has to say."""
        ...

    def standing(self, name: str, folder: Path, why: str) -> Json:
        """How a run stands whose record cannot be shown, for the reason `why`."""
        ...


@dataclass(slots=True)
class Feed:
    """What the pages that follow a run are told; every page remembers how far it is."""

    run: OpenRun
    process: Process
    positions: list[int] = field(default_factory=list[int])
    events: list[str] = field(default_factory=list[str])
    """Of each position, the event as it is sent; from when the first page came."""
    state: str = ""
    """Status, progress and cost, as they are sent; replaced as a whole."""
    lines: list[str] = field(default_factory=list[str])
    """What the launched process has written."""
    rewritten: bool = False
    """Whether the record is no longer the one that pages have seen."""
    followers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _output_at: int = 0
    _named: bool = False
    """Whether the settings were there, which the models are told by; they come a moment later."""
    _head: object = None
    _cost: object = None
    _tally: object = None

    async def look(self) -> None:
        """Take in what is new, and wake the pages if something is."""
        events: list[tuple[int, str]] = []
        try:
            events, state = await self.run.ask(self._read)
        except LogRewritten:
            await self.run.ask(OpenRun.forget)
            self.rewritten = self.run.folder.is_dir()
            state = self.state if self.rewritten else json.dumps(self._unread(""))
        except SkilloptError as error:
            state = json.dumps(self._unread(str(error)))
        lines = self._written()
        for position, text in events:
            self.positions.append(position)
            self.events.append(text)
        self.lines += lines
        if events or lines or state != self.state or self.rewritten:
            self.state = state
            self.changed.set()
            self.changed = asyncio.Event()

    async def behind(self, after: int) -> list[tuple[int, str]]:
        """What a page has missed that comes with a position from before the feed began."""

        def read(run: OpenRun) -> list[tuple[int, str]]:
            return _sent(run.views, run.views.reader.events(after))

        return await self.run.ask(read)

    def _read(self, run: OpenRun) -> tuple[list[tuple[int, str]], str]:
        """In the thread of the run: new events, and how it stands."""
        views, first = run.views, not self.positions
        views.refresh()
        if first:
            # The page has what was recorded up to here, or asks for it by its position.
            self.positions, self.events = [views.reader.position], [""]
        entries = [] if first else views.reader.events(self.positions[-1])
        if entries or not self._named:
            self._named = bool(views.head.benchmark)
            self._head = plain(views.head)
            self._cost = plain(views.cost()) if views.begun else None
            self._tally = plain(views.tally)
        state: Json = {
            "status": views.reader.status,
            "begun": views.begun,
            "progress": plain(views.reader.progress()),
            "head": self._head,
            "cost": self._cost,
            "tally": self._tally,
            "job": self.process.shown(run),
            "since": at_work_since(run.folder),
        }
        return _sent(views, entries), json.dumps(state)

    def _unread(self, why: str) -> Json:
        """How a run stands that has no record which can be read."""
        run = self.run
        standing = self.process.standing(run.id, run.folder, why)
        return {**standing, "begun": False, "job": self.process.shown(run)}

    def _written(self) -> list[str]:
        place = self.process.output(self.run)
        if place is None:
            return []
        with suppress(OSError), place.open("rb") as file:
            file.seek(self._output_at)
            data = file.read(1 << 20)
            whole = data[: data.rfind(b"\n") + 1]
            self._output_at += len(whole)
            return whole.decode("utf-8", "replace").splitlines()[-_LINES:]
        return []


def _sent(views: RunViews, entries: Sequence[LoggedEvent]) -> list[tuple[int, str]]:
    """Events as pages get them: a line for the log, and the row of the timeline if there is one."""
    rows = {step.move: step for step in views.steps} if entries else {}
    told: list[tuple[int, str]] = []
    for entry in entries:
        event: Json = {"log": log_line(entry)}
        if isinstance(entry.event, Fact) and (step := rows.get(entry.event.move)):
            event["step"] = step_row(step)
        told.append((entry.position, _event("record", event, entry.position)))
    return told


def _event(kind: str, data: object, position: int | None = None) -> str:
    name = "" if position is None else f"id: {position}\n"
    return f"{name}event: {kind}\ndata: {json.dumps(data)}\n\n"


class Live:
    """The feeds of the runs that are being followed."""

    def __init__(self, process: Process, version: Callable[[], int]) -> None:
        self._process = process
        self._version = version
        """Of the list of runs."""
        self._over = asyncio.Event()
        """Set when the server ends."""
        self._feeds: dict[str, Feed] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def follows(self, name: str) -> bool:
        """Whether a page looks at this run now."""
        return name in self._feeds

    def close(self) -> None:
        """End all streams, so that nothing keeps the server from ending."""
        self._over.set()
        for feed in self._feeds.values():
            feed.changed.set()

    async def stream(self, run: OpenRun | None, after: int) -> AsyncIterator[str]:
        """Everything behind a position, as it comes; without a run, only changes of the list."""
        yield "retry: 1500\n\n"
        feed = None if run is None else self._join(run)
        try:
            async for text in self._told(feed, after):
                yield text
        finally:
            if feed is not None:
                self._leave(feed)

    async def _told(self, feed: Feed | None, after: int) -> AsyncIterator[str]:
        version, quiet = -1, 0
        page = None if feed is None else _Page(feed, after)
        while not self._over.is_set():
            waking = self._over if feed is None else feed.changed
            texts = [] if page is None else await page.news()
            if (now := self._version()) != version:
                version = now
                texts.append(_event("runs", {"version": now}))
            quiet = 0 if texts else quiet + 1
            if quiet >= _BEAT:
                quiet, texts = 0, [": still here\n\n"]
            for text in texts:
                yield text
            if page is not None and page.over:
                return
            with suppress(TimeoutError, asyncio.TimeoutError):
                await within(1.0, _wait(waking))

    def _join(self, run: OpenRun) -> Feed:
        feed = self._feeds.get(run.id)
        if feed is None or feed.run is not run or feed.rewritten:
            if feed is not None:
                self._tasks.pop(run.id).cancel()
            feed = self._feeds[run.id] = Feed(run, self._process)
            self._tasks[run.id] = asyncio.create_task(self._follow(feed))
        feed.followers += 1
        return feed

    def _leave(self, feed: Feed) -> None:
        feed.followers -= 1
        if not feed.followers and self._feeds.get(feed.run.id) is feed:
            del self._feeds[feed.run.id]
            self._tasks.pop(feed.run.id).cancel()

    async def _follow(self, feed: Feed) -> None:
        while not feed.rewritten:
            await feed.look()
            await asyncio.sleep(_PAUSE)


@dataclass(slots=True)
class _Page:
    """How far one page is."""

    feed: Feed
    after: int
    over: bool = False
    """Whether it has to load everything again."""
    _state: str = ""
    _line: int = 0

    async def news(self) -> list[str]:
        feed, texts = self.feed, list[str]()
        if feed.rewritten:
            self.over = True
            return [_event("reset", {})]
        if feed.positions:
            if self.after < feed.positions[0]:
                try:
                    missed = await feed.behind(self.after)
                except LogRewritten:
                    self.over = True
                    return [_event("reset", {})]
                texts += [text for position, text in missed if position <= feed.positions[0]]
                self.after = feed.positions[0]
            start = bisect_right(feed.positions, self.after)
            texts += feed.events[start:]
            self.after = max(self.after, feed.positions[-1])
        if feed.state != self._state:
            self._state = feed.state
            texts.append(f"event: state\ndata: {feed.state}\n\n")
        if len(feed.lines) > self._line:
            texts.append(_event("output", {"lines": feed.lines[self._line :]}))
            self._line = len(feed.lines)
        return texts


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
