"""Tables that fit the screen: columns, then wrapped columns, then one row below the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAPS = (3, 2)
"""Blanks between two columns: as a rule, and where the screen is narrow."""
_NARROWEST = 24
"""Columns of the screen that a wrapped column needs to be readable."""
_INDENT = 4


class Table:
    """Rows of cells, none of which is ever cut.

    Cells stand side by side if they fit. If not, the columns named in `wrap` share what the others
    leave. Where that is too little, every row becomes a block: the cell of its `title` column (the
    first one), and below it a line for each other cell behind the name of its column.
    """

    def __init__(
        self,
        *columns: str,
        right: Iterable[str] = (),
        wrap: Iterable[str] = (),
        title: str | None = None,
        header: bool = True,
        indent: int = 0,
        rows: Iterable[Sequence[str | Text]] = (),
    ) -> None:
        """Name the columns; without `header` the names are shown in blocks only."""
        self._columns = columns
        self._right = frozenset(map(columns.index, right))
        self._wrap = tuple(map(columns.index, wrap))
        self._title = 0 if title is None else columns.index(title)
        self._header = header
        self._indent = indent
        self._rows: list[tuple[Text, ...]] = []
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Add one row; a cell may have several lines."""
        row = tuple(cell.copy() if isinstance(cell, Text) else Text(cell) for cell in cells)
        for cell in row:
            cell.stylize_before(style)
        self._rows.append(row)

    def lines(self, console: Console, width: int | None) -> list[Text]:
        """The lines of the table on a screen of so many columns; None: no limit."""
        margin = " " * self._indent
        room = None if width is None else max(1, width - self._indent)
        return [Text.assemble(margin, line) for line in self._fitted(console, room)]

    def _fitted(self, console: Console, room: int | None) -> list[Text]:
        natural = self._natural
        for gap in _GAPS:
            if room is None or sum(natural) + gap * (len(natural) - 1) <= room:
                return self._side_by_side(console, natural, gap)
        shared = self._shared(room or 1)
        if shared is not None:
            return self._side_by_side(console, shared, _GAPS[-1])
        return self._blocks(console, room or 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width if console.is_terminal else None
        yield Text("\n", no_wrap=True, overflow="ignore").join(self.lines(console, width))

    @property
    def _grid(self) -> list[tuple[Text, ...]]:
        head = [tuple(Text(name, style="bold") for name in self._columns)] if self._header else []
        return [*head, *self._rows]

    @property
    def _natural(self) -> list[int]:
        """How wide each column is when nothing is wrapped."""
        grid = self._grid
        return [
            max((cell_len(line.plain) for row in grid for line in row[k].split("\n")), default=0)
            for k in range(len(self._columns))
        ]

    def _shared(self, room: int) -> list[int] | None:
        """Widths with the named columns narrowed; None where that would not be readable."""
        widths = self._natural
        gaps = _GAPS[-1] * (len(widths) - 1)
        left = room - gaps - sum(w for k, w in enumerate(widths) if k not in self._wrap)
        # The narrow ones first: what they do not need is shared by the others.
        waiting = sorted(self._wrap, key=lambda k: widths[k])
        for done, k in enumerate(waiting):
            share = left // (len(waiting) - done)
            if widths[k] > share:
                if share < _NARROWEST:
                    return None
                widths[k] = share
            left -= widths[k]
        return widths if waiting and left >= 0 else None

    def _side_by_side(self, console: Console, widths: Sequence[int], gap: int) -> list[Text]:
        lines: list[Text] = []
        for row in self._grid:
            cells = [folded(console, cell, w) for cell, w in zip(row, widths, strict=True)]
            for parts in zip_longest(*cells, fillvalue=Text("")):
                line = Text("")
                for k, part in enumerate(parts):
                    blank = " " * (widths[k] - cell_len(part.plain))
                    padded = (blank, part) if k in self._right else (part, blank)
                    line = Text.assemble(line, " " * gap if k else "", *padded)
                line.rstrip()
                lines.append(line)
        return lines

    def _blocks(self, console: Console, room: int) -> list[Text]:
        others = [k for k in range(len(self._columns)) if k != self._title]
        names = max((cell_len(self._columns[k]) for k in others), default=0)
        names = names + 2 if names and room - _INDENT - names - 2 >= _NARROWEST else 0
        lines: list[Text] = []
        for row in self._rows:
            name = f"{self._columns[self._title]} " if self._header else ""
            title = Text.assemble((name.lstrip(), "dim"), row[self._title])
            title.stylize_before("bold")
            lines += folded(console, title, room)
            for name, cell in ((self._columns[k], row[k]) for k in others):
                if not cell.plain.strip():
                    continue
                label = name.ljust(names) if names else f"{name}: " if name else ""
                first = " " * _INDENT + label
                hang = " " * (_INDENT + names)
                narrow = max(1, room - max(len(first), len(hang)))
                for number, line in enumerate(folded(console, cell, narrow)):
                    lines.append(Text.assemble((hang if number else first, "dim"), line))
        return lines


def folded(console: Console, text: Text, width: int) -> list[Text]:
    """The lines of a text, broken between words, or within a word that is too long.

    Continued lines keep the indentation of their first one.
    """
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if cell_len(line.plain) <= width:
            lines.append(line)
            continue
        hang = len(line.plain) - len(line.plain.lstrip(" "))
        hang = hang if width - hang >= _NARROWEST else 0
        body = line[hang:]
        for part in body.wrap(console, width - hang, overflow="fold"):
            part.rstrip()
            lines.append(Text.assemble(" " * hang, part))
    return lines
