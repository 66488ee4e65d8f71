"""What makes a callable another one, and what does not."""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support_callables import module, parts, portable

from skillopt.core.callables import NotReusedWarning, identify, name_of, reference, used

Model = Callable[[str], str]


def text(function: Callable[..., object]) -> str:
    return identify(function).text


def carrying(value: object) -> Model:
    return lambda prompt: prompt + repr(value)


def edited(
    body: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str = "made_model"
) -> tuple[str, str]:
    """The identity of `ask` in this text, and with every a in it made b."""
    one = text(module(name, body, folder, monkeypatch).ask)
    return one, text(module(name, body.replace("'a'", "'b'"), folder, monkeypatch).ask)


@pytest.mark.parametrize(
    "body",
    [
        "WORD = 'a'\ndef ask(p):\n    class Kind:\n        word = WORD\n    return Kind.word\n",
        "WORD = 'a'\ndef ask(p):\n    def one():\n        return WORD\n"
        "    def two():\n        return p\n    return one() + two()\n",
        "class Kind:\n    def __str__(self):\n        return 'a'\n"
        "def ask(p):\n    return str(Kind())\n",
        "class Kind:\n    word__ = 'a'\ndef ask(p):\n    return Kind.word__\n",
        "def ask(p, said='a'):\n    return said + p\n",
        "def ask(p):\n    return p.upper() if 'a' == 'b' else p\n",
    ],
)
def test_what_a_function_says_anywhere_inside_is_part_of_it(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = edited(body, tmp_path, monkeypatch)
    assert one != other


BODIES = [
    ("p): return p.upper()", "p): return p.lower()"),
    ("a, b): return a", "a, *, b): return a"),
    ("a, b): return a", "a, b, /): return a"),
    ("a, b): return a", "a, *b): return a"),
    ("said, b): return said", "told, b): return told"),
]


@pytest.mark.parametrize(("one", "other"), BODIES)
def test_functions_that_differ_in_names_or_parameters_only_have_different_code(
    one: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        parts(module("made_model", f"def ask({body}\n", tmp_path, monkeypatch).ask)
        for body in (one, other)
    )
    assert {part for part in first if first[part] != second[part]} == {"code"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions are caught by the code itself")
def test_what_a_function_catches_is_part_of_its_code() -> None:
    one, other = portable("a"), portable("a")
    change: dict[str, Any] = {"co_exceptiontable": b"\x80\x01\x01\x00"}
    other.__code__ = other.__code__.replace(**change)
    assert parts(one)["code"] != parts(other)["code"]


def test_an_edited_method_has_other_code() -> None:
    """Also the one that is used when the object is called."""

    class One:
        def __call__(self, prompt: str) -> str:
            return prompt + "a"

    class Other:
        def __call__(self, prompt: str) -> str:
            return prompt + "b"

    assert parts(One())["code"] != parts(Other())["code"]
    assert parts(One().__call__)["code"] != parts(Other().__call__)["code"]


def test_a_class_is_not_the_objects_that_it_makes() -> None:
    class Client:
        def __call__(self, prompt: str) -> str:
            return prompt

    assert parts(Client) != parts(Client())
    assert parts(Client)["uses"] == ""


def test_a_global_variable_that_a_function_sets_itself_is_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "LAST = ''\ndef ask(p):\n    global LAST\n    LAST = LAST + p\n    return LAST\n"
    made = module("made_model", body, tmp_path, monkeypatch)
    before = text(made.ask)
    assert made.ask("x") == "x"
    assert text(made.ask) == before


LONG = "".join(f"    p.name{number}\n" for number in range(300))


@pytest.mark.parametrize(
    "body",
    [
        "def ask(p):\n    from .helpers import inner\n    return inner(p)\n",
        "def ask(p):\n    import made_folder.helpers as h\n    return h.inner(p)\n",
        "def ask(p):\n    from . import helpers\n    return helpers.inner(p)\n",
        "def ask(p):\n    from made_folder import helpers as h\n    return h.inner(p)\n",
        "def ask(p):\n    from made_folder.helpers import inner\n    return inner(p)\n",
        f"def ask(p):\n{LONG}    from .helpers import inner\n    return inner(p)\n",
    ],
    ids=["relative", "as", "dot", "from", "absolute", "long"],
)
def test_a_helper_of_its_package_that_a_function_imports_is_followed(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(word: str) -> str:
        folder = tmp_path / "made_folder"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("", encoding="utf-8")
        helpers = f"def inner(p):\n    return p + '{word}'\n"
        (folder / "helpers.py").write_text(helpers, encoding="utf-8")
        return text(module("made_folder.model", body, tmp_path, monkeypatch).ask)

    assert found("a") == found("a")
    assert found("a") != found("b")


@pytest.mark.parametrize("packaged", [True, False])
def test_a_module_that_is_imported_by_name_is_followed_without_importing_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packaged: bool
) -> None:
    folder = tmp_path / "made_folder"
    folder.mkdir()
    if packaged:
        (folder / "__init__.py").write_text("raise OSError", encoding="utf-8")
    body = "def ask(p):\n    from made_folder import helpers\n    return helpers.inner(p)\n"
    found: list[str] = []
    for word in ("a", "a", "b"):
        (folder / "helpers.py").write_text(f"def inner(p):\n    return '{word}'\n", "utf-8")
        found.append(text(module("made_model", body, tmp_path, monkeypatch).ask))
    assert "made_folder" not in sys.modules
    assert found[0] == found[1] != found[2]
    (folder / "other.py").write_text("def inner(p):\n    return 'b'\n", encoding="utf-8")
    other = body.replace("helpers", "other")
    uses = parts(module("made_model", other, tmp_path, monkeypatch).ask)["uses"]
    assert uses not in found[2]


@pytest.mark.parametrize("line", ["import made_later", "import made_later.part"])
def test_a_module_that_is_not_there_is_another_one_once_it_is(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"def ask(p):\n    {line}\n    return p\n"
    before = text(module("made_model", body, tmp_path, monkeypatch).ask)
    assert text(module("made_model", body, tmp_path, monkeypatch).ask) == before
    other = body.replace("made_later", "made_never")
    uses = parts(module("made_model", other, tmp_path, monkeypatch).ask)["uses"]
    (tmp_path / "made_later").mkdir()
    for name in ("__init__", "part"):
        (tmp_path / "made_later" / f"{name}.py").write_text("", encoding="utf-8")
    after = module("made_model", body, tmp_path, monkeypatch).ask
    assert text(after) != before
    assert uses not in before


BOTH = {
    "made_helpers": "import made_deep\nWORD = 'a'\nOTHER = 'a'\n",
    "made_deep": "import made_helpers\nWORD = 'a'\n",
}


@pytest.mark.parametrize(
    ("body", "place", "name"),
    [
        ("def ask(p):\n    return h.WORD\n", "made_helpers", "WORD"),
        ("def ask(p):\n    return h.made_deep.WORD\n", "made_deep", "WORD"),
        ("def ask(p, whole=h):\n    return h.WORD\n", "made_helpers", "WORD"),
        (
            "def one():\n    return h.WORD\ndef two():\n    return h.OTHER\n"
            "def ask(p):\n    return one() + two()\n",
            "made_helpers",
            "OTHER",
        ),
    ],
)
def test_a_variable_of_a_module_that_is_set_from_outside_makes_another_one_of_who_uses_it(
    body: str, place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each, written in BOTH.items():
        (tmp_path / f"{each}.py").write_text(written, encoding="utf-8")
    made = module("made_model", "import made_helpers as h\n" + body, tmp_path, monkeypatch)
    before = text(made.ask)
    assert text(made.ask) == before
    monkeypatch.setattr(sys.modules[place], name, "b")
    assert text(made.ask) != before


def test_what_is_pickled_by_its_name_is_another_one_when_its_module_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "from typing import TypeVar\nONE = TypeVar('ONE')\nWORD = 'a'\n"
        "def ask(p):\n    return p + repr(ONE)\n"
    )
    one, other = edited(body, tmp_path, monkeypatch)
    assert one != other


def test_a_module_whose_file_is_gone_stands_for_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = carrying(module("made_helpers", "WORD = 'a'\n", tmp_path, monkeypatch))
    assert not identify(carried).doubt
    (tmp_path / "made_helpers.py").unlink()
    with pytest.warns(NotReusedWarning):
        assert identify(carried).doubt == "an object of builtins.module"


def test_parts_that_python_or_a_decorator_adds_to_a_class_do_not_make_it_another() -> None:
    def made(**inside: object) -> Model:
        return carrying(type("Kind", (), inside))

    assert text(made(__marked__=1)) == text(made(__marked__=2))
    assert text(made(__marked=1)) != text(made(__marked=2))
    assert text(made(marked__=1)) != text(made(marked__=2))


class Bag:
    pass


class Slotted:
    __slots__ = ("one", "two")


class Both(Slotted):
    pass


def bag(kind: type, **attributes: object) -> object:
    made = kind()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("kind", [Bag, Slotted, Both, SimpleNamespace])
def test_attributes_may_be_set_in_any_order(kind: type) -> None:
    one, other = bag(kind, one=[1], two=[2]), bag(kind, two=[2], one=[1])
    assert text(carrying(one)) == text(carrying(other))
    assert text(carrying(one)) != text(carrying(bag(kind, one=[2], two=[1])))


@pytest.mark.parametrize("kind", [Slotted, Both])
def test_a_slot_that_was_never_set_is_no_attribute(kind: type) -> None:
    assert text(carrying(bag(kind, one=1))) != text(carrying(bag(kind, one=1, two=None)))


def test_a_slot_that_hides_one_of_its_base_class_is_told_from_it() -> None:
    class Hiding(Slotted):
        __slots__ = ("one",)

    def made(hidden: object) -> Model:
        found = bag(Hiding, one=[1])
        vars(Slotted)["one"].__set__(found, hidden)
        return carrying(found)

    assert text(made({"k": 1})) == text(made({"k": 1}))
    assert text(made({"k": 1})) != text(made({"k": 2}))


class Kept:
    """Kept elsewhere: only what it is pickled with tells one from another."""

    __slots__ = ()

    def __init__(self, state: object) -> None:
        _STATES[id(self)] = (self, state)

    def __reduce__(self) -> tuple[object, ...]:
        return (Kept, (), _STATES[id(self)][1], None, None, _set_state)


class _States(dict[int, tuple[object, object]]):
    fingerprint = "not part of anything"


_STATES = _States()


def _set_state(_kept: object, _state: object) -> None:
    pass


@pytest.mark.parametrize(
    ("state", "again", "other"),
    [
        ("a", "a", "b"),
        (["a"], ["a"], ["b"]),
        ({1: "a", "k": "b"}, {"k": "b", 1: "a"}, {1: "b", "k": "a"}),
        ((None, {1: "a", "k": "b"}), (None, {"k": "b", 1: "a"}), (None, {1: "b", "k": "a"})),
    ],
)
def test_objects_are_told_apart_by_the_state_that_they_are_pickled_with(
    state: object, again: object, other: object
) -> None:
    assert not identify(carrying(Kept(state))).doubt
    assert text(carrying(Kept(state))) == text(carrying(Kept(again)))
    assert text(carrying(Kept(state))) != text(carrying(Kept(other)))


def test_objects_of_a_class_are_told_apart_by_the_function_that_is_registered_to_copy_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = {id(Bag): "none"}

    def made(word: str) -> Model:
        found = Bag()
        words[id(found)] = word
        kept.append(found)
        return carrying(found)

    kept: list[object] = []
    monkeypatch.setitem(copyreg.dispatch_table, Bag, lambda it: (Bag, (words[id(it)],)))
    assert text(made("a")) == text(made("a"))
    assert text(made("a")) != text(made("b"))


def test_what_is_carried_in_many_places_is_looked_at_once() -> None:
    found: list[object] = ["a"]
    for _ in range(60):
        found = [found, found]
    assert not identify(carrying(found)).doubt


def test_many_values_may_be_carried() -> None:
    assert not identify(carrying(list(range(150_000)))).doubt


def test_what_carries_too_deep_a_value_has_an_identity_of_its_own_and_keeps_it() -> None:
    def made() -> Model:
        found: list[object] = []
        for _ in range(2 * sys.getrecursionlimit()):
            found = [found]
        return carrying(found)

    one, other = made(), made()
    with pytest.warns(NotReusedWarning):
        first = identify(one)
    with pytest.warns(NotReusedWarning):
        assert identify(other).text != first.text
    assert identify(one) == first
    assert first.doubt == "an object of builtins.function"
    assert {**parts(one), "state": ""} == {"code": "", "state": "", "uses": ""}


def test_names_that_utf_8_cannot_write_are_names_like_others() -> None:
    def made(value: object) -> Model:
        return carrying(bag(Bag, **{"\ud800": value}))

    assert text(made(1)) == text(made(1))
    assert text(made(1)) != text(made(2))


class Unwatched:
    """Cannot be pickled, and nobody can tell when it is gone."""

    __slots__ = ()

    def __reduce__(self) -> str:
        raise TypeError

    def __call__(self, prompt: str) -> str:
        return prompt


def test_what_can_be_neither_compared_nor_watched_is_new_each_time() -> None:
    one = Unwatched()
    with pytest.warns(NotReusedWarning, match="Unwatched"):
        first = text(one)
    with pytest.warns(NotReusedWarning):
        assert text(one) != first


def test_what_was_told_of_one_callable_is_kept_when_others_come() -> None:
    def made() -> tuple[list[str], Model]:
        seen: list[str] = []

        def ask(prompt: str) -> str:
            seen.append(prompt)
            return prompt

        return seen, ask

    asked = [made()[1] for _ in range(3)]
    before = [identify(each) for each in asked]
    for each, identity in zip(asked, before, strict=True):
        each("x")
        used(each, identity)
    assert [identify(each) for each in asked] == before
    asked[0]("y")
    assert identify(asked[0]) != before[0]


def test_only_a_text_is_a_fingerprint() -> None:
    class Client:
        def __init__(self, fingerprint: object) -> None:
            self.fingerprint = fingerprint

        def __call__(self, prompt: str) -> str:
            return prompt

    for other in (1, b"v1", ["v1"], ""):
        assert list(parts(Client(other))) == ["code", "state", "uses"]
    assert text(Client(1)) != text(Client(2))
    assert text(Client("v1")).endswith("/fingerprint=v1")


def test_a_fingerprint_of_a_method_is_that_of_its_function() -> None:
    class Client:
        def __init__(self, word: str) -> None:
            self.word = word

        def ask(self, prompt: str) -> str:
            return self.word + prompt

    vars(Client.ask)["fingerprint"] = "v1"
    assert text(Client("a").ask).endswith("/fingerprint=v1")
    assert text(Client("a").ask) == text(Client("b").ask)


def test_a_callable_has_the_name_of_its_function_or_of_its_class() -> None:
    whole = functools.partial(functools.partial(carrying, 1))
    assert reference(whole) == f"{__name__}:carrying"
    assert name_of(whole) == f"{__name__}.carrying"
    assert reference(Unwatched()) == reference(Unwatched) == f"{__name__}:Unwatched"
    assert reference(len) == "builtins:len"
    assert reference("x".upper) == "None:str.upper"
    assert name_of(ModuleType) == "builtins.module"
