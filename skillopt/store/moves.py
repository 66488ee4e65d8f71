"""Files of moves that are no steps: meta reflections and prunings."""

from __future__ import annotations

from skillopt.core.events import MetaReflected, Pruned
from skillopt.core.rules import Worth
from skillopt.store.drafts import draft_rows
from skillopt.store.files import Json, json_bytes
from skillopt.store.history import decision_json, size_json
from skillopt.store.layout import CandidateFolder
from skillopt.store.packages import skill_files
from skillopt.store.projections import Attempts, Files, rollout_files
from skillopt.store.receipts import Spent, stage_tokens
from skillopt.store.run_history import HistoryEntry


def pruning_files(
    folder: CandidateFolder, fact: Pruned, entry: HistoryEntry, spent: Spent, attempts: Attempts
) -> Files:
    """The value of every rule, the candidate and how it was measured."""
    yield folder.result, json_bytes(_pruning_result(fact, entry, spent))
    if fact.decision is not None:
        yield from skill_files(folder.candidate, fact.decision.candidate.skill)
        yield from rollout_files(folder.selection, fact.decision.candidate.evaluation, attempts)


def _pruning_result(fact: Pruned, entry: HistoryEntry, spent: Spent) -> Json:
    decision = fact.decision
    result: Json = {
        "epoch": fact.epoch,
        "action": decision.action if decision else "nothing_to_spare",
        "rules": [_rule(each, pruned=each.rule in fact.cut.rules) for each in fact.cut.worths],
        "update_origin": fact.move,
        "time_s": round(entry.wall, 3),
        "tokens": stage_tokens(spent),
    }
    if decision is not None:
        result["candidate_hash"] = decision.candidate.skill.digest
        result |= decision_json(decision)
    return result


def _rule(found: Worth, *, pruned: bool) -> Json:
    return {
        "file": found.rule.file,
        "line": found.rule.line,
        "text": found.rule.text,
        "value": found.gain,
        "value_interval_95": [round(found.low, 6), round(found.high, 6)],
        "n": found.n,
        "n_changed": found.changed,
        "left_out": pruned,
    }


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
        "tokens": stage_tokens(spent),
    }
    if draft.size is not None:
        result |= size_json(draft.size)
    if decision is not None:
        result |= decision_json(decision)
    return result
