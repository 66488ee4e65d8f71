"""Functions that a setting names as `module:function`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, cast

from skillopt.aio import in_task, in_thread
from skillopt.errors import ConfigError

Function: TypeAlias = Callable[..., object]

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


def load_function(key: str, name: str) -> Function:
    """The function that a setting names; the current folder is searched first."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{key}: {name!r} names no function; write module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            message = f"{key}: {module_name} needs {error.name!r}; install it"
            raise ConfigError(message) from error
        raise ConfigError(
            f"{key}: no module {error.name!r} in {here} or among installed packages"
        ) from error
    except _IMPORT_FAULTS as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{key}: {module_name} cannot be imported ({reason})") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        what = "has no" if found is None else "has no callable"
        raise ConfigError(f"{key}: {module_name} {what} {attribute!r}; check the name")
    return found


async def call_function(function: Function, *given: object) -> object:
    """What a function returns; a plain one is called in a worker thread, so that others go on."""
    if inspect.iscoroutinefunction(function):
        result = function(*given)
    else:
        result = await in_thread(function, *given)
    if inspect.isawaitable(result):
        result = await in_task(cast("Awaitable[object]", result))
    return result
