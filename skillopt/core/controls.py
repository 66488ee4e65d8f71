"""Control characters in content, shown instead of obeyed by a terminal."""

from __future__ import annotations

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
