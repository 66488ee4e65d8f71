"""The morning report on a terminal: text that is folded, tables that fit, commands that are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillopt.cli.tables import Table
from skillopt_sleep.report import Block, Grid, Heading, Listing, Night, Paragraph, Verbatim, told

_WIDE: Final = 24
"""Characters of a cell that are shown side by side with others on every screen."""


def for_terminal(night: Night) -> Iterator[str | Table]:
    """The report in parts, for `Screen.show`."""
    for number, block in enumerate(told(night)):
        if number:
            yield ""
        yield _shown(block)


def _shown(block: Block) -> str | Table:
    match block:
        case Heading(text, level):
            line = " ".join(text.split())
            return (
                f"{line}\n{'=' * len(line)}" if level == 1 else line.upper() if level == 2 else line
            )
        case Paragraph(text):
            return text
        case Listing(items):
            return "\n".join(f"  - {item}" for item in items)
        case Grid(head, rows):
            lines = [tuple(" ".join(cell.split()) for cell in row) for row in rows]
            wide = [
                name for at, name in enumerate(head) if any(len(line[at]) > _WIDE for line in lines)
            ]
            return Table(*head, wrap=wide, indent=2, rows=lines)
        case Verbatim(text):
            return "\n".join(f"  {line}" for line in text.splitlines())
