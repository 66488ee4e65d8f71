from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.prompts.jsonish import read_object

NEED = {"edits"}
WHOLE = {"reasoning": 'a {brace} and a "quote"', "edits": [{"op": "append", "content": "x"}]}


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(WHOLE),
        f"Here you are:\n```json\n{json.dumps(WHOLE, indent=2)}\n```\nAnything else?",
        f'<think>maybe {{"edits": []}} ?</think>\n{json.dumps(WHOLE)}',
        f"First {{not json}} then {json.dumps(WHOLE)}",
        json.dumps(WHOLE).replace("}]", "},]"),
        json.dumps(WHOLE).replace('"reasoning"', "reasoning"),
        json.dumps({"edits": []}) + "\nNo, better:\n" + json.dumps(WHOLE),
    ],
)
def test_the_answer_is_found_in_whatever_is_around_it(reply: str) -> None:
    assert read_object(reply, NEED) == WHOLE


def test_a_cut_off_reply_does_not_pass_an_inner_object_off_as_the_answer() -> None:
    cut = '{"reasoning": "r", "edits": [{"op": "append", "content": "x"}, {"op": "dele'
    found = read_object(cut, NEED)
    assert found is not None
    assert "op" not in found
    assert read_object('[{"op": "append", "content": "x"}', NEED) is None


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "[1, 2]", '{"other": 1}', "{"])
def test_no_answer_is_none(reply: str) -> None:
    assert read_object(reply, NEED) is None


@given(
    st.dictionaries(
        st.text(max_size=5), st.recursive(st.integers() | st.text(), st.lists, max_leaves=5)
    )
)
def test_every_object_survives(value: dict[str, object]) -> None:
    assert read_object(json.dumps({**value, "edits": 1}), NEED) == {**value, "edits": 1}


@pytest.mark.parametrize(
    "piece", ['{"', "{", "[", '{"a" ', "{'", '\\"', '[{"', "{,", '{"a":{', "}{", "```\n{"]
)
def test_whatever_a_reply_repeats_reading_it_takes_time_in_proportion(piece: str) -> None:
    def seconds(size: int) -> float:
        start = time.process_time()
        assert read_object(piece * (size // len(piece)), {"edits"}) is None
        return time.process_time() - start

    short, long = seconds(50_000), seconds(400_000)
    assert long < 0.1 or long < 24 * short
