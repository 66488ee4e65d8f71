"""Files about probes and reminders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from skillopt.core.proposal import Draft, Probe, ReminderUpdate, Turn
from skillopt.core.skill import Skill
from skillopt.store.files import Json, json_bytes
from skillopt.store.layout import StepFolder


def insight_files(folder: StepFolder, draft: Draft, after: Skill) -> Iterator[tuple[Path, bytes]]:
    """A file per probe, and one for reminders if they are kept; `after` is the skill in force."""
    for finding in draft.findings:
        for probe in finding.probes:
            yield folder.probe(probe.task), json_bytes(_probe(probe))
    if draft.appendix is not None:
        yield folder.notes, json_bytes(_notes(draft, draft.appendix, after.notes))


def _probe(probe: Probe) -> Json:
    return {
        "id": probe.task,
        "turns": [_turn(each) for each in probe.turns],
        "conclusion": probe.conclusion,
        "problem": probe.problem,
    }


def _turn(turn: Turn) -> Json:
    told: Json = {
        "probe": turn.kind,
        "reasoning": turn.why,
        "question" if turn.kind == "ask" else "instruction": turn.sent,
        "answer": turn.came,
    }
    if turn.score is not None:
        told |= {"hard": turn.score.hard, "soft": turn.score.soft, "feedback": turn.score.feedback}
    return told


def _notes(draft: Draft, appendix: ReminderUpdate, after: Sequence[str]) -> Json:
    return {
        "step_notes": [note for finding in draft.findings for note in finding.notes],
        "new_notes": list(appendix.added),
        "appendix_tried": list(appendix.after),
        "appendix_after": list(after),
        "problem": appendix.problem,
    }
