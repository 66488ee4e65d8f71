"""The files of a meta reflection."""

from __future__ import annotations

from skillopt.core.events import MetaReflected
from skillopt.store.artefacts import Attempts, Files, rollout_files
from skillopt.store.chronicle import HistoryEntry
from skillopt.store.drafts import draft_rows
from skillopt.store.files import Json, json_bytes
from skillopt.store.history import decision_json, size_json
from skillopt.store.layout import CandidateFolder
from skillopt.store.packages import skill_files
from skillopt.store.receipts import Spent, stage_tokens


def rethinking_files(
    folder: CandidateFolder,
    fact: MetaReflected,
    entry: HistoryEntry,
    spent: Spent,
    attempts: Attempts,
) -> Files:
    """The result, the candidate and how it was measured."""
    yield folder.result, json_bytes(_result(fact, entry, spent))
    if fact.draft.skill is not None:
        yield from skill_files(folder.candidate, fact.draft.skill)
    if fact.decision is not None:
        yield from rollout_files(folder.selection, fact.decision.candidate.evaluation, attempts)


def _result(fact: MetaReflected, entry: HistoryEntry, spent: Spent) -> Json:
    draft, decision = fact.draft, fact.decision
    result: Json = {
        "epoch": fact.epoch,
        "action": fact.action,
        "reasoning": draft.merged.reasoning,
        "edit_budget": draft.budget,
        **draft_rows(draft),
        "n_dropped_repeats": len(draft.repeats),
        "problems": list(draft.merged.problems),
        "candidate_hash": draft.skill.digest if draft.skill else None,
        "update_origin": fact.move,
        "time_s": round(entry.wall, 3),
        "tokens": stage_tokens(spent, fact.move),
    }
    if draft.size is not None:
        result |= size_json(draft.size)
    if decision is not None:
        result |= decision_json(decision)
    return result
