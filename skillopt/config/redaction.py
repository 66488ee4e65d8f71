"""Secrets recognised by their look."""

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
            r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        )
    )
    + r")"
)
_PRIVATE: Final = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM: Final = re.compile(
    rf"-----BEGIN {_PRIVATE}"
    # A key that was cut off has no end mark: its body is whatever still looks like base64.
    rf"(?:.*?-----END {_PRIVATE}|[A-Za-z0-9+/=\s\\:,-]*)"
    rf"|(?:[A-Za-z0-9+/=]{{16,}}(?:\s|\\[nr])+)+-----END {_PRIVATE}",
    re.DOTALL,
)
_AFTER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',}]+",
        # Our own complaint about such a setting is no secret.
        r"(?i)((?<![A-Za-z0-9])api[-_]key[\"']?\s*[:=]\s*(?!should be )[\"']?)[^\s\"',}&]+",
        r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}",
        # `Basic` is also an English word: what follows must look encoded.
        r"(?i)(\bbasic\s+)(?=\S*(?:[0-9=+/]|(?-i:[a-z][A-Z])))[A-Za-z0-9+/=]{8,}",
        r"(?i)(\bsig=)[A-Za-z0-9%+/=_-]{8,}",
        r"(?i)(\b(?:Account|SharedAccess)Key=)[^;\s\"']+",
    )
)
_URL_PASSWORD: Final = re.compile(r"(?i)([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/]+@")
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:(?:api|access|account|private)[-_]?key|token|secret|password|passwd|credentials?)\Z"
)


def redact(text: str) -> str:
    """The text without anything that looks like a secret."""
    text = _PEM.sub(HIDDEN, text)
    text = _URL_PASSWORD.sub(rf"\1{HIDDEN}@", text)
    text = _TOKENS.sub(HIDDEN, text)
    for pattern in _AFTER:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text


def names_secret(key: str) -> bool:
    """Whether a setting of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.search(key) is not None
