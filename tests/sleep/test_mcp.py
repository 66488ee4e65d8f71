"""The MCP server, as the official client sees it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from sleep.support_adoption import night, settings_in
from support_programs import make_program

from skillopt.aio import within
from skillopt_sleep.mcp_server import TOOLS
from skillopt_sleep.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path, state_dir=tmp_path / ".skillopt-sleep")


@asynccontextmanager
async def connected(settings: Settings, *arguments: str) -> AsyncGenerator[ClientSession, None]:
    home = settings.project.parent
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "skillopt_sleep", "mcp", *arguments],
        cwd=home if arguments else settings.project,
        env={**os.environ, "HOME": str(home)},
    )
    async with (
        stdio_client(server) as (reader, writer),
        ClientSession(reader, writer) as session,
    ):
        await session.initialize()
        yield session


async def called(session: ClientSession, tool: str, **given: object) -> tuple[dict[str, Any], bool]:
    result = await session.call_tool(tool, given)
    content: dict[str, Any] = result.structured_content
    assert content.keys() == {"status", "exit_code", "diagnostics", "output"}
    return content, result.is_error


async def test_a_client_sees_every_command_with_a_closed_schema_of_the_settings(
    settings: Settings,
) -> None:
    async with connected(settings) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools.keys() == TOOLS.keys()
    for tool in tools.values():
        assert tool.input_schema["additionalProperties"] is False
        assert tool.description
        properties = tool.input_schema["properties"]
        further = properties["settings"]["propertyNames"]["enum"]
        assert (
            Settings.model_fields.keys() == {*further, *properties} & Settings.model_fields.keys()
        )
        assert not {*further} & properties.keys()
        assert not {"json", "as_json", "json_wanted"} & properties.keys()
    size = len(json.dumps([tool.input_schema for tool in tools.values()]))
    assert size < 20_000, "a model reads all of it in every session"
    hour = tools["sleep_schedule"].input_schema["properties"]["hour"]
    assert hour == {"type": "integer", "minimum": 0, "maximum": 23}
    adopt = tools["sleep_adopt"].input_schema["properties"]
    assert adopt["skills"]["type"] == "array"
    assert adopt["legacy"]["type"] == "boolean"
    night = tools["sleep_run"].input_schema["properties"]
    assert night["scope"]["enum"] == ["invoked", "all"]
    assert night["max_tasks"]["minimum"] == 1
    assert night["source"]["description"]
    assert tools["sleep_status"].annotations
    assert tools["sleep_status"].annotations.read_only_hint


async def test_a_night_is_adopted_and_taken_back_in_the_project_of_the_caller(
    settings: Settings,
) -> None:
    night(settings)
    memory = settings.project / "CLAUDE.md"
    async with connected(settings) as session:
        content, failed = await called(session, "sleep_adopt", legacy=True)
        assert (content["status"], content["exit_code"], failed) == ("ok", 0, False)
        name = json.loads(content["output"])["name"]
        assert memory.is_file()
        content, _ = await called(session, "sleep_rollback", name=name)
        assert content["status"] == "ok"
        assert not memory.exists()
        content, failed = await called(session, "sleep_adopt")
        assert (content["status"], content["exit_code"], failed) == ("error", 1, True)
        assert "no night waits" in content["diagnostics"]


async def test_a_project_is_named_by_the_server_or_by_the_call(settings: Settings) -> None:
    night(settings)
    async with connected(settings, "--project", str(settings.project)) as session:
        content, _ = await called(session, "sleep_adopt", skills=["memory"])
        assert content["status"] == "ok", content
    other = settings.project.parent / "other"
    other.mkdir()
    async with connected(settings.model_copy(update={"project": other})) as session:
        content, _ = await called(session, "sleep_adopt", project=str(settings.project))
        assert [file["target"] for file in json.loads(content["output"])["files"]] == ["skill"]
        with pytest.raises(MCPError, match="is no folder"):
            await called(session, "sleep_adopt", project="nowhere")


async def test_a_setting_that_is_written_wrongly_is_told_with_the_nearest_name(
    settings: Settings,
) -> None:
    async with connected(settings) as session:
        with pytest.raises(MCPError, match="did you mean 'max_tasks'"):
            await called(session, "sleep_dry_run", settings={"max_taks": 1})
        with pytest.raises(MCPError, match="project is an argument of its own"):
            await called(session, "sleep_dry_run", settings={"project": "/"})
        content, _ = await called(session, "sleep_dry_run", settings={"max_tasks": 1})
    assert content["status"] == "ok", content


async def test_tasks_are_written_below_the_project_alone(settings: Settings) -> None:
    outside = settings.project.parent / "tasks.json"
    (settings.project / "link").symlink_to(settings.project.parent)
    async with connected(settings) as session:
        for name in (str(outside), "../tasks.json", "link/tasks.json"):
            with pytest.raises(MCPError, match="is not below"):
                await called(session, "sleep_harvest", output=name)
        with pytest.raises(MCPError, match="no argument 'force'"):
            await called(session, "sleep_harvest", output="tasks.json", force=True)
        content, _ = await called(session, "sleep_harvest", output="tasks.json")
    assert content["status"] == "ok", content
    assert (settings.project / "tasks.json").is_file()
    assert not outside.exists()


async def test_wrong_names_are_told_and_values_stay_values_whatever_they_look_like(
    settings: Settings,
) -> None:
    async with connected(settings) as session:
        with pytest.raises(MCPError, match="did you mean 'sleep_adopt'") as error:
            await session.call_tool("sleep_adapt", {})
        assert error.value.code == -32602
        with pytest.raises(MCPError, match="did you mean 'staging'"):
            await session.call_tool("sleep_adopt", {"stagin": "x"})
        with pytest.raises(MCPError, match="not of the right type"):
            await session.call_tool("sleep_run", {"model": {}})
        with pytest.raises(MCPError, match="did you mean 'evolve_memory'"):
            await session.call_tool("sleep_adopt", {"settings": {"evolve_memry": False}})
        content, failed = await called(session, "sleep_schedule", hour=99, show=True)
        assert (content["exit_code"], failed) == (2, True)
        assert "--hour" in content["diagnostics"]

        content, _ = await called(
            session, "sleep_schedule", show=True, scheduler="launchd", model="--auto-adopt; rm",
            settings={"skill_root": ["a", "-b"], "evolve_memory": False},
        )  # fmt: skip
    command = json.loads(content["output"])["command"]
    assert "--model=--auto-adopt; rm" in command
    assert f"--skill-root={settings.project}/-b" in command
    assert "--no-evolve-memory" in command
    assert "--auto-adopt" not in command


async def test_a_call_that_is_taken_back_ends_its_command(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that the command's program holds open tells when it begins and when it is gone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    make_program(tmp_path / "bin", "crontab", f"held = open({str(pipe)!r}, 'w')\ntime.sleep(60)")
    (tmp_path / "bin" / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    async with connected(settings) as session:
        call = asyncio.ensure_future(session.call_tool("sleep_schedule", {"scheduler": "cron"}))
        held = await within(60, asyncio.to_thread(pipe.open))
        call.cancel()
        await asyncio.wait([call])
        with held:
            assert await within(30, asyncio.to_thread(held.read)) == ""
        assert (await session.list_tools()).tools
