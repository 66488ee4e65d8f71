"""Whether a gate that tests could accept any candidate, before an attempt is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.ports import Gate
from skillopt.core.rollout import Evaluation, Score
from skillopt.engine.hearing import Replication


def out_of_reach(
    gate: Gate, replication: Replication, tasks: Sequence[str], incumbent: Measured, level: float
) -> GateVerdict | None:
    """The verdict against every candidate at this level; None: one could be accepted.

    The gate judges the best that can happen: a candidate with full marks in all attempts that it
    may get, against an incumbent that fails in all that are still to be bought. It depends on the
    incumbent alone, so a decision that is out of reach cannot accept anything by luck.
    """
    if not gate.alpha:
        return None
    known = incumbent.evaluation
    rounds = [*_worst(known, replication.replicates), *_bought(known, replication, tasks)]
    least = Evaluation.over(known.skill, "val", rounds, {})
    full = dict.fromkeys(tasks, Score(1, 1))
    most = Evaluation.over("", "val", [full] * len(rounds), {})
    best = gate.judge(
        replace(incumbent, evaluation=most), replace(incumbent, evaluation=least), level=level
    )
    if best.finding == "better":
        return None
    return GateVerdict(best.finding, f"no candidate can be accepted: at best {best.reason}")


def _worst(known: Evaluation, replicates: int) -> list[Mapping[str, Score]]:
    """The attempts that are there, each the worst at its task.

    A candidate that loses an attempt to a failure is compared with the incumbent's others.
    """
    first = known.replicates[:replicates]
    marks: dict[str, list[Score]] = {}
    for each in first:
        for task, score in each.items():
            marks.setdefault(task, []).append(score)
    worst = {
        task: Score(min(each.hard for each in some), min(each.soft for each in some))
        for task, some in marks.items()
    }
    return [worst] * len(first)


def _bought(
    known: Evaluation, replication: Replication, tasks: Sequence[str]
) -> list[Mapping[str, Score]]:
    """The further attempts that may be bought: those that are there, and failures."""
    failed = dict.fromkeys(tasks, Score(0, 0))
    numbers = range(replication.replicates, replication.most)
    have = known.replicates
    return [{**failed, **(have[n] if n < len(have) else {})} for n in numbers]
