"""Train, val and test: disjoint by content, the same on every machine and night."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from skillopt_sleep.likeness import grouped, normal
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import MinedTask, Split


def with_splits(tasks: Sequence[MinedTask], settings: Settings) -> tuple[MinedTask, ...]:
    """The tasks with their splits; tasks that are alike are always on the same side.

    Which side that is depends on the seed and on what the tasks say. With two real tasks, val is
    never empty, and neither is train unless all of them are alike. Tasks that were dreamt up or
    recalled are for training only; one that is like a held-out task is left out.
    """
    val, test = settings.val_fraction, settings.test_fraction
    groups = [[tasks[place] for place in places] for places in grouped([t.intent for t in tasks])]
    real = [group for group in groups if any(task.origin == "real" for task in group)]
    chance = {id(group): _chance(group, settings.seed) for group in real}
    sides: dict[int, Split] = {
        key: "val" if at < val else "test" if at < val + test else "train"
        for key, at in chance.items()
    }
    _fill(sides, chance, [id(group) for group in real], sum(map(_real, real)))
    placed: dict[str, MinedTask] = {}
    for group in groups:
        side = sides.get(id(group), "train")
        for task in group:
            if task.origin == "real" or side == "train":
                placed[task.id] = replace(task, split=side)
    return tuple(placed[task.id] for task in tasks if task.id in placed)


def _fill(sides: dict[int, Split], chance: dict[int, float], groups: list[int], tasks: int) -> None:
    """Give val and train a group each where they have none and there is one to give."""
    if tasks < 2:
        for key in groups:
            sides[key] = "train"
        return
    order = sorted(groups, key=lambda key: chance[key])
    if "val" not in sides.values():
        given = [key for key in order if sides[key] == "train"] or order
        sides[given[0]] = "val"
    if "train" not in sides.values() and len(groups) > 1:
        held = [key for key in order if sides[key] == "val"]
        # The last one of val stays there: then one of test has to go.
        given = held if len(held) > 1 else [key for key in order if sides[key] == "test"]
        sides[given[-1]] = "train"


def _real(group: Sequence[MinedTask]) -> int:
    return sum(task.origin == "real" for task in group)


def _chance(group: Sequence[MinedTask], seed: int) -> float:
    """Where a group falls between 0 and 1, by what its tasks say."""
    said = min(normal(task.intent) for task in group if task.origin == "real")
    digest = sha256(f"{seed}\0{said}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
