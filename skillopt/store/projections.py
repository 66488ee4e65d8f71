"""The files that each kind of fact leaves in the run directory: names and contents."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.core.events import Begun, Decision, FinalTested
from skillopt.core.facts import (
    Compared,
    EpochClosed,
    HumanReviewed,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.rollout import Evaluation, Rollout, Score
from skillopt.store.kinds import FactKind, Files, Json, Sources
from skillopt.store.receipts import stage_tokens
from skillopt.store.rollout_files import by_kind, fail_reason
from skillopt.store.run_history import HistoryEntry
from skillopt.store.step_files import decision_json, edits_json, size_json, step_files


def baseline_files(fact: Begun, _entry: HistoryEntry, _sources: Sources) -> Files:
    """The initial skill on the validation tasks."""
    yield "selection_eval_baseline", fact.initial.evaluation


def meta_reflection_files(fact: MetaReflected, entry: HistoryEntry, sources: Sources) -> Files:
    """The result, the candidate and how it was measured."""
    root = f"meta_reflect/epoch_{fact.epoch:02d}"
    draft, candidate, decision = fact.draft, fact.draft.leading, fact.decision
    yield (
        f"{root}/meta_reflect_result.json",
        {
            "epoch": fact.epoch,
            "action": fact.action,
            "reasoning": draft.merged.reasoning,
            "edit_budget": draft.budget,
            **edits_json(candidate),
            "n_dropped_repeats": len(draft.repeats),
            "problems": draft.merged.problems,
            "candidate_hash": candidate.skill.digest if candidate.skill else None,
            "update_origin": fact.move,
            "time_s": round(entry.wall, 3),
            "tokens": stage_tokens(sources.spent),
            **size_json(candidate.size),
            **(decision_json(decision) if decision else {}),
        },
    )
    if candidate.skill is not None:
        yield f"{root}/candidate_skill.md", candidate.skill
    if decision is not None:
        yield f"{root}/selection_eval", decision.candidate.evaluation


def pruning_files(fact: Pruned, entry: HistoryEntry, sources: Sources) -> Files:
    """The value of every rule, the candidate and how it was measured."""
    root, decision = f"prune/epoch_{fact.epoch:02d}", fact.decision
    result: Json = {
        "epoch": fact.epoch,
        "action": decision.action if decision else "nothing_to_spare",
        "rules": [
            {
                "file": worth.rule.file,
                "line": worth.rule.line,
                "text": worth.rule.text,
                "value": worth.gain,
                "value_interval_95": [round(worth.low, 6), round(worth.high, 6)],
                "n": worth.n,
                "n_changed": worth.changed,
                "left_out": worth.rule in fact.cut.rules,
            }
            for worth in fact.cut.worths
        ],
        "update_origin": fact.move,
        "time_s": round(entry.wall, 3),
        "tokens": stage_tokens(sources.spent),
    }
    if decision is not None:
        result["candidate_hash"] = decision.candidate.skill.digest
        result |= decision_json(decision)
    yield f"{root}/prune_result.json", result
    if decision is not None:
        yield from _candidate_files(root, decision)


def _candidate_files(root: str, decision: Decision) -> Files:
    yield f"{root}/candidate_skill.md", decision.candidate.skill
    yield f"{root}/selection_eval", decision.candidate.evaluation


def final_test_files(fact: FinalTested, entry: HistoryEntry, sources: Sources) -> Files:
    """The final test, and the last skill on the validation tasks."""
    for measured in entry.after.pool:
        if measured.skill.digest == fact.last.skill:
            yield "final_selection_eval", measured.evaluation
            break
    for folder, evaluation in (
        ("test_eval_baseline", fact.initial),
        ("test_eval", fact.best),
        ("test_eval_final", fact.last),
    ):
        yield folder, evaluation
        rollouts = sources.rollouts(evaluation.skill, list(evaluation.scores))
        yield f"{folder}/summary.json", by_kind(evaluation, rollouts)


def epoch_files(fact: EpochClosed, entry: HistoryEntry, sources: Sources) -> Files:
    """The slow update and the meta skill."""
    name = f"epoch_{fact.epoch:02d}"
    root = f"slow_update/{name}"
    yield f"{root}/slow_result.json", _slow_result(fact, fact.decision, entry.wall)
    yield f"meta_skill/{name}/meta_skill_result.json", _meta_result(fact, entry.wall)
    if fact.pairs:
        rows = _pairs(fact, sources)
        shown = [row for row, pair in zip(rows, fact.pairs, strict=True) if pair.shown]
        yield f"{root}/comparison_pairs.json", shown
        yield f"{root}/comparison_pairs_all.json", rows
        yield f"{root}/rollout_prev", _evaluation(fact.before, fact.pairs, 0)
        yield f"{root}/rollout_curr", _evaluation(fact.after, fact.pairs, 1)
    if fact.decision is not None:
        yield from _candidate_files(root, fact.decision)


def _slow_result(fact: EpochClosed, decision: Decision | None, wall: float) -> Json:
    before = [pair.before.hard for pair in fact.pairs if pair.before is not None]
    after = [pair.after.hard for pair in fact.pairs if pair.after is not None]
    result: Json = {
        "epoch": fact.epoch,
        **_slow_action(fact, decision),
        "reasoning": fact.review.guidance_reasoning,
        "slow_update_content": fact.review.guidance,
        "problems": fact.review.problems,
        "time_s": round(wall, 3),
        "prev_hard": sum(before) / len(before) if before else None,
        "curr_hard": sum(after) / len(after) if after else None,
        "n_pairs": sum(pair.shown for pair in fact.pairs),
        "n_pairs_all": len(fact.pairs),
        "candidate_hash": None,
        "update_origin": None,
        "update_target": None,
    }
    result |= size_json(fact.size)
    if fact.size is not None and fact.size.too_long:
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


def _pairs(fact: EpochClosed, sources: Sources) -> list[Json]:
    tasks = [pair.task for pair in fact.pairs]
    old, new = sources.rollouts(fact.before, tasks), sources.rollouts(fact.after, tasks)
    return [
        {
            "id": pair.task,
            "task": _request(old.get(pair.task) or new.get(pair.task)),
            "category": pair.change,
            "prev": _side(pair.before, old.get(pair.task)),
            "curr": _side(pair.after, new.get(pair.task)),
        }
        for pair in fact.pairs
    ]


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
        side["fail_reason"] = fail_reason(rollout)
    return side


def _evaluation(skill: str, pairs: Sequence[Compared], side: int) -> Evaluation:
    marks = {pair.task: (pair.before, pair.after)[side] for pair in pairs}
    return Evaluation(skill, "train", {task: score for task, score in marks.items() if score})


def review_files(fact: HumanReviewed, entry: HistoryEntry, sources: Sources) -> Files:
    """What a person decided, the skill that this made and how it was measured."""
    root, decision = f"reviews/{fact.move}", fact.decision
    result: Json = {
        "verdict": fact.verdict,
        "about": fact.about,
        "reviewer": fact.reviewer,
        "comment": fact.comment,
        "score_before": entry.before.current.value,
        "score_after": entry.after.current.value,
        "current_origin": entry.after.current.origin,
        "best_origin": entry.after.best.origin,
        "time_s": round(entry.wall, 3),
        "tokens": stage_tokens(sources.spent),
    }
    if decision is not None:
        result |= {"candidate_hash": decision.candidate.skill.digest, **decision_json(decision)}
    yield f"{root}/review.json", result
    if decision is not None:
        yield from _candidate_files(root, decision)


KINDS = (
    FactKind(Begun, baseline_files),
    FactKind(Stepped, step_files),
    FactKind(MetaReflected, meta_reflection_files),
    FactKind(Pruned, pruning_files),
    FactKind(EpochClosed, epoch_files),
    FactKind(FinalTested, final_test_files),
    FactKind(HumanReviewed, review_files),
)
"""The kinds of facts of the training loop, and of reviews by people."""
