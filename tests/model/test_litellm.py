from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from support_wire import WireServer, completion, drops, says

from skillopt.core.chat import Message, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.http import Http
from skillopt.model.litellm_backend import LiteLLM
from skillopt.model.provider import ModelSettings
from skillopt.model.remote import Remote
from skillopt.testing.contracts.models import check_model

installed = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="needs the extra litellm"
)
KEY = "sk-the-key-it-was-given"
HELLO = Request(
    stage="test", messages=(Message("system", "Be brief."), Message("user", "hello")), max_tokens=9
)


def model(url: str) -> Remote:
    settings = ModelSettings(
        role="target", name="openai/some-model", base_url=f"{url}/v1", api_key=KEY, temperature=0.5
    )
    return LiteLLM.create(settings, Http())


@installed
async def test_what_is_asked_reaches_the_server_and_its_answer_comes_back() -> None:
    async with WireServer([says(completion())]) as server:
        reply = await model(server.url).complete(HELLO)
    (seen,) = server.seen
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert seen.body["model"] == "some-model"
    assert (seen.body["temperature"], seen.body["max_tokens"]) == (0.5, 9)
    assert [each["content"] for each in seen.body["messages"]] == ["Be brief.", "hello"]
    assert (reply.text, reply.usage) == ("hello", Usage(1, 12, 3, 8))


@installed
async def test_the_contract_of_models_is_kept() -> None:
    async with WireServer([says(completion())]) as server:
        await check_model(model(server.url), secret=KEY)


@installed
@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (401, AccessError, False),
        (404, AccessError, False),
        (400, Refused, False),
        (429, ModelError, True),
        (500, ModelError, True),
    ],
)
async def test_errors_are_classified_and_asked_only_once(
    status: int, kind: type[Exception], retryable: bool
) -> None:
    body = {"error": {"message": f"no, {KEY}", "type": "x", "code": "y"}}
    async with WireServer([says(body, status)]) as server:
        with pytest.raises(kind) as caught:
            await model(server.url).complete(HELLO)
    assert len(server.seen) == 1
    assert KEY not in str(caught.value)
    if isinstance(caught.value, ModelError):
        assert caught.value.retryable is retryable


@installed
async def test_a_connection_that_drops_is_worth_a_retry() -> None:
    async with WireServer([drops]) as server:
        with pytest.raises(ModelError) as caught:
            await model(server.url).complete(HELLO)
    assert caught.value.retryable


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="it is installed")
def test_without_the_package_the_message_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'litellm.*>=1\.84\.0.*' 'mcp>="):
        model("http://h")


@pytest.mark.parametrize("stolen", ["1.82.7", "1.82.8"])
def test_a_stolen_release_is_refused_before_it_is_imported(
    stolen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / f"litellm-{stolen}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: litellm\nVersion: {stolen}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError, match=f"litellm {stolen} is a stolen release"):
        model("http://h")
