"""Whatever a clone brings, only our own code runs where agents and schedulers start us."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support_web import until

from skillopt.core.starting import module_command
from skillopt_sleep.plugins import plugins
from skillopt_sleep.schedulers import Cron, Job, Systemd
from skillopt_sleep.starting import own_command

MODULES = ("skillopt_sleep", "skillopt", "yaml", "click", "runpy", "json", "mcp", "sitecustomize")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with modules that leave a file when they are imported."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in MODULES:
        code = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    (folder / ".env").write_text(f"PYTHONPATH={folder}\n", encoding="utf-8")
    home = tmp_path / "home" / ".skillopt-sleep"
    home.mkdir(parents=True)
    (home / "config.yaml").write_text("run_after_sessions: true\n", encoding="utf-8")
    return folder


def started(command: list[str] | str, clone: Path, said: str = "") -> str:
    """What a command prints that is started in the clone with few variables, as by cron."""
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=clone,
        input=said,
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(clone.parent / "home"), "PATH": os.defpath},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", [own_command(), module_command("skillopt_sleep")])
def test_nothing_of_the_current_folder_is_imported_by_what_agents_and_schedulers_start(
    program: list[str], clone: Path
) -> None:
    plugin = plugins(program)["claude"]
    folder = ".claude/skills/skillopt-sleep"
    hooks = json.loads(plugin.files[f"{folder}/hooks/hooks.json"])
    (hook,) = hooks["hooks"]["SessionEnd"][0]["hooks"]
    (server,) = json.loads(plugin.files[f"{folder}/.mcp.json"])["mcpServers"].values()
    call = [server["command"], *server["args"]]
    assert "skillopt-sleep" in started(call, clone, json.dumps(HELLO) + "\n")
    log = clone.parent / "log"
    made = Job(project=clone, program=program, log=log)
    (line,) = Cron().files(made).values()
    started(line.decode().split(" ", 5)[5].replace("\\%", "%"), clone)
    assert log.read_text(encoding="utf-8")
    service = next(iter(Systemd().files(made).values())).decode()
    words = service.partition("\nExecStart=")[2].partition("\n")[0]
    started(shlex.split(words.replace("%%", "%").replace("$$", "$")), clone)
    started(hook["command"], clone, json.dumps({"cwd": str(clone)}))
    told = clone / ".skillopt-sleep" / "schedule.log"
    until(lambda: told.read_bytes() or None)
    assert not (clone.parent / "imported").exists()


def test_the_installed_script_is_what_starts_us_where_there_is_one() -> None:
    script = Path(sysconfig.get_path("scripts")) / "skillopt-sleep"
    assert own_command() == ([str(script)] if script.exists() else module_command("skillopt_sleep"))
