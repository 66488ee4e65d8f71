"""Settings from the command line: `a.b=c`, and flat flags such as `--batch_size 8`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skillopt.config.given import GivenValue, merge
from skillopt.config.names import NAMES, resolve
from skillopt.config.redaction import redact, shown_value
from skillopt.config.yaml12 import read_value
from skillopt.errors import ConfigError


def flat_flags() -> Mapping[str, str]:
    """Every flat flag, without dashes, with the dotted key that it sets."""
    return NAMES


def read_overrides(overrides: Iterable[str]) -> dict[str, GivenValue]:
    """Settings from `key=value` texts; later ones win."""
    settings: dict[str, GivenValue] = {}
    wrong: list[str] = []
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = name.strip().split(".")
        if not equals or not all(parts):
            wrong.append(
                f"{redact(text)!r} is not an override; write key=value, as in train.num_epochs=2"
            )
            continue
        origin = f"command line ({name.strip()}={_hidden(parts[-1], value)})"
        settings = merge(settings, _setting(parts, read_value(value), origin))
    if wrong:
        raise ConfigError("\n".join(wrong))
    return settings


def read_flags(flags: Mapping[str, str]) -> dict[str, GivenValue]:
    """Settings from flags by their name, with `-` or `_`, without the leading dashes."""
    settings: dict[str, GivenValue] = {}
    for flag, text in flags.items():
        name = flag.lstrip("-").replace("-", "_")
        origin = f"command line (--{name} {_hidden(name, text)})"
        settings = merge(settings, _setting([name], read_value(text), origin))
    return settings


def read_values(values: Mapping[str, object]) -> dict[str, GivenValue]:
    """Settings from Python values by dotted or flat name."""
    settings: dict[str, GivenValue] = {}
    for name, value in values.items():
        settings = merge(settings, _setting(name.split("."), value, f"argument {name}"))
    return settings


def _setting(parts: Sequence[str], value: object, origin: str) -> dict[str, GivenValue]:
    if parts[0] == "env" and len(parts) > 2:
        for part in reversed(parts[2:]):
            value = {part: value}
        return {f"env.{parts[1]}": GivenValue(value, origin)}
    key = resolve(parts) if len(parts) <= 2 else None
    return {".".join(parts) if key is None else key: GivenValue(value, origin)}


def _hidden(name: str, value: str) -> str:
    text = shown_value(name, value.strip())
    return text if len(text) <= 60 else f"{text[:57]}..."
