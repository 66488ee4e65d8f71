"""Where results are kept when the user names no place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from skillopt.config.schema import Config


def out_root(config: Config, kind: str, model: str, identity: Mapping[str, str]) -> Path:
    """As configured, or named after the settings, so that the same command finds it again."""
    if config.env.out_root:
        return Path(config.env.out_root).expanduser()
    listed = "\n".join(f"{key}={value}" for key, value in sorted(identity.items()))
    name = f"{kind}_{config.env.name}_{model}_{short(listed)}"
    return Path("outputs") / re.sub(r"[^\w.-]+", "-", name)


def short(text: str) -> str:
    """A name for a text, short enough for people."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
