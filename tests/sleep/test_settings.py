"""Settings come from one file, in which each is said once; what is wrong is told, not guessed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest
from aiohttp import web
from sleep.support_adoption import settings_in
from support_sleep import office, simulated
from support_wire import WireServer

from skillopt.errors import ConfigError
from skillopt_sleep.harvest import harvest
from skillopt_sleep.night import look, run_night_async
from skillopt_sleep.planning import Bench
from skillopt_sleep.settings import Settings, load
from skillopt_sleep.starting import own_command


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"max_tasks": 1,\n\t"max_tasks": 2}'),
        ("config.yaml", "max_tasks: 1\nmodel: x\nmax_tasks: 2\n"),
        ("config.yml", "max_tasks: 1\nmax_tasks_per_night: 2\n"),
    ],
)
def test_a_setting_that_is_there_twice_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{name}.*'max_tasks' twice"):
        load({"state_dir": tmp_path})


@pytest.mark.parametrize(
    ("name", "text"), [("config.json", '{"max_tasks": 7}'), ("config.yaml", "max_tasks: 7\n")]
)
def test_a_byte_order_mark_of_an_editor_is_no_obstacle(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert load({"state_dir": tmp_path}).max_tasks == 7


def test_two_configuration_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "config.yaml").write_text("redact: false\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.json and .*config\.yaml are both there"):
        load({"state_dir": tmp_path})


@pytest.mark.parametrize("source", ["auto", "jsonl", "claude"])
def test_a_file_of_sessions_that_is_not_there_is_an_error(source: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, sessions_file=tmp_path / "none.jsonl", source=source)
    with pytest.raises(ConfigError, match=r"sessions_file: .*none\.jsonl is no file"):
        harvest(settings, None, datetime.now(timezone.utc))


@pytest.mark.sandbox
async def test_the_keys_of_a_night_come_from_its_project_and_not_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "no"}}, status=401)

    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        folder.mkdir()
        text = f"OPENAI_COMPATIBLE_API_KEY=key-of-{folder.name}\n"
        (folder / ".env").write_text(text, encoding="utf-8")
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY", raising=False)
    monkeypatch.chdir(elsewhere)
    async with WireServer([refused]) as server:
        settings = simulated(project, tmp_path, f"{server.url}/v1")
        tasks = office(12, 3, project)
        night = await run_night_async(settings, Bench(tasks=tasks, home=tmp_path))
    assert night.failed
    assert {seen.headers["Authorization"] for seen in server.seen} == {"Bearer key-of-project"}


def test_a_project_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    project.mkdir()
    with pytest.raises(ConfigError, match="not UTF-8"):
        look(Settings(project=project, state_dir=tmp_path / "state"))


@pytest.mark.parametrize("size", [0, 1, 100, 500, 900])
def test_a_full_disk_is_told_as_one(size: int, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)

    def filled() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    words = ["run", f"--project={settings.project}", f"--state-dir={tmp_path / 'state'}", "--json"]
    done = subprocess.run(
        [*own_command(), *words],
        preexec_fn=filled,
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 1
    assert "bug" not in done.stderr
    assert json.loads(done.stdout)["error"] == "StoreError"
