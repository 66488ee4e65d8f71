"""Whole requests and answers of every provider, as their public documentation shows them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support_wire import Behaviour, WireServer, drops, half_closes, says, stalls, truncates

from skillopt.config.secrets import Secrets
from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, ToolCall, Usage
from skillopt.errors import AccessError, ModelError, Refused
from skillopt.model.anthropic import ClaudeChat
from skillopt.model.completions import MiniMaxChat, QwenChat
from skillopt.model.errors import Unreachable
from skillopt.model.http import Http
from skillopt.model.openai import OpenAIChat, OpenAICompatible
from skillopt.model.provider import ModelSettings, Provider
from skillopt.testing.contracts.models import check_model

FOLDER = Path(__file__).parent / "recordings"
KEY = "sk-test-0123456789"
OF_THE_TRANSPORT = {"Host", "Content-Length", "User-Agent", "Accept-Encoding"}


@dataclass(frozen=True)
class Backend:
    """One recorded provider, and what it takes to be set up like the recording."""

    provider: type[Provider]
    effort: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    azure_key: str = ""

    @asynccontextmanager
    async def at(self, *script: Behaviour, timeout: float = 60.0) -> AsyncGenerator[Place]:
        async with WireServer(list(script)) as server, Http() as http:
            azure = {"endpoint": server.url} if "auth_mode" in self.extra else {}
            variables = Secrets({"AZURE_OPENAI_API_KEY": self.azure_key})
            settings = ModelSettings(
                role="target",
                name="m",
                base_url="" if azure else server.url,
                api_key=KEY,
                key_source="MY_KEY",
                temperature=0.5,
                max_tokens=100,
                effort=self.effort,
                timeout=timeout,
                extra={**self.extra, **azure},
                variables=variables,
            )
            yield Place(server, self.provider.create(settings, http))


@dataclass(frozen=True)
class Place:
    server: WireServer
    model: Model


BACKENDS = {
    "openai_chat": Backend(OpenAIChat, "medium"),
    "openai_responses": Backend(OpenAIChat, "medium", {"api": "responses"}),
    "azure_chat": Backend(
        OpenAIChat, "medium", {"auth_mode": "api_key"}, azure_key="azure-key-0123456789"
    ),
    "claude_chat": Backend(ClaudeChat, "medium"),
    "qwen_chat": Backend(QwenChat, extra={"thinking_mode": "disabled"}),
    "minimax_chat": Backend(MiniMaxChat),
    "openai_compatible": Backend(OpenAICompatible),
}
RECORDINGS: dict[str, Any] = {
    name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in BACKENDS
}

WEATHER = Tool(
    "weather",
    "The weather of a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
SCHEMA = {
    "title": "weather",
    "type": "object",
    "properties": {"sky": {"type": "string"}},
    "required": ["sky"],
    "additionalProperties": False,
}
SYSTEM, ASK = Message("system", "Be brief. \u00e9"), Message("user", "Weather in Paris?")
CALL = ToolCall("call_1", "weather", '{"city": "Paris"}')
LOOP = (
    SYSTEM,
    ASK,
    Message("assistant", "", calls=(CALL,)),
    Message("tool", "18 degrees", answers="call_1"),
)
PICTURE = Message("user", "What is this?", images=(Image.of(b"\x89PNG\r\n\x1a\n", "image/png"),))
REQUESTS = {
    "plain": Request(stage="rollout", messages=(SYSTEM, ASK), replicate=3),
    "tools": Request(stage="rollout", messages=LOOP, tools=(WEATHER,)),
    "image": Request(stage="rollout", messages=(PICTURE,)),
    "schema": Request(stage="rollout", messages=(ASK,), schema=SCHEMA),
    "choice": Request(stage="rollout", messages=(ASK,), tools=(WEATHER,), tool_choice=WEATHER),
}
TEXTS = {"plain": "Sunny.", "image": "A dot.", "schema": '{"sky": "blue"}'}
EXCHANGES = [
    (backend, name) for backend, recording in RECORDINGS.items() for name in recording["exchanges"]
]


def recorded(answer: Mapping[str, Any], **headers: str) -> Behaviour:
    return says(answer["body"], answer["status"], headers)


@pytest.mark.parametrize(("backend", "name"), EXCHANGES)
async def test_what_is_sent_and_understood_is_what_was_recorded(backend: str, name: str) -> None:
    recording = RECORDINGS[backend]
    exchange = recording["exchanges"][name]
    async with BACKENDS[backend].at(recorded(exchange["answer"])) as place:
        reply = await place.model.complete(REQUESTS[name])
    [seen] = place.server.seen
    assert seen.path == recording["path"]
    assert seen.body == exchange["body"]
    sent = {key: value for key, value in seen.headers.items() if key not in OF_THE_TRANSPORT}
    assert sent == recording["headers"]
    stored = 2 if backend == "claude_chat" else 0
    assert reply.usage == Usage(1, 40, 5, 32, stored=stored)
    if name in TEXTS:
        assert replace(reply, usage=Usage()) == Reply(text=TEXTS[name])
    else:
        [call] = reply.calls
        assert (reply.text, reply.stop, call.id, call.name) == ("", "tool", "call_2", "weather")
        assert json.loads(call.arguments) == {"city": "Lyon"}


async def test_what_requests_share_is_marked_for_anthropics_cache_and_nothing_else() -> None:
    said = Message("assistant", "Which day?")
    again = (Message("user", "Today."), said, Message("user", "Now."))
    marked: list[list[str]] = []
    for messages in ((SYSTEM, ASK), (SYSTEM, ASK, said, again[0]), (SYSTEM, ASK, said, *again)):
        answer = recorded(RECORDINGS["claude_chat"]["exchanges"]["plain"]["answer"])
        async with BACKENDS["claude_chat"].at(answer) as place:
            await place.model.complete(Request(stage="explore", messages=messages))
        [seen] = place.server.seen
        turns = [block for turn in seen.body["messages"] for block in turn["content"]]
        blocks = [*seen.body["system"], *turns]
        marked.append([each["text"] for each in blocks if "cache_control" in each])
    assert marked == [[SYSTEM.text], [SYSTEM.text], [SYSTEM.text, "Now."]]


@pytest.mark.parametrize("name", ["openai_responses", "claude_chat"])
async def test_thoughts_before_a_tool_call_go_back_with_its_result(name: str) -> None:
    answer = recorded(RECORDINGS[name]["exchanges"]["tools"]["answer"])
    async with BACKENDS[name].at(answer) as place:
        asked = REQUESTS["tools"]
        reply = await place.model.complete(asked)
        result = Message("tool", "20 degrees", answers=reply.calls[0].id)
        more = (*asked.messages, reply.message(), result)
        await place.model.complete(replace(asked, messages=more))
    sent = json.dumps(place.server.seen[1].body)
    assert "-opaque" in sent
    assert sent.index("-opaque") < sent.index('"call_2"')


async def test_thoughts_of_one_provider_are_not_shown_to_another() -> None:
    answer = recorded(RECORDINGS["claude_chat"]["exchanges"]["tools"]["answer"])
    async with BACKENDS["claude_chat"].at(answer) as place:
        reply = await place.model.complete(REQUESTS["tools"])
    plain = recorded(RECORDINGS["openai_responses"]["exchanges"]["plain"]["answer"])
    result = Message("tool", "20 degrees", answers=reply.calls[0].id)
    asked = replace(REQUESTS["tools"], messages=(*LOOP, reply.message(), result))
    async with BACKENDS["openai_responses"].at(plain) as place:
        await place.model.complete(asked)
    assert "-opaque" not in json.dumps(place.server.seen[0].body)


ERRORS = [(name, error) for name, each in RECORDINGS.items() for error in each["errors"]]


@pytest.mark.parametrize(("backend", "error"), ERRORS)
async def test_every_documented_error_is_told_apart(backend: str, error: str) -> None:
    answer = RECORDINGS[backend]["errors"][error]
    async with BACKENDS[backend].at(recorded(answer)) as place:
        with pytest.raises((ModelError, AccessError)) as caught:
            await place.model.complete(REQUESTS["plain"])
    match error:
        case "key" | "model" | "quota":
            assert isinstance(caught.value, AccessError)
        case "context_length" | "content_filter":
            assert isinstance(caught.value, Refused)
            assert not caught.value.retryable
        case _:
            assert isinstance(caught.value, ModelError)
            assert caught.value.retryable
            assert not isinstance(caught.value, Unreachable)
    assert KEY not in str(caught.value)
    assert "target model 'm' at http://127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("asked", [None, 7.0])
async def test_a_wait_that_a_server_asks_for_is_passed_on(
    backend: str, asked: float | None
) -> None:
    headers = {} if asked is None else {"Retry-After": f"{asked:g}"}
    answer = RECORDINGS[backend]["errors"]["rate_limit"]
    async with BACKENDS[backend].at(recorded(answer, **headers)) as place:
        with pytest.raises(ModelError) as caught:
            await place.model.complete(REQUESTS["plain"])
    assert caught.value.retryable
    assert caught.value.retry_after == asked


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", [drops, truncates, half_closes, says(b"{"), says(b"{}")])
async def test_an_answer_in_pieces_is_worth_a_retry(backend: str, fault: Behaviour) -> None:
    good = recorded(RECORDINGS[backend]["exchanges"]["plain"]["answer"])
    async with BACKENDS[backend].at(fault, good) as place:
        with pytest.raises(ModelError) as caught:
            await place.model.complete(REQUESTS["plain"])
        assert caught.value.retryable
        assert (await place.model.complete(REQUESTS["plain"])).text == "Sunny."


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_slow_body_is_given_up_and_cancelled(backend: str) -> None:
    async with BACKENDS[backend].at(stalls, timeout=0.2) as place:
        while not place.server.seen:  # on a busy machine, time may be up before it is sent
            with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
                await place.model.complete(REQUESTS["plain"])
        await asyncio.wait_for(place.server.abandoned.wait(), 60)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_every_backend_keeps_the_contract_of_models(backend: str) -> None:
    answer = recorded(RECORDINGS[backend]["exchanges"]["plain"]["answer"])
    async with BACKENDS[backend].at(answer) as place:
        await check_model(place.model, secret=KEY)


@pytest.mark.parametrize("name", ["schema", "choice"])
async def test_minimax_says_what_it_cannot_do(name: str) -> None:
    async with BACKENDS["minimax_chat"].at(says({})) as place:
        with pytest.raises(Refused):
            await place.model.complete(REQUESTS[name])
    assert place.server.seen == []


@pytest.mark.parametrize("backend", ["openai_chat", "openai_responses"])
async def test_openai_takes_images_from_the_user_only(backend: str) -> None:
    message = replace(PICTURE, role="assistant")
    async with BACKENDS[backend].at(says({})) as place:
        with pytest.raises(Refused, match="images in user messages only"):
            await place.model.complete(Request(stage="s", messages=(ASK, message)))


async def test_anthropic_has_no_detail_of_images_to_choose() -> None:
    (image,) = PICTURE.images
    message = replace(PICTURE, images=(replace(image, detail="low"),))
    async with BACKENDS["claude_chat"].at(says({})) as place:
        with pytest.raises(Refused, match=r"set env\.image_detail to auto"):
            await place.model.complete(Request(stage="s", messages=(message,)))
    assert place.server.seen == []
