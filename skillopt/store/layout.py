"""The names of the files in a run directory, but for those that single facts leave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _File:
    """A path within a folder, as an attribute of it."""

    name: str

    def __get__(self, folder: Layout | RolloutFolder, kind: type | None = None) -> Path:
        return folder.root / self.name


@dataclass(frozen=True, slots=True)
class RolloutFolder:
    """Attempts at a set of tasks under one skill."""

    root: Path

    results = _File("results.jsonl")

    def conversation(self, task: str) -> Path:
        """What was said in the attempt at a task."""
        return self.root / "predictions" / task / "conversation.json"

    def prompt(self, task: str, role: str) -> Path:
        """What the target was told first: as `system`, as `user`."""
        return self.root / "predictions" / task / f"target_{role}_prompt.txt"


def run_folders(folder: Path) -> list[Path]:
    """The folder itself or those up to two levels below it that hold a run, in order of name.

    A folder that links lead to a second time is listed once, by its shortest path.
    """
    logs = [path for depth in ("*/*/", "*/", "") for path in folder.glob(f"{depth}events.jsonl")]
    # A pipe of that name would wait for ever.
    folders = [path.parent for path in logs if path.is_file()]
    stats = [(path.stat(), path) for path in folders]
    return sorted({(stat.st_dev, stat.st_ino): path for stat, path in stats}.values())


@dataclass(frozen=True, slots=True)
class Layout:
    """A run directory."""

    root: Path

    events = _File("events.jsonl")
    """The record: the truth about the run."""
    cache = _File("cache.sqlite")
    handoff = _File("handoff")
    mark = _File(".skillopt")
    """Says that the folder is ours to write in."""
    lock = _File(".lock")
    progress = _File("progress.json")
    """How far the process is that trains here; gone when it has ended."""
    config = _File("config.json")
    """The settings of the latest start, flat and without secrets."""
    settings = _File("config.yaml")
    """The same settings in sections, ready to be used again."""
    best_among = _File("skills/best_skill.md")
    """The best skill so far, beside the others."""
    history = _File("history.json")
    rates = _File("lr_history.jsonl")
    runtime_state = _File("runtime_state.json")
    summary = _File("summary.json")
    best_skill = _File("best_skill.md")
    attribution = _File("attribution.json")
    """What each rule of the best skill is worth, once that was asked for."""
    evaluation = _File("eval_summary.json")
    """What a skill scored that was evaluated here, without training."""
    places = _File("item_places.json")
    """Where items without an id of the user's stand: id -> file and line."""

    def skill(self, step: int) -> Path:
        """The current skill after a step; step 0 is the initial skill."""
        return self.root / "skills" / f"skill_v{step:04d}.md"
