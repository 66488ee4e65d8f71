"""How each scheduler is told of a job: its file formats, their quoting, and its programs."""

from __future__ import annotations

import hashlib
import os
import plistlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final, Protocol
from xml.etree import ElementTree as ET

from skillopt.errors import SkilloptError
from skillopt.store.files import write_atomic
from skillopt_sleep.sources.fields import home_folder
from skillopt_sleep.starting import own_command

_LONGEST_LINE: Final = 990
"""Characters of a command that every cron takes; longer ones are refused by some."""
_TRIES: Final = 5
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_STANDARD: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_PROGRAMS: Final = (
    "claude", "codex", "copilot", "cursor-agent", "gemini", "opencode", "openclaw", "qwen",
    "node", "git", "bwrap",
)  # fmt: skip
"""Programs that a night may call; a scheduler's own PATH rarely has their folders."""


def key_of(project: Path) -> str:
    return hashlib.sha256(str(project).encode(errors="surrogateescape")).hexdigest()[:20]


def program_path() -> str:
    """A PATH with the folders of the programs that a night may call."""
    found = [Path(there).parent for name in _PROGRAMS if (there := which(name))]
    return ":".join(dict.fromkeys([*map(str, found), *_STANDARD]))


class SchedulerError(SkilloptError):
    """The scheduler of the system is missing or refused; what it had before is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The nights of a project."""

    project: Path
    arguments: tuple[str, ...] = ()
    """Options of `skillopt-sleep run` beside the project."""
    hour: int = 3
    minute: int = 17
    log: Path
    """Where it is written down what nights say; its folder must stay, or none would begin."""
    program: Sequence[str] = field(default_factory=own_command)
    """What starts `skillopt-sleep`."""
    path: str = field(default_factory=program_path)
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further variables of the environment that a night needs."""

    @property
    def key(self) -> str:
        """What tells the jobs of projects apart."""
        return key_of(self.project)

    @property
    def at(self) -> str:
        return f"{self.hour:02}:{self.minute:02}"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.path, **self.variables}

    @property
    def command(self) -> list[str]:
        """The program with its arguments; nothing in it depends on the folder it is called in."""
        due = f"--if-due={self.at}"
        return [*self.program, "run", due, f"--project={self.project}", *self.arguments]


class Scheduler(Protocol):
    """A scheduler of the system."""

    name: str

    def usable(self) -> bool:
        """Whether it is here and answers."""
        ...

    def files(self, job: Job) -> Mapping[str, bytes]:
        """What would be written for a job, by path or name."""
        ...

    def add(self, job: Job) -> None:
        """Put a job in the place of the one of the same project, and leave all else as it is."""
        ...

    def planned(self) -> list[str]:
        """The keys of all jobs of ours."""
        ...

    def remove(self, key: str) -> None: ...


class Cron:
    """Our lines in the user's crontab, between two marks; every other byte stays as it is."""

    name = "cron"
    _start: Final = b"# >>> skillopt-sleep (managed) >>>"
    _end: Final = b"# <<< skillopt-sleep (managed) <<<"
    _tag: Final = re.compile(rb" # project-sha256=([0-9a-f]{8,64})\s*\Z")

    def usable(self) -> bool:
        return which("crontab") is not None

    def files(self, job: Job) -> Mapping[str, bytes]:
        return {"crontab": self._line(job) + b"\n"}

    def add(self, job: Job) -> None:
        self._change(job.key, self._line(job))

    def planned(self) -> list[str]:
        found = (self._tag.search(line) for line in self._read().splitlines())
        return [tag[1].decode() for tag in found if tag]

    def remove(self, key: str) -> None:
        self._change(key, None)

    def _line(self, job: Job) -> bytes:
        given = [f"{name}={value}" for name, value in job.environment.items()]
        told = shlex.join(["env", *given, *job.command])
        told += f" >>{shlex.quote(str(job.log))} 2>&1"
        if found := _CONTROL.search(told):
            raise SchedulerError(
                f"cron cannot hold a line with {found[0]!r}; put the setting into "
                "~/.skillopt-sleep/config.yaml, where every night reads it"
            )
        command = told.replace("%", "\\%").encode(errors="surrogateescape")
        if len(command) > _LONGEST_LINE:
            raise SchedulerError(
                f"the command has {len(command)} characters, and cron takes {_LONGEST_LINE}; put "
                "settings into ~/.skillopt-sleep/config.yaml, where every night reads them"
            )
        return b"%d * * * * %s # project-sha256=%s" % (job.minute, command, job.key.encode())

    def _change(self, key: str, line: bytes | None) -> None:
        first = old = self._read()
        for _ in range(_TRIES):
            new = self._with(old, key, line)
            if new == old:
                return
            self._write(new)
            now = self._read()
            whole = set(new.splitlines()) <= set(now.splitlines())
            if whole and self._with(now, key, line) == now:
                return
            if not new.startswith(now):  # no part was lost: another program wrote it as well
                old = now
        self._write(first)
        raise SchedulerError("the crontab was not what was written to it; it is as before")

    def _with(self, old: bytes, key: str, line: bytes | None) -> bytes:
        """The crontab with this line for the project, or with none."""
        lines = old.splitlines(keepends=True)
        ours = [each + b"\n" for each in [line] if each is not None]
        kept: list[bytes] = []
        at: int | None = None
        for each in lines:
            if each.strip() in (self._start, self._end):
                at = len(kept) if at is None else at
            elif tag := self._tag.search(each):
                at = len(kept) if at is None else at
                ours += [] if tag[1].decode() == key else [each.rstrip(b"\r\n") + b"\n"]
            else:
                kept.append(each)
        if not ours:
            return b"".join(kept)
        at = len(kept) if at is None else at
        if at == len(kept) and kept and not kept[-1].endswith(b"\n"):
            at = 0  # what is before our lines would need another byte
        block = [self._start + b"\n", *ours, self._end + b"\n"]
        return b"".join([*kept[:at], *block, *kept[at:]])

    def _read(self) -> bytes:
        # In English, whatever the user's language: only one answer means that there is none.
        done = _run(["env", "LC_ALL=C", "crontab", "-l"])
        if done.returncode == 0:
            return done.stdout
        if b"no crontab for" in done.stderr:
            return b""
        raise SchedulerError(
            f"`crontab -l` failed, so that the crontab is not touched: {_said(done)}"
        )

    def _write(self, text: bytes) -> None:
        done = _run(["crontab", "-"] if text else ["crontab", "-r"], text)
        if done.returncode != 0:
            raise SchedulerError(f"the crontab was refused and is as it was: {_said(done)}")


class Systemd:
    """A service and a timer of the user; a night that was missed is caught up (Persistent)."""

    name = "systemd"

    def usable(self) -> bool:
        if not which("systemctl"):
            return False
        return _run(["systemctl", "--user", "show-environment"]).returncode == 0

    def files(self, job: Job) -> Mapping[str, bytes]:
        service = f"""\
[Unit]
Description=SkillOpt Sleep: a night for {_unit(str(job.project))}

[Service]
Type=oneshot
Nice=10
WorkingDirectory={_unit(str(job.project))}
Environment={" ".join(_word(f"{name}={value}") for name, value in job.environment.items())}
ExecStart={" ".join(map(_word, job.command)).replace("$", "$$")}
StandardOutput=append:{_unit(str(job.log))}
StandardError=inherit
"""
        timer = f"""\
[Unit]
Description=SkillOpt Sleep: every day at {job.at}

[Timer]
OnCalendar=*-*-* {job.at}:00
Persistent=true

[Install]
WantedBy=timers.target
"""
        base = self._folder() / f"skillopt-sleep-{job.key}"
        texts = {f"{base}.service": service, f"{base}.timer": timer}
        return {path: text.encode(errors="surrogateescape") for path, text in texts.items()}

    def add(self, job: Job) -> None:
        for path, text in self.files(job).items():
            write_atomic(Path(path), text)
        try:
            _do(["systemctl", "--user", "daemon-reload"])
            _do(["systemctl", "--user", "enable", "--now", f"skillopt-sleep-{job.key}.timer"])
        except SchedulerError:
            self.remove(job.key)
            raise

    def planned(self) -> list[str]:
        found = self._folder().glob("skillopt-sleep-*.timer")
        return sorted(path.stem.removeprefix("skillopt-sleep-") for path in found)

    def remove(self, key: str) -> None:
        _run(["systemctl", "--user", "disable", "--now", f"skillopt-sleep-{key}.timer"])
        for kind in ("timer", "service"):
            (self._folder() / f"skillopt-sleep-{key}.{kind}").unlink(missing_ok=True)
        _run(["systemctl", "--user", "daemon-reload"])

    def _folder(self) -> Path:
        return home_folder(None, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"


class Launchd:
    """A launch agent of the user; it also looks at every login whether a night was missed."""

    name = "launchd"
    _label: Final = "org.skillopt.sleep."

    def usable(self) -> bool:
        return which("launchctl") is not None

    def files(self, job: Job) -> Mapping[str, bytes]:
        agent = {
            "Label": self._label + job.key,
            "ProgramArguments": job.command,
            "WorkingDirectory": str(job.project),
            "EnvironmentVariables": job.environment,
            "StartCalendarInterval": {"Hour": job.hour, "Minute": job.minute},
            "RunAtLoad": True,
            "ProcessType": "Background",
            "StandardOutPath": str(job.log),
            "StandardErrorPath": str(job.log),
        }
        return {str(self._path(job.key)): plistlib.dumps(agent)}

    def add(self, job: Job) -> None:
        ((path, text),) = self.files(job).items()
        _run(["launchctl", "bootout", f"{self._domain()}/{self._label}{job.key}"])
        write_atomic(Path(path), text)
        try:
            _do(["launchctl", "bootstrap", self._domain(), path])
        except SchedulerError:
            Path(path).unlink(missing_ok=True)
            raise

    def planned(self) -> list[str]:
        found = self._path("").parent.glob(f"{self._label}*.plist")
        return sorted(path.stem.removeprefix(self._label) for path in found)

    def remove(self, key: str) -> None:
        _run(["launchctl", "bootout", f"{self._domain()}/{self._label}{key}"])
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return Path.home() / "Library" / "LaunchAgents" / f"{self._label}{key}.plist"

    def _domain(self) -> str:
        return f"gui/{os.getuid() if sys.platform != 'win32' else 0}"


class Windows:
    """A task of the Task Scheduler, begun as soon as possible if its time was missed."""

    name = "windows"
    _space: Final = "http://schemas.microsoft.com/windows/2004/02/mit/task"
    _prefix: Final = "SkillOpt-Sleep-"

    def usable(self) -> bool:
        return which("schtasks") is not None

    def files(self, job: Job) -> Mapping[str, bytes]:
        program, *arguments = job.command
        tree: dict[str, object] = {
            "RegistrationInfo": {"Description": f"SkillOpt Sleep: a night for {job.project}"},
            "Triggers": {
                "CalendarTrigger": {
                    "StartBoundary": f"2020-01-01T{job.at}:00",
                    "ScheduleByDay": {"DaysInterval": "1"},
                }
            },
            "Settings": {
                "MultipleInstancesPolicy": "IgnoreNew",
                "DisallowStartIfOnBatteries": "false",
                "StopIfGoingOnBatteries": "false",
                "StartWhenAvailable": "true",
                "ExecutionTimeLimit": "PT0S",
            },
            "Actions": {
                "Exec": {
                    "Command": program,
                    "Arguments": subprocess.list2cmdline(arguments),
                    "WorkingDirectory": str(job.project),
                }
            },
        }
        task = ET.Element("Task", version="1.2", xmlns=self._space)
        _grow(task, tree)
        return {self._prefix + job.key: ET.tostring(task, encoding="utf-16")}

    def add(self, job: Job) -> None:
        ((name, text),) = self.files(job).items()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "task.xml"
            path.write_bytes(text)
            _do(["schtasks", "/Create", "/TN", name, "/XML", str(path), "/F"])

    def planned(self) -> list[str]:
        done = _do(["schtasks", "/Query", "/FO", "CSV", "/NH"])
        found = re.findall(rf'"\\?{self._prefix}([0-9a-f]+)"', done.stdout.decode(errors="replace"))
        return sorted(set(found))

    def remove(self, key: str) -> None:
        _do(["schtasks", "/Delete", "/TN", self._prefix + key, "/F"])


def _grow(parent: ET.Element, tree: Mapping[str, object]) -> None:
    for name, value in tree.items():
        child = ET.SubElement(parent, name)
        if isinstance(value, str):
            child.text = value
        else:
            _grow(child, value)  # pyright: ignore[reportArgumentType] - a tree of mappings


def _unit(text: str) -> str:
    """A value of a unit file that is a whole line: `%` begins a specifier there."""
    return _CONTROL.sub(" ", text).replace("%", "%%")


def _word(text: str) -> str:
    """A quoted word in a unit file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", escaped)
    return '"' + escaped.replace("%", "%%") + '"'


def _run(command: Sequence[str], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - programs of the system, by their names
            command, input=text, capture_output=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SchedulerError(f"`{shlex.join(command)}` could not be run: {error}") from error


def _do(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    done = _run(command)
    if done.returncode != 0:
        raise SchedulerError(f"`{shlex.join(command)}` failed: {_said(done)}")
    return done


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    words = (done.stderr or done.stdout).decode(errors="replace").strip()
    return words or f"exit code {done.returncode}"
