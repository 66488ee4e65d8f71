"""Google's API: what is sent, what is read, and what an error means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from skillopt.app.models import provider_model
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Image, Message, Model, Request, Tool, ToolCall
from skillopt.core.intake import Json
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.gemini import GenerateContent
from skillopt.model.http import Http
from skillopt.model.provider import ModelSettings
from skillopt.testing.contracts.models import DOT, check_model
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import CACHED, SENT, WRITTEN, Act, Call, Say

KEY = "key-of-google-0123456789"
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}})
ASK = Request(stage="rollout", messages=(Message("system", "Be brief."), Message("user", "Why?")))


@asynccontextmanager
async def asked(
    script: Sequence[Act], name: str = "m", *overrides: str
) -> AsyncGenerator[tuple[Model, ModelServer], None]:
    async with ModelServer(script, keys=frozenset([KEY])) as server, Http() as http:
        role = load_config(
            overrides=[
                *("target_backend=gemini_chat", f"target={name}", *overrides),
                f"target_base_url={server.url}/v1beta",
            ]
        ).model.role("target")
        yield provider_model(role, Secrets({"GEMINI_API_KEY": KEY}), http).wire, server


async def test_a_request_names_the_model_in_its_address_and_usage_is_counted() -> None:
    async with asked([Say("Because.")], "gemini-2.5-flash") as (model, server):
        reply = await model.complete(ASK)
        (question,) = server.questions
    assert reply.text == "Because."
    usage = reply.usage
    assert (usage.input, usage.output, usage.cached) == (SENT, WRITTEN, CACHED)
    assert question.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert isinstance(question.body, dict)
    assert question.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert question.body["contents"] == [{"role": "user", "parts": [{"text": "Why?"}]}]


async def test_the_contract_of_models_is_kept() -> None:
    async with asked([Say("OK")]) as (model, _):
        await check_model(model)


async def test_tools_are_called_and_their_results_go_back_by_name() -> None:
    image = Image.of(DOT, "image/gif")
    messages = (Message("user", "Look.", (image,)),)
    async with asked([Call("look", {"at": 1}), Say("Seen.")]) as (model, server):
        first = await model.complete(Request(stage="rollout", messages=messages, tools=(LOOK,)))
        (call,) = first.calls
        assert (call.name, call.arguments) == ("look", '{"at": 1}')
        result = Message("tool", "a dot", answers=call.id)
        messages = (*messages, first.message(), result)
        last = await model.complete(Request(stage="rollout", messages=messages, tools=(LOOK,)))
        body = server.questions[-1].body
    assert last.text == "Seen."
    assert isinstance(body, dict)
    assert body["contents"] == [
        {
            "role": "user",
            "parts": [
                {"inlineData": {"mimeType": "image/gif", "data": image.data}},
                {"text": "Look."},
            ],
        },
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": 1}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "look", "response": {"output": "a dot"}}}],
        },
    ]


def test_signed_parts_go_back_as_they_came() -> None:
    wire = GenerateContent(ModelSettings(role="target", name="m"))
    parts: list[Json] = [
        {"text": "I think.", "thought": True},
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"},
    ]
    reply = wire.reply({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    assert [call.name for call in reply.calls] == ["look"]
    sent = wire.body(Request(stage="s", messages=(Message("user", "x"), reply.message())))
    assert cast("list[dict[str, object]]", sent["contents"])[1]["parts"] == parts


@pytest.mark.parametrize(("choice", "mode"), [("none", "NONE"), ("required", "ANY"), (LOOK, "ANY")])
def test_whether_tools_may_be_called_is_sent(choice: Tool, mode: str) -> None:
    wire = GenerateContent(ModelSettings(role="target", name="m"))
    schema: dict[str, object] = {"type": "object"}
    body = wire.body(
        Request(
            stage="s",
            messages=(Message("user", "x"),),
            tools=(LOOK,),
            tool_choice=choice,
            schema=schema,
        )
    )
    assert str(mode) in str(body["toolConfig"])
    assert "responseJsonSchema" in str(body["generationConfig"])


def test_answers_of_another_shape_are_told_apart() -> None:
    wire = GenerateContent(ModelSettings(role="target", name="m"))
    with pytest.raises(Refused, match="SAFETY"):
        wire.reply({"promptFeedback": {"blockReason": "SAFETY"}})
    cut = wire.reply({"candidates": [{"finishReason": "MAX_TOKENS"}]})
    assert (cut.text, cut.stop) == ("", "length")
    call = Message("assistant", "", calls=(ToolCall("1", "look", "[]"),))
    with pytest.raises(Refused, match="no JSON object"):
        wire.body(Request(stage="s", messages=(call,)))


@pytest.mark.parametrize(
    ("name", "error"),
    [("error-403", AccessError), ("error-404", AccessError), ("error-429", ModelError)],
)
async def test_errors_mean_what_they_mean_elsewhere(name: str, error: type[Exception]) -> None:
    async with asked([], name) as (model, _):
        with pytest.raises(error):
            await model.complete(ASK)


async def test_wrong_names_and_efforts_are_told_before_anything_is_sent() -> None:
    with pytest.raises(AccessError, match="is not the name of a model"):
        async with asked([], "a/../b"):
            pass
    with pytest.raises(ConfigError, match="gemini_chat knows minimal, low, medium, high"):
        async with asked([], "m", "target_reasoning_effort=max"):
            pass
