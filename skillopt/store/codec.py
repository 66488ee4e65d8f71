"""Converts values to JSON and back; no other module knows their format on disk.

A skill is stored as its document, the content of a file as text where it is UTF-8. The dataclasses
of `core` do not depend on pydantic.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Generic, TypeVar, Union, cast

from pydantic import Field, TypeAdapter
from pydantic_core import (
    CoreSchema,
    PydanticSerializationError,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    core_schema,
)

from skillopt.core.events import Event, Fact, Note
from skillopt.core.intake import change_texts
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.store.kinds import fact_kinds

T = TypeVar("T")

_IDENTIFYING = frozenset({"task", "tasks", "kind", "skill", "type"})
"""Fields by which values refer to each other."""


class Codec(Generic[T]):
    """Writes and reads one kind of value; `decode(encode(value)) == value`."""

    def __init__(self, adapter: TypeAdapter[T]) -> None:
        schema = _with_documents(adapter.core_schema)
        self._validator = SchemaValidator(schema)
        self._serializer = SchemaSerializer(schema)

    def encode(self, value: T) -> bytes:
        """JSON on one line; a lone surrogate, which UTF-8 cannot hold, becomes `?`."""
        try:
            return self._serializer.to_json(value, warnings=False)
        except PydanticSerializationError:
            plain: object = self._serializer.to_python(value, mode="json", warnings=False)
            return json.dumps(plain, ensure_ascii=False).encode(errors="replace")

    def without(self, value: T, hide: Callable[[str], str]) -> T:
        """The same with `hide` applied to its texts; ids and skills stay, or they would not match.

        A value stays whole if it could not be read back: the secret is a word of the format itself,
        as a placeholder for a key may be.
        """
        return self.encode_without(value, hide)[1]

    def encode_without(self, value: T, hide: Callable[[str], str]) -> tuple[str, T]:
        """What `without` returns, as JSON too."""
        text = self.encode(value).decode()
        if hide(text) == text:
            return text, value
        hidden = change_texts(json.loads(text), hide, _IDENTIFYING)
        try:
            clean = self.decode(json.dumps(hidden))
        except ValueError:
            return text, value
        return self.encode(clean).decode(), clean

    def decode(self, data: bytes | str) -> T:
        """The value that was written; ValueError when it is not one."""
        return self._validator.validate_json(data)

    def check(self, value: T) -> None:
        """Raise ValueError where a value, or a lone surrogate in it, could not be read back."""
        self.decode(self._serializer.to_json(value, warnings=False))


_APART = "sha256:"
"""How the content of an image begins that is kept elsewhere; base64 has no colon."""


def without_images(rollout: Rollout) -> tuple[Rollout, dict[str, str]]:
    """The attempt with names in place of the contents of its images, and these by name.

    Many attempts show the same images, which are larger than all else that is kept of them.
    """
    contents: dict[str, str] = {}

    def named(content: str) -> str:
        name = hashlib.sha256(content.encode()).hexdigest()
        contents[name] = content
        return f"{_APART}{name}"

    return _with_contents(rollout, named), contents


def with_images(rollout: Rollout, find: Callable[[str], str]) -> Rollout:
    """The attempt with its images; `find` gives the content of a name."""

    def content(text: str) -> str:
        return find(text.removeprefix(_APART)) if text.startswith(_APART) else text

    return _with_contents(rollout, content)


def _with_contents(rollout: Rollout, change: Callable[[str], str]) -> Rollout:
    done = rollout.trajectory
    # What a harness returned wrongly has none, and is refused when it is written.
    if done is None or not any(getattr(message, "images", ()) for message in done.messages):
        return rollout
    messages = tuple(
        replace(
            message,
            images=tuple(replace(image, data=change(image.data)) for image in message.images),
        )
        for message in done.messages
    )
    return replace(rollout, trajectory=replace(done, messages=messages))


# Built at first use: most commands need none of them, and building takes tens of milliseconds.
def events() -> Codec[Event]:
    """For the lines of the event log; a line is of any kind of note or fact."""
    return _events(tuple(kind.fact for kind in fact_kinds().values()))


@cache
def _events(facts: tuple[type[Fact], ...]) -> Codec[Event]:
    annotated: Any = Annotated  # a static type cannot name kinds of facts that are installed
    kinds = annotated[Union[(Note, *facts)], Field(discriminator="type")]
    return Codec(TypeAdapter[Event](kinds))


def reason(error: OSError | ValueError) -> str:
    """Why a file could not be read, on one line."""
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)


def check(kind: Any, value: object) -> None:  # noqa: ANN401 - any type, unions too
    """Raise ValueError where a value is not of this type, or could not be read back."""
    _adapter(kind).validate_python(value, strict=True)
    codec_of(kind).check(value)


@cache
def _adapter(kind: Any) -> TypeAdapter[object]:  # noqa: ANN401 - any type, unions too
    return TypeAdapter(kind)


def problem(error: ValueError) -> str:
    """What is wrong with a value, on one line: the field and what it should be."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    what = first["msg"].replace("Input should", "should")
    return f"{field}: {what}" if field else what


def unknown_kind(error: ValueError) -> str:
    """The kind of an event that could not be read because no such kind is known; else empty."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        if first["type"] == "union_tag_invalid":
            return str(first.get("ctx", {}).get("tag"))
    return ""


_codecs: dict[type, Codec[Any]] = {}


def codec_of(kind: type[T]) -> Codec[T]:
    """For values of one type."""
    if kind not in _codecs:
        _codecs[kind] = Codec(TypeAdapter(kind))
    return _codecs[kind]


def _with_documents(schema: CoreSchema) -> CoreSchema:
    """The same schema, with every `Skill` as the text of its document, and bytes as JSON."""
    return cast("CoreSchema", _swapped(schema))


def _swapped(node: Any) -> Any:  # noqa: ANN401 - pydantic's schemas are nested plain data
    match node:
        case {"type": "dataclass", "cls": cls, **rest} if cls is Skill:
            return core_schema.no_info_after_validator_function(
                Skill.parse,
                core_schema.str_schema(),
                ref=rest.get("ref"),
                serialization=core_schema.plain_serializer_function_ser_schema(
                    Skill.render, return_schema=core_schema.str_schema()
                ),
            )
        case {"type": "bytes"}:
            content = core_schema.dict_schema(core_schema.str_schema(), core_schema.str_schema())
            return core_schema.no_info_after_validator_function(
                _read_content,
                content,
                serialization=core_schema.plain_serializer_function_ser_schema(
                    _written_content, return_schema=content
                ),
            )
        case dict():
            return {key: _swapped(value) for key, value in cast("dict[str, Any]", node).items()}
        case list():
            return [_swapped(value) for value in cast("list[Any]", node)]
        case _:
            return node


def _written_content(content: bytes) -> dict[str, str]:
    """The content of a file: text if it is, so that people can read it and secrets are found."""
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _read_content(content: dict[str, str]) -> bytes:
    match content:
        case {"text": text}:
            return text.encode()
        case {"base64": text}:
            return base64.b64decode(text, validate=True)
        case _:
            raise ValueError("the content of a file should be text or base64")
