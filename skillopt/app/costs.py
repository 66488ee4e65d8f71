"""Calls, tokens and dollars of a run, phase by phase, and the prices of its models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from skillopt.config.schema import Config, Role, RoleModel
from skillopt.config.secrets import on_this_machine
from skillopt.core.chat import Usage
from skillopt.core.costs import NONE, Range
from skillopt.core.extras import install_command
from skillopt.model.budget import Limits
from skillopt.model.prices import Price, Tariff, has_list, listed

CALLS_FACTOR: Final = 2.0
TOKENS_FACTOR: Final = 3.0
"""How far off the likely range of calls, and of tokens, dollars and time, goes."""


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

    def perhaps(self, chance: float) -> CostLine:
        """The same phase, if it comes up at all."""
        return replace(
            self,
            calls=self.calls.perhaps(chance),
            input=self.input.perhaps(chance),
            output=self.output.perhaps(chance),
            seconds=self.seconds.perhaps(chance),
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
        return summed_lines(replace(line, phase="") for line in self.lines)

    @property
    def calls(self) -> Range:
        return sum((line.calls for line in self.lines), NONE)

    @property
    def tokens(self) -> Range:
        return sum((line.input + line.output for line in self.lines), NONE)

    @property
    def seconds(self) -> Range:
        return sum((line.seconds for line in self.lines), NONE)

    @property
    def dollars(self) -> Range | None:
        """Dollars of the whole run; None if a price is unknown."""
        found = [self.cost(line) for line in self.lines]
        known = [cost for cost in found if cost is not None]
        return sum(known, NONE) if len(known) == len(found) else None

    @property
    def unpriced(self) -> list[Role]:
        return list(dict.fromkeys(line.role for line in self.lines if line.role not in self.prices))

    @property
    def free(self) -> list[Role]:
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


FREE: Final = {"local", "handoff"}
"""Backends whose answers nobody is paid for."""
_SELLERS: Final[Mapping[str, str]] = {
    "claude_chat": "anthropic",
    "litellm": "litellm",
    "minimax_chat": "minimax",
    "openai_chat": "openai",
}
"""Who sells what a backend asks, in the words of the price list."""


def told_price(role: RoleModel) -> Price | None:
    if role.input_price is None or role.output_price is None:
        return None
    return Price(
        input=role.input_price, output=role.output_price, cached_input=role.cached_input_price
    )


def price_of(role: RoleModel) -> Tariff | None:
    """What the model of a role costs; None when nobody knows.

    The user's word goes first. The list is asked by address where there is one: a model on another
    server than its maker's has another price, or none.
    """
    if (told := told_price(role)) is not None:
        return told
    if role.backend in FREE:
        return Price(input=0, output=0, source="free")
    if role.base_url and role.backend != "litellm":
        if on_this_machine(role.base_url):
            return None  # the list has nobody here, and takes a while to be imported
        return listed(role.model, provider_api_url=role.base_url)
    seller = _SELLERS.get(role.backend)
    return None if seller is None else listed(role.model, provider_id=seller)


def prices_of(
    config: Config, roles: Sequence[Role], own: Collection[Role] = ()
) -> dict[Role, Tariff]:
    """The prices that are known; a model of the caller's `own` has none but the user's."""
    found: dict[Role, Tariff] = {}
    for role in roles:
        model = config.model.role(role)
        price = told_price(model) if role in own else price_of(model)
        if price is not None:
            found[role] = price
    return found


def caps_of(config: Config, roles: Sequence[Role], prices: Mapping[Role, Tariff]) -> Limits:
    """The limits of a run with these models; one in dollars needs all their prices."""
    limits = config.limits
    unknown: list[Role] = [role for role in roles if role not in prices]
    if limits.dollars is not None and unknown:
        what = f"cannot be kept: {missing_prices(config, unknown)} Or limit tokens or calls instead"
        raise config.complaint("limits.dollars", what)
    return Limits(
        dollars=limits.dollars,
        tokens=limits.tokens,
        calls=limits.calls,
        minutes=limits.minutes,
    )


def missing_prices(config: Config, unknown: Sequence[Role]) -> str:
    """Which prices nobody knows, and how to give them."""
    models = " and ".join(f"{role} {config.model.role(role).model}" for role in unknown)
    keys = ", ".join(f"model.{role}_input_price and _output_price" for role in unknown)
    told = (
        f"no price is known for {models}; set {keys} (dollars per million tokens; 0 for a model "
        "that costs nothing)."
    )
    listing = "" if has_list() else f" The prices of many models: {install_command('prices')}."
    return told + listing
