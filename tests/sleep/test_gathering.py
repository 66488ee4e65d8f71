"""From sessions to tasks: what a night takes up, asks a model about, and pays for that."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support_sleep import tree

from skillopt.core.chat import Reply, Request, Usage
from skillopt.errors import Pending
from skillopt_sleep.demo import demo_night, simulated_optimizer
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.gathering import Miner, gather
from skillopt_sleep.models import NightModels
from skillopt_sleep.night import run_night_async
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import load_state

NOW = datetime(2026, 3, 2, 3, 17, tzinfo=timezone.utc)


def found(question: str) -> str:
    """What a miner could answer: one task for each ask."""
    asks = re.findall(r'<ask n="(\d+)".*?<user>(.*?)</user>', question, re.DOTALL)
    tasks = [
        {
            "asks": [int(number)],
            "intent": f"As so often: {said}",
            "checks": [{"op": "contains", "arg": "Refs: SHOP-"}],
        }
        for number, said in asks
    ]
    return json.dumps({"tasks": tasks})


async def miner(request: Request) -> Reply:
    return Reply(text=found(request.messages[-1].text), usage=Usage(1, 100, 50))


def asking(place: Path, **more: object) -> Settings:
    settings, _ = demo_night(place, now=NOW)
    return settings.model_copy(update={"llm_mine": True, **more})


async def test_a_model_generalises_tasks_and_what_it_takes_is_counted(tmp_path: Path) -> None:
    models = NightModels(target=miner, optimizer=miner)
    gathered = await gather(
        asking(tmp_path), None, NOW, Miner(folder=tmp_path / "night", models=models)
    )
    assert gathered.sessions == 40
    assert len(gathered.tasks) == 40
    assert all(task.intent.startswith("As so often: ") for task in gathered.tasks)
    assert gathered.spent.calls == 5
    assert gathered.spent.input + gathered.spent.output == 750
    assert gathered.checkpoint is not None
    assert NOW.timestamp() - 3600 < gathered.checkpoint < NOW.timestamp()


async def test_mining_that_would_cost_too_much_is_done_without_the_model(tmp_path: Path) -> None:
    models = NightModels(target=miner, optimizer=miner)
    settings = asking(tmp_path, max_tokens_per_night=10)
    gathered = await gather(settings, None, NOW, Miner(folder=tmp_path / "night", models=models))
    assert gathered.spent.calls == 0
    assert any("mined without a model" in notice for notice in gathered.notices)
    assert gathered.tasks


async def test_mining_by_hand_takes_one_round_and_sessions_stay_as_they_were(
    tmp_path: Path,
) -> None:
    settings = asking(tmp_path, backend="handoff", model="")
    place = Miner(folder=tmp_path / "night")
    with pytest.raises(Pending) as first:
        await gather(settings, None, NOW, place)
    questions = first.value.questions
    assert len(questions) == 5
    # The agent that answers leaves a session of its own in the same project.
    folder = next((tmp_path / "home/.claude/projects").iterdir())
    one = next(folder.iterdir()).read_text()
    (folder / "new.jsonl").write_text(one.replace("5ee9b000", "6ee9b000"))
    for name in questions:
        path = Path(first.value.folder) / name
        path.with_name(path.name.replace("question", "answer")).write_text(found(path.read_text()))
    gathered = await gather(settings, None, NOW + timedelta(hours=1), place)
    assert gathered.sessions == 40
    assert len(gathered.tasks) == 40


async def test_what_cannot_be_written_is_refused_before_the_miner_is_asked(tmp_path: Path) -> None:
    asked: list[Request] = []

    async def counting(request: Request) -> Reply:
        asked.append(request)
        return await miner(request)

    settings, bench = demo_night(tmp_path, now=NOW)
    (tmp_path / "elsewhere.md").write_text("not yours")
    (settings.project / "CLAUDE.md").symlink_to(tmp_path / "elsewhere.md")
    models = NightModels(target=counting, optimizer=counting)
    with pytest.raises(RefusedChange, match=r"CLAUDE\.md"):
        await run_night_async(
            settings.model_copy(update={"llm_mine": True}), replace(bench, models=models)
        )
    assert asked == []


@pytest.mark.sandbox
async def test_a_night_takes_up_the_sessions_that_came_after_the_last_one(tmp_path: Path) -> None:
    settings, bench = demo_night(tmp_path, now=NOW)
    bench = replace(bench, clock=lambda: NOW)
    first = await run_night_async(settings, bench)
    assert first.gathered.sessions == 40
    again = await run_night_async(settings, replace(bench, clock=lambda: NOW + timedelta(days=1)))
    assert again.night == 2
    assert again.gathered.sessions == 0
    assert again.verdict.startswith("Nothing was practised")
    checkpoint = load_state(tmp_path / "home/.skillopt-sleep").project(settings.project).checkpoint
    assert checkpoint == first.gathered.checkpoint


@pytest.mark.sandbox
async def test_no_secret_of_a_session_reaches_the_files_of_a_night(tmp_path: Path) -> None:
    settings, bench = demo_night(tmp_path, now=NOW)
    secret = "ghp_" + "a1B2" * 9
    for path in (tmp_path / "home/.claude/projects").rglob("*.jsonl"):
        text = path.read_text()
        path.write_text(text.replace("ticket.", f"ticket. My token is {secret}, mail ann@corp.io."))
    asked: list[str] = []

    async def optimizer(request: Request) -> Reply:
        asked.extend(message.text for message in request.messages)
        return simulated_optimizer(request)

    models = replace(bench.models, optimizer=optimizer)
    await run_night_async(settings, replace(bench, models=models, clock=lambda: NOW))
    assert asked
    written = {
        path: data
        for path, data in tree(tmp_path).items()
        if not path.startswith("home/.claude/projects")
    }
    for data in (*written.values(), *(text.encode() for text in asked)):
        assert secret.encode() not in data
        assert b"ann@corp.io" not in data
