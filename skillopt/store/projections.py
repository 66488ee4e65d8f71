"""The files that each fact leaves in the run directory: names and contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from skillopt.core.chat import Message
from skillopt.core.events import (
    Compared,
    Decision,
    EpochClosed,
    FinalTested,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.memory import MemoryEntry
from skillopt.core.proposal import Pattern
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score, Trajectory
from skillopt.core.rules import Worth
from skillopt.core.state import State
from skillopt.store.drafts import (
    draft_files,
    draft_rows,
    finding_json,
    insight_files,
    payload_of,
    race_files,
    remembered,
)
from skillopt.store.files import Json, json_bytes, json_row
from skillopt.store.history import decision_json, size_json
from skillopt.store.layout import CandidateFolder, EpochFolder, Layout, RolloutFolder, StepFolder
from skillopt.store.packages import skill_files
from skillopt.store.receipts import Spent, stage_tokens
from skillopt.store.run_history import HistoryEntry

Files: TypeAlias = Iterator[tuple[Path, bytes]]
Attempts: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, Rollout]]
"""Kept rollouts of a skill (by digest), by task."""


def step_files(folder: StepFolder, fact: Stepped, entry: HistoryEntry, attempts: Attempts) -> Files:
    """A step's own files, apart from its record."""
    count = len(fact.batches)
    for index, batch in enumerate(fact.batches):
        yield from rollout_files(folder.rollout(index, count), batch.evaluation, attempts)
    for finding in fact.draft.findings:
        if not finding.problem:
            path = folder.patch(finding.batch, count, finding.source, finding.number)
            yield path, json_bytes(finding_json(finding, payload_of(fact.draft)))
    if fact.action != "skip_no_patches":
        yield from draft_files(folder, fact.draft)
        yield from race_files(folder, fact)
        yield folder.digest, json_bytes(_entry(entry.after.memory.steps[-1]))
    yield from insight_files(folder, fact.draft, entry.after.current.skill)
    if fact.decision is not None:
        yield from rollout_files(folder.selection, fact.decision.candidate.evaluation, attempts)


def epoch_files(
    folder: EpochFolder, fact: EpochClosed, entry: HistoryEntry, attempts: Attempts
) -> Files:
    """What the end of an epoch leaves."""
    decision = fact.decision
    yield folder.slow_result, json_bytes(_slow_result(fact, decision, entry.wall))
    yield folder.meta_result, json_bytes(_meta_result(fact, entry.wall))
    if fact.pairs:
        yield from _pair_files(folder, fact, attempts)
    if decision is not None:
        yield from skill_files(folder.candidate, decision.candidate.skill)
        yield from rollout_files(folder.selection, decision.candidate.evaluation, attempts)


def final_test_files(layout: Layout, fact: FinalTested, state: State, attempts: Attempts) -> Files:
    """The final exam, and the last skill on the validation tasks."""
    for measured in state.pool:
        if measured.skill.digest == fact.last.skill:
            yield from rollout_files(layout.final_selection, measured.evaluation, attempts)
            break
    for folder, evaluation in (
        (layout.final_test_initial, fact.initial),
        (layout.final_test_best, fact.best),
        (layout.final_test_last, fact.last),
    ):
        yield from rollout_files(folder, evaluation, attempts)
        kinds = attempts(evaluation.skill, list(evaluation.scores))
        yield folder.summary, json_bytes(_by_kind(evaluation, kinds))


def rollout_files(folder: RolloutFolder, evaluation: Evaluation, attempts: Attempts) -> Files:
    """The rows and conversations of an evaluation."""
    kept = attempts(evaluation.skill, list(evaluation.scores))
    yield folder.results, result_rows(evaluation, kept)
    for rollout in kept.values():
        yield from conversation_files(folder, rollout)


def result_rows(evaluation: Evaluation, kept: Mapping[str, Rollout]) -> bytes:
    """A row for each attempt; failed ones have no score."""
    rows = [
        _row(task, score, kept.get(task)) | _cause(task, evaluation) | _replicates(task, evaluation)
        for task, score in evaluation.scores.items()
    ]
    rows += [_failed(task, failure) for task, failure in evaluation.failures.items()]
    return b"".join(map(json_row, rows))


def conversation_files(folder: RolloutFolder, rollout: Rollout) -> Files:
    """What was said in an attempt, if it was scored."""
    if rollout.trajectory is None or not isinstance(rollout.outcome, Score):
        return
    prompts, messages = _prompts(rollout.trajectory)
    yield folder.conversation(rollout.task), json_bytes(list(_talk(messages)))
    for role, text in prompts.items():
        yield folder.prompt(rollout.task, role), text.encode(errors="backslashreplace")


def _prompts(trajectory: Trajectory) -> tuple[dict[str, str], Sequence[Message]]:
    """What the target was told first, by role, and what was said after that."""
    prompts: dict[str, str] = {}
    messages = trajectory.messages
    for number, message in enumerate(messages):
        if message.role in prompts or message.role not in {"system", "user"}:
            return prompts, messages[number:]
        prompts[message.role] = message.text
    return prompts, ()


def _talk(messages: Sequence[Message]) -> Iterator[Json]:
    turn = 1
    for message in messages:
        row: Json = {
            "type": "message",
            "turn": turn,
            "role": message.role,
            "content": message.text,
        }
        if message.calls:
            row["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in message.calls
            ]
        if message.answers:
            row["tool_call_id"] = message.answers
        if message.images:
            row["images"] = [image.media_type for image in message.images]
        yield row
        turn += message.role == "assistant"


def _row(task: str, score: Score, rollout: Rollout | None) -> Json:
    row: Json = {"id": task, "hard": score.hard, "soft": score.soft, "agent_ok": True}
    if rollout is None:
        return row
    row["task_type"] = rollout.kind
    row["fail_reason"] = _fail_reason(rollout)
    if rollout.trajectory is not None:
        row["n_turns"] = rollout.trajectory.turns
        row["predicted_answer"] = rollout.trajectory.answer
        row["response"] = _response(rollout.trajectory)
        row |= _ending(rollout.trajectory)
    return row | dict(rollout.details)


def _ending(trajectory: Trajectory) -> Json:
    """How an agent ended and what it left, as far as there is anything to tell."""
    fields: Json = {}
    if trajectory.reached_limit:
        fields["reached_limit"] = trajectory.reached_limit
    if trajectory.exit_status is not None:
        fields["exit_status"] = trajectory.exit_status
    if trajectory.skill_opened is not None:
        fields["skill_opened"] = trajectory.skill_opened
    if trajectory.files:
        fields["files"] = {path: len(content) for path, content in trajectory.files.items()}
    return fields


def _replicates(task: str, evaluation: Evaluation) -> Json:
    """The score of every attempt, where there was more than one."""
    if not evaluation.rounds:
        return {}
    return {"replicates": [marks[task].hard for marks in evaluation.rounds if task in marks]}


def _cause(task: str, evaluation: Evaluation) -> Json:
    """Why an attempt counts as 0, where it failed only with this skill."""
    own = evaluation.own_failures.get(task)
    return {} if own is None else {"agent_ok": False, "error": _error(own)}


def _failed(task: str, failure: Failure) -> Json:
    error = _error(failure)
    return {"id": task, "hard": None, "soft": None, "agent_ok": False, "error": error}


def _error(failure: Failure) -> Json:
    return {"kind": failure.kind, "message": failure.message}


def _response(trajectory: Trajectory) -> str:
    said = [message.text for message in trajectory.messages if message.role == "assistant"]
    return said[-1] if said else ""


def _fail_reason(rollout: Rollout) -> str:
    match rollout.outcome:
        case Score(feedback=feedback) as score if not score.passed:
            return feedback
        case _:
            return ""


def _by_kind(evaluation: Evaluation, kept: Mapping[str, Rollout]) -> Json:
    groups: dict[str, list[float]] = {"overall": []}
    for task, score in evaluation.scores.items():
        groups["overall"].append(score.hard)
        if task in kept:
            groups.setdefault(kept[task].kind, []).append(score.hard)
    return {
        name: {"total": len(marks), "hard_acc": sum(marks) / len(marks) if marks else 0.0}
        for name, marks in groups.items()
    }


def _entry(entry: MemoryEntry) -> Json:
    fields: Json = {
        "step": entry.step,
        "action": entry.action,
        "n_total": entry.n_total,
        "n_fail": entry.n_fail,
        "failure_patterns": [_pattern(pattern) for pattern in entry.patterns],
    }
    if entry.score_before is not None:
        fields["score_before"] = entry.score_before
        fields["score_after"] = entry.score_after
        fields["score_after_is_upper_bound"] = entry.bounded
        kind = "rejected_edits" if entry.action == "reject" else "accepted_edits"
        if entry.undecided:
            kind = "undecided_edits"
        edits = entry.accepted or entry.rejected or entry.undecided
        fields[kind] = [remembered(edit) for edit in edits]
    if entry.rejected_notes:
        fields["rejected_notes"] = list(entry.rejected_notes)
    return fields


def _pattern(pattern: Pattern) -> Json:
    return {"pattern": pattern.name, "count": pattern.count, "task_ids": list(pattern.tasks)}


def _slow_result(fact: EpochClosed, decision: Decision | None, wall: float) -> Json:
    before = [pair.before.hard for pair in fact.pairs if pair.before is not None]
    after = [pair.after.hard for pair in fact.pairs if pair.after is not None]
    result: Json = {
        "epoch": fact.epoch,
        **_slow_action(fact, decision),
        "reasoning": fact.review.guidance_reasoning,
        "slow_update_content": fact.review.guidance,
        "problems": list(fact.review.problems),
        "time_s": round(wall, 3),
        "prev_hard": sum(before) / len(before) if before else None,
        "curr_hard": sum(after) / len(after) if after else None,
        "n_pairs": sum(pair.shown for pair in fact.pairs),
        "n_pairs_all": len(fact.pairs),
        "candidate_hash": None,
        "update_origin": None,
        "update_target": None,
    }
    if fact.size is not None:
        result |= size_json(fact.size)
        if fact.size.too_long:
            result |= {"action": "skip_too_long", "reason": fact.size.problem}
    if decision is not None:
        candidate = decision.candidate
        result |= {
            "candidate_hash": candidate.skill.digest,
            "update_origin": candidate.origin,
            "update_target": _target(decision),
            **decision_json(decision),
        }
    return result


def _slow_action(fact: EpochClosed, decision: Decision | None) -> Json:
    if decision is not None:
        return {"action": decision.action}
    if fact.epoch == 1 and not fact.pairs:
        # Readers of the original's files know the end of the first epoch by this word.
        why = "the first epoch has no earlier skill to compare with; the skill was not changed"
        return {"action": "inject_placeholder", "reason": why}
    return {"action": "no_content"}


def _target(decision: Decision) -> str:
    if not decision.accepted:
        return "none"
    return "current_and_best" if decision.new_best or decision.best else "current"


def _meta_result(fact: EpochClosed, wall: float) -> Json:
    lessons = fact.review.lessons
    if not fact.pairs:
        action = "skip_first_epoch"
    else:
        action = "no_content" if lessons is None else "write_meta_skill"
    return {
        "epoch": fact.epoch,
        "action": action,
        "reasoning": fact.review.lessons_reasoning,
        "meta_skill_content": lessons,
        "time_s": round(wall, 3),
    }


def _pair_files(folder: EpochFolder, fact: EpochClosed, attempts: Attempts) -> Files:
    tasks = [pair.task for pair in fact.pairs]
    old, new = attempts(fact.before, tasks), attempts(fact.after, tasks)
    rows = [
        {
            "id": pair.task,
            "task": _request(old.get(pair.task) or new.get(pair.task)),
            "category": pair.change,
            "prev": _side(pair.before, old.get(pair.task)),
            "curr": _side(pair.after, new.get(pair.task)),
        }
        for pair in fact.pairs
    ]
    shown = [row for row, pair in zip(rows, fact.pairs, strict=True) if pair.shown]
    yield folder.pairs, json_bytes(shown)
    yield folder.all_pairs, json_bytes(rows)
    yield from rollout_files(folder.before, _evaluation(fact.before, fact.pairs, 0), attempts)
    yield from rollout_files(folder.after, _evaluation(fact.after, fact.pairs, 1), attempts)


def _request(rollout: Rollout | None) -> str | None:
    """What the agent was asked; None when the attempt is no longer kept."""
    if rollout is None or rollout.trajectory is None:
        return None
    said = [message.text for message in rollout.trajectory.messages if message.role == "user"]
    return said[0] if said else ""


def _side(score: Score | None, rollout: Rollout | None) -> Json | None:
    if score is None:
        return None
    side: Json = {"hard": score.hard, "soft": score.soft}
    if rollout is not None and rollout.trajectory is not None:
        side["predicted_answer"] = rollout.details.get(
            "predicted_answer", rollout.trajectory.answer
        )
        side["fail_reason"] = _fail_reason(rollout)
    return side


def _evaluation(skill: str, pairs: Sequence[Compared], side: int) -> Evaluation:
    marks = {pair.task: (pair.before, pair.after)[side] for pair in pairs}
    return Evaluation(skill, "train", {task: score for task, score in marks.items() if score})


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
        "rules": [_rule(worth, pruned=worth.rule in fact.cut.rules) for worth in fact.cut.worths],
        "update_origin": fact.move,
        "time_s": round(entry.wall, 3),
        "tokens": stage_tokens(spent),
    }
    if decision is not None:
        result["candidate_hash"] = decision.candidate.skill.digest
        result |= decision_json(decision)
    return result


def _rule(worth: Worth, *, pruned: bool) -> Json:
    return {
        "file": worth.rule.file,
        "line": worth.rule.line,
        "text": worth.rule.text,
        "value": worth.gain,
        "value_interval_95": [round(worth.low, 6), round(worth.high, 6)],
        "n": worth.n,
        "n_changed": worth.changed,
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
    yield folder.result, json_bytes(_rethinking_result(fact, entry, spent))
    if fact.draft.skill is not None:
        yield from skill_files(folder.candidate, fact.draft.skill)
    if fact.decision is not None:
        yield from rollout_files(folder.selection, fact.decision.candidate.evaluation, attempts)


def _rethinking_result(fact: MetaReflected, entry: HistoryEntry, spent: Spent) -> Json:
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
