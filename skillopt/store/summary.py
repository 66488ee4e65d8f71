"""`summary.json`: the results of a run so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from skillopt.core.events import Fact, Stopped
from skillopt.core.facts import EpochClosed, Stepped
from skillopt.core.state import State
from skillopt.store.files import Json
from skillopt.store.receipts import Spent, tokens
from skillopt.store.run_history import HistoryEntry, RunHistory, replies, shares
from skillopt.store.step_files import evaluation_json


@dataclass(frozen=True, slots=True)
class Counts:
    """How many steps there were, and how many of them went which way."""

    steps: int
    accepts: int
    rejects: int
    skips: int
    screened: int
    """Of the skips, those whose candidates gained nothing on the step's own tasks."""


def counts(steps: Sequence[Stepped]) -> Counts:
    """Count what became of steps."""
    actions = [step.action for step in steps]
    return Counts(
        steps=len(actions),
        accepts=sum("accept" in action for action in actions),
        rejects=actions.count("reject"),
        skips=sum(action.startswith("skip") for action in actions),
        screened=actions.count("skip_screened"),
    )


def summary(
    run_history: RunHistory, state: State, spent: Spent, config: Mapping[str, object]
) -> Json:
    """What came out so far. Scores come with the number of items and of failed attempts."""
    facts = [entry.fact for entry in run_history.entries]
    answered = asdict(replies(facts))
    return {
        "version": f"skillopt-{run_history.version}",
        "config": dict(config),
        **evaluation_json("baseline_selection", state.initial.evaluation),
        **evaluation_json("best_selection", state.best.evaluation),
        **evaluation_json("final_selection", state.current.evaluation),
        "best_score": state.best.value,
        "best_step": state.best.step,
        "current_origin": state.current.origin,
        "best_origin": state.best.origin,
        **{f"total_{key}": n for key, n in asdict(counts(run_history.steps)).items()},
        "fruitless_steps": state.memory.fruitless,
        "failures": failures(facts),
        "selection_saved": _saved(facts),
        "race_attempts": sum(
            round_.attempts for step in run_history.steps for round_ in step.rounds
        ),
        "epoch_stats": _epoch_stats(run_history.entries),
        **forced_guidance(run_history.entries),
        "tried": [
            {
                "move": decision.candidate.origin,
                "action": decision.action,
                "edits": fact.edits,
                "gist": fact.gist,
                "score": decision.candidate.value,
                "score_is_upper_bound": decision.bounded,
                "saved": decision.saved,
                "inconclusive": decision.inconclusive,
                "reason": decision.reason,
            }
            for fact in facts
            if (decision := fact.decision) is not None
        ],
        "proposers": {
            share["by"]: {key: value for key, value in share.items() if key != "by"}
            for share in map(asdict, shares(facts))
        },
        "optimizer_replies": {key: value for key, value in answered.items() if value != ""},
        **_final_test_part(state),
        "total_wall_time_s": round(sum(entry.wall for entry in run_history.entries), 3),
        "token_summary": tokens(spent),
    }


def failures(facts: Iterable[Fact]) -> dict[str, int]:
    """How many tasks were left without a score, in all evaluations of each split."""
    counts = {"train": 0, "val": 0, "test": 0}
    for fact in facts:
        for evaluation in fact.evaluations:
            counts[evaluation.split] += len(evaluation.failures)
    return counts


def stopped(note: Stopped | None) -> Json:
    """Why a run has not reached its end, and what the rest would take if a limit was the reason."""
    if note is None:
        return {}
    rest = {"rest": asdict(note.rest)} if note.rest else {}
    return {"stopped": {"reason": note.reason, "at": note.at, **rest}}


def forced_guidance(entries: Iterable[HistoryEntry]) -> Json:
    """What guidance that met no gate did to the score on val; nothing where there was none."""
    updates = [
        {
            "epoch": entry.fact.epoch,
            "current_before": entry.before.current.value,
            "current_after": entry.after.current.value,
            "best_before": entry.before.best.value,
            "best_after": entry.after.best.value,
        }
        for entry in entries
        if isinstance(entry.fact, EpochClosed)
        and entry.fact.decision is not None
        and entry.fact.decision.action == "force_accept"
    ]
    return {"forced_slow_updates": updates} if updates else {}


def _saved(facts: Iterable[Fact]) -> int:
    """Attempts that no decision needed."""
    return sum(fact.decision.saved for fact in facts if fact.decision is not None)


def _final_test_part(state: State) -> Json:
    final_test = state.final_test
    if final_test is None:
        return {}
    return {
        **evaluation_json("baseline_test", final_test.initial),
        **evaluation_json("test", final_test.best),
        **evaluation_json("final_test", final_test.last),
        "test_delta_hard": final_test.best.hard - final_test.initial.hard,
        "final_test_delta_hard": final_test.last.hard - final_test.initial.hard,
    }


def _epoch_stats(entries: Iterable[HistoryEntry]) -> list[Json]:
    steps: dict[int, list[Stepped]] = {}
    ends: dict[int, State] = {}
    for entry in entries:
        if isinstance(fact := entry.fact, Stepped):
            steps.setdefault(fact.epoch, []).append(fact)
        if fact.epoch:
            ends[fact.epoch] = entry.after
    return [
        {
            "epoch": epoch,
            **asdict(counts(steps.get(epoch, []))),
            "steps": [step.step for step in steps.get(epoch, [])],
            "best_score_at_epoch_end": end.best.value,
            "current_score_at_epoch_end": end.current.value,
        }
        for epoch, end in ends.items()
    ]
