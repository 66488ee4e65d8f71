"""Compares a text with reference answers; a prediction is right if it matches any of them."""

from __future__ import annotations

import re
import string
from collections import Counter, deque
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from typing import Literal, TypeAlias

from skillopt.core.intake import tagged
from skillopt.core.rollout import FULL_MARKS, Score

Extract: TypeAlias = Literal["tag_or_line", "whole"]
WordRule: TypeAlias = Literal["guarded", "official", "original"]
"""How words are compared where nothing is left of a text: guarded keeps articles and punctuation
then, official counts no F1 for two empty texts, original counts them as the same."""

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def extract_answer(text: str, how: Extract = "tag_or_line") -> str:
    """The text of the last closed `<answer>` tag, or else the last line that is not empty."""
    if how == "whole":
        return text.strip()
    if answers := tagged(text, "answer"):
        return answers[-1].strip()
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


_BRACE = re.compile(r"\\boxed\s?\{|\\[{}]|[{}]")
_BOX_OPENS, _BOX_CLOSES = "<|begin_of_box|>", "<|end_of_box|>"


def boxed(text: str) -> str | None:
    r"""What the last closed `\boxed{...}` holds, braces in it included; None: there is none.

    Without one, what the last `<|begin_of_box|>` holds.
    """
    opened: list[int | None] = []
    found = (-1, -1)
    for brace in _BRACE.finditer(text):
        match brace[0]:
            case "{":
                opened.append(None)
            case "}":
                begin = opened.pop() if opened else None
                if begin is not None:
                    found = max(found, (begin, brace.start()))
            case sign if sign.startswith("\\b"):
                opened.append(brace.end())
            case _:  # a brace that is meant to be seen
                pass
    if found[0] >= 0:
        return text[slice(*found)].strip()
    begin = text.rfind(_BOX_OPENS)
    end = text.find(_BOX_CLOSES, begin) if begin >= 0 else -1
    return text[begin + len(_BOX_OPENS) : end].strip() if end >= 0 else None


def normalise(text: str) -> str:
    """As SQuAD does: lower case, no ASCII punctuation, no articles, single spaces."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def tidy(text: str, *, case_sensitive: bool = False) -> str:
    """Single spaces, and one case unless case matters."""
    spaced = " ".join(text.split())
    return spaced if case_sensitive else spaced.casefold()


def equal(prediction: str, golds: Sequence[str], *, case_sensitive: bool = False) -> bool:
    wanted = {tidy(gold, case_sensitive=case_sensitive) for gold in golds}
    return tidy(prediction, case_sensitive=case_sensitive) in wanted


def contains(prediction: str, golds: Sequence[str], *, case_sensitive: bool = False) -> bool:
    """Whether a reference stands somewhere in the prediction, both tidied."""
    text = tidy(prediction, case_sensitive=case_sensitive)
    return any(tidy(gold, case_sensitive=case_sensitive) in text for gold in golds)


def exact_match(prediction: str, golds: Sequence[str], rule: WordRule = "guarded") -> bool:
    return any(_tokens(prediction, rule) == _tokens(gold, rule) for gold in golds)


def contains_words(prediction: str, golds: Sequence[str]) -> bool:
    """Whether the words of a reference stand in the prediction in a row, both normalised."""
    text = f" {' '.join(_tokens(prediction, 'guarded'))} "
    return any(f" {' '.join(_tokens(gold, 'guarded'))} " in text for gold in golds)


def f1(prediction: str, golds: Sequence[str], rule: WordRule = "guarded") -> float:
    """Overlap of normalised words, best over references; nothing matches only nothing."""
    ours = _tokens(prediction, rule)
    return max((_f1(ours, _tokens(gold, rule), rule) for gold in golds), default=0.0)


def _f1(ours: list[str], theirs: list[str], rule: WordRule) -> float:
    if not ours or not theirs:
        return float(ours == theirs and rule != "official")
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))


def _tokens(text: str, rule: WordRule) -> list[str]:
    # A text of articles or punctuation alone ("The The", "A") keeps its words: otherwise an empty
    # prediction would match it.
    words = normalise(text).split()
    return words if words or rule != "guarded" else text.lower().split()


_NUMBER = re.compile(
    r"""(?P<sign>(?<![\w.)])(?:[-+\u2212]\s?|\u2013))?
        (?:[$€£¥]\s?)?
        (?:(?P<whole>\d{1,3})\s(?=[1-9]\d?[/\u2044]\d))?
        (?P<digits>\d{1,3}(?P<blank>[, \u00a0\u2009\u202f])\d{3}(?:(?P=blank)\d{3})*(?!\d)(?:\.\d+)?
            |\d+(?:\.\d+)?|\.\d+)
        (?P<exponent>[eE][-+]?\d{1,3}(?!\d))?
        (?:[ ]?[/\u2044][ ]?(?P<below>\d+(?:\.\d+)?))?
        (?P<more>[²³¹⁰-⁹¼-¾⅐-⅞]|(?:[-+\u2212\u2013:/^*\u00d7x,.]{1,2}[({]?-?\d[\d.,]*[)}]?)+)?""",
    re.VERBOSE | re.ASCII,
)
_FRACTION = re.compile(r"\\[dt]?frac\s?\{(-?\d{1,400})\}\s?\{(\d{1,400})\}", re.ASCII)
_LONGEST_NUMBER = 400


def number(text: str) -> Fraction | None:
    """The last number in a text.

    Thousands separators, currency signs and a percent sign are dropped: 12.5% is 12.5. Fractions
    are numbers (7/2, 1 1/2). Digits that go on as a date, time, range, power or list (10:30, 2^10,
    1,5) are none.
    """
    last = deque(_NUMBER.finditer(_with_slashes(text)), maxlen=1)
    return _value(last[0]) if last else None


def only_number(text: str) -> Fraction | None:
    """The one number in a text; None where it has none or several."""
    found = list(islice(_NUMBER.finditer(_with_slashes(text)), 2))
    return _value(found[0]) if len(found) == 1 else None


def _with_slashes(text: str) -> str:
    return _FRACTION.sub(r" \1/\2", text)


def _value(found: re.Match[str]) -> Fraction | None:
    if found["more"] or len(found[0]) > _LONGEST_NUMBER:
        return None
    digits = found["digits"].replace(found["blank"] or ",", "")
    below = Fraction(found["below"] or 1)
    if not below:
        return None
    value = Fraction(found["whole"] or 0) + Fraction(f"{digits}{found['exponent'] or ''}") / below
    return value if (found["sign"] or "+")[0] == "+" else -value


def numeric(prediction: str, golds: Sequence[str], tolerance: float = 0.0) -> bool:
    """Whether the last number is within `tolerance`, a share of the reference, of one."""
    ours = number(prediction)
    if ours is None:
        return False
    slack = Fraction(str(tolerance))
    wanted = [value for gold in golds if (value := only_number(gold)) is not None]
    return any(abs(ours - value) <= slack * abs(value) for value in wanted)


def label_of(index: int) -> str:
    """The letter of an option: A, B, C, ..."""
    return string.ascii_uppercase[index]


def index_of(label: str) -> int:
    """The place of the option with this letter."""
    return string.ascii_uppercase.index(label)


_COMMAND = re.compile(r"\\(?:boxed|text|mathrm|mathbf|textbf)\s?\{")
_DRESSES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\$([^$]*)\$",
        r"\*{1,3}([^*]*)\*{1,3}",
        r"`{1,3}([^`]*)`{1,3}",
    )
)
_LAYERS = 6
_ANNOUNCED = re.compile(
    r"""(?:(?:so|thus|hence|therefore),?\s+)?
        (?:(?:(?:the|my)\s+)?(?:(?:correct|right|final|best)\s+)?(?:answer|option|choice)
        (?:\s+is|\s*:)?|i\s+choose)\s+
        (?:(?:option|choice)\s+)?(?P<rest>.+)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_LETTER_AND = re.compile(
    r"([*`(\[]{0,4}[A-Za-z][*`.):\],]{0,8})(?:\s*[-\u2013\u2014]\s+|\s+|(?<=[*`.):\],]))(.+)",
    re.DOTALL,
)
_REASON = re.compile(r"(?:because|since)\b(.*)", re.IGNORECASE | re.DOTALL)
_CAPITAL = re.compile(r"\b[A-Z]\b")


def option(text: str, options: Sequence[str] = ()) -> str | None:
    """The letter of the option that a text is, or None.

    It is one as a letter ("(B)", "Option B", "The answer is B"), as an option's text, as a letter
    with that option's text, or as a letter with a reason ("B, since ...") in which no other letter
    stands. What merely begins with a letter ("A is wrong", "B or C") is none. Without options, any
    letter is one.
    """
    letters = string.ascii_uppercase[: len(options)] if options else string.ascii_uppercase
    bare = undressed(text)
    if letter := _letter(bare, letters):
        return letter
    texts = [undressed(choice) for choice in options]
    for case_sensitive in (True, False):
        tidied = [tidy(each, case_sensitive=case_sensitive) for each in texts]
        if (ours := tidy(bare, case_sensitive=case_sensitive)) in tidied:
            return label_of(tidied.index(ours))
    if announced := _ANNOUNCED.fullmatch(bare):
        bare = undressed(announced["rest"])
    both = _LETTER_AND.fullmatch(bare)
    letter = _letter(both[1] if both else bare, letters)
    if letter is None or both is None:
        return letter
    if reason := _REASON.fullmatch(both[2]):
        return letter if set(_CAPITAL.findall(reason[1])) <= {letter} else None
    rest = undressed(both[2])
    return letter if options and equal(rest, [texts[index_of(letter)]]) else None


def undressed(text: str) -> str:
    """Without a full stop, and the box, dollars, asterisks or backticks around all of it."""
    for _ in range(_LAYERS):
        text = text.strip().rstrip(".")
        if text.startswith("\\(") and text.endswith("\\)"):
            text = text[2:-2]
        text = next((found[1] for each in _DRESSES if (found := each.fullmatch(text))), text)
        text = _inside(text)
    return text.strip()


def _inside(text: str) -> str:
    """What a command such as a box holds, if it holds all of the text."""
    command = _COMMAND.match(text)
    if command is None or not text.endswith("}"):
        return text
    inside, depth = text[command.end() : -1], 0
    for sign in inside:
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return text
    return text if depth else inside


def choice(prediction: str, golds: Sequence[str], options: Sequence[str] = ()) -> bool:
    ours = option(prediction, options)
    return ours is not None and any(option(gold, options) == ours for gold in golds)


def _letter(text: str, letters: str) -> str | None:
    bare = text.strip().upper().lstrip("([*`").rstrip(".,):]*`")
    return bare if len(bare) == 1 and bare in letters else None


def judge_words(answer: str, golds: Sequence[str], rule: WordRule = "guarded") -> Score:
    """Hard by exact match, soft by F1."""
    return verdict(answer, golds, exact_match(answer, golds, rule), f1(answer, golds, rule))


_SHOWN = 300


def verdict(
    answer: str,
    golds: Sequence[str],
    hard: float,
    soft: float | None = None,
    *,
    fault: str = "wrong answer",
) -> Score:
    """A score with feedback: `correct`, or what was wrong, expected and found."""
    hard = float(hard)
    soft = hard if soft is None else soft
    if hard >= FULL_MARKS:
        return Score(hard, soft, "correct")
    parts = [f"expected {' or '.join(_quote(gold) for gold in golds)}"] if golds else []
    if not answer.strip():
        fault = "empty answer"
    else:
        fault = "partial answer" if max(hard, soft) > 0 else fault
        parts.append(f"got {_quote(answer)}")
    return Score(hard, soft, f"{fault}: {', '.join(parts)}" if parts else fault)


def _quote(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
