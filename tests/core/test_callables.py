from __future__ import annotations

import copyreg
import functools
import importlib
import re
import subprocess
import sys
import threading
import unittest
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

import pytest

from skillopt.core.callables import NotReusedWarning, identify, used

Model = Callable[[str], str]
ONE, OTHER = TypeVar("ONE"), TypeVar("OTHER")


def text(function: Callable[..., object]) -> str:
    return identify(function).text


def saying(word: str) -> Model:
    def say(prompt: str) -> str:
        return word + prompt

    return say


def with_default(word: str) -> Model:
    def say(prompt: str, *, said: str = word) -> str:
        return said + prompt

    return say


@dataclass
class Client:
    word: str

    def __call__(self, prompt: str) -> str:
        return self.word + prompt

    def method(self, prompt: str) -> str:
        return prompt + self.word


def joined(word: str, prompt: str) -> str:
    return word + prompt


def second_of(_first: object, second: str) -> str:
    return second


MAKERS: list[Callable[[str], Model]] = [
    saying,
    with_default,
    Client,
    lambda word: Client(word).method,
    lambda word: functools.partial(joined, word),
    lambda word: functools.partial(joined, prompt=word),
    lambda word: functools.partial(saying(word)),
    lambda word: functools.lru_cache(saying(word)),
    lambda word: lambda prompt: prompt if word else "x",
    lambda word: lambda prompt: re.compile(word).pattern if word == "" else prompt,
]


@pytest.mark.parametrize("make", MAKERS)
def test_values_that_a_callable_carries_tell_it_from_another_of_the_same_name(
    make: Callable[[str], Model],
) -> None:
    assert text(make("a")) != text(make("b"))
    assert text(make("a")) == text(make("a"))


def test_two_lambdas_in_one_place_are_two() -> None:
    pair: list[Model] = [lambda prompt: prompt + "a", lambda prompt: prompt + "b"]
    first, second = pair
    assert identify(first).name == identify(second).name
    assert text(first) != text(second)


def test_two_methods_of_one_object_are_two() -> None:
    client = Client("a")
    assert text(client) != text(client.method)
    assert text(client.method) == text(client.method)


def module(name: str, body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    (folder / f"{name}.py").write_text(body, encoding="utf-8")
    for old in [each for each in sys.modules if each.startswith("made_")]:
        monkeypatch.delitem(sys.modules, old)
    importlib.invalidate_caches()
    return importlib.import_module(name)


HELPERS = "WORD = 'a'\nclass Kind:\n    word = 'a'\ndef inner(p):\n    return p + 'a'\n"


@pytest.mark.parametrize(
    "body",
    [
        "def ask(p):\n    return p + 'a'\n",
        "WORD = 'a'\ndef ask(p):\n    return p + WORD\n",
        "TABLE = {'k': ['a']}\ndef ask(p):\n    return p + TABLE['k'][0]\n",
        "def helper(p):\n    return p + 'a'\ndef ask(p):\n    return helper(p)\n",
        "def deep(p):\n    return p + 'a'\ndef helper(p):\n    return deep(p)\n"
        "def ask(p):\n    return helper(p)\n",
        "class Kind:\n    def go(self, p):\n        return p + 'a'\n"
        "def ask(p):\n    return Kind().go(p)\n",
        "class Base:\n    word = 'a'\nclass Kind(Base):\n    pass\n"
        "def ask(p):\n    return p + Kind.word\n",
        "class Kind:\n    def word(self):\n        return 'a'\n"
        "    def __call__(self, p):\n        return p + self.word()\nask = Kind()\n",
        "def ask(p):\n    def inner():\n        return 'a'\n    return p + inner()\n",
        "def ask(p):\n    return [each + 'a' for each in [p]][0]\n",
        "def even(p):\n    return odd(p)\ndef odd(p):\n    return 'a' if p else even(p)\n"
        "def ask(p):\n    return even(p)\n",
    ],
)
def test_an_edited_function_or_helper_is_another_one_and_a_moved_one_is_not(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(written: str) -> str:
        return text(module("made_model", written, tmp_path, monkeypatch).ask)

    before = found(body)
    assert found("# a line more\n\n" + body) == before
    assert found(body.replace("'a'", "'b'")) != before


@pytest.mark.parametrize(
    "body",
    [
        "import made_helpers\ndef ask(p):\n    return made_helpers.inner(p)\n",
        "import made_helpers as h\ndef ask(p):\n    return p + h.WORD\n",
        "from made_helpers import inner\ndef ask(p):\n    return inner(p)\n",
        "import made_helpers\ndef ask(p):\n    return p + made_helpers.Kind.word\n",
        "def ask(p):\n    import made_helpers\n    return made_helpers.inner(p)\n",
        "def ask(p):\n    from made_helpers import inner\n    return inner(p)\n",
    ],
)
def test_a_helper_in_another_module_is_followed(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(helpers: str) -> str:
        (tmp_path / "made_helpers.py").write_text(helpers, encoding="utf-8")
        return text(module("made_model", body, tmp_path, monkeypatch).ask)

    assert found(HELPERS) == found(HELPERS)
    assert found(HELPERS) != found(HELPERS.replace("'a'", "'b'"))


def test_what_a_package_or_python_defines_counts_by_its_name() -> None:
    assert text(str.upper) == text(str.upper)
    assert text(re.escape) != text(re.sub)
    assert not identify(pytest.main).doubt


SCRIPT = """
import functools, re, threading
from enum import Enum
from skillopt.core.callables import identify

class Colour(Enum):
    RED = "red"

class Client:
    def __init__(self, word):
        self.word, self.lock, self.kind = word, threading.Lock(), {"x", "y", "z", Colour.RED}
    def __call__(self, prompt):
        with self.lock:
            return PATTERN.sub(self.word, prompt)

PATTERN = re.compile("a+")
NAMES = frozenset(["one", "two", "three", "four"])

def ask(prompt, *, known=NAMES):
    return prompt if prompt in {"p", "q", "r"} else str(known)

for each in (ask, Client("a"), functools.partial(ask, known={1, 2, "c"}), lambda p: p):
    print(identify(each).text, identify(each).doubt)
"""


def test_the_same_callable_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")

    def run(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "script.py"],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run("1") == run("2")
    assert len(set(run("1").splitlines())) == 4


class Connected:
    def __init__(self, place: Path) -> None:
        self.file = place.open("a", encoding="utf-8")

    def __call__(self, prompt: str) -> str:
        return f"{self.file.name}{prompt}"


def test_what_cannot_be_compared_is_reused_by_the_same_object_only_and_told_once(
    tmp_path: Path,
) -> None:
    one, other = Connected(tmp_path / "x"), Connected(tmp_path / "x")
    with pytest.warns(NotReusedWarning, match=r"Connected.*TextIOWrapper.*`fingerprint`"):
        first = text(one)
    assert text(one) == first  # a second warning would be an error
    with pytest.warns(NotReusedWarning):
        assert text(other) != first
    one.file.close()
    other.file.close()


def test_a_fingerprint_that_the_caller_gives_says_it_all(tmp_path: Path) -> None:
    def closure(place: Path, fingerprint: str) -> Model:
        file = Connected(place)

        def ask(prompt: str) -> str:
            return file(prompt)

        file.file.close()
        named: Any = ask
        named.fingerprint = fingerprint
        return named

    assert text(closure(tmp_path / "a", "v1")) == text(closure(tmp_path / "b", "v1"))
    assert text(closure(tmp_path / "a", "v1")) != text(closure(tmp_path / "a", "v2"))
    client: Any = Connected(tmp_path / "a")
    client.file.close()
    client.fingerprint = "gpt-5.5 at 0"
    assert text(client).endswith("fingerprint=gpt-5.5 at 0")
    assert text(client.__call__).endswith("__call__/fingerprint=gpt-5.5 at 0")
    using: list[Model] = [lambda prompt: client(prompt) + prompt]
    assert not identify(using[0]).doubt


def test_a_part_with_a_fingerprint_of_its_own_tells_the_callables_that_use_it_apart() -> None:
    class Part:
        def __init__(self, fingerprint: str) -> None:
            self.fingerprint = fingerprint

    def using(part: Part) -> Model:
        return lambda prompt: prompt + repr(part)

    assert text(using(Part("v1"))) == text(using(Part("v1")))
    assert text(using(Part("v1"))) != text(using(Part("v2")))


def test_a_range_is_not_the_tuple_of_its_ends() -> None:
    def using(numbers: object) -> Model:
        return lambda prompt: prompt + repr(numbers)

    texts = [text(using(each)) for each in (range(1, 3), range(1, 3, 2), (1, 3), (1, 3, 2))]
    assert len(set(texts)) == 4
    assert text(using(range(1, 3))) == text(using(range(1, 3, 1)))


def test_what_a_callable_changes_itself_while_in_use_does_not_make_it_another() -> None:
    seen: list[str] = []
    settings = {"word": "a"}

    def ask(prompt: str) -> str:
        seen.append(prompt)
        return settings["word"]

    before = identify(ask)
    ask("x")
    used(ask, before)
    assert identify(ask) == before
    settings["word"] = "b"
    assert identify(ask) != before


def test_variables_that_a_function_sets_itself_are_its_memory() -> None:
    calls = 0

    def ask(prompt: str) -> str:
        nonlocal calls
        calls += 1
        return prompt

    before = text(ask)
    ask("x")
    assert calls == 1
    assert text(ask) == before


def test_a_callable_that_carries_itself_or_very_much_has_an_identity() -> None:
    class Ring:
        def __init__(self) -> None:
            self.me = self
            self.lock = threading.Condition()

        def __call__(self, prompt: str) -> str:
            return prompt

    assert text(Ring()) == text(Ring())
    huge = list(range(300_000))
    heavy: list[Callable[[str], int]] = [lambda prompt: huge[len(prompt)]]
    with pytest.warns(NotReusedWarning):
        assert identify(heavy[0]).doubt


def test_attributes_of_a_function_are_part_of_it() -> None:
    def made(mode: str) -> Callable[[str], str]:
        def target(_prompt: str) -> str:
            return str(vars(target)["mode"])

        vars(target)["mode"] = mode
        return target

    assert identify(made("A")).text == identify(made("A")).text
    assert identify(made("A")).text != identify(made("B")).text


def test_implementations_registered_for_a_type_are_part_of_a_function() -> None:
    def made(answer: str) -> Callable[[str], str]:
        @functools.singledispatch
        def respond(_value: object) -> str:
            return "other"

        @respond.register
        def _(_value: int) -> str:
            return answer

        return lambda _prompt: respond(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotReusedWarning)
        assert identify(made("A")).text != identify(made("B")).text


def test_the_class_of_a_class_is_part_of_it() -> None:
    def made(answer: str) -> Callable[[str], str]:
        class Meta(type):
            @property
            def value(cls) -> str:
                return answer

        class Holder(metaclass=Meta):
            pass

        return lambda _prompt: Holder.value

    assert identify(made("A")).text != identify(made("B")).text


def parts(function: Callable[..., object]) -> dict[str, str]:
    _, *found, _ = text(function).split("/")
    return dict(part.split("=", 1) for part in found)


@pytest.mark.parametrize("make", MAKERS[:-3])
def test_a_value_that_a_callable_carries_is_told_as_its_state_and_not_as_its_code(
    make: Callable[[str], Model],
) -> None:
    """So a run that cannot be continued says what has changed."""
    one, other = parts(make("a")), parts(make("b"))
    assert {part for part in one if one[part] != other[part]} == {"state"}
    assert list(one) == ["code", "state", "uses"]


class Colour(Enum):
    RED = "r"
    BLUE = "b"


KNOWN: list[tuple[object, str]] = [
    ("wörd \ud800", "32db2e279f89"),
    (b"word", "ebb4849193e4"),
    (bytearray(b"word"), "d2b574e91584"),
    (7, "72a024eb4dd1"),
    (2**3000, "c5a0cbb6e3f1"),
    (1.5, "9318e33c4a41"),
    (True, "a18512a36401"),
    (None, "2cca459ad007"),
    (range(1, 9), "7cd2e1848f5b"),
    (range(1, 9, 2), "9ecffaf2c832"),
    ((1, "a"), "476b933f6716"),
    ([1, "a"], "45ba28d31d37"),
    ({"k": 1, "l": [2]}, "656cc80e9def"),
    (MappingProxyType({"k": 1}), "651345bdb011"),
    ({1, 2, 3}, "99e700b9fffc"),
    (frozenset({1, 2, 3}), "87bd06dc3ff3"),
    (Colour.RED, "5f2da5ad2d55"),
    (Colour, "4352c8eee4fa"),
    (threading.Lock(), "cf3b5295d34a"),
    (len, "beab6674862a"),
    (str, "d6c196ed74a0"),
    ("x".upper, "5169e7c4f96b"),
]


@pytest.mark.parametrize(("value", "state"), KNOWN, ids=lambda each: type(each).__name__)
def test_a_callable_has_the_identity_that_it_had_for_earlier_versions_of_ours(
    value: object, state: str
) -> None:
    """Else what was finished with them would be done again."""
    assert parts(functools.partial(second_of, value))["state"] == state


def test_a_module_made_at_run_time_stands_for_itself_only() -> None:
    def made(answer: str) -> Callable[[str], str]:
        module = ModuleType("made")
        vars(module)["answer"] = answer
        return lambda _prompt: str(vars(module)["answer"])

    with pytest.warns(NotReusedWarning):
        first, second = identify(made("A")), identify(made("B"))
    assert first.text != second.text


@pytest.mark.parametrize("make", MAKERS)
def test_numbers_of_any_length_are_part_of_what_a_callable_is(make: Callable[[Any], Model]) -> None:
    exponent = len("x" * 5000)  # computed, so that no two of the numbers are one object
    for first, again, other in (
        (10**exponent, 10**exponent, 10**exponent + 1),
        (range(10**exponent), range(10**exponent), range(10**exponent + 1)),
        ([{10**exponent: 1}], [{10**exponent: 1}], [{-(10**exponent): 1}]),
    ):
        assert text(make(first)) == text(make(again))
        assert text(make(first)) != text(make(other))
    assert text(make(range(10**5000))) != text(make(range(0, 10**5000, 2)))


class Dropping:
    """Leaves its session out when it is pickled, as clients do."""

    def __init__(self, model: str) -> None:
        self.session = {"model": model}

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __call__(self, _prompt: str) -> str:
        return self.session["model"]


class Reducing(Dropping):
    def __reduce__(self) -> tuple[object, ...]:
        return Reducing, ("same",)


class Registered(Dropping):
    pass


class Global(Dropping):
    def __reduce__(self) -> str:
        return "GLOBAL"


class Slotted:
    __slots__ = ("__model",)

    def __init__(self, model: str) -> None:
        self.__model = model

    def __reduce__(self) -> tuple[object, ...]:
        return Slotted, ("same",)

    def __call__(self, _prompt: str) -> str:
        return self.__model


def held(model: str) -> Model:
    client = Dropping(model)
    return lambda prompt: client(prompt + prompt)


@pytest.mark.parametrize("make", [Dropping, Reducing, Registered, Global, Slotted, held])
def test_attributes_that_are_left_out_when_pickled_tell_callables_apart(
    make: Callable[[str], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda _: (Registered, ("same",)))
    assert text(make("a")) != text(make("b"))
    assert text(make("a")) == text(make("a"))


def test_objects_that_are_pickled_by_their_name_only_are_told_apart_by_it() -> None:
    """Pickled by its name alone, and without a `__qualname__`."""

    def using(kind: object) -> Model:
        return lambda prompt: prompt + repr(kind)

    assert text(using(ONE)) != text(using(OTHER))
    assert text(using(ONE)) == text(using(ONE))


class Words(list[str]):
    pass


class Named(dict[str, str]):
    pass


def test_what_a_collection_of_a_class_of_the_callers_holds_tells_callables_apart() -> None:
    def using(words: object) -> Model:
        return lambda prompt: prompt + repr(words)

    made = [Words(["a"]), Words(["b"]), Words(), Named(k="a"), Named(k="b"), Named(l="a")]
    assert len({text(using(each)) for each in made}) == len(made)
    assert text(using(Words(["a"]))) == text(using(Words(["a"])))


def test_a_fingerprint_that_cannot_be_read_is_none() -> None:
    class Closed(Client):
        @property
        def fingerprint(self) -> str:
            raise OSError(self.word)

    assert list(parts(Closed("a"))) == ["code", "state", "uses"]
    assert text(Closed("a")) != text(Closed("b"))


def test_a_value_of_python_itself_is_identified_without_its_caches() -> None:
    one, other = Path("a") / "b", Path("a/b")
    assert hash(one)
    assert str(one)
    assert text(functools.partial(print, one)) == text(functools.partial(print, other))


def executed(body: str, name: str | None) -> Model:
    known: dict[str, Any] = {} if name is None else {"__name__": name}
    exec(body, known)
    return known["ask"]


@pytest.mark.parametrize("name", [None, "__main__", "json", "pytest", "of_nobody"])
@pytest.mark.parametrize(
    "body",
    [
        "WORD = 'a'\ndef ask(p):\n    return WORD\n",
        "class Kind:\n    word = 'a'\ndef ask(p):\n    return Kind.word\n",
        "class Kind:\n    def __call__(self, p):\n        return 'a'\nask = Kind()\n",
        "WORD = 'a'\nclass Kind:\n    def go(self, p):\n        return WORD\nask = Kind().go\n",
    ],
)
def test_code_that_was_executed_from_text_is_not_identified_by_the_module_it_names(
    body: str, name: str | None
) -> None:
    assert text(executed(body, name)) == text(executed(body, name))
    assert text(executed(body, name)) != text(executed(body.replace("'a'", "'b'"), name))


def test_a_wrapper_is_not_identified_by_the_name_of_the_function_it_wraps() -> None:
    def made(word: str) -> Model:
        @functools.wraps(re.escape)
        def ask(prompt: str) -> str:
            return word + prompt

        return ask

    assert text(made("a")) != text(made("b"))


def test_a_function_that_a_package_makes_is_identified_by_the_values_it_carries() -> None:
    first, second, third = (unittest.skip(word) for word in "aba")
    assert text(first) != text(second)
    assert text(first) == text(third)


def test_a_module_of_a_taken_name_is_not_the_module_of_that_name() -> None:
    def made(answer: str) -> Callable[[str], str]:
        json = ModuleType("json")
        vars(json)["answer"] = answer
        return lambda _prompt: str(vars(json)["answer"])

    with pytest.warns(NotReusedWarning):
        assert text(made("a")) != text(made("b"))


def test_a_set_and_a_frozenset_are_two() -> None:
    def made(values: object) -> Model:
        return lambda _prompt: type(values).__name__

    assert text(made({1, 2})) != text(made(frozenset({1, 2})))
    assert text(made({1, 2})) == text(made({2, 1}))


def test_a_weak_reference_stands_for_what_it_refers_to() -> None:
    def made(word: str) -> Model:
        table = weakref.WeakKeyDictionary({saying: word})
        return lambda _prompt: table[saying]

    assert text(made("a")) != text(made("b"))
    assert text(made("a")) == text(made("a"))
    assert not identify(made("a")).doubt
    assert not identify(functools.singledispatch(saying("a"))).doubt
