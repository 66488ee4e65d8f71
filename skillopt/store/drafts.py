"""The files of a step's proposals: proposals, ranking, report, rewrite."""

from __future__ import annotations

from collections.abc import Iterator
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
from skillopt.core.proposal import Draft, Finding, Proposal
from skillopt.core.skill import MAIN
from skillopt.store.files import Json, json_bytes
from skillopt.store.history import rate_json
from skillopt.store.layout import StepFolder
from skillopt.store.packages import skill_files


def draft_files(folder: StepFolder, draft: Draft) -> Iterator[tuple[Path, bytes]]:
    """Everything between the findings and the gate."""
    payload = payload_of(draft)
    merged: Json = {
        "reasoning": draft.merged.reasoning,
        payload: [_proposal(each) for each in draft.merged.proposals],
    }
    ranked: Json = {
        "reasoning": draft.merged.reasoning,
        payload: [_proposal(each) for each in draft.chosen.proposals],
    }
    if draft.chosen.indices is not None:
        ranked["ranking_details"] = {
            "reasoning": draft.chosen.reasoning,
            "selected_indices": list(draft.chosen.indices),
        }
    if draft.chosen.dropped:
        ranked["dropped"] = [
            {**_proposal(each.proposal), "reason": each.reason} for each in draft.chosen.dropped
        ]
    yield folder.merged, json_bytes(merged)
    if draft.rate is not None:
        yield folder.rate, json_bytes(rate_json(draft.rate))
    yield folder.ranked, json_bytes(ranked)
    if draft.rewritten is None:
        report = [_placement(index, each) for index, each in enumerate(draft.report)]
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
        "edits": [_proposal(each) for each in draft.chosen.proposals],
        "edit_apply_report": [_placement(*each) for each in enumerate(draft.report)],
    }


def payload_of(draft: Draft) -> str:
    """The key under which the proposals of a step are listed: it tells their kind."""
    found = [*draft.merged.proposals, *(each for some in draft.findings for each in some.proposals)]
    match found[0].edit if found else None:
        case Suggestion():
            return "revise_suggestions"
        case Rewrite():
            return "skill_candidates"
        case _:
            return "edits"


def _rewritten(draft: Draft) -> Json:
    told = draft.rewritten
    if told is None:
        return {}
    body = None if draft.skill is None else draft.skill.body
    result: Json = {
        "reasoning": told.reasoning,
        "change_summary": list(told.summary),
        "new_skill": body,
    }
    if told.title:
        result["title"] = told.title
    if told.problem:
        result["problem"] = told.problem
    return result


def finding_json(finding: Finding, payload: str) -> Json:
    """What one reflection concluded."""
    key = "failure_summary" if finding.source == "failure" else "success_patterns"
    trail: Json = {"trail": list(finding.trail)} if finding.trail else {}
    return {
        "source_type": finding.source,
        "batch_size": len(finding.tasks),
        "task_ids": list(finding.tasks),
        **trail,
        key: [
            {"failure_type": each.name, "count": each.count, "description": each.description}
            if finding.source == "failure"
            else {"pattern": each.name, "count": each.count, "description": each.description}
            for each in finding.patterns
        ],
        "patch": {
            "reasoning": finding.reasoning,
            payload: [_proposal(each) for each in finding.proposals],
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
            told: Json = {"type": aim, "title": title, "instruction": instruction}
            return {**told, "priority_hint": priority}
        case Rewrite(title, summary, body):
            return {"title": title, "change_summary": list(summary), "new_skill": body}
    assert_never(change)


def _edit(edit: Edit) -> Json:
    match edit:
        case Append(content):
            told: Json = {"op": edit.op, "target": "", "content": content}
        case InsertAfter(target, content) | Replace(target, content):
            told = {"op": edit.op, "target": target, "content": content}
        case Delete(target):
            told = {"op": edit.op, "target": target, "content": ""}
    return told if edit.file == MAIN else told | {"file": edit.file}


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
