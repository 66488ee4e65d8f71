"""Reads the JSON object in a model's reply, and repairs common errors.

Reading takes time in proportion to the length of the reply, and raises nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from typing import cast

from skillopt.core.intake import Json, clean_json, too_deep

_OPENING = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)```", re.DOTALL)
_PASSES = 8
"""Times that a text may be read over in search of an object."""
_MENDED_CHARS = 100_000
"""Broken JSON is mended character by character: longer pieces are left as they are."""
_MENDED_MARKS = 2_000
"""Brackets and quotes in broken JSON: mending may take time in proportion to their square."""


def read_object(text: str, required: Set[str]) -> dict[str, object] | None:
    """The last JSON object in the text that has all required keys, or None.

    Strict JSON is looked for first, in fences and then anywhere; only then is broken JSON mended.
    Choosing by keys keeps a cut-off reply from passing one of its inner objects off as the answer.
    """
    text = without_thoughts(text)
    for candidates in (_strict(text), _mended(text)):
        fitting = [
            candidate
            for candidate in candidates
            if required <= candidate.keys() and not too_deep(candidate)
        ]
        if fitting:
            return cast("dict[str, object]", clean_json(fitting[-1]))
    return None


def without_thoughts(text: str) -> str:
    """The text without what stands between marks of thinking; a mark without its end stays."""
    kept: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        closing = _CLOSING.search(text, opening.end())
        if closing is None:
            break
        kept.append(text[at : opening.start()])
        at = closing.end()
    return "".join([*kept, text[at:]])


def _strict(text: str) -> Iterator[dict[str, Json]]:
    decoder = json.JSONDecoder(strict=False)
    for piece in [*_FENCE.findall(text), text]:
        budget = _PASSES * len(piece)
        at = piece.find("{")
        while at >= 0 and budget >= 0:
            try:
                value, end = decoder.raw_decode(piece, at)
            except json.JSONDecodeError as error:
                # The error has counted the lines before it, which is quick, but not for nothing.
                budget -= error.pos - at + error.pos // 64 + 8
                at = piece.find("{", at + 1)
                continue
            except (ValueError, RecursionError):  # a number of thousands of digits; too deep
                budget -= len(piece)
                at = piece.find("{", at + 1)
                continue
            if isinstance(value, dict):
                yield cast("dict[str, Json]", value)
            at = piece.find("{", end)


def _mended(text: str) -> Iterator[dict[str, Json]]:
    from json_repair import repair_json

    for piece in [*_FENCE.findall(text), text[max(text.find("{"), 0) :]]:
        marks = sum(map(piece.count, '{["'))
        if len(piece) > _MENDED_CHARS or marks > _MENDED_MARKS:
            continue
        try:
            mended = repair_json(piece, return_objects=True, skip_json_loads=True)
        except (ValueError, RecursionError):
            continue
        for value in cast("list[object]", mended) if isinstance(mended, list) else [mended]:
            if isinstance(value, dict):
                yield cast("dict[str, Json]", value)
