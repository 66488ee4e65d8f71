"""Parts of the optimizer that somebody else wrote; ours are made in the same way."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support import Seen, analysis
from support_update_mode import Listed

import skillopt
from skillopt.api import Result
from skillopt.app.gating import ParentTools
from skillopt.app.optimizing import planned_parts
from skillopt.config.load import load_config
from skillopt.config.parts import PARTS, TOOLS, UPDATE_MODE, PartKey
from skillopt.core.chat import Reply, Request
from skillopt.core.events import Measured
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, ProposalSet, Rate, Selection
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import ConfigError, StoreError
from skillopt.optimizer.parts import Evidence, OptimizerTools, Update
from skillopt.store.reader import RunReader

MODE = "support_update_mode:Listed"


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]


def pupil(prompt: str) -> str:
    left = prompt.rsplit(" + ", 1)[1]
    return str(2 * int(left)) if "double" in prompt.lower() else "I do not know"


async def teacher(request: Request) -> Reply:
    return Reply(text=analysis("Double the number.") if request.stage == "analyst" else "{}")


def settings(**more: object) -> dict[str, object]:
    given = {key.replace("__", "."): value for key, value in more.items()}
    return {"num_epochs": 1, "batch_size": 3, "use_slow_update": False, **given}


def train(out: Path, **more: object) -> Result:
    return skillopt.train(
        train=rows(1, 6),
        val=rows(100, 4),
        scorer="exact",
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        out=out,
        settings=settings(**more),
        progress=False,
    )


def test_an_update_mode_in_one_file_is_named_with_its_setting(tmp_path: Path) -> None:
    result = train(tmp_path, optimizer__skill_update_mode=MODE, optimizer__heading="Sums")
    assert result.score == 1.0
    assert result.best_skill.startswith("# Sums\n\n- Double the number.")
    with RunReader(tmp_path) as reader:
        assert reader.config["skill_update_mode"] == MODE
        assert reader.config["optimizer.heading"] == "Sums"


def test_an_update_mode_may_be_an_object(tmp_path: Path) -> None:
    def mode(heading: str) -> Listed:
        return Listed(sink=EventSink(MemoryLog(), Seen()), heading=heading)

    result = train(tmp_path, optimizer__skill_update_mode=mode("Sums"))
    assert result.best_skill.startswith("# Sums\n\n- Double the number.")


def test_a_run_is_not_continued_with_an_update_mode_whose_setting_has_changed(
    tmp_path: Path,
) -> None:
    train(tmp_path, optimizer__skill_update_mode=MODE)
    train(tmp_path, optimizer__skill_update_mode=MODE)
    with pytest.raises(StoreError, match="heading"):
        train(tmp_path, optimizer__skill_update_mode=MODE, optimizer__heading="Sums")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"optimizer__headng": "x"}, "optimizer.headng: unknown key for update mode"),
        ({"optimizer__heading": 3}, "optimizer.heading: should be a text, not 3"),
        ({"optimizer__sink": "x"}, "optimizer.sink: unknown key for update mode"),
    ],
)
def test_a_wrong_setting_of_a_part_is_told_before_anything_is_spent(
    more: Mapping[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        train(tmp_path, optimizer__skill_update_mode=MODE, **more)


def test_a_part_tells_the_estimate_what_it_costs() -> None:
    found = skillopt.estimate(
        train=rows(1, 6),
        val=rows(100, 4),
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        settings=settings(optimizer__skill_update_mode=MODE, optimizer__candidates=2),
    )
    (line,) = (line for line in found.lines if line.phase == "proofreading")
    assert (line.role, line.calls.high) == ("optimizer", 2 * 2 * 7)


async def all_of_them(skill: Skill, findings: Sequence[Finding], memory: Memory) -> ProposalSet:
    return ProposalSet(tuple(each for finding in findings for each in finding.proposals))


async def first_one(
    skill: Skill, merged: ProposalSet, memory: Memory, *, budget: int | None, evidence: Evidence
) -> Selection:
    return Selection(merged.proposals[:1])


async def no_rate(*given: object, scheduled: int | None) -> Rate | None:
    return None


async def no_update(skill: Skill, chosen: Selection, memory: Memory) -> Update:
    return Update(None)


def one_each(step: int, total: int) -> int:
    return 1


def every_second(epoch: int) -> bool:
    return epoch % 2 == 0


def regressions(change: str) -> bool:
    return change == "regressed"


def first_skill(pool: Sequence[Measured], step: int) -> Measured:
    return pool[0]


OWN: dict[str, Callable[..., object]] = {
    "gradient.merge_mode": all_of_them,
    "optimizer.select_mode": first_one,
    "optimizer.lr_scheduler": one_each,
    "optimizer.lr_control_mode": no_rate,
    "optimizer.memory": every_second,
    "optimizer.longitudinal_pair_policy": regressions,
    "optimizer.parents": first_skill,
}


@pytest.mark.parametrize("how", ["objects", "names"])
def test_every_part_of_the_optimizer_may_be_a_function(how: str, tmp_path: Path) -> None:
    named = {key: f"{__name__}:{part.__name__}" for key, part in OWN.items()}
    given = OWN if how == "objects" else named
    result = train(tmp_path, **{key.replace(".", "__"): part for key, part in given.items()})
    assert result.score == 1.0


def test_a_part_that_does_nothing_leaves_the_skill_alone(tmp_path: Path) -> None:
    result = train(tmp_path, optimizer__skill_update_mode=no_update)
    assert (result.score, result.best_skill) == (0.0, "You add numbers.")


def test_no_part_is_a_number() -> None:
    with pytest.raises(ConfigError, match="should be an update mode or the name of one, not 3"):
        load_config(None, values={UPDATE_MODE.dotted: 3})


@pytest.mark.parametrize("key", PARTS, ids=lambda key: key.dotted)
def test_all_of_ours_are_registered_and_made_from_their_settings(key: PartKey) -> None:
    names = [point.name for point in entry_points(group=f"skillopt.{key.group}")]
    assert len(names) > 1
    for name in names:
        values = {"env.name": "custom", key.dotted: name}
        if name == "autonomous":
            values = {"env.name": "custom", "optimizer.lr_control_mode": "fixed", key.dotted: name}
        assert planned_parts(load_config(None, values=values))


def test_tools_are_known_by_name_before_parts_are_made() -> None:
    ours = {
        field.name for kind in (OptimizerTools, ParentTools) for field in dataclasses.fields(kind)
    }
    assert ours == TOOLS
