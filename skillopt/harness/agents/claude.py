"""Agent `claude_code_exec`: Claude Code's program `claude`, in print mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skillopt.core.intake import Json
from skillopt.errors import ConfigError
from skillopt.harness.agents.base import (
    DOOR,
    HOME,
    KEY,
    AgentCall,
    AgentHarness,
    AgentLaunch,
    AgentReport,
    Transcript,
)
from skillopt.harness.places import PLACES

_VARIABLES: Final = {
    "ANTHROPIC_BASE_URL": DOOR,
    "ANTHROPIC_API_KEY": KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",  # else a second call per question, for a title
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",  # the door forwards what is documented
    "CLAUDE_CODE_MAX_RETRIES": "0",  # whatever may pass is repeated at the other end of the door
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "API_TIMEOUT_MS": "3600000",
    "IS_SANDBOX": "1",
}
_TOOLS: Final = "Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,TodoWrite,Write"


class ClaudeCodeExec(AgentHarness):
    """`claude -p`: with its tools for files and commands, and with none that leave the sandbox."""

    name = "claude_code_exec"
    program = "claude"
    path_variables = ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN")
    install = "npm install -g @anthropic-ai/claude-code"
    backend = "claude_chat"
    place = PLACES["claude"]
    folder = ".claude"
    efforts = ("low", "medium", "high", "xhigh", "max")

    def launch(self, call: AgentCall) -> AgentLaunch:
        tools = f"{_TOOLS},WebFetch,WebSearch" if call.network else _TOOLS
        arguments = ["-p", "--output-format", "stream-json", "--verbose"]
        arguments += ["--permission-mode", "bypassPermissions", "--tools", tools]
        arguments += ["--strict-mcp-config", "--setting-sources", "project"]
        arguments += ["--no-session-persistence", "--model", call.model]
        if call.effort:
            arguments += ["--effort", call.effort]
        home = dict[str, str]()
        if profile := call.option("profile"):
            arguments += ["--settings", f"{HOME}/profile.json"]
            home["profile.json"] = _profile(call, profile)
        thinking = call.options.get("max_thinking_tokens")
        variables = {**_VARIABLES}
        if isinstance(thinking, int):
            variables["MAX_THINKING_TOKENS"] = str(thinking)
        return AgentLaunch([*arguments, "--", call.prompt], variables, home)

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        return read_stream(events)


def read_stream(events: Iterable[dict[str, Json]]) -> AgentReport:
    """What the events of `stream-json` tell, which several programs print."""
    told = Transcript()
    answer: str | None = None
    problem = ""
    for event in events:
        match event:
            case {"type": "assistant" | "user", "message": {"content": list(blocks)}}:
                for block in blocks:
                    _tell(told, block)
            case {"type": "result", "is_error": True, **rest}:
                problem = str(rest.get("result") or rest.get("subtype"))
            case {"type": "result", "result": str(text)}:
                answer = text
            case _:
                pass
    return told.report(answer, problem)


def _tell(told: Transcript, block: Json) -> None:
    """A piece of a message as Anthropic's API writes it."""
    match block:
        case {"type": "text", "text": str(text)}:
            told.say(text)
        case {"type": "tool_use", "id": str(number), "name": str(tool), "input": arguments}:
            told.call(number, tool, arguments)
        case {"type": "tool_result", "tool_use_id": str(number), **rest}:
            told.result(number, _text(rest.get("content")))
        case _:
            pass


def _text(content: Json) -> str:
    match content:
        case str():
            return content
        case list():
            return "\n".join(map(_text, content))
        case {"text": str(text)}:
            return text
        case {"type": str(kind)}:
            return f"[{kind}]"
        case _:
            return ""


def _profile(call: AgentCall, name: str) -> str:
    file = call.own_folder / f"{name}.json"
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(
            f"model.claude_code_exec_profile: {file} cannot be read: {error.strerror}"
        ) from error
