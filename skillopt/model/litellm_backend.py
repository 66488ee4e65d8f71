"""Backend `litellm`: providers that the package litellm supports."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from skillopt.core.extras import install_command
from skillopt.errors import ConfigError
from skillopt.model.completions import Completions
from skillopt.model.credentials import ApiKey
from skillopt.model.errors import Caller
from skillopt.model.provider import HttpAnswer, ModelSettings, Provider, Transport
from skillopt.model.remote import Remote, fingerprint_of

_STOLEN: Final = {"1.82.7", "1.82.8"}
"""Releases that somebody else published, and that steal credentials when they are imported."""
_HABITS: Final = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads .env into our environment
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices from the network
}
_UNKNOWN: Final = 500
"""The status of an error that has none: no connection, a timeout, something unforeseen."""


class LiteLLM(Provider):
    """A model by litellm's name for it, such as `gemini/gemini-2.5-pro`.

    The key is the one that `api_key_env` names, or what litellm itself finds in the environment.
    """

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        """A model ready to be asked; the package is imported now and not before."""
        del http
        source = settings.key_source or "the variable"
        return Remote(
            fingerprint=fingerprint_of("litellm", settings),
            wire=Completions(settings),
            caller=Caller(
                f"{settings.role} model {settings.name!r} by litellm",
                f"the key for the {settings.role} model in {source} that its provider expects",
                ApiKey(settings.api_key),
                settings.role,
            ),
            http=_Package(_package(), settings.api_key),
            url=settings.base_url,
            timeout=settings.timeout,
        )


@dataclass(frozen=True, slots=True)
class _Package:
    """The package as a transport: its providers answer as a server would."""

    package: Any
    key: str | None = field(repr=False)

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        del headers
        try:
            response = await self.package.acompletion(
                **json.loads(body or b"{}"),
                api_key=self.key,
                api_base=url or None,
                timeout=timeout,
                num_retries=0,
            )
        except Exception as error:  # noqa: BLE001 - the package raises what its providers raise
            status = getattr(error, "status_code", None)
            status = status if isinstance(status, int) and status >= 400 else _UNKNOWN
            return HttpAnswer(status, {}, str(error).encode("utf-8", "replace"))
        return HttpAnswer(200, {}, response.model_dump_json().encode())


def _package() -> Any:  # noqa: ANN401 - a foreign package without types
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        raise ConfigError(
            f"backend litellm needs a package: {install_command('litellm')}"
        ) from None
    if installed in _STOLEN:
        raise ConfigError(
            f"litellm {installed} is a stolen release that sends credentials away: uninstall it, "
            f"change every key and token of this machine, then {install_command('litellm')}"
        )
    for name, value in _HABITS.items():
        os.environ.setdefault(name, value)  # noqa: TID251 - the only way to tell the package
    package: Any = importlib.import_module("litellm")
    package.suppress_debug_info = True
    return package
