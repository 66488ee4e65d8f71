"""Nights of Sleep in one project: what they propose, and what is done about it.

Nights are read from their folders. Everything that changes something is a command of
`skillopt-sleep`, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from skillopt.analysis.differences import differences
from skillopt.core.starting import module_command
from skillopt_webui.launching import Refused
from skillopt_webui.payloads import plain
from skillopt_webui.runs import Json, NotFound

_NIGHTS: Final = 60
_MOST: Final = 2 << 20
"""Bytes of a document that is shown."""
_SECONDS: Final = 60.0


@dataclass(slots=True)
class Nights:
    """The nights of one project."""

    project: Path
    log: Path
    """Where a night writes that was started from here."""
    _running: asyncio.subprocess.Process | None = None

    async def view(self) -> Json:
        """How Sleep stands: nights with their proposals, what waits, what is under way."""
        status = await self._command("status")
        waiting = cast("Sequence[Mapping[str, object]]", status.get("waiting", ()))
        names = {Path(str(each["staging"])).name: each.get("targets", []) for each in waiting}
        nights = await asyncio.to_thread(self._nights)
        for night in nights:
            night["waiting"] = names.get(str(night["name"]), [])
        return {
            "project": str(self.project),
            "problem": status.get("error", ""),
            "under_way": status.get("under_way"),
            "running": self._running is not None and self._running.returncode is None,
            "history": status.get("nights", []),
            "nights": nights,
            "said": self._said(),
        }

    def night(self, name: str) -> Json:
        """One night: its report, its mined tasks, and each proposal as a difference."""
        folder = self._folder(name)
        manifest, report = _read(folder / "manifest.json"), _read(folder / "report.json")
        files = cast("Sequence[Mapping[str, object]]", manifest.get("files", ()))
        return {
            "name": name,
            "created": manifest.get("created"),
            "accepted": manifest.get("accepted"),
            "report": report,
            "tasks": _tasks(folder / "tasks.json"),
            "files": [self._proposal(folder, file) for file in files],
        }

    async def act(self, what: str, name: str, options: Mapping[str, str]) -> Json:
        """`adopt`, `rollback`, `schedule` or `unschedule`; `run` goes on by itself."""
        match what:
            case "adopt":
                words = ["adopt", "--staging", str(self._folder(name)), *_targets(options)]
            case "rollback":
                words = ["rollback"]
            case "schedule":
                hour, minute = (_clock(options.get(key, "")) for key in ("hour", "minute"))
                words = ["schedule", "--hour", hour, "--minute", minute]
            case "unschedule":
                words = ["unschedule"]
            case "run":
                return await self._run()
            case _:
                raise NotFound(f"Sleep cannot {what!r}")
        told = await self._command(*words)
        if "error" in told:
            raise Refused(str(told["error"]))
        return told

    async def _run(self) -> Json:
        if self._running is not None and self._running.returncode is None:
            raise Refused("a night is under way; wait for it")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as file:
            self._running = await asyncio.create_subprocess_exec(
                *self._words("run", "--progress"),
                cwd=self.project,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return {"running": True}

    async def _command(self, *words: str) -> Json:
        """What a command says as JSON; under `error`, why it did not work."""
        process = await asyncio.create_subprocess_exec(
            *self._words(*words, "--json"),
            cwd=self.project,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        work = asyncio.ensure_future(process.communicate())
        done, _ = await asyncio.wait((work,), timeout=_SECONDS)
        if not done:
            process.kill()
        output, errors = await work
        try:
            told: object = json.loads(output)
        except ValueError:
            told = None
        if isinstance(told, dict) and (process.returncode == 0 or "error" in told):
            document = cast("Json", told)
            if "error" in document and "message" in document:
                document["error"] = document["message"]
            return document
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return {"error": lines[-1] if lines else f"skillopt-sleep {words[0]} gave no answer"}

    def _words(self, *words: str) -> list[str]:
        return [*module_command("skillopt_sleep"), *words, "--project", str(self.project)]

    def _nights(self) -> list[Json]:
        staging = self.project / ".skillopt-sleep" / "staging"
        if not staging.is_dir() or staging.is_symlink():
            return []
        folders = sorted((path for path in staging.iterdir() if path.is_dir()), reverse=True)
        found: list[Json] = []
        for folder in folders[:_NIGHTS]:
            manifest, report = _read(folder / "manifest.json"), _read(folder / "report.json")
            if manifest:
                files = cast("Sequence[Mapping[str, object]]", manifest.get("files", ()))
                found.append(
                    {
                        "name": folder.name,
                        "created": manifest.get("created"),
                        "accepted": manifest.get("accepted"),
                        "verdict": report.get("verdict", ""),
                        "simulated": report.get("simulated", False),
                        "tasks": report.get("n_tasks"),
                        "targets": [str(file.get("target", "")) for file in files],
                    }
                )
        return found

    def _folder(self, name: str) -> Path:
        """A night by its name; no other folder can be named."""
        if name not in {str(night["name"]) for night in self._nights()}:
            raise NotFound(f"there is no night {name!r} in {self.project}")
        return self.project / ".skillopt-sleep" / "staging" / name

    def _proposal(self, folder: Path, file: Mapping[str, object]) -> Json:
        name = str(file.get("proposed_file", ""))
        path = Path(str(file.get("path", "")))
        told: Json = {"target": file.get("target"), "path": str(path)}
        proposed = folder / name
        if Path(name).name != name or proposed.is_symlink():
            return {**told, "problem": f"{name!r} is no file of this night"}
        before, after = self._document(path), _text(proposed)
        lines = differences(before, after, 3)
        return {**told, "diff": [{"path": path.name, "lines": plain(lines)}]}

    def _document(self, path: Path) -> str:
        """The document as it is now; only Markdown in the project or the user's home is shown."""
        inside = (self.project.resolve(), Path.home().resolve())
        place = path.resolve()
        if place.suffix not in {".md", ".mdc"} or not any(map(place.is_relative_to, inside)):
            return ""
        return _text(place)

    def _said(self) -> str:
        return _text(self.log)[-8_000:]


def _targets(options: Mapping[str, str]) -> list[str]:
    target = options.get("target", "")
    if not target:
        return []
    return ["--legacy"] if target in {"skill", "memory"} else ["--skill", target]


def _clock(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 2):
        raise Refused("give the hour and the minute as numbers")
    return text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""


def _read(path: Path) -> dict[str, object]:
    try:
        value: object = json.loads(_text(path) or "null")
    except ValueError:
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _tasks(path: Path) -> list[object]:
    """The first of the mined tasks."""
    try:
        value: object = json.loads(_text(path) or "null")
    except ValueError:
        return []
    tasks = cast("dict[str, object]", value).get("tasks") if isinstance(value, dict) else None
    return cast("list[object]", tasks)[:200] if isinstance(tasks, list) else []
