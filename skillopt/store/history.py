"""Step records, the runtime state and the summary, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from skillopt.core.chat import Usage
from skillopt.core.events import (
    Batch,
    Begun,
    Decision,
    EpochClosed,
    Examined,
    Fact,
    MetaReflected,
    Pruned,
    Stepped,
    Stopped,
)
from skillopt.core.proposal import Finding, Rate, Size
from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.store.ahead import Ahead
from skillopt.store.candidates import tried
from skillopt.store.chronicle import Chapter, Chronicle

Json: TypeAlias = dict[str, object]
Spent: TypeAlias = Mapping[tuple[str, str, str], Usage]

PHASES = ("rollout", "reflect", "aggregate", "select", "update", "evaluate")


def history(chronicle: Chronicle, spent: Spent, config: Mapping[str, object]) -> list[Json]:
    """The records of all steps."""
    return [
        step_record(chapter.fact, chapter, spent, config)
        for chapter in chronicle.chapters
        if isinstance(chapter.fact, Stepped)
    ]


def step_record(
    fact: Stepped, chapter: Chapter, spent: Spent, config: Mapping[str, object]
) -> Json:
    """Everything about a step in numbers; what a skipped step did not reach is absent."""
    after = chapter.after
    return {
        "step": fact.step,
        "epoch": fact.epoch,
        "step_in_epoch": fact.in_epoch,
        "action": fact.action,
        "timing": {f"{name}_s": round(chapter.seconds.get(name, 0.0), 3) for name in PHASES},
        "tokens": tokens(spent, fact.move),
        **_rollout_part(fact),
        **_draft_part(fact, config),
        **_race_part(fact),
        **(_gate_part(fact.decision, config) if fact.decision else {}),
        **_notes_part(fact, after),
        "current_score": after.current.value,
        "best_score": after.best.value,
        "best_step": after.best.step,
        "current_origin": after.current.origin,
        "best_origin": after.best.origin,
        "skill_len": len(after.current.skill.render()),
        "wall_time_s": round(chapter.wall, 3),
    }


def rate_json(rate: Rate) -> Json:
    """A decision on the learning rate."""
    told: Json = {
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
        told["volatility"] = rate.volatility
    if rate.problem:
        told["error"] = rate.problem
    return told


def size_json(size: Size) -> Json:
    """Growth of the skill in estimated tokens."""
    told: Json = {
        "skill_tokens_before": size.before,
        "skill_tokens_after": size.after,
        "skill_tokens_added": size.added,
    }
    if size.after != size.drafted:
        told["skill_tokens_drafted"] = size.drafted
    if size.limit:
        told["max_skill_tokens"] = size.limit
    return told


def rates(chronicle: Chronicle) -> list[Json]:
    """Every decision on the learning rate so far."""
    return [
        {"step": step.step, "epoch": step.epoch, **rate_json(step.draft.rate)}
        for step in chronicle.steps
        if step.draft.rate is not None
    ]


def runtime_state(chronicle: Chronicle, state: State, current: str, best: str) -> Json:
    """Where the run stands; paths are relative to the run directory."""
    return {
        "last_completed_step": chronicle.last_step,
        "current_skill_path": current,
        "current_score": state.current.value,
        "current_origin": state.current.origin,
        "best_skill_path": best,
        "best_score": state.best.value,
        "best_step": state.best.step,
        "best_origin": state.best.origin,
    }


def summary(chronicle: Chronicle, state: State, spent: Spent, config: Mapping[str, object]) -> Json:
    """What came out so far. Scores come with the number of items and of failed attempts."""
    return {
        "version": f"skillopt-{chronicle.version}",
        "config": dict(config),
        **_measured("baseline_selection", state.initial.evaluation),
        **_measured("best_selection", state.best.evaluation),
        **_measured("final_selection", state.current.evaluation),
        "best_score": state.best.value,
        "best_step": state.best.step,
        "current_origin": state.current.origin,
        "best_origin": state.best.origin,
        **_counts("total_", chronicle.steps),
        "failures": failures(each.fact for each in chronicle.chapters),
        "selection_saved": _saved(chronicle.chapters),
        "race_attempts": sum(heat.attempts for step in chronicle.steps for heat in step.heats),
        "epoch_stats": _epoch_stats(chronicle.chapters),
        "tried": [
            {
                "move": each.move,
                "action": each.action,
                "edits": each.edits,
                "gist": each.gist,
                "score": each.decision.candidate.value,
                "saved": each.decision.saved,
                "inconclusive": each.decision.inconclusive,
                "reason": each.decision.reason,
            }
            for each in tried(each.fact for each in chronicle.chapters)
        ],
        **_exam_part(state),
        "total_wall_time_s": round(sum(each.wall for each in chronicle.chapters), 3),
        "token_summary": tokens(spent),
    }


def failures(facts: Iterable[Fact]) -> dict[str, int]:
    """How many tasks were left without a score, in all evaluations of each split."""
    counts = {"train": 0, "val": 0, "test": 0}
    for fact in facts:
        for each in _evaluations(fact):
            counts[each.split] += len(each.failures)
    return counts


def _evaluations(fact: Fact) -> Iterator[Evaluation]:
    """What a fact newly measured; the same skill is not examined twice."""
    match fact:
        case Begun(initial):
            yield initial.evaluation
        case Examined(initial=initial, best=best, last=last):
            yield from {each.skill: each for each in (initial, best, last)}.values()
        case _:
            if isinstance(fact, Stepped):
                yield from (batch.evaluation for batch in fact.batches)
            if fact.decision is not None:
                yield fact.decision.candidate.evaluation


def stopped(note: Stopped | None) -> Json:
    """Why a run has not reached its end, and what the rest would take if a limit was the reason."""
    if note is None:
        return {}
    told: Json = {"reason": note.reason, "at": note.at}
    if note.rest is not None:
        told["rest"] = {
            "calls": list(note.rest.calls),
            "tokens": list(note.rest.tokens),
            "dollars": None if note.rest.dollars is None else list(note.rest.dollars),
        }
    return {"stopped": told}


def tokens(spent: Spent, move: str | None = None) -> Json:
    """Usage by stage, of one move or of all, and its total."""
    stages: dict[str, Usage] = {}
    for (of, _, stage), usage in sorted(spent.items()):
        if move in (None, of):
            stages[stage] = stages.get(stage, Usage()) + usage
    stages = {name: stages[name] for name in sorted(stages)}
    total = sum(stages.values(), Usage())
    return {name: _usage(usage) for name, usage in [*stages.items(), ("_total", total)]}


def receipt(spent: Spent, prices: Mapping[str, str | None] | None = None) -> Json:
    """Usage by role and stage, each role's total, and all together.

    Dollars are null where nobody knows what a role costs; `unpriced` then names these roles.
    """
    roles: dict[str, dict[str, Usage]] = {}
    for (_, role, stage), usage in sorted(spent.items(), key=lambda each: each[0][1:]):
        stages = roles.setdefault(role, {})
        stages[stage] = stages.get(stage, Usage()) + usage
    totals = {role: sum(stages.values(), Usage()) for role, stages in roles.items()}
    unknown = unpriced(totals, prices or {})
    told: Json = {
        role: {
            **{stage: _usage(usage, priced=role not in unknown) for stage, usage in stages.items()},
            "_total": _usage(totals[role], priced=role not in unknown),
        }
        for role, stages in roles.items()
    }
    told["_total"] = _usage(sum(totals.values(), Usage()), priced=not unknown)
    return told | ({"unpriced": unknown} if unknown else {})


def unpriced(totals: Mapping[str, Usage], prices: Mapping[str, str | None]) -> list[str]:
    """The roles that cost nobody knows what; a model may have told of itself, though."""
    return [
        role
        for role, usage in totals.items()
        if usage.calls and not usage.dollars and prices.get(role, "") is None
    ]


def speculation(ahead: Ahead, prices: Mapping[str, str | None]) -> Json:
    """Attempts made before they were needed, if any, and what those took that never were."""
    if not ahead.attempts:
        return {}
    priced = not unpriced({"target": ahead.waste}, prices)
    unused = {"attempts": ahead.unused, **_usage(ahead.waste, priced=priced)}
    return {"speculation": {"attempts": ahead.attempts, "unused": unused}}


def _usage(usage: Usage, *, priced: bool = True) -> Json:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cached,
        "dollars": round(usage.dollars, 6) if priced else None,
        **({"estimated_calls": usage.estimated} if usage.estimated else {}),
    }


def _rollout_part(fact: Stepped) -> Json:
    batches = [each.evaluation for each in fact.batches]
    scores = [score for each in batches for score in each.scores.values()]
    useful = _useful(fact.draft.findings)
    return {
        "rollout_hard": _mean(score.hard for score in scores),
        "rollout_soft": _mean(score.soft for score in scores),
        "rollout_n": len(scores),
        "rollout_failures": sum(len(each.failures) for each in batches),
        "accumulation_batches": [
            _batch(index, batch, useful) for index, batch in enumerate(fact.batches)
        ],
        "n_patches": len(useful),
        "n_failure_patches": sum(each.source == "failure" for each in useful),
        "n_success_patches": sum(each.source == "success" for each in useful),
    }


def _batch(index: int, batch: Batch, useful: Sequence[Finding]) -> Json:
    own = [each.source for each in useful if each.batch == index]
    return {
        "batch_idx": index,
        "n_envs": len(batch.tasks),
        "hard": batch.evaluation.hard,
        "soft": batch.evaluation.soft,
        "n_failure_patches": own.count("failure"),
        "n_success_patches": own.count("success"),
    }


def _draft_part(fact: Stepped, config: Mapping[str, object]) -> Json:
    draft = fact.draft
    rewritten = draft.rewritten
    told = (
        [each.problem for each in draft.findings],
        [probe.problem for each in draft.findings for probe in each.probes],
        draft.merged.problems,
        [
            draft.rate.problem if draft.rate else "",
            draft.chosen.problem,
            rewritten.problem if rewritten else "",
            draft.appendix.problem if draft.appendix else "",
            draft.size.problem if draft.size else "",
        ],
    )
    part: Json = {
        "edit_budget": draft.budget,
        "lr_control_mode": config.get("lr_control_mode"),
        "problems": [text for some in told for text in some if text],
        "n_dropped_repeats": len(draft.repeats),
    }
    if draft.rate is not None:
        part["lr_decision"] = rate_json(draft.rate)
    if fact.action == "skip_no_patches":
        return part
    applied = sum(each.applied for each in draft.report)
    part |= {
        "n_edits_merged": len(draft.merged.proposals),
        "n_edits_ranked": len(draft.chosen.proposals),
        "support_counts": [each.support for each in draft.chosen.proposals],
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


def _race_part(fact: Stepped) -> Json:
    """What is told only where there were several candidates, or another parent."""
    part: Json = {"parent_origin": fact.parent} if fact.parent else {}
    if fact.heats:
        part |= {
            "n_candidates": len(fact.draft.takes),
            "candidate_name": fact.draft.name,
            "race_attempts": sum(each.attempts for each in fact.heats),
        }
    return part


def _gate_part(decision: Decision, config: Mapping[str, object]) -> Json:
    return {
        **_measured("selection", decision.candidate.evaluation),
        "selection_saved": decision.saved,
        "gate_metric": config.get("gate_metric"),
        "candidate_gate_score": decision.candidate.value,
        "inconclusive": decision.inconclusive,
        "gate_level": decision.level,
        "reason": decision.reason,
    }


def _notes_part(fact: Stepped, after: State) -> Json:
    """Reminders in numbers; those of a rejected candidate were not added to anything."""
    appendix = fact.draft.appendix
    if appendix is None:
        return {}
    kept = fact.decision is not None and fact.decision.accepted
    return {
        "n_execution_lapse_notes": sum(len(each.notes) for each in fact.draft.findings),
        "n_appendix_notes_added": len(appendix.added) if kept else 0,
        "n_appendix_notes_total": len(after.current.skill.notes),
        "n_appendix_notes_consolidated": appendix.consolidated if kept else 0,
    }


def _measured(name: str, evaluation: Evaluation) -> Json:
    return {
        f"{name}_hard": evaluation.hard,
        f"{name}_soft": evaluation.soft,
        f"{name}_n": evaluation.n,
        f"{name}_failures": len(evaluation.failures),
        **({f"{name}_replicates": len(evaluation.rounds)} if evaluation.rounds else {}),
    }


def _saved(chapters: Iterable[Chapter]) -> int:
    """Attempts that no decision needed."""
    facts = [each.fact for each in chapters]
    decisions = [
        each.decision
        for each in facts
        if isinstance(each, Stepped | MetaReflected | Pruned | EpochClosed)
    ]
    return sum(each.saved for each in decisions if each is not None)


def _exam_part(state: State) -> Json:
    exam = state.exam
    if exam is None:
        return {}
    return {
        **_measured("baseline_test", exam.initial),
        **_measured("test", exam.best),
        **_measured("final_test", exam.last),
        "test_delta_hard": exam.best.hard - exam.initial.hard,
        "final_test_delta_hard": exam.last.hard - exam.initial.hard,
    }


def _epoch_stats(chapters: Iterable[Chapter]) -> list[Json]:
    steps: dict[int, list[Stepped]] = {}
    ends: dict[int, State] = {}
    for chapter in chapters:
        match chapter.fact:
            case Stepped(epoch=epoch) as step:
                steps.setdefault(epoch, []).append(step)
                ends[epoch] = chapter.after
            case EpochClosed(epoch=epoch) | MetaReflected(epoch=epoch) | Pruned(epoch=epoch):
                ends[epoch] = chapter.after
            case _:
                pass
    return [
        {
            "epoch": epoch,
            **_counts("", steps.get(epoch, [])),
            "best_score_at_epoch_end": end.best.value,
            "current_score_at_epoch_end": end.current.value,
        }
        for epoch, end in ends.items()
    ]


def _counts(prefix: str, steps: Sequence[Stepped]) -> Json:
    actions = [step.action for step in steps]
    return {
        f"{prefix}steps": len(actions),
        f"{prefix}accepts": sum("accept" in action for action in actions),
        f"{prefix}rejects": actions.count("reject"),
        f"{prefix}skips": sum(action.startswith("skip") for action in actions),
    }


def _useful(findings: Iterable[Finding]) -> list[Finding]:
    return [each for each in findings if each.proposals]


def _mean(values: Iterable[float]) -> float:
    kept = list(values)
    return sum(kept) / len(kept) if kept else 0.0
