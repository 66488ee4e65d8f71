"""Images that the rows of a benchmark name by path."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from skillopt.core.chat import Detail, Image
from skillopt.core.intake import MIB, read_file
from skillopt.datasets.rows import Row
from skillopt.errors import DataError, EnvironmentFault

ImageDetail: TypeAlias = Literal["auto", "low", "high"]
"""How closely a model looks at an image; auto: as its provider chooses."""
_DETAILS: Final[dict[ImageDetail, Detail]] = {"auto": "", "low": "low", "high": "high"}
_IMAGE_BYTES: Final = 20 * MIB
"""The most that common providers take."""
_KINDS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """Where the images are: the first folder that has a file of the name."""

    folders: tuple[Path, ...]
    detail: Detail = ""

    @classmethod
    def of(cls, root: Path | None, data_root: str, detail: ImageDetail = "auto") -> ImageFolder:
        """`data_root` if it is given; else the folder of the rows, then the current one."""
        if data_root:
            return cls((Path(data_root).expanduser(),), _DETAILS[detail])
        return cls((*((root,) if root else ()), Path()), _DETAILS[detail])

    def digests(self, row: Row, names: Sequence[str]) -> list[str]:
        """The SHA-256 of each image of a row; a `DataError` if one is missing or is no image."""
        try:
            return [self._read(name)[0] for name in names]
        except _NoImage as error:
            raise DataError(f"{row.where}: {error}; set env.data_root to its folder") from error

    def load(self, row: Row, names: Sequence[str], digests: Sequence[str]) -> tuple[Image, ...]:
        """The images of a task, which are still those that it was made with."""
        images: list[Image] = []
        for name, expected in zip(names, digests, strict=True):
            try:
                digest, content = self._read(name)
            except _NoImage as error:
                raise EnvironmentFault(f"{row.where}: {error}") from error
            if digest != expected:
                raise EnvironmentFault(f"{row.where}: the image {name!r} was changed meanwhile")
            images.append(Image.of(content, media_type(content), self.detail))
        return tuple(images)

    def _read(self, name: str) -> tuple[str, bytes]:
        place = next((each / name for each in self.folders if (each / name).is_file()), None)
        if not name or place is None:
            looked = " or ".join(sorted({str(each) for each in self.folders}))
            raise _NoImage(f"no image {name!r} in {looked}")
        try:
            content = read_file(place, _IMAGE_BYTES)
        except OSError as error:
            raise _NoImage(f"the image {place} cannot be read ({error.strerror})") from error
        if not media_type(content):
            raise _NoImage(f"{place} is no PNG, JPEG, GIF or WebP image")
        return hashlib.sha256(content).hexdigest(), content


class _NoImage(Exception):
    """Why there is no image."""


def media_type(content: bytes) -> str:
    """By its first bytes; empty: no image that models take."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS.items() if content.startswith(start)), "")
