"""Whether a trained skill copies items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skillopt.core.task import Split
from skillopt.evaluation.integrity.findings import CheckFinding, Item, few, many, percent, words

_ROW = 8
"""So many words in a row are copied, not found again."""
_TEMPLATE = 0.02
"""A row of words in more than this share of all briefs is a manner of speaking."""
_TOO_MUCH = 0.25


@dataclass(frozen=True, slots=True)
class Passage:
    """Words in a row that the skill shares with items of one split."""

    text: str
    length: int
    split: Split
    items: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 100 else f"{self.text[:97]}..."
        return f"{self.split} {self.items[0]}: {shown!r}"


def passages(items: Sequence[Item], document: str, before: str = "") -> list[Passage]:
    """Copied rows of words, as long as they get; what stood in `before` is not counted."""
    text, known = words(document), set(_rows(words(before)))
    holders: dict[tuple[str, ...], list[Item]] = {
        row: [] for row in _rows(text) if row not in known
    }
    for item in items:
        for row in set(_rows(item.words)):
            if row in holders:
                holders[row].append(item)
    most = max(2, int(_TEMPLATE * len(items)))
    found: list[Passage] = []
    taken_from: dict[Split, list[int]] = defaultdict(list)
    for start, row in enumerate(_rows(text)):
        holding = holders.get(row, ())
        if holding and len(holding) <= most:
            # What the optimizer has seen in train it did not take from elsewhere.
            splits = {item.split for item in holding}
            taken_from["train" if "train" in splits else holding[0].split].append(start)
    for split, starts in taken_from.items():
        for first, last in _stretches(starts):
            ids = Counter(
                item.id
                for start in range(first, last + 1)
                for item in holders[tuple(text[start : start + _ROW])]
                if item.split == split
            )
            piece = text[first : last + _ROW]
            names = tuple(name for name, _ in ids.most_common())
            found.append(Passage(" ".join(piece), len(piece), split, names))
    return found


def copying(items: Sequence[Item], document: str, before: str = "") -> CheckFinding:
    """Copied passages of a skill, and how much of it they make up."""
    name = "copied phrases"
    found = passages(items, document, before)
    if not found:
        return CheckFinding(name, "ok", f"the skill has no {_ROW} consecutive words of any item")
    share = sum(each.length for each in found) / max(1, len(words(document)))
    sealed = [each for each in found if each.split != "train"]
    told = f"{many(len(found), 'passage')} of {_ROW} words or more, "
    told += f"{percent(min(1.0, share))} of the skill"
    if sealed:
        advice = "training never shows val or test items to the optimizer: find the leak"
        shown = few([str(each) for each in sealed])
        return CheckFinding(name, "bad", f"{told}; {len(sealed)} from val or test", advice, shown)
    advice = "replace these examples by a general rule: the skill memorises training items"
    verdict = "bad" if share > _TOO_MUCH else "look"
    return CheckFinding(name, verdict, told, advice, few([str(each) for each in found]))


def _rows(text: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(text) - _ROW + 1):
        yield tuple(text[start : start + _ROW])


def _stretches(starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as stretches without a gap."""
    first = last = starts[0]
    for start in starts[1:]:
        if start > last + 1:
            yield first, last
            first = start
        last = start
    yield first, last
