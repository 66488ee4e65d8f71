"""Whether one surface feature of an item gives its answer away."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from skillopt.analysis.integrity.findings import (
    CheckFinding,
    Item,
    closed,
    drawn,
    label,
    luck,
    percent,
    spoken,
    words,
)
from skillopt.core.task import Gold

ALONE = 0.95
"""How often a cue must be right to spoil the data."""
COVERS = 0.05
"""Share of items that a cue must decide before it spoils the data."""
BY_LUCK = 0.001
"""Probability, over all cues that were tried, from which luck does not explain one."""
_OFTEN = 0.5
_SHARED = 0.5
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]+)[\"\u201d]")


@dataclass(frozen=True, slots=True)
class Cue:
    """One surface feature and what following it comes to."""

    says: str
    hits: int
    where: frozenset[int]
    """The items that have the feature, by index."""
    score: float
    """Of following the cue where it is there, and guessing elsewhere."""
    base: float
    """Of guessing everywhere."""
    giveaway: bool
    """Whether it decides so much that it must not be there."""
    word: str = ""
    """The word or two of the brief, where it goes by these."""
    answer: str = ""
    """The label that goes with them."""

    @property
    def support(self) -> int:
        return len(self.where)

    @property
    def precision(self) -> float:
        """How often it is right where it is there."""
        return self.hits / self.support


def strongest(cues: Iterable[Cue]) -> list[Cue]:
    """The best first; of cues on mostly the same items only the best."""
    kept: list[Cue] = []
    for cue in sorted(cues, key=lambda cue: (-cue.score, -len(cue.says), cue.says)):
        if not any(len(cue.where & better.where) > _SHARED * cue.support for better in kept):
            kept.append(cue)
    return kept


def spans(items: Sequence[Item]) -> list[Cue]:
    """For open answers: places of the brief that hold the answer and nothing else."""
    found: list[Cue] = []
    golds = [_accepted(item) for item in items]
    most = max(Counter(answer for gold in golds for answer in gold).values(), default=0) / len(
        items
    )
    for says, take in _PLACES.items():
        taken = [words(take(item.brief)) for item in items]
        where = frozenset(index for index, place in enumerate(taken) if place)
        hits = sum(taken[index] in golds[index] for index in where)
        score = hits / len(items)
        accident = luck(hits, len(where), most) * len(_PLACES)
        always = len(where) >= COVERS * len(items) and hits >= ALONE * len(where)
        if score >= _OFTEN or (always and accident <= BY_LUCK):
            found.append(Cue(f"{says} is the answer", hits, where, score, 0.0, giveaway=True))
    return found


def _accepted(item: Item) -> set[tuple[str, ...]]:
    return {words(answer) for answer in item.gold.answers} if item.gold else set()


def _nth(found: Sequence[str], index: int) -> str:
    return found[index] if found else ""


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _largest(text: str) -> str:
    return max(_numbers(text), key=lambda number: float(number.replace(",", "")), default="")


_PLACES: dict[str, Callable[[str], str]] = {
    "the first word": lambda text: _nth(text.split(), 0),
    "the last word": lambda text: _nth(text.split(), -1),
    "the first line": lambda text: _nth(text.strip().splitlines(), 0),
    "the last line": lambda text: _nth(text.strip().splitlines(), -1),
    "the first number": lambda text: _nth(_numbers(text), 0),
    "the last number": lambda text: _nth(_numbers(text), -1),
    "the largest number": _largest,
    "the first quotation": lambda text: _nth(_QUOTED.findall(text), 0),
    "the last quotation": lambda text: _nth(_QUOTED.findall(text), -1),
}


Phrase = tuple[str, ...]

_LONGEST_PHRASE = 2
_RARE = 0.02
_RARELY = 5
_SURE = 0.9


def frequent(
    texts: Sequence[Sequence[str]], n: int, *, longest: int
) -> Mapping[Phrase, Sequence[int]]:
    """Phrases of up to `longest` words, each with the texts that hold it.

    Those in fewer than 2 % of `n` texts are left out. Longer ones are grown from shorter ones, so
    that only few are ever counted.
    """
    least = max(_RARELY, int(_RARE * n))
    found: dict[Phrase, list[int]] = {}
    for size in range(1, longest + 1):
        level: dict[Phrase, list[int]] = defaultdict(list)
        for index, text in enumerate(texts):
            grams = {tuple(text[start : start + size]) for start in range(len(text) - size + 1)}
            for gram in grams:
                if size == 1 or (gram[1:] in found and gram[:-1] in found):
                    level[gram].append(index)
        grown = {gram: where for gram, where in level.items() if len(where) >= least}
        if not grown:
            break
        found |= grown
    return found


def label_cues(items: Sequence[Item]) -> list[Cue]:
    """Phrases of the brief that nearly settle which label is right."""
    labels = [label(item.gold) if item.gold else "" for item in items]
    totals, n = Counter(labels), len(items)
    base = max(totals.values()) / n
    phrases = frequent([item.words for item in items], n, longest=_LONGEST_PHRASE)
    found: list[Cue] = []
    for phrase, where in phrases.items():
        inside = Counter(labels[index] for index in where)
        outside = totals - inside
        named, hits = inside.most_common(1)[0]
        score = (hits + max(outside.values(), default=0)) / n
        gains = score >= (1 + base) / 2 and hits >= _SURE * len(where)
        spoils = hits >= ALONE * len(where) and len(where) >= COVERS * n
        # Every phrase is one more chance to be right by accident.
        accident = drawn(hits, len(where), totals[named], n) * len(phrases)
        if (gains or spoils) and accident <= BY_LUCK:
            word = " ".join(phrase)
            says, there = f"{word!r} in the brief goes with {named!r}", frozenset(where)
            cue = Cue(says, hits, there, score, base, giveaway=spoils, word=word, answer=named)
            found.append(cue)
    return found


_OFTEN_AS_OPTION = 0.7
_LONGEST = 15


def option_cues(golds: Sequence[Gold]) -> list[Cue]:
    """Cues by place, length and wording that are right far more often than luck explains."""
    picks = {**_by_place(golds), **_by_length(golds), **_by_wording(golds)}
    chances = [1 / len(gold.options) for gold in golds]
    base, n = fmean(chances), len(golds)
    found: list[Cue] = []
    for says, picked in picks.items():
        if not picked:
            continue
        hits = sum(golds[index].right == pick for index, pick in picked.items())
        chance = fmean(chances[index] for index in picked)
        if (
            hits < _OFTEN_AS_OPTION * len(picked)
            or luck(hits, len(picked), chance) * len(picks) > BY_LUCK
        ):
            continue
        elsewhere = sum(chance for index, chance in enumerate(chances) if index not in picked)
        spoils = len(picked) >= COVERS * n
        score = (hits + elsewhere) / n
        found.append(Cue(says, hits, frozenset(picked), score, base, giveaway=spoils))
    return found


Picks = Mapping[str, Mapping[int, int]]
"""By cue: which option it picks, by item."""


def _by_place(golds: Sequence[Gold]) -> Picks:
    most = max(len(gold.options) for gold in golds)
    return {
        f"option {chr(ord('A') + place)}": {
            index: place for index, gold in enumerate(golds) if place < len(gold.options)
        }
        for place in range(most)
    }


def _by_length(golds: Sequence[Gold]) -> Picks:
    longest: dict[int, int] = {}
    shortest: dict[int, int] = {}
    for index, gold in enumerate(golds):
        sizes = [len(option) for option in gold.options]
        for extreme, found in ((max(sizes), longest), (min(sizes), shortest)):
            if sizes.count(extreme) == 1:
                found[index] = sizes.index(extreme)
    return {"the longest option": longest, "the shortest option": shortest}


def _by_wording(golds: Sequence[Gold]) -> Picks:
    """Phrases that stand in exactly one option of an item."""
    texts = [words(option) for gold in golds for option in gold.options]
    places = [(index, k) for index, gold in enumerate(golds) for k in range(len(gold.options))]
    found: dict[str, dict[int, int]] = {}
    for phrase, where in frequent(texts, len(golds), longest=_LONGEST).items():
        held = [places[index] for index in where]
        times = Counter(index for index, _ in held)
        picked = {index: k for index, k in held if times[index] == 1}
        found[f"an option with the words {' '.join(phrase)!r}"] = picked
    return found


_LEAST = 10
_SHOWN = 3
_SEVERAL = 3
_NAME = "shortcuts"


def shortcuts(items: Sequence[Item], instructions: str = "") -> CheckFinding:
    """The strongest cues, judged by how often they are right and how much they score alone.

    A cue that the instructions state is the task and no shortcut. Where each of several answers
    has a word of its own, a table of words may be the task as well: the advice says so.
    """
    answered = [item for item in items if item.gold is not None]
    if len(answered) < _LEAST:
        return CheckFinding(
            _NAME, "left out", f"{len(answered)} items; {_LEAST} are needed to tell"
        )
    every = _cues(answered)
    cues = [cue for cue in every if not _stated(cue, instructions)]
    if not cues:
        what = "only words with a rule in the instructions or first skill predict"
        nothing = what if every else "no surface feature predicts"
        return CheckFinding(_NAME, "ok", f"{nothing} the answer ({len(answered)} items)")
    best = cues[0]
    sure = any(cue.precision >= ALONE and cue.giveaway for cue in cues)
    found = f"{best.says}: right {best.hits} of {best.support} times, alone scores "
    found += f"{percent(best.score)} (without it {percent(best.base)})"
    advice = (
        "the skill can learn this shortcut instead of the task: balance the feature over right and "
        "wrong answers, or report scores with and without these items"
    )
    if _is_table(every, len(answered)):
        advice = f"expected if the task is to look up a word's answer; otherwise {advice}"
    examples = tuple(
        f"{cue.says}: {cue.hits} of {cue.support}, alone scores {percent(cue.score)}"
        for cue in cues[1:_SHOWN]
    )
    return CheckFinding(_NAME, "bad" if sure else "look", found, advice, examples)


def _stated(cue: Cue, instructions: str) -> bool:
    """Whether a line of the instructions has the word and its answer."""
    if not cue.word:
        return False
    lines = map(spoken, instructions.splitlines())
    return any(spoken(cue.word) in line and spoken(cue.answer) in line for line in lines)


def _is_table(cues: Sequence[Cue], n: int) -> bool:
    """Whether words decide nearly every item, each of several answers by its own."""
    answers = {cue.answer for cue in cues if cue.word}
    covered = frozenset[int]().union(*(cue.where for cue in cues if cue.word))
    right = all(cue.precision >= ALONE for cue in cues)
    return len(answers) >= _SEVERAL and len(covered) >= ALONE * n and right


def _cues(items: Sequence[Item]) -> list[Cue]:
    golds = [item.gold for item in items if item.gold is not None]
    if all(gold.right is not None for gold in golds):
        found = option_cues(golds)
    elif closed(golds):
        found = label_cues(items)
    else:
        found = spans(items)
    return strongest(found)
