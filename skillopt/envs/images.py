"""Images that the rows of a benchmark name by path, and the environments that have them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias, cast

from skillopt.core.chat import Detail, Image
from skillopt.core.episode import EpisodeNeed
from skillopt.core.intake import MIB, read_file
from skillopt.core.task import Task
from skillopt.datasets.raw import plain_file
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import DatasetEnvironment, fingerprint
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
_ELSEWHERE: Final = "set env.data_root to its folder"
_ENDS: Final = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9"}


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """Where the images are; none is read from elsewhere."""

    folder: Path
    detail: Detail = ""

    @classmethod
    def of(cls, root: Path | None, data_root: str, detail: ImageDetail = "auto") -> ImageFolder:
        """`data_root` if it is given; else the folder of the rows; for rows of memory, this one."""
        folder = Path(data_root).expanduser() if data_root else root or Path()
        return cls(folder, _DETAILS[detail])

    def digests(self, row: Row, names: Sequence[str]) -> list[str]:
        """The SHA-256 of each image of a row; a `DataError` if one is missing or is no image."""
        try:
            return [self._read(name)[0] for name in names]
        except _NoImage as error:
            raise DataError(f"{row.where}: {error}") from error

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
        try:
            place = plain_file(self.folder, name)
        except (OSError, ValueError) as error:
            raise _NoImage(f"the image {error}; {_ELSEWHERE}") from error
        if not name or not place.is_file():
            raise _NoImage(f"no image {name!r} in {self.folder}; {_ELSEWHERE}")
        try:
            content = read_file(place, _IMAGE_BYTES)
        except OSError as error:
            raise _NoImage(f"the image {place} cannot be read ({error.strerror})") from error
        if not media_type(content):
            raise _NoImage(f"{place} is no PNG, JPEG, GIF or WebP image")
        if not _is_whole(content):
            raise _NoImage(f"{place} has no end, it was cut off; fetch it again")
        return hashlib.sha256(content).hexdigest(), content


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """How images are found and shown."""

    image_detail: ImageDetail = "auto"
    """auto, low or high, for providers that let one choose."""
    data_root: str = ""
    """Folder that image paths are relative to; empty: the folder of the data."""


class ImageEnvironment(DatasetEnvironment):
    """An environment whose rows name images; their content counts for the identity of a task."""

    name: ClassVar[str]

    def __init__(
        self,
        settings: ImageSettings,
        splits: Splits,
        make: Callable[[str, Row], Task],
        *,
        id_column: str = "id",
    ) -> None:
        self._images = ImageFolder.of(splits.root, settings.data_root, settings.image_detail)
        # Without the folder of the images: wherever it is, they are the same.
        told = {**asdict(settings), "data_root": ""}
        self._own_fingerprint = fingerprint(self.name, told)
        super().__init__(splits, make, id_column=id_column)

    @property
    def own_fingerprint(self) -> str:
        """Name and settings."""
        return self._own_fingerprint

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("images",)

    def seen(self, row: Row, names: Sequence[str]) -> Mapping[str, object]:
        """The data of a task whose images are these."""
        return {**row.data, "image_sha256": self._images.digests(row, names)}

    def images(self, row: Row, names: Sequence[str]) -> tuple[Image, ...]:
        """The same images later, for an episode."""
        digests = cast("list[str]", row.data["image_sha256"])
        return self._images.load(row, names, digests)


def embedded_as(stem: str, content: bytes) -> str:
    """The path of an image that came inside of a table."""
    return f"images/{stem}.{media_type(content).removeprefix('image/') or 'png'}"


class _NoImage(Exception):
    """Why there is no image."""


def _is_whole(content: bytes) -> bool:
    """Whether a PNG or JPEG has its end; what comes after it is not looked at."""
    end = _ENDS.get(media_type(content))
    return end is None or end in content


def media_type(content: bytes) -> str:
    """By its first bytes; empty: no image that models take."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS.items() if content.startswith(start)), "")
