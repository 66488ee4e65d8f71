"""Puts one entry into a configuration file of another program, and takes it out again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.strict import RepeatedKey, different_keys

N = TypeVar("N", int, float)

_START: Final = "# >>> skillopt-sleep (managed) >>>"
_END: Final = "# <<< skillopt-sleep (managed) <<<"
_OURS: Final = re.compile(r"skillopt[_-]sleep")


class Entry(Protocol):
    """An entry of ours in a file of somebody else's. Both functions keep everything else."""

    def added(self, text: str) -> str:
        """The file with the entry.

        Raises:
            RefusedChange: The file cannot be read, or has another entry of the same name.
        """
        ...

    def removed(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """A value in a JSON file, under these keys."""

    keys: tuple[str, ...]
    value: object

    def added(self, text: str) -> str:
        snippet: object = self.value
        for key in reversed(self.keys):
            snippet = {key: snippet}
        document = _read(text, f"add this by hand: {json.dumps(snippet)}")
        place = document
        for key in self.keys[:-1]:
            inner = place.setdefault(key, {})
            if not isinstance(inner, dict):
                raise RefusedChange(f"{key!r} holds no object there")
            place = cast("dict[str, Any]", inner)
        if place.get(self.keys[-1], self.value) != self.value and not self._ours(place):
            raise RefusedChange(
                f"it has an entry {'.'.join(self.keys)} that is not ours; remove it first"
            )
        if place.get(self.keys[-1]) == self.value:
            return text
        place[self.keys[-1]] = self.value
        return _written(document, text)

    def removed(self, text: str) -> str:
        document = _read(text, f"remove the entry {'.'.join(self.keys)} by hand")
        places = [document]
        for key in self.keys[:-1]:
            inner: object = places[-1].get(key)
            if not isinstance(inner, dict):
                return text
            places.append(cast("dict[str, Any]", inner))
        if not self._ours(places[-1]):
            return text
        del places[-1][self.keys[-1]]
        for place, key in zip(reversed(places[:-1]), reversed(self.keys[:-1]), strict=True):
            if not place[key]:
                del place[key]
        return _written(document, text)

    def _ours(self, place: dict[str, Any]) -> bool:
        """Whether the entry starts our server, of this version or of another place."""
        return bool(_OURS.search(json.dumps(place.get(self.keys[-1], ""))))


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table at the end of a TOML file, between two marks."""

    name: str
    values: tuple[tuple[str, str | tuple[str, ...]], ...]

    def added(self, text: str) -> str:
        rest = self.removed(text)
        parent = self.name.partition(".")[0]
        if re.search(rf"^\s*\[\s*{re.escape(self.name)}\s*\]", rest, re.MULTILINE):
            raise RefusedChange(f"it has a table [{self.name}] that is not ours; remove it first")
        table = "".join(f"{key} = {_toml(value)}\n" for key, value in self.values)
        block = f"{_START}\n[{self.name}]\n{table}{_END}\n"
        gap = "\n" if rest and rest.endswith("\n") else "\n\n" if rest else ""
        made = rest + (gap + block).replace("\n", _newline(text))
        if re.search(rf"^\s*{parent}\s*=", rest, re.MULTILINE) or not _is_toml(made):
            raise RefusedChange(f"no table can be added to it; add this by hand:\n{block.rstrip()}")
        return text if _same(made, text) else made

    def removed(self, text: str) -> str:
        pattern = rf"\r?\n?{re.escape(_START)}.*?{re.escape(_END)}\r?\n?"
        return re.sub(pattern, "", text, flags=re.DOTALL)


def _integer(text: str) -> int:
    return _as_written(int(text), text)


def _fraction(text: str) -> float:
    return _as_written(float(text), text)


def _as_written(number: N, text: str) -> N:
    """A number that is written as it was read; others, such as 1.10 or 1e400, would change."""
    if (written := json.dumps(number)) != text:
        raise RefusedChange(f"its number {text} would become {written}")
    return number


def _constant(text: str) -> None:
    raise RefusedChange(f"it has {text}, which is no JSON")


def _toml(value: str | Sequence[str]) -> str:
    return json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)


def _is_toml(text: str) -> bool:
    if sys.version_info < (3, 11):
        return True
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    return one.split() == other.split()


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=different_keys,
    parse_int=_integer,
    parse_float=_fraction,
    parse_constant=_constant,
)


def _read(text: str, by_hand: str) -> dict[str, Any]:
    """The document in a file that can be written again without loss; else what to do by hand."""
    try:
        document: object = _STRICT.decode(text.strip()) if text.strip() else {}
    except RepeatedKey as error:
        raise RefusedChange(str(error)) from None
    except RefusedChange as error:
        raise RefusedChange(f"{error}; {by_hand}") from None
    except ValueError as error:
        raise RefusedChange(
            f"it is not plain JSON ({error}), and comments in it would be lost; {by_hand}"
        ) from None
    if not isinstance(document, dict):
        raise RefusedChange(f"it holds no object; {by_hand}")
    return cast("dict[str, Any]", document)


def mentions_us(data: bytes) -> bool:
    """Whether a file can have an entry of ours at all."""
    return _OURS.search(data.decode("utf-8", "replace")) is not None


def _written(document: object, text: str) -> str:
    """As the file was written: its indentation and its newlines."""
    found = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    indent = found[1] if found else "  "
    made = json.dumps(document, indent=indent, ensure_ascii=False)
    made += "\n" if not text or text.endswith("\n") else ""
    return made.replace("\n", _newline(text))
