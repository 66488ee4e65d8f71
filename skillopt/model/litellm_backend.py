"""Backend `litellm`: providers that the package litellm supports."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Final

from skillopt.core.chat import Reply, Request
from skillopt.core.extras import install_command
from skillopt.errors import ConfigError
from skillopt.model.completions import Completions
from skillopt.model.credentials import Key
from skillopt.model.errors import Caller, classify
from skillopt.model.provider import HttpAnswer, ModelSettings, Transport
from skillopt.model.remote import understood
from skillopt.model.tokens import counted

_STOLEN: Final = {"1.82.7", "1.82.8"}
"""Releases that somebody else published, and that steal credentials when they are imported."""
_HABITS: Final = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads .env into our environment
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices from the network
}
_UNKNOWN: Final = 500
"""The status of an error that has none: no connection, a timeout, something unforeseen."""


@dataclass(frozen=True, slots=True)
class LiteLLM:
    """A model by litellm's name for it, such as `gemini/gemini-2.5-pro`.

    The key is the one that `api_key_env` names, or what litellm itself finds in the environment.
    """

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = False

    settings: ModelSettings
    caller: Caller
    fingerprint: str
    package: Any = field(repr=False)

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> LiteLLM:
        """A model ready to be asked; the package is imported now and not before."""
        del http
        return cls(
            settings=settings,
            caller=Caller(
                f"{settings.role} model {settings.name!r} by litellm",
                f"the key for the {settings.role} model in {settings.key_source or 'the variable'}"
                " that its provider expects",
                Key(settings.api_key),
                settings.role,
            ),
            fingerprint=f"litellm/{settings.name}/temperature={settings.temperature}"
            f"/max_tokens={settings.max_tokens}/effort={settings.effort or None}",
            package=_package(),
        )

    async def complete(self, request: Request) -> Reply:
        """Ask once."""
        dialect = Completions(self.settings)
        body = dialect.body(request)
        try:
            response = await self.package.acompletion(
                **body,
                api_key=self.settings.api_key,
                api_base=self.settings.base_url or None,
                timeout=self.settings.timeout,
                num_retries=0,
            )
        except Exception as error:  # noqa: BLE001 - the package raises what its providers raise
            raise classify(_failed(error), self.caller) from None
        answer = HttpAnswer(200, {}, response.model_dump_json().encode())
        return counted(request, understood(answer, dialect, self.caller))


def _failed(error: Exception) -> HttpAnswer:
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and status >= 400 else _UNKNOWN
    return HttpAnswer(status, {}, str(error).encode("utf-8", "replace"))


def _package() -> Any:  # noqa: ANN401 - a foreign package without types
    try:
        found = version("litellm")
    except PackageNotFoundError:
        raise ConfigError(
            f"backend litellm needs a package: {install_command('litellm')}"
        ) from None
    if found in _STOLEN:
        raise ConfigError(
            f"litellm {found} is a stolen release that sends credentials away: uninstall it, "
            f"change every key and token of this machine, then {install_command('litellm')}"
        )
    for name, value in _HABITS.items():
        os.environ.setdefault(name, value)  # noqa: TID251 - the only way to tell the package
    package: Any = importlib.import_module("litellm")
    package.suppress_debug_info = True
    return package
