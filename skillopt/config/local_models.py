"""Default settings for a small local model, where the user set none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from skillopt.config.given import GivenValue, read
from skillopt.config.schema import Config
from skillopt.core.wording import counted

ORIGIN: Final = "chosen for a local model"
_MODEL: Final = "qwen2.5-coder-1.5b"
_MAX_TOKENS: Final = 256
_TOLD: Final = 4
"""Settings that are told by name."""
_OPTIMIZER: Final[Mapping[str, object]] = {
    "gradient.proposer": ["instruct", "patterns"],
    "optimizer.select_mode": "trial",
    "gradient.samples": 2,
    "gradient.merge_mode": "union",
    "train.num_epochs": 1,
    "train.batch_size": 24,
    "optimizer.learning_rate": 6,
    "optimizer.min_learning_rate": 6,
    "optimizer.use_slow_update": False,
    "optimizer.use_meta_skill": False,
}
"""What a small optimizer needs; configs/presets/local.yaml says why."""


def local_defaults(config: Config) -> dict[str, GivenValue]:
    """Settings for the roles that a local model plays; none for a key that was given."""
    given = config.given
    roles = [name for name in ("target", "optimizer") if config.model.role(name).backend == "local"]
    named = [read(given[key].value) for role in roles if (key := f"model.{role}") in given]
    wanted: dict[str, object] = {f"model.{role}": (*named, _MODEL)[0] for role in roles}
    if "optimizer" in roles:
        wanted |= _OPTIMIZER
    if "model.max_tokens" not in given:
        wanted |= {f"model.{role}_max_tokens": _MAX_TOKENS for role in roles}
    return {key: GivenValue(value, ORIGIN) for key, value in wanted.items() if key not in given}


def told_defaults(config: Config) -> str:
    """What was chosen, in one line; blank where nothing was."""
    chosen = [
        f"{key.partition('.')[2]}={_written(setting.value)}"
        for key, setting in config.given.items()
        if setting.origin == ORIGIN
    ]
    if not chosen:
        return ""
    more = f" and {counted(len(chosen) - _TOLD, 'more setting')}" if len(chosen) > _TOLD else ""
    return (
        f"small local model: using {', '.join(chosen[:_TOLD])}{more}; what you set yourself wins "
        "(`skillopt config` shows all)"
    )


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, cast('list[object]', value)))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
