"""Nights are planned with every option, and nothing else of a scheduler is touched."""

from __future__ import annotations

import fcntl
import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from xml.etree import ElementTree as ET

import pytest
from sleep.support_adoption import settings_in
from support_programs import Program, make_program

from skillopt.errors import ConfigError, StoreError
from skillopt_sleep.schedule import schedule, unschedule
from skillopt_sleep.schedulers import (
    Cron,
    Job,
    Launchd,
    SchedulerError,
    Systemd,
    Windows,
    key_of,
)
from skillopt_sleep.settings import Settings
from skillopt_sleep.transaction import one_at_a_time

NASTY = ("--model=50%", '--preferences=it\'s "so" $HOME `x` \\ 100% \u00e9', "--auto-adopt")
FOREIGN = b"# mine, not UTF-8: \xff\nMAILTO=me\n5 1 * * * echo 100\\% # project\n\n\n# end\n"
CRONTAB = """\
import pathlib, sys
table = pathlib.Path(__file__).with_name("table")
match sys.argv[1:]:
    case ["-l"]:
        if pathlib.Path(__file__).with_name("broken").exists():
            sys.exit("crontab: cannot open your file")
        if not table.exists():
            sys.exit("no crontab for me")
        sys.stdout.buffer.write(table.read_bytes())
    case ["-r"]:
        table.unlink()
    case ["-"]:
        if pathlib.Path(__file__).with_name("full").exists():
            sys.exit("disk full")
        table.write_bytes(call["stdin"].encode(errors="surrogateescape"))
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the programs of the test alone, and a home of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


def job(folder: Path, name: str = "pro ject 100% $x 'q'", **given: object) -> Job:
    project = folder / name
    project.mkdir(exist_ok=True)
    values: dict[str, object] = {
        "project": project,
        "arguments": NASTY,
        "path": "/a b:/usr/bin",
        "log": project / "100% log.txt",
    }
    return Job(**{**values, **given})  # pyright: ignore[reportArgumentType]


def executed(line: bytes) -> None:
    """Do with a line of a crontab what cron does: five fields, `\\%`, then the shell."""
    command = line.split(b" ", 5)[5].replace(b"\\%", b"%")
    subprocess.run([b"/bin/sh", b"-c", command], check=True, env={"HOME": "/"})


def test_a_line_of_cron_calls_the_program_with_every_argument_as_it_was(tmp_path: Path) -> None:
    program = make_program(tmp_path, "py", "print('said')")
    made = job(tmp_path, program=[str(program.path)], path=f"/x%y:{os.environ['PATH']}")
    ((_, line),) = Cron().files(made).items()
    executed(line)
    (call,) = program.calls
    assert call["arguments"] == made.command[1:]
    assert call["arguments"][-3:] == list(NASTY)
    assert call["environment"]["PATH"] == made.path
    assert made.log.read_text(encoding="utf-8") == "said\n"


def test_what_cron_cannot_hold_is_refused_with_where_to_put_it(tmp_path: Path) -> None:
    for arguments in (("--preferences=a\nb",), ("--preferences=" + "x" * 1000,)):
        with pytest.raises(SchedulerError, match=r"config\.yaml"):
            Cron().files(job(tmp_path, arguments=arguments))


def test_a_foreign_crontab_keeps_every_byte(programs: Path, tmp_path: Path) -> None:
    make_program(programs, "crontab", CRONTAB)
    table = programs / "table"
    table.write_bytes(FOREIGN)
    first, second = job(tmp_path, "a"), job(tmp_path, "b", hour=4, minute=5)
    cron = Cron()
    cron.add(first)
    cron.add(second)
    cron.add(first)
    assert sorted(cron.planned()) == sorted([first.key, second.key])
    text = table.read_bytes()
    assert text.startswith(FOREIGN)
    assert text.count(b"project-sha256=") == 2
    cron.remove(first.key)
    table.write_bytes(table.read_bytes() + b"# later\n")
    cron.add(first)
    assert table.read_bytes().endswith(b"# later\n")
    cron.remove(first.key)
    cron.remove(second.key)
    assert table.read_bytes() == FOREIGN + b"# later\n"


def test_a_crontab_of_ours_alone_is_removed_again(programs: Path, tmp_path: Path) -> None:
    make_program(programs, "crontab", CRONTAB)
    Cron().add(job(tmp_path))
    assert (programs / "table").exists()
    Cron().remove(job(tmp_path).key)
    assert not (programs / "table").exists()


def test_lines_of_the_user_in_a_block_without_an_end_are_kept(
    programs: Path, tmp_path: Path
) -> None:
    make_program(programs, "crontab", CRONTAB)
    table = programs / "table"
    made = job(tmp_path)
    ((_, line),) = Cron().files(made).items()
    table.write_bytes(
        b"1 1 * * * a\n# >>> skillopt-sleep (managed) >>>\n" + line + b"2 2 * * * b\n"
    )
    Cron().remove(made.key)
    assert table.read_bytes() == b"1 1 * * * a\n2 2 * * * b\n"


def test_a_crontab_that_cannot_be_read_or_written_is_not_touched(
    programs: Path, tmp_path: Path
) -> None:
    make_program(programs, "crontab", CRONTAB)
    (programs / "table").write_bytes(FOREIGN)
    (programs / "broken").touch()
    with pytest.raises(SchedulerError, match="not touched: crontab: cannot open your file"):
        Cron().add(job(tmp_path))
    (programs / "broken").unlink()
    (programs / "full").touch()
    with pytest.raises(SchedulerError, match="is as it was: disk full"):
        Cron().add(job(tmp_path))
    assert (programs / "table").read_bytes() == FOREIGN


@pytest.fixture
def real_crontab(programs: Path) -> Iterator[list[str]]:
    """The real program, for a user who has no crontab."""
    real = shutil.which("crontab", path="/usr/bin:/bin")
    if real is None:
        pytest.skip("crontab is not installed (apt-get install cron)")
    if os.geteuid() != 0:
        pytest.skip("only root can give a crontab to another user than oneself")
    (programs / "crontab").write_text(f'#!/bin/sh\nexec {real} -u nobody "$@"\n', encoding="utf-8")
    (programs / "crontab").chmod(0o755)
    with (Path(gettempdir()) / "skillopt-test-crontab").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = [real, "-u", "nobody"]
        if subprocess.run([*table, "-l"], capture_output=True, check=False).returncode == 0:
            pytest.skip("the user nobody has a crontab")
        yield table
        subprocess.run([*table, "-r"], capture_output=True, check=False)


def test_a_schedule_goes_to_the_real_crontab_and_back(
    real_crontab: list[str], tmp_path: Path, settings: Settings
) -> None:
    def shown() -> bytes:
        return subprocess.run([*real_crontab, "-l"], capture_output=True, check=True).stdout

    foreign = FOREIGN.replace(b"\xff", b"\xc3\xa9")
    subprocess.run([*real_crontab, "-"], input=foreign, check=True)
    assert shown() == foreign
    made = schedule(settings, arguments=NASTY, hour=23, minute=59, system="cron")
    assert shown() == (
        foreign
        + b"# >>> skillopt-sleep (managed) >>>\n"
        + made.files["crontab"]
        + b"# <<< skillopt-sleep (managed) <<<\n"
    )
    assert b"59 * * * * " in shown()
    assert b"--if-due=23:59" in shown()
    schedule(settings_in(tmp_path / "other"), system="cron")
    assert len(Cron().planned()) == 2
    assert unschedule(settings) == [("cron", key_of(settings.project))]
    assert len(unschedule(settings, every=True)) == 1
    assert shown() == foreign
    subprocess.run([*real_crontab, "-r"], check=True)
    schedule(settings, system="cron")
    unschedule(settings)
    assert subprocess.run([*real_crontab, "-l"], capture_output=True, check=False).returncode == 1


def test_units_of_systemd_are_valid_and_catch_up_a_missed_night(
    programs: Path, tmp_path: Path
) -> None:
    real = shutil.which("systemd-analyze", path="/usr/bin:/bin")
    if real is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd)")
    systemctl = make_program(programs, "systemctl", "")
    made = job(tmp_path)
    Systemd().add(made)
    assert Systemd().planned() == [made.key]
    assert [call["arguments"][1:] for call in systemctl.calls] == [
        ["daemon-reload"],
        ["enable", "--now", f"skillopt-sleep-{made.key}.timer"],
    ]
    paths = [Path(path) for path in Systemd().files(made)]
    done = subprocess.run(
        [real, "verify", "--user", *paths],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    service, timer = (path.read_text(encoding="utf-8") for path in paths)
    assert "Persistent=true" in timer
    assert "OnCalendar=*-*-* 03:17:00" in timer
    assert '"--model=50%%"' in service
    assert "$$HOME" in service
    Systemd().remove(made.key)
    assert Systemd().planned() == []


def test_a_timer_that_systemd_refuses_leaves_nothing_behind(programs: Path, tmp_path: Path) -> None:
    make_program(programs, "systemctl", "sys.exit('refused' if 'enable' in sys.argv else 0)")
    with pytest.raises(SchedulerError, match="refused"):
        Systemd().add(job(tmp_path))
    assert Systemd().planned() == []


def test_an_agent_of_launchd_has_every_argument_and_runs_at_load(
    programs: Path, tmp_path: Path
) -> None:
    launchctl = make_program(programs, "launchctl", "")
    made = job(tmp_path)
    Launchd().add(made)
    assert Launchd().planned() == [made.key]
    (path,) = Launchd().files(made)
    agent = plistlib.loads(Path(path).read_bytes())
    assert agent["ProgramArguments"] == made.command
    assert agent["StartCalendarInterval"] == {"Hour": 3, "Minute": 17}
    assert agent["RunAtLoad"] is True
    assert [call["arguments"][0] for call in launchctl.calls] == ["bootout", "bootstrap"]
    assert launchctl.calls[1]["arguments"][-1] == path
    Launchd().remove(made.key)
    assert not Path(path).exists()


def test_a_task_of_windows_has_every_argument_and_starts_when_it_was_missed(
    programs: Path, tmp_path: Path
) -> None:
    made = job(tmp_path)
    listing = f'"\\SkillOpt-Sleep-{made.key}","03:17","Ready"\n"\\Other","",""\n'
    keep = "import shutil\nif '/XML' in sys.argv: shutil.copy(sys.argv[5], __file__ + '.xml')\n"
    schtasks = make_program(programs, "schtasks", keep + f"print({listing!r})")
    Windows().add(made)
    task = ET.fromstring((programs / "schtasks.xml").read_bytes())
    space = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
    assert task.findtext(f".//{space}StartWhenAvailable") == "true"
    assert task.findtext(f".//{space}MultipleInstancesPolicy") == "IgnoreNew"
    assert task.findtext(f".//{space}Command") == made.command[0]
    told = task.findtext(f".//{space}Arguments")
    assert told == subprocess.list2cmdline(made.command[1:])
    assert Windows().planned() == [made.key]
    Windows().remove(made.key)
    assert schtasks.calls[-1]["arguments"] == ["/Delete", "/TN", f"SkillOpt-Sleep-{made.key}", "/F"]


def test_the_first_scheduler_that_answers_is_used_and_others_forget_the_project(
    programs: Path, settings: Settings
) -> None:
    make_program(programs, "crontab", CRONTAB)
    assert schedule(settings).system == ("launchd" if sys.platform == "darwin" else "cron")
    make_program(programs, "systemctl", "")
    assert schedule(settings, system="systemd").system == "systemd"
    assert Cron().planned() == []
    assert unschedule(settings) == [("systemd", key_of(settings.project))]


def test_without_a_scheduler_the_line_is_shown(programs: Path, settings: Settings) -> None:
    assert programs.is_dir()
    with pytest.raises(SchedulerError, match="--if-due=03:17"):
        schedule(settings)
    assert schedule(settings, system="launchd", write=False).files
    with pytest.raises(ConfigError, match="no time of day"):
        schedule(settings, hour=24)
    with pytest.raises(ConfigError, match="no scheduler 'at'"):
        schedule(settings, system="at")


def run(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skillopt_sleep", *arguments],
        cwd=settings.project,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_commands_keep_every_flag(programs: Path, settings: Settings) -> None:
    crontab: Program = make_program(programs, "crontab", CRONTAB)
    done = run(
        settings, "schedule", "--json", "--hour", "5", "--source", "codex", "--model", "-m%",
        "--target-skill-path", "s/SKILL.md", "--skill-root", "a", "--skill-root", "b",
        "--no-evolve-memory",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    command = document["command"]
    start = command.index("run") + 1
    assert command[start : start + 2] == ["--if-due=05:17", f"--project={settings.project}"]
    assert sorted(command[start + 2 :]) == sorted(
        [
            "--source=codex",
            f"--target-skill-path={settings.project}/s/SKILL.md",
            f"--skill-root={settings.project}/a",
            f"--skill-root={settings.project}/b",
            "--no-evolve-memory",
            "--model=-m%",
        ]
    )
    assert crontab.calls
    assert Path(document["log"]).parent.is_dir()
    elsewhere = run(
        settings_in(settings.project.parent / "elsewhere"), "schedule", "--show", "--json",
        f"--project={settings.project}", "--target-skill-path=s/SKILL.md", "--tasks-file=t.json",
    )  # fmt: skip
    command = json.loads(elsewhere.stdout)["command"]
    assert f"--target-skill-path={settings.project}/s/SKILL.md" in command
    assert f"--tasks-file={settings.project.parent}/elsewhere/project/t.json" in command
    told = run(settings, "schedule", "--auto-adopt")
    assert "is adopted at once" in told.stdout
    assert "waits" not in told.stdout
    assert "no model is configured" in told.stderr
    assert "program claude was not found" in run(settings, "schedule", "--backend=claude").stderr
    assert "scheduled every day by cron" in run(settings, "status").stdout
    (end,) = re.findall(r"^  skillopt-sleep (unschedule .*)$", told.stderr, re.MULTILINE)
    assert f"--project {settings.project}" in end
    removed = json.loads(run(settings, "unschedule", "--json").stdout)["removed"]
    assert [row["scheduler"] for row in removed] == ["cron"]
    (programs / "crontab").unlink()
    assert run(settings, "schedule").returncode == 1
    assert run(settings, "schedule", "--hour", "24").returncode == 2


def test_homes_that_variables_name_are_written_as_flags(
    programs: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(programs, "crontab", CRONTAB)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/my/claude")
    monkeypatch.setenv("CODEX_HOME", "/my/codex")
    done = run(settings, "schedule", "--show", "--json", "--codex-home", "/given")
    command = json.loads(done.stdout)["command"]
    assert "--claude-home=/my/claude" in command
    assert [word for word in command if "codex" in word] == ["--codex-home=/given"]


def test_variables_that_decide_where_sessions_are_found_are_kept(
    programs: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(programs, "crontab", CRONTAB)
    told = {
        "OPENCODE_DB": "other.db",
        "XDG_DATA_HOME": "/my data",
        "XDG_CONFIG_HOME": "/my/config",
        "VSCODE_PORTABLE": "/my/100%",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SKILLOPT_SLEEP_WORKERS", "2")
    monkeypatch.setenv("SKILLOPT_SLEEP_NEG_FEEDBACK", "nope, try again")
    shown = json.loads(run(settings, "schedule", "--show", "--json").stdout)
    assert "--workers=2" in shown["command"]
    assert "--negative-phrases=try again" in shown["command"]
    line = next(iter(shown["files"].values())).replace("\\%", "%")
    assert {f"{name}={value}" for name, value in told.items()} <= set(shlex.split(line))
    job = Job(project=settings.project, log=Path("/log"), variables=told)
    (agent,) = Launchd().files(job).values()
    assert plistlib.loads(agent)["EnvironmentVariables"] == job.environment
    service = b"".join(Systemd().files(job).values()).decode()
    assert '"XDG_DATA_HOME=/my data" "XDG_CONFIG_HOME=/my/config"' in service


@pytest.mark.parametrize(
    "address",
    ["https://me:hunter2x@host/v1", "https://t0ken@host", "https://host?api_key=hunter2x"],
)
def test_an_address_with_a_password_is_not_planned(
    programs: Path, settings: Settings, address: str
) -> None:
    crontab = make_program(programs, "crontab", CRONTAB)
    done = run(settings, "schedule", "--base-url", address)
    assert done.returncode == 2
    assert "config.yaml" in done.stderr
    assert "hunter2x" not in done.stdout + done.stderr
    assert not crontab.calls


@pytest.mark.parametrize(
    "words",
    [
        ("--preferences", "api_key=sk-hunter2x0123456789abcdef"),
        ("--preferences", "the password is hunter2x"),
        (
            "--negative-phrases",
            "no",
            "--negative-phrases",
            "ghp_hunter2x0123456789abcdefghijklmnop",
        ),
        ("--skill-root", "/skills/ghp_hunter2x0123456789abcdefghijklmnop"),
    ],
)
def test_a_secret_in_any_option_is_not_planned(
    programs: Path, settings: Settings, words: tuple[str, ...]
) -> None:
    crontab = make_program(programs, "crontab", CRONTAB)
    done = run(settings, "schedule", *words)
    assert done.returncode == 2
    assert f"the option {words[0]} out" in " ".join(done.stderr.split())
    assert "hunter2x" not in done.stdout + done.stderr
    assert not crontab.calls


def test_schedules_of_one_user_wait_for_each_other_whatever_their_state_folders(
    programs: Path, tmp_path: Path
) -> None:
    make_program(programs, "crontab", CRONTAB)
    with one_at_a_time(Path.home() / ".skillopt-sleep"):
        for change in (schedule, unschedule):
            with pytest.raises(StoreError, match="another process"):
                change(settings_in(tmp_path, state_dir=tmp_path / "elsewhere"))
    assert schedule(settings_in(tmp_path)).system


INTERRUPTED = (
    CRONTAB
    + """\
spoilt = pathlib.Path(__file__).with_name("spoilt")
if sys.argv[1:] == ["-"] and spoilt.exists():
    table.write_bytes(spoilt.read_bytes())
    spoilt.unlink()
"""
)


@pytest.mark.parametrize(
    ("spoilt", "kept"),
    [
        (FOREIGN + b"1 1 * * * theirs\n", FOREIGN + b"1 1 * * * theirs\n"),
        (FOREIGN[: len(FOREIGN) // 2], FOREIGN),
    ],
    ids=["another program wrote it too", "a part of it was lost"],
)
def test_a_crontab_that_is_not_as_it_was_written_is_written_again(
    spoilt: bytes, kept: bytes, programs: Path, tmp_path: Path
) -> None:
    make_program(programs, "crontab", INTERRUPTED)
    table = programs / "table"
    table.write_bytes(FOREIGN)
    (programs / "spoilt").write_bytes(spoilt)
    Cron().add(job(tmp_path))
    assert Cron().planned() == [job(tmp_path).key]
    assert table.read_bytes().startswith(kept)
    (programs / "spoilt").write_bytes(table.read_bytes())
    Cron().remove(job(tmp_path).key)
    assert table.read_bytes() == kept


def test_a_last_line_without_a_newline_gains_no_byte(programs: Path, tmp_path: Path) -> None:
    make_program(programs, "crontab", CRONTAB)
    table = programs / "table"
    table.write_bytes(FOREIGN + b"# no newline")
    for name in ("a", "b"):
        Cron().add(job(tmp_path, name))
    assert table.read_bytes().endswith(FOREIGN + b"# no newline")
    for key in Cron().planned():
        Cron().remove(key)
    assert table.read_bytes() == FOREIGN + b"# no newline"


def test_units_are_written_where_the_process_says_and_not_where_a_clone_does(
    programs: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(programs, "systemctl", "")
    elsewhere = settings.project / "units"
    (settings.project / ".env").write_text(f"XDG_CONFIG_HOME={elsewhere}\n", encoding="utf-8")
    monkeypatch.chdir(settings.project)
    for folder in (Path.home() / ".config", settings.project.parent / "mine"):
        schedule(settings, system="systemd")
        assert list((folder / "systemd" / "user").glob("*.timer"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.project.parent / "mine"))
    assert not elsewhere.exists()
