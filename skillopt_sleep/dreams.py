"""Which tasks a night practises on besides tonight's: variants, and tasks of earlier nights.

What was ever held out is never practised on, not even in other words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from skillopt.core.seeds import shuffled
from skillopt.optimizer.likeness import Likeness
from skillopt_sleep.likeness import alike, normal
from skillopt_sleep.values import MinedTask, Split

_FRAMES: Final = (
    "{} Take your time, and give me the result as you would hand it over.",
    "I need this for a colleague who has not seen the project: {}",
    "Same kind of request as last week. {}",
    "Quick one before the meeting. {}",
    "{} This time it is for another part of the project, with the same conventions.",
    "A new teammate asks: {}",
)
"""Frames that change how a request sounds and not what is right."""


def kept_apart(tasks: Sequence[MinedTask], archive: Sequence[MinedTask]) -> list[MinedTask]:
    """Tonight's tasks, each in the split in which it, or one like it, came up first.

    Otherwise a task that was held out yesterday would be practised on today.
    """
    by_id: dict[str, Split] = {task.id: task.split for task in archive}
    said: list[tuple[str, Split]] = [(normal(task.intent), task.split) for task in archive]

    def first(task: MinedTask) -> Split:
        if task.id in by_id:
            return by_id[task.id]
        words = normal(task.intent)
        like: Split | None = next((split for known, split in said if alike(known, words)), None)
        return like or task.split

    return [replace(task, split=first(task)) for task in tasks]


def _unlike(tasks: Iterable[MinedTask], others: Iterable[MinedTask]) -> list[MinedTask]:
    """The tasks that none of the others says in other words."""
    said = [normal(task.intent) for task in others]
    return [task for task in tasks if not any(alike(normal(task.intent), known) for known in said)]


def variants(tasks: Iterable[MinedTask], factor: int, seed: int) -> list[MinedTask]:
    """`factor` further tasks for each real training task, in other frames."""
    made: list[MinedTask] = []
    for task in tasks:
        if task.split != "train" or task.origin != "real":
            continue
        frames = shuffled(_FRAMES, f"{seed}/{task.id}")
        for number in range(factor):
            frame = frames[number % len(frames)]
            made.append(
                replace(
                    task,
                    id=f"{task.id}-dream{number + 1}",
                    intent=frame.format(task.intent),
                    origin="dream",
                    derived_from=task.id,
                )
            )
    return made


def recalled(
    tonight: Sequence[MinedTask], archive: Sequence[MinedTask], count: int
) -> list[MinedTask]:
    """The archived training tasks that are most like tonight's; none that is like a held-out one.

    Rare words count more than common ones; what has no word in common is not recalled.
    """
    train = [task for task in tonight if task.split == "train"]
    held_out = [task for task in (*tonight, *archive) if task.split != "train"]
    known = {task.id for task in tonight}
    spare = [task for task in archive if task.split == "train" and task.id not in known]
    candidates = _unlike(spare, held_out)
    if not count or not train or not candidates:
        return []
    likeness = Likeness.among(task.intent for task in (*train, *candidates))
    alike = {
        task.id: max(likeness(task.intent, other.intent) for other in train) for task in candidates
    }
    ranked = sorted(candidates, key=lambda task: -alike[task.id])
    return [
        replace(task, id=f"recall-{task.id}", origin="recall", derived_from=task.id)
        for task in ranked[:count]
        if alike[task.id] > 0
    ]


def held_out_again(
    tonight: Sequence[MinedTask], archive: Sequence[MinedTask], least: int, seed: int | str
) -> list[MinedTask]:
    """Archived validation tasks that fill tonight's up to `least`, whichever night they are from.

    They make decisions surer, and notice when something of old is forgotten.
    """
    missing = least - sum(task.split == "val" for task in tonight)
    train = [task for task in tonight if task.split == "train"]
    known = {task.id for task in tonight}
    spare = [task for task in archive if task.split == "val" and task.id not in known]
    chosen = shuffled(_unlike(spare, train), f"{seed}/held out")[: max(0, missing)]
    return [replace(task, origin="recall") for task in chosen]
