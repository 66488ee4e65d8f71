"""The morning report as Markdown and as a page; `cli.showing` has it for a terminal.

Its texts come from sessions and models, so every format shows them as text: nothing in them can
begin a heading, a link, a tag or a control sequence.
"""

from __future__ import annotations

import html
import re
from typing import Final

from skillopt.core.controls import escaped
from skillopt_sleep.report import Block, Grid, Heading, Listing, Night, Paragraph, Verbatim, told

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$-])")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])(?=\s)")


def as_markdown(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    line = " ".join(escaped(text).split())
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", line))


def _fenced(text: str, kind: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{escaped(text)}\n{fence}"


def render_markdown(night: Night) -> str:
    """The report as Markdown."""
    return "\n\n".join(_markdown(block) for block in told(night)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {as_markdown(text)}"
        case Paragraph(text):
            return as_markdown(text)
        case Listing(items):
            return "\n".join(f"- {as_markdown(item)}" for item in items)
        case Grid(head, rows):
            lines = [head, tuple("---" for _ in head), *rows]
            cells = [
                " | ".join(cell if at == 1 else as_markdown(cell) for cell in line)
                for at, line in enumerate(lines)
            ]
            return "\n".join(f"| {line} |" for line in cells)
        case Verbatim(text, kind):
            return _fenced(text, kind)


_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #8886; padding: .25rem .75rem .25rem 0; text-align: left;
  vertical-align: top }
pre { background: #8881; border-radius: .4rem; overflow-x: auto; padding: .75rem }
.plus { color: #1a7f37 } .minus { color: #cf222e }
@media (prefers-color-scheme: dark) { .plus { color: #3fb950 } .minus { color: #f85149 } }
"""


def render_html(night: Night) -> str:
    """The report as one page that needs nothing else."""
    title = html.escape(escaped(f"Night {night.night}: {night.project.name}"))
    body = "\n".join(_html(block) for block in told(night))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_shown(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_shown(text)}</p>"
        case Listing(items):
            return "<ul>" + "".join(f"<li>{_shown(item)}</li>" for item in items) + "</ul>"
        case Grid(head, rows):
            top = "".join(f"<th>{_shown(cell)}</th>" for cell in head)
            below = "".join(
                "<tr>" + "".join(f"<td>{_shown(cell)}</td>" for cell in row) + "</tr>"
                for row in rows
            )
            return f"<table><tr>{top}</tr>{below}</table>"
        case Verbatim(text):
            lines = "\n".join(map(_diff_line, text.splitlines()))
            return f"<pre>{lines}</pre>"


def _shown(text: str) -> str:
    return html.escape(escaped(text))


def _diff_line(line: str) -> str:
    shown = _shown(line)
    colour = {"+": "plus", "-": "minus"}.get(line[:1])
    return f'<span class="{colour}">{shown}</span>' if colour else shown
