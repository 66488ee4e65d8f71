"""Parts that somebody else wrote, named as `module:Name` or given as objects."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from support import analysis
from support_runs import Job, make_data

import skillopt
from skillopt.api import ProposerLike, Result
from skillopt.config.load import load_kept
from skillopt.core.chat import Reply, Request, Usage
from skillopt.core.edits import Append
from skillopt.core.events import GateVerdict, Measured
from skillopt.core.facts import Stepped
from skillopt.core.memory import Memory
from skillopt.core.ports import Environment, Gate
from skillopt.core.proposal import Finding, Proposal
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import Splits
from skillopt.errors import ConfigError, StoreError
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator

GATE = """
from dataclasses import dataclass

from skillopt.core.edits import Append
from skillopt.core.events import GateVerdict


@dataclass(frozen=True)
class Wish:
    margin: float = 0.5
    gate_metric: str = "hard"


class Margin:
    Settings = Wish

    def __init__(self, settings):
        self.settings = settings

    def judge(self, candidate, incumbent, *, level):
        gain = candidate.value - incumbent.value
        better = gain >= self.settings.margin
        told = f"{self.settings.gate_metric} gain {gain:.2f}, margin {self.settings.margin}"
        return GateVerdict("better" if better else "not_better", told)


class Plain:
    def judge(self, candidate, incumbent, *, level):
        return GateVerdict("better", "everything is")


class Fussy(Margin):
    Settings = Wish

    def __init__(self, settings):
        raise ValueError("never content")
"""
PROPOSER = """
from dataclasses import dataclass

from skillopt.core.edits import Append
from skillopt.core.proposal import Finding, Proposal


@dataclass(frozen=True)
class Wish:
    rule: str = "Guess."
    samples: int = 0


async def find(batches, rule, by):
    rollouts = [each for batch in batches async for each in batch]
    tasks = tuple(sorted(each.task for each in rollouts))
    proposal = Proposal(Append(f"- {rule}"), "failure", tasks, "fixed", by=by)
    return (Finding(source="failure", batch=0, number=0, tasks=tasks, proposals=(proposal,)),)


class Fixed:
    Settings = Wish
    asks_model = False

    def __init__(self, rule, sink):
        self.rule, self.sink = rule, sink

    @classmethod
    def from_settings(cls, settings, tools):
        return cls(f"{settings.rule} ({settings.samples})", tools.asker.sink)

    async def __call__(self, skill, batches, memory, *, budget):
        return await find(batches, self.rule, "fixed")


async def double(skill, batches, memory, *, budget):
    return await find(batches, "Double the number.", "double")
"""
ENVIRONMENT = """
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillopt.core.rollout import Score
from skillopt.core.task import Task


@dataclass(frozen=True)
class Wish:
    factor: int = 2


@dataclass(frozen=True)
class Sum:
    brief: str
    right: str
    instructions: str = "Answer with a number."

    async def score(self, trajectory):
        return Score(*[float(trajectory.answer == self.right)] * 2)


class Multiples:
    Settings = Wish
    initial_skill = prompts = None
    name = "multiples"

    def __init__(self, settings, splits):
        self.factor, self.fingerprint = settings.factor, f"multiples/{settings.factor}"
        self.found = {
            split: [Task(str(row.data["n"]), data=row.data) for row in splits[split]]
            for split in ("train", "val", "test")
        }

    def tasks(self, split):
        return self.found[split]

    @asynccontextmanager
    async def open(self, task):
        n = task.data["n"]
        yield Sum(f"{n} + {n}", str(self.factor * n))
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of the user's, which is the current one."""
    (tmp_path / "house_gates.py").write_text(GATE, encoding="utf-8")
    (tmp_path / "house_environments.py").write_text(ENVIRONMENT, encoding="utf-8")
    (tmp_path / "house_proposers.py").write_text(PROPOSER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("house_")]:
        del sys.modules[name]


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]


def pupil(prompt: str) -> str:
    left = prompt.rsplit(" + ", 1)[1]
    return str(2 * int(left)) if "double" in prompt.lower() else "I do not know"


async def teacher(request: Request) -> Reply:
    said = analysis("Double the number.") if request.stage == "analyst" else "{}"
    return Reply(text=said, usage=Usage(input=10, output=2))


def train(
    out: Path,
    settings: Mapping[str, object],
    gate: Gate | str | None = None,
    proposer: ProposerLike | None = None,
) -> Result:
    return skillopt.train(
        train=rows(1, 6),
        val=rows(100, 4),
        scorer="exact",
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        out=out,
        gate=gate,
        proposer=proposer,
        settings={"num_epochs": 1, "batch_size": 3, "use_slow_update": False, **settings},
        progress=False,
    )


def reasons(out: Path) -> list[str]:
    """What the gate said about the candidates of steps."""
    with RunReader(out) as reader:
        steps = [each for each in reader.facts if isinstance(each, Stepped)]
    return [each.decision.reason for each in steps if each.decision is not None]


class Picky:
    """Accepts nothing, and counts how often it was asked."""

    def __init__(self, why: str = "no") -> None:
        self.why = why
        self.asked = 0

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        self.asked += 1
        return GateVerdict("not_better", self.why)


def test_a_gate_of_the_current_folder_in_a_file_decides_on_the_simulator(work: Path) -> None:
    data = make_data(work / "data")
    (work / "c.yaml").write_text(
        "evaluation:\n  gate: house_gates:Margin\n  margin: 0.9\n"
        "optimizer:\n  use_slow_update: false\n",
        encoding="utf-8",
    )

    async def run() -> Result:
        async with Simulator(seed=1) as sim:
            job = Job(url=sim.url, data=data, out=work / "run", epochs=1)
            start = data / "start.md"
            return await skillopt.train_async(
                work / "c.yaml", skill=start, settings=job.settings(), progress=False
            )

    asyncio.run(run())
    told = reasons(work / "run")
    assert told
    assert all(each.endswith("margin 0.9") and each.startswith("hard gain") for each in told)
    with RunReader(work / "run") as reader:
        assert reader.config["gate"] == "house_gates:Margin"
        assert reader.config["evaluation.margin"] == 0.9
        assert load_kept(reader.config).evaluation.own == {"margin": 0.9}


def test_a_gate_needs_one_method_and_no_settings(work: Path) -> None:
    result = train(work / "run", {"evaluation.gate": "house_gates:Plain"})
    assert result.score == 1.0
    assert "everything is" in reasons(work / "run")[0]


def test_a_gate_may_be_an_object(work: Path) -> None:
    gate = Picky()
    result = train(work / "run", {}, gate=gate)
    assert result.score == 0.0
    assert gate.asked == len(reasons(work / "run")) > 0


def test_a_run_with_a_gate_object_continues_with_an_equal_one_and_with_no_other(
    work: Path,
) -> None:
    gate = Picky()
    train(work / "run", {}, gate=gate)
    train(work / "run", {}, gate=gate)
    train(work / "run", {}, gate=Picky())
    with pytest.raises(StoreError, match=r"gate: .*state="):
        train(work / "run", {}, gate=Picky("not today"))


def test_a_run_is_not_continued_with_a_gate_whose_code_has_changed(work: Path) -> None:
    chosen = {"evaluation.gate": "house_gates:Plain"}
    train(work / "run", chosen)
    train(work / "run", chosen)
    del sys.modules["house_gates"]
    changed = GATE.replace('"better", "everything is"', '"not_better", "nothing is"')
    (work / "house_gates.py").write_text(changed, encoding="utf-8")
    with pytest.raises(StoreError, match="gate: "):
        train(work / "run", chosen)


def test_a_gate_class_with_a_fingerprint_is_identified_by_it_alone(work: Path) -> None:
    def write(fingerprint: str, reason: str) -> None:
        sys.modules.pop("house_gates", None)
        named = f'class Plain:\n    fingerprint = "{fingerprint}"\n'
        text = GATE.replace("class Plain:\n", named).replace("everything is", reason)
        (work / "house_gates.py").write_text(text, encoding="utf-8")

    chosen = {"evaluation.gate": "house_gates:Plain"}
    write("first", "everything is")
    train(work / "run", chosen)
    write("first", "all of them are better")
    train(work / "run", chosen)
    write("the second one", "all of them are")
    with pytest.raises(StoreError, match="fingerprint="):
        train(work / "run", chosen)


def test_a_registered_gate_is_identified_by_its_name_alone(work: Path) -> None:
    train(work / "run", {"evaluation.gate": "strict"})
    with RunReader(work / "run") as reader:
        assert "gate" not in reader.state.identity


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gate": "house_gates:Margin", "margn": 1}, "evaluation.margn: unknown key for gate"),
        ({"gate": "house_gates:Margin", "margin": "x"}, "evaluation.margin: should be a number"),
        ({"gate": "house_gates:Margin", "margin": True}, "should be a number, not true"),
        ({"gate": "house_gates:Plain", "margin": 1}, "evaluation.margin: unknown key for gate"),
        ({"gate": "house_gates:Gone"}, "'house_gates:Gone' cannot be imported"),
        ({"gate": "house_gates:Wish"}, "'house_gates:Wish' can be imported but is no gate"),
        ({"gate": "house_gates:Fussy"}, "house_gates:Fussy cannot be made: never content"),
        ({"gate": "strikt"}, "no gate is named 'strikt'; did you mean 'strict'?"),
        ({"gate": "strict", "margin": 1}, "evaluation.margin: unknown key"),
        ({"gate": 3}, "should be a gate or the name of one, not 3"),
    ],
)
def test_what_is_wrong_with_a_gate_is_said_before_anything_is_spent(
    work: Path, settings: Mapping[str, object], told: str
) -> None:
    dotted = {f"evaluation.{key}": value for key, value in settings.items()}
    with pytest.raises(ConfigError, match=re.escape(told)):
        train(work / "run", dotted)
    assert not (work / "run").exists()


class Rule:
    """Proposes one rule, whatever it reads."""

    def __init__(self, rule: str) -> None:
        self.rule = rule

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        rollouts = [each for batch in batches async for each in batch]
        tasks = tuple(sorted(each.task for each in rollouts))
        proposal = Proposal(Append(f"- {self.rule}"), "failure", tasks, by="rule")
        return (Finding(source="failure", batch=0, number=0, tasks=tasks, proposals=(proposal,)),)


def proposers(out: Path) -> set[str]:
    """Who proposed something."""
    with RunReader(out) as reader:
        steps = [each for each in reader.facts if isinstance(each, Stepped)]
    found = [finding for each in steps for finding in each.draft.findings]
    return {proposal.by for each in found for proposal in each.proposals}


def test_a_proposer_of_the_current_folder_in_a_file_proposes_on_the_simulator(work: Path) -> None:
    data = make_data(work / "data")
    (work / "c.yaml").write_text(
        "gradient:\n  proposer: [analyst, 'house_proposers:Fixed']\n  rule: Mind the units.\n"
        "optimizer:\n  use_slow_update: false\n",
        encoding="utf-8",
    )

    async def run() -> Result:
        async with Simulator(seed=1) as sim:
            job = Job(url=sim.url, data=data, out=work / "run", epochs=1)
            start = data / "start.md"
            return await skillopt.train_async(
                work / "c.yaml", skill=start, settings=job.settings(), progress=False
            )

    asyncio.run(run())
    assert proposers(work / "run") == {"analyst", "fixed"}
    log = (work / "run" / "events.jsonl").read_text(encoding="utf-8")
    assert "Mind the units. (3)" in log  # `samples` is a key of the section


@pytest.mark.parametrize("proposer", ["house_proposers:double", Rule("Double the number.")])
def test_a_proposer_may_be_a_function_or_an_object(work: Path, proposer: ProposerLike) -> None:
    result = train(work / "run", {}, proposer=proposer)
    assert (result.state.initial.value, result.score) == (0.0, 1.0)
    assert "- Double the number." in result.best_skill


def test_a_run_with_a_proposer_object_continues_with_an_equal_one_and_with_no_other(
    work: Path,
) -> None:
    train(work / "run", {}, proposer=[Rule("Guess."), "analyst"])
    train(work / "run", {}, proposer=[Rule("Guess."), "analyst"])
    with pytest.raises(StoreError, match=r"proposer: .*state="):
        train(work / "run", {}, proposer=[Rule("Count."), "analyst"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"proposer": "house_proposers:Fixed", "rul": "x"}, "gradient.rul: unknown key for propos"),
        ({"proposer": "house_proposers:Wish"}, "can be imported but is no proposer"),
        ({"proposer": "analist"}, "no proposer is named 'analist'; did you mean 'analyst'?"),
        ({"proposer": "analyst", "rule": "x"}, "gradient.rule: unknown key"),
        ({"proposer": 3}, "gradient.proposer: should be"),
        ({"proposer": []}, "gradient.proposer: should not be empty"),
    ],
)
def test_what_is_wrong_with_a_proposer_is_said_before_anything_is_spent(
    work: Path, settings: Mapping[str, object], told: str
) -> None:
    dotted = {f"gradient.{key}": value for key, value in settings.items()}
    with pytest.raises(ConfigError, match=re.escape(told)):
        train(work / "run", dotted)
    assert not (work / "run" / "events.jsonl").exists()


def test_a_proposer_that_writes_edits_only_is_refused_with_another_update_mode(
    work: Path,
) -> None:
    mode = {"optimizer.skill_update_mode": "rewrite_from_suggestions"}
    with pytest.raises(ConfigError, match="works with edits only"):
        train(work / "run", mode, proposer=Rule("Guess."))


def test_the_estimate_counts_questions_of_proposers_that_ask_the_model_only(work: Path) -> None:
    def phases(proposer: ProposerLike) -> set[str]:
        found = skillopt.estimate(
            train=rows(1, 6),
            val=rows(100, 4),
            scorer="exact",
            target=pupil,
            optimizer=teacher,
            skill="You add numbers.",
            proposer=proposer,
        )
        return {line.phase for line in found.lines}

    assert "analysts" in phases(Rule("Guess."))
    assert "analysts" not in phases("house_proposers:Fixed")


def doubling(
    out: Path, environment: str | Environment, settings: Mapping[str, object] | None = None
) -> Result:
    """A run in which only the environment has tasks."""
    return skillopt.train(
        environment=environment,
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        out=out,
        settings={"num_epochs": 1, "batch_size": 3, "use_slow_update": False, **(settings or {})},
        progress=False,
    )


def multiples(factor: int = 2, *, tested: int = 4) -> Environment:
    """An object of the class that the folder has."""
    module = importlib.import_module("house_environments")
    numbers = {"train": range(1, 7), "val": range(100, 104), "test": range(200, 200 + tested)}
    train, val, test = (
        tuple(rows_of([{"n": n} for n in each], name)) for name, each in numbers.items()
    )
    return module.Multiples(module.Wish(factor), Splits(train, val, test))


def test_an_environment_of_the_current_folder_is_named_in_the_settings(work: Path) -> None:
    data = work / "numbers.jsonl"
    data.write_text("".join(f'{{"n": {n}}}\n' for n in range(1, 61)), encoding="utf-8")
    settings = {"env.data_path": str(data), "env.factor": 2}
    result = doubling(work / "run", "house_environments:Multiples", settings)
    assert (result.state.initial.value, result.score) == (0.0, 1.0)


def test_an_environment_object_has_its_own_tasks_and_scores(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    result = doubling(work / "run", multiples())
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    verdict = skillopt.evaluate(
        result.best_skill,
        environment=multiples(),
        target=pupil,
        out=work / "eval",
        progress=False,
    )
    assert verdict.whole.n == 14
    assert verdict.whole.hard == 1.0
    checked = skillopt.check(environment=multiples(), target=pupil, skill="You add numbers.")
    assert checked[0].found.startswith("multiples: 6 train, 4 val, 4 test items")


def test_a_run_continues_with_an_environment_object_of_the_same_fingerprint_only(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    assert doubling(work / "run", multiples(tested=0)).test_score is None
    doubling(work / "run", multiples(tested=0))
    with pytest.raises(StoreError, match="environment: "):
        doubling(work / "run", multiples(3, tested=0))


def test_what_an_environment_object_cannot_be_combined_with_is_said(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(work), *sys.path])
    with pytest.raises(ConfigError, match="has its own tasks and scores them"):
        skillopt.estimate(environment=multiples(), data=rows(1, 30), skill="Add.")
    with pytest.raises(ConfigError, match=r"env\.limit: has no effect"):
        doubling(work / "run", multiples(), {"env.limit": 2})
    with pytest.raises(ConfigError, match=r"env\.factor: unknown key"):
        doubling(work / "run", multiples(), {"env.factor": 2})
    with pytest.raises(ConfigError, match="environment should be a name, or an object"):
        doubling(work / "run", cast("Environment", object()))
