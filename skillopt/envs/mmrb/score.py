"""Which answer a reply to MMRB gives, and whether it is right."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from skillopt.envs.metrics import boxed, tidy, undressed

MmrbRule: TypeAlias = Literal["strict", "lenient"]
"""strict: the same letters, or the same text | lenient: as the owners' script, where one may be a
part of the other."""
_ANSWER: Final = re.compile(
    r"""\banswer[*_`:]{0,4}\s?
        \[([^\[\]]{0,500}(?:\[[^\[\]]{0,500}\][^\[\]]{0,500}){0,20})\]""",
    re.IGNORECASE | re.VERBOSE,
)
_SPOKEN: Final = frozenset(("option", "options", "choice", "choices"))
_LONE: Final = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
_LABEL: Final = re.compile(r"\s*[(\[]?([A-Z])\s?[)\].:]\s*(.*)", re.DOTALL)


def found_answer(reply: str) -> str | None:
    """In `Answer[...]`, else in a box, else a letter that is the whole reply; the last one counts.

    None: the reply gives no answer that can be read. Nothing is guessed from other words.
    """
    marked = deque(_ANSWER.finditer(reply), maxlen=1)
    if marked:
        return marked[0][1].strip()
    if (inside := boxed(reply)) is not None:
        return inside
    lone = _LONE.fullmatch(reply.strip())
    return lone[1] if lone else None


def is_right(
    answer: str | None, gold: str, options: Sequence[str] = (), rule: MmrbRule = "strict"
) -> bool:
    """An answer that cannot be read is wrong, also where the owners' script leaves it out."""
    if answer is None or not answer.strip():
        return False
    if rule == "lenient":
        ours, theirs = answer.strip().upper(), gold.strip().upper()
        return ours in theirs or theirs in ours
    if options:
        return _choices(answer, options) == _choices(gold, options)
    return _bare(answer) == _bare(gold)


def _bare(text: str) -> str:
    """Without brackets around all of it, since `Answer[...]` has some of its own."""
    plain = tidy(undressed(text)).replace(", ", ",")
    return plain[1:-1] if plain[:1] + plain[-1:] == "[]" else plain


def _choices(text: str, options: Sequence[str]) -> frozenset[str] | str:
    """The letters that a text names: `B`, `A, C`, `AC`, `B: two`, or the text of an option.

    Their case does not count.
    """
    letters, texts = labelled(options)
    text = undressed(text)
    split = (undressed(part) for part in re.split(r"[\s,;&]+|\band\b", text))
    parts = [part for part in split if part and part.casefold() not in _SPOKEN]
    named = [lone[1].upper() for part in parts if (lone := _LONE.fullmatch(part))]
    if parts and len(named) == len(parts) and set(named) <= set(letters):
        return frozenset(named)
    if (one := _LABEL.fullmatch(text)) and tidy(one[2]) == texts.get(one[1]):
        return frozenset(one[1])
    same = [letter for letter, said in texts.items() if said == tidy(text)]
    if len(same) == 1:
        return frozenset(same)
    run = frozenset(text.upper())
    return run if run <= set(letters) and len(run) == len(text) > 0 else tidy(text)


def labelled(options: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The letters of options, and what each says; where they have no letters, by their places."""
    found = [_LABEL.fullmatch(option) for option in options]
    if options and all(found):
        texts = {one[1]: tidy(one[2]) for one in found if one}
    else:
        texts = dict(zip(string.ascii_uppercase, map(tidy, options), strict=False))
    return "".join(texts), texts
