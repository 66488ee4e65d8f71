"""The files of a review."""

from __future__ import annotations

from extension.review import Reviewed

from skillopt.store.kinds import FactKind, Files, Sources
from skillopt.store.run_history import HistoryEntry


def review_files(fact: Reviewed, entry: HistoryEntry, sources: Sources) -> Files:
    root = f"reviews/epoch_{fact.epoch:02d}"
    yield (
        f"{root}/review.json",
        {
            "reviewer": fact.reviewer,
            "remarks": {remark.line: remark.text for remark in fact.remarks},
            "score_before": entry.before.current.value,
            "score_after": entry.after.current.value,
            "calls": sum(usage.calls for usage in sources.spent.values()),
        },
    )
    yield f"{root}/skill.md", entry.after.current.skill
    if fact.decision is not None:
        yield f"{root}/selection_eval", fact.decision.candidate.evaluation


KIND = FactKind(Reviewed, review_files)
