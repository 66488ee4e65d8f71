"""Programs that crash, hang, lie or print nonsense, in place of a real agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_agents import AGENTS, TARGET_KEY, FileTask, open_agent

from skillopt.core.episode import Workspace
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent, ConfigError, HarnessError
from skillopt.harness.agents.programs import needed
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.budget import Limits
from skillopt.testing.contracts.harnesses import check_harness
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import Say

try:
    Bubblewrap.create()
except ConfigError as reason:
    pytest.skip(str(reason), allow_module_level=True)

SKILL = Skill.parse("# Sums\n\n- Answer with the bare number and with nothing else.\n")
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "4"}
ASKING = """
import json, os, urllib.request
body = {{"messages": [{{"role": "user", "content": {content}}}], "max_tokens": 50}}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    json.dumps(body).encode(), {{"Content-Type": "application/json"}})
answer = json.load(urllib.request.urlopen(request))["content"][0]["text"]
print(json.dumps({{"type": "result", "is_error": False, "result": answer}}))
"""


def stand_in(folder: Path, code: str, interpreter: str = "/usr/bin/env python3") -> str:
    """A program that is called as claude is."""
    path = folder / "claude-stand-in" / "claude"
    path.parent.mkdir()
    path.write_text(f"#!{interpreter}\n{code}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


async def failure(tmp_path: Path, code: str, *overrides: str) -> str:
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, *overrides, path=stand_in(tmp_path, code)) as agent,
    ):
        with pytest.raises(HarnessError) as caught:
            await agent.harness.run(FileTask(), SKILL)
    return str(caught.value)


async def test_a_crash_is_not_a_score_and_the_last_words_are_told(tmp_path: Path) -> None:
    told = await failure(tmp_path, "import sys; sys.exit('segmentation of the mind')")
    assert told == ("claude ended with code 1 and without a result: segmentation of the mind")
    (tmp_path / "b").mkdir()
    told = await failure(tmp_path / "b", "import os; os.kill(os.getpid(), 11)")
    assert told == "claude ended with code 139 and without a result: it printed nothing"


async def test_a_program_that_hangs_is_ended_and_not_a_score(tmp_path: Path) -> None:
    told = await failure(tmp_path, "import time; time.sleep(1000)", "env.agent_seconds=1.5")
    assert told == "claude did not end within 2 s (env.agent_seconds)"


async def test_garbage_is_not_an_answer(tmp_path: Path) -> None:
    told = await failure(tmp_path, "print('{\"type\": \"result\", [[{{ \\x00 }}', '\\udcff' * 0)")
    assert told.startswith("claude ended with code 0 and without a result: ")


async def test_a_flood_is_ended_and_not_an_answer(tmp_path: Path) -> None:
    told = await failure(tmp_path, "while True: print('x' * 1_000_000)")
    assert told == "claude printed more than 67,108,864 bytes"


async def test_the_report_counts_and_not_the_exit_code(tmp_path: Path) -> None:
    assert "without a result" in await failure(tmp_path, "exit(0)")
    (tmp_path / "b").mkdir()
    code = f"print({json.dumps(json.dumps(RESULT))}); exit(3)"
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, path=stand_in(tmp_path / "b", code)) as agent,
    ):
        done = await agent.harness.run(FileTask(), SKILL)
    assert (done.answer, done.exit_status) == ("4", 3)


@pytest.mark.parametrize("line", ["/usr/bin/env no-such-node", "/opt/no-such-node --flag"])
async def test_a_missing_interpreter_is_told_before_anything_is_spent(
    line: str, tmp_path: Path
) -> None:
    path = stand_in(tmp_path, "", line)
    told = rf"claude_code_exec: {path} is a script for '.*no-such-node', which is not on PATH"
    async with ModelServer() as server:
        with pytest.raises(ConfigError, match=told):
            async with open_agent("claude_code_exec", server, path=path):
                pass


async def test_an_answer_is_read_from_a_file_if_the_settings_say_so(tmp_path: Path) -> None:
    write = "open('answer.md', 'w').write('from the file')\n"
    code = f"{write}print({json.dumps(json.dumps(RESULT))})"
    async with (
        ModelServer() as server,
        open_agent(
            *("claude_code_exec", server, "env.answer_file=answer.md"),
            path=stand_in(tmp_path, code),
        ) as agent,
    ):
        done = await agent.harness.run(FileTask(), SKILL)
    assert done.answer == "from the file"
    assert "Write your answer into the file answer.md." in done.messages[0].text


async def test_an_empty_answer_is_asked_for_once_more_with_a_reminder(tmp_path: Path) -> None:
    code = """
import json, sys
told = sys.argv[-1]
answer = "4" if "must not be empty" in told else ""
print(json.dumps({"type": "result", "is_error": False, "result": answer}))
"""
    path = stand_in(tmp_path, code)
    async with ModelServer() as server, open_agent("claude_code_exec", server, path=path) as agent:
        assert (await agent.harness.run(FileTask(), SKILL)).answer == "4"
    for settings in (["model.exec_empty_response_retries=0"], []):
        variables = {} if settings else {"EXEC_EMPTY_RESPONSE_RETRIES": "0"}
        async with (
            ModelServer() as server,
            open_agent(
                "claude_code_exec", server, *settings, path=path, variables=variables
            ) as agent,
        ):
            with pytest.raises(HarnessError, match="without an answer, 1 times"):
                await agent.harness.run(FileTask(), SKILL)


async def test_a_program_sees_its_files_and_no_key_no_home_no_network(tmp_path: Path) -> None:
    code = """
import json, os, pathlib, socket
seen = {"home": sorted(map(str, pathlib.Path.home().rglob("*"))), "env": dict(os.environ)}
seen["files"] = sorted(str(p) for p in pathlib.Path().rglob("*") if p.is_file())
seen["task"] = open("task.md").read()
seen["net"] = sorted(name for _, name in socket.if_nameindex())
print(json.dumps({"type": "result", "is_error": False, "result": json.dumps(seen)}))
"""
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, path=stand_in(tmp_path, code)) as agent,
    ):
        done = await agent.harness.run(FileTask(), SKILL)
    seen = json.loads(done.answer)
    assert seen["home"] == []
    assert TARGET_KEY not in done.answer
    assert seen["net"] == ["lo"]
    assert seen["task"] == f"{FileTask().instructions}\n\n{FileTask().brief}\n"
    assert seen["files"] == [
        ".claude/skills/skillopt-target/SKILL.md",
        "given/numbers.txt",
        "task.md",
    ]


async def test_the_door_opens_only_for_who_was_told_its_address(tmp_path: Path) -> None:
    code = """
import json, os, urllib.error, urllib.parse, urllib.request
told = os.environ["ANTHROPIC_BASE_URL"]
bare = urllib.parse.urlsplit(told)._replace(path="").geturl()
def ask(url):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode())
    try:
        return urllib.request.urlopen(request).status
    except OSError as error:
        return type(error).__name__
answers = [ask(told), ask(bare), ask(bare + "/" + "0" * 32)]
print(json.dumps({"type": "result", "is_error": False, "result": json.dumps(answers)}))
"""
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, path=stand_in(tmp_path, code)) as agent,
    ):
        done = await agent.harness.run(FileTask(), SKILL)
    allowed, *refused = json.loads(done.answer)
    assert allowed == 200
    assert all(isinstance(answer, str) for answer in refused)
    assert done.usage.calls == 1


async def test_a_task_of_any_length_reaches_the_program(tmp_path: Path) -> None:
    code = """
import json, sys
answer = f"{len(open('task.md').read())} {len(sys.argv[-1]) < 1000}"
print(json.dumps({"type": "result", "is_error": False, "result": answer}))
"""
    task = FileTask(brief="\u4e00" * 300_000, instructions="")
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, path=stand_in(tmp_path, code)) as agent,
    ):
        assert (await agent.harness.run(task, SKILL)).answer == "300001 True"


async def test_only_the_answer_is_shown_if_the_settings_say_so(tmp_path: Path) -> None:
    used = {"type": "tool_use", "id": "1", "name": "Bash", "input": "ls"}
    event = {"type": "assistant", "message": {"content": [used]}}
    lines = [json.dumps(json.dumps(each)) for each in (event, RESULT)]
    path = stand_in(tmp_path, "\n".join(f"print({line})" for line in lines))
    for shown, roles in (("true", ["user", "assistant"]), ("false", ["user", "assistant"])):
        async with (
            ModelServer() as server,
            open_agent(
                *("claude_code_exec", server, f"model.codex_trace_to_optimizer={shown}"), path=path
            ) as agent,
        ):
            done = await agent.harness.run(FileTask(), SKILL)
        assert [message.role for message in done.messages] == roles
        assert bool(done.messages[1].calls) is (shown == "true")


async def test_workspaces_are_kept_only_if_the_settings_say_so(tmp_path: Path) -> None:
    code = f"open('left.bin', 'w').write('x')\nprint({json.dumps(json.dumps(RESULT))})"
    path = stand_in(tmp_path, code)
    for keep in ("false", "true"):
        async with (
            ModelServer() as server,
            open_agent(
                *("claude_code_exec", server, f"env.keep_workspaces={keep}"),
                path=path,
                keep=tmp_path / "kept",
            ) as agent,
        ):
            done = await agent.harness.run(FileTask(), SKILL)
        assert set(done.files) == {"given/numbers.txt"}
        kept = {each.name for each in (tmp_path / "kept").rglob("*")}
        assert ({"left.bin", "task.md", "output.txt"} <= kept) is (keep == "true")


async def test_the_harness_contract_is_kept(tmp_path: Path) -> None:
    path = stand_in(tmp_path, ASKING.format(content="open('task.md').read()"))
    async with (
        ModelServer([Say("OK")]) as server,
        open_agent("claude_code_exec", server, path=path) as agent,
    ):
        await check_harness(agent.harness)
        assert agent.budget.meter.total.calls == len(server.questions)


async def test_a_program_that_asks_for_ever_is_stopped_by_the_budget(tmp_path: Path) -> None:
    asking = ASKING.format(content='"again"')
    code = f"while True:\n    try:\n        exec({asking!r})\n    except Exception: pass"
    async with (
        ModelServer() as server,
        open_agent(
            "claude_code_exec", server, path=stand_in(tmp_path, code), limits=Limits(calls=5)
        ) as agent,
    ):
        with pytest.raises(BudgetSpent):
            await agent.harness.run(FileTask(), SKILL)
        assert len(server.questions) == 5


CURSOR = """
import json, os, pathlib, sys
assert sys.argv[1:6] == ["-p", "--output-format", "stream-json", "--trust", "--workspace"]
assert os.environ["CURSOR_API_KEY"] == "key-of-cursor"
skill = pathlib.Path(".cursor/skills/skillopt-target/SKILL.md").read_text()
args = {"path": ".cursor/skills/skillopt-target/SKILL.md"}
call = {"readToolCall": {"args": args, "result": {"success": {"content": skill}}}}
events = [
    {"type": "system", "subtype": "init", "model": "m"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I read it."}]}},
    {"type": "tool_call", "subtype": "started", "call_id": "t1", "tool_call": call},
    {"type": "tool_call", "subtype": "completed", "call_id": "t1", "tool_call": call},
    {"type": "result", "subtype": "success", "is_error": False, "result": "4"},
]
for event in events:
    print(json.dumps(event))
"""


async def test_cursor_works_as_its_documentation_says(tmp_path: Path) -> None:
    path = stand_in(tmp_path, CURSOR)
    with pytest.raises(ConfigError, match="allow it the network with"):
        async with ModelServer() as server, open_agent("cursor_exec", server, path=path) as agent:
            await agent.harness.run(FileTask(), SKILL)
    async with (
        ModelServer() as server,
        open_agent("cursor_exec", server, "env.network=true", path=path) as agent,
    ):
        done = await agent.harness.run(FileTask(), SKILL)
    assert (done.answer, done.skill_opened) == ("4", True)
    assert [message.role for message in done.messages] == [
        "user", "assistant", "assistant", "tool", "assistant",
    ][:4]  # fmt: skip
    assert done.usage.calls == agent.budget.meter.total.calls == 1


@pytest.mark.parametrize("name", AGENTS)
async def test_a_program_that_is_not_there_is_told_with_how_to_install_it(
    name: str, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        with pytest.raises(ConfigError, match=f"{name} needs the program"):
            async with open_agent(name, server, path=str(tmp_path / "no-such")):
                pass


async def test_files_of_the_task_are_never_overwritten(tmp_path: Path) -> None:
    code = """
import json, pathlib
names = sorted(str(path) for path in pathlib.Path().glob("*.md"))
print(json.dumps({"type": "result", "is_error": False, "result": " ".join(names)}))
"""
    task = FileTask(workspace=Workspace(files={"task.md": b"of the task"}, collect=("*.md",)))
    async with (
        ModelServer() as server,
        open_agent("claude_code_exec", server, path=stand_in(tmp_path, code)) as agent,
    ):
        done = await agent.harness.run(task, SKILL)
    assert done.answer == "task.md the-task.md"
    assert done.files == {"task.md": b"of the task"}


def test_no_folder_is_shown_in_which_a_user_keeps_other_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home, packages = tmp_path / "home", tmp_path / "lib" / "node_modules"
    for path in (
        tmp_path / "here",
        home / "there",
        home / ".share" / "tool" / "run",
        packages / "tool" / "bin" / "run.js",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
    (tmp_path / "run").symlink_to(packages / "tool" / "bin" / "run.js")
    shown = {
        tmp_path / "here": [tmp_path / "here"],
        home / "there": [home / "there"],
        home / ".share" / "tool" / "run": [home / ".share" / "tool"],
        tmp_path / "run": [packages],
        Path("/usr/bin/env"): [],
    }
    assert {program: list(needed(program, home)) for program in shown} == shown


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("env.agent_seconds=0", "agent_seconds: should be above 0"),
        ("env.agent_seconds=.inf", "agent_seconds: should be above 0 and at most 604,800"),
        ("env.agent_seconds=.nan", "agent_seconds: should be above 0"),
        ("env.answer_file=../x", "answer_file: should be a path within the workspace"),
        ("env.answer_file=/etc/passwd", "answer_file: should be a path within the workspace"),
    ],
)
async def test_settings_that_no_attempt_can_have_are_refused_at_once(
    tmp_path: Path, setting: str, problem: str
) -> None:
    path = stand_in(tmp_path, "print()")
    with pytest.raises(ConfigError, match=problem):
        async with (
            ModelServer() as server,
            open_agent("claude_code_exec", server, setting, path=path),
        ):
            pass
