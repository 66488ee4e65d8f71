"""A hundred nights of Sleep against the simulator: does the live skill really get better?

Tasks come from an office whose forms have twelve hidden conventions; which of them come up drifts
from night to night. The target forgets rules at random, the optimizer proposes useless and harmful
edits, too. After each night, what was accepted is adopted, and the live skill is scored by a target
that forgets nothing, on tasks that no night has seen: its true score.

The same nights with a target that ignores the skill are A/A nights: whatever they accept is an
error, which must not be more frequent than `alpha`.

    python benchmarks/nights.py                    # 100 nights and 100 A/A nights, some minutes
    python benchmarks/nights.py --nights 20 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from skillopt.config.secrets import Secrets
from skillopt.core.chat import Reply, Request, Usage
from skillopt.testing.simulator import SimulatedTarget, Simulator, make_items
from skillopt.testing.simulator.office import BY_LABEL
from skillopt.testing.simulator.world import HOUSE
from skillopt_sleep.documents import Document
from skillopt_sleep.models import NightModels
from skillopt_sleep.night import run_night_async
from skillopt_sleep.planning import Bench
from skillopt_sleep.report import Night
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import MinedTask, Reference

SKILL = ".claude/skills/skillopt-sleep-learned/SKILL.md"
KNOWN = ("delivery date", "room code", "phone number")
KINDS = 5
"""Conventions that come up in one night."""
START = datetime(2026, 3, 1, 3, 17, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Series:
    """What came of a row of nights."""

    true_scores: list[float] = field(default_factory=list[float])
    """Of the live skill: before the first night, and after each."""
    accepted: list[int] = field(default_factory=list[int])
    """Nights that changed something."""
    overspent: list[int] = field(default_factory=list[int])
    """Nights that took more than they were allowed."""
    failed: list[int] = field(default_factory=list[int])
    tokens: int = 0

    @property
    def fell(self) -> list[int]:
        """Nights after which the live skill was worse than at the start."""
        return [at for at, score in enumerate(self.true_scores) if score < self.true_scores[0]]

    def told(self) -> dict[str, object]:
        thirds = [self.true_scores[at] for at in (0, len(self.true_scores) // 3, -1)]
        return {
            "nights": len(self.true_scores) - 1,
            "true score at the start, after a third, at the end": thirds,
            "lowest": min(self.true_scores),
            "below the start": self.fell,
            "accepted": len(self.accepted),
            "nights over budget": self.overspent,
            "failed": self.failed,
        }


def tonights(number: int, seed: int, count: int, project: Path) -> tuple[MinedTask, ...]:
    """Tasks of a night: the conventions that come up drift, a few at a time."""
    rows = make_items(count * 6, seed * 1000 + number)
    kinds = sorted({row["kind"] for row in rows} - {"two fields"})
    random.Random(seed).shuffle(kinds)
    first = number // 3
    current = {kinds[(first + at) % len(kinds)] for at in range(KINDS)}
    chosen = [row for row in rows if row["kind"] in current][:count]
    return tuple(
        MinedTask(
            id=f"night{number}-{at}",
            project=project,
            intent=row["input"],
            reference=Reference(kind="exact", text=row["answer"]),
            split="val" if at % 3 == 0 else "train",
            tags=(row["kind"],),
        )
        for at, row in enumerate(chosen)
    )


def true_score(skill: str, items: Sequence[dict[str, str]]) -> float:
    """How a target does that forgets nothing."""
    target = SimulatedTarget(noise=0.0)
    system = f"Do what the note asks for.\n\n## Skill\n\n{skill}"
    return fmean(target.answer(system, item["input"]) == item["answer"] for item in items)


def live_skill(project: Path) -> str:
    return Document.parse((project / SKILL).read_bytes()).learned


def _begin(folder: Path) -> tuple[Path, Path]:
    """A home, and a project with a skill that knows three conventions: something to lose."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    rules = "\n".join(f"- {BY_LABEL[label].form(HOUSE[label]).rules[0]}" for label in KNOWN)
    path = project / SKILL
    path.parent.mkdir(parents=True)
    path.write_bytes(Document("# Office\n").with_learned(rules).render())
    return home, project


@dataclass(frozen=True, slots=True)
class Heedless:
    """A target that is right by chance, whatever its skill says."""

    fingerprint: str
    right: float = 0.5
    answers: dict[str, str] = field(default_factory=dict[str, str])

    async def __call__(self, request: Request) -> Reply:
        asked = request.messages[-1].text
        whole = "\0".join(message.text for message in request.messages)
        draw = random.Random(f"{self.fingerprint}/{request.replicate}/{whole}").random()
        text = self.answers.get(asked, "?") if draw < self.right else "unknown"
        return Reply(text=text, usage=Usage(1, len(whole) // 4, len(text) // 4 + 1))


async def nights(
    number: int,
    *,
    seed: int = 1,
    count: int = 45,
    tokens: Callable[[int], int] = lambda _: 0,
    heeds: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Series:
    """A row of nights, each of which adopts what it accepts."""
    series = Series()
    hidden = make_items(240, seed=987_654)
    target = Heedless(f"heedless {seed}")
    with TemporaryDirectory() as folder:
        home, project = _begin(Path(folder))
        series.true_scores.append(true_score(live_skill(project), hidden))
        async with Simulator(seed=seed, fresh=True, noise=0.06) as simulator:
            for at in range(1, number + 1):
                tasks = tonights(at, seed, count, project)
                if not heeds:
                    target.answers.update((task.intent, task.reference.text) for task in tasks)
                allowed = tokens(at)
                settings = Settings(
                    project=project,
                    state_dir=home / ".skillopt-sleep",
                    backend="openai_compatible",
                    base_url=simulator.url,
                    model="simulated-target",
                    optimizer_model="simulated-optimizer",
                    evolve_memory=False,
                    auto_adopt=True,
                    recall_k=6,
                    workers=8,
                    seed=seed + at,
                    keep_nights=1,
                    max_tokens_per_night=allowed,
                )
                bench = Bench(
                    tasks=tasks,
                    home=home,
                    models=NightModels() if heeds else NightModels(target=target),
                    clock=lambda at=at: START + timedelta(days=at),
                    secrets=Secrets({"OPENAI_COMPATIBLE_API_KEY": "none"}),
                )
                night = await run_night_async(settings, bench)
                _count(series, at, night, allowed)
                series.true_scores.append(true_score(live_skill(project), hidden))
                tell(f"night {at}: {series.true_scores[-1]:.3f} {night.verdict}")
    return series


def _count(series: Series, at: int, night: Night, allowed: int) -> None:
    if night.accepted:
        series.accepted.append(at)
    if allowed and night.spent.input + night.spent.output > allowed:
        series.overspent.append(at)
    if night.failed:
        series.failed.append(at)


def budget(night: int) -> int:
    """Every fourth night has too little for its plan."""
    return 25_000 if night % 4 == 0 else 400_000


async def measured(number: int, tell: Callable[[str], None]) -> dict[str, object]:
    real = await nights(number, tokens=budget, tell=tell)
    blind = await nights(number, heeds=False, tell=tell)
    return {"nights": real.told(), "A/A nights": blind.told(), "alpha": Settings().alpha}


def main() -> None:
    parser = argparse.ArgumentParser(description="A hundred nights of Sleep.")
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    def tell(line: str) -> None:
        if not given.json:
            print(line, file=sys.stderr)

    print(json.dumps(asyncio.run(measured(given.nights, tell)), indent=2))


if __name__ == "__main__":
    main()
