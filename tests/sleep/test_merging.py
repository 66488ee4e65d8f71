"""An entry in somebody else's configuration comes and goes, and nothing else does."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.merging import JsonEntry, TomlTable

ENTRY = JsonEntry(("mcp", "servers", "skillopt-sleep"), {"command": "p -m skillopt_sleep"})
TABLE = TomlTable("mcp_servers.skillopt-sleep", (("command", 'a "b" \\ é'), ("args", ("x", "y"))))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), st.sampled_from([None, 2, "\t"]))
def test_an_entry_of_json_comes_and_goes(document: dict[str, object], indent: int | str) -> None:
    document.pop("mcp", None)
    text = json.dumps(document, indent=indent)
    added = ENTRY.added(text)
    assert json.loads(added) == {**document, "mcp": {"servers": {"skillopt-sleep": ENTRY.value}}}
    assert ENTRY.added(added) == added
    assert json.loads(ENTRY.removed(added)) == document
    assert ENTRY.removed(text) == text


def test_an_entry_of_another_place_of_ours_is_replaced() -> None:
    older = JsonEntry(ENTRY.keys, {"command": "old -m skillopt_sleep"}).added('{"a": 1}')
    assert json.loads(ENTRY.added(older))["mcp"]["servers"]["skillopt-sleep"] == ENTRY.value


@given(st.sampled_from(["", "a = 1", "a = 1\n", "a = 1\n\n", "[t]\r\nb = 2\r\n", "# only"]))
def test_a_table_of_toml_comes_and_goes(text: str) -> None:
    added = TABLE.added(text)
    assert added.startswith(text)
    assert TABLE.added(added) == added
    assert TABLE.added(added).count("[mcp_servers.skillopt-sleep]") == 1
    assert TABLE.removed(added).rstrip() == text.rstrip()
    assert TABLE.removed(text) == text
