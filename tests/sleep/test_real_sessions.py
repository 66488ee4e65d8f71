"""Sessions that the real programs make against a model on loopback, and what is harvested."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support_agents import installed
from support_transcripts import settings_in

from skillopt.testing.model_server import ModelServer, ReceivedRequest
from skillopt.testing.wires import Act, Call, Say
from skillopt_sleep.harvest import harvest
from skillopt_sleep.mining import mine
from skillopt_sleep.values import Mood

pytestmark = pytest.mark.agents

TASK = "Write the notes of today into notes.md and run the tests of the project."
WRONG = "No, that is wrong: dates are always in UTC."
SECRET = "ghp_" + "a1B2c3D4" * 4
QUIET = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "telemetry": {"enabled": False},
}


@dataclass(frozen=True)
class Run:
    """How a program is started with a prompt, at first and to go on."""

    program: str
    first: Sequence[str]
    again: Sequence[str]
    variables: Mapping[str, str]
    shell: Call
    writes: Callable[[str], Call]
    home: str
    """Its folder in the home, or its file."""
    files: Mapping[str, object] = field(default_factory=dict[str, object])


def run_of(source: str, url: str, home: Path) -> Run:
    test = {"command": "make test", "description": "test it"}

    def write(tool: str, path: str, text: str) -> Callable[[str], Call]:
        return lambda place: Call(tool, {path: place, text: "Notes"})

    match source:
        case "claude":
            words = ["-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write"]
            words += ["--model", "claude-sonnet-4-5"]
            variables = {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "k",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            writes = write("Write", "file_path", "content")
            return Run(
                "claude",
                words,
                [*words, "--continue"],
                variables,
                Call("Bash", test),
                writes,
                ".claude",
            )
        case "codex":
            provider = f'{{name="x",base_url="{url}/v1",wire_api="responses",env_key="X_KEY"}}'
            words = ["--skip-git-repo-check", "--model", "m", "-c", 'model_provider="x"']
            words += ["-c", f"model_providers.x={provider}", "-c", 'sandbox_mode="workspace-write"']
            shell = Call("exec_command", {"cmd": "make test"})

            def patch(place: str) -> Call:
                lines = f"*** Begin Patch\n*** Add File: {place}\n+Notes\n*** End Patch"
                return Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{lines}\nEOF"})

            again = ["exec", "resume", "--last", *words]
            return Run("codex", ["exec", *words], again, {"X_KEY": "k"}, shell, patch, ".codex")
        case "copilot_cli":
            words = ["--stream", "off", "--no-color", "--log-level", "none", "--allow-all-tools"]
            variables = {
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_API_KEY": "k",
                "COPILOT_MODEL": "m",
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_WIRE_API": "completions",
                "COPILOT_OFFLINE": "true",
            }
            return Run(
                "copilot",
                [*words, "-p"],
                [*words, "--continue", "-p"],
                variables,
                Call("bash", test),
                write("create", "path", "file_text"),
                ".copilot",
            )
        case "gemini":
            words = ["--approval-mode", "yolo", "-m", "gemini-2.5-flash"]
            variables = {
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_API_KEY": "k",
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            }
            return Run(
                "gemini",
                [*words, "-p"],
                [*words, "--resume", "latest", "-p"],
                variables,
                Call("run_shell_command", test),
                write("write_file", "file_path", "content"),
                ".gemini",
                {".gemini/settings.json": QUIET},
            )
        case "opencode":
            options = {"baseURL": f"{url}/v1", "apiKey": "k"}
            model = {"name": "m", "limit": {"context": 100_000, "output": 8_000}, "tool_call": True}
            provider = {"npm": "@ai-sdk/openai-compatible", "name": "x", "options": options}
            config = {
                "model": "x/m",
                "small_model": "x/m",
                "autoupdate": False,
                "agent": {"title": {"disable": True}},
                "provider": {"x": {**provider, "models": {"m": model}}},
                "permission": {"edit": "allow", "bash": "allow"},
            }
            words = ["run", "--model", "x/m"]
            variables = {
                "OPENCODE_CONFIG": str(home / "opencode.json"),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            }
            return Run(
                "opencode",
                words,
                [*words, "--continue"],
                variables,
                Call("bash", test),
                write("write", "filePath", "content"),
                ".local/share/opencode/opencode.db",
                {"opencode.json": config},
            )
        case "pi":
            window = {"contextWindow": 100_000, "maxTokens": 8_000}
            free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
            model = {"id": "m", "name": "m", "input": ["text"], "cost": free, **window}
            provider = {"baseUrl": f"{url}/v1", "apiKey": "k", "api": "openai-completions"}
            words = ["--provider", "x", "--model", "m"]
            return Run(
                "pi",
                [*words, "-p"],
                [*words, "-c", "-p"],
                {"PI_OFFLINE": "1"},
                Call("bash", {"command": "make test"}),
                write("write", "path", "content"),
                ".pi",
                {".pi/agent/models.json": {"providers": {"x": {**provider, "models": [model]}}}},
            )
        case _:
            words = ["--auth-type", "openai", "--approval-mode", "yolo"]
            variables = {
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_KEY": "k",
                "OPENAI_MODEL": "m",
            }
            return Run(
                "qwen",
                [*words, "-p"],
                [*words, "--continue", "-p"],
                variables,
                Call("run_shell_command", test),
                write("write_file", "file_path", "content"),
                ".qwen",
            )


async def start(run: Run, words: Sequence[str], prompt: str, home: Path, project: Path) -> None:
    program = installed(run.program)
    folders = [str(Path(program).parent), str(Path(shutil.which("node") or "").parent)]
    process = await asyncio.create_subprocess_exec(
        *(program, *words, prompt),
        cwd=project,
        env={
            "PATH": os.pathsep.join([*folders, "/usr/bin", "/bin"]),
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            **run.variables,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 100)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()


SETTINGS = {
    "claude": "claude_home",
    "codex": "codex_home",
    "copilot_cli": "copilot_home",
    "gemini": "gemini_home",
    "opencode": "opencode_db",
    "pi": "pi_home",
    "qwen": "qwen_home",
}


@pytest.mark.parametrize("source", SETTINGS)
async def test_a_real_session_is_harvested_as_it_was(source: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "tmp").mkdir(parents=True)
    project.mkdir()
    (project / "Makefile").write_text("test:\n\t@echo passed\n", encoding="utf-8")
    acts: list[Act] = []

    def model(asked: ReceivedRequest) -> Act:
        # Programs also ask for titles and the like, without tools or without the prompt.
        return acts.pop(0) if asked.tools and TASK in asked.text and acts else Say("Fine.")

    async with ModelServer(model) as server:
        run = run_of(source, server.url, home)
        for name, content in run.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(json.dumps(content), encoding="utf-8")
        before = datetime.now(timezone.utc)
        acts += [run.shell, run.writes(str(project / "notes.md")), Say(f"Done, key {SECRET}.")]
        await start(run, run.first, f"{TASK} Key: {SECRET}", home, project)
        acts.append(Say("All dates are UTC now."))
        await start(run, run.again, WRONG, home, project)
        after = datetime.now(timezone.utc)
    assert acts == []
    assert (project / "notes.md").read_text("utf-8").strip() == "Notes"

    settings = settings_in(
        tmp_path / "none", project=project, **{SETTINGS[source]: home / run.home}
    )
    found = harvest(settings, None, after)
    (session,) = found.sessions
    assert (session.source, session.project) == (source, project)
    assert session.prompts == (f"{TASK} Key: [redacted]", WRONG)
    assert session.answers == ("Done, key [redacted].", "All dates are UTC now.")
    assert run.shell.tool in session.tools
    assert session.commands[0] == "make test"
    assert session.files == ("notes.md",)
    assert [(each.mood, each.turn, each.text) for each in session.reactions] == [
        (Mood.NEGATIVE, 1, WRONG)
    ]
    assert before <= session.started <= session.ended <= after
    assert session.origin is not None
    assert SECRET not in repr(found)
    (task,) = mine(found.sessions, settings.model_copy(update={"replay": "agent"}))
    assert (task.reference.kind, task.reference.text) == ("command", "make test")
    assert (task.outcome, task.pain) == ("fail", 1.0)
