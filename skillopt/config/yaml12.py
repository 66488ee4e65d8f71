"""YAML as version 1.2 reads it, kept strict: no repeated keys, no objects, UTF-8 always.

PyYAML follows version 1.1, in which `2:1:7` is the number 7267 and `2024-05-13` a date. Here such
scalars are text. `yes`, `no`, `on` and `off` stay booleans, as users of configuration files expect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from skillopt.config.given import NoOtherReading, Plain
from skillopt.core.intake import CONFIG_BYTES, CONFIG_VALUES, read_file
from skillopt.errors import ConfigError

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"(?:true|false|yes|no|on|off)", list("tTfFyYnNoO")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)


Resolvers: TypeAlias = dict[str, list[tuple[str, re.Pattern[str]]]]


def _resolvers(start: Resolvers) -> Resolvers:
    """PyYAML's table of plain scalars by their first character, with ours behind `start`."""
    table = {first: list(pairs) for first, pairs in start.items()}
    for name, pattern, starts in _SCALARS:
        flags = re.IGNORECASE if name == "bool" else 0
        compiled = re.compile(rf"(?:{pattern})\Z", flags)
        for first in starts:
            table.setdefault(first, []).append((_TAG + name, compiled))
    return table


class _Mistake(yaml.YAMLError):
    """Readable YAML with something in it that a configuration cannot hold."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _resolvers({})

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._composed = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One node more, unless the document has too many."""
        self._composed += 1
        node = super().compose_node(parent, index)
        if node is not None and self._composed > CONFIG_VALUES:
            raise _Mistake(node, _TOO_MANY)
        return node


class _Dumper(yaml.SafeDumper):
    # Text that either version would take for something else is written in quotes.
    yaml_implicit_resolvers = _resolvers(yaml.SafeDumper.yaml_implicit_resolvers)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One setting of a file: `(section, key)`, or `(key,)` where no section is written."""

    path: tuple[str, ...]
    value: object
    line: int


_TOO_MANY: Final = f"more than {CONFIG_VALUES:,} values, counted as often as aliases repeat them"


def read_entries(path: Path, name: str) -> list[FileEntry]:
    """The settings in a file, in order; `name` is what messages call it."""
    try:
        root = _compose(read_file(path, CONFIG_BYTES).decode("utf-8-sig"))
        return [] if root is None else list(_entries(root))
    except yaml.YAMLError as error:
        problem = _explained(error)
    except RecursionError:
        problem = ": nested too deeply"
    except OSError as error:
        problem = f": cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        problem = f": not UTF-8 (byte {error.start}); save the file as UTF-8"
    raise ConfigError(f"{name}{problem}")


def _explained(error: yaml.YAMLError) -> str:
    """Where in a file the error is, and what it is."""
    match error:
        case _Mistake(line=line):
            return f":{line}: {error}"
        case yaml.MarkedYAMLError(problem_mark=yaml.Mark(line=line, column=column)):
            return f":{line + 1}:{column + 1}: not valid YAML: {error.problem}"
        case _:
            return f": not valid YAML: {' '.join(str(error).split())}"


def read_value(text: str) -> object:
    """A value from the command line as YAML reads it; unquoted text stays as it was typed."""
    typed = text.strip()
    try:
        node = _compose(text)
        value = Plain(None, typed) if node is None else _value(node)
    except (yaml.YAMLError, RecursionError):
        return typed
    if isinstance(value, str):
        explicit = isinstance(node, yaml.ScalarNode) and node.style is not None
        return value if explicit or typed.startswith("!") else typed
    return value if isinstance(value, Plain) else Plain(value, typed)


def meant(value: object) -> object:
    """The number or switch that a text spells out, to the letter; a blank one is unset."""
    if value == "":
        return None
    match read_value(value) if isinstance(value, str) else None:
        case Plain(value=bool() | int() | float() as scalar, text=text) if text == value:
            return scalar
        case _:
            raise NoOtherReading


def _compose(text: str) -> yaml.Node | None:
    """The only document in a text, of a size that aliases cannot blow up."""
    root = _Loader(text).get_single_node()
    if root is not None and _count(root, {}) > CONFIG_VALUES:
        raise _Mistake(root, _TOO_MANY)
    return root


def _count(node: yaml.Node, counts: dict[int, int]) -> int:
    """How many values a node stands for once every alias is replaced by what it names."""
    if id(node) not in counts:
        counts[id(node)] = 0
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inner = [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inner = list(node.value)
        counts[id(node)] = 1 + sum(_count(node, counts) for node in inner)
    elif not counts[id(node)]:
        raise _Mistake(node, "an anchor that contains itself")
    return counts[id(node)]


def _represent(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes the rarer line breaks raw and then reads them back as others.
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return yaml.ScalarNode(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _represent)


def write(document: object) -> str:
    """YAML text that reads back as the same document."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return str(text)


def _entries(root: yaml.Node) -> Iterator[FileEntry]:
    if not isinstance(root, yaml.MappingNode):
        raise _Mistake(root, "should hold settings such as `train:` with keys below it")
    for key, line, node in _pairs(root):
        if isinstance(node, yaml.MappingNode):
            for inner, inner_line, value in _pairs(node):
                yield FileEntry((key, inner), _value(value), inner_line)
        else:
            yield FileEntry((key,), _value(node), line)


def _pairs(node: yaml.MappingNode) -> list[tuple[str, int, yaml.Node]]:
    """Keys with their lines and values; `<<` is merged below what the mapping itself says."""
    own: dict[str, tuple[str, int, yaml.Node]] = {}
    merged: dict[str, tuple[str, int, yaml.Node]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Mistake(key, "a key should be plain text")
        name, line = str(key.value), key.start_mark.line + 1
        if key.tag == f"{_TAG}merge":
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(source, yaml.MappingNode):
                    raise _Mistake(source, "`<<` should name a mapping")
                merged = {pair[0]: pair for pair in _pairs(source)} | merged
        elif name in own:
            raise _Mistake(key, f"{name!r} is given twice, first in line {own[name][1]}")
        else:
            own[name] = (name, line, value)
    return list((merged | own).values())


def _value(node: yaml.Node) -> object:
    match node:
        case yaml.MappingNode():
            return {key: _value(value) for key, _, value in _pairs(node)}
        case yaml.SequenceNode():
            return [_value(item) for item in node.value]
        case _:
            return _scalar(node)


def _scalar(node: yaml.Node) -> object:
    text = str(node.value)
    try:
        match node.tag.removeprefix(_TAG):
            case "str" | "merge":
                return text
            case "null":
                return Plain(None, "")
            case "bool":
                return Plain(text.lower() in {"true", "yes", "on"}, text)
            case "int":
                return Plain(int(text) if text.lstrip("+-").isdecimal() else int(text, 0), text)
            case "float":
                return Plain(float(re.sub(r"\.(inf|nan)", r"\1", text.lower())), text)
            case _:
                raise _Mistake(node, f"the tag {node.tag!r} is not used here; write a plain value")
    except ValueError:
        raise _Mistake(node, f"{text[:40]!r} is not a valid value") from None
