"""Harnesses by name, by path and as objects; what they spend; what they serve."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from support import analysis
from support_cli import Done, skillopt

import skillopt as api
from skillopt.core.chat import Image, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.core.episode import EpisodeNeed, Workspace
from skillopt.core.ports import Episode
from skillopt.core.rollout import Evaluation, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import Splits
from skillopt.errors import ConfigError, StoreError
from skillopt.harness.base import HarnessContext
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import SENT, Call, Say

ROWS: list[dict[str, object]] = [{"input": f"say {n}", "answer": f"{n}!"} for n in range(12)]
SETTINGS = {"num_epochs": 1, "batch_size": 4, "use_slow_update": False, "use_meta_skill": False}

SHOUTER = '''
import os, signal
from dataclasses import dataclass
from pathlib import Path
from skillopt.core.chat import Message, Usage
from skillopt.core.rollout import Trajectory
from skillopt.harness.base import HarnessContext


@dataclass(frozen=True)
class Shouter:
    """Says what it is told to say, and spends without asking a model."""

    @dataclass(frozen=True)
    class Settings:
        mark: str = "?"
        times: int = 1

    uses_model = False
    context: HarnessContext

    @classmethod
    def create(cls, context):
        return cls(context)

    @property
    def fingerprint(self):
        return f"shouter/{self.context.settings.mark}"

    async def run(self, episode, skill, *, replicate=0):
        await self.context.check_budget()
        usage = Usage(2, 90, 10)
        await self.context.charge(usage)
        with Path("attempts").open("a") as log:
            log.write("x")
        if Path("attempts").stat().st_size == int(os.environ.get("KILL_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = episode.brief.removeprefix("say ")
        answer += self.context.settings.mark * self.context.settings.times
        messages = (Message("user", episode.brief), Message("assistant", answer))
        return Trajectory(messages, answer, usage, exit_status=0, skill_opened=True)


def propose(request):
    return '{"reasoning": "r", "patterns": [], "edits": []}'
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Data, and an installed distribution that registers a harness."""
    site = tmp_path / "site"
    info = site / "shouting-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[skillopt.harnesses]\nshout = shouting:Shouter\n")
    (site / "shouting.py").write_text(SHOUTER)
    rows = "\n".join(map(json.dumps, ROWS))
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    return tmp_path


async def trained(project: Path, *words: str, **variables: str) -> Done:
    """`skillopt train` with the harness of the distribution."""
    settings = [f"{key}={json.dumps(value)}" for key, value in SETTINGS.items()]
    return await skillopt(
        *("train", "env.name=custom", "env.data_path=rows.jsonl", "env.skill_init=blank"),
        *("model.optimizer_backend=scripted", "model.optimizer=shouting:propose"),
        *("env.harness=shout", "env.out_root=run", "env.workers=1", *settings, *words),
        cwd=project,
        PYTHONPATH=str(project / "site"),
        **variables,
    )


def summary(project: Path) -> dict[str, Any]:
    return json.loads((project / "run" / "summary.json").read_text("utf-8"))


async def test_a_harness_of_another_distribution_is_found_by_its_name_and_gets_its_settings(
    project: Path,
) -> None:
    done = await trained(project, 'env.mark="!"')
    assert done.code == 0, done.err
    told = summary(project)
    attempts = len((project / "attempts").read_text())
    assert told["best_selection_hard"] == 1.0
    assert told["receipt"]["target"]["rollout"]["calls"] == 2 * attempts
    assert told["receipt"]["target"]["rollout"]["prompt_tokens"] == 90 * attempts
    (results, *_) = (project / "run").rglob("results.jsonl")
    row = json.loads(results.read_text("utf-8").splitlines()[0])
    assert (row["exit_status"], row["skill_opened"]) == (0, True)


async def test_names_and_keys_that_are_misspelt_are_told_before_anything_is_spent(
    project: Path,
) -> None:
    done = await trained(project, "env.harness=shuot")
    assert "env.harness: no harness is named 'shuot'; did you mean 'shout'?" in done.err
    known = done.err.partition("known: ")[2].partition(", or module:Name for your own")[0]
    assert {"chat", "code", "shout", "tools"} <= {*known.split(", ")}
    done = await trained(project, "env.marc=!")
    assert "env.marc: unknown key" in done.err
    assert "did you mean 'env.mark'?" in done.err
    done = await trained(project, "env.times=often")
    assert "env.times: " in done.err
    assert not (project / "attempts").exists()


async def test_what_a_harness_spends_ends_a_run_at_its_limit_and_a_higher_limit_resumes_it(
    project: Path,
) -> None:
    done = await trained(project, 'env.mark="!"', "limits.calls=6")
    assert done.code == 4
    assert "limits.calls is exceeded by 1: 6 allowed, 7 were made" in done.err
    done = await trained(project, 'env.mark="!"', "limits.calls=6")
    assert (done.code, "limits.calls is reached: 6 allowed, 7" in done.err) == (4, True)
    attempts = len((project / "attempts").read_text())
    assert attempts == 2, "the third was charged and not finished; none started after it"
    done = await trained(project, 'env.mark="!"', "limits.calls=1000")
    assert done.code == 0, done.err
    finished = len((project / "attempts").read_text())
    assert summary(project)["receipt"]["target"]["rollout"]["calls"] == 2 * (finished + 1)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
async def test_what_a_harness_has_spent_is_in_the_receipt_after_a_kill(project: Path) -> None:
    done = await trained(project, 'env.mark="!"', KILL_AT="5")
    assert done.code == -signal.SIGKILL
    done = await trained(project, 'env.mark="!"')
    assert done.code == 0, done.err
    attempts = len((project / "attempts").read_text())
    assert summary(project)["receipt"]["target"]["rollout"]["calls"] == 2 * attempts


@dataclass(frozen=True)
class Parrot:
    """An object that a caller brings along: no settings, no model, text only."""

    mark: str = "!"

    @property
    def fingerprint(self) -> str:
        return f"parrot/{self.mark}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        del skill, replicate
        answer = episode.brief.removeprefix("say ") + self.mark
        asked = Message("user", episode.brief)
        return Trajectory((asked, Message("assistant", answer)), answer)


def optimizer(request: Request) -> str:
    del request
    return analysis()


def train(tmp_path: Path, harness: Parrot) -> api.Result:
    return api.train(
        train=ROWS[:4],
        val=ROWS[4:8],
        harness=harness,
        optimizer=optimizer,
        skill="Say it.",
        out=tmp_path / "run",
        settings=SETTINGS,
        progress=False,
    )


def test_an_object_with_run_and_fingerprint_is_a_harness_and_needs_no_target(
    tmp_path: Path,
) -> None:
    assert train(tmp_path, Parrot()).score == 1.0
    config = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))
    assert config["harness"].endswith(":Parrot")
    assert train(tmp_path, Parrot()).score == 1.0
    with pytest.raises(StoreError, match="target model: ! there, \\? now"):
        train(tmp_path, Parrot("?"))


def test_an_evaluation_takes_a_harness_too(tmp_path: Path) -> None:
    for mark, score in (("!", 1.0), ("?", 0.0)):
        found = api.evaluate(
            "Say it.", rows=ROWS, harness=Parrot(mark), out=tmp_path / "eval", progress=False
        )
        assert found.whole.hard == score


@dataclass(frozen=True)
class Wrong(Parrot):
    """Returns something for what it should have said."""

    returned: Any = None

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        said = await super().run(episode, skill, replicate=replicate)
        match self.returned:
            case Usage():
                return replace(said, usage=self.returned)
            case int():
                return replace(said, answer=cast("str", self.returned))
            case str():
                return replace(said, messages=cast("tuple[Message, ...]", (self.returned,)))
            case _:
                return self.returned


@pytest.mark.parametrize(
    ("returned", "kind", "told"),
    [
        (None, "HarnessError", "the harness Wrong returned None, which is no Trajectory"),
        (4, "HarnessError", "the harness Wrong returned the answer 4, which is no text"),
        (Usage(-5), "HarnessError", "the harness Wrong reports a usage that cannot be"),
        (Usage(1, 10**30), "HarnessError", "the harness Wrong reports a usage that cannot be"),
        (Usage(dollars=math.nan), "HarnessError", "the harness Wrong reports a usage that cannot"),
        (Usage(1, cast("int", math.nan)), "HarnessError", "the harness Wrong reports a usage"),
        ("hello", "RolloutError", "the attempt cannot be kept: trajectory.messages.0: "),
    ],
)
def test_what_a_harness_returns_wrongly_is_a_failure_and_is_not_kept(
    returned: object, kind: str, told: str, tmp_path: Path
) -> None:
    def evaluated(harness: Parrot) -> Evaluation:
        return api.evaluate(
            *("Say it.",),
            rows=ROWS,
            harness=harness,
            out=tmp_path / "eval",
            settings={"evaluation.max_failure_share": 1.0},
            progress=False,
        ).whole

    failures = evaluated(Wrong(returned=returned)).failures
    assert len(failures) == len(ROWS)
    for failure in failures.values():
        assert failure.kind == kind
        assert told in failure.message
    assert evaluated(Parrot()).hard == 1.0


PNG = Image.of(b"\x89PNG", "image/png")


@dataclass
class Priced:
    """An episode with an image and a tool."""

    brief: str
    instructions: str = "Answer with the price."
    images: tuple[Image, ...] = (PNG,)
    tools: tuple[Tool, ...] = (Tool("price", "Finds a price.", {"type": "object"}),)
    called: list[ToolCall] = field(default_factory=list[ToolCall])

    async def call(self, call: ToolCall) -> str:
        self.called.append(call)
        return "3 euros"

    async def score(self, trajectory: Trajectory) -> Score:
        right = float(bool(self.called) and trajectory.answer == "3")
        return Score(right, right)


class Prices:
    """An environment of such episodes."""

    @dataclass(frozen=True)
    class Settings:
        pass

    initial_skill: ClassVar[Path | None] = None
    prompts: ClassVar[Path | None] = None
    name = fingerprint = "prices"
    opened: ClassVar[list[str]] = []

    def __init__(self, settings: Settings, splits: Splits) -> None:
        del settings
        self._rows = splits

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"{split}-{n}", "price", {}) for n, _ in enumerate(self._rows[split])]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Priced, None]:
        self.opened.append(task.id)
        yield Priced(f"What does it cost? ({task.id})")


class FrankPrices(Prices):
    """The same, and it tells beforehand what it needs."""

    needs: ClassVar[tuple[EpisodeNeed, ...]] = ("images", "tools")


async def test_a_whole_evaluation_with_images_and_tools_leaves_the_conversation(
    tmp_path: Path,
) -> None:
    async with ModelServer([Say("OK"), Call("price", {"of": "cup"}), Say("3")]) as server:
        found = await api.evaluate_async(
            "Ask for the price.",
            rows=[{"input": "x"}],
            out=tmp_path / "eval",
            settings={
                "env.name": f"{__name__}:FrankPrices",
                "model.backend": "openai_compatible",
                "model.base_url": f"{server.url}/v1",
                "model.target": "m",
            },
            progress=False,
        )
    assert found.whole.hard == 1.0
    assert found.spent.calls == 3, "the first call tries the model"
    (path,) = (tmp_path / "eval").rglob("conversation.json")
    talk = json.loads(path.read_text("utf-8"))
    assert [each["role"] for each in talk] == ["assistant", "tool", "assistant"]
    assert [each["name"] for each in talk[0]["tool_calls"]] == ["price"]
    assert talk[1]["content"] == "3 euros"


@pytest.mark.parametrize("kind", [Prices, FrankPrices])
def test_tasks_that_need_more_than_the_harness_serves_are_refused_before_it_runs(
    kind: type[Prices], tmp_path: Path
) -> None:
    kind.opened.clear()
    told = "need images and tools, but the harness 'Parrot' serves text only"
    with pytest.raises(ConfigError, match=told):
        api.evaluate(
            "",
            rows=[{"input": "x"}],
            harness=Parrot(),
            out=tmp_path / "eval",
            settings={"env.name": f"{__name__}:{kind.__name__}"},
            progress=False,
        )
    assert kind.opened == (["test-0"] if kind is Prices else [])


def test_usage_of_an_attempt_is_no_charge_by_itself(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Paid(Parrot):
        async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
            done = await Parrot.run(self, episode, skill, replicate=replicate)
            return Trajectory(done.messages, done.answer, Usage(1, 2, 3))

    found = api.evaluate(
        "Say it.", rows=ROWS, harness=Paid(), out=tmp_path / "eval", progress=False
    )
    assert found.spent == Usage()


@dataclass(frozen=True)
class Silent(Parrot):
    """A harness by path that asks no model, and whose objects say what they serve."""

    uses_model: ClassVar[bool] = False

    @classmethod
    def create(cls, context: HarnessContext[object]) -> Silent:
        del context
        return cls()

    @property
    def serves(self) -> tuple[EpisodeNeed, ...]:
        return ("images",)


def test_a_harness_that_asks_no_model_needs_no_key_for_the_target(tmp_path: Path) -> None:
    settings = {"env.harness": f"{__name__}:Silent", "model.backend": "claude_chat"}
    found = api.evaluate(
        "Say it.", rows=ROWS, out=tmp_path / "eval", settings=settings, progress=False
    )
    assert found.whole.hard == 1.0
    told = api.doctor(settings=settings, offline=True)
    assert any(each.what.startswith("optimizer") for each in told)
    assert not any(each.what.startswith("target") for each in told)


def test_what_an_object_serves_is_asked_where_the_class_cannot_tell(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="need tools, but the harness 'Silent' serves text and"):
        api.evaluate(
            "",
            rows=[{"input": "x"}],
            out=tmp_path / "eval",
            settings={
                "env.name": f"{__name__}:FrankPrices",
                "env.harness": f"{__name__}:Silent",
            },
            progress=False,
        )


def test_the_bare_prompt_of_a_check_has_the_images_and_tools_of_the_task() -> None:
    asked: list[Request] = []

    def buyer(request: Request) -> Reply:
        asked.append(request)
        if request.messages[-1].role == "tool":
            return Reply(text="3")
        return Reply(text="", calls=(ToolCall("c", "price", "{}"),))

    rows: list[dict[str, object]] = [{"input": f"{n}"} for n in range(4)]
    found = api.check(
        train=rows,
        val=rows,
        target=buyer,
        skill="Ask.",
        sample=2,
        settings={"env.name": f"{__name__}:FrankPrices"},
    )
    (bare,) = [each for each in found if each.check == "bare prompt"]
    assert "cannot be measured" not in bare.found
    first = [each for each in asked if each.messages[0].role == "user"]
    assert len(first) == 4, "two items, two turns each, without instructions and skill"
    assert all(each.messages[0].images == (PNG,) and each.tools for each in first)


ASKING = """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("target")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
body = {"messages": [{"role": "user", "content": open("task.txt").read()}]}
connection.request("POST", "/v1/chat/completions", json.dumps(body))
print(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])
"""


@dataclass(frozen=True)
class Program:
    """A program in a sandbox that asks the target."""

    context: HarnessContext[object]
    fingerprint: str = "program/1"

    @classmethod
    def create(cls, context: HarnessContext[object]) -> Program:
        return cls(context)

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        files = {"main.py": ASKING.encode(), "task.txt": episode.brief.encode()}
        sandbox = self.context.sandbox()
        async with self.context.serve_model(sandbox.user) as served:
            command = ["python3", "main.py", str(served.path)]
            result = await sandbox.run(command, Workspace(files=files), sockets=[served.path])
        return Trajectory((), result.stdout.strip(), exit_status=result.status)


@pytest.mark.sandbox
async def test_a_program_in_a_sandbox_asks_the_target_and_the_run_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-of-the-run")
    async with ModelServer([Say("4!")], keys=frozenset(["sk-of-the-run"])) as server:
        result = await api.evaluate_async(
            "# Shout\n",
            rows=ROWS[:6],
            out=tmp_path / "run",
            progress=False,
            settings={
                "env.harness": f"{__name__}:Program",
                "model.target_backend": "openai_compatible",
                "model.target": "m",
                "model.target_base_url": f"{server.url}/v1",
            },
        )
        assert {question.key for question in server.questions} == {"sk-of-the-run"}
    assert result.whole.hard == pytest.approx(1 / 6)
    assert result.spent.calls == 6 + 1  # and the first words to the target
    assert result.spent.input == (6 + 1) * SENT
