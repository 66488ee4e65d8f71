"""The real agent programs in the sandbox, against a model server on loopback."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support_agents import (
    AGENTS,
    PLANTED,
    TARGET_KEY,
    FileTask,
    User,
    make_user,
    open_agent,
)

from skillopt.core.chat import Image
from skillopt.core.episode import EpisodeLimits
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import AccessError, BudgetSpent, HarnessError, ModelError
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.budget import Limits
from skillopt.testing.contracts.models import DOT
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import SENT, WRITTEN, Act, Decline, Say

pytestmark = pytest.mark.agents

RULE = "Answer with the bare number and with nothing else at all."
SKILL = Skill.parse(f"# Sums\n\n- {RULE}\n")
KEYS = frozenset([TARGET_KEY])
every_agent = pytest.mark.parametrize("name", AGENTS)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """Somebody whose home is full of rules, skills, servers and hooks."""
    made = make_user(tmp_path)
    monkeypatch.chdir(made.cwd)
    monkeypatch.setenv("HOME", str(made.home))
    return made


async def attempt(
    name: str, script: list[Act], *overrides: str, task: FileTask | None = None, model: str = "m"
) -> tuple[Trajectory, ModelServer]:
    async with (
        ModelServer(script, keys=KEYS) as server,
        open_agent(name, server, *overrides, model=model) as agent,
    ):
        done = await agent.harness.run(task or FileTask(), SKILL)
        assert agent.budget.meter.total == done.usage
        return done, server


@every_agent
async def test_an_agent_reads_the_skill_works_on_files_and_answers(name: str) -> None:
    facts = AGENTS[name]
    done, server = await attempt(name, [facts.reads, facts.writes, Say("4")])
    assert done.answer == "4"
    assert done.files == {"given/numbers.txt": b"1\n3\n", "out.txt": b"made by the agent"}
    assert done.skill_opened is True
    assert (done.exit_status, done.reached_limit) == (0, "")
    asked = len(server.questions)
    assert (done.usage.calls, done.usage.input) == (asked, asked * SENT)
    assert done.usage.output == asked * WRITTEN
    assert {question.key for question in server.questions} == KEYS
    told, *said = done.messages
    assert FileTask().brief in told.text
    called = [call.id for message in said for call in message.calls]
    answered = [message.answers for message in said if message.role == "tool"]
    assert len(called) == 2
    assert called == answered
    assert any(RULE in message.text for message in said) or name == "gemini_exec"
    assert said[-1].text == "4"


@every_agent
async def test_the_model_gets_the_skill_and_the_task_and_nothing_of_the_users(
    name: str, user: User
) -> None:
    before = {each.relative_to(user.home) for each in user.home.rglob("*")}
    done, server = await attempt(name, [Say("4")])
    assert done.skill_opened is False
    first = server.questions[0].text
    assert "skillopt-target" in first
    assert "Sums: rules for the tasks at hand" in first
    assert FileTask().brief in first
    for request in server.requests:
        for private in (PLANTED, str(user.home), str(user.cwd), TARGET_KEY):
            assert private not in request.text
    assert user.started == []
    assert {each.relative_to(user.home) for each in user.home.rglob("*")} == before


@every_agent
async def test_a_wrong_key_is_an_access_error_within_ten_seconds(name: str) -> None:
    async with (
        ModelServer(keys=frozenset(["another"])) as server,
        open_agent(name, server) as agent,
    ):
        work = asyncio.ensure_future(agent.harness.run(FileTask(), SKILL))
        await server.arrived.wait()
        start = time.monotonic()
        with pytest.raises(AccessError, match="access denied; check the key"):
            await work
        assert time.monotonic() - start < 10
        assert len(server.questions) == 1


@every_agent
@pytest.mark.parametrize("model", ["error-429", "error-garbage"])
async def test_a_server_that_fails_is_not_a_score(name: str, model: str) -> None:
    async with ModelServer(keys=KEYS) as server, open_agent(name, server, model=model) as agent:
        with pytest.raises(ModelError, match="gave up after 1 try"):
            await agent.harness.run(FileTask(), SKILL)
        assert agent.budget.meter.total.calls == 0


@every_agent
async def test_a_model_that_hangs_ends_with_the_time_of_the_attempt(name: str) -> None:
    async with (
        ModelServer(keys=KEYS) as server,
        open_agent(
            name, server, f"env.agent_seconds={AGENTS[name].seconds}", model="error-hang"
        ) as agent,
    ):
        with pytest.raises(HarnessError, match=r"did not end within \d+ s, while it waited for"):
            await agent.harness.run(FileTask(), SKILL)
        assert len(server.questions) >= 1


@every_agent
async def test_an_agent_that_is_too_slow_for_its_task_is_scored_with_what_it_left(
    name: str,
) -> None:
    script: list[Act] = [AGENTS[name].writes, AGENTS[name].slow]
    task = FileTask(limits=EpisodeLimits(seconds=AGENTS[name].seconds))
    done, _ = await attempt(name, script, task=task)
    assert done.reached_limit == "seconds"
    assert done.files["out.txt"] == b"made by the agent"


@every_agent
async def test_a_refusal_is_an_answer_or_none_but_no_crash(name: str) -> None:
    async with (
        ModelServer([Decline()], keys=KEYS) as server,
        open_agent(name, server) as agent,
    ):
        with suppress(HarnessError):  # a program may keep the words of the model for itself
            done = await agent.harness.run(FileTask(), SKILL)
            assert "4" not in done.answer
        assert agent.budget.meter.total.calls == len(server.questions)


@every_agent
async def test_a_tool_that_prints_very_much_is_cut(name: str) -> None:
    done, _ = await attempt(name, [AGENTS[name].floods, Say("4")])
    assert done.answer == "4"
    assert all(len(message.text) <= 21_000 for message in done.messages)


@every_agent
async def test_an_empty_answer_is_asked_for_once_more(name: str) -> None:
    async with ModelServer([Say("")], keys=KEYS) as server, open_agent(name, server) as agent:
        with pytest.raises(HarnessError, match=r"without (an answer, 2 times|a result)"):
            await agent.harness.run(FileTask(), SKILL)


@every_agent
async def test_no_call_is_made_that_a_limit_does_not_allow(name: str) -> None:
    facts = AGENTS[name]
    async with (
        ModelServer([facts.reads, facts.writes, Say("4")], keys=KEYS) as server,
        open_agent(name, server, limits=Limits(calls=2)) as agent,
    ):
        with pytest.raises(BudgetSpent, match=r"limits\.calls is reached"):
            await agent.harness.run(FileTask(), SKILL)
        assert len(server.questions) == 2


@every_agent
async def test_pictures_of_the_task_are_there_as_files(name: str) -> None:
    task = FileTask(images=(Image.of(DOT, "image/gif"),))
    done, server = await attempt(name, [Say("4")], task=task)
    assert done.answer == "4"
    assert "attachments/image-1.gif" in server.questions[0].text


def test_there_is_a_sandbox_on_this_machine() -> None:
    assert Bubblewrap.create()
