"""Nights of Sleep in temporary places, against the simulator."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from skillopt.config.secrets import Secrets
from skillopt.testing.simulator import make_items
from skillopt_sleep.planning import Bench
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import Check, MinedTask, Reference, Split

MORNING = datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc)
SECRETS = Secrets({"OPENAI_COMPATIBLE_API_KEY": "none"})
SKILL = ".claude/skills/skillopt-sleep-learned/SKILL.md"


def mined(
    name: str = "one",
    intent: str = "Write a commit message for the new search field.",
    *,
    split: Split = "train",
    reference: Reference | None = None,
    project: Path = Path("/nowhere"),
    **more: Any,  # noqa: ANN401 - fields of a task
) -> MinedTask:
    return MinedTask(
        id=name,
        project=project,
        intent=intent,
        split=split,
        reference=reference or Reference(kind="rule", checks=(Check("contains", "Refs:"),)),
        **more,
    )


def office(count: int, seed: int, project: Path) -> tuple[MinedTask, ...]:
    """Tasks of the simulator's office, a third of them held out."""
    return tuple(
        mined(
            f"office{seed}-{at}",
            row["input"],
            split="val" if at % 3 == 0 else "train",
            reference=Reference(kind="exact", text=row["answer"]),
            project=project,
        )
        for at, row in enumerate(make_items(count, seed))
    )


def places(folder: Path) -> tuple[Path, Path]:
    """A project and a home."""
    project, home = folder / "project", folder / "home"
    project.mkdir()
    home.mkdir()
    return project, home


def simulated(project: Path, home: Path, url: str, **more: Any) -> Settings:  # noqa: ANN401 - settings
    """Settings of a night with the simulator's models."""
    given: dict[str, Any] = {
        "project": project,
        "state_dir": home / ".skillopt-sleep",
        "backend": "openai_compatible",
        "base_url": url,
        "model": "simulated-target",
        "optimizer_model": "simulated-optimizer",
        "evolve_memory": False,
        "workers": 8,
        **more,
    }
    return Settings(**given)


def bench(home: Path, tasks: tuple[MinedTask, ...] | None, **more: Any) -> Bench:  # noqa: ANN401 - its fields
    made = Bench(tasks=tasks, home=home, clock=lambda: MORNING, secrets=SECRETS)
    return replace(made, **more)


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
