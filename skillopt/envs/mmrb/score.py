"""Which answer a reply to MMRB gives, and whether it is right."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from skillopt.envs.metrics import boxed, tidy

MmrbRule: TypeAlias = Literal["strict", "lenient"]
"""strict: the same letters, or the same text | lenient: as the owners' script, where one may be a
part of the other."""
_ANSWER: Final = re.compile(r"\banswer\s?\[([^\[\]]{0,500})\]", re.IGNORECASE)
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
    return tidy(answer).rstrip(".") == tidy(gold).rstrip(".")


def _choices(text: str, options: Sequence[str]) -> frozenset[str] | str:
    """The letters that a text names: `B`, `A, C`, `AC`, `B: two`, or the text of an option."""
    letters, texts = labelled(options)
    parts = [part for part in re.split(r"[\s,;&]+|\band\b", text.strip()) if part]
    named = [lone[1].upper() for part in parts if (lone := _LONE.fullmatch(part))]
    if parts and len(named) == len(parts) and set(named) <= set(letters):
        return frozenset(named)
    if set(text.strip()) <= set(letters) and text.strip():
        return frozenset(text.strip())
    if (one := _LABEL.fullmatch(text)) and tidy(one[2]) == texts.get(one[1]):
        return frozenset(one[1])
    same = [letter for letter, said in texts.items() if said == tidy(text)]
    return frozenset(same) if len(same) == 1 else tidy(text)


def labelled(options: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The letters of options, and what each says; where they have no letters, by their places."""
    found = [_LABEL.fullmatch(option) for option in options]
    if options and all(found):
        texts = {one[1]: tidy(one[2]) for one in found if one}
    else:
        texts = dict(zip(string.ascii_uppercase, map(tidy, options), strict=False))
    return "".join(texts), texts
