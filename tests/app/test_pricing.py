"""One answer to what a model costs, for estimates, limits and receipts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support_runs import make_data

from skillopt.api import estimate, train
from skillopt.app.costs import caps_of, price_of, prices_of
from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.core.chat import Usage
from skillopt.errors import ConfigError
from skillopt.model.prices import has_list

TOLD = {"model.target_input_price": 7.0, "model.target_output_price": 9.0}


def config(**settings: object) -> Config:
    return load_config(None, values={"env.name": "custom", **settings})


def source(settings: Mapping[str, object]) -> str | None:
    price = price_of(config(**settings).model.role("target"))
    return None if price is None else price.source


def test_the_users_table_goes_before_the_list() -> None:
    settings: dict[str, object] = {"model.backend": "openai_chat", **TOLD}
    assert source(settings) == "your configuration"
    price = price_of(config(**settings).model.role("target"))
    assert price is not None
    assert price.cost(Usage(1, 1_000_000, 1_000_000)) == 16.0


@pytest.mark.skipif(not has_list(), reason="needs the extra `prices`")
def test_the_list_is_asked_by_backend_or_by_address() -> None:
    for settings, told in (
        ({"model.backend": "openai_chat"}, "openai gpt-5.5"),
        ({"model.backend": "azure_openai"}, "openai gpt-5.5"),
        ({"model.backend": "claude_chat", "model.target": "claude-opus-4-5"}, "claude-opus-4-5"),
        ({"model.backend": "litellm", "model.target": "groq/llama-3.3-70b-versatile"}, "groq"),
        (
            {"model.backend": "openai_compatible", "model.base_url": "https://api.openai.com/v1"},
            "openai gpt-5.5",
        ),
    ):
        assert told in (source(settings) or "")


def test_a_model_on_another_server_has_no_listed_price() -> None:
    for settings in (
        {"model.backend": "openai_compatible", "model.base_url": "http://127.0.0.1:8000/v1"},
        {"model.backend": "openai_chat", "model.base_url": "https://proxy.example/v1"},
        {"model.backend": "codex_cli"},
    ):
        assert source(settings) is None


def test_the_list_is_not_imported_for_a_server_on_this_machine() -> None:
    code = (
        "import sys; from skillopt.app.costs import price_of; "
        "from skillopt.config.load import load_config; "
        "config = load_config(None, values={'env.name': 'custom', 'model.backend': "
        "'openai_compatible', 'model.base_url': 'http://localhost:8000/v1'}); "
        "assert price_of(config.model.role('target')) is None; "
        "sys.exit('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_runs_here_costs_nothing_and_says_so() -> None:
    assert source({"model.backend": "local", "model.target": "some.gguf"}) == "free"


def test_a_limit_in_dollars_names_the_model_without_a_price_and_what_to_do() -> None:
    asked = config(**{"model.target": "gpt-none", "limits.dollars": 1.0})
    with pytest.raises(ConfigError) as told:
        caps_of(asked, ("target",), prices_of(asked, ("target",)))
    text = str(told.value)
    assert "limits.dollars: cannot be kept: no price is known for target gpt-none" in text
    assert "set model.target_input_price and _output_price" in text
    assert ("pip install 'genai-prices>=" in text) is not has_list()


def test_a_function_as_model_has_no_listed_price(tmp_path: Path) -> None:
    rows = [{"input": str(n), "answer": str(n)} for n in range(20)]
    found = estimate(data=rows, target=str, optimizer=str, skill="Count.")
    assert (found.dollars, found.unpriced) == (None, ["target", "optimizer"])
    with pytest.raises(ConfigError, match=r"no price is known for target .* and optimizer "):
        train(
            data=rows,
            target=str,
            optimizer=str,
            skill="Count.",
            out=tmp_path / "run",
            settings={"limits.dollars": 1.0},
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not has_list(), reason="needs the extra `prices`")
def test_an_estimate_uses_the_list(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (20, 12, 8))
    settings: dict[str, object] = {
        "model.backend": "openai_chat",
        "env.name": "custom",
        "env.split_mode": "split_dir",
        "env.split_dir": str(data),
    }
    listed = estimate(skill="Do.", settings=settings).dollars
    assert listed is not None
    assert 0 < listed.low < listed.high
    dearer = {"model.input_price": 50.0, "model.output_price": 300.0}
    own = estimate(skill="Do.", settings=settings | dearer).dollars
    assert own is not None
    assert own.high == pytest.approx(10 * listed.high, rel=0.2)
