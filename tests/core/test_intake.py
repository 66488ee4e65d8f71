from __future__ import annotations

import json

import pytest

from skillopt.core.intake import NESTING, read_json


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_nested_deeper_than_is_worked_with_is_refused() -> None:
    assert read_json(nested(NESTING)) == json.loads(nested(NESTING))
    for depth in (NESTING + 2, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(nested(depth))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert read_json(f"[{','.join(['{}'] * 2 * NESTING)}]") == [{}] * 2 * NESTING


def test_half_a_surrogate_pair_is_replaced_in_keys_and_values() -> None:
    assert read_json('{"a\\ud800": ["\\udfff"]}') == {"a\ufffd": ["\ufffd"]}
