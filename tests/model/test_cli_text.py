"""Programs as text models: how they are called, how their output reads, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support_cli import until
from support_programs import Program, fails, make_program, prints

from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.cli.claude import ClaudeCli
from skillopt.model.cli.codex import CodexCli
from skillopt.model.cli.copilot import CopilotChat
from skillopt.model.errors import Unreachable
from skillopt.model.http import Http
from skillopt.model.provider import ModelSettings
from skillopt.testing.contracts.models import check_model

ASKED = Request(
    stage="analyst", messages=(Message("system", "Be brief."), Message("user", "Was ist groß?"))
)
CLAUDE_SAYS = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "an answer",
    "total_cost_usd": 0.0125,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 20,
        "output_tokens": 7,
    },
}
CODEX_SAYS: list[object] = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": "hm"}},
    {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "an answer"}},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 35, "cached_input_tokens": 20, "output_tokens": 7},
    },
]
COPILOT_SAYS: list[object] = [
    {"type": "session.start", "data": {}},
    {"type": "assistant.message", "data": {"content": "an "}},
    {"type": "assistant.message", "data": {"content": "answer"}},
    {"type": "result", "exitCode": 0},
]
KINDS: dict[str, tuple[type[Any], str]] = {
    "claude": (ClaudeCli, prints(CLAUDE_SAYS)),
    "codex": (CodexCli, prints(*CODEX_SAYS)),
    "copilot": (CopilotChat, prints(*COPILOT_SAYS)),
}
SHELL = {
    "PATH": os.environ["PATH"],
    "HOME": "/home/me",
    "OPENAI_API_KEY": "sk-of-another-program",
    "SSH_AUTH_SOCK": "/tmp/agent",
}


def model_of(kind: str, program: Program, **changes: object) -> Model:
    settings: dict[str, Any] = {
        "role": "optimizer",
        "name": "m",
        "extra": {"path": str(program.path)},
        "variables": Secrets(SHELL),
        **changes,
    }
    return KINDS[kind][0].create(ModelSettings(**settings), Http())


def made(folder: Path, name: str, behaviour: str | None = None) -> Program:
    return make_program(folder, name, KINDS[name][1] if behaviour is None else behaviour)


def after(call: dict[str, Any], flag: str) -> str:
    return str(call["arguments"][call["arguments"].index(flag) + 1])


@pytest.mark.parametrize("name", KINDS)
async def test_a_program_answers_in_an_empty_folder_and_sees_no_foreign_secret(
    name: str, tmp_path: Path
) -> None:
    program = made(tmp_path, name)
    reply = await model_of(name, program).complete(ASKED)
    assert reply.text == "an answer"
    (call,) = program.calls
    assert call["files"] == []
    assert not os.path.exists(call["cwd"])  # noqa: PTH110, ASYNC240 - nobody else waits
    home = call["environment"]["HOME"]
    assert home != "/home/me"
    assert not os.path.exists(home)  # noqa: PTH110, ASYNC240 - nobody else waits
    assert "OPENAI_API_KEY" not in call["environment"]
    assert "SSH_AUTH_SOCK" not in call["environment"]


async def test_claude_gets_the_prompt_on_standard_input_and_no_tools(tmp_path: Path) -> None:
    program = made(tmp_path, "claude")
    reply = await model_of("claude", program, effort="high").complete(ASKED)
    (call,) = program.calls
    assert (call["stdin"], call["instructions"]) == ("Was ist groß?", "Be brief.")
    assert after(call, "--tools") == after(call, "--setting-sources") == ""
    assert (after(call, "--model"), after(call, "--effort")) == ("m", "high")
    assert after(call, "--output-format") == "json"
    assert {"-p", "--strict-mcp-config", "--no-session-persistence"} <= set(call["arguments"])
    assert reply.usage == Usage(1, 35, 7, 20, 0.0125)


async def test_codex_gets_everything_on_standard_input_and_its_shell_is_off(
    tmp_path: Path,
) -> None:
    program = made(tmp_path, "codex")
    extra = {"path": str(program.path), "profile": "work"}
    reply = await model_of("codex", program, effort="low", extra=extra).complete(ASKED)
    (call,) = program.calls
    assert call["stdin"] == "<instructions>\nBe brief.\n</instructions>\n\nWas ist groß?"
    assert call["arguments"][0] == "exec"
    assert call["arguments"][-1] == "-"
    assert (after(call, "--sandbox"), after(call, "--profile")) == ("read-only", "work")
    assert {
        "features.shell_tool=false", 'approval_policy="never"', 'web_search="disabled"',
        'model_reasoning_effort="low"',
    } <= set(call["arguments"])  # fmt: skip
    assert reply.usage == Usage(1, 35, 7, 20)


async def test_copilot_gets_everything_on_standard_input_and_no_tools(tmp_path: Path) -> None:
    program = made(tmp_path, "copilot")
    reply = await model_of("copilot", program).complete(ASKED)
    (call,) = program.calls
    assert call["stdin"] == "<instructions>\nBe brief.\n</instructions>\n\nWas ist groß?"
    assert after(call, "--available-tools") == "none"
    assert reply.usage == Usage(1, 5, 3, estimated=1)


@pytest.mark.parametrize("name", KINDS)
async def test_the_name_default_leaves_the_model_to_the_program(name: str, tmp_path: Path) -> None:
    program = made(tmp_path, name)
    await model_of(name, program, name="default").complete(ASKED)
    assert "--model" not in program.calls[0]["arguments"]


@pytest.mark.parametrize("name", KINDS)
async def test_a_conversation_is_written_out(name: str, tmp_path: Path) -> None:
    program = made(tmp_path, name)
    turns = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    await model_of(name, program).complete(Request(stage="merge", messages=turns))
    (call,) = program.calls
    text = call["stdin"] or after(call, "-p")
    assert "<user>\none\n</user>\n\n<assistant>\ntwo\n</assistant>\n\n<user>\nthree" in text


@pytest.mark.parametrize("name", KINDS)
async def test_a_program_keeps_the_contract_of_models(name: str, tmp_path: Path) -> None:
    key = "sk-the-key-it-was-given"
    await check_model(model_of(name, made(tmp_path, name), api_key=key), secret=key)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("claude", "ANTHROPIC_API_KEY"),
        ("codex", "CODEX_API_KEY"),
        ("copilot", "COPILOT_GITHUB_TOKEN"),
    ],
)
async def test_a_key_for_the_role_reaches_the_program_and_no_message(
    name: str, variable: str, tmp_path: Path
) -> None:
    program = made(tmp_path, name, fails("bad thing: hunter2-hunter2"))
    with pytest.raises(ModelError) as caught:
        await model_of(name, program, api_key="hunter2-hunter2").complete(ASKED)
    assert program.calls[0]["environment"][variable] == "hunter2-hunter2"
    assert "hunter2" not in str(caught.value)


async def test_a_program_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    program = Program(tmp_path / "claude", tmp_path / "none")
    with pytest.raises(
        AccessError, match=r"no program '.*claude' on PATH; .*claude_code_exec_path"
    ):
        await model_of("claude", program).complete(ASKED)


@pytest.mark.parametrize(
    ("name", "words", "kind", "told"),
    [
        ("claude", "Invalid API key · Please run /login", AccessError, "run `claude` once"),
        ("codex", "Not logged in. Run codex login.", AccessError, "run `codex login`"),
        ("copilot", "Error: No authentication information found.", AccessError, "log in"),
        ("claude", "You've hit your limit · resets 3pm", AccessError, "wait until it resets"),
        ("codex", "You've hit your usage limit.", AccessError, "wait until it resets"),
        ("claude", "model m not found", AccessError, "check its name"),
        ("claude", "API Error: 529 overloaded_error", ModelError, "busy"),
        ("codex", "429 Too Many Requests", ModelError, "busy"),
        ("claude", "Prompt is too long", Refused, "too long"),
        ("codex", "stream disconnected", ModelError, "stream disconnected"),
    ],
)
async def test_what_a_program_complains_about_is_understood(
    name: str, words: str, kind: type[Exception], told: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=told) as caught:
        await model_of(name, made(tmp_path, name, fails(words))).complete(ASKED)
    if kind is ModelError:
        assert isinstance(caught.value, ModelError)
        assert caught.value.retryable


async def test_an_error_inside_of_the_output_is_no_answer(tmp_path: Path) -> None:
    said = {**CLAUDE_SAYS, "is_error": True, "result": "Credit balance is too low"}
    with pytest.raises(AccessError, match="Credit balance is too low"):
        await model_of("claude", made(tmp_path, "claude", prints(said))).complete(ASKED)
    failed = [*CODEX_SAYS[:-1], {"type": "turn.failed", "error": {"message": "it broke off"}}]
    with pytest.raises(ModelError, match="it broke off"):
        await model_of("codex", made(tmp_path, "codex", prints(*failed))).complete(ASKED)


@pytest.mark.parametrize("out", ["", "print('[1, 2')", "print('{}')", "print('null')"])
@pytest.mark.parametrize("name", KINDS)
async def test_an_output_without_an_answer_is_worth_a_retry(
    name: str, out: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        await model_of(name, made(tmp_path, name, out)).complete(ASKED)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("codex", {"type": "item.started", "item": {"type": "command_execution"}}),
        ("copilot", {"type": "tool.execution_start", "data": {}}),
    ],
)
async def test_an_answer_that_was_made_with_tools_is_refused(
    name: str, event: object, tmp_path: Path
) -> None:
    program = made(tmp_path, name, f"{prints(event)}\n{KINDS[name][1]}")
    with pytest.raises(AccessError, match="although it was given none"):
        await model_of(name, program).complete(ASKED)


HANGS = """\
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({pids!r}, "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.replace({pids!r}, {pids!r} + ".done")
time.sleep(600)
"""


def runs(pid: str) -> bool:
    """Whether a process is at work; a zombie is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_a_program_that_takes_too_long_is_an_endpoint_that_does_not_answer(
    tmp_path: Path,
) -> None:
    program = made(tmp_path, "claude", "time.sleep(600)")
    with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
        await model_of("claude", program, timeout=0.2).complete(ASKED)


async def test_a_call_that_is_cancelled_leaves_no_process_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = made(tmp_path, "codex", HANGS.format(pids=str(pids)))
    call = asyncio.ensure_future(model_of("codex", program).complete(ASKED))
    written = Path(f"{pids}.done")
    await until(written.exists)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    for pid in written.read_text("utf-8").split():  # noqa: ASYNC240 - there is nobody to wait
        await until(lambda pid=pid: not runs(pid))


@pytest.mark.parametrize("name", KINDS)
def test_what_a_program_cannot_do_is_refused_before_the_first_call(
    name: str, tmp_path: Path
) -> None:
    program = made(tmp_path, name)
    with pytest.raises(ConfigError, match="has no temperature"):
        model_of(name, program, temperature=0.5)
    with pytest.raises(ConfigError, match="has no reasoning effort 'extreme'"):
        model_of(name, program, effort="extreme")
    assert program.calls == []


@pytest.mark.parametrize("name", KINDS)
async def test_a_prompt_may_be_longer_than_an_argument(name: str, tmp_path: Path) -> None:
    program = made(tmp_path, name)
    long = Request(stage="analyst", messages=(Message("user", "x" * 300_000),))
    await model_of(name, program).complete(long)
    (call,) = program.calls
    assert call["stdin"] == "x" * 300_000


SHOW_HOME = """
import pathlib
home = pathlib.Path(os.environ["HOME"])
found = [each for each in home.rglob("*") if each.is_file()]
files = {str(each.relative_to(home)): each.read_text() for each in found}
with open(os.path.join(os.path.dirname(sys.argv[0]), "home.json"), "w") as file:
    json.dump(files, file)
"""
USERS_FILES = {
    ".codex/auth.json": '{"login": "codex"}',
    ".codex/config.toml": "model = 'mine'",
    ".codex/work.config.toml": "model = 'work'",
    ".codex/AGENTS.md": "planted",
    ".claude/.credentials.json": '{"login": "claude"}',
    ".claude/CLAUDE.md": "planted",
    ".claude.json": "{}",
    ".copilot/config.json": '// made by the program\n{"copilotTokens": {"me": "t"}, "model": "x"}',
    ".copilot/mcp-config.json": "{}",
    "Library/Keychains/login.keychain-db": "keys",
}


@pytest.mark.parametrize(
    ("name", "profile", "url", "seen"),
    [
        ("claude", "", "", {".claude/.credentials.json": '{"login": "claude"}'}),
        ("claude", "", "http://127.0.0.1:1", {}),
        ("codex", "", "", {".codex/auth.json": '{"login": "codex"}'}),
        ("codex", "", "http://127.0.0.1:1", {}),
        (
            "codex",
            "work",
            "",
            {
                ".codex/auth.json": '{"login": "codex"}',
                ".codex/work.config.toml": "model = 'work'",
            },
        ),
        ("copilot", "", "", {".copilot/config.json": '{"copilotTokens": {"me": "t"}}'}),
        ("copilot", "", "http://127.0.0.1:1", {}),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_of_the_users_home_a_program_sees_the_log_in_only(
    name: str, profile: str, url: str, seen: dict[str, str], elsewhere: bool, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for path, text in USERS_FILES.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    variables = {**SHELL, "HOME": str(home)}
    if elsewhere:
        (home / f".{name}").rename(tmp_path / "moved")
        folder = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "copilot": "COPILOT_HOME"}
        variables[folder[name]] = str(tmp_path / "moved")
    program = make_program(tmp_path / "bin", name, SHOW_HOME + KINDS[name][1])
    extra = {"path": str(program.path), "profile": profile}
    model = model_of(name, program, extra=extra, base_url=url, variables=Secrets(variables))
    await model.complete(ASKED)
    assert json.loads((tmp_path / "bin" / "home.json").read_text("utf-8")) == seen


RENEWS = """
new = os.path.join(os.environ["HOME"], ".codex", "auth.json")
{before}
with open(new, "w") as file:
    file.write({text!r})
"""


@pytest.mark.parametrize("before", ["", "os.unlink(new)"], ids=["through the link", "beside it"])
async def test_a_renewed_log_in_is_kept(before: str, tmp_path: Path) -> None:
    own = tmp_path / "home" / ".codex" / "auth.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"token": "old"}', encoding="utf-8")
    renews = RENEWS.format(before=before, text='{"token": "new"}')
    program = make_program(tmp_path / "bin", "codex", renews + KINDS["codex"][1])
    variables = Secrets({**SHELL, "HOME": str(tmp_path / "home")})
    await model_of("codex", program, variables=variables).complete(ASKED)
    assert own.read_text("utf-8") == '{"token": "new"}'
    assert [each.name for each in own.parent.iterdir()] == ["auth.json"]


async def test_a_half_written_log_in_is_not_kept(tmp_path: Path) -> None:
    own = tmp_path / "home" / ".codex" / "auth.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"token": "old"}', encoding="utf-8")
    renews = RENEWS.format(before="os.unlink(new)", text='{"tok')
    program = make_program(tmp_path / "bin", "codex", renews + KINDS["codex"][1])
    variables = Secrets({**SHELL, "HOME": str(tmp_path / "home")})
    await model_of("codex", program, variables=variables).complete(ASKED)
    assert own.read_text("utf-8") == '{"token": "old"}'


async def test_claude_tells_the_tokens_of_all_models_that_it_asked(tmp_path: Path) -> None:
    told = {
        "inputTokens": 10,
        "outputTokens": 2,
        "cacheReadInputTokens": 3,
        "cacheCreationInputTokens": 4,
    }
    says = {**CLAUDE_SAYS, "num_turns": 2, "modelUsage": {"big": told, "small": told}}
    program = make_program(tmp_path, "claude", prints(says))
    reply = await model_of("claude", program).complete(ASKED)
    assert reply.usage == Usage(2, 34, 4, 6, 0.0125)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("output", ["", "no JSON", '{"type": "unknown"}', "[" * 5000, "\\udcff"])
async def test_an_output_that_nobody_understands_is_worth_a_retry(
    name: str, output: str, tmp_path: Path
) -> None:
    program = make_program(tmp_path, name, f"print({output!r})")
    with pytest.raises(ModelError) as caught:
        await model_of(name, program).complete(ASKED)
    assert caught.value.retryable
