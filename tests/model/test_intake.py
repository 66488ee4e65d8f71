"""Whatever a server sends ends as a usable answer or as an error of ours."""

from __future__ import annotations

import gzip
import json

import pytest
from support_wire import WireServer, completion, says

from skillopt.app.models import provider_model
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.core.intake import BODY_BYTES, REPLY_CHARS, clean_reply
from skillopt.errors import ModelError
from skillopt.model.http import Http
from skillopt.model.wrappers import Cleaned
from skillopt.prompts.jsonish import read_object

HELLO = Request(stage="test", messages=(Message("user", "hello"),))
KEY = "an-unprefixed-key-of-the-run"


async def ask(server: WireServer) -> Reply:
    settings = ["model.backend=openai_compatible", f"model.base_url={server.url}"]
    secrets = Secrets({"OPENAI_COMPATIBLE_API_KEY": KEY})
    async with Http() as http:
        wire = provider_model(
            load_config(overrides=settings).model.role("target"), secrets, http
        ).wire
        return await Cleaned(wire, secrets.hide_values).complete(HELLO)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("half \ud83d pair", "half \ufffd pair"),
        ("with \0 inside", "with \0 inside"),
        (f"the key is {KEY}.", "the key is [redacted]."),
        ("x" * (REPLY_CHARS + 5), "x" * REPLY_CHARS),
    ],
)
async def test_any_text_of_a_reply_can_be_kept_and_holds_no_key(text: str, read: str) -> None:
    async with WireServer([says(completion(text))]) as server:
        reply = await ask(server)
    assert reply.text == read
    assert reply.text.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 3_000 + b"]" * 3_000,
        b'{"choices":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"choices": "\xff\xfe"}',
        b"<" * 1_000_000,
        b'{"choices": ' + b"9" * 10_000 + b"}",
        json.dumps(completion("x" * BODY_BYTES)).encode(),
    ],
    ids=["nested", "nested within", "not UTF-8", "brackets", "giant number", "large"],
)
async def test_a_body_that_cannot_be_used_is_an_error_worth_a_retry(body: bytes) -> None:
    async with WireServer([says(body)]) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server)
    assert caught.value.retryable
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("fill", [10, 200 * 2**20])
async def test_a_packed_body_is_unpacked_within_the_limit(fill: int) -> None:
    packed = gzip.compress(json.dumps(completion("x" * fill)).encode())
    async with WireServer([says(packed, headers={"Content-Encoding": "gzip"})]) as server:
        if fill < BODY_BYTES:
            assert (await ask(server)).text == "x" * fill
        else:
            with pytest.raises(ModelError, match="larger than 8 MB"):
                await ask(server)


def test_counts_that_cannot_be_true_are_not_believed() -> None:
    for usage in (Usage(1, -5, 3), Usage(1, 10**30, 3), Usage(1, 1, 1, dollars=float("nan"))):
        cleaned = clean_reply(Reply(text="", usage=usage)).usage
        assert min(cleaned.input, cleaned.output, cleaned.dollars) >= 0
        assert cleaned.input < 10**13


@pytest.mark.parametrize("piece", ["<think>", "{", '{"a":', '{"a":[', "[", "```\n", '"', "\\"])
@pytest.mark.parametrize("times", [3_000, 50_000])
def test_reading_an_object_raises_nothing_whatever_the_reply_holds(piece: str, times: int) -> None:
    for text in (piece * times, f'{{"edits": {"[" * times}{"]" * times}}}', "9" * times):
        assert read_object(text, {"edits", "reasoning"}) is None


def test_half_a_surrogate_pair_in_a_proposal_becomes_a_replacement_character() -> None:
    assert read_object(r'{"edits": "a\ud800b"}', {"edits"}) == {"edits": "a\ufffdb"}
