"""What an error answer means: its cause, whether to ask again, which setting to look at."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from skillopt.core.intake import ERROR_BYTES, Json, clean_text, read_json
from skillopt.errors import AccessError, ModelError, NoTools, Refused, TooLong
from skillopt.model.credentials import ApiKey, Credentials
from skillopt.model.provider import HttpAnswer

Mistake: TypeAlias = Literal["request", "spent", "key", "model"]
"""What is commonly wrong; `request` concerns this request alone."""

QUOTED: Final = 300
"""Characters of a server's own words that an error repeats."""
_LOOKED_AT: Final = 1000
"""Characters of a message that are searched; what follows is often the request itself."""
_CODES: Final[Mapping[Mistake, str]] = {
    "request": "context_length_exceeded content_filter content_policy_violation",
    "spent": "insufficient_quota insufficient_user_quota insufficient_balance arrearage "
    "billing_hard_limit_reached billing_not_active budget_exceeded exceeded_current_quota_error",
    "key": "invalid_api_key authentication_error invalid_authentication_error expired_key "
    "token_not_found_in_db no_db_connection",
    "model": "model_not_found invalid_model key_model_access_denied team_model_access_denied",
}
_MEANING: Final[Mapping[str, Mistake]] = {
    code: mistake for mistake, codes in _CODES.items() for code in codes.split()
}
_WORDS: Final[Mapping[Mistake, re.Pattern[str]]] = {
    "request": re.compile(
        r"maximum context|context (?:length|window|size)|too long|too many tokens"
        r"|content.?filter|content.?policy|moderation|flagged"
    ),
    "spent": re.compile(
        r"budget has been exceeded|exceeded ?budget|exceeded budget|over budget|crossed budget"
        r"|exceeded your current quota|balance is too low|余额不足"
        r"|(?:insufficient|not enough|out of) (?:\w+ )?(?:quota|balance|credit|fund)"
    ),
    "key": re.compile(
        r"(?:invalid|incorrect|missing|expired|wrong|unknown|no) (?:x-)?(?:api|auth\w*|access)"
        r"[ _-](?:key|token|credential)|api key (?:not|is not|isn't|expired|has expired)"
        r"|no connected db|proxy server token|authentication error|unauthori[sz]ed"
    ),
    "model": re.compile(
        r"(?:invalid|unknown|unsupported|no such) model|not a valid model|no models? loaded"
        r"|there is no 'model_name'|access to (?:the )?model"
        r"|\bmodel\b[^.\n]{0,80}(?:not exist|not found|not available|is not a valid)"
    ),
}
_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|maximum context|context (?:length|window|size)|too long"
    r"|too many tokens"
)
_NO_TOOLS: Final = re.compile(
    r"(?:not|n't) support (?:\w+ ){0,2}(?:tool|function)|support tool use"
    r"|(?:tools?|functions?|tool.choice)[^.\n]{0,30} (?:not|n't) supported"
    r"|enable-auto-tool-choice"
)
_LATER: Final = re.compile(r"try (?:again|your request again) in|retry in \d|retrydelay|per[ -]min")
"""A quota that is filled again soon is a rate limit, whatever it is called."""

_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""Parameters that another request may still pass with: a limit goes with a length."""
_SETTINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("reasoning_effort", "reasoning.effort", "output_config", "effort", "reasoning"),
        '{role}_reasoning_effort: "" sends none',
    ),
    "temperature": "{role}_temperature, or model.temperature: leave it out, or set the value that "
    "the server names",
    **dict.fromkeys(
        ("chat_template_kwargs", "enable_thinking"),
        "qwen_chat_thinking_mode: server_default sends none",
    ),
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
_WAITING_HELPS: Final = {408, 409, 425, 429}
_NO_CREDIT: Final = "credit or quota exhausted; raise it, then run the same command again"
_UNKNOWN_MODEL: Final = "model or path unknown; check the model's name and base_url"
_TAG: Final = re.compile(r"<[^<>]*>")


class Unreachable(ModelError):
    """No answer came at all: refused, dropped, or silent past the deadline. Retryable."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class Down(ModelError):
    """The server answers that it cannot answer: a status from 500 up. Retryable."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retryable=True, retry_after=retry_after)


class RateLimited(ModelError):
    """The server was asked too often. Retryable."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retryable=True, retry_after=retry_after)


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf we called, for messages. What it says never holds the secret."""

    who: str
    """Role, model and address in words."""
    key_hint: str
    """What to check when the key is refused."""
    credentials: Credentials = field(default_factory=ApiKey)
    role: str = "target"
    """As settings begin that concern only this model."""

    def say(self, what: str) -> str:
        """A message on one line."""
        return self.credentials.hide(f"{self.who}: {what}")

    def quote(self, answer: HttpAnswer) -> str:
        """The server's own words, short enough for a line; blank when it has none."""
        words = " ".join(_TAG.sub(" ", _complaint(answer)[1]).split())
        return shortened(self.credentials.hide(words))


def shortened(words: str) -> str:
    """As much of somebody's words as an error repeats."""
    return words if len(words) <= QUOTED else f"{words[:QUOTED]}…"


def place(url: str) -> str:
    """An address fit for messages: without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def classify(answer: HttpAnswer, caller: Caller) -> ModelError | AccessError:
    """The error that an answer other than 200 stands for."""
    status = answer.status
    said = caller.quote(answer)
    quoted = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    error, message = _complaint(answer)
    mistake = _mistake(error, message)
    refusable = status in (400, 422) and mistake != "request"
    parameter = _parameter(error, message) if refusable else None
    if problem := _no_access(status, mistake, parameter, caller):
        return AccessError(caller.say(f"{problem} ({quoted})"))
    if status in _WAITING_HELPS or status >= 500:
        after = retry_after(answer.headers)
        if status >= 500:
            return Down(caller.say(quoted), after)
        if status == 429:
            return RateLimited(caller.say(quoted), after)
        return ModelError(caller.say(quoted), retryable=True, retry_after=after)
    if parameter is None:
        kind = _refusal(
            f"{error if isinstance(error, dict) else ''} {message}"[:_LOOKED_AT].lower()
        )
        return kind(caller.say(f"the server refused the request ({quoted})"))
    advice = f"check model.{_SETTINGS[parameter].format(role=caller.role)}"
    what = f"the server does not take {parameter!r}; {advice} ({quoted})"
    return (Refused if parameter in _LIMITS else AccessError)(caller.say(what))


def _refusal(said: str) -> type[Refused]:
    if _TOO_LONG.search(said):
        return TooLong
    return NoTools if _NO_TOOLS.search(said) else Refused


def _no_access(
    status: int, mistake: Mistake | None, parameter: str | None, caller: Caller
) -> str | None:
    """Why no further call can succeed either; None when one may."""
    denied = f"access denied; check {caller.key_hint}"
    fixed = {402: _NO_CREDIT, 404: _UNKNOWN_MODEL, 405: _UNKNOWN_MODEL}
    if status in fixed:
        return fixed[status]
    if 300 <= status < 400:
        return "the server redirects; set base_url to the address it redirects to"
    if status >= 500 or parameter is not None:
        return None
    meanings: dict[Mistake | None, str | None] = {
        "spent": _NO_CREDIT,
        # A rate limit may mention the key and the model that it is for.
        "model": None if status == 429 else _UNKNOWN_MODEL,
        "key": None if status == 429 else denied,
        "request": denied if status == 401 else None,
        None: denied if status in (401, 403) else None,
    }
    return meanings[mistake]


def _mistake(error: Json, message: str) -> Mistake | None:
    by_words = _mistake_by_words(message[:_LOOKED_AT].lower())
    if isinstance(error, dict):
        for name in ("code", "type"):
            code = error.get(name)
            if isinstance(code, str) and (mistake := _MEANING.get(code.lower())):
                # Some gateways answer everything with one code; then only the words tell.
                return by_words if by_words and mistake == "key" else mistake
    return by_words


def _mistake_by_words(said: str) -> Mistake | None:
    for mistake, words in _WORDS.items():
        if words.search(said) and not (mistake == "spent" and _LATER.search(said)):
            return mistake
    return None


def _parameter(error: Json, message: str) -> str | None:
    """The parameter of ours that a server complains of, as it is sent; None when it names none."""
    said = message[:_LOOKED_AT]
    if not _COMPLAINS.search(said.lower()):
        return None
    match error:
        case {"param": str(name)} if name in _SETTINGS:
            return name
        case _:
            named = _NAMED.search(said)
            return named.group(1) if named else None


def _complaint(answer: HttpAnswer) -> tuple[Json, str]:
    """The `error` member of a body, or all of it, and the message in it, cut to be searched."""
    try:
        error = read_json(answer.body)
    except ValueError:
        error = None
    match error:
        case {"error": inner} | [{"error": inner}, *_]:
            error = inner
        case _:
            pass
    match error:
        case {"message": str(message)} | str(message) if message.strip():
            return error, message[:ERROR_BYTES]
        case _:
            return error, clean_text(answer.body[:ERROR_BYTES].decode("utf-8", "replace"))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait; a date is read against the server's own clock."""
    sent = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(sent.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = sent.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    until = _timestamp(asked)
    if until is None:
        return None
    now = _timestamp(sent.get("date"))
    return max(0.0, until - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _timestamp(text: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()
