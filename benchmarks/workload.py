"""Made-up items in the format of SearchQA: a clue, about 2 KB of snippets, an answer."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

SKILL = """\
# Trivia

- Read every snippet before you answer.
- Prefer the name that most snippets share.
- Answer with the name alone, without an article.
"""
_CONTEXT_CHARS = 2000


def write_split(folder: Path, count: int) -> Path:
    """A split folder with `count` test items; the same items whatever the count."""
    for split, size in (("train", 1), ("val", 1), ("test", count)):
        place = folder / split
        place.mkdir(parents=True, exist_ok=True)
        items = [_item(f"{split}-{index:04}") for index in range(size)]
        (place / "items.json").write_text(json.dumps(items), encoding="utf-8")
    return folder


def _item(name: str) -> dict[str, object]:
    chance = Random(name)
    context = ""
    while len(context) < _CONTEXT_CHARS:
        context += f"[DOC] [TLE] {_words(chance, 2).title()} [PAR] {_words(chance, 40)} "
    return {
        "id": name,
        "question": _words(chance, 12),
        "context": context.strip(),
        "answers": [_words(chance, 2)],
    }


def _words(chance: Random, count: int) -> str:
    return " ".join(
        "".join(chance.choice("bdfgklmnprst") + chance.choice("aeiou") for _ in range(3))
        for _ in range(count)
    )
