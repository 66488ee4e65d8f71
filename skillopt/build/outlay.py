"""Estimated calls, tokens and dollars, as ranges that can be added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skillopt.config.schema import Role
from skillopt.core.chat import Usage
from skillopt.model.prices import Tariff


@dataclass(frozen=True, slots=True)
class Range:
    """An estimated number: lower bound, upper bound and expected value."""

    low: float
    high: float
    assumed: float | None = field(default=None, compare=False)
    """The expected value, if it is not the middle."""

    @property
    def expected(self) -> float:
        """The expected value, within the bounds; by default the middle."""
        middle = (self.low + self.high) / 2
        return middle if self.assumed is None else min(max(self.assumed, self.low), self.high)

    def __add__(self, other: Range) -> Range:
        """The sum."""
        expected = self.expected + other.expected
        return Range(self.low + other.low, self.high + other.high, expected)

    def __mul__(self, other: Range) -> Range:
        """The product."""
        expected = self.expected * other.expected
        return Range(self.low * other.low, self.high * other.high, expected)

    def perhaps(self) -> Range:
        """The same range for something that may not happen: the lower bound is 0."""
        return Range(0, self.high, self.expected / 2)

    def likely(self, factor: float) -> Range:
        """The expected value divided and multiplied by a factor, within the bounds."""
        expected = self.expected
        low, high = max(self.low, expected / factor), min(self.high, expected * factor)
        return Range(low, high, expected)


NONE = Range(0, 0)
MAYBE = Range(0, 1)


@dataclass(frozen=True, slots=True)
class CostLine:
    """One phase of a run, as far as it asks one role."""

    phase: str
    role: Role
    calls: Range
    input: Range
    """Tokens, of all calls together."""
    output: Range
    seconds: Range = NONE
    """Of wall-clock time."""

    def perhaps(self) -> CostLine:
        """The same phase, if it comes up at all."""
        return replace(
            self,
            calls=self.calls.perhaps(),
            input=self.input.perhaps(),
            output=self.output.perhaps(),
            seconds=self.seconds.perhaps(),
        )

    def __add__(self, other: CostLine) -> CostLine:
        """The same phase, more of it."""
        return CostLine(
            self.phase,
            self.role,
            self.calls + other.calls,
            self.input + other.input,
            self.output + other.output,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated calls, tokens, time and, if prices are known, dollars of a whole run."""

    lines: tuple[CostLine, ...]
    prices: Mapping[Role, Tariff] = field(default_factory=dict[Role, Tariff])
    warnings: tuple[str, ...] = ()
    """Problems of the data and the settings, each with what to do."""

    @property
    def roles(self) -> list[CostLine]:
        """The total of each role."""
        return summed_lines(replace(line, phase="") for line in self.lines)

    @property
    def calls(self) -> Range:
        """All calls."""
        return sum((line.calls for line in self.lines), NONE)

    @property
    def tokens(self) -> Range:
        """All tokens, input and output."""
        return sum((line.input + line.output for line in self.lines), NONE)

    @property
    def seconds(self) -> Range:
        """Wall-clock time of the whole run."""
        return sum((line.seconds for line in self.lines), NONE)

    @property
    def dollars(self) -> Range | None:
        """Dollars of the whole run; None if a price is unknown."""
        found = [self.cost(line) for line in self.lines]
        known = [each for each in found if each is not None]
        return sum(known, NONE) if len(known) == len(found) else None

    @property
    def unpriced(self) -> list[Role]:
        """Roles whose price is unknown."""
        return list(dict.fromkeys(line.role for line in self.lines if line.role not in self.prices))

    @property
    def free(self) -> list[Role]:
        """Roles whose calls cost nothing."""
        costs: dict[Role, Range | None] = {line.role: self.cost(line) for line in self.roles}
        return [role for role, cost in costs.items() if cost is not None and not cost.high]

    def cost(self, line: CostLine) -> Range | None:
        """Dollars of a phase; None if the price is unknown."""
        price = self.prices.get(line.role)
        if price is None:
            return None

        def at(calls: float, given: float, answered: float) -> float:
            """Call by call, because a long one may have another price."""
            if not calls:
                return 0.0
            return calls * price.cost(Usage(1, round(given / calls), round(answered / calls)))

        calls, given, answered = line.calls, line.input, line.output
        return Range(
            at(calls.low, given.low, answered.low),
            at(calls.high, given.high, answered.high),
            at(calls.expected, given.expected, answered.expected),
        )


def summed_lines(lines: Iterable[CostLine]) -> list[CostLine]:
    """One line for each phase and role, without those that never come up."""
    sums: dict[tuple[str, Role], CostLine] = {}
    for line in lines:
        key = line.phase, line.role
        sums[key] = sums[key] + line if key in sums else line
    return [line for line in sums.values() if line.calls.high]
