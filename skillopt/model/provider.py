"""The interfaces of a backend and of the HTTP transport that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from skillopt.core.chat import Model
from skillopt.core.intake import Json, read_json
from skillopt.model.settings import ModelSettings


class HttpAnswer(NamedTuple):
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """The body as JSON; `ValueError` if it is not JSON."""
        return read_json(self.body)


class Transport(Protocol):
    """Sends HTTP requests."""

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeout: float
    ) -> HttpAnswer:
        """Send a request and read the whole response, within `timeout` seconds.

        Raises `Unreached` if there is no answer, `ModelError` if it is incomplete.
        """
        ...

    async def get(self, url: str, *, headers: Mapping[str, str], timeout: float) -> HttpAnswer:
        """Like `post`, with the method GET."""
        ...


@runtime_checkable
class Settles(Protocol):
    """Optional for a backend: fills in settings that the user did not set."""

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """The settings that are really used. Calling it twice must change nothing more."""
        ...


class Provider(Protocol):
    """A class registered under `skillopt.models`."""

    key_variables: ClassVar[tuple[str, ...]]
    """Environment variables for the key, in order of precedence; `{ROLE}` is the role."""
    url_variables: ClassVar[tuple[str, ...]]
    """Environment variables for the base URL."""
    key_required: ClassVar[bool]
    default_url: ClassVar[str]
    """Empty: the user must set one."""
    takes_shared_effort: ClassVar[bool]
    """Whether `model.reasoning_effort` is sent, which is set for all roles."""

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """Create a model; missing settings are an error now."""
        ...
