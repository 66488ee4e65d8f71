"""Functions and modules for tests of the identity of callables."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from skillopt.core.callables import identify

_NESTED = 0x13
"""What the flags of a function with a free variable are in all versions of Python."""


def parts(function: Callable[..., object]) -> dict[str, str]:
    """What the identity of a callable tells about each of its parts."""
    _, *found, _ = identify(function).text.split("/")
    return dict(part.split("=", 1) for part in found)


def second_of(_first: object, second: str) -> str:
    return second


def portable(word: str, *defaults: object, **named: object) -> FunctionType:
    """A function that carries `word` and has the same code in all versions of Python.

    It says nothing, so that it can only be looked at.
    """

    def function(first: object, second: object = 1, *, third: object = 2) -> object:
        return (first, second, third, word)

    made: FunctionType = function
    made.__code__ = made.__code__.replace(
        co_code=bytes(4), co_consts=(), co_names=(), co_flags=_NESTED, **_NOTHING_CAUGHT
    )
    made.__defaults__, made.__kwdefaults__ = defaults, named
    return made


_NOTHING_CAUGHT: dict[str, Any] = {"co_exceptiontable": b""} if sys.version_info >= (3, 11) else {}


def module(name: str, body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of this text, imported anew with all others whose names begin with `made_`."""
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    place = folder / f"{name.replace('.', '/')}.py"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(body, encoding="utf-8")
    for old in [each for each in sys.modules if each.startswith("made_")]:
        monkeypatch.delitem(sys.modules, old)
    importlib.invalidate_caches()
    return importlib.import_module(name)
