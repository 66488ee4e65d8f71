"""Redaction as the settings want it.

What sessions hold and what models and programs say passes it on its way in, before it is written
anywhere that people look at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from skillopt.config.redaction import redact_personal
from skillopt.core.intake import change_texts, clean_text
from skillopt_sleep.settings import Settings

T = TypeVar("T")
Hide: TypeAlias = Callable[[str], str]


def redaction(settings: Settings) -> Hide:
    """Takes secrets and personal data out of a text, unless that is switched off."""
    return redact_personal if settings.redact else clean_text


def without_secrets(value: T, hide: Hide) -> T:
    """The same with all its texts redacted, however deep they are in tuples and records."""
    return cast("T", _changed(value, hide))


def new_text_redacted(text: str, known: str, hide: Hide) -> str:
    """A text with all lines redacted that are not in the one which it was made from."""
    old = {*known.splitlines()}
    runs = groupby(text.split("\n"), key=old.__contains__)
    return "\n".join(
        "\n".join(lines) if is_known else hide("\n".join(lines)) for is_known, lines in runs
    )


def _changed(value: Any, hide: Hide) -> Any:  # noqa: ANN401 - whatever a record holds
    if isinstance(value, str):
        return hide(value)
    if type(value) is tuple:
        return tuple(_changed(each, hide) for each in cast("tuple[object, ...]", value))
    if isinstance(value, BaseModel):
        return type(value).model_validate(change_texts(value.model_dump(mode="json"), hide))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: _changed(getattr(value, each.name), hide) for each in fields(value)}
        return replace(value, **changed)
    return value
