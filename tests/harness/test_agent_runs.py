"""Many agents at once: what they leave behind, what they cost, and what a resumed run repeats."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiohttp import web
from support_agents import FileTask, open_agent
from support_cli import Done, skillopt, started, until

from skillopt.aio import map_all
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent, ConfigError
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.budget import Limits
from skillopt.testing.model_server import ModelServer, ReceivedRequest
from skillopt.testing.wires import SENT, WRITTEN, Say, Wire

try:
    Bubblewrap.create()
except ConfigError as reason:
    pytest.skip(str(reason), allow_module_level=True)

AT_ONCE = 32
PROGRAM = '''#!/usr/bin/env python3
"""Opens the skill, asks once and leaves a process behind."""
import json, os, pathlib, subprocess, urllib.request
subprocess.Popen(["sleep", "1000"], start_new_session=True)
skill = pathlib.Path(".claude/skills/skillopt-target/SKILL.md").read_text()
said = [{"role": "user", "content": skill + open("task.md").read()}]
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    json.dumps({"messages": said, "max_tokens": 50}).encode(),
    {"Content-Type": "application/json"},
)
answer = json.load(urllib.request.urlopen(request))["content"][0]["text"]
print(json.dumps({"type": "result", "is_error": False, "result": answer}))
'''
ASKED = re.compile(r"question number (\d+)\.")
SKILL = Skill.parse("# Sums\n\n- Answer with the bare number and with nothing else.\n")


def program(folder: Path) -> str:
    path = folder / "stand-in" / "claude"
    path.parent.mkdir()
    path.write_text(PROGRAM, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def place() -> Generator[Path, None, None]:
    """A folder for temporary files that every user can reach, as /tmp is."""
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


def folders(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir() if each.name.startswith("skillopt-"))


def processes(mark: str) -> list[str]:
    """Command lines of the processes that have this in theirs."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and str(os.getpid()) not in each.parts:
            found.append(line)
    return found


def left() -> tuple[list[str], list[str], str]:
    """Children, open descriptors and mounts of this process."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    descriptors = sorted(os.listdir("/proc/self/fd"), key=int)  # noqa: PTH208
    return children, descriptors, Path("/proc/self/mounts").read_text()


async def test_many_agents_at_once_leave_nothing_behind(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    path = program(tmp_path)
    async with ModelServer([Say("4")]) as server:
        async with open_agent("claude_code_exec", server, path=path) as agent:

            async def attempt(number: int) -> str:
                task = FileTask(brief=f"This is question number {number}.")
                return (await agent.harness.run(task, SKILL)).answer

            await attempt(0)  # opens the connection to the server
            state = left()
            answers = await map_all(attempt, range(AT_ONCE))
            now = left()
        assert answers == ["4"] * AT_ONCE
        assert agent.budget.meter.total.calls == len(server.questions) == AT_ONCE + 1
    assert now[0] == state[0]
    assert len(now[1]) <= len(state[1]) + 2 * AT_ONCE, "idle connections to the server"
    assert now[2] == state[2]
    assert folders(place) == []
    assert processes(str(tmp_path)) == []


@pytest.mark.parametrize(
    "limits", [Limits(calls=7), Limits(tokens=12_000)], ids=["calls", "tokens"]
)
async def test_many_agents_at_once_never_exceed_a_limit(limits: Limits, tmp_path: Path) -> None:
    async with (
        ModelServer([Say("4")]) as server,
        open_agent(
            *("claude_code_exec", server, "model.target_max_tokens=500"),
            path=program(tmp_path),
            limits=limits,
        ) as agent,
    ):
        # A text that has as many bytes as the server says to have read tokens, and more.
        tasks = [FileTask(brief=f"Question {n}. {'more words ' * 150}") for n in range(16)]
        runs = [agent.harness.run(task, SKILL) for task in tasks]
        done = await asyncio.gather(*runs, return_exceptions=True)
        served = len(server.questions)
    assert any(isinstance(each, BudgetSpent) for each in done)
    if limits.calls:
        assert served == limits.calls
    else:
        assert 0 < served * (SENT + WRITTEN) <= (limits.tokens or 0)


@dataclass
class Stuck(ModelServer):
    """Answers no question but those in this list; others wait."""

    answered: frozenset[int] = frozenset()
    asked: Counter[int] = field(default_factory=Counter[int])

    async def _answer(
        self, request: web.BaseRequest, asked: ReceivedRequest, wire: type[Wire]
    ) -> web.StreamResponse:
        if found := ASKED.search(asked.text):
            number = int(found[1])
            self.asked[number] += 1
            if number not in self.answered:
                await asyncio.Event().wait()
        return await super()._answer(request, asked, wire)


def arguments(server: ModelServer, path: str, *more: str) -> list[str]:
    return [
        *("eval", "--skill", "skill.md", "env.name=custom", "env.data_path=rows.jsonl"),
        *("model.target_backend=claude_code_exec", "model.target=m", "env.out_root=run"),
        f"model.target_base_url={server.url}",
        f"model.claude_code_exec_path={path}",
        *more,
    ]


def project(folder: Path, size: int) -> str:
    rows = [{"input": f"This is question number {n}.", "answer": "4"} for n in range(size)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "skill.md").write_text(SKILL.render(), encoding="utf-8")
    return program(folder)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_a_run_that_is_stopped_leaves_nothing_behind(
    how: signal.Signals, tmp_path: Path, place: Path
) -> None:
    # A third of the rows is the first split, and all of it is attempted at once.
    path, mounts = project(tmp_path, 3 * AT_ONCE), left()[2]
    async with Stuck() as server:
        words = arguments(server, path, f"env.workers={AT_ONCE}")
        variables = {"ANTHROPIC_API_KEY": "k", "TMPDIR": str(place)}
        async with started(*words, cwd=tmp_path, **variables) as process:
            await until(lambda: len(server.asked) == AT_ONCE, 300)
            assert folders(place)
            process.send_signal(how)
            await asyncio.wait_for(process.communicate(), 120)
        await until(lambda: processes(str(tmp_path)) == [], 60)
        await until(lambda: folders(place) == [], 60)
    assert left()[2] == mounts


async def test_a_killed_run_pays_for_no_finished_attempt_twice(tmp_path: Path) -> None:
    path, size = project(tmp_path, 36), 36
    variables = {"ANTHROPIC_API_KEY": "k"}
    async with Stuck(answered=frozenset(range(0, size, 2))) as server:
        words = arguments(server, path, "env.workers=8")
        async with started(*words, cwd=tmp_path, **variables) as process:
            await until(lambda: len(finished(tmp_path)) >= 4, 300)
            process.kill()
            await process.communicate()
        kept = finished(tmp_path)
        server.answered = frozenset(range(size))
        before = Counter(server.asked)
        done: Done = await skillopt(*words, cwd=tmp_path, **variables)
        assert done.code == 0, done.err
        again = server.asked - before
    assert len(kept) >= 4
    assert sum(again.values()) == size - len(kept), "only what was not finished is asked"


def finished(folder: Path) -> list[str]:
    """Attempts that the cache of a run holds."""
    path = folder / "run" / "cache.sqlite"
    if not path.exists():
        return []
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return [key for (key,) in database.execute("SELECT key FROM rollouts")]
    except sqlite3.Error:
        return []
