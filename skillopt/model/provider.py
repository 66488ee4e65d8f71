"""The interfaces of a backend and of the HTTP transport that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from skillopt.core.chat import Model
from skillopt.core.intake import Json, read_json
from skillopt.model.settings import ModelSettings


class Answer(NamedTuple):
    """An HTTP response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """The body, read; `ValueError` when it is not JSON."""
        return read_json(self.body)


class Transport(Protocol):
    """Carries a request to a server."""

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeout: float
    ) -> Answer:
        """Send and read all; past `timeout` seconds the request is cancelled.

        Raises `Unreached` when no answer came, `ModelError` when it came in pieces.
        """
        ...

    async def get(self, url: str, *, headers: Mapping[str, str], timeout: float) -> Answer:
        """Fetch and read all, as `post` does."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A provider that fills in what was left open, from variables and defaults of its own."""

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """The settings as they will be asked; twice is the same as once."""
        ...


class Provider(Protocol):
    """A class registered under `skillopt.models`."""

    key_variables: ClassVar[tuple[str, ...]]
    """Environment variables that may hold the key, best first; `{ROLE}` is the role's name."""
    url_variables: ClassVar[tuple[str, ...]]
    """Environment variables that may hold the base URL."""
    key_required: ClassVar[bool]
    default_url: ClassVar[str]
    """Blank: the user must give one."""
    takes_shared_effort: ClassVar[bool]
    """Whether its models understand a reasoning effort, so that the one for all roles is sent."""

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked; what is missing in the settings is an error now."""
        ...
