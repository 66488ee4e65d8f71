"""Data that a provider needs back with its own messages, stored as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from skillopt.core.intake import read_json
from skillopt.model.provider import Json


def remember(api: str, pieces: Sequence[Json]) -> str:
    """A memo of these pieces; blank when there are none."""
    return json.dumps({"api": api, "pieces": pieces}) if pieces else ""


def recall(api: str, memo: str) -> list[Mapping[str, object]]:
    """The pieces, if this API wrote the memo."""
    if not memo:
        return []
    match read_json(memo):
        case {"api": str(written), "pieces": [*pieces]} if written == api:
            return [piece for piece in pieces if isinstance(piece, dict)]
        case _:
            return []
