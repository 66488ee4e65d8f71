"""What describes a key beside its name: kinds of values, other names, how it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo

from skillopt.config.redaction import is_variable_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Stands in the annotation of a key: `Annotated[Count, Key(flat="edit_budget")] = 4`."""

    flat: str = ""
    """The flat name that users know, if it is not the key without its section."""
    also: tuple[str, ...] = ()
    """Other names, flat or with a section, that are understood and never written."""
    may_change: bool = False
    """Whether it may differ when a run is continued; documents and data are compared by content."""
    asks: bool = False
    """Whether a key of `model` is what is asked of a model; the others make the model, which has a
    fingerprint."""


def described(field: FieldInfo) -> Key:
    """What the annotation of a key says about it."""
    return next((about for about in field.metadata if isinstance(about, Key)), Key())


def _variable(name: str) -> str:
    # What looks like a key must not pass for a name, because names are shown in messages.
    if name and not is_variable_name(name):
        raise ValueError("should be the name of an environment variable, not the key itself")
    return name


Positive: TypeAlias = Annotated[int, Field(ge=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dollars: TypeAlias = Seconds
Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]
