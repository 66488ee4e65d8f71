from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_wire import Behaviour, WireServer, completion, drops, says, stalls, truncates

from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.completions import Completions
from skillopt.model.errors import Unreachable
from skillopt.model.http import Http
from skillopt.model.openai import OpenAIChat, OpenAICompatible
from skillopt.model.provider import HttpAnswer, ModelSettings, Provider, names_for
from skillopt.model.remote import Remote, address
from skillopt.testing.contracts.models import check_model

KEY = "sk-test-0123456789"
SETTINGS = ModelSettings(
    role="target", name="m", api_key=KEY, temperature=0.5, max_tokens=100, timeout=10.0
)
QUESTION = Request(
    stage="rollout",
    messages=(Message("system", "Be brief. \u00e9\U0001f600"), Message("user", "Why?")),
    replicate=3,
)
PROVIDERS: tuple[type[Provider], ...] = (OpenAICompatible, OpenAIChat)


@asynccontextmanager
async def wire(
    *script: Behaviour, settings: ModelSettings = SETTINGS
) -> AsyncGenerator[tuple[WireServer, Remote]]:
    async with WireServer(list(script)) as server, Http() as http:
        yield server, OpenAICompatible.create(replace(settings, base_url=server.url), http)


async def error_of(*script: Behaviour, settings: ModelSettings = SETTINGS) -> Exception:
    async with wire(*script, settings=settings) as (_, model):
        with pytest.raises((ModelError, AccessError)) as caught:
            await model.complete(QUESTION)
        return caught.value


async def test_a_question_travels_whole_and_its_answer_comes_back() -> None:
    async with wire(says(completion("because"))) as (server, model):
        reply = await model.complete(QUESTION)
    assert reply == Reply(text="because", usage=Usage(1, 12, 3, 8))
    [seen] = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief. \u00e9\U0001f600"},
            {"role": "user", "content": "Why?"},
        ],
        "max_tokens": 100,
        "temperature": 0.5,
    }
    sent = {name: seen.headers[name] for name in ("Authorization", "Content-Type", "Accept")}
    assert sent == {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json",
    }
    assert "Cookie" not in seen.headers


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with wire(says(completion()), settings=replace(SETTINGS, api_key=None)) as (server, m):
        await m.complete(QUESTION)
    assert "Authorization" not in server.seen[0].headers


async def test_user_and_password_of_the_address_are_sent_instead_of_the_key() -> None:
    async with WireServer([says(completion())]) as server, Http() as http:
        url = server.url.replace("http://", "http://me:password123@")
        model = OpenAICompatible.create(replace(SETTINGS, base_url=url), http)
        await model.complete(QUESTION)
        assert "password123" not in repr(model)
    assert server.seen[0].headers["Authorization"].startswith("Basic ")


def test_wishes_of_the_request_go_before_the_settings() -> None:
    asked = replace(QUESTION, max_tokens=7, temperature=0.0, effort="high")
    dialect = Completions(replace(SETTINGS, effort="low"), "max_completion_tokens")
    body = dialect.body(asked)
    assert body == {
        "model": "m",
        "messages": [{"role": m.role, "content": m.text} for m in QUESTION.messages],
        "max_completion_tokens": 7,
        "temperature": 0.0,
        "reasoning_effort": "high",
    }


@pytest.mark.parametrize("effort", [None, ""])
def test_what_nobody_set_is_not_sent(effort: str | None) -> None:
    body = Completions(ModelSettings(role="target", name="m", effort=effort)).body(QUESTION)
    assert set(body) == {"model", "messages"}


async def test_openai_itself_gets_its_own_names() -> None:
    async with WireServer([says(completion())]) as server, Http() as http:
        settings = replace(SETTINGS, base_url=server.url, effort="medium", temperature=None)
        await OpenAIChat.create(settings, http).complete(QUESTION)
    body = server.seen[0].body
    assert set(body) == {"model", "messages", "max_completion_tokens", "reasoning_effort"}
    assert OpenAIChat.create(SETTINGS, Http()).url == "https://api.openai.com/v1/chat/completions"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1/chat/completions"),
        ("https://h/openai/v3", "https://h/openai/v3/chat/completions"),
        ("https://h/v1?version=2", "https://h/v1/chat/completions?version=2"),
    ],
)
def test_a_base_url_may_end_as_it_likes(base: str, url: str) -> None:
    assert address(base, OpenAICompatible.path) == url


@pytest.mark.parametrize(
    "base", ["localhost:8000", "h", "ftp://h/v1", "http://", "/v1", "http://[h", "http://h:99999"]
)
def test_what_is_not_an_address_is_refused_before_the_first_call(base: str) -> None:
    with pytest.raises(ConfigError, match=r"write it like http://localhost:8000/v1"):
        address(base, OpenAICompatible.path)


def test_a_missing_address_names_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"model\.base_url, or TARGET_OPENAI_COMPATIBLE_BASE_URL"):
        OpenAICompatible.create(SETTINGS, Http())


def test_openai_without_a_key_names_what_to_set() -> None:
    settings = ModelSettings(role="optimizer", name="m")
    with pytest.raises(AccessError, match="set OPTIMIZER_OPENAI_API_KEY or OPENAI_API_KEY in"):
        OpenAIChat.create(settings, Http())


@pytest.mark.parametrize(
    "key", ["", "sk with space", "sk-1234567\n", "sk-\u201cquoted\u201d-12345"]
)
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    settings = replace(SETTINGS, base_url="http://h", api_key=key, key_source="MY_KEY")
    with pytest.raises(AccessError, match="MY_KEY") as caught:
        OpenAICompatible.create(settings, Http())
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_names_of_variables_are_filled_in_for_the_role(provider: type[Provider]) -> None:
    names = names_for("optimizer", provider.key_variables + provider.url_variables)
    assert all(re.fullmatch(r"(OPTIMIZER_)?OPENAI_[A-Z_]+", name) for name in names)
    assert names[0].startswith("OPTIMIZER_")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "filter"),
        ("tool_calls", "tool"),
        (None, "end"),
        ("something_new", "end"),
    ],
)
async def test_why_the_model_stopped_is_kept(finish: str | None, stop: str) -> None:
    choices = [{"message": {"content": None}, "finish_reason": finish}]
    async with wire(says({"choices": choices})) as (_, model):
        reply = await model.complete(QUESTION)
    assert (reply.text, reply.stop) == ("", stop)


async def test_a_refusal_is_an_answer() -> None:
    choices = [{"message": {"content": None, "refusal": "I won't."}, "finish_reason": "stop"}]
    async with wire(says(completion(choices=choices))) as (_, model):
        reply = await model.complete(QUESTION)
    assert (reply.text, reply.stop) == ("I won't.", "filter")


async def test_content_in_parts_is_joined() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    async with wire(says({"choices": [{"message": {"content": content}}]})) as (_, model):
        assert (await model.complete(QUESTION)).text == "ab"


@pytest.mark.parametrize("usage", [None, {}, "many", {"prompt_tokens": None}, {"prompt_tokens": 1}])
async def test_what_a_server_does_not_count_is_estimated_and_marked(usage: object) -> None:
    async with wire(says(completion(usage=usage))) as (_, model):
        asked = sum(len(message.text) // 4 for message in QUESTION.messages)
        assert (await model.complete(QUESTION)).usage == Usage(1, asked, 2, estimated=1)


async def test_a_server_without_a_cache_counts_none_cached() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    async with wire(says(completion(usage=usage))) as (_, model):
        assert (await model.complete(QUESTION)).usage == Usage(1, 5, 2, 0)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_pass_is_retryable(status: int) -> None:
    error = await error_of(says({"error": {"message": "busy"}}, status))
    assert isinstance(error, ModelError)
    assert error.retryable
    assert error.retry_after is None
    assert f"HTTP {status}: busy" in str(error)


async def test_a_429_tells_how_long_to_wait() -> None:
    error = await error_of(says({}, 429, {"Retry-After": "7"}))
    assert isinstance(error, ModelError)
    assert error.retry_after == 7.0


@pytest.mark.parametrize("status", [400, 413, 422, 418])
async def test_a_bad_request_is_final_and_quotes_the_server(status: int) -> None:
    error = await error_of(says({"error": {"message": "too long " + "x" * 900}}, status))
    assert isinstance(error, ModelError)
    assert not error.retryable
    assert "too long" in str(error)
    assert len(str(error)) < 500


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_role_and_variable(status: int) -> None:
    settings = replace(SETTINGS, key_source="MY_KEY")
    error = await error_of(says({"error": "no"}, status), settings=settings)
    assert isinstance(error, AccessError)
    assert "check the key for the target model in MY_KEY (HTTP" in str(error)


async def test_an_unknown_model_says_what_to_check() -> None:
    error = await error_of(says({"error": {"message": "no model m"}}, 404))
    assert isinstance(error, AccessError)
    assert "check the model's name and base_url (HTTP 404: no model m)" in str(error)


@pytest.mark.parametrize("field", ["code", "type"])
async def test_a_used_up_quota_is_no_reason_to_retry(field: str) -> None:
    error = await error_of(says({"error": {"message": "m", field: "insufficient_quota"}}, 429))
    assert isinstance(error, AccessError)
    assert "quota" in str(error)


async def test_no_credit_is_no_reason_to_retry() -> None:
    assert isinstance(await error_of(says({}, 402)), AccessError)


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    async with WireServer([says(completion())]) as other:
        error = await error_of(says(b"", 307, {"Location": other.url}))
        assert other.seen == []
    assert isinstance(error, AccessError)
    assert "redirects" in str(error)


async def test_an_html_error_page_is_quoted_as_text() -> None:
    error = await error_of(says(b"<html><title>502 Bad Gateway</title><hr>nginx</html>", 502))
    assert str(error).endswith("HTTP 502: 502 Bad Gateway nginx")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "not JSON"),
        (b'{"choices": [{"mess', "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "no choices"),
        (b"[]", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": [{}]}', "no choices"),
        (b'{"choices": [{"message": null}]}', "no choices"),
        (b'{"error": {"message": "upstream died"}}', "upstream died"),
        (b'{"choices": [{"message": {}, "finish_reason": "error"}]}', "incomplete"),
    ],
)
async def test_an_answer_without_sense_is_retryable(body: bytes, what: str) -> None:
    error = await error_of(says(body))
    assert isinstance(error, ModelError)
    assert error.retryable
    assert not isinstance(error, Unreachable)
    assert what in str(error)


async def test_a_dropped_connection_is_retryable() -> None:
    error = await error_of(drops)
    assert isinstance(error, Unreachable)
    assert error.retryable


async def test_a_truncated_answer_is_retryable() -> None:
    error = await error_of(truncates)
    assert isinstance(error, ModelError)
    assert error.retryable
    assert "connection was lost" in str(error)


async def test_nobody_listening_is_retryable_and_names_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Http() as http:
            model = OpenAICompatible.create(replace(SETTINGS, base_url=url), http)
            with pytest.raises(Unreachable, match=re.escape(f"{url}/v1")) as caught:
                await model.complete(QUESTION)
    assert caught.value.retryable


async def test_a_server_without_tls_is_named_when_tls_was_asked_for() -> None:
    async with WireServer([says(completion())]) as server, Http() as http:
        url = server.url.replace("http:", "https:")
        model = OpenAICompatible.create(replace(SETTINGS, base_url=url), http)
        with pytest.raises(Unreachable, match=re.escape(f"{url}/v1")):
            await model.complete(QUESTION)


async def test_an_answer_that_is_not_http_is_retryable() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ready\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server, Http() as http:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        model = OpenAICompatible.create(replace(SETTINGS, base_url=url), http)
        with pytest.raises(ModelError, match="the answer is not HTTP") as caught:
            await model.complete(QUESTION)
    assert caught.value.retryable


async def test_what_the_transport_cannot_read_as_an_address_is_no_reason_to_retry() -> None:
    async with Http() as http:
        with pytest.raises(AccessError, match="check base_url"):
            await http.send("http://", headers={}, body=b"", timeout=1.0)


async def test_a_pool_that_was_never_used_closes_without_ado() -> None:
    async with Http():
        pass


async def test_a_timeout_covers_the_body_and_cancels_the_request() -> None:
    settings = replace(SETTINGS, timeout=0.2)
    async with wire(stalls, settings=settings) as (server, model):
        with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
            await model.complete(QUESTION)
        await asyncio.wait_for(server.abandoned.wait(), 60)


async def test_cancelling_a_call_cancels_the_request() -> None:
    async with wire(stalls) as (server, model):
        call = asyncio.ensure_future(model.complete(QUESTION))
        await asyncio.wait_for(server.arrived.wait(), 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.abandoned.wait(), 60)


async def test_a_failed_call_leaves_the_next_one_alone() -> None:
    async with wire(drops, truncates, says(completion("fine"))) as (_, model):
        for _ in range(2):
            with pytest.raises(ModelError):
                await model.complete(QUESTION)
        assert (await model.complete(QUESTION)).text == "fine"


async def test_both_wires_keep_the_contract_of_models() -> None:
    async with WireServer([says(completion())]) as server, Http() as http:
        for provider in PROVIDERS:
            model = provider.create(replace(SETTINGS, base_url=server.url), http)
            await check_model(model, secret=KEY)


def test_address_and_key_do_not_change_the_fingerprint() -> None:
    def fingerprint(**changes: object) -> str:
        settings = replace(replace(SETTINGS, base_url="http://h"), **changes)
        return OpenAICompatible.create(settings, Http()).fingerprint

    usual = fingerprint()
    assert usual == "openai_compatible/m/temperature=0.5/max_tokens=100/effort=None"
    same = [{"api_key": "other-key-1"}, {"base_url": "http://x"}, {"timeout": 1.0}, {"effort": ""}]
    assert {fingerprint(**each) for each in same} == {usual}
    other = [{"name": "n"}, {"temperature": 0.0}, {"max_tokens": None}, {"effort": "low"}]
    assert len({usual, *(fingerprint(**each) for each in other)}) == 5


# A fixed beginning, so that no key is by chance a word of ours.
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=5, max_size=40).map(
    "sk-".__add__
)


@given(
    key=KEYS,
    status=st.sampled_from([200, 302, 400, 401, 402, 404, 429, 500]),
    template=st.sampled_from(
        ['{"error": {"message": %s}}', '{"error": %s}', "bad key %s here", "%s", "x" * 295 + "%s"]
    ),
)
def test_no_error_shows_the_key_that_a_server_echoes(key: str, status: int, template: str) -> None:
    echoed = json.dumps(key) if template.startswith("{") else key
    answer = HttpAnswer(status, {}, (template % echoed).encode())
    model = OpenAICompatible.create(replace(SETTINGS, base_url="http://h", api_key=key), Http())
    with pytest.raises((ModelError, AccessError)) as caught:
        model.read(answer)
    error = caught.value
    assert key not in str(error)
    assert key not in repr(error)
    assert key not in repr(model)
