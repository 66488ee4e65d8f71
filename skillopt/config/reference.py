"""Every key as people are shown it: type, range, default, and its meaning as declared."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, takewhile
from textwrap import dedent
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from annotated_types import Ge, Gt, Le, Lt

from skillopt.config import model_section, sections
from skillopt.config.keys import described
from skillopt.config.parts import PARTS, settings_class

ValueKind: TypeAlias = Literal["flag", "integer", "number", "text", "choice", "list"]

_FOR_ROLES = ("The same for one role; null = the value above.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A setting with what its declaration says about it."""

    key: str
    """Dotted: `train.num_epochs`."""
    kind: ValueKind = "text"
    default: object = None
    meaning: str = ""
    heading: tuple[str, ...] = ()
    """Comments that stand above it, for it and the keys that follow."""
    choices: tuple[str, ...] = ()
    """Of a text, what it is usually; a `choice` is one of them."""
    least: float | None = None
    above: float | None = None
    """It must be larger than this."""
    most: float | None = None
    optional: bool = False
    """Whether it may be null."""
    may_change: bool = False
    """Whether it may differ when a run is continued."""

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]


@cache
def schema_keys() -> tuple[KeyEntry, ...]:
    """All keys of all sections, in order."""
    return tuple(entry for section in sections.SECTIONS for entry in _of_section(section))


def part_keys(section: str, part: object) -> tuple[KeyEntry, ...]:
    """The settings that a part (an environment, a harness, a gate) declares for itself."""
    kind = settings_class(part)
    if kind is None:
        return ()
    meanings = {name: meaning for _, name, meaning, _ in _declared_in(_source(kind))}
    types = hints_of(kind, include_extras=True)
    return tuple(
        replace(
            _shaped(f"{section}.{each.name}", types[each.name], ()),
            default=None if each.default is dataclasses.MISSING else each.default,
            meaning=meanings.get(each.name, ""),
        )
        for each in dataclasses.fields(kind)
    )


def _of_section(section: str) -> Iterator[KeyEntry]:
    kind = sections.SECTIONS[section]
    classes = ("ModelSection", "BackendKeys") if section == "model" else (kind.__name__,)
    declared = {
        name: (meaning, heading)
        for module in (model_section, sections)
        for owner, name, meaning, heading in _declared_in(_source(module))
        if owner in classes
    }
    parts = {part.dotted: part for part in PARTS}
    before = ""
    for name, field in kind.model_fields.items():
        made = field.description or ""
        heading = _FOR_ROLES if made.startswith("see ") and not before.startswith("see ") else ()
        meaning, heading = (made, heading) if made else declared[name]
        before = made
        if name == "own":
            continue
        entry = _shaped(f"{section}.{name}", field.annotation, tuple(field.metadata))
        if part := parts.get(entry.key):
            names = tuple(part.registry.names)
            entry = replace(entry, choices=names)
            meaning = meaning.replace("{names}", " | ".join(names))
        yield replace(
            entry,
            default=field.default,
            meaning=meaning,
            heading=heading,
            may_change=described(field).may_change,
        )


def _shaped(key: str, annotation: object, metadata: tuple[object, ...]) -> KeyEntry:
    """What a value may be, by its type."""
    entry = KeyEntry(key=key)
    for about in metadata:
        match about:
            case Ge(ge=bound):
                entry = replace(entry, least=cast("float", bound))
            case Gt(gt=bound):
                entry = replace(entry, above=cast("float", bound))
            case Le(le=bound) | Lt(lt=bound):
                entry = replace(entry, most=cast("float", bound))
            case _ if hasattr(about, "metadata"):  # several bounds in one `Field`
                inner = tuple(cast("Any", about).metadata)
                found = _shaped(key, str, inner)
                entry = replace(entry, least=found.least, above=found.above, most=found.most)
            case _:
                pass
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _shaped(key, inner, (*metadata, *more))
    if origin in {Union, UnionType}:
        kinds = [each for each in get_args(annotation) if each is not type(None)]
        found = _shaped(key, kinds[0], metadata)
        optional = len(kinds) < len(get_args(annotation))
        if len(kinds) > 1:
            found = replace(found, kind="text", least=None, above=None, most=None)
        return replace(found, optional=optional)
    if origin is Literal:
        return replace(entry, kind="choice", choices=tuple(map(str, get_args(annotation))))
    if origin is tuple:
        return replace(entry, kind="list")
    simple: dict[object, ValueKind] = {bool: "flag", int: "integer", float: "number"}
    return replace(entry, kind=simple.get(annotation, "text"))


def _source(owner: type | ModuleType) -> str:
    """As it was written; nothing where only compiled code is installed."""
    try:
        return dedent(inspect.getsource(owner))
    except (OSError, TypeError):
        return ""


def _declared_in(source: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Class, name, meaning and heading of every key in a source text."""
    lines = source.splitlines()
    for owner in ast.parse(source).body:
        if not isinstance(owner, ast.ClassDef):
            continue
        for key, text in pairwise(owner.body):
            match key, text:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(meaning))):
                    above = reversed(lines[: key.lineno - 1])
                    comments = [*takewhile(lambda line: line.lstrip().startswith("#"), above)]
                    heading = tuple(line.strip("# ") for line in reversed(comments))
                    yield owner.name, name, " ".join(meaning.split()), heading
                case _:
                    pass
