"""What gateways and providers say about a wrong key, an unknown model, money and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support_wire import WireServer, says

from skillopt.core.chat import Message, Request
from skillopt.errors import AccessError, ModelError, Refused
from skillopt.model.http import Http
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
PLACE = Path(__file__).parent / "recordings" / "gateways.json"
ERRORS: list[dict[str, Any]] = json.loads(PLACE.read_text("utf-8"))["errors"]


async def error_of(status: int, body: object) -> ModelError | AccessError:
    async with WireServer([says(body, status)]) as server, Http() as http:
        settings = ModelSettings(
            role="optimizer", name="m", base_url=server.url, api_key="sk-0123456789"
        )
        with pytest.raises((ModelError, AccessError)) as caught:
            await OpenAICompatible.create(settings, http).complete(ASK)
    return caught.value


@pytest.mark.parametrize("told", ERRORS, ids=lambda each: f"{each['server']}-{each['means']}")
async def test_the_same_mistake_has_the_same_meaning_whatever_a_server_calls_it(
    told: dict[str, Any],
) -> None:
    error = await error_of(told["status"], told["body"])
    match told["means"]:
        case "key":
            assert isinstance(error, AccessError)
            assert "access denied; check the key for the optimizer model" in str(error)
        case "model":
            assert isinstance(error, AccessError)
            assert "check the model's name and base_url" in str(error)
        case "quota":
            assert isinstance(error, AccessError)
            assert "exhausted; raise it" in str(error)
        case "effort" | "temperature" as name:
            assert isinstance(error, AccessError)
            assert f"check model.optimizer_{'reasoning_' * (name == 'effort')}{name}" in str(error)
        case "limit":
            assert isinstance(error, Refused)
            assert "check model.optimizer_max_tokens" in str(error)
        case "context_length" | "content_filter":
            assert isinstance(error, Refused)
            assert "check model." not in str(error)
        case _:
            assert isinstance(error, ModelError)
            assert error.retryable


async def test_the_words_of_a_request_that_a_server_repeats_do_not_change_what_it_means() -> None:
    repeated = f"bad request: {'x' * 1000} invalid api key, budget has been exceeded"
    assert isinstance(await error_of(400, {"error": {"message": repeated}}), Refused)
