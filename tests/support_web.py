"""A dashboard in a process of its own, as users have it, and a client that speaks plain HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from support_runs import ROOT
from support_store import INITIAL, fill, keep_rollout, measured, story

from skillopt.core.chat import Message, Usage
from skillopt.core.events import Begun, Started, Warned
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout
from skillopt_sleep.staging import make_known

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - what a server says
        return json.loads(self.body)


@dataclass(slots=True)
class Site:
    """A server that was started, with what its first lines said."""

    process: subprocess.Popen[str]
    port: int
    link: str
    said: list[str] = field(default_factory=list[str])
    csrf: str = ""
    cookie: str = ""

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request as it stands; nothing is added but a host, unless one is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Cookie": self.cookie} if self.cookie else {}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {
                "Host": f"127.0.0.1:{self.port}",
                **sent,
                **(headers or {}),
                **({"Content-Length": str(len(body))} if body is not None else {}),
            }.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())
        finally:
            connection.close()

    def get(self, path: str, **params: str | Sequence[str]) -> Any:  # noqa: ANN401 - JSON
        query = urlencode(params, doseq=True)
        answer = self.ask(f"/api/{path}{'?' if query else ''}{query}")
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: object = None, raw: bytes | None = None) -> Answer:
        """As the page does it: with its header, from its own origin."""
        self.csrf = self.csrf or self.get("session")["csrf"]
        headers = {"x-skillopt": self.csrf, "Origin": f"http://127.0.0.1:{self.port}"}
        if raw is None:
            headers["Content-Type"] = "application/json"
            raw = json.dumps(body or {}).encode()
        return self.ask(f"/api/{path}", "POST", raw, headers)

    def run(self, name: str) -> str:
        """The id of a run by its name, as soon as it is listed with its summary."""

        def known() -> str | None:
            for run in self.get("runs")["runs"]:
                if run["name"] == name and run["status"] != "reading":
                    return str(run["id"])
            return None

        return until(known)

    @contextmanager
    def stream(self, **params: str) -> Generator[Iterator[tuple[str, str, Any]], None, None]:
        """Server-sent events as (kind, id, data), one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        last = params.pop("last_event_id", "")
        headers = {"Last-Event-ID": last} if last else {}
        connection.request("GET", f"/api/stream?{urlencode(params)}", headers=headers)
        response = connection.getresponse()
        assert response.headers["content-type"].startswith("text/event-stream")
        try:
            yield _events(response)
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    kind, number, data = "", "", ""
    end = time.monotonic() + 60
    while line := response.readline().decode():
        assert time.monotonic() < end, "what was waited for did not come"
        name, _, value = line.rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = value
        elif name == "data":
            data = value
        elif not line.strip() and kind:
            yield kind, number, json.loads(data)
            kind, number, data = "", "", ""


def until(look: Callable[[], T | None], seconds: float = 40.0) -> T:
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := look()) is not None and found is not False:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def home_beside(runs: Path) -> Path:
    """The home of a dashboard, so that it knows only what a test has put there."""
    return runs.with_name(f"{runs.name}-home")


@contextmanager
def dashboard(
    runs: Path, *words: str, cwd: Path | None = None, path: str | None = None
) -> Generator[Site, None, None]:
    """`skillopt web` on a free port of loopback; it ends with the block, as by Ctrl-C."""
    home = home_beside(runs)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)}
    if path is not None:
        environment["PATH"] = path
    command = [sys.executable, "-m", "skillopt", "web", "--runs", str(runs), "--port", "0", *words]
    with subprocess.Popen(
        command,
        cwd=cwd or runs,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said: list[str] = []
        link = ""
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip())
            if found := re.match(r"dashboard: (\S+)", line):
                link = found[1]
            if line.startswith("Ctrl-C"):
                break
        assert link, "\n".join(said)
        found = re.search(r"http://[^/]*:(\d+)/", "\n".join(said))
        site = Site(process, int(found[1]) if found else 0, link, said)
        try:
            until(lambda: _answers(site) or None)
            yield site
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(site: Site) -> bool:
    try:
        return site.ask("/api/session").status in {200, 401}
    except OSError:
        return False


def write_story(folder: Path, evil: str = "") -> Path:
    """A short run in a directory; `evil` stands in its skill, an attempt, a file and a setting."""
    folder.mkdir(parents=True)
    layout = Layout(folder)
    log = EventFile(layout.events)
    events = story()
    skill = Skill.parse(f"# Rules\n\n- Be brief. {evil}\n") if evil else INITIAL
    if evil:
        start = measured(skill, "initial_skill", 0, 0.0, 1.0)
        events = [Started("2026-01-01T00:00:00Z", evil), Begun(start), Warned(evil), *events[6:8]]
    for event in events:
        log.append(event)
    settings = {"env.name": "custom", "target_model": f"m{evil}", "optimizer_model": "o"}
    layout.config.write_text(json.dumps(settings), encoding="utf-8")
    asyncio.run(_attempts(layout, skill, evil))
    return folder


async def _attempts(layout: Layout, skill: Skill, evil: str) -> None:
    cache = SqliteCache(layout.cache)
    await fill(cache)
    said = (Message("user", f"do a {evil}"), Message("assistant", evil or "done"))
    left = {f"out/{evil or 'x'}.txt": evil.encode() or b"left"}
    trajectory = Trajectory(said, "42", Usage(1, 10, 5), files=left)
    attempt = Rollout(
        task="v1" if evil else "a",
        skill=skill.digest,
        outcome=Score(0, 0, evil or "format: no"),
        trajectory=trajectory,
    )
    await keep_rollout(cache, attempt, "own")
    cache.close()


BEFORE, AFTER = b"# Rules\n\n- Be brief.\n", b"# Rules\n\n- Be brief.\n- Name the file.\n"
NIGHT = "20261118-031700"


def stage(project: Path, target: str = "memory", path: Path | None = None) -> Path:
    """A night that proposes one line for the memory file of a project."""
    folder = project / ".skillopt-sleep" / "staging" / NIGHT
    folder.mkdir(parents=True)
    path = path or project / "CLAUDE.md"
    path.write_bytes(BEFORE)
    (folder / "proposed.md").write_bytes(AFTER)
    report = {"verdict": "Something was learnt.", "n_tasks": 4, "notes": ["<b>note</b>"]}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    manifest = {
        "format": "skillopt-sleep-staging",
        "schema_version": 3,
        "created": "2026-11-18T03:17:00Z",
        "project": str(project.resolve()),
        "accepted": True,
        "files": [
            {
                "target": target,
                "proposed_file": "proposed.md",
                "path": str(path.resolve()),
                "root": str(project.resolve()),
                "sha256": hashlib.sha256(AFTER).hexdigest(),
                "live_sha256": hashlib.sha256(BEFORE).hexdigest(),
            }
        ],
    }
    data = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(data)
    make_known(folder, data, project.resolve(), home_beside(project) / ".skillopt-sleep")
    return folder
