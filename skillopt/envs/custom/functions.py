"""Scorers that are functions of the user."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import partial
from numbers import Real
from pathlib import Path
from typing import cast

from skillopt.aio import in_task, in_thread
from skillopt.core.rollout import Score
from skillopt.errors import ConfigError

Function = Callable[..., object]

# What importing somebody's module may raise by mistake of theirs.
_IMPORT_FAULTS = (
    ImportError,
    SyntaxError,
    NameError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    OSError,
    SystemExit,
)


def load(name: str) -> Function:
    """The function that `module:function` names; the current folder is searched first."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"env.scorer: {name!r} names no function; write module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            message = f"env.scorer: {module_name} needs {error.name!r}; install it"
            raise ConfigError(message) from error
        raise ConfigError(
            f"env.scorer: no module {error.name!r} in {here} or among installed packages"
        ) from error
    except _IMPORT_FAULTS as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"env.scorer: {module_name} cannot be imported ({reason})") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        what = "has no" if found is None else "has no callable"
        raise ConfigError(f"env.scorer: {module_name} {what} {attribute!r}; check the name")
    return found


def name_of(function: Function) -> str:
    """Where a function is defined."""
    defined = _definition(function)
    return f"{defined.__module__}:{defined.__qualname__}"


def _definition(function: Function) -> Function:
    """What has a name and a source: a partial's function, a callable object's class."""
    inner = cast("partial[object]", function).func if isinstance(function, partial) else function
    return inner if hasattr(inner, "__qualname__") else type(inner)


async def call(function: Function, answer: str, data: Mapping[str, object]) -> Score:
    """Ask a scorer, which gets a copy of the row and so cannot change the task.

    What it returns is read as a score; anything else is a TypeError or ValueError.
    """
    row = deepcopy(dict(data))
    if inspect.iscoroutinefunction(function):
        result = function(answer, row)
    else:
        result = await in_thread(function, answer, row)
    if inspect.isawaitable(result):
        result = await in_task(cast("Awaitable[object]", result))
    return _score(result)


def _score(result: object) -> Score:
    match result:
        case Score():
            return result
        case Real():
            return Score(_unit("hard", result), _unit("soft", result))
        case Mapping():
            return _from_mapping(cast("Mapping[str, object]", result))
        case _:
            message = (
                f"it returned a {type(result).__name__}; return a number from 0 to 1, "
                "a bool, a Score, or a mapping with 'hard'"
            )
            raise TypeError(message)


def _from_mapping(result: Mapping[str, object]) -> Score:
    if unknown := set(result) - {"hard", "soft", "feedback"}:
        message = f"it returned the keys {sorted(map(str, unknown))}; use hard, soft, feedback"
        raise ValueError(message)
    hard = _unit("hard", result.get("hard"))
    soft = _unit("soft", result["soft"]) if "soft" in result else hard
    return Score(hard, soft, str(result.get("feedback", "")))


def _unit(name: str, value: object) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        message = f"its {name} score is {value!r}; a score is a number from 0 to 1"
        raise ValueError(message)
    return float(value)
