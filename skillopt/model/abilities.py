"""Features beyond text that a request may need, and the error if they are not supported."""

from __future__ import annotations

from typing import Literal, TypeAlias

from skillopt.core.chat import Request
from skillopt.errors import Refused

Ability: TypeAlias = Literal["tools", "images", "schema"]


def check_abilities(request: Request, who: str, *able: Ability) -> None:
    """Refuse a request that asks for more than text and these abilities."""
    asked: dict[Ability, bool] = {
        "tools": bool(request.tools),
        "images": any(message.images for message in request.messages),
        "schema": request.schema is not None,
    }
    for ability, wanted in asked.items():
        if wanted and ability not in able:
            words = "a schema for the reply" if ability == "schema" else ability
            raise Refused(f"{who} cannot handle {words}; choose another backend for this role")
