"""The files of a training step: its record, its evidence, and how its candidates came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from skillopt.core.edits import Append, Change, Delete, Edit, Placement, Rewrite, Suggestion
from skillopt.core.events import Decision
from skillopt.core.facts import Stepped
from skillopt.core.memory import MemoryEntry
from skillopt.core.proposal import Candidate, Draft, Finding, Probe, Proposal, Rate, Size
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import MAIN
from skillopt.store.files import given
from skillopt.store.kinds import Files, Json, Sources
from skillopt.store.receipts import stage_tokens
from skillopt.store.run_history import HistoryEntry

PHASES = ("rollout", "reflect", "aggregate", "select", "update", "evaluate")


def step_files(fact: Stepped, entry: HistoryEntry, sources: Sources) -> Files:
    """A step's own folder."""
    root = f"steps/step_{fact.step:04d}"
    several = len(fact.batches) > 1  # the only micro-batch has no folder of its own
    payload = _payload(fact.draft)
    for index, batch in enumerate(fact.batches):
        yield f"{_batch_folder(root, index, several=several)}/rollout", batch.evaluation
    for finding in fact.draft.findings:
        if not finding.problem:
            folder = _batch_folder(root, finding.batch, several=several)
            kind = "fail" if finding.source == "failure" else "succ"
            name = f"{folder}/patches/minibatch_{kind}_{finding.number:03d}.json"
            yield name, _finding(finding, payload)
        for probe in finding.probes:
            yield f"{root}/deep_reflect/{probe.task}.json", _probe(probe)
    if fact.action != "skip_no_patches":
        for name, content in _draft_files(fact.draft, payload):
            yield f"{root}/{name}", content
        for name, content in _race_files(fact):
            yield f"{root}/{name}", content
        yield f"{root}/trajectory_digest.json", _remembered(entry.after.memory.steps[-1])
    if fact.draft.reminders is not None:
        yield f"{root}/appendix_notes.json", _reminders(fact, entry)
    if fact.decision is not None:
        yield f"{root}/selection_eval", fact.decision.candidate.evaluation
    yield f"{root}/step_record.json", step_record(fact, entry, sources)


def _batch_folder(root: str, index: int, *, several: bool) -> str:
    return f"{root}/batch_{index}" if several else root


def step_record(fact: Stepped, entry: HistoryEntry, sources: Sources) -> Json:
    """Everything about a step in numbers; what a skipped step did not reach is absent."""
    after = entry.after
    return {
        "step": fact.step,
        "epoch": fact.epoch,
        "step_in_epoch": fact.in_epoch - 1,
        "action": fact.action,
        "timing": {f"{name}_s": round(entry.seconds.get(name, 0.0), 3) for name in PHASES},
        "tokens": stage_tokens(sources.spent),
        **_rollout_part(fact, sources.config),
        **_draft_part(fact, sources.config),
        **_race_part(fact),
        **_gate_part(fact, sources.config),
        **_reminder_part(fact, entry),
        "current_score": after.current.value,
        "best_score": after.best.value,
        "best_step": after.best.step,
        "current_origin": after.current.origin,
        "best_origin": after.best.origin,
        "skill_len": len(after.current.skill.render()),
        "wall_time_s": round(entry.wall, 3),
    }


def _rollout_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    batches = [batch.evaluation for batch in fact.batches]
    scores = [score for batch in batches for score in batch.scores.values()]
    useful = [finding for finding in fact.draft.findings if finding.proposals]
    return {
        "rollout_hard": _mean(score.hard for score in scores),
        "rollout_soft": _mean(score.soft for score in scores),
        "rollout_n": len(scores),
        "rollout_failures": sum(len(batch.failures) for batch in batches),
        "accumulation_batches": [
            {
                "batch_idx": index,
                "batch_seed": _batch_seed(fact, index, config),
                "n_envs": len(batch.tasks),
                "hard": batch.evaluation.hard,
                "soft": batch.evaluation.soft,
                **_patches(finding for finding in useful if finding.batch == index),
            }
            for index, batch in enumerate(fact.batches)
        ],
        "n_patches": len(useful),
        **_patches(useful),
    }


def _patches(useful: Iterable[Finding]) -> Json:
    count = Counter(finding.source for finding in useful)
    return {"n_failure_patches": count["failure"], "n_success_patches": count["success"]}


def _batch_seed(fact: Stepped, index: int, config: Mapping[str, object]) -> int | None:
    """The number that names a micro-batch: from the run's seed, the epoch and its place in it."""
    seed, accumulation = config.get("seed"), config.get("accumulation")
    if not isinstance(seed, int) or not isinstance(accumulation, int):
        return None
    return seed + 1000 * fact.epoch + (fact.in_epoch - 1) * accumulation + index + 1


def _draft_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    draft, candidate = fact.draft, fact.draft.leading
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
    part |= {
        "n_edits_merged": len(draft.merged.proposals),
        "n_edits_ranked": len(candidate.chosen.proposals),
        "support_counts": [proposal.support for proposal in candidate.chosen.proposals],
    }
    if candidate.rewritten is None:
        applied = sum(placement.applied for placement in candidate.report)
        part["edit_apply_summary"] = {
            "total": len(candidate.report),
            "applied": applied,
            "skipped": len(candidate.report) - applied,
            "errors": 0,
        }
    else:
        part["rewrite_change_summary"] = candidate.rewritten.summary
    part |= size_json(candidate.size)
    if candidate.skill is not None:
        part["candidate_hash"] = candidate.skill.digest
        part["candidate_skill_len"] = len(candidate.skill.render())
    return part


def _problems(draft: Draft) -> list[str]:
    """Everything that went wrong on the way to a candidate, in the order of the stages."""
    candidate = draft.leading
    stages = (draft.rate, candidate.chosen, candidate.rewritten, draft.reminders, candidate.size)
    problems = (
        *(finding.problem for finding in draft.findings),
        *(probe.problem for finding in draft.findings for probe in finding.probes),
        *draft.merged.problems,
        *(stage.problem for stage in stages if stage is not None),
    )
    return [problem for problem in problems if problem]


def _race_part(fact: Stepped) -> Json:
    """What is told only where there were several candidates, or another parent."""
    part = given(parent_origin=fact.parent)
    if fact.rounds or len(fact.draft.candidates) > 1:
        part |= {
            "n_candidates": len(fact.draft.candidates),
            "candidate_name": fact.draft.leading.name,
            "race_attempts": sum(round_.attempts for round_ in fact.rounds),
        }
    return part


def _gate_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    if fact.decision is None:
        return {}
    return {"gate_metric": config.get("gate_metric"), **decision_json(fact.decision)}


def _reminder_part(fact: Stepped, entry: HistoryEntry) -> Json:
    """Reminders in numbers; those of a rejected candidate were not added to anything."""
    reminders = fact.draft.reminders
    if reminders is None:
        return {}
    kept = fact.decision is not None and fact.decision.accepted
    return {
        "n_execution_lapse_notes": sum(len(finding.notes) for finding in fact.draft.findings),
        "n_appendix_notes_added": len(reminders.added) if kept else 0,
        "n_appendix_notes_total": len(entry.after.current.skill.notes),
        "n_appendix_notes_consolidated": reminders.consolidated if kept else 0,
    }


def decision_json(decision: Decision) -> Json:
    """How a candidate was measured, and what the gate said of it."""
    return {
        **evaluation_json("selection", decision.candidate.evaluation),
        "selection_saved": decision.saved,
        "candidate_gate_score": decision.candidate.value,
        "candidate_gate_score_is_upper_bound": decision.bounded,
        "inconclusive": decision.inconclusive,
        "gate_level": decision.level,
        **given(gate_rivals=decision.compared > 1 and decision.compared),
        "reason": decision.reason,
    }


def evaluation_json(name: str, evaluation: Evaluation) -> Json:
    """Scores with the number of items and of failed attempts, each key beginning with a name."""
    return {
        f"{name}_hard": evaluation.hard,
        f"{name}_soft": evaluation.soft,
        f"{name}_n": evaluation.n,
        f"{name}_failures": len(evaluation.failures),
        **given(
            **{
                f"{name}_own_failures": len(evaluation.own_failures),
                f"{name}_replicates": len(evaluation.rounds),
            }
        ),
    }


def rate_json(rate: Rate) -> Json:
    """A decision on the learning rate."""
    return {
        "learning_rate": rate.value,
        "raw_learning_rate": rate.wanted,
        "available_update_items": rate.available,
        "clamped": rate.clamped,
        "fallback": bool(rate.problem),
        "reasoning": rate.reasoning,
        "confidence": rate.confidence,
        "risk_notes": rate.risks,
        "raw_response": rate.reply,
        **({} if rate.volatility is None else {"volatility": rate.volatility}),
        **given(error=rate.problem),
    }


def size_json(size: Size | None) -> Json:
    """Growth of the skill in estimated tokens; nothing where there is no candidate."""
    if size is None:
        return {}
    return {
        "skill_tokens_before": size.before,
        "skill_tokens_after": size.after,
        "skill_tokens_added": size.added,
        **({} if size.after == size.drafted else {"skill_tokens_drafted": size.drafted}),
        **given(max_skill_tokens=size.limit),
    }


def _draft_files(draft: Draft, payload: str) -> Files:
    """Everything between the findings and the gate."""
    candidate, chosen = draft.leading, draft.leading.chosen
    yield (
        "merged_patch.json",
        {"reasoning": draft.merged.reasoning, payload: _proposals(draft.merged.proposals)},
    )
    if draft.rate is not None:
        yield "lr_decision.json", rate_json(draft.rate)
    ranked: Json = {"reasoning": draft.merged.reasoning, payload: _proposals(chosen.proposals)}
    if (indices := chosen.indices) is not None:
        ranked["ranking_details"] = {"reasoning": chosen.reasoning, "selected_indices": indices}
    dropped = [{**_proposal(each.proposal), "reason": each.reason} for each in chosen.dropped]
    yield "ranked_edits.json", ranked | given(dropped=dropped)
    if candidate.rewritten is None:
        yield "edit_apply_report.json", _placements(candidate.report)
    else:
        whole = "full_" if payload == "skill_candidates" else ""
        yield f"{whole}rewrite_result.json", _rewritten(candidate)
    if candidate.skill is not None:
        yield "candidate_skill.md", candidate.skill


def edits_json(candidate: Candidate) -> Json:
    """The edits of a candidate and what became of each."""
    return {
        "edits": _proposals(candidate.chosen.proposals),
        "edit_apply_report": _placements(candidate.report),
    }


def _payload(draft: Draft) -> str:
    """The key under which the proposals of a step are listed: it tells their kind."""
    proposals = [
        *draft.merged.proposals,
        *(proposal for finding in draft.findings for proposal in finding.proposals),
    ]
    match proposals[0].edit if proposals else None:
        case Suggestion():
            return "revise_suggestions"
        case Rewrite():
            return "skill_candidates"
        case _:
            return "edits"


def _rewritten(candidate: Candidate) -> Json:
    rewritten = candidate.rewritten
    if rewritten is None:
        return {}
    return {
        "reasoning": rewritten.reasoning,
        "change_summary": rewritten.summary,
        "new_skill": None if candidate.skill is None else candidate.skill.body,
        **given(title=rewritten.title, problem=rewritten.problem),
    }


def _finding(finding: Finding, payload: str) -> Json:
    failure = finding.source == "failure"
    key, name = ("failure_summary", "failure_type") if failure else ("success_patterns", "pattern")
    return {
        "source_type": finding.source,
        "batch_size": len(finding.tasks),
        "task_ids": finding.tasks,
        **given(trail=finding.trail),
        key: [
            {name: pattern.name, "count": pattern.count, "description": pattern.description}
            for pattern in finding.patterns
        ],
        "patch": {"reasoning": finding.reasoning, payload: _proposals(finding.proposals)},
    }


def _proposals(proposals: Iterable[Proposal]) -> list[Json]:
    return [_proposal(proposal) for proposal in proposals]


def _proposal(proposal: Proposal) -> Json:
    return {
        **_change(proposal.edit),
        **({"motivation": proposal.why} if isinstance(proposal.edit, Suggestion) else {}),
        "support_count": proposal.support,
        "source_type": proposal.source,
        "merge_level": proposal.level,
        "proposer": proposal.by,
        "why": proposal.why,
        "task_ids": proposal.tasks,
    }


def _change(change: Change) -> Json:
    match change:
        case Suggestion(aim, title, instruction, priority):
            hint = {"instruction": instruction, "priority_hint": priority}
            return {"type": aim, "title": title, **hint}
        case Rewrite(title, summary, body):
            return {"title": title, "change_summary": summary, "new_skill": body}
        case _:
            return _edit(change)


def _edit(edit: Edit) -> Json:
    return {
        "op": edit.op,
        "target": "" if isinstance(edit, Append) else edit.target,
        "content": "" if isinstance(edit, Delete) else edit.content,
        **({} if edit.file == MAIN else {"file": edit.file}),
    }


def _placements(report: Iterable[Placement]) -> list[Json]:
    return [
        {
            "index": index,
            **given(file=edit.get("file")),
            "op": edit["op"],
            "target": str(edit["target"])[:200],
            "content_preview": str(edit["content"])[:200],
            "status": placement.status,
            "target_match": placement.how,
        }
        for index, placement in enumerate(report)
        for edit in [_edit(placement.edit)]
    ]


def _remembered(entry: MemoryEntry) -> Json:
    """The step as later steps remember it; a whole body by what was different in it."""
    fields: Json = {
        "step": entry.step,
        "action": entry.action,
        "n_total": entry.n_total,
        "n_fail": entry.n_fail,
        "failure_patterns": [
            {"pattern": pattern.name, "count": pattern.count, "task_ids": pattern.tasks}
            for pattern in entry.patterns
        ],
    }
    if entry.score_before is not None:
        fields["score_before"] = entry.score_before
        fields["score_after"] = entry.score_after
        fields["score_after_is_upper_bound"] = entry.bounded
        kind = "rejected_edits" if entry.action == "reject" else "accepted_edits"
        edits = [_change(edit) for edit in entry.accepted or entry.rejected or entry.undecided]
        fields["undecided_edits" if entry.undecided else kind] = [
            {key: value for key, value in edit.items() if key != "new_skill"} for edit in edits
        ]
    return fields | given(rejected_notes=entry.rejected_notes)


def _probe(probe: Probe) -> Json:
    turns = [
        {
            "probe": turn.kind,
            "reasoning": turn.why,
            "question" if turn.kind == "ask" else "instruction": turn.sent,
            "answer": turn.came,
            **(asdict(turn.score) if turn.score else {}),
        }
        for turn in probe.turns
    ]
    return {
        "id": probe.task,
        "turns": turns,
        "conclusion": probe.conclusion,
        "problem": probe.problem,
    }


def _reminders(fact: Stepped, entry: HistoryEntry) -> Json:
    reminders = fact.draft.reminders
    if reminders is None:
        return {}
    return {
        "step_notes": [note for finding in fact.draft.findings for note in finding.notes],
        "new_notes": reminders.added,
        "appendix_tried": reminders.after,
        "appendix_after": entry.after.current.skill.notes,
        "problem": reminders.problem,
    }


def _race_files(fact: Stepped) -> Files:
    """The rounds, and the documents that lost; nothing where there was one candidate only."""
    draft = fact.draft
    if not fact.rounds and len(draft.candidates) == 1:
        return
    yield (
        "race.json",
        {
            "candidates": [_candidate(candidate) for candidate in draft.candidates],
            "heats": [asdict(round_) for round_ in fact.rounds],
            "winner": draft.leading.name if fact.decision else None,
            "attempts": sum(round_.attempts for round_ in fact.rounds),
        },
    )
    for candidate in draft.candidates[1:]:
        if candidate.skill is not None:
            yield f"rivals/{candidate.name.replace(' ', '_')}.md", candidate.skill


def _candidate(candidate: Candidate) -> Json:
    return {
        "name": candidate.name,
        "hash": None if candidate.skill is None else candidate.skill.digest,
        "edits": len(candidate.chosen.proposals),
        "too_long": candidate.size is not None and candidate.size.too_long,
    }


def _mean(values: Iterable[float]) -> float:
    kept = list(values)
    return sum(kept) / len(kept) if kept else 0.0
