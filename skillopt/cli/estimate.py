"""`skillopt estimate`: calls, tokens, dollars and time of a run, estimated."""

from __future__ import annotations

from collections.abc import Callable

from skillopt.api import estimate, prepare
from skillopt.app.costs import (
    CALLS_FACTOR,
    TOKENS_FACTOR,
    CostLine,
    Estimate,
    missing_prices,
)
from skillopt.app.estimate import CANDIDATES, answer_tokens
from skillopt.app.run_spec import RunSpec
from skillopt.app.speed import Speed, speed_of
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import count, duration, short
from skillopt.cli.running import Command
from skillopt.cli.tables import Table
from skillopt.core.costs import Range

_NOTE = (
    "Expected values; in brackets the likely range: half to double the expected calls, a third\n"
    "to three times the expected tokens and dollars, within what the plan allows. Assumed:\n"
    "{share} of the steps bring a candidate, which is evaluated once; answers have\n"
    "{answers}, reasoning models may need\n"
    "more; no retries. Input tokens come from the real prompts and data (characters / 4)."
)
_FAR = 20
"""An upper bound so many times the expected value says nothing."""
_TIME = "Time: about {expected} ({low} to {high}), a rough figure. Assumed:"


def show_estimate(session: Session) -> None:
    command = Command(session)
    spec = prepare(command.config())
    costs, screen = estimate(spec), command.screen
    for warning in costs.warnings:
        screen.warn(warning)
    screen.show(_phases(costs), "", _bounds(costs), "", _note(spec), "", _time(spec, costs))
    for note in _price_notes(spec, costs):
        screen.show("", note)
    screen.tell(f"next: {session.given.command('train', {})}")


def _bounds(costs: Estimate) -> str:
    """The bounds of the plan, where the upper one says anything."""
    if costs.calls.high <= _FAR * costs.calls.expected:
        return f"At least and at most: {spans(costs.calls, costs.tokens, costs.dollars)}."
    return (
        f"At least {costs.calls.low:,.0f} calls. The plan allows far more than is likely: to bound "
        "what a run\ntakes, set limits.calls, limits.tokens or limits.dollars."
    )


def _phases(costs: Estimate) -> Table:
    """One row per phase, then one per role."""
    numbers = ["calls", "tokens in", "tokens out", *(["dollars"] if _is_priced(costs) else [])]
    table = Table("phase", "role", *numbers, right=numbers)
    for line in costs.lines:
        table.add_row(*_cells(line, costs))
    for line in costs.roles:
        table.add_row(*_cells(line, costs), style="bold")
    return table


def _is_priced(costs: Estimate) -> bool:
    """Whether there is a price to tell: one is known and not all are free."""
    return any(role not in costs.free for role in costs.prices) or bool(
        costs.free and costs.unpriced
    )


def one_line(costs: Estimate) -> str:
    """`about 12 min, 312-700 calls, 400k-1.6M tokens, $0.10-$0.40`: the likely ranges."""
    dollars = None if costs.dollars is None else costs.dollars.likely(TOKENS_FACTOR)
    likely = spans(costs.calls.likely(CALLS_FACTOR), costs.tokens.likely(TOKENS_FACTOR), dollars)
    return f"about {duration(costs.seconds.expected)}, {likely}"


def _note(spec: RunSpec) -> str:
    model = spec.config.model
    tokens = {role: round(answer_tokens(model.role(role)).expected) for role in spec.roles}
    answers = " and ".join(f"{number} tokens ({role})" for role, number in tokens.items())
    return _NOTE.format(share=f"{100 * CANDIDATES:.0f} %", answers=answers)


def _time(spec: RunSpec, costs: Estimate) -> str:
    likely = costs.seconds.likely(TOKENS_FACTOR)
    expected, low, high = map(duration, (likely.expected, likely.low, likely.high))
    speeds = {role: _speed(speed_of(spec.config.model.role(role)), spec) for role in spec.roles}
    assumed = [
        f"- {' and '.join(role for role in speeds if speeds[role] == speed)}: {speed}"
        for speed in dict.fromkeys(speeds.values())
    ]
    return "\n".join([_TIME.format(expected=expected, low=low, high=high), *assumed])


def _speed(speed: Speed, spec: RunSpec) -> str:
    workers = spec.config.env.workers
    at_once = speed.at_once(workers)
    if speed.cores is None:
        limit = "env.workers" if at_once == workers else "model.max_concurrency"
        return (
            f"a call takes {speed.wait.expected:g} s plus 1 s for every "
            f"{1 / speed.write.expected:.0f} tokens of its answer;\n"
            f"  {count(at_once, 'attempt')} ({limit}) run at the same time"
        )
    limit = "model.local_parallel" if at_once == speed.together else "env.workers"
    return (
        f"{1 / speed.read.expected:.0f} tokens of a request and "
        f"{1 / speed.write.expected:.0f} tokens of an answer per second on\n"
        f"  {count(speed.cores, 'core')}, {count(at_once, 'call')} at a time ({limit}); "
        "slower while other programs run"
    )


def spans(calls: Range, tokens: Range, dollars: Range | None) -> str:
    """`312-700 calls, 400k-1.6M tokens, $0.10-$0.40`; without dollars if it costs none."""
    size = f"{_span(calls, _whole)} calls, {_span(tokens, _rounded)} tokens"
    if dollars is None:
        return f"{size}, dollars unknown"
    return f"{size}, {_span(dollars, _money(dollars))}" if dollars.high else size


def _price_notes(spec: RunSpec, costs: Estimate) -> list[str]:
    """Where prices come from, which are missing, and how to give them."""
    paid = {role: price for role, price in costs.prices.items() if role not in costs.free}
    known = [f"{role}: {price.source}" for role, price in paid.items()]
    notes = [f"Price sources: {'; '.join(known)}."] if known else []
    if costs.free:
        notes.append(f"Free: {', '.join(costs.free)}.")
    if costs.unpriced:
        notes.append(f"Dollars unknown: {missing_prices(spec.config, costs.unpriced)}")
    return notes


def _cells(line: CostLine, costs: Estimate) -> list[str]:
    return [
        line.phase or "all",
        line.role,
        _with_span(line.calls.likely(CALLS_FACTOR), _whole),
        _with_span(line.input.likely(TOKENS_FACTOR), _rounded),
        _with_span(line.output.likely(TOKENS_FACTOR), _rounded),
        *([_likely_dollars(costs.cost(line))] if _is_priced(costs) else []),
    ]


def _likely_dollars(dollars: Range | None) -> str:
    if dollars is None:
        return "unknown"
    likely = dollars.likely(TOKENS_FACTOR)
    return _with_span(likely, _money(likely)) if dollars.high else "free"


def _with_span(amount: Range, written: Callable[[float], str]) -> str:
    """`120 (80-180)`; one number where there is no range."""
    expected, span = written(amount.expected), _span(amount, written)
    return expected if expected == span else f"{expected} ({span})"


def _span(amount: Range, written: Callable[[float], str]) -> str:
    low, high = written(amount.low), written(amount.high)
    return low if low == high else f"{low}-{high}"


def _whole(number: float) -> str:
    return f"{round(number):,}"


def _rounded(number: float) -> str:
    return short(round(number))


def _money(amount: Range) -> Callable[[float], str]:
    """Dollars as fine as the range that they belong to."""
    digits = 4 if amount.high < 1 else 2
    return lambda dollars: f"${dollars:,.{digits}f}"
