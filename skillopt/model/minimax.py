"""MiniMax: chat completions with its own fields, and errors with HTTP status 200."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from skillopt.core.chat import Reply, Request
from skillopt.errors import AccessError, ConfigError, Refused
from skillopt.model.completions import Completions
from skillopt.model.credentials import Key
from skillopt.model.openai import COMPLETIONS
from skillopt.model.provider import (
    Json,
    ModelSettings,
    Transport,
    filled,
    names_for,
    one_of,
    variable,
    yes_or_no,
)
from skillopt.model.remote import Connection, ErrorReply, Remote, address, checked, key_hint

REGIONS: Final = {
    "global_en": "https://api.minimax.io/v1",
    "cn_zh": "https://api.minimaxi.com/v1",
}
_STATUSES: Final = {1002: 429, 1041: 429, 1004: 401, 2049: 401, 1008: 402, 2056: 402}
"""MiniMax's own error codes and the HTTP status that means the same."""
_HAS_SWITCH: Final = re.compile(r"minimax-m(?:[3-9]|\d\d)")
"""Models whose thinking can be turned on and off; MiniMax-M2 always thinks."""
_BY_ITSELF: Final = "default"
_MAY_PASS: Final = {1000, 1001, 1013, 1024, 1033}


class MiniMaxChat:
    """A model of MiniMax."""

    key_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_MINIMAX_API_KEY", "MINIMAX_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_MINIMAX_BASE_URL", "MINIMAX_BASE_URL")
    key_required: ClassVar[bool] = True
    default_url: ClassVar[str] = ""
    """That of the region."""
    takes_shared_effort: ClassVar[bool] = False

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as `MINIMAX_*` variables or our defaults for MiniMax say."""
        return filled(settings, "MINIMAX", name="MiniMax-M3", temperature=0.7, max_tokens=8000)

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Remote:
        """A model ready to be asked."""
        settings = cls.settle(settings)
        if settings.effort:
            raise ConfigError(
                f"minimax_chat has no reasoning effort; remove it from the {settings.role} model "
                "and see model.minimax_enable_thinking"
            )
        url = address(settings.base_url.strip() or REGIONS[_region(settings)], COMPLETIONS)
        hint = key_hint(settings, names_for(settings.role, cls.key_variables))
        if settings.api_key is None:
            raise AccessError(f"backend minimax_chat needs a key; set {hint}")
        key = checked(Key(settings.api_key), url, hint)
        thinking = _thinking(settings)
        sent = {} if thinking == _BY_ITSELF else {"thinking": {"type": thinking}}
        dialect = Completions(
            settings,
            "max_completion_tokens",
            able=("tools", "images"),
            thinks_aloud=True,
            additions={**sent, "reasoning_split": True},
        )
        line = Connection(http, url, key, hint)
        return Remote.of("minimax_chat", settings, MiniMax(dialect), line, f"thinking={thinking}")


@dataclass(frozen=True, slots=True)
class MiniMax:
    """Chat completions as MiniMax speaks it."""

    usual: Completions

    def body(self, request: Request) -> dict[str, object]:
        """What is sent."""
        if request.effort or request.tool_choice != "auto":
            what = "a reasoning effort" if request.effort else "a choice of tools"
            raise Refused(f"MiniMax does not support {what}")
        return self.usual.body(request)

    def reply(self, data: Json) -> Reply:
        """Take an answer apart; an error may come with the status of a good answer."""
        match data:
            case {"base_resp": {"status_code": int(code), **told}} if code != 0:
                status = 503 if code in _MAY_PASS else _STATUSES.get(code, 400)
                raise ErrorReply(
                    status, f"{told.get('status_msg', 'no reason given')} (code {code})"
                )
            case _:
                return self.usual.reply(data)


def _region(settings: ModelSettings) -> str:
    given = settings.extra.get("region") or variable(settings, "MINIMAX_REGION", one_of(*REGIONS))
    return given if isinstance(given, str) else "global_en"


def _thinking(settings: ModelSettings) -> str:
    """What is sent of it: what was asked for; unasked, M3 is told not to and others nothing."""
    given = settings.extra.get("enable_thinking")
    if not isinstance(given, bool):
        given = variable(settings, "MINIMAX_ENABLE_THINKING", yes_or_no)
    always = settings.name.lower().startswith("minimax-m2")
    if given is None or always:
        return "disabled" if _HAS_SWITCH.match(settings.name.lower()) else _BY_ITSELF
    return "adaptive" if given else "disabled"
