"""Characters in content that are not what they look like, or cannot be seen at all."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in range(0x20) if chr(code) not in "\n\t"}
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that make a terminal show text in another order than it is written."""
_ESCAPED: Final = _CONTROLS | {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_DIRECTIONS)
}


def escaped(text: str) -> str:
    """The text without what content may not do to a terminal.

    JSON escapes control characters by itself; for the others, this is the escape of JSON, too, so
    that a document that is printed stays the same.
    """
    return text.translate(_ESCAPED)


def one_line(text: str) -> str:
    """A name as it is shown in a line or a cell, whatever is in it."""
    return escaped(text.replace("\n", "\\n").replace("\t", "\\t"))


_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]+"
)
"""What Unicode calls default ignorable: soft hyphens, zero-width spaces, variation selectors."""


def folded(text: str) -> str:
    """One form for texts that look the same: without case, full width and invisible characters."""
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
