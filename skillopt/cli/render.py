"""The one place that writes to the terminal: results to standard output, the rest to the other."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import IO, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skillopt.cli.tables import folded
from skillopt.core.controls import escaped

_COMMAND = re.compile(r"\s*(?:\S*[/\\])?skillopt(?:-sleep)? ")
_WIDE = 200
"""Columns where there is no terminal to ask: nothing is folded to fit a screen."""


class _Channel(Console):
    """A console whose content cannot drive the terminal: control characters in it are shown.

    It falls silent when nobody reads it any more: a pipe, or a closed terminal. Standard error
    falls silent also when it cannot be written for any other reason: what it tells beside the work
    is no reason to end it.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Everything that is drawn passes here: content as text, our own codes marked as such."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(escaped(text), style)

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:
            if error.errno != errno.EIO and self.file is not sys.stderr:
                raise
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _discard(self.file)


def unwritable_output() -> str:
    """Why standard output cannot be written; blank if it can, which an empty line tries.

    What it could not take is dropped.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        return error.strerror or str(error)
    return ""


def _discard(stream: IO[str]) -> None:
    """From now on, what is written there goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Screen:
    """Standard output and standard error, in UTF-8 whatever the locale says."""

    def __init__(self) -> None:
        self.out = _channel(sys.stdout)
        self.err = _channel(sys.stderr)

    @property
    def live(self) -> bool:
        """Whether progress can be drawn and redrawn."""
        return self.err.is_terminal and not self.err.is_dumb_terminal

    def show(self, *results: RenderableType) -> None:
        """A result."""
        for result in results:
            self.out.print(_fitted(result, self.out), soft_wrap=True)

    def tell(self, text: str | Text, style: str = "") -> None:
        """Progress, for good."""
        self.err.print(_fitted(text, self.err), style=style, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Something that the user should know although nothing is wrong."""
        self.tell(Text.assemble(("warning: ", "yellow"), text))

    def complain(self, text: str) -> None:
        """What went wrong."""
        aligned = text.replace("\n", "\n       ")
        self.tell(Text.assemble(("error: ", "bold red"), aligned))

    def confirm(self, question: str, *, default: bool = False, abort: bool = False) -> bool:
        """Ask the user; with `abort`, a no ends the command."""
        return click.confirm(escaped(question), default=default, abort=abort, err=True)

    def restore(self) -> None:
        """Leave the terminal as it was found, in a hurry."""
        if self.live:
            self.err.show_cursor()


def _fitted(result: RenderableType, console: Console) -> RenderableType:
    """Text folded between words where a terminal would cut it; commands stay whole for copying."""
    if not isinstance(result, str | Text) or not console.is_terminal:
        return result
    lines: list[Text] = []
    for line in (Text(result) if isinstance(result, str) else result).split("\n", allow_blank=True):
        is_command = _COMMAND.match(line.plain) is not None
        lines += [line] if is_command else folded(console, line, console.width)
    return Text("\n").join(lines)


def indented(text: str | Text, style: str = "") -> Text:
    """Lines moved to the right, to stand below a heading."""
    lines = Text(text) if isinstance(text, str) else text
    moved = Text("\n").join(Text.assemble("    ", line) for line in lines.split("\n"))
    moved.stylize(style)
    return moved


def _channel(stream: TextIO) -> Console:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="replace")
    channel = _Channel(file=stream, highlight=False, markup=False, emoji=False)
    if not channel.is_terminal:
        channel.width = _WIDE
    return channel
