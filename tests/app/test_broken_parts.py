"""Parts of somebody else that raise errors or return what cannot be used."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from support import analysis

import skillopt
from skillopt.core.chat import Reply, Request, Usage
from skillopt.core.rollout import Evaluation, Score, Trajectory
from skillopt.core.task import Split, Task
from skillopt.errors import ConfigError, DataError, PartError
from skillopt.store.events import read_log

PARTS = """
from skillopt.core.edits import Append
from skillopt.core.events import GateVerdict
from skillopt.core.proposal import Finding, Proposal
from skillopt.optimizer.parts import Update


def gate(name, deed):
    return type(name, (), {"judge": lambda self, candidate, incumbent, *, level: deed()})


def boom():
    raise KeyError("boom")


def leave():
    raise SystemExit(7)


async def later():
    return GateVerdict("better", "x")


Raises = gate("Raises", boom)
Leaves = gate("Leaves", leave)
Later = gate("Later", later)
Nothing = gate("Nothing", lambda: None)
Word = gate("Word", lambda: "better")
Great = gate("Great", lambda: GateVerdict("great", "x"))
Silent = gate("Silent", lambda: GateVerdict("better", None))


class Plain:
    def judge(self, candidate, incumbent, *, level):
        return GateVerdict("better", "x")


class NaN(Plain):
    def value(self, skill, evaluation):
        return float("nan")


class Init(Plain):
    def __init__(self):
        raise RuntimeError("init boom")


def proposer(name, make, wait=True):
    async def later(self, skill, batches, memory, *, budget):
        return make()

    def now(self, skill, batches, memory, *, budget):
        return make()

    return type(name, (), {"asks_model": False, "__call__": later if wait else now})


def finding(source="failure", edit=Append("- Guess.")):
    proposal = Proposal(edit, "failure", (), by="house")
    return (Finding(source=source, batch=0, number=0, tasks=(), proposals=(proposal,)),)


PNow = proposer("PNow", tuple, wait=False)
PNone = proposer("PNone", lambda: None)
PWord = proposer("PWord", lambda: "abc")
PNumbers = proposer("PNumbers", lambda: [1, 2])
PRaises = proposer("PRaises", boom)
PWeird = proposer("PWeird", lambda: finding("weird"))
PHalf = proposer("PHalf", lambda: finding(edit=Append("- \\ud800")))
PText = proposer("PText", lambda: finding(edit="- rule"))


class MNone:
    async def __call__(self, skill, findings, memory):
        return None


class SelNone:
    async def __call__(self, skill, merged, memory, *, budget, evidence):
        return None


class UNone:
    async def __call__(self, skill, chosen, memory):
        return None


class UText:
    async def __call__(self, skill, chosen, memory):
        return Update("text")


def negative(step, steps):
    return -3


def many(step, steps):
    return "many"


def half(step, steps):
    return 2.5


def no_parent(skills, step):
    return None


def perhaps(epoch):
    return "no"
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "broken_house.py").write_text(PARTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("broken_house", None)


async def teacher(request: Request) -> Reply:
    said = analysis("Double the number.") if request.stage == "analyst" else "{}"
    return Reply(text=said, usage=Usage(input=10, output=2))


def train(out: Path, settings: dict[str, object]) -> None:
    def rows(first: int, count: int) -> list[dict[str, object]]:
        return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]

    skillopt.train(
        train=rows(1, 6),
        val=rows(100, 4),
        scorer="exact",
        target=lambda _: "4",
        optimizer=teacher,
        skill="You add numbers.",
        out=out,
        settings={
            "num_epochs": 1,
            "batch_size": 3,
            "use_slow_update": False,
            "select_mode": "ranking",
            **settings,
        },
        progress=False,
    )


GATES = [
    ("Raises", "KeyError: 'boom'"),
    ("Leaves", "SystemExit: 7"),
    ("Later", "judge must not be async"),
    ("Nothing", "returned None (judge)"),
    ("Word", "returned 'better' (judge)"),
    ("Great", "finding: should be 'better', 'not_better' or 'inconclusive'"),
    ("Silent", "reason: should be a valid string"),
    ("NaN", "(value): should be a finite number"),
]
PROPOSERS = [
    ("PNow", "define it as async def"),
    ("PNone", "returned None"),
    ("PWord", "returned 'abc'"),
    ("PNumbers", "0: should be"),
    ("PRaises", "KeyError: 'boom'"),
    ("PWeird", "0.source: should be"),
    ("PHalf", "surrogates not allowed"),
    ("PText", "0.proposals.0.edit"),
]
OTHERS = [
    ("gradient.merge_mode", "MNone", "returned None"),
    ("optimizer.select_mode", "SelNone", "returned None"),
    ("optimizer.skill_update_mode", "UNone", "returned None"),
    ("optimizer.skill_update_mode", "UText", "skill"),
    ("optimizer.lr_scheduler", "negative", "returned -3"),
    ("optimizer.lr_scheduler", "many", "returned 'many'"),
    ("optimizer.lr_scheduler", "half", "returned 2.5"),
    ("optimizer.parents", "no_parent", "returned None"),
    ("optimizer.memory", "perhaps", "returned 'no'"),
]


@pytest.mark.parametrize(
    ("key", "name", "told"),
    [
        *(("evaluation.gate", name, told) for name, told in GATES),
        *(("gradient.proposer", name, told) for name, told in PROPOSERS),
        *OTHERS,
    ],
)
def test_what_a_part_does_wrong_is_an_error_that_names_it_and_the_log_stays_whole(
    work: Path, key: str, name: str, told: str
) -> None:
    out = work / "run"
    with pytest.raises(PartError, match=re.escape(f"{key} broken_house:{name}")) as raised:
        train(out, {key: f"broken_house:{name}"})
    assert told in str(raised.value)
    assert raised.value.exit_code == 1
    if out.exists():
        read_log(out / "events.jsonl")


def test_a_part_that_cannot_be_made_is_named_whatever_it_raises(work: Path) -> None:
    with pytest.raises(ConfigError, match="broken_house:Init cannot be made: init boom"):
        train(work / "run", {"evaluation.gate": "broken_house:Init"})


class Item:
    brief, instructions = "say 4", "Answer."

    def __init__(self, score: object) -> None:
        self._score = score

    async def score(self, trajectory: Trajectory) -> Score:
        return cast("Score", self._score)


class Items:
    """An environment whose tasks have these ids."""

    name = fingerprint = "items"

    def __init__(self, score: object = None, **ids: Sequence[str]) -> None:
        self.score, self.ids = score, ids

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(name) for name in self.ids.get(split, ())]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Item, None]:
        yield Item(self.score)


def evaluate(environment: Items, out: Path) -> Evaluation:
    return skillopt.evaluate(
        "Add.",
        environment=environment,
        target=lambda _: "4",
        out=out,
        settings={"evaluation.max_failure_share": 1.0},
        progress=False,
    ).whole


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            Items(train="a", val=["v", "v", "w", "v"], test="t"),
            "the id 'v' is in val and in val and in 1 more; ids must be unique",
        ),
        (Items(train="ab", val="b"), "the id 'b' is in train and in val; ids must be unique"),
    ],
)
def test_tasks_of_an_environment_with_the_same_id_are_refused(
    environment: Items, told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=told):
        evaluate(environment, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("score", [1.0, None])
def test_a_score_of_another_type_is_a_failure_that_says_so(score: object, tmp_path: Path) -> None:
    failures = evaluate(Items(score, train="a", val="b", test="c"), tmp_path / "run").failures
    for failure in failures.values():
        assert f"the scorer returned {score}, which is no Score" in failure.message
    assert len(failures) == 3


def test_what_an_environment_raises_about_its_tasks_names_it(tmp_path: Path) -> None:
    environment = Items(test="ab")
    environment.ids = cast("dict[str, Sequence[str]]", None)
    with pytest.raises(PartError, match=r"env\.name .*:Items: AttributeError"):
        evaluate(environment, tmp_path / "run")
