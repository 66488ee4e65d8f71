"""Environment variables and the `.env` file: the only place that reads either."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from skillopt.config.redaction import HIDDEN, names_secret, redact
from skillopt.errors import ConfigError

_SHORTEST: Final = 8
"""A shorter value is not hidden: it would be found inside ordinary words."""

_QUOTED: Final = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_PIECE: Final = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s'"]+)""", re.DOTALL
)
_LINE: Final = re.compile(
    rf"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?:(?P<quoted>(?:{_QUOTED})(?:{_QUOTED}|[^\s'"])*)|(?P<bare>[^\r\n]*))""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {
    "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`",
}  # fmt: skip


class Secrets:
    """Variables of the environment; what was fetched as a secret can be hidden in any text."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self._fetched: set[str] = set()

    @classmethod
    def load(cls, start: Path | None = None) -> Secrets:
        """The process's own variables and, where they are silent, the nearest `.env` file.

        The file is looked for in `start` (default: the current directory) and upwards, as far as
        the root of a Git repository.
        """
        file = _find(Path.cwd() if start is None else start)
        return cls({**(_read(file) if file else {}), **os.environ})

    def __repr__(self) -> str:
        return f"Secrets({len(self._variables)} variables)"

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set and not blank; its value is a secret."""
        value = self.setting(*names)
        if value is not None and len(value) >= _SHORTEST:
            self._fetched |= {value, quote(value, safe=""), json.dumps(value)[1:-1]}
        return value

    def setting(self, *names: str) -> str | None:
        """As `get`, for a value that may be shown, such as an address."""
        values = (self._variables.get(name, "").strip() for name in names)
        return next((value for value in values if value), None)

    def harmless(self) -> dict[str, str]:
        """The variables for a child process that needs no secret: all that do not look like one."""
        return {
            name: value
            for name, value in self._variables.items()
            if not names_secret(name) and value not in self._fetched and redact(value) == value
        }

    def redact(self, text: str) -> str:
        """The text without any secret that was fetched and without what looks like one."""
        for value in sorted(self._fetched, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return redact(text)


def parse_env(text: str) -> dict[str, str]:
    """The variables of a `.env` file; lines that set nothing are passed over."""
    return dict(_variables(text))


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for found in _LINE.finditer(text):
        if (quoted := found["quoted"]) is not None:
            yield found["name"], "".join(map(_value, _PIECE.finditer(quoted)))
        else:
            yield found["name"], re.sub(r"(?:^|\s)#.*", "", found["bare"]).strip()


def _value(piece: re.Match[str]) -> str:
    if (double := piece["double"]) is not None:
        return re.sub(r"\\(.)", _unescape, double, flags=re.DOTALL)
    return piece["single"] or piece["plain"] or ""


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0])


def _find(start: Path) -> Path | None:
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / ".env").is_file():
            return folder / ".env"
        if (folder / ".git").exists():
            return None
    return None


def _read(file: Path) -> dict[str, str]:
    try:
        return parse_env(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8; save the file as UTF-8") from None
