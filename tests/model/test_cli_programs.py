"""The real programs as text models, against a model server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support_agents import PLANTED, User, installed, make_user, processes_in
from support_cli import until

from skillopt.app.models import provider_model
from skillopt.config.model_section import ModelSection
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request
from skillopt.errors import AccessError, ModelError, Refused
from skillopt.model.http import Http
from skillopt.model.wrappers import NonEmpty
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import CACHED, SENT, WRITTEN, Call, Say

pytestmark = pytest.mark.agents

KEY = "key-of-the-loopback-server"
BACKENDS = {"claude": "claude_cli", "codex": "codex_cli", "copilot": "copilot_chat"}
PATHS = {"claude": "claude_code_exec_path", "codex": "codex_exec_path"}
PATHS["copilot"] = "copilot_exec_path"
ROOTS = {"claude": "", "codex": "/v1", "copilot": "/v1"}
ASKED = Request(
    stage="analyst", messages=(Message("system", "Be brief."), Message("user", "What is 2+2?"))
)
every_program = pytest.mark.parametrize("name", BACKENDS)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    made = make_user(tmp_path)
    monkeypatch.chdir(made.cwd)
    monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
    return made


def model_of(
    name: str,
    user: User,
    server: ModelServer,
    model: str = "m",
    key: str = KEY,
    variables: Mapping[str, str] | None = None,
    **settings: object,
) -> Model:
    """The model as a run would make it from a configuration."""
    shell = {
        "PATH": os.environ["PATH"],
        "HOME": str(user.home),
        # What copilot unpacks there takes seconds, and is the same for everybody.
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "XDG_CONFIG_HOME": str(user.home),
        "OUR_KEY": key,
        **(variables or {}),
    }
    chosen: dict[str, Any] = {
        "target_backend": BACKENDS[name],
        "target": model,
        "base_url": server.url + ROOTS[name],
        "api_key_env": "OUR_KEY",
        PATHS[name]: installed(name),
        **settings,
    }
    role = ModelSection.model_validate(chosen).role("target")
    return provider_model(role, Secrets(shell), Http()).wire


@every_program
async def test_a_program_is_asked_once_without_tools_and_what_it_used_is_told_exactly(
    name: str, user: User
) -> None:
    async with ModelServer([Say("an answer")], keys=frozenset([KEY])) as server:
        reply = await model_of(name, user, server).complete(ASKED)
    assert reply.text == "an answer"
    (asked,) = server.questions
    assert asked.model == "m"
    assert asked.tools == ()
    assert "Be brief." in asked.text
    assert "What is 2+2?" in asked.text
    usage = reply.usage
    assert (usage.calls, usage.input, usage.output, usage.cached) == (1, SENT, WRITTEN, CACHED)
    assert usage.estimated == 0


@every_program
async def test_nothing_that_the_user_has_set_up_reaches_the_model(name: str, user: User) -> None:
    async with ModelServer() as server:
        await model_of(name, user, server).complete(ASKED)
    assert server.requests
    for request in server.requests:
        assert PLANTED not in request.text
        assert str(user.home) not in request.text
        assert str(user.cwd) not in request.text
    assert user.started == []


@every_program
async def test_a_call_leaves_nothing_behind(name: str, user: User) -> None:
    before = {each.relative_to(user.home) for each in user.home.rglob("*")}
    async with ModelServer() as server:
        await model_of(name, user, server).complete(ASKED)
    assert user.left_behind == []
    assert processes_in(user.temporary) == []
    assert {each.relative_to(user.home) for each in user.home.rglob("*")} == before


@every_program
async def test_a_cancelled_call_leaves_nothing_behind(name: str, user: User) -> None:
    async with ModelServer() as server:
        model = model_of(name, user, server, "error-hang")
        call = asyncio.create_task(model.complete(ASKED))
        await asyncio.wait_for(server.arrived.wait(), 60)
        assert processes_in(user.temporary)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert user.left_behind == []
    await until(lambda: processes_in(user.temporary) == [])


@every_program
async def test_a_wrong_key_is_an_access_error_without_a_row_of_retries(
    name: str, user: User
) -> None:
    async with ModelServer(keys=frozenset([KEY])) as server:
        with pytest.raises(AccessError, match="not logged in") as caught:
            await model_of(name, user, server, key="a-key-that-is-wrong").complete(ASKED)
    assert len(server.questions) <= 3
    assert "a-key-that-is-wrong" not in str(caught.value)


@pytest.mark.parametrize("name", ["claude", "codex"])
@pytest.mark.parametrize(
    ("model", "error", "retryable"),
    [
        ("error-403", AccessError, None),
        ("error-404", AccessError, None),
        ("error-quota", AccessError, None),
        ("error-429", ModelError, True),
        ("error-500", ModelError, True),
        ("error-529", ModelError, True),
        ("error-garbage", ModelError, True),
        ("error-too-long", Refused, False),
    ],
)
async def test_what_a_server_refuses_is_understood(
    name: str, model: str, error: type[Exception], retryable: bool | None, user: User
) -> None:
    async with ModelServer() as server:
        with pytest.raises(error) as caught:
            await model_of(name, user, server, model).complete(ASKED)
    assert getattr(caught.value, "retryable", None) == retryable
    assert len(server.questions) <= 2


@every_program
async def test_an_empty_answer_is_worth_a_retry(name: str, user: User) -> None:
    async with ModelServer([Say("")]) as server:
        with pytest.raises(ModelError) as caught:
            await NonEmpty(model_of(name, user, server), "target").complete(ASKED)
    assert caught.value.retryable


async def test_the_variable_for_the_address_reaches_codex(user: User) -> None:
    async with ModelServer(keys=frozenset([KEY])) as server:
        variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "CODEX_API_KEY": KEY}
        model = model_of(
            "codex",
            user,
            server,
            variables=variables,
            base_url="",
            api_key_env="",
        )
        assert (await model.complete(ASKED)).text == "an answer"
    assert [each.key for each in server.questions] == [KEY]


async def test_a_profile_of_codex_is_used_with_the_log_in_and_nothing_else(user: User) -> None:
    (user.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}), "utf-8")
    async with ModelServer(keys=frozenset([KEY])) as server:
        (user.home / ".codex" / "work.config.toml").write_text(
            'model_provider = "mine"\n[model_providers.mine]\nname = "mine"\n'
            f'base_url = "{server.url}/v1"\nwire_api = "responses"\nrequires_openai_auth = true\n'
            "supports_websockets = false\n",
            encoding="utf-8",
        )
        model = model_of(
            "codex",
            user,
            server,
            base_url="",
            api_key_env="",
            codex_exec_profile="work",
        )
        assert (await model.complete(ASKED)).text == "an answer"
    assert [each.key for each in server.questions] == [KEY]
    assert PLANTED not in "".join(each.text for each in server.requests)


async def test_a_log_in_is_not_sent_to_another_server(user: User) -> None:
    (user.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}), "utf-8")
    async with ModelServer() as server:
        model = model_of("codex", user, server, api_key_env="")
        await model.complete(ASKED)
    assert [each.key for each in server.questions] == [""]


async def test_codex_cannot_look_at_files_although_the_model_tries(user: User) -> None:
    picture = user.cwd / "secret.png"
    picture.write_bytes(_PNG)
    calls = [Call("view_image", {"path": str(picture)}), Say("done")]
    async with ModelServer(calls) as server:
        reply = await model_of("codex", user, server, "gpt-5.5").complete(ASKED)
    assert [each.tools for each in server.questions] == [("apply_patch",)] * 2
    assert "image/png" not in server.questions[1].text
    assert (reply.usage.input, reply.usage.output) == (2 * SENT, 2 * WRITTEN)


async def test_codex_cannot_write_files_although_the_model_tries(user: User) -> None:
    made = user.cwd / "made.txt"
    patch = f"*** Begin Patch\n*** Add File: {made}\n+text\n*** End Patch\n"
    async with ModelServer([Call("apply_patch", patch), Say("done")]) as server:
        reply = await model_of("codex", user, server, "gpt-5.5").complete(ASKED)
    assert "custom_tool_call_output" in server.questions[1].text
    assert not made.exists()
    assert (reply.usage.input, reply.usage.output) == (2 * SENT, 2 * WRITTEN)


_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63"
    "60000002000001e221bc330000000049454e44ae426082"
)
