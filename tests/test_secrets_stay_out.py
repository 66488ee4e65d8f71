"""The values of a run's own secrets reach neither the run directory nor an error of the API."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from aiohttp import web
from support import analysis
from support_runs import Job, make_data
from support_wire import WireServer, completion

import skillopt
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Reply, Request, ToolCall
from skillopt.core.events import Event, Signal, Stopped
from skillopt.core.rollout import Failure, Rollout, Score
from skillopt.errors import AccessError, SkilloptError, Unmeasurable, hide_in_error
from skillopt.model.wrappers import Cleaned
from skillopt.store.cache import SqliteCache
from skillopt.store.events import read_log

KEY = "7f3a9c1e5b2d8f4a6c0e1d3b"
OTHER = 'quote"back\\slash-0123456789'
ROWS: list[dict[str, object]] = [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(40)]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)


async def echo(request: web.Request) -> web.StreamResponse:
    """A model that answers with its own key, whatever it is asked."""
    asked = await request.json()
    key = request.headers["Authorization"].removeprefix("Bearer ")
    reply = analysis(f"Say {key}.") if "optimizer" in asked["model"] else f"I answer {key}"
    return web.json_response(completion(reply))


def settings(url: str) -> dict[str, object]:
    return {
        "model.backend": "openai_compatible",
        "model.base_url": url,
        "model.api_key_env": "OUR_KEY",
        "model.target": "a-target",
        "model.optimizer": "an-optimizer",
        "model.retries": 0,
        "num_epochs": 1,
        "batch_size": 4,
        "evaluation.max_failure_share": 0.5,
    }


def holding(secret: str, folder: Path) -> list[str]:
    """The files below a folder that hold a secret."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return [str(path) for path in found if secret.encode() in path.read_bytes()]


def after(count: int) -> Callable[[str, Mapping[str, object]], float | Score]:
    """A scorer that tells the key: first as feedback, and after so many answers as its error."""
    scored: list[str] = []

    def scorer(answer: str, row: Mapping[str, object]) -> Score:
        scored.append(answer)
        if len(scored) > count or row["input"] == "1 + 1":
            raise ValueError(f"no access with {os.environ['OUR_KEY']}")
        return Score(0, 0, f"wrong: {os.environ['OUR_KEY']}")

    return scorer


async def test_a_run_whose_models_and_scorer_tell_the_key_keeps_it_nowhere(tmp_path: Path) -> None:
    seen: list[Event | Signal] = []
    async with WireServer([echo]) as server:
        await skillopt.train_async(
            data=ROWS,
            scorer=after(10_000),
            skill="Add.",
            out=tmp_path / "run",
            settings=settings(server.url),
            watch=seen.append,
            progress=False,
        )
    assert holding(KEY, tmp_path / "run") == []
    assert KEY not in repr(seen)
    assert "[redacted]" in (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")


async def test_an_evaluation_whose_model_and_scorer_tell_the_key_keeps_it_nowhere(
    tmp_path: Path,
) -> None:
    async with WireServer([echo]) as server:
        found = await skillopt.evaluate_async(
            "Add.",
            rows=ROWS[:8],
            scorer=after(10_000),
            out=tmp_path / "eval",
            settings=settings(server.url),
            progress=False,
        )
    assert found.whole.failures
    assert KEY not in repr(found)
    assert holding(KEY, tmp_path / "eval") == []


async def test_the_reason_for_which_a_run_stopped_and_its_error_do_not_hold_the_key(
    tmp_path: Path,
) -> None:
    async with WireServer([echo]) as server:
        with pytest.raises(Unmeasurable, match=r"no access with \[redacted\]") as caught:
            await skillopt.train_async(
                train=ROWS[:8],
                val=ROWS[8:16],
                scorer=after(8),  # from the first training step on, which a limit keeps in order
                skill="Add.",
                out=tmp_path,
                settings=settings(server.url) | {"limits.calls": 1000},
                progress=False,
            )
    assert KEY not in "".join(traceback.format_exception(caught.value))
    [stopped] = [e for e in read_log(tmp_path / "events.jsonl") if isinstance(e, Stopped)]
    assert "no access with [redacted]" in stopped.reason
    assert "no access with [redacted]" in (tmp_path / "summary.json").read_text(encoding="utf-8")
    assert holding(KEY, tmp_path) == []


async def test_a_run_that_an_answer_with_the_key_of_another_model_stops_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_KEY", "0b1c2d3e4f5a6b7c8d9e0f1a")

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if "optimizer" not in asked["model"] or "Reply with OK" in str(asked):
            return await echo(request)
        return web.json_response({"error": {"message": f"{KEY} is not allowed"}}, status=401)

    own = {"model.api_key_env": "SECOND_KEY", "model.target_api_key_env": "OUR_KEY"}
    async with WireServer([answer]) as server:
        with pytest.raises(AccessError, match=r"\[redacted\] is not allowed") as caught:
            await skillopt.train_async(
                train=ROWS[:8],
                val=ROWS[8:16],
                skill="Add.",
                out=tmp_path,
                settings={**settings(server.url), **own},
                progress=False,
            )
    assert KEY not in "".join(traceback.format_exception(caught.value))
    [stopped] = [e for e in read_log(tmp_path / "events.jsonl") if isinstance(e, Stopped)]
    assert "[redacted] is not allowed" in stopped.reason
    assert holding(KEY, tmp_path) == []


async def test_an_error_of_the_api_holds_no_key_in_anything_that_led_to_it(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": f"bad {KEY}, bad {OTHER}"}}, status=401)

    async with WireServer([refuse]) as server:
        with pytest.raises(SkilloptError) as caught:
            await skillopt.evaluate_async(
                "Add.", rows=ROWS[:4], out=tmp_path, settings=settings(server.url), progress=False
            )
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_an_error_and_its_causes_are_cleaned_whatever_they_are_made_of() -> None:
    class Stubborn(Exception):
        def __str__(self) -> str:
            return KEY

    secrets = Secrets({"K": KEY})
    assert secrets.get("K") == KEY
    for cause in (ValueError(KEY), OSError(5, f"no {KEY}"), KeyError(KEY), Stubborn()):
        error = Unmeasurable(f"failed: {cause}")
        error.__cause__ = error.__context__ = cause
        cause.__context__ = error
        hide_in_error(error, secrets.hide_values)
        assert str(error).startswith("failed: ")
        assert KEY not in "".join(traceback.format_exception(error))


async def test_what_is_kept_holds_no_secret_in_any_of_its_texts(tmp_path: Path) -> None:
    secrets = Secrets({"K": KEY, "O": OTHER})
    assert (secrets.get("K"), secrets.get("O")) == (KEY, OTHER)
    cache = SqliteCache(tmp_path / "cache.sqlite", hide=secrets.hide_values)
    for number, secret in enumerate((KEY, OTHER)):

        async def rollout(secret: str = secret) -> Rollout:
            told: dict[str, object] = {"said": [{"by": f"x {secret}"}]}
            return Rollout(task="t", skill="s", outcome=Score(0, 0, secret), details=told)

        async def failed(secret: str = secret) -> Rollout:
            return Rollout(task="t", skill="s", outcome=Failure("ValueError", secret))

        kept, _ = await cache.rollout(f"a{number}", rollout)
        lost, _ = await cache.rollout(f"b{number}", failed)
        assert kept.outcome == Score(0, 0, "[redacted]")
        assert kept.details == {"said": [{"by": "x [redacted]"}]}
        assert lost.outcome == Failure("ValueError", "[redacted]")
    cache.close()
    assert holding(KEY, tmp_path) == holding("0123456789", tmp_path) == []


async def test_a_reply_holds_no_secret_in_any_of_its_texts() -> None:
    class Echo:
        fingerprint = "echo"

        async def complete(self, request: Request) -> Reply:
            return Reply(text=KEY, calls=(ToolCall(KEY, KEY, KEY),), memo=KEY)

    secrets = Secrets({"K": KEY})
    assert secrets.get("K") == KEY
    reply = await Cleaned(Echo(), secrets.hide_values).complete(Request(stage="s", messages=()))
    hidden = "[redacted]"
    assert (reply.text, reply.memo) == (hidden, hidden)
    assert reply.calls == (ToolCall(hidden, hidden, hidden),)


async def test_a_placeholder_for_a_key_that_is_also_a_word_of_ours_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("assistant", "replicate", "trajectory", "rollouts"):
        monkeypatch.setenv("OUR_KEY", word)
        async with WireServer([echo]) as server:
            for _ in range(2):
                found = await skillopt.evaluate_async(
                    "Add.",
                    rows=ROWS[:4],
                    out=tmp_path / word,
                    settings=settings(server.url),
                    progress=False,
                )
                assert found.whole.n == 4


async def test_a_run_with_a_key_in_the_names_of_its_data_is_resumed(tmp_path: Path) -> None:
    data = make_data(tmp_path / KEY, (8, 6, 4))
    out = tmp_path / "run"
    async with WireServer([echo]) as server:
        more = {"model.api_key_env": "OUR_KEY"}
        job = Job(url=server.url, data=data, out=out, epochs=1, batch=4, more=more)
        await job.here()
        calls = len(server.seen)
        await job.here()
        assert len(server.seen) == calls
    assert holding(KEY, out) == []


async def test_an_answer_that_is_also_a_placeholder_key_is_scored_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", "lm-studio")
    rows = [{"input": f"Which program is number {n}?", "answer": "lm-studio"} for n in range(12)]
    async with WireServer([echo_bare]) as server:
        result = await skillopt.evaluate_async(
            "# Skill\n",
            rows=rows,
            split="test",
            settings=settings(server.url),
            out=tmp_path / "out",
        )
    assert result.whole.hard == 1.0
    assert any("the value of a key occurs in the data" in each for each in result.warnings)


async def test_a_check_with_calls_scores_an_answer_that_is_also_a_placeholder_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_KEY", "lm-studio")
    rows = [{"input": f"Which program is number {n}?", "answer": "lm-studio"} for n in range(30)]
    async with WireServer([echo_bare]) as server:
        found = await skillopt.check_async(
            data=rows, skill="# Skill\n", sample=4, settings=settings(server.url)
        )
    bare = next(each for each in found if each.check == "bare prompt")
    assert bare.found.startswith("1.000")


async def echo_bare(request: web.Request) -> web.StreamResponse:
    """A model that answers with nothing but its own key."""
    return web.json_response(completion(request.headers["Authorization"].removeprefix("Bearer ")))
