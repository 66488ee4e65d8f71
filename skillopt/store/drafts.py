"""How a candidate came about, as files: proposals, ranking, report, rewrite, probes, race."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from typing_extensions import assert_never

from skillopt.core.edits import (
    Append,
    Change,
    Delete,
    Edit,
    InsertAfter,
    Placement,
    Replace,
    Rewrite,
    Suggestion,
)
from skillopt.core.events import Stepped
from skillopt.core.proposal import (
    Candidate,
    Draft,
    Finding,
    Probe,
    Proposal,
    ReminderUpdate,
    Round,
    Turn,
)
from skillopt.core.skill import MAIN, Skill
from skillopt.store.files import Json, json_bytes
from skillopt.store.history import rate_json
from skillopt.store.layout import StepFolder
from skillopt.store.packages import skill_files


def draft_files(folder: StepFolder, draft: Draft) -> Iterator[tuple[Path, bytes]]:
    """Everything between the findings and the gate."""
    payload = payload_of(draft)
    merged: Json = {
        "reasoning": draft.merged.reasoning,
        payload: [_proposal(proposal) for proposal in draft.merged.proposals],
    }
    ranked: Json = {
        "reasoning": draft.merged.reasoning,
        payload: [_proposal(proposal) for proposal in draft.chosen.proposals],
    }
    if draft.chosen.indices is not None:
        ranked["ranking_details"] = {
            "reasoning": draft.chosen.reasoning,
            "selected_indices": list(draft.chosen.indices),
        }
    if draft.chosen.dropped:
        ranked["dropped"] = [
            {**_proposal(dropped.proposal), "reason": dropped.reason}
            for dropped in draft.chosen.dropped
        ]
    yield folder.merged, json_bytes(merged)
    if draft.rate is not None:
        yield folder.rate, json_bytes(rate_json(draft.rate))
    yield folder.ranked, json_bytes(ranked)
    if draft.rewritten is None:
        report = [_placement(index, placement) for index, placement in enumerate(draft.report)]
        yield folder.report, json_bytes(report)
    else:
        whole = payload == "skill_candidates"
        path = folder.full_rewrite if whole else folder.rewrite
        yield path, json_bytes(_rewritten(draft))
    if draft.skill is not None:
        yield from skill_files(folder.candidate, draft.skill)


def draft_rows(draft: Draft) -> Json:
    """The edits of a draft and what became of each."""
    return {
        "edits": [_proposal(proposal) for proposal in draft.chosen.proposals],
        "edit_apply_report": [_placement(*placement) for placement in enumerate(draft.report)],
    }


def payload_of(draft: Draft) -> str:
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


def _rewritten(draft: Draft) -> Json:
    rewritten = draft.rewritten
    if rewritten is None:
        return {}
    body = None if draft.skill is None else draft.skill.body
    result: Json = {
        "reasoning": rewritten.reasoning,
        "change_summary": list(rewritten.summary),
        "new_skill": body,
    }
    if rewritten.title:
        result["title"] = rewritten.title
    if rewritten.problem:
        result["problem"] = rewritten.problem
    return result


def finding_json(finding: Finding, payload: str) -> Json:
    """What one reflection concluded."""
    failure = finding.source == "failure"
    key, name = ("failure_summary", "failure_type") if failure else ("success_patterns", "pattern")
    trail: Json = {"trail": list(finding.trail)} if finding.trail else {}
    return {
        "source_type": finding.source,
        "batch_size": len(finding.tasks),
        "task_ids": list(finding.tasks),
        **trail,
        key: [
            {name: pattern.name, "count": pattern.count, "description": pattern.description}
            for pattern in finding.patterns
        ],
        "patch": {
            "reasoning": finding.reasoning,
            payload: [_proposal(proposal) for proposal in finding.proposals],
        },
    }


def _proposal(proposal: Proposal) -> Json:
    motivation = {"motivation": proposal.why} if isinstance(proposal.edit, Suggestion) else {}
    return {
        **_change(proposal.edit),
        **motivation,
        "support_count": proposal.support,
        "source_type": proposal.source,
        "merge_level": proposal.level,
        "proposer": proposal.by,
        "why": proposal.why,
        "task_ids": list(proposal.tasks),
    }


def _change(change: Change) -> Json:
    match change:
        case Append() | InsertAfter() | Replace() | Delete():
            return _edit(change)
        case Suggestion(aim, title, instruction, priority):
            fields: Json = {"type": aim, "title": title, "instruction": instruction}
            return {**fields, "priority_hint": priority}
        case Rewrite(title, summary, body):
            return {"title": title, "change_summary": list(summary), "new_skill": body}
    assert_never(change)


def _edit(edit: Edit) -> Json:
    match edit:
        case Append(content):
            fields: Json = {"op": edit.op, "target": "", "content": content}
        case InsertAfter(target, content) | Replace(target, content):
            fields = {"op": edit.op, "target": target, "content": content}
        case Delete(target):
            fields = {"op": edit.op, "target": target, "content": ""}
    return fields if edit.file == MAIN else fields | {"file": edit.file}


def remembered(change: Change) -> Json:
    """A whole body is remembered by what was different in it."""
    return {key: value for key, value in _change(change).items() if key != "new_skill"}


def _placement(index: int, placement: Placement) -> Json:
    edit = _edit(placement.edit)
    return {
        "index": index,
        **({"file": edit["file"]} if "file" in edit else {}),
        "op": edit["op"],
        "target": str(edit["target"])[:200],
        "content_preview": str(edit["content"])[:200],
        "status": placement.status,
        "target_match": placement.how,
    }


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
        "turns": [_turn(turn) for turn in probe.turns],
        "conclusion": probe.conclusion,
        "problem": probe.problem,
    }


def _turn(turn: Turn) -> Json:
    fields: Json = {
        "probe": turn.kind,
        "reasoning": turn.why,
        "question" if turn.kind == "ask" else "instruction": turn.sent,
        "answer": turn.came,
    }
    if turn.score is not None:
        fields |= {
            "hard": turn.score.hard,
            "soft": turn.score.soft,
            "feedback": turn.score.feedback,
        }
    return fields


def _notes(draft: Draft, appendix: ReminderUpdate, after: Sequence[str]) -> Json:
    return {
        "step_notes": [note for finding in draft.findings for note in finding.notes],
        "new_notes": list(appendix.added),
        "appendix_tried": list(appendix.after),
        "appendix_after": list(after),
        "problem": appendix.problem,
    }


def race_files(folder: StepFolder, fact: Stepped) -> Iterator[tuple[Path, bytes]]:
    """The heats, and the documents that lost; nothing where there was one candidate only."""
    if not fact.heats and not fact.draft.others:
        return
    fields: Json = {
        "candidates": [_candidate(candidate) for candidate in fact.draft.takes],
        "heats": [_round(round_) for round_ in fact.heats],
        "winner": fact.draft.name if fact.decision else None,
        "attempts": sum(round_.attempts for round_ in fact.heats),
    }
    yield folder.race, json_bytes(fields)
    for candidate in fact.draft.others:
        if candidate.skill is not None:
            yield from skill_files(folder.rival(candidate.name), candidate.skill)


def _round(round_: Round) -> Json:
    return {
        "split": round_.split,
        "tasks": round_.tasks,
        "gains": dict(round_.gains),
        "kept": list(round_.kept),
    }


def _candidate(candidate: Candidate) -> Json:
    return {
        "name": candidate.name,
        "hash": None if candidate.skill is None else candidate.skill.digest,
        "edits": len(candidate.chosen.proposals),
        "too_long": candidate.size is not None and candidate.size.too_long,
    }
