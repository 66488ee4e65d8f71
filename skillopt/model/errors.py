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

from skillopt.core.intake import ERROR_BYTES, clean_text
from skillopt.errors import AccessError, ModelError, Refused
from skillopt.model.credentials import Credentials, Key
from skillopt.model.provider import HttpAnswer, Json

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


QUOTED = 300
"""Characters of a server's own words that an error repeats."""

_WAITING_HELPS = {408, 409, 425, 429}
_NO_CREDIT = "credit or quota exhausted; raise it, then run the same command again"
_UNKNOWN_MODEL = "model or path unknown; check the model's name and base_url"
_TAG = re.compile(r"<[^<>]*>")


class Unreachable(ModelError):
    """No answer came at all: refused, dropped, or silent past the deadline. Retryable."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class Down(ModelError):
    """The server answers that it cannot answer: a status from 500 up. Retryable."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retryable=True, retry_after=retry_after)


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf we called, for messages. What it says never holds the secret."""

    who: str
    """Role, model and address in words."""
    key_hint: str
    """What to check when the key is refused."""
    credentials: Credentials = field(default_factory=Key)
    role: str = "target"
    """As settings begin that concern only this model."""

    def say(self, what: str) -> str:
        """A message on one line."""
        return self.credentials.hide(f"{self.who}: {what}")

    def quote(self, answer: HttpAnswer) -> str:
        """The server's own words, short enough for a line; blank when it has none."""
        words = " ".join(_TAG.sub(" ", _server_message(answer)).split())
        said = self.credentials.hide(words)
        return said if len(said) <= QUOTED else f"{said[:QUOTED]}…"


def place(url: str) -> str:
    """An address fit for messages: without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def classify(answer: HttpAnswer, caller: Caller) -> ModelError | AccessError:
    """The error that an answer other than 200 stands for."""
    status = answer.status
    said = caller.quote(answer)
    told = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if problem := _no_access(answer, caller):
        return AccessError(caller.say(f"{problem} ({told})"))
    if status in _WAITING_HELPS or status >= 500:
        after = retry_after(answer.headers)
        if status >= 500:
            return Down(caller.say(told), after)
        return ModelError(caller.say(told), retryable=True, retry_after=after)
    parameter = _parameter(answer)
    if parameter is None:
        return Refused(caller.say(f"the server refused the request ({told})"))
    what = f"the server does not take {parameter!r}; {advice(parameter, caller.role)} ({told})"
    return (Refused if of_one_request(parameter) else AccessError)(caller.say(what))


def _no_access(answer: HttpAnswer, caller: Caller) -> str | None:
    """Why no further call can succeed either; None when one may."""
    denied = f"access denied; check {caller.key_hint}"
    match answer.status:
        case 402:
            return _NO_CREDIT
        case 404 | 405:
            return _UNKNOWN_MODEL
        case status if 300 <= status < 400:
            return "the server redirects; set base_url to the address it redirects to"
        case status if status >= 500 or _parameter(answer) is not None:
            return None
        case status:
            mistake = mistake_in(_error(answer), _server_message(answer))
    usual = denied if status in (401, 403) else None
    # A rate limit may mention the key and the model that it is for.
    meanings: dict[Mistake | None, str | None] = {
        "spent": _NO_CREDIT,
        "model": None if status == 429 else _UNKNOWN_MODEL,
        "key": None if status == 429 else denied,
        "request": denied if status == 401 else None,
    }
    return meanings.get(mistake, usual)


def _parameter(answer: HttpAnswer) -> str | None:
    if answer.status not in (400, 422):
        return None
    message = _server_message(answer)
    if mistake_in(_error(answer), message) == "request":
        return None
    return parameter_in(_error(answer), message)


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


def _server_message(answer: HttpAnswer) -> str:
    """The server's own words, cut to a length that can be searched."""
    match _error(answer):
        case {"message": str(message)} if message.strip():
            return message[:ERROR_BYTES]
        case str(message) if message.strip():
            return message[:ERROR_BYTES]
        case _:
            return clean_text(answer.body[:ERROR_BYTES].decode("utf-8", "replace"))


def _error(answer: HttpAnswer) -> Json:
    """The `error` member of a JSON body, or the body itself where it has none."""
    try:
        data = answer.json()
    except ValueError:
        return None
    match data:
        case {"error": error} | [{"error": error}, *_]:
            return error
        case _:
            return data
