"""How the simulated optimizer merges and ranks proposals."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, TypeAdapter, ValidationError

from skillopt.testing.simulator.forms import read_rules
from skillopt.testing.simulator.tasks import FIELDS


class Offer(BaseModel):
    """A proposal as a merge or ranking question lists it."""

    index: int
    op: str = ""
    file: str | None = None
    target: str | None = None
    content: str | None = None
    instruction: str | None = None
    new_skill: str | None = None
    tasks: list[str] = []
    why: str | None = None
    motivation: str | None = None
    support: int = 1
    source: str = "failure"


_OFFERS = TypeAdapter(list[Offer])


def read_offers(text: str) -> list[Offer]:
    """The listed proposals; none when the list cannot be read."""
    try:
        return _OFFERS.validate_json(text)
    except ValidationError:
        return []


def merge(offers: Sequence[Offer]) -> list[tuple[Offer, list[int]]]:
    """Unite proposals that say the same; of contradicting ones keep the better supported.

    Returns each kept proposal with the indices that went into it, widest support first.
    """
    groups: dict[str, list[Offer]] = {}
    for offer in offers:
        groups.setdefault(_meaning(offer), []).append(offer)
    united = sorted(groups.values(), key=lambda group: (-_support(group), group[0].index))
    kept: list[tuple[Offer, list[int]]] = []
    taken: set[str] = set()
    for group in united:
        subjects = _subjects(group[0])
        if subjects & taken:
            continue
        taken |= subjects
        # A replacement says more than an addition: it also removes what stood there.
        best = next((offer for offer in group if offer.op == "replace"), group[0])
        kept.append((best, [offer.index for offer in group]))
    return kept


def rank(offers: Sequence[Offer], budget: int) -> list[int]:
    """The indices worth keeping, by support, failures before successes."""
    order = sorted(offers, key=lambda each: (-each.support, each.source != "failure", each.index))
    return [offer.index for offer in order[:budget]]


def _support(group: Sequence[Offer]) -> int:
    return sum(offer.support for offer in group)


def _meaning(offer: Offer) -> str:
    """Equal for proposals that would teach the same, whatever their words."""
    if offer.op == "delete":
        return f"delete {offer.target}"
    claims = read_rules(offer.content or "", FIELDS).by_field
    if claims:
        return repr(sorted(claims.items()))
    return " ".join((offer.content or "").lower().split())


def _subjects(offer: Offer) -> set[str]:
    return set() if offer.op == "delete" else set(read_rules(offer.content or "", FIELDS).by_field)
