"""Writes every key into default.yaml, docs/configuration.md and docs/sleep/settings.md.

A key is described where it is declared, in `skillopt/config`: its type, its default, and its
meaning in the text below it. The page may say more about a key: only its default is written, and a
row for each key that has none. `{names}` stands for the registered parts. `make reference` runs
this; a test fails if it was forgotten.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from skillopt.config import sections, yaml12
from skillopt.config.reference import schema_keys
from skillopt_sleep.settings import Settings, Variable

ROOT = Path(__file__).parents[1]
YAML = ROOT / "configs" / "_base_" / "default.yaml"
PAGE = ROOT / "docs" / "configuration.md"
SLEEP = ROOT / "docs" / "sleep" / "settings.md"
SLEEP_HEAD = """\
# Settings of Sleep

Each is a key of `~/.skillopt-sleep/config.json` (or `.yaml`), a flag of every command \
(`max_tasks` is `--max-tasks`; a switch has `--no-...`), and an argument of the MCP tools. \
A key that does not exist is an error. `skillopt_sleep/settings.py` declares them; \
`make reference` writes this page.

Some are also read from variables of the environment, which the table names. A flag counts more \
than a variable, and a variable more than the file. Several values are separated by commas or \
newlines. `{BACKEND}` stands for the backend, in capitals: `SKILLOPT_SLEEP_CODEX_MODEL`. Of the \
variables of the original, `SKILLOPT_SLEEP_HANDOFF_DIR` is not read: questions are in the folder \
of their night, which `skillopt-sleep run` and `status` print."""
TITLE = "# Every key with its default. Other files inherit from this one with `_base_`.\n"


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
    for key in schema_keys():
        if key.section == section:
            yield Entry(key.name, _default(key.default), key.meaning, key.heading)


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


def sleep_page() -> str:
    """The page with every setting of Sleep; comments in the code are its headings."""
    lines = inspect.getsource(Settings).splitlines()
    rows = [SLEEP_HEAD]
    for line in lines:
        name = line.strip().partition(":")[0]
        if line.startswith("    # "):
            rows += [
                "",
                f"## {line.strip('# .')}",
                "",
                "| setting | default | meaning |",
                "|---|---|---|",
            ]
        elif line.startswith("    ") and line[4] != " " and name in Settings.model_fields:
            info = Settings.model_fields[name]
            default = _default(_plain(info.default))
            cell = "" if default in ('""', "null", "[]") else f"`{default}`"
            meaning = " ".join((info.description or "").split()).replace("|", "\\|")
            variables = [each.name for each in info.metadata if isinstance(each, Variable)]
            meaning += "".join(f" Variable: `{variable}`." for variable in variables)
            rows.append(f"| `{name}` | {cell} | {meaning} |")
    return "\n".join(rows) + "\n"


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def main() -> None:
    """Write all files."""
    YAML.write_text(default_yaml(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SLEEP.write_text(sleep_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
