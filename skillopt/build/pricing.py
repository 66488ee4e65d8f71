"""The prices of the models of a run, for estimates, limits and receipts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from skillopt.config.schema import Config, Role, RoleModel
from skillopt.core.extras import install_command
from skillopt.model.prices import Price, Tariff, has_list, listed
from skillopt.model.purse import Limits

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
    """What the user says that a model costs."""
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
