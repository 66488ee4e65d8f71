"""Qwen on vLLM or SGLang: chat completions with a switch for thinking."""

from __future__ import annotations

from typing import ClassVar, Final

from skillopt.model.completions import Completions
from skillopt.model.openai import COMPLETIONS, completions_at
from skillopt.model.provider import (
    ModelSettings,
    Transport,
    filled,
    names_for,
    one_of,
    variable,
    yes_or_no,
)
from skillopt.model.remote import Remote, address, key_hint

_MODES: Final = ("server_default", "enabled", "disabled")


class QwenChat:
    """A Qwen model on a server of the user's own; the key is optional."""

    key_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_QWEN_CHAT_API_KEY", "QWEN_CHAT_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_QWEN_CHAT_BASE_URL", "QWEN_CHAT_BASE_URL")
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = "http://localhost:8000/v1"
    takes_shared_effort: ClassVar[bool] = False

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as `QWEN_CHAT_*` variables or our defaults for Qwen say."""
        return filled(settings, "QWEN_CHAT", temperature=0.7, max_tokens=8000)

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        """A model ready to be asked."""
        settings = cls.settle(settings)
        mode = thinking_mode(settings)
        named = _switch(settings, "use_max_completion_tokens")
        dialect = Completions(
            settings,
            "max_completion_tokens" if named else "max_tokens",
            thinks_aloud=True,
            additions={}
            if mode == "server_default"
            else {"chat_template_kwargs": {"enable_thinking": mode == "enabled"}},
        )
        url = address(settings.base_url.strip() or cls.default_url, COMPLETIONS)
        hint = key_hint(settings, names_for(settings.role, cls.key_variables))
        return completions_at("qwen_chat", url, hint, dialect, http, f"thinking={mode}")


def thinking_mode(settings: ModelSettings) -> str:
    """`server_default`, `enabled` or `disabled`; the older switch counts where no mode is set."""
    mode = settings.extra.get("thinking_mode") or variable(
        settings, "QWEN_CHAT_THINKING_MODE", one_of(*_MODES)
    )
    if isinstance(mode, str):
        return mode
    enabled = _switch(settings, "enable_thinking")
    return "server_default" if enabled is None else "enabled" if enabled else "disabled"


def _switch(settings: ModelSettings, name: str) -> bool | None:
    given = settings.extra.get(name)
    if isinstance(given, bool):
        return given
    return variable(settings, f"QWEN_CHAT_{name.upper()}", yes_or_no)
