"""Runs whose environment asks for a judge: connected, tried, cached, charged and recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support_judge import RUBRIC, grades, judged, shown, verdict
from support_runs import Job, make_data
from support_wire import WireServer, completion, says

from skillopt.api import check_async, doctor_async, estimate_async, evaluate_async, train_async
from skillopt.core.rollout import Score
from skillopt.errors import ConfigError, StoreError, Unmeasurable
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator

ROWS = [{"input": f"Name number {n}.", "answer": str(n)} for n in range(6)]


async def test_a_run_scored_by_a_judge_has_the_scores_of_the_rule_that_the_judge_goes_by(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator, WireServer([grades]) as server:
        ruled = Job(url=simulator.url, data=data, out=tmp_path / "ruled", epochs=1, batch=8)
        job = replace(ruled, out=tmp_path / "judged")
        by_rule = await ruled.here()
        by_judge = await job.here(judged(server.url))
        asked = len(server.seen)
        again = await job.here(judged(server.url))
        assert len(server.seen) == asked
        with pytest.raises(StoreError, match="judge model"):
            await job.here(judged(server.url, **{"model.judge": "another"}))
        assert len(server.seen) == asked
    assert by_judge.score == by_rule.score
    assert by_judge.test_score == by_rule.test_score
    assert again.score == by_judge.score
    assert {each.body["model"] for each in server.seen} == {"grader"}
    with RunReader(tmp_path / "judged") as reader:
        paid = {role: 0 for _, role, _ in reader.spent()}
        for (_, role, _), usage in reader.spent().items():
            paid[role] += usage.calls
        assert paid["judge"] == asked
        assert reader.state.identity["judge model"]


async def test_attempts_of_two_judges_are_not_taken_for_each_other(tmp_path: Path) -> None:
    async with WireServer([grades]) as server:

        async def calls(judge: str) -> int:
            before = len(server.seen)
            settings = judged(server.url, **{"model.judge": judge, "env.skill_init": "blank"})
            found = await evaluate_async(
                "# Numbers\n", rows=ROWS, target=_number, out=tmp_path / "out", settings=settings
            )
            assert found.whole.hard == 1
            return len(server.seen) - before

        assert [await calls(each) for each in ("one", "two", "one", "two")] == [7, 7, 0, 0]


def _number(prompt: str) -> str:
    return re.findall(r"\d+", prompt)[-1]


async def test_a_judge_without_a_usable_verdict_leaves_attempts_unscored(tmp_path: Path) -> None:
    async with WireServer([says(completion("I would call it correct."))]) as server:
        with pytest.raises(Unmeasurable, match="no usable verdict"):
            await evaluate_async(
                "# Numbers\n",
                rows=ROWS,
                target=_number,
                out=tmp_path / "out",
                settings=judged(server.url),
            )


async def test_the_time_limit_of_scorers_does_not_cut_off_a_judge(tmp_path: Path) -> None:
    async with WireServer([grades]) as server:
        settings = judged(server.url, **{"env.exec_timeout": 1e-6})
        found = await evaluate_async(
            "# Numbers\n", rows=ROWS, target=_number, out=tmp_path / "out", settings=settings
        )
    assert found.whole.hard == 1


async def test_a_judge_that_cannot_be_used_stops_a_run_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator:
        job = Job(url=simulator.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        scored = {"env.scorer": "judge", "env.rubric": RUBRIC}
        with pytest.raises(ConfigError, match=r"the judge model 'grader' needs a key"):
            await job.here(
                {**scored, "model.judge": "grader", "model.judge_backend": "claude_chat"}
            )
        with pytest.raises(ConfigError, match=r"model\.judge_backend.*claud"):
            await job.here({**scored, "model.judge": "grader", "model.judge_backend": "claud"})
        prices = {
            f"model.{role}_{kind}_price": 1
            for role in ("target", "optimizer")
            for kind in ("input", "output")
        }
        with pytest.raises(ConfigError, match=r"limits.dollars.*judge grader"):
            await job.here({**judged(simulator.url), **prices, "limits.dollars": 1})
        assert not simulator.stats().completed


async def test_without_a_judge_of_its_own_the_optimizer_judges(tmp_path: Path) -> None:
    asked: list[str] = []

    def optimizer(prompt: str) -> str:
        asked.append(prompt)
        return verdict(prompt) if "answer to judge" in prompt else "{}"

    result = await train_async(
        train=ROWS[:2],
        val=ROWS[2:],
        target=_number,
        optimizer=optimizer,
        skill="# Numbers\n",
        out=tmp_path / "out",
        settings={"env.scorer": "judge", "env.rubric": RUBRIC, "num_epochs": 1},
        progress=False,
    )
    assert result.score == 1
    assert any("answer to judge" in each for each in asked)


async def test_the_estimate_counts_the_calls_of_a_judge(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run", epochs=1, batch=8)
    start = data / job.start
    ruled = await estimate_async(settings=job.settings(), skill=start)
    found = await estimate_async(
        settings={**job.settings(), **judged("http://127.0.0.1:9")}, skill=start
    )
    calls = {line.role: line.calls for line in found.roles}
    assert "judge" not in {line.role for line in ruled.roles}
    assert calls["judge"].low == calls["target"].low
    assert calls["judge"].high > calls["target"].high
    assert found.calls.expected > ruled.calls.expected


async def test_a_check_that_may_not_spend_does_not_ask_a_judge(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    settings = {**job.settings(), **judged("http://127.0.0.1:9")}
    found = await check_async(settings=settings, skill=data / job.start)
    assert [each.verdict for each in found if each.check == "scorer"] == ["left out"]


async def test_doctor_tries_the_judge_that_an_environment_asks_for(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    settings = {**job.settings(), "env.skill_init": str(data / job.start)}
    asking = {**settings, "env.scorer": "judge", "env.rubric": RUBRIC}
    plain = await doctor_async(offline=True, settings=settings)
    found = await doctor_async(offline=True, settings=asking)
    assert "judge model" not in {each.what for each in plain}
    assert "judge model" in {each.what for each in found}


def manners(prompt: str) -> str:
    word = "polite" if "please" in shown(prompt, "answer to judge") else "rude"
    return json.dumps({"reason": "listened", "verdict": word})


def _polite_number(prompt: str) -> str:
    return "2, please" if "2" in prompt else _number(prompt)


async def evaluated(name: str, out: Path) -> Mapping[str, Score]:
    found = await evaluate_async(
        "# Manners\n",
        rows=ROWS,
        target=_polite_number,
        judge=manners,
        out=out,
        settings={"env.name": f"support_judge:{name}"},
    )
    return found.whole.scores


async def test_an_environment_of_ones_own_gets_the_judge_that_it_asks_for(tmp_path: Path) -> None:
    scores = await evaluated("Polite", tmp_path / "out")
    assert sorted(each.hard for each in scores.values()) == [0, 0, 0, 0, 0, 1]


async def test_an_environment_that_does_not_name_its_judge_in_its_fingerprint_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="does not contain that of its judge"):
        await evaluated("Forgetful", tmp_path / "out")


async def test_an_environment_can_ask_for_a_judge_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'critic'"):
        await evaluated("Demanding", tmp_path / "out")
