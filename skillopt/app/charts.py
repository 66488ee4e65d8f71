"""Charts of a run as SVG: scores with their intervals, decisions, cost, size, items.

Colours are variables of the page around them, with a default for pages that have none. A score
holds until it is replaced, so lines are steps. No meaning is carried by colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Final, TypeAlias

from skillopt.analysis.items import FAILED, NOTHING, OWN, PARTLY, PASSED, WRONG, ItemRow, ItemTable
from skillopt.app.cost_views import CostView
from skillopt.app.step_views import ScoreView, StepOutcome, StepView
from skillopt.app.wording import short, spelt
from skillopt.core.controls import escaped

MARKS: Final[dict[StepOutcome, tuple[str, str]]] = {
    "accepted": ("\u25cf", "var(--accepted,#0b5fce)"),
    "rejected": ("\u2715", "var(--rejected,#a84a00)"),
    "inconclusive": ("\u25d0", "var(--inconclusive,#7a3ea8)"),
    "skipped": ("\u2013", "var(--muted,#5f6770)"),
    "measured": ("\u25c6", "var(--muted,#5f6770)"),
}
"""What stands for an outcome: a sign and a colour, as each is told apart without the other."""
_INK, _MUTED, _GRID = "var(--ink,#16191d)", "var(--muted,#5f6770)", "var(--line,#dfe3e8)"
_ACCENT, _TRAIN = "var(--accepted,#0b5fce)", "var(--train,#8a929c)"
_DENSE = 150
"""Moves above which what was not accepted is drawn as small dots, and training scores are not."""
_FONT = "font-family:system-ui,sans-serif;font-size:12px"


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a chart is drawn: values to places."""

    width: int
    height: int
    last: int
    """The last place on the timeline."""
    low: float
    high: float
    left: int = 44
    right: int = 96
    top: int = 12
    bottom: int = 30

    def x(self, position: float) -> float:
        room = self.width - self.left - self.right
        return round(self.left + room * position / max(1, self.last), 1)

    def y(self, value: float) -> float:
        room = self.height - self.top - self.bottom
        share = (min(self.high, max(self.low, value)) - self.low) / (self.high - self.low)
        return round(self.top + room * (1 - share), 1)


def _right(width: int) -> int:
    """Room for the names of lines, behind their ends."""
    return 124 if width > 600 else 74


def score_chart(steps: Sequence[StepView], metric: str, width: int = 920) -> str:
    """Scores over the moves of a run, and below them a strip with one mark for each decision."""
    shown = steps
    if not shown:
        return ""
    known = [score for step in shown for score in _scores(step)]
    low, high = _range(known)
    frame = _Frame(width, 330 if width > 600 else 300, max(1, shown[-1].position), low, high,
                   right=_right(width), bottom=64)  # fmt: skip
    n, dense = shown[0].current.n, len(shown) > _DENSE
    trained = _known([(step.position, step.train) for step in shown])
    parts = [
        *_grid(frame, _ticks(low, high), lambda value: f"{value:.1f}"),
        _band(frame, [(step.position, step.best) for step in shown], _ACCENT),
        "" if dense else _line(frame, trained, _TRAIN, thin=True),
        *(_candidate(frame, step, dense=dense) for step in shown if step.outcome != "accepted"),
        _line(frame, _known([(step.position, step.current) for step in shown]), _INK),
        _line(frame, _known([(step.position, step.best) for step in shown]), _ACCENT),
        *(_candidate(frame, step, dense=False) for step in shown if step.outcome == "accepted"),
        *_labels(frame, shown[-1], () if dense else trained),
        *_strip(frame, shown),
        *_step_axis(frame, shown),
    ]
    title = f"{metric} score on {n} val items, with 95 % intervals, over the steps of the run"
    return _svg(frame, title, parts, f"{metric} score on {n} val items")


def size_chart(steps: Sequence[StepView], width: int = 920) -> str:
    """Tokens of the current skill over the moves of a run."""
    shown = steps
    if not shown:
        return ""
    most = _nice(max(step.tokens for step in shown))
    frame = _Frame(width, 150, max(1, shown[-1].position), 0, most,
                   right=_right(width))  # fmt: skip
    points = [(step.position, float(step.tokens)) for step in shown]
    last = points[-1]
    parts = [
        *_grid(frame, [0, most / 2, most], lambda value: short(round(value))),
        _line(frame, points, _INK),
        _text(frame.x(last[0]) + 6, frame.y(last[1]) + 4, f"{short(round(last[1]))} tokens", _INK),
        *_step_axis(frame, shown),
    ]
    return _svg(frame, "estimated tokens of the current skill over the steps", parts, "skill size")


def budget_chart(steps: Sequence[StepView], width: int = 920) -> str:
    """The learning rate: how many edits each step was allowed; nothing where none had a limit."""
    points = [(step.position, float(step.budget)) for step in steps if step.budget is not None]
    if not points:
        return ""
    most = _nice(max(value for _, value in points))
    frame = _Frame(width, 120, max(1, steps[-1].position), 0, most, right=_right(width))
    last = points[-1]
    parts = [
        *_grid(frame, [0, most], lambda value: short(round(value))),
        _line(frame, points, _INK),
        _text(frame.x(last[0]) + 6, frame.y(last[1]) + 4, f"{last[1]:.0f}", _INK),
        *_step_axis(frame, steps),
    ]
    title = "edits allowed in each step (learning rate)"
    return _svg(frame, title, parts, title)


def cost_chart(steps: Sequence[StepView], cost: CostView, width: int = 920) -> str:
    """What was spent so far after each move, beside the limit, where there is one.

    In dollars where all prices are known, else in tokens.
    """
    if not steps or not cost.total.calls:
        return ""
    limits = {limit.name: limit.most for limit in cost.limits}
    dollars = bool(cost.total.dollars)
    unit, limit = (
        ("dollars", limits.get("dollars")) if dollars else ("tokens", limits.get("tokens"))
    )
    own = {
        move.name: (move.dollars or 0.0) if dollars else float(move.tokens) for move in cost.moves
    }
    total, points = 0.0, list[tuple[int, float]]()
    for step in steps:
        total += own.pop(step.move, 0.0)  # a move may be made again, as the final test
        points.append((step.position, total))
    if not total:
        return ""
    # A limit far above the line would flatten it; such a limit is written as text instead.
    near = limit is not None and limit <= 4 * total
    most = _nice(max(total, limit or 0.0) if near else total)
    frame = _Frame(width, 150, max(1, steps[-1].position), 0, most,
                   right=_right(width))  # fmt: skip

    def told(value: float) -> str:
        return f"${value:,.2f}" if dollars else short(round(value))

    far = "" if limit is None or near else f", limit {told(limit)}"
    parts = [
        *_grid(frame, [0, most / 2, most], told),
        _line(frame, points, _INK),
        _text(frame.x(points[-1][0]) + 6, frame.y(total) + 4, told(total), _INK),
        *_step_axis(frame, steps),
    ]
    if limit is not None and near:
        y = frame.y(limit)
        parts.append(_rule(frame, y, MARKS["rejected"][1], dashed=True))
        parts.append(_text(frame.width - frame.right + 6, y + 4, f"limit {told(limit)}", _INK))
    return _svg(frame, f"{unit} spent so far over the steps{far}", parts, f"{unit} so far{far}")


_CELLS: Final = {
    PASSED: ("var(--cell-passed,#0b5fce)", 1.0, "passed"),
    PARTLY: ("var(--cell-passed,#0b5fce)", 0.45, "in part"),
    WRONG: ("var(--cell-wrong,#f0b27a)", 1.0, "wrong"),
    OWN: ("var(--cell-wrong,#f0b27a)", 1.0, "failed with this skill only"),
    FAILED: ("var(--surface,#fff)", 1.0, "failed by infrastructure"),
}
MOST_ROWS, MOST_COLUMNS = 120, 48
"""Of the map of items; a page shows the others."""


def item_map(table: ItemTable, rows: Sequence[ItemRow], width: int = 920) -> str:
    """Tasks and kept skills, a cell each; passed cells are dark, wrong ones light with a dot.

    Where there are more tasks than skills, a skill is a row, so that what it changed is seen at a
    glance. Columns that do not fit into the width go on below.
    """
    kept = [at for at, column in enumerate(table.columns) if column.kept]
    if len(kept) > MOST_COLUMNS:  # the first, and the latest
        kept = [kept[0], *kept[-(MOST_COLUMNS - 1) :]]
    rows = rows[:MOST_ROWS]
    if not kept or not rows:
        return ""
    tasks = [(row.task, [(row, table.columns[at].name, row.cells[at]) for at in kept])
             for row in rows]  # fmt: skip
    names = [table.columns[at].name for at in kept]
    if len(rows) > len(kept):
        lines = [(spelt(name), [task[1][at] for task in tasks]) for at, name in enumerate(names)]
        parts, size = _blocks(lines, [row.task for row in rows], "", width)
    else:
        parts, size = _blocks(tasks, list(map(_abbreviated, names)), "skill of step", width)
    title = "outcome of each item under each skill that was kept"
    return _svg(_Frame(*size, 1, 0, 1), title, parts, "")


_Outcome: TypeAlias = tuple[ItemRow, str, str]
"""A task, a skill, and what came of them."""
_TALL, _NARROW, _WIDE = 13, 14, 26
"""Pixels of a cell: its height, and how wide it is at least and at most."""
_LONG = 20
"""Characters of a name that are shown."""


def _blocks(
    lines: Sequence[tuple[str, Sequence[_Outcome]]],
    names: Sequence[str],
    heading: str,
    width: int,
) -> tuple[list[str], tuple[int, int]]:
    """Lines with a cell for each name of a column, in blocks below each other; and their size."""
    left = 14 + 6 * max(len(heading), *(len(_cut(label)) for label, _ in lines))
    room = width - left - 8
    cell = max(_NARROW, min(_WIDE, room // len(names)))
    fits = max(1, room // cell)
    names = [_cut(name) for name in names]
    upright = max(map(len, names)) > 3
    head = 12 + 6 * max(map(len, names)) if upright else 26
    parts: list[str] = []
    top = 0
    for first in range(0, len(names), fits):
        parts.append(_text(left - 6, top + head - 8, heading, _MUTED, anchor="end", size=11))
        for across, name in enumerate(names[first : first + fits]):
            x = left + across * cell + cell / 2
            parts.append(_column_name(x, top + head - 6, name, upright=upright))
        for down, (label, cells) in enumerate(lines):
            y = top + head + down * (_TALL + 1)
            parts.append(_text(left - 6, y + 10, _cut(label), _MUTED, anchor="end", size=11))
            parts += [
                _cell(left + across * cell, y, cell, _TALL, *outcome)
                for across, outcome in enumerate(cells[first : first + fits])
            ]
        top += head + len(lines) * (_TALL + 1) + 10
    return parts, (left + min(fits, len(names)) * cell + 8, top)


def _cut(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 1]}\u2026"


def _column_name(x: float, y: float, name: str, *, upright: bool) -> str:
    if not upright:
        return _text(x, y - 2, name, _MUTED, anchor="middle", size=11)
    written = _text(x + 4, y, name, _MUTED, size=11)
    return f'<g transform="rotate(-90 {x + 4:.1f} {y:.1f})">{written}</g>'


def _abbreviated(name: str) -> str:
    """`3` for the skill of step 3, `r1` for that of a review, `e2` for guidance after epoch 2."""
    kind, _, number = name.rpartition("_")
    if not number.isdigit():
        return "0"
    if kind.endswith("epoch"):
        return f"{'e' if kind.startswith('slow') else kind[0]}{int(number)}"
    return f"{'r' if kind == 'review' else ''}{int(number)}"


def _cell(
    x: float, y: float, width: float, height: float, row: ItemRow, skill: str, outcome: str
) -> str:
    if outcome == NOTHING:
        return ""
    colour, opacity, words = _CELLS[outcome]
    title = f"<title>{_e(row.task)}, {_e(skill)}: {words}</title>"
    border = f' stroke="{MARKS["rejected"][1]}" stroke-dasharray="2 2"' if outcome == FAILED else ""
    box = (
        f'<rect x="{x:.1f}" y="{y}" width="{max(2, width - 1):.1f}" height="{height}" rx="2" '
        f'style="fill:{colour};fill-opacity:{opacity}"{border}>{title}</rect>'
    )
    if outcome in {WRONG, OWN} and width >= 8:
        cx, cy = x + (width - 1) / 2, y + height / 2
        box += f'<circle cx="{cx:.1f}" cy="{cy}" r="1.6" style="fill:var(--cell-dot,#7a3600)"/>'
    return box


def _scores(step: StepView) -> Iterable[ScoreView]:
    scores = (step.train, step.candidate, step.current, step.best)
    return (score for score in scores if score is not None and score.mean is not None)


def _range(scores: Iterable[ScoreView]) -> tuple[float, float]:
    """The part of 0 to 1 that is shown: tenths around everything, and not too narrow."""
    ends = [end for score in scores for end in (score.low, score.mean or 0.0, score.high)]
    low, high = floor(min(ends, default=0) * 10) / 10, ceil(max(ends, default=1) * 10) / 10
    while high - low < 0.3:
        low, high = max(0.0, low - 0.1), min(1.0, high + 0.1)
    return round(low, 1), round(high, 1)


def _ticks(low: float, high: float) -> list[float]:
    stride = 0.1 if high - low <= 0.5 else 0.2
    count = int((high - low) / stride + 1e-9)
    return [round(low + stride * number, 1) for number in range(count + 1)]


def _nice(value: float) -> float:
    """The next of 1, 2, 5, 10 and so on."""
    if value <= 0:
        return 1.0
    power = 10 ** floor(log10(value))
    return next(float(step * power) for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _known(points: Iterable[tuple[int, ScoreView | None]]) -> list[tuple[int, float]]:
    return [
        (at, score.mean) for at, score in points if score is not None and score.mean is not None
    ]


def _grid(frame: _Frame, values: Iterable[float], told: Callable[[float], str]) -> list[str]:
    parts: list[str] = []
    for value in values:
        y = frame.y(value)
        parts.append(_rule(frame, y, _GRID))
        parts.append(_text(frame.left - 8, y + 4, told(value), _MUTED, anchor="end"))
    return parts


def _rule(frame: _Frame, y: float, colour: str, *, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y}" y2="{y}" '
        f'style="stroke:{colour}"{dashes}/>'
    )


def _line(
    frame: _Frame, points: Sequence[tuple[int, float]], colour: str, *, thin: bool = False
) -> str:
    if not points:
        return ""
    path = f"M{frame.x(points[0][0])} {frame.y(points[0][1])}"
    for at, value in points[1:]:
        path += f"H{frame.x(at)}V{frame.y(value)}"
    look = "stroke-width:1;stroke-opacity:.8" if thin else "stroke-width:2"
    return f'<path d="{path}" style="fill:none;stroke:{colour};{look}"/>'


def _band(frame: _Frame, points: Sequence[tuple[int, ScoreView]], colour: str) -> str:
    if not points:
        return ""
    upper = lower = ""
    for place, (at, score) in enumerate(points):
        x, top, bottom = frame.x(at), frame.y(score.high), frame.y(score.low)
        upper += f"H{x}V{top}" if place else f"M{x} {top}"
        lower = f"V{bottom}H{x}{lower}"
    return f'<path d="{upper}{lower}Z" style="fill:{colour};fill-opacity:.12;stroke:none"/>'


def _candidate(frame: _Frame, step: StepView, *, dense: bool) -> str:
    score = step.candidate
    if score is None or score.mean is None:
        return ""
    x, y = frame.x(step.position), frame.y(score.mean)
    _, colour = MARKS[step.outcome]
    title = f"<title>{_e(step.title)}: candidate {score.text}, {_e(step.words)}</title>"
    if dense:
        look = f"fill:{colour};fill-opacity:.45"
        return f'<circle cx="{x}" cy="{y}" r="1.4" style="{look}">{title}</circle>'
    if score.bound:  # the true score lies below
        shape = (
            f'<path d="M{x - 4} {y}h8M{x} {y}v7m-3 -3l3 3l3 -3" style="fill:none;stroke:{colour}">'
        )
        return f"{shape}{title}</path>"
    if step.outcome == "accepted":
        return f'<circle cx="{x}" cy="{y}" r="4" style="fill:{colour}">{title}</circle>'
    if step.outcome == "inconclusive":
        ring = f"fill:var(--surface,#fff);stroke:{colour};stroke-width:1.5"
        return f'<circle cx="{x}" cy="{y}" r="3.5" style="{ring}">{title}</circle>'
    cross = f"M{x - 3} {y - 3}l6 6m0 -6l-6 6"
    return f'<path d="{cross}" style="fill:none;stroke:{colour};stroke-width:1.5">{title}</path>'


def _labels(frame: _Frame, last: StepView, trained: Sequence[tuple[int, float]]) -> list[str]:
    """Names at the right end of the lines, none over another."""
    ends = [("best", last.best.mean, _ACCENT), ("current", last.current.mean, _INK)]
    if last.best.mean == last.current.mean:
        ends = [("best, current", last.best.mean, _ACCENT)]
    if trained:
        ends.append(("train", trained[-1][1], _MUTED))
    places = sorted(
        (frame.y(value) + 4, f"{name} {value:.2f}", colour)
        for name, value, colour in ends
        if value is not None
    )
    parts: list[str] = []
    lowest = 0.0
    narrow = frame.right < 90
    for y, text, colour in places:
        lowest = max(y, lowest + 14)
        shown_text = text.replace("best, current", "best") if narrow else text
        parts.append(_text(frame.width - frame.right + 8, lowest, shown_text, colour))
    return parts


def _strip(frame: _Frame, shown: Sequence[StepView]) -> list[str]:
    """One mark for each decision, below the scores."""
    y = frame.height - 34
    parts = [_text(frame.left - 8, y + 4, "gate", _MUTED, anchor="end")]
    decided = [step for step in shown if step.kind != "baseline"]
    room = (frame.width - frame.left - frame.right) / max(1, len(decided))
    for step in decided:
        mark, colour = MARKS[step.outcome]
        title = f"<title>{_e(step.title)}: {_e(step.words)}</title>"
        x = frame.x(step.position)
        if room >= 9:
            parts.append(
                f'<text x="{x}" y="{y + 4}" text-anchor="middle" '
                f'style="{_FONT};fill:{colour}">{mark}{title}</text>'
            )
        else:  # as many as pixels: bars whose height tells the outcome, too
            tall = {"accepted": 16, "inconclusive": 10, "rejected": 6}.get(step.outcome, 2)
            parts.append(
                f'<line x1="{x}" x2="{x}" y1="{y + 6}" y2="{y + 6 - tall}" '
                f'style="stroke:{colour};stroke-width:1">{title}</line>'
            )
    return parts


def _step_axis(frame: _Frame, shown: Sequence[StepView]) -> list[str]:
    steps = [step for step in shown if step.kind == "step"]
    if not steps:
        return []
    wanted = 10 if frame.width > 600 else 5
    stride = max(1, ceil(_nice(len(steps) / wanted)))
    y = frame.height - 8
    parts = [
        _text(frame.x(step.position), y, str(step.step), _MUTED, anchor="middle")
        for step in steps
        if step.step % stride == 0 or (stride == 1)
    ]
    return [*parts, _text(frame.left - 8, y, "step", _MUTED, anchor="end")]


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 12
) -> str:
    font = _FONT.replace("12px", f"{size}px")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'style="{font};fill:{colour};font-variant-numeric:tabular-nums">{_e(text)}</text>'
    )


def _svg(frame: _Frame, title: str, parts: Iterable[str], caption: str) -> str:
    head = f"<figcaption>{_e(caption)}</figcaption>" if caption else ""
    return (
        f"<figure>{head}"
        f'<svg viewBox="0 0 {frame.width} {frame.height}" width="{frame.width}" '
        f'height="{frame.height}" role="img" aria-label="{_e(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></figure>'
    )


def _e(text: str) -> str:
    return escape(escaped(text))
