from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support_gguf import CHATML, WANTS_A_USER, label_scores, write_model

from skillopt.aio import map_all
from skillopt.core.chat import Message, Reply, Request
from skillopt.core.intake import Json
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.http import Http
from skillopt.model.local import Local, Tuning, Watch, physical_cores, stream
from skillopt.model.provider import ModelSettings
from skillopt.testing.contracts.models import check_model

pytest.importorskip("xllamacpp", reason="pip install xllamacpp")

SKILLS = ("Answer with the code of the house.", "Answer with a date.", "Answer at length. " * 20)
QUESTIONS = ("The printer is broken", "The printer is loud", "When?", "x", "a b c " * 30)


def connect(file: Path, **given: object) -> Local:
    """A model of this file, in small."""
    extra = {"folder": file.parent, "context": 1024, "threads": 2, **given}
    settings = ModelSettings(role="target", name=str(file), max_tokens=24, extra=extra)
    return Local.create(settings, Http())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf")


def question(skill: str, text: str, replicate: int = 0, warmth: float | None = None) -> Request:
    messages = (Message("system", skill), Message("user", text))
    return Request(stage="t", messages=messages, replicate=replicate, temperature=warmth)


ALL = [question(skill, text) for skill in SKILLS for text in QUESTIONS]


async def test_it_keeps_the_contract_of_models(file: Path) -> None:
    await check_model(connect(file))


async def test_it_keeps_the_contract_with_calls_computed_together(file: Path) -> None:
    await check_model(connect(file, parallel=4))


@pytest.mark.parametrize("template", [CHATML, WANTS_A_USER])
async def test_the_same_request_has_the_same_text_whatever_else_is_asked(
    tmp_path: Path, template: str
) -> None:
    file = write_model(tmp_path / "tiny.gguf", template=template)
    fresh = [(await connect(file, slots=1).complete(each)).text for each in ALL]
    assert len(set(fresh)) > len(ALL) // 2
    model = connect(file, slots=2)
    for seed in range(3):
        order = random.Random(seed).sample(range(len(ALL)), len(ALL))
        replies = await map_all(model.complete, [ALL[index] for index in order])
        assert [reply.text for reply in replies] == [fresh[index] for index in order]


async def test_a_conversation_that_goes_on_is_computed_as_one_asked_afresh(file: Path) -> None:
    model = connect(file)
    first = await model.complete(ALL[0])
    later = (*ALL[0].messages, Message("assistant", first.text), Message("user", "And?"))
    fresh = await label_scores(connect(file, slots=1), later, ("a", "b"))
    assert await label_scores(model, later, ("a", "b")) == fresh


async def test_probabilities_are_the_same_bits_whatever_was_asked_before(file: Path) -> None:
    labels = ("yes", "no", "yes and no")
    fresh = await label_scores(connect(file), ALL[0].messages, labels)
    model = connect(file)
    await map_all(model.complete, ALL)
    assert await label_scores(model, ALL[0].messages, labels) == fresh


async def test_threads_and_slots_change_no_bit(file: Path) -> None:
    messages = question("A long skill. " * 60, "Hello").messages
    tunings = ({"threads": 1}, {"threads": 2}, {"threads": 3, "slots": 1})
    scores = [await label_scores(connect(file, **each), messages, ("a", "b")) for each in tunings]
    assert scores[0] == scores[1] == scores[2]


async def test_the_skill_is_computed_once(file: Path) -> None:
    model = connect(file)
    await model.complete(question(SKILLS[2], "one"))
    replies = await map_all(model.complete, [question(SKILLS[2], text) for text in "abc"])
    assert all(reply.usage.cached > 300 for reply in replies)
    assert all(reply.usage.input - reply.usage.cached < 60 for reply in replies)


async def test_tokens_are_counted_and_a_limit_is_told(file: Path) -> None:
    reply = await connect(file).complete(ALL[0])
    assert reply.stop == "length"
    assert (reply.usage.calls, reply.usage.output) == (1, 24)
    assert reply.usage.input > 50


async def test_replicates_differ_with_a_temperature_and_each_is_reproducible(file: Path) -> None:
    async def samples(model: Local) -> list[str]:
        asked = [question(SKILLS[0], "Say", replicate, 1.0) for replicate in range(4)]
        return [reply.text for reply in await map_all(model.complete, asked)]

    first = await samples(connect(file))
    assert len(set(first)) == 4
    assert await samples(connect(file)) == first


async def test_a_schema_shapes_the_answer(file: Path) -> None:
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    closed = {**schema, "additionalProperties": False}
    reply = await connect(file).complete(
        Request(stage="t", messages=ALL[0].messages, max_tokens=200, temperature=0.0, schema=closed)
    )
    assert json.loads(reply.text)["sure"] in (True, False)


async def test_a_cancelled_call_frees_the_engine(file: Path) -> None:
    model = connect(file, context=4096)
    endless = Request(stage="t", messages=ALL[0].messages, max_tokens=4000)
    calls = [asyncio.ensure_future(model.complete(endless)) for _ in range(20)]
    await asyncio.wait(calls, timeout=0.3)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    reply = await asyncio.wait_for(model.complete(ALL[1]), timeout=60)
    assert reply.text == (await connect(file).complete(ALL[1])).text


async def test_a_call_that_produces_nothing_within_its_time_ends_as_a_failure(file: Path) -> None:
    extra = {"folder": file.parent, "context": 4096}
    settings = ModelSettings(role="target", name=str(file), timeout=1e-9, extra=extra)
    model = Local.create(settings, Http())
    with pytest.raises(ModelError, match=r"produced nothing for 1e-09 s") as caught:
        await model.complete(Request(stage="t", messages=ALL[0].messages, max_tokens=4000))
    assert not caught.value.retryable


class Slow:
    """llama.cpp on a busy CPU: so many seconds pass before each piece."""

    def __init__(self, *pauses: float) -> None:
        self.pauses = pauses
        self.now = 0.0

    def handle_chat_completions(
        self, body: Mapping[str, object], callback: Callable[[Json], bool] | None = None, /
    ) -> Json:
        assert callback is not None
        for number, pause in enumerate(self.pauses):
            self.now += pause
            if callback({"choices": [{"delta": {"content": str(number)}}]}):
                break
        return {}


def test_a_slow_call_that_goes_on_producing_is_no_failure_however_long_it_takes() -> None:
    slow = Slow(*[250.0] * 40)
    watch = Watch(threading.Event(), 300.0, lambda: slow.now)
    assert len(stream(slow, ALL[0].messages, {}, watch)) == 40
    assert slow.now == 10_000


def test_a_call_whose_next_piece_comes_too_late_ends_there() -> None:
    slow = Slow(250.0, 301.0, 1.0)
    watch = Watch(threading.Event(), 300.0, lambda: slow.now)
    with pytest.raises(ModelError, match=r"produced nothing for 300 s; see model\.timeout_seconds"):
        stream(slow, ALL[0].messages, {}, watch)
    assert slow.now == 551


async def test_roles_share_an_engine_that_goes_with_the_last_of_them(file: Path) -> None:
    target, optimizer = connect(file), connect(file)
    assert target.engine is optimizer.engine
    assert connect(file, slots=1).engine is not target.engine
    await target.complete(ALL[0])
    engine = weakref.ref(target.engine)
    del target
    gc.collect()
    assert engine() is not None
    del optimizer
    gc.collect()
    assert engine() is None


async def test_what_cannot_be_answered_is_refused_in_plain_words(file: Path) -> None:
    model = connect(file)
    with pytest.raises(Refused, match=r"too long.*model\.local_context"):
        await model.complete(question("Be brief.", "word " * 2000))
    with pytest.raises(Refused, match="too long"):
        await model.complete(question("word " * 2000, "Hello"))
    with pytest.raises(Refused, match="refused the request"):
        await model.complete(question("Be brief.", "half a \ud83d character"))
    with pytest.raises(Refused, match="effort"):
        await model.complete(Request(stage="t", messages=ALL[0].messages, effort="high"))
    assert isinstance(await model.complete(ALL[0]), Reply)


async def test_a_file_that_is_no_model_is_an_access_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))
    with pytest.raises(AccessError, match=r"cannot load .*broken\.gguf"):
        await connect(broken).complete(ALL[0])


def test_the_fingerprint_follows_the_content_and_not_the_place(tmp_path: Path) -> None:
    first = connect(write_model(tmp_path / "a.gguf"))
    moved = connect(write_model(tmp_path / "b.gguf"))
    other = connect(write_model(tmp_path / "c.gguf", seed=1))
    assert first.fingerprint == moved.fingerprint
    assert first.fingerprint != other.fingerprint
    assert connect(tmp_path / "a.gguf", context=512).fingerprint != first.fingerprint
    assert connect(tmp_path / "a.gguf", parallel=2).fingerprint != first.fingerprint
    assert connect(tmp_path / "a.gguf", threads=1).fingerprint == first.fingerprint


def test_settings_that_make_no_sense_are_refused_by_name(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.local_slots is 0"):
        connect(file, slots=0)
    with pytest.raises(ConfigError, match=r"model\.local_threads is 'all'"):
        connect(file, threads="all")
    with pytest.raises(ConfigError, match="effort"):
        Local.create(ModelSettings(role="target", name=str(file), effort="high"), Http())


def test_settings_that_are_absent_suit_the_machine() -> None:
    assert Tuning.read({"threads": None}) == Tuning()
    logical = os.cpu_count()
    assert logical is not None
    assert 1 <= physical_cores() <= logical


def test_the_library_writes_nothing_of_its_own(file: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from skillopt.core.chat import Message, Request
from skillopt.model.http import Http
from skillopt.model.local import Local
from skillopt.core.intake import Json
from skillopt.model.provider import ModelSettings

extra = {{"folder": Path({str(file.parent)!r}), "context": 512}}
settings = ModelSettings(role="target", name={str(file)!r}, max_tokens=4, extra=extra)
model = Local.create(settings, Http())
request = Request(stage="t", messages=(Message("user", "Hello"),))
sys.stdout.write(str(len(asyncio.run(model.complete(request)).text)))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4", "")
