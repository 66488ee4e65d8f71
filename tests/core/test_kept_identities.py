"""The identities that callables had for earlier versions of ours.

Else what was finished with them would be done again. Only what is the same in all versions of
Python is compared, so functions have no code here.
"""

from __future__ import annotations

import functools
import io
import json
import re
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, AnyStr
from urllib.request import Request

import pytest
from support_callables import module, parts, portable, second_of

from skillopt.core.callables import CallableIdentity, identify


class Bag:
    word = "of all"


class Slotted:
    __slots__ = ("left", "word")


class Both(Slotted):
    pass


class Known:
    fingerprint = "v1"


def bag(kind: type, **attributes: object) -> object:
    made = kind()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def ring() -> list[object]:
    found: list[object] = [1]
    found.append(found)
    return found


def unfilled() -> object:
    """A function whose variable is not set yet."""
    found = portable("a")
    return types.FunctionType(found.__code__, {}, "unfilled", None, (types.CellType(),))


def a_class() -> type:
    """With all that a class of the caller's may have."""
    base = type("Base", (), {"word": "a"})
    meta = type("Meta", (type,), {"asked": portable("meta")})
    inside = {
        "__module__": __name__,
        "__marked__": "by a decorator",
        "__len__": portable("len"),
        "method": portable("b", 3),
        "static": staticmethod(portable("c")),
        "of_class": classmethod(portable("d")),
        "read": property(portable("e"), portable("f"), portable("g")),
        "cached": functools.lru_cache(portable("h")),
        "__half": 1,
        "half__": 2,
    }
    return meta("Kind", (base,), inside)


ASKED = portable("asked")
KIND = a_class()
OF_URLLIB = vars(Request)["data"]

STATES: list[tuple[str, object, str]] = [
    ("a function", portable("a"), "00cd4a8a0765"),
    ("its defaults", portable("a", 3, third=4), "bde5f994d747"),
    ("a variable that is not set", unfilled(), "b2d304430c68"),
    ("a class", KIND, "509f0572a378"),
    ("an object", KIND(), "47d4d62c4a25"),
    ("a method", KIND().method, "49d0d6b53f9d"),
    ("a part of a function", functools.partial(ASKED, 1, third=2), "cb7482599633"),
    ("an object with attributes", bag(Bag, word=1, other=[2]), "9516c2b4f44a"),
    ("an object with slots", bag(Slotted, word=1), "d408a23d7e17"),
    ("an object with both", bag(Both, word=1, other=2, another=3), "4ced8d2e77ed"),
    ("an object with a fingerprint", Known(), "671c0dd11fa3"),
    ("an object with arguments", date(2026, 1, 2), "0a2c0318eb0d"),
    ("objects of one class", [date(2026, 1, 2), date(2026, 1, 3)], "ff0198e64243"),
    ("an object with items", deque([1, 2], 3), "2099c8e1e573"),
    ("an object with pairs", OrderedDict(k=1), "436a2bcc2934"),
    ("an object with a state", io.StringIO("a"), "3ff72159ab60"),
    ("an object with a function that copies it", re.compile("a+"), "ee1efcb3763e"),
    ("an object of a name", AnyStr, "b06644bcf918"),
    ("an object of no module", ..., "208a7b0e200d"),
    ("a module", json, "2625c77ed2bd"),
    ("a function of a module", json.dumps, "1c1dbf419b4a"),
    ("a function of a class", json.JSONDecoder.decode, "bb80a94731e1"),
    ("a function for a class", vars(Fraction)["from_float"].__func__, "fc58ec94a55f"),
    ("what reads", OF_URLLIB.fget, "60891355c713"),
    ("what writes", OF_URLLIB.fset, "60891355c713"),
    ("what deletes", OF_URLLIB.fdel, "60891355c713"),
    ("a class under another name", type(None), "161ed2f871fd"),
    ("what holds itself", ring(), "d9a6f93485f8"),
    ("the longest number in decimal digits", 2**2000 - 1, "b629f490429f"),
    ("the shortest other one", 2**2000, "8aa73259a025"),
    ("a range of one step", range(5), "f3feb2d539b1"),
]


@pytest.mark.parametrize(
    ("value", "state"),
    [(value, state) for _, value, state in STATES],
    ids=[name for name, _, _ in STATES],
)
def test_a_value_that_is_carried_has_the_identity_that_it_had_for_earlier_versions_of_ours(
    value: object, state: str
) -> None:
    identity = identify(functools.partial(second_of, value))
    found = re.search("/state=([0-9a-f]*)/", identity.text)
    assert found is not None
    assert (found[1], identity.doubt) == (state, "")


def declared() -> types.FunctionType:
    found = portable("a")
    vars(found)["fingerprint"] = "v1"
    return found


def an_object() -> Callable[..., object]:
    kind: Any = type("Caller", (Bag,), {"__call__": portable("a")})
    return kind()


CALLED: list[tuple[str, Callable[[], Callable[..., object]], list[str]]] = [
    ("a function", lambda: portable("a"), ["06e955d7efbb", "c4e60381f282", "f480ffb2979d"]),
    (
        "a part of a function",
        lambda: functools.partial(portable("a"), 1, third=2),
        ["06e955d7efbb", "fea8ac993594", "f480ffb2979d"],
    ),
    (
        "a part of one with a fingerprint",
        lambda: functools.partial(declared(), 1),
        ["3dc06f733e34", "fb75973b87f4", ""],
    ),
    ("a method", lambda: a_class()().method, ["06e955d7efbb", "68b3715a179e", "f480ffb2979d"]),
    (
        "an object",
        an_object,
        ["06e955d7efbb", "5af9a6e8e029", "f480ffb2979d"],
    ),
    ("a class", lambda: Bag, ["39500b6c8532", "", ""]),
    ("a function of Python", lambda: len, ["731e0d940f15", "", ""]),
]


@pytest.mark.parametrize(
    ("make", "expected"),
    [(make, expected) for _, make, expected in CALLED],
    ids=[name for name, _, _ in CALLED],
)
def test_a_callable_has_the_parts_that_it_had_for_earlier_versions_of_ours(
    make: Callable[[], Callable[..., object]], expected: list[str]
) -> None:
    found = parts(make())
    assert list(found) == ["code", "state", "uses"]
    assert list(found.values()) == expected


def test_an_identity_is_the_name_the_parts_and_the_version_of_python() -> None:
    version = sys.implementation.cache_tag
    name = "support_callables.portable.<locals>.function"
    assert identify(functools.partial(functools.partial(portable("a"), 1), 2)) == CallableIdentity(
        name, f"{name}/code=06e955d7efbb/state=adf4fd1ecc3f/uses=f480ffb2979d/{version}"
    )
    assert identify(declared()) == CallableIdentity(name, f"{name}/fingerprint=v1")


USED = [
    ("import json\n", "1d2f5a57cb54"),
    ("import xml.dom.minidom\n", "2b5be6bc8c95"),
    ("import made_absent\n", "a66f889fd7ae"),
    ("import made_absent.part\n", "515b96ed4bb7"),
    ("import made_folder\n", "3e592af22f07"),
    ("import made_helpers\n", "7b90de0aa948"),
    ("from made_helpers import WORD\n", "7b90de0aa948"),
    ("from json import decoder\n", "1d2f5a57cb54"),
    ("from made_absent import part\n", "a66f889fd7ae"),
    ("from made_absent.part import inner\n", "515b96ed4bb7"),
    ("from xml.dom.minidom import parse\n", "2b5be6bc8c95"),
    ("from made_folder import made_part\n", "ac32d1f2f854"),
]


@pytest.mark.parametrize(("line", "uses"), USED, ids=[line.strip() for line, _ in USED])
def test_a_module_that_a_function_imports_has_the_identity_that_it_had_for_earlier_versions_of_ours(
    line: str, uses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_folder").mkdir()
    (tmp_path / "made_folder" / "made_part.py").write_bytes(b"WORD = 'a'\n")
    (tmp_path / "made_helpers.py").write_bytes(b"WORD = 'a'\n")
    body = f"def ask(p):\n    {line}    return p\n"
    assert parts(module("made_model", body, tmp_path, monkeypatch).ask)["uses"] == uses


def test_modules_that_use_each_other_have_the_identity_that_they_had_for_earlier_versions_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_helpers.py").write_bytes(b"import made_model\nWORD = 'a'\n")
    body = (
        "import made_helpers\ndef ask(p):\n    return made_helpers.made_model.made_helpers.WORD\n"
    )
    assert parts(module("made_model", body, tmp_path, monkeypatch).ask)["uses"] == "a21bd9d829a8"
