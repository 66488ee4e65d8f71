"""Answers and whole phrases of items that stand where the agent can read them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from skillopt.analysis.integrity.findings import (
    CheckFinding,
    Item,
    Verdict,
    few,
    label,
    percent,
    spoken,
    words,
)
from skillopt.core.task import Gold, Split
from skillopt.core.wording import counted

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
    share = sum(passage.length for passage in found) / max(1, len(words(document)))
    sealed = [passage for passage in found if passage.split != "train"]
    amount = f"{counted(len(found), 'passage')} of {_ROW} words or more, "
    amount += f"{percent(min(1.0, share))} of the skill"
    if sealed:
        advice = "training never shows val or test items to the optimizer: find the leak"
        shown = few([str(passage) for passage in sealed])
        return CheckFinding(name, "bad", f"{amount}; {len(sealed)} from val or test", advice, shown)
    advice = "replace these examples by a general rule: the skill memorises training items"
    verdict = "bad" if share > _TOO_MUCH else "look"
    return CheckFinding(name, verdict, amount, advice, few([str(passage) for passage in found]))


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


_TOLD = re.compile(
    r"\b(?:answer|solution|gold|label|correct|expected|target|reference)[\w ]{0,20}"
    r"[\"'*_`]*\s*(?::|=|\bis\b)\s*(.+?)\s*$",
    re.IGNORECASE,
)
_ABOVE_LUCK = 0.05
_STRIKING, _STRIKING_BESIDE_OPTIONS = 0.2, 0.1
_OFFSETS = (1, 7, 31)
_LETTERS, _DIGITS = 6, 4
_COMMON = 0.02
_MANY, _MOST = 3, 0.05
_SHARED = 6


def brief_leaks(items: Sequence[Item]) -> CheckFinding:
    """How often a brief tells its own answer, compared with telling that of another item."""
    name = "gold in the brief"
    known = [item for item in items if item.gold is not None]
    stated, by_luck = _rates(known, _tells)
    there, anyway = _rates(known, _holds)
    found = f"{percent(there)} of {len(known):,} briefs hold their answer ({percent(anyway)} hold "
    found += "another's)"
    if stated > by_luck:
        found += f"; {percent(stated)} state it explicitly, as in 'answer: ...'"
        shown = few([str(item) for item in known if item.gold and _tells(item, item.gold)])
        advice = "take the answer out of the columns that env.template or env.input shows"
        verdict: Verdict = "bad" if stated - by_luck >= _ABOVE_LUCK else "look"
        return CheckFinding(name, verdict, found, advice, shown)
    if all(item.gold and item.gold.quoted for item in known):
        return CheckFinding(
            name, "ok", f"{found}; expected, because the task is to find it in a text"
        )
    choosing = any(item.gold and item.gold.options for item in known)
    if there - anyway >= (_STRIKING_BESIDE_OPTIONS if choosing else _STRIKING):
        advice = "expected if the task is to find the answer in the text shown; otherwise a leak"
        shown = few([str(item) for item in known if item.gold and _holds(item, item.gold)])
        return CheckFinding(
            name, "look", f"{found}{' beside the options' * choosing}", advice, shown
        )
    return CheckFinding(name, "ok", found)


def _rates(items: Sequence[Item], test: Callable[[Item, Gold], bool]) -> tuple[float, float]:
    """How often the test holds for an item's own answer, and for those of others."""
    golds = [item.gold for item in items if item.gold is not None]
    own = fmean(test(item, gold) for item, gold in zip(items, golds, strict=True))
    others = [
        test(item, other)
        for offset in _OFFSETS
        for index, item in enumerate(items)
        if label(other := golds[(index + offset) % len(golds)]) != label(golds[index])
    ]
    return own, fmean(others) if others else 0.0


def _tells(item: Item, gold: Gold) -> bool:
    """Whether a line announces an answer, and it is this one."""
    accepted = {words(answer) for answer in (*gold.answers, label(gold))} - {()}
    lines = (_TOLD.search(line) for line in item.brief.splitlines())
    return any(line is not None and words(line[1]) in accepted for line in lines)


def _holds(item: Item, gold: Gold) -> bool:
    text = f" {' '.join(item.words)} "
    for option in item.gold.options if item.gold else ():
        text = text.replace(spoken(option), " | ", 1)
    return any(answer in text for answer in map(spoken, gold.answers) if answer.strip())


def skill_leaks(
    items: Sequence[Item], document: str, *, name: str, before: str = ""
) -> CheckFinding:
    """Answers in a text that is shown with every item; those of `before` are not counted."""
    text, old = spoken(document), spoken(before)
    telling = _telling(items)
    if not telling:
        return CheckFinding(name, "left out", "the answers are too common to recognise in a text")
    hits = [
        item
        for item, answers in telling
        if any(answer in text and answer not in old for answer in answers)
    ]
    found = f"{len(hits):,} of {len(telling):,} distinctive answers occur in it"
    if not hits:
        return CheckFinding(name, "ok", found)
    asked = [item for item in hits if _quotes(text, item)]
    many = len(hits) >= _MANY and len(hits) > _MOST * len(telling)
    if asked:
        found += f"; {len(asked):,} next to words of their own question"
    advice = "review these passages: a skill should explain how to find answers, not contain them"
    shown = few([f"{item}: {item.gold.answers[0]!r}" for item in asked or hits if item.gold])
    return CheckFinding(name, "bad" if asked or many else "look", found, advice, shown)


def _telling(items: Sequence[Item]) -> list[tuple[Item, list[str]]]:
    """Items whose answers are long and rare enough not to stand somewhere by chance."""
    counts = Counter(label(item.gold) for item in items if item.gold)
    most = max(1, int(_COMMON * len(items)))
    found: list[tuple[Item, list[str]]] = []
    for item in items:
        gold = item.gold
        if gold is None or (counts[label(gold)] > most and gold.right is None):
            continue
        answers = [spoken(answer) for answer in gold.answers if _long(words(answer))]
        if answers:
            found.append((item, answers))
    return found


def _long(answer: Sequence[str]) -> bool:
    text = "".join(answer)
    return len(text) >= (_DIGITS if text.isdigit() else _LETTERS)


def _quotes(text: str, item: Item) -> bool:
    grams = (item.words[k : k + _SHARED] for k in range(len(item.words) - _SHARED + 1))
    return any(f" {' '.join(gram)} " in text for gram in grams)
