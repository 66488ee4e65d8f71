"""The files and numbers of a race among candidates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skillopt.core.events import Stepped
from skillopt.core.proposal import Candidate, Round
from skillopt.store.files import Json, json_bytes
from skillopt.store.layout import StepFolder
from skillopt.store.packages import skill_files


def race_files(folder: StepFolder, fact: Stepped) -> Iterator[tuple[Path, bytes]]:
    """The heats, and the documents that lost; nothing where there was one candidate only."""
    if not fact.heats and not fact.draft.others:
        return
    told: Json = {
        "candidates": [_candidate(each) for each in fact.draft.takes],
        "heats": [_heat(each) for each in fact.heats],
        "winner": fact.draft.name if fact.decision else None,
        "attempts": sum(each.attempts for each in fact.heats),
    }
    yield folder.race, json_bytes(told)
    for take in fact.draft.others:
        if take.skill is not None:
            yield from skill_files(folder.rival(take.name), take.skill)


def _heat(heat: Round) -> Json:
    return {
        "split": heat.split,
        "tasks": heat.tasks,
        "gains": dict(heat.gains),
        "kept": list(heat.kept),
    }


def _candidate(take: Candidate) -> Json:
    return {
        "name": take.name,
        "hash": None if take.skill is None else take.skill.digest,
        "edits": len(take.chosen.proposals),
        "too_long": take.size is not None and take.size.too_long,
    }
