"""What the gate of the recipe decides, on the worlds for tuning, and what was really true.

    python benchmarks/search_decisions.py               # 12 worlds, 6 seeds each: a minute or two

For every candidate of a run: was it truly better than the skill before it, by a target without
noise? And was any candidate better than the skill that the run ended with?
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from search import Cell, run_here
from search_systems import Ours
from worlds import INITIAL_SKILL, WORLDS, Scene, World


def decisions(world: World, seed: int, folder: Path) -> tuple[Counter[tuple[str, str]], float]:
    """How often each action met each truth, and by how much the best candidate beat the result."""
    run_here(Cell(Ours(), world, seed, 0, ""), folder)
    scene, out = Scene(world, seed), folder / "out"
    counts = Counter[tuple[str, str]]()
    current = best = scene.truth(INITIAL_SKILL)
    for step in json.loads((out / "history.json").read_text("utf-8")):
        candidate = out / "steps" / f"step_{step['step']:04}" / "candidate_skill.md"
        if not candidate.exists():
            counts[step["action"], "no candidate"] += 1
            continue
        true = scene.truth(candidate.read_text("utf-8"))
        relation = "equal" if true == current else "better" if true > current else "worse"
        accepted = step["action"].startswith("accept")
        counts["accepted" if accepted else "refused", relation] += 1
        best, current = max(best, true), true if accepted else current
    return counts, best - scene.truth((out / "best_skill.md").read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    options = parser.parse_args()
    counts, lost = Counter[tuple[str, str]](), list[float]()
    for world in WORLDS.values():
        for seed in range(options.first, options.first + options.seeds) if not world.aside else ():
            with tempfile.TemporaryDirectory(prefix="skillopt-decisions-") as folder:
                found, gap = decisions(world, seed, Path(folder))
            counts += found
            lost.append(gap)
    print(f"{len(lost)} runs")
    for (action, truth), count in sorted(counts.items()):
        print(f"{count:6}  {action}, {truth}")
    worse = sum(gap > 0 for gap in lost)
    print(f"{worse:6}  runs that ended below their best candidate, by up to {max(lost):.3f}")


if __name__ == "__main__":
    main()
