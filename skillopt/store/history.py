"""Step records and `runtime_state.json`, as data for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from skillopt.core.events import (
    Batch,
    Decision,
    Stepped,
)
from skillopt.core.proposal import Draft, Finding, Rate, Size
from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.store.files import Json, json_bytes, json_list, list_item
from skillopt.store.receipts import Spent, stage_tokens
from skillopt.store.run_history import HistoryEntry, RunHistory

PHASES = ("rollout", "reflect", "aggregate", "select", "update", "evaluate")


class StepRecords:
    """The records of all steps, each made once, and again only if its cost has changed since."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self._config = config
        self._made: dict[str, tuple[Spent, bytes, bytes]] = {}

    def file(self, fact: Stepped, entry: HistoryEntry, spent: Spent) -> bytes:
        """`step_record.json`; `spent` is what the move has cost."""
        return self._record(fact, entry, spent)[1]

    def history(self, entries: Iterable[HistoryEntry], spent: Mapping[str, Spent]) -> bytes:
        """`history.json`, the list of all records; `spent` is the cost of each move."""
        return json_list(
            self._record(entry.fact, entry, spent.get(entry.fact.move, {}))[2]
            for entry in entries
            if isinstance(entry.fact, Stepped)
        )

    def _record(
        self, fact: Stepped, entry: HistoryEntry, spent: Spent
    ) -> tuple[Spent, bytes, bytes]:
        """What it cost, the record as a file, and as an item of a list."""
        made = self._made.get(fact.move)
        if made is None or made[0] != spent:
            data = json_bytes(step_record(fact, entry, spent, self._config))
            made = self._made[fact.move] = spent, data, list_item(data)
        return made


def step_record(
    fact: Stepped, entry: HistoryEntry, spent: Spent, config: Mapping[str, object]
) -> Json:
    """Everything about a step in numbers; what a skipped step did not reach is absent."""
    after = entry.after
    return {
        "step": fact.step,
        "epoch": fact.epoch,
        "step_in_epoch": fact.in_epoch - 1,
        "action": fact.action,
        "timing": {f"{name}_s": round(entry.seconds.get(name, 0.0), 3) for name in PHASES},
        "tokens": stage_tokens(spent),
        **_rollout_part(fact, config),
        **_draft_part(fact, config),
        **_race_part(fact),
        **_gate_part(fact, config),
        **_notes_part(fact, after),
        "current_score": after.current.value,
        "best_score": after.best.value,
        "best_step": after.best.step,
        "current_origin": after.current.origin,
        "best_origin": after.best.origin,
        "skill_len": len(after.current.skill.render()),
        "wall_time_s": round(entry.wall, 3),
    }


def rate_json(rate: Rate) -> Json:
    """A decision on the learning rate."""
    fields: Json = {
        "learning_rate": rate.value,
        "raw_learning_rate": rate.wanted,
        "available_update_items": rate.available,
        "clamped": rate.clamped,
        "fallback": bool(rate.problem),
        "reasoning": rate.reasoning,
        "confidence": rate.confidence,
        "risk_notes": list(rate.risks),
        "raw_response": rate.reply,
    }
    if rate.volatility is not None:
        fields["volatility"] = rate.volatility
    if rate.problem:
        fields["error"] = rate.problem
    return fields


def size_json(size: Size) -> Json:
    """Growth of the skill in estimated tokens."""
    fields: Json = {
        "skill_tokens_before": size.before,
        "skill_tokens_after": size.after,
        "skill_tokens_added": size.added,
    }
    if size.after != size.drafted:
        fields["skill_tokens_drafted"] = size.drafted
    if size.limit:
        fields["max_skill_tokens"] = size.limit
    return fields


def rates(run_history: RunHistory) -> list[Json]:
    """Every decision on the learning rate so far."""
    return [
        {"step": step.step, "epoch": step.epoch, **rate_json(step.draft.rate)}
        for step in run_history.steps
        if step.draft.rate is not None
    ]


def runtime_state(run_history: RunHistory, state: State, current: Path, best: Path) -> Json:
    """Where the run stands; paths are absolute."""
    return {
        "last_completed_step": run_history.last_step,
        "current_skill_path": str(current.resolve()),
        "current_score": state.current.value,
        "current_origin": state.current.origin,
        "best_skill_path": str(best.resolve()),
        "best_score": state.best.value,
        "best_step": state.best.step,
        "best_origin": state.best.origin,
    }


def _rollout_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    batches = [batch.evaluation for batch in fact.batches]
    scores = [score for batch in batches for score in batch.scores.values()]
    useful = _useful(fact.draft.findings)
    return {
        "rollout_hard": _mean(score.hard for score in scores),
        "rollout_soft": _mean(score.soft for score in scores),
        "rollout_n": len(scores),
        "rollout_failures": sum(len(batch.failures) for batch in batches),
        "accumulation_batches": [
            _batch(index, batch, useful, _batch_seed(fact, index, config))
            for index, batch in enumerate(fact.batches)
        ],
        "n_patches": len(useful),
        "n_failure_patches": sum(finding.source == "failure" for finding in useful),
        "n_success_patches": sum(finding.source == "success" for finding in useful),
    }


def _batch_seed(fact: Stepped, index: int, config: Mapping[str, object]) -> int | None:
    """The number that names a micro-batch: from the run's seed, the epoch and its place in it."""
    seed, accumulation = config.get("seed"), config.get("accumulation")
    if not isinstance(seed, int) or not isinstance(accumulation, int):
        return None
    return seed + 1000 * fact.epoch + (fact.in_epoch - 1) * accumulation + index + 1


def _batch(index: int, batch: Batch, useful: Sequence[Finding], seed: int | None) -> Json:
    own = [finding.source for finding in useful if finding.batch == index]
    return {
        "batch_idx": index,
        "batch_seed": seed,
        "n_envs": len(batch.tasks),
        "hard": batch.evaluation.hard,
        "soft": batch.evaluation.soft,
        "n_failure_patches": own.count("failure"),
        "n_success_patches": own.count("success"),
    }


def _draft_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    draft, rewritten = fact.draft, fact.draft.rewritten
    part: Json = {
        "edit_budget": draft.budget,
        "lr_control_mode": config.get("lr_control_mode"),
        "problems": _problems(draft),
        "n_dropped_repeats": len(draft.repeats),
    }
    if draft.rate is not None:
        part["lr_decision"] = rate_json(draft.rate)
    if fact.action == "skip_no_patches":
        return part
    applied = sum(placement.applied for placement in draft.report)
    part |= {
        "n_edits_merged": len(draft.merged.proposals),
        "n_edits_ranked": len(draft.chosen.proposals),
        "support_counts": [proposal.support for proposal in draft.chosen.proposals],
    }
    if rewritten is None:
        part["edit_apply_summary"] = {
            "total": len(draft.report),
            "applied": applied,
            "skipped": len(draft.report) - applied,
            "errors": 0,
        }
    else:
        part["rewrite_change_summary"] = list(rewritten.summary)
    if draft.size is not None:
        part |= size_json(draft.size)
    if draft.skill is not None:
        part["candidate_hash"] = draft.skill.digest
        part["candidate_skill_len"] = len(draft.skill.render())
    return part


def _problems(draft: Draft) -> list[str]:
    """Everything that went wrong on the way to a candidate, in the order of the stages."""
    stages = (
        [finding.problem for finding in draft.findings],
        [probe.problem for finding in draft.findings for probe in finding.probes],
        draft.merged.problems,
        [
            draft.rate.problem if draft.rate else "",
            draft.chosen.problem,
            draft.rewritten.problem if draft.rewritten else "",
            draft.appendix.problem if draft.appendix else "",
            draft.size.problem if draft.size else "",
        ],
    )
    return [text for stage in stages for text in stage if text]


def _race_part(fact: Stepped) -> Json:
    """What is told only where there were several candidates, or another parent."""
    part: Json = {"parent_origin": fact.parent} if fact.parent else {}
    if fact.heats or fact.draft.others:
        part |= {
            "n_candidates": len(fact.draft.takes),
            "candidate_name": fact.draft.name,
            "race_attempts": sum(round_.attempts for round_ in fact.heats),
        }
    return part


def _gate_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    if fact.decision is None:
        return {}
    return {"gate_metric": config.get("gate_metric"), **decision_json(fact.decision)}


def decision_json(decision: Decision) -> Json:
    """How a candidate was measured, and what the gate said of it."""
    return {
        **measured("selection", decision.candidate.evaluation),
        "selection_saved": decision.saved,
        "candidate_gate_score": decision.candidate.value,
        "candidate_gate_score_is_upper_bound": decision.bounded,
        "inconclusive": decision.inconclusive,
        "gate_level": decision.level,
        **({"gate_rivals": decision.rivals} if decision.rivals > 1 else {}),
        "reason": decision.reason,
    }


def _notes_part(fact: Stepped, after: State) -> Json:
    """Reminders in numbers; those of a rejected candidate were not added to anything."""
    appendix = fact.draft.appendix
    if appendix is None:
        return {}
    kept = fact.decision is not None and fact.decision.accepted
    return {
        "n_execution_lapse_notes": sum(len(finding.notes) for finding in fact.draft.findings),
        "n_appendix_notes_added": len(appendix.added) if kept else 0,
        "n_appendix_notes_total": len(after.current.skill.notes),
        "n_appendix_notes_consolidated": appendix.consolidated if kept else 0,
    }


def measured(name: str, evaluation: Evaluation) -> Json:
    """Scores with the number of items and of failed attempts, each key beginning with a name."""
    return {
        f"{name}_hard": evaluation.hard,
        f"{name}_soft": evaluation.soft,
        f"{name}_n": evaluation.n,
        f"{name}_failures": len(evaluation.failures),
        **({f"{name}_own_failures": len(own)} if (own := evaluation.own_failures) else {}),
        **({f"{name}_replicates": len(evaluation.rounds)} if evaluation.rounds else {}),
    }


def _useful(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.proposals]


def _mean(values: Iterable[float]) -> float:
    kept = list(values)
    return sum(kept) / len(kept) if kept else 0.0
