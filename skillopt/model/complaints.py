"""Classifies error messages of servers and gateways, whatever HTTP status they have.

Providers report the same few errors (a wrong key, an unknown model, an exhausted quota, an
unsupported parameter) with different statuses, codes and words. Codes take precedence over words,
and errors of a single request over errors of all requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from skillopt.model.provider import Json

Mistake: TypeAlias = Literal["request", "spent", "key", "model"]

_LOOKED_AT: Final = 1000
"""Characters of a message that are searched; what follows is often the request itself."""
_CODES: Final[Mapping[str, Mistake]] = {
    **dict.fromkeys(
        ("context_length_exceeded", "content_filter", "content_policy_violation"), "request"
    ),
    **dict.fromkeys(
        (
            "insufficient_quota",
            "insufficient_user_quota",
            "insufficient_balance",
            "billing_hard_limit_reached",
            "billing_not_active",
            "budget_exceeded",
            "exceeded_current_quota_error",
            "arrearage",
        ),
        "spent",
    ),
    **dict.fromkeys(
        (
            "invalid_api_key",
            "authentication_error",
            "invalid_authentication_error",
            "token_not_found_in_db",
            "no_db_connection",
            "expired_key",
        ),
        "key",
    ),
    **dict.fromkeys(
        (
            "model_not_found",
            "invalid_model",
            "key_model_access_denied",
            "team_model_access_denied",
        ),
        "model",
    ),
}
_WORDS: Final[tuple[tuple[Mistake, re.Pattern[str]], ...]] = (
    (
        "request",
        re.compile(
            r"maximum context|context (?:length|window|size)|too long|too many tokens"
            r"|content.?filter|content.?policy|moderation|flagged"
        ),
    ),
    (
        "spent",
        re.compile(
            r"budget has been exceeded|exceeded ?budget|exceeded budget|over budget|crossed budget"
            r"|exceeded your current quota|balance is too low|余额不足"
            r"|(?:insufficient|not enough|out of) (?:\w+ )?(?:quota|balance|credit|fund)"
        ),
    ),
    (
        "key",
        re.compile(
            r"(?:invalid|incorrect|missing|expired|wrong|unknown|no) (?:x-)?(?:api|auth\w*|access)"
            r"[ _-](?:key|token|credential)|api key (?:not|is not|isn't|expired|has expired)"
            r"|no connected db|proxy server token|authentication error|unauthori[sz]ed"
        ),
    ),
    (
        "model",
        re.compile(
            r"(?:invalid|unknown|unsupported|no such) model|not a valid model|no models? loaded"
            r"|there is no 'model_name'|access to (?:the )?model"
            r"|\bmodel\b[^.\n]{0,80}(?:not exist|not found|not available|is not a valid)"
        ),
    ),
)
_LATER: Final = re.compile(r"try (?:again|your request again) in|retry in \d|retrydelay|per[ -]min")
"""A quota that is filled again soon is a rate limit, whatever it is called."""


def mistake_in(error: Json, message: str) -> Mistake | None:
    """What is wrong, if it is one of the common mistakes: `request` concerns this request alone."""
    if isinstance(error, dict):
        for name in ("code", "type"):
            code = error.get(name)
            if isinstance(code, str) and (known := _CODES.get(code.lower())):
                # Some gateways answer everything with one code; then only the words tell.
                return _by_words(message) or known if known == "key" else known
    return _by_words(message)


def _by_words(message: str) -> Mistake | None:
    said = message[:_LOOKED_AT].lower()
    for mistake, words in _WORDS:
        if words.search(said) and not (mistake == "spent" and _LATER.search(said)):
            return mistake
    return None


_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_SETTINGS: Final[Mapping[str, str]] = {
    "reasoning_effort": '{role}_reasoning_effort: "" sends none',
    "reasoning.effort": '{role}_reasoning_effort: "" sends none',
    "output_config": '{role}_reasoning_effort: "" sends none',
    "effort": '{role}_reasoning_effort: "" sends none',
    "reasoning": '{role}_reasoning_effort: "" sends none',
    "temperature": "{role}_temperature, or model.temperature: leave it out, or set the value that "
    "the server names",
    "chat_template_kwargs": "qwen_chat_thinking_mode: server_default sends none",
    "enable_thinking": "qwen_chat_thinking_mode: server_default sends none",
    "thinking": "claude_chat_thinking or model.minimax_enable_thinking: leave it out",
    **dict.fromkeys(
        _LIMITS,
        "{role}_max_tokens (and model.max_tokens); a server that wants the limit under another "
        "name needs another backend: openai_chat sends max_completion_tokens, openai_compatible "
        "max_tokens",
    ),
}
"""Parameters as they are sent, and the setting that each of them comes from."""
_NAMED: Final = re.compile(
    rf"(?<![\w.])({'|'.join(map(re.escape, sorted(_SETTINGS, key=len, reverse=True)))})(?![\w])"
)
_COMPLAINS: Final = re.compile(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|extra inputs"
    r"|not permitted|not allowed|only the default|invalid|deprecated|must be|should be|not accept"
    r"|too large|extra_forbidden"
)


def parameter_in(error: Json, message: str) -> str | None:
    """The parameter of ours that a server complains of, as it is sent; None when it names none."""
    said = message[:_LOOKED_AT]
    if not _COMPLAINS.search(said.lower()):
        return None
    match error:
        case {"param": str(name)} if name in _SETTINGS:
            return name
        case _:
            found = _NAMED.search(said)
            return found.group(1) if found else None


def advice(parameter: str, role: str) -> str:
    """The setting to look at."""
    return f"check model.{_SETTINGS[parameter].format(role=role)}"


def of_one_request(parameter: str) -> bool:
    """Whether another request may still pass with the same settings: a limit goes with a length."""
    return parameter in _LIMITS
