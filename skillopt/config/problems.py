"""Checks values against a schema and describes errors as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from skillopt.config.given import NoOtherReading, Turn, read, turned, written
from skillopt.config.redaction import redact
from skillopt.config.yaml12 import meant
from skillopt.core.nearest import did_you_mean

T = TypeVar("T")

_WORDS = {
    "at least": "greater than or equal to",
    "at most": "less than or equal to",
    "above": "greater than",
    "a whole number": "a valid integer",
    "a number": "a valid number",
    "a text": "a valid string",
    "a list": "a valid list",
    "a mapping": "a valid dictionary",
}
"""Our words for pydantic's."""


def check(schema: TypeAdapter[T], values: Mapping[str, object]) -> T | dict[str, str]:
    """The values in the form of the schema, or what is wrong with each key.

    Where the schema wants text, a value that YAML reads otherwise counts as it was written. Where
    it wants a number or a switch, a text that is nothing else counts as one: '0.7' or 'false'.
    """
    try:
        return schema.validate_python(read(dict(values)))
    except ValidationError as error:
        details = error.errors(include_url=False)
    better = _otherwise(values, details)
    return _complaints(details) if better is None else check(schema, better)


_TURNS: Final[Mapping[str, Turn]] = {
    "string_type": written,
    "literal_error": written,
    "int_type": meant,
    "float_type": meant,
    "bool_type": meant,
}
"""What else a value may mean, by what the schema missed."""


def _otherwise(
    values: Mapping[str, object], details: list[ErrorDetails]
) -> dict[str, object] | None:
    """The values with one of them read otherwise."""
    # Deepest first: an item of a list is turned before the list as a whole is.
    for error in sorted(details, key=lambda error: len(error["loc"]), reverse=True):
        if (turn := _TURNS.get(error["type"])) is not None:
            with suppress(NoOtherReading):
                return cast("dict[str, object]", turned(dict(values), error["loc"], turn))
    return None


def _complaints(details: list[ErrorDetails]) -> dict[str, str]:
    sentences: dict[str, list[str]] = {}
    for error in details:
        sentence, place = _sentence(error), error["loc"]
        if not place:  # a rule of the settings as a whole, which begins with the key
            name, _, sentence = sentence.partition(" ")
            place = (name,)
        items = "".join(f"[{item}]" for item in place[1:] if isinstance(item, int))
        sentences.setdefault(f"{place[0]}{items}", []).append(sentence)
    return {key: ", or ".join(of_key) for key, of_key in sentences.items()}


def _sentence(detail: ErrorDetails) -> str:
    message = detail["msg"].replace("Input should be", "should be")
    match detail["type"]:
        case "missing":
            return "is needed and was not given"
        case "value_error":
            return message.removeprefix("Value error, ")
        case "string_too_short" | "too_short":
            return "should not be empty"
        case "literal_error" if " or " not in message:
            message = f"only {detail['ctx']['expected'] if 'ctx' in detail else ''} in this version"
        case "bool_type":
            message = "should be true or false"
        case _:
            for ours, theirs in _WORDS.items():
                message = message.replace(theirs, ours)
    return f"{message}, not {shown(detail['input'])}{_meant(detail)}"


def _meant(detail: ErrorDetails) -> str:
    """The allowed word that is nearest to what was given."""
    given: object = detail["input"]
    if detail["type"] != "literal_error" or not isinstance(given, str):
        return ""
    words = re.findall(r"'([^']+)'", str(detail.get("ctx", {}).get("expected", "")))
    hint = did_you_mean(given, words)
    return f"; {hint}" if hint else ""


def shown(value: object) -> str:
    """A value as a message may show it: short, and without secrets."""
    plain = isinstance(value, str)
    text = redact(repr(value) if plain else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 60 else f"{text[:57]}..."
