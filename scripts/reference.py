"""Writes every key into configs/_base_/default.yaml and docs/configuration.md.

A key is described where it is declared, in `skillopt/config`: its type, its default, and its
meaning in the text below it. The page may say more about a key: only its default is written, and a
row for each key that has none. `{names}` stands for the registered parts. `make reference` runs
this; a test fails if it was forgotten.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple, cast

from skillopt.config import model_section, sections, yaml12
from skillopt.config.parts import PARTS

ROOT = Path(__file__).parents[1]
YAML = ROOT / "configs" / "_base_" / "default.yaml"
PAGE = ROOT / "docs" / "configuration.md"
TITLE = "# Every key with its default. Other files inherit from this one with `_base_`.\n"
FOR_ROLES = ("The same for one role; null = the value above.",)


class Entry(NamedTuple):
    """One key of a section."""

    name: str
    default: str
    """As YAML."""
    meaning: str
    heading: tuple[str, ...]
    """Comments that stand above it, for it and the keys that follow."""


def entries(section: str) -> Iterator[Entry]:
    """All keys of a section, in order."""
    kind = sections.SECTIONS[section]
    classes = ("ModelSection", "BackendKeys") if section == "model" else (kind.__name__,)
    declared = {
        name: (meaning, heading)
        for owner, name, meaning, heading in _declared()
        if owner in classes
    }
    before = ""
    for name, field in kind.model_fields.items():
        made = field.description or ""
        heading = FOR_ROLES if made.startswith("see ") and not before.startswith("see ") else ()
        meaning, heading = (made, heading) if made else declared[name]
        if part := next((part for part in PARTS if part.dotted == f"{section}.{name}"), None):
            meaning = meaning.replace("{names}", " | ".join(part.registry.names))
        if name != "own":
            yield Entry(name, _default(field.default), meaning, heading)
        before = made


def _declared() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Class, name, meaning and heading of every key, as the code has them."""
    for module in (model_section, sections):
        source = inspect.getsource(module)
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


def _default(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, tuple):
        names = cast("tuple[object, ...]", value)
        value = names[0] if len(names) == 1 else list(names)
    text = yaml12.write({"key": value}).removeprefix("key: ").strip()
    return '""' if text == "''" else text


def default_yaml() -> str:
    """The file with every key."""
    lines = [TITLE]
    for section in sections.SECTIONS:
        lines.append(f"{section}:")
        for entry in entries(section):
            if entry.heading:
                lines += ["", *(f"  # {comment}" for comment in entry.heading)]
            lines.append(f"  {f'{entry.name}: {entry.default}':<34}  # {entry.meaning}")
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the right default of each key, and a row for each key that has none."""
    for section in sections.SECTIONS:
        head, mark, rest = text.partition(f"\n## `{section}`")
        body, end, tail = rest.partition("\n## ")
        row = "|---|---|---|"
        for entry in entries(section):
            cell = f" `{entry.default}` " if entry.default != '""' else " "
            start = f"| `{entry.name}` |"
            known = re.search(rf"^{re.escape(start)}([^|]*)\| (.*)$", body, re.MULTILINE)
            if known:
                row = f"{start}{cell}| {known[2]}"
                body = body.replace(known[0], row, 1)
            elif not entry.meaning.startswith("see ") and f"`{entry.name}`" not in text:
                added = f"{start}{cell}| {entry.meaning.replace('|', chr(92) + '|')} |"
                body = body.replace(row, f"{row}\n{added}", 1)
                row = added
        text = head + mark + body + end + tail
    return text


def main() -> None:
    """Write both files."""
    YAML.write_text(default_yaml(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
