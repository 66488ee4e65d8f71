"""Fields of what programs wrote down: of any type, or not there at all."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from skillopt.config.secrets import with_variables
from skillopt.core.intake import Json

_FRACTION: Final = re.compile(r"\.(\d+)")


def dig(value: Json, *keys: str | int) -> Json:
    """What stands there in nested data; None where nothing does."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def text_at(value: Json, *keys: str | int) -> str:
    found = dig(value, *keys)
    return found if isinstance(found, str) else ""


def list_at(value: Json, *keys: str | int) -> list[Json]:
    found = dig(value, *keys)
    return found if isinstance(found, list) else []


def texts_in(content: Json, *kinds: str) -> str:
    """The text of a message: it is a string, or blocks with `text` of one of these kinds."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(
        text
        for block in blocks
        if (isinstance(block, dict) and (not kinds or block.get("type") in kinds))
        and (text := text_at(block, "text"))
    )


def utc(value: Json) -> datetime | None:
    """A time as programs write it: ISO 8601, or seconds, milliseconds or more since 1970.

    A time without a zone is UTC: that is what SQLite and these programs write.
    """
    try:
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int | float):
            while abs(value) > 1e11:
                value /= 1000
            return datetime.fromtimestamp(value, timezone.utc)
        if not isinstance(value, str):
            return None
        if re.fullmatch(r"\d{9,16}(?:\.\d+)?", value):
            return utc(float(value))
        whole = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", value.strip(), count=1)
        found = datetime.fromisoformat(re.sub(r"[zZ]\Z", "+00:00", whole))
        zoned = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return zoned.astimezone(timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


VARIABLES: Final = {
    "claude_home": "CLAUDE_CONFIG_DIR",
    "codex_home": "CODEX_HOME",
    "copilot_home": "COPILOT_HOME",
    "cursor_home": "CURSOR_CONFIG_DIR",
    "openclaw_home": "OPENCLAW_STATE_DIR",
}
"""Settings with the variables by which programs are told the same."""
FURTHER_VARIABLES: Final = ("OPENCODE_DB", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "VSCODE_PORTABLE")
"""Others that decide where sessions are found."""


def home_folder(given: Path | None, variable: str, *usual: str) -> Path:
    """Where a program keeps its files: as set, or as its variable says, or the usual folder."""
    if given is not None:
        return given.expanduser()
    said = variable_of(variable)
    return Path(said) if said else Path.home().joinpath(*usual)


def variable_of(name: str) -> str:
    """The value of a variable of the environment; blank if it is not set."""
    said = with_variables(f"${name}") if name else ""
    return "" if said == f"${name}" else said


def path_of(address: str) -> str:
    """The path that a `file:` address stands for; anything else stays as it is."""
    if not address.startswith("file:"):
        return address
    try:
        path = unquote(urlsplit(address).path)
    except ValueError:
        return address
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path
