"""The prompts: one Markdown file per question, which a file of the same name can replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.core.intake import PROMPT_BYTES, read_file
from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError

_PACKAGE = Path(__file__).parent.parent
_OURS = _PACKAGE / "optimizer" / "prompts"


@dataclass(frozen=True, slots=True)
class Library:
    """Finds prompts: in the given folders first, in their order, then among our own."""

    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Library:
        """Check that every file in the folders replaces a prompt that exists."""
        known = {path.stem for path in _OURS.glob("*.md")}
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"env.prompts: {folder} is not a folder")
            for path in sorted(folder.glob("*.md")):
                if path.stem not in known:
                    files = [f"{name}.md" for name in sorted(known)]
                    hint = did_you_mean(path.name, files) or f"known: {', '.join(files)}"
                    raise ConfigError(f"{path} replaces no prompt of ours; {hint}")
        return cls(tuple(folders))

    def text(self, name: str) -> str:
        for folder in (*self.folders, _OURS):
            path = folder / f"{name}.md"
            if path.exists():
                return _read(path).strip()
        raise ConfigError(f"there is no prompt called {name!r}")

    @property
    def fingerprint(self) -> str:
        """All replaced texts, so that changing a prompt is seen as a change of settings."""
        return "\0".join(
            f"{path.name}\0{_read(path)}"
            for folder in self.folders
            for path in sorted(folder.glob("*.md"))
        )


def _read(path: Path) -> str:
    try:
        text = read_file(path, PROMPT_BYTES).decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
