"""Classifies error messages of programs: the cause, and whether to retry."""

from __future__ import annotations

import re
from collections.abc import Collection

from skillopt.errors import AccessError, ModelError, Refused
from skillopt.model.credentials import SECRET_LENGTH
from skillopt.model.failures import QUOTED

_TOO_LONG = re.compile(r"(?i)too long|context (length|window)|maximum context|too many tokens")
_LATER = re.compile(r"(?i)rate.?limit|overload|too many requests|\b(429|5\d\d)\b|try again later")
_SPENT = re.compile(r"(?i)usage limit|hit your limit|quota|credit|billing|premium requests")
_LOGIN = re.compile(
    r"(?i)log(ged)?[ -]?in|sign in|unauthori[sz]ed|authenticat|api key|oauth|\b40[13]\b|token"
)
_MODEL = re.compile(
    r"(?i)model\b.{0,80}\b(not|unknown|unsupported|invalid)|\b(unknown|invalid|unsupported) model"
)


def classify(
    words: str, who: str, login: str, secrets: Collection[str]
) -> ModelError | AccessError:
    """The error that a program's own words stand for."""
    said = _short(words, secrets)
    told = f' (it says: "{said}")' if said else ""
    if _TOO_LONG.search(words):
        return Refused(f"{who} refused the request{told}")
    if _SPENT.search(words):
        return AccessError(
            f"{who}: its usage limit is reached; wait until it resets, then run the same "
            f"command again{told}"
        )
    if _LATER.search(words):
        return ModelError(f"{who} is busy{told}", retryable=True)
    if _MODEL.search(words):
        return AccessError(f"{who}: model unknown; check its name{told}")
    if _LOGIN.search(words):
        return AccessError(f"{who}: not logged in; {login}{told}")
    return ModelError(f"{who} failed{told}", retryable=True)


def _short(words: str, secrets: Collection[str]) -> str:
    for secret in secrets:
        if len(secret) >= SECRET_LENGTH:
            words = words.replace(secret, "[key]")
    said = " ".join(words.split())
    return said if len(said) <= QUOTED else f"{said[:QUOTED]}…"
