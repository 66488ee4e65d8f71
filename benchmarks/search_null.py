"""How often a run of the recipe claims to have improved a skill that nothing can improve.

The target of `noisy` and `shifting` here does not understand a word of the skill: its answers only
change by chance, from call to call or with every new text. So whatever is accepted has no effect.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from world_models import Optimizer, Target, rows
from worlds import INITIAL_SKILL, WORLDS, Reading, Scene

from skillopt.api import train_async
from skillopt.gates.statistics import interval

WORLDS_USED = ("noisy", "shifting")


class DeafScene(Scene):
    """A scene whose target sees that the skill is another text, and nothing else of it."""

    def read(self, skill: str) -> Reading:
        return Reading(hashlib.blake2b(skill.encode(), digest_size=8).hexdigest(), ())


@dataclass(frozen=True, slots=True)
class Outcome:
    changed: bool
    """Whether the best skill is another one than the initial skill."""
    val_gain: float
    claimed: bool
    """Whether the final test found it better, conclusively."""


async def outcome(world: str, seed: int) -> Outcome:
    scene = Scene(WORLDS[world], seed)
    with tempfile.TemporaryDirectory(prefix="skillopt-null-") as folder:
        result = await train_async(
            train=rows(scene, "train"),
            val=rows(scene, "val"),
            test=rows(scene, "test"),
            skill=INITIAL_SKILL,
            target=Target(DeafScene(WORLDS[world], seed)),
            optimizer=Optimizer(scene),
            out=Path(folder) / "run",
            settings={"train.seed": seed, "env.workers": 1},
            progress=False,
        )
    state, claim = result.state, result.claim
    return Outcome(
        state.best.skill.digest != state.initial.skill.digest,
        state.best.value - state.initial.value,
        claim.split == "test" and claim.conclusive and claim.gain.low > 0,
    )


def told(name: str, hits: Iterable[bool]) -> str:
    found = interval(map(float, hits))
    return f"  {name}: {found.mean:.1%} ({found.low:.1%} to {found.high:.1%})"


def report(world: str, found: Sequence[Outcome]) -> None:
    print(f"{world}, {len(found)} runs")
    print(told("changed the skill", (each.changed for each in found)))
    print(told("claimed a gain on test", (each.claimed for each in found)))
    print(f"  apparent gain on val: {fmean(each.val_gain for each in found):+.3f}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="per world")
    options = parser.parse_args()
    for world in WORLDS_USED:
        report(world, [await outcome(world, seed) for seed in range(options.runs)])


if __name__ == "__main__":
    asyncio.run(main())
