"""Duplicates and near duplicates among items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from skillopt.analysis.integrity.findings import (
    CheckFinding,
    Item,
    Verdict,
    few,
    label,
    percent,
)
from skillopt.core.task import Split
from skillopt.core.wording import counted

ALIKE = 0.75
"""Share of common word pairs from which on two briefs are near duplicates."""
_BOILERPLATE = 0.05
"""A pair of words in more than this share of all briefs belongs to a template, not to an item."""
_TOLERABLE = 0.05
"""Share of val or test that may have a near duplicate in train before its score is misleading."""
_SILENT = 0.5
"""With more than this share of briefs repeated within their own split, it is not their text that
makes items differ. Copies in other splits do not count: these are what is looked for."""


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """Two items with almost the same brief."""

    one: Item
    other: Item
    likeness: float
    """1 when not a word differs."""

    @property
    def apart(self) -> bool:
        return self.one.split != self.other.split

    def __str__(self) -> str:
        return f"{self.one} and {self.other} ({percent(self.likeness)} alike)"


def near_duplicates(items: Sequence[Item]) -> list[NearDuplicate]:
    """All pairs of near duplicates, in the order of the items.

    Jaccard over pairs of words, or over words in any order, that no template accounts for; the
    numbers must be alike to the same degree, since the same words with other numbers are another
    task.
    """
    groups = _identical(items)
    found = [pair for group in groups for pair in _identical_pairs(group)]
    # Of identical briefs one stands for all.
    heads = [group[0] for group in groups]
    pairs = {(i, j): value for i, j, value in _alike(_shingles(heads, _words), heads)}
    pairs |= {(i, j): value for i, j, value in _alike(_shingles(heads, _pairs), heads)}
    found += [NearDuplicate(heads[i], heads[j], value) for (i, j), value in pairs.items()]
    place = {item.id: index for index, item in enumerate(items)}
    return sorted(found, key=lambda pair: (place[pair.one.id], place[pair.other.id]))


def duplicates(items: Sequence[Item]) -> list[CheckFinding]:
    """Pairs across splits, then pairs within them."""
    repeated = _repeated(items)
    if repeated > _SILENT * len(items):
        found = f"{repeated:,} of {len(items):,} briefs are not unique within their split: their"
        found += " text does not tell items apart"
        return [CheckFinding("overlap of splits", "left out", found)]
    pairs = near_duplicates(items)
    across = [pair for pair in pairs if pair.apart]
    within = [pair for pair in pairs if not pair.apart]
    return [_across(across, items), _within(within)]


def _across(pairs: Sequence[NearDuplicate], items: Sequence[Item]) -> CheckFinding:
    name, sizes = "overlap of splits", Counter(item.split for item in items)
    if not pairs:
        return CheckFinding(name, "ok", f"no near duplicates across splits, {len(items):,} items")
    same = sum(pair.likeness == 1 for pair in pairs)
    hit: dict[Split, set[str]] = defaultdict(set)
    for pair in pairs:
        for item, twin in ((pair.one, pair.other), (pair.other, pair.one)):
            if item.split != "train" and twin.split == "train":
                hit[item.split].add(item.id)
    worst = max((len(ids) / sizes[split] for split, ids in hit.items()), default=0.0)
    verdict: Verdict = "bad" if same or worst > _TOLERABLE else "look"
    found = f"{counted(len(pairs), 'pair')} across splits, {same:,} of them word for word"
    found += "".join(
        f"; {percent(len(ids) / sizes[split])} of {split} has a near duplicate in train"
        for split, ids in sorted(hit.items())
    )
    advice = "remove one item of each pair: a skill trained on one has seen the other"
    return CheckFinding(name, verdict, found, advice, few([str(pair) for pair in pairs]))


def _within(pairs: Sequence[NearDuplicate]) -> CheckFinding:
    name = "duplicates"
    if not pairs:
        return CheckFinding(name, "ok", "none within a split")
    at_odds = [pair for pair in pairs if pair.likeness == 1 and _differ(pair)]
    found = f"{counted(len(pairs), 'pair')} within splits"
    if at_odds:
        found += f"; {counted(len(at_odds), 'pair')} with the same question but different answers"
        pairs = [*at_odds, *(pair for pair in pairs if pair not in at_odds)]
    advice = "keep one item of each pair: the copies cost calls and count twice"
    return CheckFinding(name, "look", found, advice, few([str(pair) for pair in pairs]))


def _differ(pair: NearDuplicate) -> bool:
    one, other = pair.one.gold, pair.other.gold
    return one is not None and other is not None and label(one) != label(other)


def _identical(items: Sequence[Item]) -> list[list[Item]]:
    groups: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in items:
        groups[item.words or (item.brief,)].append(item)
    return list(groups.values())


def _repeated(items: Sequence[Item]) -> int:
    """Items whose brief another item of the same split has."""
    counts = (Counter(item.split for item in group) for group in _identical(items))
    return sum(count for splits in counts for count in splits.values() if count > 1)


def _identical_pairs(group: Sequence[Item]) -> Iterator[NearDuplicate]:
    """Each item with the first of its kind, in all splits and in its own: no need for all pairs."""
    firsts: dict[Split, Item] = {}
    for item in group:
        known = {id(twin): twin for twin in (group[0], firsts.setdefault(item.split, item))}
        yield from (NearDuplicate(twin, item, 1.0) for twin in known.values() if twin is not item)


_LEAST = 5
"""Words that must tell an item apart before their order may be ignored."""


def _pairs(item: Item) -> set[tuple[str, ...]]:
    return set(pairwise(item.words))


def _words(item: Item) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = {(word,) for word in item.words}
    return found if len(found) >= _LEAST else set()


def _shingles(
    items: Sequence[Item], take: Callable[[Item], set[tuple[str, ...]]]
) -> list[list[tuple[str, ...]]]:
    """What tells each item apart, rarest first."""
    sets = [take(item) for item in items]
    frequency = Counter(pair for pairs in sets for pair in pairs)
    most = max(5, int(_BOILERPLATE * len(items)))
    return [
        sorted(
            (pair for pair in pairs if frequency[pair] <= most),
            key=lambda pair: (frequency[pair], pair),
        )
        for pairs in sets
    ]


def _alike(
    shingles: Sequence[Sequence[tuple[str, ...]]], items: Sequence[Item]
) -> Iterator[tuple[int, int, float]]:
    """Pairs above the threshold, exactly.

    Two sets that are alike share one of their rarest members (prefix filtering), so that only a
    few are compared.
    """
    sets = [set(shingle) for shingle in shingles]
    seen: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index in sorted(range(len(sets)), key=lambda position: len(sets[position])):
        size = len(sets[index])
        rarest = shingles[index][: size - ceil(ALIKE * size) + 1]
        near = {other for pair in rarest for other in seen[pair]}
        for other in near:
            if len(sets[other]) < ALIKE * size:
                continue
            value = _jaccard(sets[index], sets[other])
            least = _LEAST if len(shingles[index][0]) == 1 else 1
            if size < least or value < ALIKE:
                continue
            if _jaccard(_numbers(items[index]), _numbers(items[other])) >= ALIKE:
                yield min(index, other), max(index, other), min(value, 0.99)
        for pair in rarest:
            seen[pair].append(index)


def _numbers(item: Item) -> set[str]:
    return {word for word in item.words if word[0].isdigit()}


def _jaccard(one: Set[object], other: Set[object]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0
