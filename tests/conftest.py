"""What every test may use."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from skillopt.errors import ConfigError
from skillopt.harness.sandbox import Bubblewrap

# What a property says depends neither on how busy the machine is nor on chance: the same examples
# are tried everywhere. `make explore` looks for new ones.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore",
    deadline=None,
    max_examples=500,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what runs code in a sandbox where there is none."""
    if item.get_closest_marker("sandbox") is not None and (missing := _missing_sandbox()):
        pytest.skip(missing)


@cache
def _missing_sandbox() -> str:
    try:
        Bubblewrap.create()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests, each in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
