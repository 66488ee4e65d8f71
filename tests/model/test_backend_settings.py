"""From configuration and environment to what is sent, backend by backend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from support_wire import WireServer, completion, says

from skillopt.app.models import PROVIDERS, ModelFactory
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request
from skillopt.errors import AccessError, ConfigError
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.model.provider import Role
from skillopt.testing.doubles import MemoryCache

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
ANTHROPIC = {
    "type": "message",
    "content": [{"type": "text", "text": "so"}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def connect(
    http: Http, variables: Mapping[str, str], *overrides: str, role: Role = "target"
) -> Model:
    config = load_config(overrides=list(overrides))
    factory = ModelFactory(Secrets(variables), http, MemoryCache(), Budget(Meter()))
    return factory.connect(config.model.role(role))


async def sent(
    variables: Mapping[str, str], *overrides: str, role: Role = "target", answer: object = None
) -> tuple[str, Mapping[str, str], dict[str, object]]:
    """Path, headers and body of one question; HERE stands for the server."""
    async with WireServer([says(answer or completion())]) as server, Http() as http:
        there = {name: value.replace("HERE", server.url) for name, value in variables.items()}
        here = [each.replace("HERE", server.url) for each in overrides]
        model = connect(http, there, *here, role=role)
        await model.complete(ASK)
        [seen] = server.seen
        return seen.path, seen.headers, seen.body


async def body_of(variables: Mapping[str, str], *overrides: str) -> dict[str, object]:
    return (await sent(variables, *overrides))[2]


QWEN = ("model.backend=qwen_chat", "model.base_url=HERE")


async def test_qwen_has_its_own_defaults_variables_and_keys() -> None:
    usual = await body_of({}, *QWEN)
    assert usual == {
        "model": "gpt-5.5",
        "messages": [{"role": "user", "content": "Why?"}],
        "max_tokens": 8000,
        "temperature": 0.7,
    }
    variables = {
        "QWEN_CHAT_MODEL": "qwen",
        "QWEN_CHAT_MAX_TOKENS": "50",
        "TARGET_QWEN_CHAT_TEMPERATURE": "0",
        "QWEN_CHAT_TEMPERATURE": "1",
        "QWEN_CHAT_ENABLE_THINKING": "false",
        "QWEN_CHAT_USE_MAX_COMPLETION_TOKENS": "true",
    }
    assert await body_of(variables, *QWEN) == {
        "model": "qwen",
        "messages": [{"role": "user", "content": "Why?"}],
        "max_completion_tokens": 50,
        "temperature": 0.0,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    keys = ("qwen_chat_model=q", "max_tokens=60", "target_qwen_chat_temperature=0.2")
    modes = ("qwen_chat_temperature=0.3", "qwen_chat_thinking_mode=enabled")
    body = await body_of(variables, *QWEN, *keys, *modes)
    assert (body["model"], body["max_completion_tokens"]) == ("q", 60)
    assert body["temperature"] == 0.2
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


async def test_thoughts_of_qwen_are_no_part_of_the_answer() -> None:
    texts = {
        "<think>\nhm </think>\n\nBlue.": "Blue.",
        "hm</think>Blue.": "Blue.",
        "<think>and so on": "",
        "Blue.": "Blue.",
    }
    async with Http() as http:
        for said, answer in texts.items():
            async with WireServer([says(completion(said))]) as server:
                model = connect(http, {}, "backend=qwen_chat", f"base_url={server.url}")
                assert (await model.complete(replace(ASK, empty_ok=True))).text == answer


async def test_minimax_asks_for_thinking_as_its_models_allow() -> None:
    variables = {"MINIMAX_API_KEY": "minimax-key-1", "MINIMAX_BASE_URL": "HERE"}
    backend = "model.backend=minimax_chat"
    body = await body_of(variables, backend)
    assert (body["model"], body["temperature"]) == ("MiniMax-M3", 0.7)
    assert body["max_completion_tokens"] == 8000
    assert body["thinking"] == {"type": "disabled"}
    asked = await body_of(variables, backend, "minimax_enable_thinking=true")
    assert asked["thinking"] == {"type": "adaptive"}
    for other in ("MiniMax-M2.1", "minimax-text-01"):
        assert "thinking" not in await body_of(variables, backend, f"minimax_model={other}")


RESPONSE: dict[str, object] = {
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}],
}


@pytest.mark.parametrize(
    ("model", "more", "effort"),
    [
        ("gpt-4o-mini", (), None),
        ("gpt-5-chat-latest", (), None),
        ("my-deployment", (), None),
        ("gpt-5.5", (), "medium"),
        ("openai/o4-mini", (), "medium"),
        ("gpt-4o-mini", ("reasoning_effort=high",), "high"),
        ("my-deployment", ("target_reasoning_effort=medium",), "medium"),
        ("gpt-5.5", ("target_reasoning_effort=''",), None),
    ],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_an_effort_is_sent_where_it_is_asked_for_or_the_model_is_known_to_take_it(
    model: str, more: tuple[str, ...], effort: str | None, api: str
) -> None:
    variables = {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": "HERE"}
    settings = ("backend=openai_chat", f"target={model}", f"openai_chat_api={api}", *more)
    answer = RESPONSE if api == "responses" else None
    _, _, body = await sent(variables, *settings, answer=answer)
    if api == "chat":
        assert body.get("reasoning_effort") == effort
    else:
        assert body.get("reasoning") == (None if effort is None else {"effort": effort})


@pytest.mark.parametrize(
    ("region", "host"),
    [({}, "api.minimax.io"), ({"MINIMAX_REGION": "cn_zh"}, "api.minimaxi.com")],
)
async def test_minimax_has_an_address_per_region(region: Mapping[str, str], host: str) -> None:
    variables = {"MINIMAX_API_KEY": "minimax-key-1", **region}
    async with Http() as http:
        assert host in repr(connect(http, variables, "backend=minimax_chat"))


async def test_claude_takes_key_address_and_thinking() -> None:
    variables = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": "HERE"}
    for more, thinking in (
        ((), None),
        (("claude_chat_thinking=adaptive",), {"type": "adaptive"}),
        (("target_claude_chat_thinking=2048",), {"type": "enabled", "budget_tokens": 2048}),
    ):
        path, headers, body = await sent(
            variables, "backend=claude_chat", "target=claude-x", *more, answer=ANTHROPIC
        )
        assert path == "/v1/messages"
        assert headers["x-api-key"] == "sk-ant-0123456789"
        assert body.get("thinking") == thinking
        assert body["max_tokens"] == 16384
        assert "output_config" not in body


async def test_an_effort_that_a_backend_does_not_know_is_refused_by_name() -> None:
    async with Http() as http:
        keys = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "MINIMAX_API_KEY": "minimax-key-1"}
        with pytest.raises(ConfigError, match=r"'minimal'; claude_chat knows low, medium"):
            connect(http, keys, "backend=claude_chat", "target_reasoning_effort=minimal")
        with pytest.raises(ConfigError, match="minimax_chat has no reasoning effort"):
            connect(http, keys, "backend=minimax_chat", "target_reasoning_effort=low")


async def test_openai_compatible_has_keys_and_variables_of_its_own() -> None:
    backend = "model.backend=openai_compatible"
    variables = {
        "OPENAI_COMPATIBLE_BASE_URL": "HERE",
        "OPENAI_COMPATIBLE_MODEL": "gemma",
        "TARGET_OPENAI_COMPATIBLE_MAX_TOKENS": "77",
        "MINE": "secret-of-mine",
    }
    named = "model.openai_compatible_api_key=MINE"
    path, headers, body = await sent(variables, backend, named)
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret-of-mine"
    assert (body["model"], body["max_tokens"]) == ("gemma", 77)
    assert "temperature" not in body


async def test_azure_is_chosen_by_its_endpoint_and_named_per_role() -> None:
    variables = {
        "AZURE_OPENAI_ENDPOINT": "http://elsewhere.invalid",
        "AZURE_OPENAI_API_KEY": "azure-key-1",
        "OPTIMIZER_DEPLOYMENT": "big",
        "OPENAI_API_KEY": "sk-0123456789",
    }
    keys = ("optimizer_azure_openai_endpoint=HERE", "azure_openai_api_version=2025-04-01-preview")
    path, headers, body = await sent(variables, *keys, role="optimizer")
    assert path == "/openai/deployments/big/chat/completions?api-version=2025-04-01-preview"
    assert headers["api-key"] == "azure-key-1"
    assert "Authorization" not in headers
    assert body["model"] == "big"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gpt-5.5", "/v1/chat/completions"),
        ("gpt-5.3-codex", "/v1/responses"),
        ("gpt-5.4-pro", "/v1/responses"),
        ("gpt-5.4-pro-2026-03-05", "/v1/responses"),
        ("o3-pro", "/v1/responses"),
        ("my-prompt", "/v1/chat/completions"),
        ("gpt-prototype", "/v1/chat/completions"),
    ],
)
async def test_the_api_of_openai_follows_from_the_models_name(model: str, path: str) -> None:
    answer = RESPONSE if path.endswith("responses") else None
    seen, _, _ = await sent(
        {"OPENAI_API_KEY": "sk-0123456789"}, f"target={model}", "base_url=HERE", answer=answer
    )
    assert seen == path


async def test_the_api_of_openai_can_be_set() -> None:
    key = {"OPENAI_API_KEY": "sk-0123456789"}
    path, _, _ = await sent(key, "target=x-codex", "base_url=HERE", "openai_chat_api=chat")
    assert path == "/v1/chat/completions"


async def test_a_variable_that_cannot_be_read_is_named() -> None:
    async with Http() as http:
        with pytest.raises(ConfigError, match="QWEN_CHAT_TEMPERATURE is set to 'warm'"):
            connect(http, {"QWEN_CHAT_TEMPERATURE": "warm"}, "backend=qwen_chat")
        with pytest.raises(ConfigError, match="QWEN_CHAT_THINKING_MODE is set to 'on'"):
            connect(http, {"QWEN_CHAT_THINKING_MODE": "on"}, "backend=qwen_chat")


@pytest.mark.parametrize("backend", ["openai_chat", "claude_chat", "minimax_chat"])
async def test_a_missing_key_is_named_before_the_first_call(backend: str) -> None:
    async with Http() as http:
        with pytest.raises((ConfigError, AccessError), match=r"needs a key.*_API_KEY"):
            connect(http, {}, f"backend={backend}")


@pytest.mark.parametrize(
    "key",
    ["azure_openai_api_key", "qwen_chat_api_key", "minimax_api_key", "openai_compatible_api_key"],
)
@pytest.mark.parametrize("value", ["sk-0123456789abcdef", "0f3c9a8b7d6e5f4c3b2a190817263544"])
def test_a_key_written_into_the_configuration_is_refused_and_not_repeated(
    key: str, value: str
) -> None:
    with pytest.raises(ConfigError, match="name of an environment variable") as caught:
        load_config(overrides=[f"model.target_{key}={value}"])
    assert value not in str(caught.value)


def test_every_http_backend_is_registered() -> None:
    ours = {"claude_chat", "minimax_chat", "openai_chat", "openai_compatible", "qwen_chat"}
    assert ours <= set(PROVIDERS.names)
    for name in ours:
        provider = PROVIDERS.load(name)
        for variable in (*provider.key_variables, *provider.url_variables):
            assert re.fullmatch(r"(\{ROLE\}_)?[A-Z_]+", variable)


async def test_two_roles_on_different_servers_share_no_limits() -> None:
    config = load_config(
        overrides=[
            "optimizer_backend=qwen_chat",
            "target_backend=openai_compatible",
            "target_base_url=http://localhost:1",
            "max_concurrency=1",
        ]
    )
    async with Http() as http:
        factory = ModelFactory(Secrets({}), http, MemoryCache(), Budget(Meter()))
        factory.connect(config.model.role("optimizer"))
        factory.connect(config.model.role("target"))
        assert len(factory.endpoints) == 2
        factory.connect(config.model.role("target"))
        assert len(factory.endpoints) == 2
