"""What comes from outside, taken in within limits: files, JSON, and what a model replied.

Everything that we did not write ourselves passes through here: a server's reply, a skill, rows of
data, a configuration, a `.env` file. Each has a limit with a name, and what exceeds it is an error
that says so. No reader allocates more than its limit, and none waits for a pipe or a device.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, cast

from skillopt.core.chat import Reply, ToolCall, Usage

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

KIB, MIB, GIB = 2**10, 2**20, 2**30

BODY_BYTES = 8 * MIB
"""The body of one answer of a server, unpacked; ten times what the longest replies take."""
ERROR_BYTES = 64 * KIB
"""What is read of an answer that tells of an error."""
REPLY_CHARS = MIB
"""The text of one reply; what is longer is cut, and counts as cut by the token limit."""
NESTING = 100
"""Brackets within brackets in JSON."""
SKILL_BYTES = MIB
"""A skill document, or any file of a skill package."""
CONFIG_BYTES = MIB
CONFIG_VALUES = 10_000
"""Values in a configuration file, each counted as often as an alias repeats it."""
ENV_BYTES = 64 * KIB
DATA_BYTES = GIB
ROW_BYTES = 8 * MIB
MANIFEST_BYTES = 8 * MIB
"""What a split folder says about itself."""
PROMPT_BYTES = MIB
EDIT_CHARS = 256 * KIB
_MOST_TOKENS = 10**12
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Categories of Unicode: control and format characters, and every kind of space."""
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters of other categories that show nothing: fillers, blanks and variation selectors."""


def size(count: int) -> str:
    """A limit in words."""
    for unit, name in ((GIB, "GB"), (MIB, "MB"), (KIB, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


def read_file(path: Path, limit: int) -> bytes:
    """A regular file of at most so many bytes; `OSError` for any other, a pipe or device too."""
    # Without waiting: a pipe that nobody writes to would hold us up for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        # Before Python makes a file of it: its own error would name a folder by a number.
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        reason = f"it is larger than {size(limit)}, the most that is read"
        raise OSError(errno.EFBIG, reason, str(path))
    return data


def read_json(data: bytes | str) -> Json:
    """JSON from outside; `ValueError` where it is none, or nested too deeply to be worked with.

    Half a surrogate pair becomes the replacement character, so that what is read can be stored,
    sent and shown.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    try:
        found = cast("Json", json.loads(text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if text.count("[") + text.count("{") > NESTING and too_deep(found):
        raise ValueError("nested too deeply")
    return clean_json(found) if "\\u" in text or _NOT_TEXT.search(text) else found


def json_lines(text: str) -> Iterator[dict[str, Json]]:
    """The JSON objects of a text that has one per line; other lines are passed over."""
    for line in text.splitlines():
        if line.lstrip().startswith("{"):
            try:
                found = read_json(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def too_deep(value: Json) -> bool:
    """Whether brackets are nested deeper than is worked with; found without recursion."""
    level: list[Json] = [value]
    for _ in range(NESTING + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def clean_json(value: Json) -> Json:
    """The same with text that can be stored, sent and shown; for what is not nested too deeply."""
    return change_texts(value, clean_text, change_key=clean_text)


def change_texts(
    value: Json,
    change: Callable[[str], str],
    kept: Set[str] = frozenset(),
    change_key: Callable[[str], str] = str,
) -> Json:
    """The same with every text changed, but for the values of `kept` fields.

    What is nested below a `kept` field is changed, too: a file may be called `task`.
    """

    def changed(value: Json) -> Json:
        match value:
            case str():
                return change(value)
            case list():
                return [changed(item) for item in value]
            case dict():
                return {
                    change_key(key): item
                    if key in kept and not isinstance(item, dict)
                    else changed(item)
                    for key, item in value.items()
                }
            case _:
                return value

    return changed(value)


def clean_text(text: str) -> str:
    """Text that can be stored, sent and shown: without half surrogate pairs."""
    return _NOT_TEXT.sub("\ufffd", text) if _NOT_TEXT.search(text) else text


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or all of its characters are invisible."""
    return all(
        unicodedata.category(character) in _INVISIBLE or _FILLERS.match(character) is not None
        for character in text
    )


def clean_reply(reply: Reply) -> Reply:
    """A reply within limits, whoever made it: a server, a program or a function of the caller."""
    text = clean_text(reply.text)
    calls = [map(clean_text, (call.id, call.name, call.arguments)) for call in reply.calls]
    return replace(
        reply,
        text=text[:REPLY_CHARS],
        usage=_cleaned_usage(reply.usage),
        stop="length" if len(text) > REPLY_CHARS else reply.stop,
        calls=tuple(ToolCall(*texts) for texts in calls),
        memo=clean_text(reply.memo),
    )


def is_sound(usage: object) -> bool:
    """Whether a usage can be true: counts are whole numbers within limits, dollars are finite."""
    if not isinstance(usage, Usage):
        return False
    counts = cast(
        "Sequence[object]",
        (usage.calls, usage.input, usage.output, usage.cached, usage.estimated, usage.stored),
    )
    whole = all(isinstance(count, int) and 0 <= count <= _MOST_TOKENS for count in counts)
    dollars = cast("object", usage.dollars)
    return whole and isinstance(dollars, int | float) and 0 <= dollars < math.inf


def _cleaned_usage(usage: Usage) -> Usage:
    """What a server counted, unless it cannot be true."""
    counts = (usage.input, usage.output, usage.cached, usage.stored)
    counted = all(0 <= count <= _MOST_TOKENS for count in counts)
    known = usage if counted else Usage(calls=usage.calls)
    sound = math.isfinite(usage.dollars) and usage.dollars >= 0
    return known if sound else replace(known, dollars=0.0)


def tagged(text: str, name: str) -> list[str]:
    """What stands in closed `<name>` tags, in order, in time linear in the text."""
    texts: list[str] = []
    opened: int | None = None
    for tag in re.finditer(rf"<(/?){name}>", text, re.IGNORECASE):
        if not tag[1]:
            opened = tag.end()
        elif opened is not None:
            texts.append(text[opened : tag.start()])
            opened = None
    return texts
