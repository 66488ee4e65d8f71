"""YAML as version 1.2 reads it, kept strict: no repeated keys, no objects, UTF-8 always.

PyYAML follows version 1.1, in which `2:1:7` is the number 7267 and `2024-05-13` a date. Here such
scalars are text. `yes`, `no`, `on` and `off` stay booleans, as users of configuration files expect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import yaml

from skillopt.config.given import NO_OTHER, Plain, read
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


_PLAIN: Final = _resolvers({})


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _PLAIN

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


class _Mistake(ValueError):
    """Readable YAML with something in it that a configuration cannot hold."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1


def read_entries(path: Path, name: str) -> list[FileEntry]:
    """The settings in a file, in order; `name` is what messages call it."""
    text = _text(path, name)
    try:
        root = _compose(text)
        return [] if root is None else list(_entries(root))
    except _Mistake as mistake:
        raise ConfigError(f"{name}:{mistake.line}: {mistake}") from None
    except yaml.YAMLError as error:
        _refuse(error, name)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None


def read_value(text: str) -> object:
    """A value from the command line as YAML reads it; unquoted text stays as it was typed."""
    typed = text.strip()
    try:
        node = _compose(text)
        if node is None:
            return Plain(None, typed)
        value = _value(node, frozenset())
    except (yaml.YAMLError, _Mistake, RecursionError):
        return typed
    if isinstance(value, str):
        explicit = isinstance(node, yaml.ScalarNode) and node.style is not None
        return value if explicit or typed.startswith("!") else typed
    return value if isinstance(value, Plain) else Plain(value, typed)


def _compose(text: str) -> yaml.Node | None:
    """The only document in a text, of a size that aliases cannot blow up."""
    root = _Loader(text).get_single_node()
    if root is not None and _values(root, {}) > CONFIG_VALUES:
        raise _Mistake(root, _TOO_MANY)
    return root


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for once every alias is replaced by what it names."""
    if id(node) not in known:
        known[id(node)] = 1  # for a node within itself, which is refused later
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inner = [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inner = list(node.value)
        known[id(node)] += sum(_values(each, known) for each in inner)
    return known[id(node)]


def meant(value: object) -> object:
    """The number or switch that a text spells out, to the letter; a blank one is unset."""
    if not isinstance(value, str):
        return NO_OTHER
    if not value:
        return None
    for tag, pattern in _PLAIN.get(value[0], ()):
        if tag.removeprefix(_TAG) in {"bool", "int", "float"} and pattern.match(value):
            return read(read_value(value))
    return NO_OTHER


def _represent(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes the rarer line breaks raw and then reads them back as others.
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return yaml.ScalarNode(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _represent)


def write(document: object) -> str:
    """YAML text that reads back as the same document."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return str(text)


def _text(path: Path, name: str) -> str:
    try:
        return read_file(path, CONFIG_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name}: not UTF-8 (byte {error.start}); save the file as UTF-8"
        ) from None


def _refuse(error: yaml.YAMLError, name: str) -> NoReturn:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}"
        raise ConfigError(f"{place}: not valid YAML: {error.problem}") from None
    raise ConfigError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None


def _entries(root: yaml.Node) -> Iterator[FileEntry]:
    if not isinstance(root, yaml.MappingNode):
        raise _Mistake(root, "should hold settings such as `train:` with keys below it")
    for key, line, node in _pairs(root, frozenset()):
        if isinstance(node, yaml.MappingNode):
            for inner, inner_line, value in _pairs(node, frozenset()):
                yield FileEntry((key, inner), _value(value, frozenset()), inner_line)
        else:
            yield FileEntry((key,), _value(node, frozenset()), line)


def _pairs(node: yaml.MappingNode, above: frozenset[int]) -> list[tuple[str, int, yaml.Node]]:
    """Keys with their lines and values; `<<` is merged below what the mapping itself says."""
    if id(node) in above:
        raise _Mistake(node, "an anchor that contains itself")
    own: dict[str, tuple[str, int, yaml.Node]] = {}
    merged: dict[str, tuple[str, int, yaml.Node]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Mistake(key, "a key should be plain text")
        name, line = str(key.value), key.start_mark.line + 1
        if key.tag == f"{_TAG}merge":
            for each in _merged(value):
                found = {pair[0]: pair for pair in _pairs(each, above | {id(node)})}
                merged = found | merged
        elif name in own:
            raise _Mistake(key, f"{name!r} is given twice, first in line {own[name][1]}")
        else:
            own[name] = (name, line, value)
    return list((merged | own).values())


def _merged(value: yaml.Node) -> Iterator[yaml.MappingNode]:
    nodes: list[yaml.Node] = value.value if isinstance(value, yaml.SequenceNode) else [value]
    for node in nodes:
        if not isinstance(node, yaml.MappingNode):
            raise _Mistake(node, "`<<` should name a mapping")
        yield node


def _value(node: yaml.Node, above: frozenset[int]) -> object:
    inner = above | {id(node)}
    match node:
        case yaml.MappingNode():
            return {key: _value(each, inner) for key, _, each in _pairs(node, above)}
        case yaml.SequenceNode():
            if id(node) in above:
                raise _Mistake(node, "an anchor that contains itself")
            return [_value(each, inner) for each in node.value]
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
    except ValueError as error:
        if isinstance(error, _Mistake):
            raise
        raise _Mistake(node, f"{text[:40]!r} is not a valid value") from None
