"""What a run has spent, as data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TypeAlias

from skillopt.core.chat import Usage
from skillopt.store.files import Json
from skillopt.store.ledger import PrefetchCount

Spent: TypeAlias = Mapping[tuple[str, str, str], Usage]
"""By move, role and stage."""


def by_role(spent: Spent) -> dict[str, dict[str, Usage]]:
    """Usage by role and stage, of all moves together, in the order of their names."""
    roles: dict[str, dict[str, Usage]] = {}
    for (_, role, stage), usage in sorted(spent.items(), key=lambda item: item[0][1:]):
        stages = roles.setdefault(role, {})
        stages[stage] = stages.get(stage, Usage()) + usage
    return roles


def tokens(spent: Spent) -> Json:
    """Usage by stage, of all moves, and its total."""
    return stage_tokens(spent) | {"_total": _usage(sum(spent.values(), Usage()))}


def by_move(spent: Spent) -> dict[str, Spent]:
    """The same for each move."""
    moves: dict[str, dict[tuple[str, str, str], Usage]] = {}
    for place, usage in spent.items():
        moves.setdefault(place[0], {})[place] = usage
    return dict(moves)


def stage_tokens(spent: Spent) -> Json:
    """Usage by stage; the sum over stages is the total."""
    stages: dict[str, Usage] = {}
    for (_, _, stage), usage in sorted(spent.items(), key=itemgetter(0)):
        stages[stage] = stages.get(stage, Usage()) + usage
    return {name: _usage(stages[name]) for name in sorted(stages)}


def receipt(spent: Spent, prices: Mapping[str, str | None] | None = None) -> Json:
    """Usage by role and stage, each role's total, and all together.

    Dollars are null where nobody knows what a role costs; `unpriced` then names these roles.
    """
    roles = by_role(spent)
    totals = {role: sum(stages.values(), Usage()) for role, stages in roles.items()}
    unknown = unpriced(totals, prices or {})
    roles_json: Json = {
        role: {
            **{stage: _usage(usage, priced=role not in unknown) for stage, usage in stages.items()},
            "_total": _usage(totals[role], priced=role not in unknown),
        }
        for role, stages in roles.items()
    }
    roles_json["_total"] = _usage(sum(totals.values(), Usage()), priced=not unknown)
    return roles_json | ({"unpriced": unknown} if unknown else {})


def unpriced(totals: Mapping[str, Usage], prices: Mapping[str, str | None]) -> list[str]:
    """The roles that cost nobody knows what; a model may have told of itself, though."""
    return [
        role
        for role, usage in totals.items()
        if usage.calls and not usage.dollars and prices.get(role, "") is None
    ]


def prefetch_receipt(ahead: PrefetchCount, prices: Mapping[str, str | None]) -> Json:
    """Attempts made before they were needed, if any, and what those took that never were."""
    if not ahead.attempts:
        return {}
    priced = not unpriced({"target": ahead.waste}, prices)
    unused = {"attempts": ahead.unused, **_usage(ahead.waste, priced=priced)}
    return {"speculation": {"attempts": ahead.attempts, "unused": unused}}


def interrupted(usage: Usage) -> Json:
    """Calls under way when a process was killed or stopped, if any, at their worst case."""
    return {"interrupted_calls": _usage(usage)} if usage.calls else {}


def _usage(usage: Usage, *, priced: bool = True) -> Json:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "cached_tokens": usage.cached,
        "dollars": round(usage.dollars, 6) if priced else None,
        **({"estimated_calls": usage.estimated} if usage.estimated else {}),
    }
