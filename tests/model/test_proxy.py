"""A program asks a model through a socket; the key stays outside, and every call is paid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from skillopt.app.models import provider_model
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.episode import Workspace
from skillopt.errors import AccessError, BudgetSpent, ConfigError, ModelError, Refused
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.model.http import Http
from skillopt.model.prices import Price
from skillopt.model.proxy import ModelProxy
from skillopt.model.rate_limits import Endpoint
from skillopt.model.remote import Remote
from skillopt.model.wrappers import RetryPolicy
from skillopt.store.cache import SqliteCache
from skillopt.testing.model_server import ModelServer, ReceivedRequest, Say
from skillopt.testing.wires import CACHED, SENT, STORED, WRITTEN

KEY = "sk-of-the-run-0123456789"
OTHER = "sk-of-the-optimizer-0123456789"
PATHS = {
    "openai_compatible": "/v1/chat/completions",
    "claude_chat": "/v1/messages",
}


@asynccontextmanager
async def proxied(
    server: ModelServer,
    budget: Budget,
    backend: str = "openai_compatible",
    endpoint: Endpoint | None = None,
) -> AsyncGenerator[ModelProxy, None]:
    name = {"openai_compatible": "OPENAI_COMPATIBLE", "claude_chat": "ANTHROPIC"}[backend]
    variables = {f"{name}_API_KEY": KEY, f"{name}_BASE_URL": f"{server.url}/v1"}
    secrets = Secrets({**variables, "OTHER_API_KEY": OTHER})
    assert secrets.get("OTHER_API_KEY") == OTHER
    role = load_config(overrides=[f"backend={backend}", "target=m"]).model.role("target")
    async with Http() as http:
        remote = provider_model(role, secrets, http).wire
        assert isinstance(remote, Remote)
        price = Price(input=1, output=10)
        yield ModelProxy(
            remote=remote,
            model="m",
            budget=budget,
            endpoint=endpoint or Endpoint("server"),
            hide=secrets.hide_values,
            price=price,
            max_tokens=1000,
        )


async def post(path: Path, url: str, **body: object) -> tuple[int, str]:
    connector = aiohttp.UnixConnector(str(path))
    async with aiohttp.ClientSession(connector=connector) as session:
        headers = {"Authorization": "Bearer of-the-program", "x-api-key": "of-the-program"}
        async with session.post(f"http://proxy{url}", json=body, headers=headers) as response:
            return response.status, await response.text()


@pytest.mark.parametrize("backend", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_goes_to_the_server_with_the_key_of_the_run_and_is_paid(
    backend: str, stream: bool, tmp_path: Path
) -> None:
    cache = SqliteCache(tmp_path / "cache")
    budget = Budget(Meter(), Limits(dollars=1), cache)
    async with ModelServer([Say("hello")], keys=frozenset([KEY])) as server:
        async with proxied(server, budget, backend) as proxy, proxy.serve() as path:
            asked = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 60}
            status, text = await post(path, PATHS[backend], model="other", stream=stream, **asked)
        (question,) = server.questions
    assert status == 200, text
    assert "hello" in text
    assert (question.key, question.model, question.streamed) == (KEY, "m", stream)
    assert "of-the-program" not in json.dumps(dict(question.headers))
    usage = budget.meter.totals["target", "rollout"]
    assert (usage.calls, usage.input, usage.output) == (1, SENT, WRITTEN)
    assert usage.cached == CACHED
    assert usage.stored == (STORED if backend == "claude_chat" else 0)
    assert usage.dollars > 0
    assert sum(cache.spent().values(), Usage()).input == SENT
    assert [call.status for call in proxy.calls] == [200]
    cache.close()


async def test_a_call_that_might_exceed_a_limit_is_not_sent() -> None:
    budget = Budget(Meter(), Limits(calls=1))
    answers: list[tuple[int, str]] = []

    async def ask_twice(proxy: ModelProxy) -> None:
        async with proxy.serve() as path:
            answers.append(await post(path, "/v1/chat/completions", messages=[]))
            answers.append(await post(path, "/v1/chat/completions", messages=[]))

    async with ModelServer() as server, proxied(server, budget) as proxy:
        with pytest.raises(BudgetSpent, match=r"limits\.calls is reached"):
            await ask_twice(proxy)
        assert len(server.questions) == 1
    assert [status for status, _ in answers] == [200, 402]
    assert "limits.calls is reached" in answers[1][1]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/files", {}, 404),
        ("/admin/chat/completions/../keys", {}, 404),
        ("/v1/chat/completions", None, 400),
    ],
)
async def test_nothing_else_is_forwarded(path: str, body: object, status: int) -> None:
    async with ModelServer() as server:
        async with proxied(server, Budget(Meter())) as proxy, proxy.serve() as socket:
            connector = aiohttp.UnixConnector(str(socket))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.post(f"http://proxy{path}", json=body) as response,
            ):
                assert response.status == status
        assert not server.requests


LIMITS = ("n", "max_tokens", "max_completion_tokens", "max_output_tokens")


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("number", [-1000, -1, 0, 1.5, True, "5", 10**30])
async def test_a_limit_that_is_no_sane_number_is_refused(name: str, number: object) -> None:
    budget = Budget(Meter(), Limits(tokens=10_000))
    async with (
        ModelServer() as server,
        proxied(server, budget) as proxy,
        proxy.serve() as path,
    ):
        for url in (*PATHS.values(), "/v1/responses"):
            status, text = await post(path, url, messages=[], **{name: number})
            assert status == 400
            assert f"{name} should be a whole number from 1 to" in text
        assert not server.requests
    assert budget.meter.total == budget.held == Usage()


async def test_nothing_negative_is_set_aside() -> None:
    budget = Budget(Meter(), Limits(tokens=10))
    for worst in (Usage(1, -5), Usage(1, 0, -5), Usage(-1), Usage(1, dollars=-1.0)):
        with pytest.raises(ValueError, match="less than nothing"):
            async with budget.hold(worst, "target", "rollout"):
                pass
    assert budget.held == Usage()


@pytest.mark.parametrize(
    ("url", "asked", "sent"),
    [
        ("chat/completions", {}, {"max_tokens": 1000}),
        ("chat/completions", {"max_output_tokens": 1}, {"max_tokens": 1000}),
        ("chat/completions", {"max_completion_tokens": 7}, {"max_tokens": 7}),
        ("chat/completions", {"max_tokens": 10**9, "n": 2}, {"max_tokens": 1000}),
        ("chat/completions", {"max_tokens": None}, {"max_tokens": 1000}),
        ("responses", {"max_tokens": 1}, {"max_output_tokens": 1000}),
        ("responses", {"max_output_tokens": 20, "n": 3}, {"max_output_tokens": 20}),
        ("messages", {"max_completion_tokens": 1}, {"max_tokens": 1000}),
        ("messages", {"max_tokens": 30, "max_output_tokens": 1}, {"max_tokens": 30}),
    ],
)
async def test_the_limit_that_counts_there_is_what_was_set_aside(
    url: str, asked: dict[str, object], sent: dict[str, int], tmp_path: Path
) -> None:
    cache = SqliteCache(tmp_path / "cache")
    async with (
        ModelServer() as server,
        proxied(server, Budget(Meter(), Limits(tokens=10**6), cache)) as proxy,
        proxy.serve() as path,
    ):
        await post(path, f"/v1/{url}", messages=[], **asked)
        (question,) = server.questions
    assert isinstance(question.body, dict)
    assert {name: question.body[name] for name in LIMITS[1:] if name in question.body} == sent
    assert question.body.get("n") == (2 if asked.get("n") == 2 else None)
    cache.close()


@pytest.mark.parametrize("url", [*PATHS.values(), "/v1/responses", "/v1/messages/count_tokens"])
async def test_only_what_asks_the_target_itself_goes_on(url: str) -> None:
    own = {"name": "f", "type": "function", "function": {"name": "f"}}
    more: dict[str, object] = {
        "models": ["dear"],
        "service_tier": "priority",
        "previous_response_id": "r1",
        "mcp_servers": [{"url": "http://evil"}],
        "web_search_options": {"on": True},
        "temperature": 0.5,
    }
    async with (
        ModelServer() as server,
        proxied(server, Budget(Meter())) as proxy,
        proxy.serve() as path,
    ):
        tools = [own, {"type": "mcp", "server_url": "http://evil"}, {"type": "web_search_20250305"}]
        status, text = await post(path, url, model="other", messages=[], tools=tools, **more)
        assert status == 200, text
        await post(path, url, tools=tools[1:], tool_choice="required")
        first, second = (request.body for request in server.requests)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["model"] == "m"
    assert first["tools"] == [own]
    assert not {*more} - {"temperature"} & {*first}
    assert ("temperature" in first) == ("count_tokens" not in url)
    assert not {"tools", "tool_choice"} & {*second}


WEB = "http://h/x.png"


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("chat/completions", {"type": "image_url", "image_url": {"url": WEB}}),
        ("chat/completions", {"image_url": {"url": WEB}}),
        ("chat/completions", {"type": ["text"], "text": "x"}),
        ("chat/completions", {"type": "text", "video_url": {"url": WEB}}),
        ("chat/completions", {"type": "file", "file": {"file_id": "f"}}),
        ("responses", {"type": "input_image", "image_url": WEB}),
        ("responses", {"type": "input_image", "file_id": "f"}),
        ("responses", {"type": "input_file", "file_url": WEB}),
        ("messages", {"type": "image", "source": {"type": "url", "url": WEB}}),
        (
            "messages",
            {"type": "tool_result", "content": [{"type": "image", "source": {"type": "file"}}]},
        ),
        ("messages/count_tokens", {"type": "document", "source": {"type": "url", "url": WEB}}),
    ],
)
async def test_nothing_is_fetched_for_a_program(url: str, part: dict[str, object]) -> None:
    async with (
        ModelServer() as server,
        proxied(server, Budget(Meter())) as proxy,
        proxy.serve() as path,
    ):
        messages = [{"role": "user", "content": [part]}]
        name = "input" if url == "responses" else "messages"
        status, _ = await post(path, f"/v1/{url}", **{name: messages})
        assert status == 400
        assert not server.requests


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("chat/completions", {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}),
        ("responses", {"type": "input_image", "image_url": "data:image/png;base64,"}),
        ("messages", {"type": "image", "source": {"type": "base64", "data": ""}}),
        ("messages", {"type": "tool_use", "id": "1", "name": "get", "input": {"url": WEB}}),
    ],
)
async def test_what_is_in_the_request_itself_goes_on(url: str, part: dict[str, object]) -> None:
    async with (
        ModelServer() as server,
        proxied(server, Budget(Meter())) as proxy,
        proxy.serve() as path,
    ):
        messages = [{"role": "user", "content": [part]}]
        name = "input" if url == "responses" else "messages"
        status, text = await post(path, f"/v1/{url}", **{name: messages})
        assert status == 200, text
        (question,) = server.questions
    assert isinstance(question.body, dict)
    assert question.body[name] == messages


class Gossip(ModelServer):
    """Answers whatever it is asked with the keys of the run."""

    status = 200

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = f'data: {{"id": "{KEY}, {OTHER}"}}\n \xff'.encode("latin-1")
        return web.Response(body=body, status=self.status)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("url", ["models", "messages", "messages/count_tokens", "chat/completions"])
async def test_no_answer_holds_a_secret_of_the_run(url: str, status: int) -> None:
    async with Gossip() as server, proxied(server, Budget(Meter())) as proxy:
        server.status = status
        async with proxy.serve() as path:
            connector = aiohttp.UnixConnector(str(path))
            async with aiohttp.ClientSession(connector=connector) as session:
                ask = session.get if url == "models" else session.post
                async with ask(f"http://proxy/v1/{url}", json={"messages": []}) as response:
                    asked_model = url in {"messages", "chat/completions"}
                    assert response.status == (400 if asked_model and status == 500 else status)
                    text = await response.read()
    if response.status == status:
        assert text.startswith(b'data: {"id": "')
        assert text.endswith(b"\xff")
    assert KEY.encode() not in text
    assert OTHER.encode() not in text
    assert not any(KEY.encode() in call.answer for call in proxy.calls)


class Counting(ModelServer):
    """Counts the requests under way."""

    now = most = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(100):
                await asyncio.sleep(0)
            return await super().handle(request)
        finally:
            self.now -= 1


async def test_a_program_asks_within_the_limits_of_the_server() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    endpoint = Endpoint("s", concurrency=2, requests_per_minute=60, clock=lambda: 0.0, sleep=sleep)
    async with (
        Counting() as server,
        proxied(server, Budget(Meter()), endpoint=endpoint) as proxy,
        proxy.serve() as path,
    ):
        asked = [post(path, "/v1/chat/completions", messages=[]) for _ in range(5)]
        asked.append(post(path, "/v1/messages/count_tokens", messages=[]))
        answers = await asyncio.gather(*asked)
    assert [status for status, _ in answers] == [200] * 6
    assert server.most <= 2
    assert waits == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("limits", [Limits(tokens=9000), Limits(dollars=0.08)])
async def test_a_call_that_could_never_fit_is_refused_and_the_run_goes_on(limits: Limits) -> None:
    budget = Budget(Meter(), limits)
    async with (
        ModelServer() as server,
        proxied(server, budget) as proxy,
        proxy.serve() as path,
    ):
        refused, text = await post(path, "/v1/chat/completions", messages=[], n=9)
        status, _ = await post(path, "/v1/chat/completions", messages=[])
        assert len(server.questions) == 1
    assert (refused, status) == (402, 200)
    assert "the call may take up to" in text
    assert budget.meter.total.calls == 1
    assert proxy.ended is None


async def test_a_key_that_is_refused_is_tried_once_and_ends_the_run() -> None:
    budget = Budget(Meter(), Limits(calls=5))
    answers: list[tuple[int, str]] = []

    async def ask_twice(proxy: ModelProxy) -> None:
        async with proxy.serve() as path:
            answers.append(await post(path, "/v1/chat/completions", messages=[]))
            answers.append(await post(path, "/v1/chat/completions", messages=[]))

    async with (
        ModelServer(keys=frozenset(["another"])) as server,
        proxied(server, budget) as proxy,
    ):
        with pytest.raises(AccessError, match="access denied; check the key for the target model"):
            await ask_twice(proxy)
        assert len(server.questions) == 1
    assert [status for status, _ in answers] == [400, 400]
    assert all("Incorrect API key" in text and KEY not in text for _, text in answers)
    assert budget.meter.total == Usage()


def impatient(waits: list[float]) -> RetryPolicy:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return RetryPolicy(tries=3, sleep=sleep, random=lambda: 1.0)


@dataclass
class Moody(ModelServer):
    """Answers with these until they are used up."""

    moods: list[web.Response] = field(default_factory=list[web.Response])

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.moods:
            self.requests.append(ReceivedRequest("POST", request.path, {}, None))
            return self.moods.pop(0)
        return await super().handle(request)


BROKEN = b'event: error\ndata: {"type": "error", "error": {"message": "Overloaded"}}\n\n'


async def test_what_may_pass_is_repeated_for_the_program_and_only_the_answer_is_paid() -> None:
    budget, waits = Budget(Meter()), list[float]()
    async with Moody() as server, proxied(server, budget) as proxy, proxy.serve() as path:
        proxy.retries = impatient(waits)
        for moods in (
            [web.Response(status=429, headers={"Retry-After": "7"}), web.Response(status=529)],
            [web.Response(body=b"<html>"), web.Response(body=BROKEN)],
        ):
            server.moods = moods
            status, text = await post(path, "/v1/messages", messages=[], stream=True)
            assert (status, "an answer" in text) == (200, True)
    assert waits == [8.0, 2.0, 1.0, 2.0]
    assert budget.meter.total.calls == 2
    assert proxy.usage.input == 2 * SENT
    assert proxy.trouble is None


async def test_what_does_not_pass_is_told_once_the_tries_are_used_up() -> None:
    async with Moody() as server, proxied(server, Budget(Meter())) as proxy, proxy.serve() as path:
        proxy.retries = impatient([])
        server.moods = [web.Response(status=529) for _ in range(9)]
        status, text = await post(path, "/v1/messages", messages=[])
        assert (status, len(server.requests)) == (400, 3)
    assert "gave up after 3 tries" in text
    assert isinstance(proxy.trouble, ModelError)


async def test_a_request_that_is_too_long_is_answered_as_the_server_does() -> None:
    async with ModelServer() as server, proxied(server, Budget(Meter())) as proxy:
        proxy.model = "error-too-long"
        async with proxy.serve() as path:
            status, text = await post(path, "/v1/chat/completions", messages=[])
    assert (status, "context_length_exceeded" in text) == (400, True)
    assert isinstance(proxy.trouble, Refused)


PROGRAM = """
import http.client, json, os, socket
connection = http.client.HTTPConnection("proxy")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect({path!r})
body = json.dumps({{"messages": [{{"role": "user", "content": "hi"}}]}})
connection.request("POST", "/v1/chat/completions", body, {{"Content-Type": "application/json"}})
print(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])
print(sorted(os.environ))
"""


async def test_a_program_in_a_sandbox_asks_a_model_and_has_neither_network_nor_key() -> None:
    try:
        box = Bubblewrap.create()
    except ConfigError as reason:
        pytest.skip(str(reason))
    budget = Budget(Meter())
    async with (
        ModelServer([Say("from outside")]) as server,
        proxied(server, budget) as proxy,
        proxy.serve(owner=box.user) as path,
    ):
        files = Workspace(files={"main.py": PROGRAM.format(path=str(path)).encode()})
        result = await box.run(["python3", "main.py"], files, sockets=[path])
    assert result.stdout.startswith("from outside\n"), result.stderr
    assert KEY not in result.stdout
    assert budget.meter.total.calls == 1
