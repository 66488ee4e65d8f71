"""`skillopt estimate`: what a run will take, before it takes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from skillopt.build.brief import Brief, prepare
from skillopt.build.estimate import estimate
from skillopt.build.outlay import Estimate, Line, Range
from skillopt.build.pricing import missing_prices
from skillopt.cli.arguments import Given
from skillopt.cli.phrases import short
from skillopt.cli.render import Screen
from skillopt.cli.settings import configured
from skillopt.cli.tables import Table

_NOTE = (
    "Low: only the calls that every run makes; no candidate reaches a gate. High: every optional\n"
    "call is made once and every candidate is measured on all of val; no retries. Input tokens\n"
    "are estimated from the real prompts and data (characters / 4). The length of answers is an\n"
    "assumption; reasoning models may need more."
)


def show_estimate(given: Given) -> None:
    """Print what the configuration asks for; no model is called."""
    screen = Screen()
    brief = prepare(configured(given, screen))
    for each in brief.world.warnings:
        screen.warn(each)
    found = estimated(brief)
    screen.show(phases(found), "", _NOTE)
    for note in price_notes(brief, found):
        screen.show("", note)


def estimated(brief: Brief) -> Estimate:
    """The estimate, for callers that have no event loop."""
    return asyncio.run(estimate(brief))


def phases(found: Estimate) -> Table:
    """One row per phase, then one per role."""
    numbers = ["calls", "tokens in", "tokens out", *(["dollars"] if found.prices else [])]
    made = Table("phase", "role", *numbers, right=numbers)
    for line in found.lines:
        _row(made, line, found)
    for line in found.roles:
        _row(made, line, found, style="bold")
    return made


def one_line(found: Estimate) -> str:
    """`312-1,250 calls, 40k-2.1M tokens, $0.10-$1.90`."""
    return spans(found.calls, found.tokens, found.dollars)


def spans(calls: Range, tokens: Range, dollars: Range | None) -> str:
    """The same of any three ranges; dollars that are none are left out."""
    size = f"{_whole(calls)} calls, {_short(tokens)} tokens"
    if dollars is None:
        return f"{size}, dollars unknown"
    return f"{size}, {_money(dollars)}" if dollars.high else size


def price_notes(brief: Brief, found: Estimate) -> list[str]:
    """Where prices come from, which are missing, and how to give them."""
    known = [f"{role}: {price.source}" for role, price in found.prices.items()]
    notes = [f"Price sources: {'; '.join(known)}."] if known else []
    if found.unpriced:
        notes.append(f"Dollars unknown: {missing_prices(brief.config, found.unpriced)}")
    return notes


def _row(made: Table, line: Line, found: Estimate, style: str = "") -> None:
    dollars = found.cost(line)
    money = [] if not found.prices else ["unknown" if dollars is None else _money(dollars)]
    cells: Sequence[str] = [
        line.phase or "all",
        line.role,
        _whole(line.calls),
        _short(line.input),
        _short(line.output),
        *money,
    ]
    made.add_row(*cells, style=style)


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


def _whole(range_: Range) -> str:
    return _span(f"{round(range_.low):,}", f"{round(range_.high):,}")


def _short(range_: Range) -> str:
    return _span(short(round(range_.low)), short(round(range_.high)))


def _money(range_: Range) -> str:
    finer = range_.high < 1
    return _span(
        *(f"${each:,.4f}" if finer else f"${each:,.2f}" for each in (range_.low, range_.high))
    )
