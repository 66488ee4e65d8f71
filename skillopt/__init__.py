"""Train skill documents for frozen agents."""

from __future__ import annotations

from typing import TYPE_CHECKING  # noqa: TID251 - for laziness, not for a cycle

if TYPE_CHECKING:
    from skillopt.api import *  # noqa: F403 - `skillopt.api.__all__` lists the names

__version__ = "0.4.0.dev0"


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import skillopt` stays light."""
    if not name.startswith("_"):
        from importlib import import_module

        api = import_module("skillopt.api")
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
