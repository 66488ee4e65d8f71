"""How OfficeQA rewards an answer: numbers within a tolerance, texts as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillopt.core.intake import tagged
from skillopt.core.rollout import Score
from skillopt.envs.metrics import verdict

_TAG: Final = re.compile(r"<[^<>]{1,80}>")
_LONGEST: Final = 250
"""Characters of an answer; a longer one is no answer but a text around it."""
_CURRENCY: Final = "$£€¥₹¢₩₽"
_PLAIN: Final = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_IN_PARENTHESES: Final = re.compile(rf"\(\s*[{_CURRENCY}]?\s*({_PLAIN})\s*\)")
_THOUSANDS: Final = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
_NUMBER: Final = re.compile(r"-?\d+\.?\d*%?")
_UNITS: Final = {
    "trillion": re.compile(r"\btrillions?\b"),
    "billion": re.compile(r"\b(?:billions?|b)\b"),
    "million": re.compile(r"\b(?:millions?|m)\b"),
    "thousand": re.compile(r"\b(?:thousands?|k)\b"),
}
_MEASURES: Final = re.compile(
    r"\b(?:(?:trillion|billion|million|thousand|hundred)s?|percent(?:age)?)\b"
)
_AROUND: Final = 20
"""Characters before and after a number in which its unit is looked for."""
_NOT_KNOWN: Final = "unable to determine"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of an answer, as it is written, with the unit beside it."""

    value: float
    unit: str

    @property
    def is_year(self) -> bool:
        return 1900 <= self.value <= 2100 and self.value == int(self.value)

    def meets(self, other: Figure, tolerance: float) -> bool:
        """Whether the other is near enough to this one; units count only if both have one."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        if self.value == 0:
            return other.value == 0
        return abs(self.value - other.value) / abs(self.value) <= tolerance


def final_answer(reply: str) -> str:
    """What stands in the last `<FINAL_ANSWER>` (or `<answer>`); without one, the whole reply."""
    return (tagged(reply, "final_answer") or tagged(reply, "answer") or [reply])[-1].strip()


def score_text(answer: str, row: Mapping[str, object]) -> Score:
    """A scorer for tasks of one's own in which the document stands in the question."""
    gold, answer = str(row["answer"]), final_answer(answer)
    return verdict(answer, [gold], is_right(gold, answer))


def is_right(gold: str, answer: str, tolerance: float = 0.0) -> bool:
    """Whether an answer, taken out of its reply, gets the reward."""
    answer, gold = answer.strip(), gold.strip()
    if not answer or "\n" in answer or len(answer) > _LONGEST or _NOT_KNOWN in answer.lower():
        return False
    wanted = figures(gold)
    if not wanted:
        return _bare(answer) == _bare(gold) and not any(map(str.isdigit, answer))
    if _TAG.search(answer) or not _same_words(gold, answer):
        return False
    found = figures(answer)
    if not _words(gold) and not any(figure.is_year for figure in wanted):
        found = [figure for figure in found if not figure.is_year]
    if not _is_list(gold):
        return _in_any_order(wanted, found, tolerance)
    return _in_order(wanted, found, tolerance) or _in_order_by_pieces(wanted, answer, tolerance)


def _in_order(wanted: Sequence[Figure], found: Sequence[Figure], tolerance: float) -> bool:
    pairs = zip(wanted, found, strict=False)
    return len(wanted) == len(found) and all(a.meets(b, tolerance) for a, b in pairs)


def _in_any_order(wanted: Sequence[Figure], found: Sequence[Figure], tolerance: float) -> bool:
    left = list(found)
    for figure in wanted:
        met = next((other for other in left if figure.meets(other, tolerance)), None)
        if met is None:
            return False
        left.remove(met)
    return not left


def _in_order_by_pieces(wanted: Sequence[Figure], answer: str, tolerance: float) -> bool:
    """As a list in which commas both separate and group digits: `[8,152,260]` for 8 and 152260."""
    pieces = re.sub(rf"[\[\]\s{_CURRENCY}]", "", answer).split(",")
    if not all(map(_NUMBER.fullmatch, pieces)):
        return False
    starts = {0}
    for figure in wanted:
        starts = {
            end
            for start in starts
            for end in range(start + 1, len(pieces) + 1)
            if all(re.fullmatch(r"\d{3}(?:\.\d+)?%?", piece) for piece in pieces[start + 1 : end])
            for joined in figures("".join(pieces[start:end]))
            if figure.meets(joined, tolerance)
        }
    return len(pieces) in starts


def figures(text: str) -> list[Figure]:
    """The numbers of a text; in parentheses they are negative, as accountants write them."""
    plain = _IN_PARENTHESES.sub(_negative, text.replace("\u2212", "-"))
    plain = re.sub(f"[{_CURRENCY}]", "", plain)
    plain = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    return [
        Figure(
            float(found[0].rstrip("%")),
            _unit(plain[max(0, found.start() - _AROUND) : found.end() + _AROUND].lower()),
        )
        for found in _NUMBER.finditer(plain)
    ]


def _negative(found: re.Match[str]) -> str:
    """A year in parentheses stays what it is."""
    number = float(found[1].replace(",", ""))
    return found[0] if Figure(number, "").is_year else f"-{found[1]}"


def _unit(context: str) -> str:
    return next((unit for unit, word in _UNITS.items() if word.search(context)), "")


def _same_words(gold: str, answer: str) -> bool:
    """Whether the words of a gold answer that has some, a month for instance, are there too."""
    wanted, found = _words(gold), _words(answer)
    return not wanted or (bool(found) and (wanted in found or found in wanted))


def _words(text: str) -> str:
    """What is left without numbers and their units; a single letter is no word."""
    rest = _NUMBER.sub("", text.replace("\u2212", "-").lower()).replace(",", "")
    rest = " ".join(re.sub(r"[^\w\s]", " ", _MEASURES.sub("", rest)).split())
    return rest if len(rest) > 1 else ""


def _is_list(gold: str) -> bool:
    return gold.startswith("[") and gold.endswith("]")


def _bare(text: str) -> str:
    """Lower case, without quotes around it and what stands in parentheses."""
    inner = text.strip().lower().strip("\"'")
    return " ".join(re.sub(r"\([^()]*\)", " ", inner).split())


_UNSAID: Final = re.compile(r"\b(?:million|billion|dollars?|nominal)\b")


def original_form(text: str) -> str:
    """What the original's scorer compares: no commas, signs or words for amounts."""
    plain = re.sub(r"[^\w\s.%-]", " ", text.lower().replace(",", ""))
    return " ".join(_UNSAID.sub(" ", plain).split())
