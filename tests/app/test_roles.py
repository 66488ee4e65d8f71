"""Each role has its own model, server and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from support_runs import Job, make_data
from support_wire import WireServer, completion, says

from skillopt.app.models import ModelFactory
from skillopt.config.load import load_config
from skillopt.config.schema import Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Request
from skillopt.errors import ConfigError
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.testing.doubles import MemoryCache
from skillopt.testing.simulator import Simulator

HELLO = Request(stage="test", messages=(Message("user", "hello"),))


async def ask(role: Role, variables: dict[str, str], *settings: str) -> Meter:
    meter = Meter()
    async with Http() as http:
        factory = ModelFactory(Secrets(variables), http, MemoryCache(), Budget(meter))
        model = factory.connect(load_config(overrides=settings).model.role(role))
        await model.complete(HELLO)
    return meter


async def test_two_roles_on_two_servers_with_two_keys_train_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARGET_OPENAI_COMPATIBLE_API_KEY", "key-of-the-target")
    monkeypatch.setenv("KEY_ELSEWHERE", "key-of-the-optimizer")
    async with Simulator(key="key-of-the-target") as small, Simulator(
        key="key-of-the-optimizer"
    ) as large:  # fmt: skip
        data = make_data(tmp_path / "data", (8, 6, 4))
        job = Job(url=small.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        more = {
            "model.optimizer_base_url": large.url,
            "model.optimizer_api_key_env": "KEY_ELSEWHERE",
        }
        await job.here(more)
        asked_small, asked_large = small.stats(), large.stats()
    assert asked_small.completed
    assert asked_large.completed
    assert not asked_small.completed.keys() & asked_large.completed.keys()
    assert not asked_small.refused
    assert not asked_large.refused


async def test_a_judge_is_asked_on_the_server_of_the_optimizer_with_its_key() -> None:
    async with WireServer([says(completion())]) as server:
        variables = {
            "OPTIMIZER_OPENAI_COMPATIBLE_API_KEY": "sk-optimizer",
            "OPTIMIZER_OPENAI_COMPATIBLE_BASE_URL": server.url,
        }
        meter = await ask("judge", variables, "backend=compat", "judge=grader")
    assert server.seen[0].headers["Authorization"] == "Bearer sk-optimizer"
    assert server.seen[0].body["model"] == "grader"
    assert list(meter.totals) == [("judge", "test")]


async def test_a_judge_with_a_server_of_its_own_is_never_sent_the_key_of_the_optimizer() -> None:
    async with WireServer([says(completion())]) as server:
        variables = {
            "OPTIMIZER_OPENAI_COMPATIBLE_API_KEY": "sk-optimizer",
            "JUDGE_OPENAI_COMPATIBLE_BASE_URL": server.url,
        }
        await ask("judge", variables, "backend=compat", "judge=grader")
        await ask("judge", variables, "backend=compat", "judge=j", f"judge_base_url={server.url}")
    assert all("Authorization" not in seen.headers for seen in server.seen)
    assert len(server.seen) == 2


@pytest.mark.parametrize("label", ["cursor", "opencode_exec", "gemini_exec"])
async def test_an_agent_that_only_works_on_tasks_is_refused_as_optimizer(label: str) -> None:
    with pytest.raises(ConfigError, match=r"\w+_exec"):
        await ask("optimizer", {}, f"optimizer_backend={label}")


async def test_a_key_named_by_the_configuration_is_not_sent_where_an_env_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_OWN", "a-key-of-the-shell")
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://elsewhere.example\n", "utf-8")
    role = load_config(overrides=["model.api_key_env=MY_OWN"]).model.role("target")
    async with Http() as http:
        factory = ModelFactory(Secrets.load(tmp_path), http, MemoryCache(), Budget(Meter()))
        with pytest.raises(ConfigError, match="MY_OWN comes from the environment, but OPENAI_BASE"):
            factory.connect(role)
        confirmed = ["model.api_key_env=MY_OWN", "model.base_url=https://elsewhere.example"]
        factory.connect(load_config(overrides=confirmed).model.role("target"))
