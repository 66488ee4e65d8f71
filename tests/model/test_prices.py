"""Prices: the user's table, and a list that comes with a package."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.chat import Usage
from skillopt.model.prices import Listed, listed

MODELS = [
    ("gpt-5.5", {"provider_id": "openai"}),
    ("claude-sonnet-4-5", {"provider_id": "anthropic"}),
    ("groq/llama-3.3-70b-versatile", {"provider_id": "litellm"}),
    ("deepseek-chat", {"provider_api_url": "https://api.deepseek.com/v1"}),
]
tokens = st.integers(0, 2_000_000)


def found(model: str, seller: dict[str, str]) -> Listed:
    pytest.importorskip("genai_prices")
    price = listed(model, **seller)
    assert price is not None
    return price


@pytest.mark.parametrize(("model", "seller"), MODELS)
def test_the_list_knows_a_model_by_its_seller_or_address(
    model: str, seller: dict[str, str]
) -> None:
    price = found(model, seller)
    assert price.cost(Usage(1, 1000, 1000)) > price.cost(Usage(1, 1000, 0)) > 0
    assert price.source.startswith("genai-prices ")
    assert model.rpartition("/")[2] in price.source


@pytest.mark.parametrize(
    ("model", "seller"),
    [
        ("gpt-none", {"provider_id": "openai"}),
        ("gpt-5.5", {"provider_id": "nobody"}),
        ("gpt-5.5", {"provider_api_url": "http://127.0.0.1:8000/v1"}),
    ],
)
def test_what_the_list_does_not_know_has_no_price(model: str, seller: dict[str, str]) -> None:
    assert listed(model, **seller) is None


@given(st.sampled_from(MODELS), tokens, tokens, tokens, tokens)
def test_no_call_costs_more_than_the_most_that_its_tokens_can_cost(
    which: tuple[str, dict[str, str]], sent: int, written: int, cached: int, stored: int
) -> None:
    price = found(*which)
    assert price.cost(Usage(1, sent, written, cached, stored=stored)) <= price.most(
        Usage(1, sent, written)
    )


def test_what_a_provider_reads_from_and_writes_to_its_cache_has_its_own_price() -> None:
    price = found("claude-sonnet-4-5", {"provider_id": "anthropic"})
    plain = price.cost(Usage(1, 10_000, 0))
    assert price.cost(Usage(1, 10_000, 0, cached=10_000)) == pytest.approx(0.1 * plain)
    assert price.cost(Usage(1, 10_000, 0, stored=10_000)) == pytest.approx(1.25 * plain)


def test_the_list_is_read_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert found("gpt-5.5", {"provider_id": "openai"}).cost(Usage(1, 1, 1)) > 0


def test_the_list_is_imported_only_when_it_is_asked() -> None:
    code = "import sys, skillopt.api; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
