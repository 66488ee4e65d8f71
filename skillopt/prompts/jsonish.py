"""Reading the JSON object in a model's reply, as forgivingly as is safe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from typing import cast

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)```", re.DOTALL)


def read_object(text: str, required: Set[str]) -> dict[str, object] | None:
    """The last JSON object in the text that has all required keys, or None.

    Strict JSON is looked for first, in fences and then anywhere; only then is broken JSON mended.
    Choosing by keys keeps a cut-off reply from passing one of its inner objects off as the answer.
    """
    text = _THINKING.sub("", text)
    for candidates in (_strict(text), _mended(text)):
        fitting = [each for each in candidates if required <= each.keys()]
        if fitting:
            return fitting[-1]
    return None


def _strict(text: str) -> Iterator[dict[str, object]]:
    for piece in [*_FENCE.findall(text), text]:
        decoder = json.JSONDecoder(strict=False)
        at = piece.find("{")
        while at >= 0:
            try:
                value, end = decoder.raw_decode(piece, at)
            except ValueError:
                at = piece.find("{", at + 1)
                continue
            if isinstance(value, dict):
                yield cast("dict[str, object]", value)
            at = piece.find("{", end)


def _mended(text: str) -> Iterator[dict[str, object]]:
    from json_repair import repair_json

    for piece in [*_FENCE.findall(text), text[max(text.find("{"), 0) :]]:
        value = repair_json(piece, return_objects=True, skip_json_loads=True)
        found = cast("list[object]", value) if isinstance(value, list) else [value]
        for each in found:
            if isinstance(each, dict):
                yield cast("dict[str, object]", each)
