"""Default output folders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt.config.schema import Config, Role
from skillopt.core.chat import Model


def out_root(config: Config, kind: str, role: Role, identity: Mapping[str, str]) -> Path:
    """As configured, or named after the settings, so that the same command finds it again."""
    if config.env.out_root:
        return Path(config.env.out_root).expanduser()
    return Path("outputs") / default_name(config, kind, role, identity)


def default_name(config: Config, kind: str, role: Role, identity: Mapping[str, str]) -> str:
    """A folder's name after the settings."""
    listed = "\n".join(f"{key}={value}" for key, value in sorted(identity.items()))
    name = f"{kind}_{config.env.name}_{config.model.role(role).model}_{short(listed)}"
    return re.sub(r"[^\w.-]+", "-", name)


def seats(
    config: Config, own: Mapping[Role, Model], roles: Sequence[Role] = ("target", "optimizer")
) -> dict[str, str]:
    """Who plays which role, as far as it is known before a model is connected."""
    found: dict[str, str] = {}
    for name in roles:
        role = config.model.role(name)
        usual = (role.backend, role.model, role.temperature, role.max_tokens, role.reasoning_effort)
        found[name] = own[name].fingerprint if name in own else "/".join(map(str, usual))
    return found


def short(text: str) -> str:
    """A name for a text, short enough for people."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
