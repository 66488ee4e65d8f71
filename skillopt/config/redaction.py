"""Recognises secrets by their format."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[redacted]"

_HEAD: Final = r"(?<![A-Za-z0-9])"
_TOKENS: Final = re.compile(
    _HEAD
    + r"(?:"
    + r"|".join(
        (
            r"sk-[A-Za-z0-9_-]{8,}",
            r"[rs]k_(?:live|test)_[A-Za-z0-9]{8,}",
            r"gh[a-z]_[A-Za-z0-9]{16,}",
            r"github_pat_[A-Za-z0-9_]{16,}",
            r"glpat-[A-Za-z0-9_-]{8,}",
            r"hf_[A-Za-z0-9]{16,}",
            r"npm_[A-Za-z0-9]{16,}",
            r"ya29\.[A-Za-z0-9_-]{8,}",
            r"A(?:KIA|SIA)[A-Z0-9]{12,}",
            r"xox[a-z]-[A-Za-z0-9-]{8,}",
            # Also where it is cut off before its second part.
            r"eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)*",
        )
    )
    + r")"
)
_PRIVATE: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN: Final = re.compile(rf"-----BEGIN {_PRIVATE}")
_END: Final = re.compile(rf"-----END {_PRIVATE}")
# A key that was cut off has no end mark: its body is whatever still looks like base64.
_REST: Final = re.compile(r"[A-Za-z0-9+/=\s\\:,-]*")
_BREAK: Final = re.compile(r"((?:\s|\\[nr])+)")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=]*")
_SHORTEST_LINE: Final = 16
_AFTER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',}]+",
        # Our own complaint about such a setting is no secret, nor is what is hidden already.
        r"(?i)((?<![A-Za-z0-9])api[-_]key[\"']?\s*[:=]\s*"
        r"(?!should be |unknown key\b|\[redacted\][)\]]*(?:\s|\Z))[\"']?)[^\s\"',}&]+",
        r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}",
        # `Basic` is also an English word: what follows must look encoded.
        r"(?i)(\bbasic\s+)(?=\S*(?:[0-9=+/]|(?-i:[a-z][A-Z])))[A-Za-z0-9+/=]{8,}",
        r"(?i)(\bsig=)[A-Za-z0-9%+/=_-]{8,}",
        r"(?i)(\b(?:Account|SharedAccess)Key=)[^;\s\"']+",
    )
)
_URL_PASSWORD: Final = re.compile(r"(://[^\s/:@]*:)[^\s/]+@")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_DIGIT: Final = re.compile(r"[0-9]")
_LONG_WORD: Final = 16
_NAMES_VARIABLE: Final = re.compile(r"(?i)api[-_]?key[-_]?env\Z")
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:(?:api|access|account|private)[-_]?key|token|secret|password|passwd|credentials?)\Z"
)


def redact(text: str) -> str:
    """The text without anything that looks like a secret."""
    text = _without_private_keys(text)
    text = _URL_PASSWORD.sub(rf"\1{HIDDEN}@", text)
    text = _TOKENS.sub(HIDDEN, text)
    for pattern in _AFTER:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text


def _without_private_keys(text: str) -> str:
    """Whole PEM keys, and those of which the beginning or the end is missing."""
    kept: list[str] = []
    at = 0
    while end := _END.search(text, at):
        begin = _BEGIN.search(text, at, end.start())
        before = text[at : end.start() if begin is None else begin.start()]
        kept += [_without_last_lines(before) if begin is None else before, HIDDEN]
        at = end.end()
    while begin := _BEGIN.search(text, at):
        kept += [text[at : begin.start()], HIDDEN]
        rest = _REST.match(text, begin.end())
        at = rest.end() if rest else begin.end()
    return "".join([*kept, text[at:]])


def _without_last_lines(text: str) -> str:
    """A text without the lines of base64 at its end; the very last of them may be short."""
    pieces = _BREAK.split(text)
    if pieces[-1] == "":
        pieces = pieces[:-2]
    lines = 0
    while pieces and _ENCODED.fullmatch(pieces[-1]):
        if lines and len(pieces[-1]) < _SHORTEST_LINE:
            break
        lines += 1
        pieces = pieces[:-2]
    return "".join(pieces) + " " if lines else text


def is_variable_name(text: str) -> bool:
    """Whether a text can be the name of a variable, and does not look like a key itself.

    Names are capitals, in words that are not long or have no digits.
    """
    words = text.split("_")
    return (
        _VARIABLE.fullmatch(text) is not None
        and redact(text) == text
        and not any(len(word) >= _LONG_WORD and _DIGIT.search(word) for word in words)
    )


def names_secret(key: str) -> bool:
    """Whether a setting of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.search(key) is not None


def shown_value(key: str, text: str) -> str:
    """The value of a setting as a message may show it."""
    if names_secret(key) or (_NAMES_VARIABLE.search(key) and not is_variable_name(text)):
        return HIDDEN
    return redact(text)
