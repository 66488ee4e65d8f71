"""A project with a night to adopt, and a disk that stops at a step of one's choice."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeAlias

from skillopt.store.files import part_of
from skillopt_sleep.adoption import adopt, rollback
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.staging import stage
from skillopt_sleep.targets import resolve_targets
from skillopt_sleep.transaction import Disk
from skillopt_sleep.values import ProposedFile

EVENING = datetime(2026, 3, 2, 3, 17, tzinfo=timezone.utc)
Tree: TypeAlias = "dict[str, tuple[int, bytes | None]]"


def settings_in(folder: Path, **given: object) -> Settings:
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    values = {"project": project, "state_dir": folder / "state", **given}
    return Settings.model_validate(values)


def proposals(settings: Settings, rule: str = "Run the tests.") -> list[ProposedFile]:
    """New content for the skill, which need not be there, and for the memory file."""
    found = resolve_targets(settings, home=settings.project.parent / "home")
    made = [
        target.proposed(target.document.with_rules([f"{rule} ({target.name})"]))
        for target in (found.skill, found.memory)
        if target
    ]
    return [file for file in made if file]


def night(
    settings: Settings, rule: str = "Run the tests.", *, minute: int = 0, accepted: bool = True
) -> Path:
    files = proposals(settings, rule)
    return stage(
        settings.project,
        files,
        {"report.md": b"# Report\n"},
        accepted=accepted,
        now=EVENING + timedelta(minutes=minute),
        state=home_of(settings),
    )


def tree(project: Path) -> Tree:
    """All that is in a project but for our own folder: rights, and bytes of files."""
    return {
        str(path.relative_to(project)): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(project.rglob("*"))
        if ".skillopt-sleep" not in path.parts
    }


class StoppingDisk(Disk):
    """Stops at a step: in the middle of it, or after it."""

    def __init__(self, step: int, moment: str, stop: Callable[[], None]) -> None:
        self.left = step
        self.moment = moment
        self.stop = stop
        self.steps = 0

    def _step(self, work: Callable[[], None], half: Callable[[], None]) -> None:
        self.steps += 1
        here = self.steps == self.left
        if here and self.moment == "half":
            half()
            self.stop()
        work()
        if here and self.moment == "after":
            self.stop()

    def make_folder(self, path: Path) -> None:
        self._step(lambda: super(StoppingDisk, self).make_folder(path), lambda: None)

    def write(self, path: Path, data: bytes, mode: int | None = None) -> None:
        def half() -> None:
            part_of(path, os.getpid()).write_bytes(data[: len(data) // 2])

        self._step(lambda: super(StoppingDisk, self).write(path, data, mode), half)

    def remove(self, path: Path) -> None:
        self._step(lambda: super(StoppingDisk, self).remove(path), lambda: None)

    def remove_folder(self, path: Path) -> None:
        self._step(lambda: super(StoppingDisk, self).remove_folder(path), lambda: None)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop_before_the_receipt(settings: Settings) -> None:
    """Adopt in a process that is killed when both documents are written, and nothing says so."""

    class Stopping(Disk):
        def write(self, path: Path, data: bytes, mode: int | None = None) -> None:
            if path.name == "receipt.json":
                killed()
            super().write(path, data, mode)

    if (child := os.fork()) == 0:
        adopt(settings, disk=Stopping())
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def main(action: str, folder: str, steps: str) -> None:
    """For each step, a copy of the prepared folder in which a child is killed at that step."""
    for step in range(1, int(steps) + 1):
        for moment in ("half", "after"):
            place = Path(folder) / f"{step}-{moment}"
            if (child := os.fork()) == 0:
                disk = StoppingDisk(step, moment, killed)
                settings = settings_in(place)
                (adopt if action == "adopt" else rollback)(settings, disk=disk)
                os._exit(0)
            print(step, moment, os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
