"""A reply without text is no answer: it is asked for again, never kept and never scored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support import analysis
from support_programs import make_program, prints
from support_wire import Behaviour, WireServer, says

import skillopt
from skillopt.app.models import preflight
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request, Usage
from skillopt.core.intake import is_blank
from skillopt.errors import Refused, Unmeasurable, Unusable
from skillopt.model.anthropic import ClaudeChat
from skillopt.model.budget import Budget, Meter
from skillopt.model.cli.claude import ClaudeCli
from skillopt.model.completions import MiniMaxChat, QwenChat
from skillopt.model.http import Http
from skillopt.model.openai import OpenAIChat, OpenAICompatible
from skillopt.model.provider import ModelSettings, Provider
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Metered, NonEmpty, Recorded, Retrying, RetryPolicy
from skillopt.testing.doubles import MemoryCache

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
USAGE = {"prompt_tokens": 12, "completion_tokens": 3}


def choice(content: object, finish: str = "stop", **more: object) -> dict[str, object]:
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


def response(*output: Mapping[str, object], reason: str | None = None) -> dict[str, object]:
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(output),
        "usage": {"input_tokens": 12, "output_tokens": 3},
    }


def claude(*content: Mapping[str, object], stop: str = "end_turn") -> dict[str, object]:
    return {
        "type": "message",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 12, "output_tokens": 3},
    }


REASONING: dict[str, object] = {"type": "reasoning", "summary": [], "id": "rs_0"}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
SILENT: list[tuple[type[Provider], str, dict[str, object]]] = [
    (OpenAICompatible, "", choice(None)),
    (OpenAICompatible, "", choice("")),
    (OpenAICompatible, "", choice(" \n\t")),
    (OpenAICompatible, "", choice("\u200b")),
    (OpenAICompatible, "", choice("\ufeff\u2060 \u00ad\n\u3164")),
    (OpenAICompatible, "", choice([])),
    (OpenAICompatible, "", choice(None, reasoning_content="Let me think.", tool_calls=[])),
    (OpenAIChat, "chat", choice(None)),
    (OpenAIChat, "responses", response()),
    (OpenAIChat, "responses", response(REASONING)),
    (QwenChat, "", choice("<think>So it is.</think>\n")),
    (MiniMaxChat, "", choice("<think>So it is.</think>")),
    (ClaudeChat, "", claude()),
    (ClaudeChat, "", claude({"type": "text", "text": " "})),
    (ClaudeChat, "", claude({"type": "text", "text": "\u200b\ufe0f"})),
    (ClaudeChat, "", claude(THINKING)),
]
CUT: list[tuple[type[Provider], str, dict[str, object]]] = [
    (OpenAICompatible, "", choice("", "length", reasoning="Let me")),
    (OpenAIChat, "chat", choice("", "length")),
    (OpenAIChat, "responses", response(REASONING, reason="max_output_tokens")),
    (QwenChat, "", choice("<think>So", "length")),
    (ClaudeChat, "", claude(THINKING, stop="max_tokens")),
]
WITHHELD: list[tuple[type[Provider], str, dict[str, object]]] = [
    (OpenAICompatible, "", choice(None, "content_filter")),
    (OpenAIChat, "responses", response(reason="content_filter")),
    (ClaudeChat, "", claude(stop="refusal")),
]


@asynccontextmanager
async def wire(
    provider: type[Provider], api: str, *script: Behaviour
) -> AsyncGenerator[tuple[WireServer, Model]]:
    async with WireServer(list(script)) as server, Http() as http:
        settings = ModelSettings(
            role="target",
            name="m",
            base_url=server.url,
            api_key="sk-0123456789",
            extra={"api": api} if api else {},
            variables=Secrets({}),
        )
        yield server, provider.create(settings, http)


async def at_once(_: float) -> None:
    """No time passes."""


def whole(model: Model, meter: Meter, work: MemoryCache) -> Model:
    """What a run puts around a wire, without its waits."""
    metered = Metered(model, "target", Budget(meter))
    policy = RetryPolicy(tries=3, sleep=at_once)
    return Recorded(Retrying(NonEmpty(metered, "target"), policy), "target", work)


@pytest.mark.parametrize(("provider", "api", "empty"), SILENT)
async def test_an_empty_reply_is_asked_for_again_and_every_one_is_paid(
    provider: type[Provider], api: str, empty: dict[str, object]
) -> None:
    good = claude({"type": "text", "text": "So."}) if provider is ClaudeChat else choice("So.")
    if api == "responses":
        good = response({"type": "message", "content": [{"type": "output_text", "text": "So."}]})
    meter = Meter()
    async with wire(provider, api, says(empty), says(good)) as (server, model):
        reply = await whole(model, meter, MemoryCache()).complete(ASK)
    assert (reply.text, len(server.seen)) == ("So.", 2)
    assert meter.total == Usage(2, 24, 6)


@pytest.mark.parametrize(("provider", "api", "empty"), SILENT)
async def test_a_reply_that_stays_empty_is_a_failure_and_is_not_kept(
    provider: type[Provider], api: str, empty: dict[str, object]
) -> None:
    work = MemoryCache()
    async with wire(provider, api, says(empty)) as (server, model):
        asked = whole(model, Meter(), work)
        for tries in (3, 6):
            with pytest.raises(Unusable, match=r"target model sent an empty reply .*after 3 tries"):
                await asked.complete(ASK)
            assert len(server.seen) == tries


@pytest.mark.parametrize(("provider", "api", "empty"), CUT)
async def test_a_reply_cut_before_its_first_word_names_the_setting_and_is_not_repeated(
    provider: type[Provider], api: str, empty: dict[str, object]
) -> None:
    async with wire(provider, api, says(empty)) as (server, model):
        with pytest.raises(Unusable, match=r"raise model\.target_max_tokens"):
            await whole(model, Meter(), MemoryCache()).complete(ASK)
    assert len(server.seen) == 1


@pytest.mark.parametrize(("provider", "api", "empty"), WITHHELD)
async def test_a_reply_that_a_filter_withheld_is_a_failure_and_no_answer(
    provider: type[Provider], api: str, empty: dict[str, object]
) -> None:
    async with wire(provider, api, says(empty)) as (server, model):
        with pytest.raises(Refused, match="content filter"):
            await whole(model, Meter(), MemoryCache()).complete(ASK)
    assert len(server.seen) == 1


async def test_a_refusal_in_words_and_a_call_without_words_are_answers() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]
    said = [choice(None, refusal="I will not."), choice(None, "tool_calls", tool_calls=calls)]
    async with wire(OpenAICompatible, "", *map(says, said)) as (_, model):
        asked = NonEmpty(model, "target")
        assert (await asked.complete(ASK)).text == "I will not."
        assert (await asked.complete(ASK)).calls[0].name == "clock"


async def test_a_program_that_says_nothing_has_not_answered(tmp_path: Path) -> None:
    said = {"type": "result", "is_error": False, "result": "\n"}
    claude = make_program(tmp_path, "claude", prints(said))
    settings = ModelSettings(
        role="optimizer",
        name="default",
        extra={"path": str(claude.path)},
        variables=Secrets({}),
    )
    async with Http() as http:
        model = NonEmpty(ClaudeCli.create(settings, http), "optimizer")
        with pytest.raises(Unusable, match="optimizer model sent an empty reply") as caught:
            await model.complete(ASK)
    assert caught.value.retryable


async def test_a_model_that_thinks_longer_than_the_first_question_allows_is_alive() -> None:
    async with wire(OpenAICompatible, "", says(choice("", "length"))) as (server, model):
        await preflight(whole(model, Meter(), MemoryCache()))
    assert len(server.seen) == 1


async def test_silence_that_is_an_answer_is_kept_apart_from_silence_that_is_none() -> None:
    silent = Scripted(lambda _: "")
    asked = whole(silent, Meter(), MemoryCache())
    allowed = Request(stage=ASK.stage, messages=ASK.messages, empty_ok=True)
    assert (await asked.complete(allowed)).text == ""
    with pytest.raises(Unusable):
        await asked.complete(ASK)


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]


def evaluated(target: Callable[[str], str], out: Path, **more: object) -> float:
    settings = {"retries": 1, **more}
    found = skillopt.evaluate("Add.", rows=rows(1, 10), target=target, out=out, settings=settings)
    return found.whole.hard


def test_an_empty_reply_of_a_function_is_asked_for_again_in_a_whole_evaluation(
    tmp_path: Path,
) -> None:
    asked: dict[str, int] = {}

    def shy(prompt: str) -> str:
        asked[prompt] = asked.get(prompt, 0) + 1
        return str(2 * int(prompt.rsplit(" + ", 1)[1])) if asked[prompt] > 1 else ""

    assert evaluated(shy, tmp_path) == 1.0
    assert set(asked.values()) == {2}


def test_silence_in_a_whole_evaluation_is_no_score_unless_the_environment_says_so(
    tmp_path: Path,
) -> None:
    with pytest.raises(Unmeasurable, match="sent an empty reply"):
        evaluated(lambda _: "", tmp_path / "a")
    assert evaluated(lambda _: "", tmp_path / "b", **{"env.empty_ok": True}) == 0.0


def test_a_reply_of_invisible_characters_is_silence_in_a_whole_evaluation(tmp_path: Path) -> None:
    with pytest.raises(Unmeasurable, match="sent an empty reply"):
        evaluated(lambda _: "\u200b", tmp_path / "a")
    assert evaluated(lambda _: "\u200b", tmp_path / "b", **{"env.empty_ok": True}) == 0.0


@pytest.mark.parametrize(
    "invisible", ["", " \t\n", "\u200b", "\ufeff", "\u00a0\u2028\u200e\x00\u2800"]
)
def test_a_text_without_a_visible_character_is_blank(invisible: str) -> None:
    assert is_blank(invisible)
    assert not is_blank(f"{invisible}0{invisible}")


def test_a_visible_character_of_any_script_is_an_answer() -> None:
    for each in ("।", "é", "\u0301e", "❤\ufe0f", "👩\u200d💻", "한", "\ufffd", "-"):
        assert not is_blank(each), each


def test_an_optimizer_that_says_nothing_to_one_question_does_not_end_the_run(
    tmp_path: Path,
) -> None:
    def silent(prompt: str) -> str:
        return "" if "1 + 1" in prompt else analysis("Double the number.")

    result = skillopt.train(
        train=rows(1, 4),
        val=rows(100, 4),
        target=lambda _: "I do not know",
        optimizer=silent,
        skill="Add.",
        out=tmp_path,
        settings={"num_epochs": 1, "batch_size": 4, "retries": 0},
    )
    assert result.score == 0.0
