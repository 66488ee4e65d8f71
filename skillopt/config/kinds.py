"""Types of values that several keys use."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from skillopt.config.redaction import is_variable_name


def _variable(name: str) -> str:
    # What looks like a key must not pass for a name, because names are shown in messages.
    if name and not is_variable_name(name):
        raise ValueError("should be the name of an environment variable, not the key itself")
    return name


Positive: TypeAlias = Annotated[int, Field(ge=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]
