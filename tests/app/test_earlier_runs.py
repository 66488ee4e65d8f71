"""A run that is one of a series: what earlier ones leave to it, and what it leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt import api
from skillopt.core.chat import Reply, Request
from skillopt.core.edits import Append
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.errors import StoreError
from skillopt.testing.simulator import SimulatedOptimizer, make_items
from skillopt.testing.simulator.optimizer import stage_of
from skillopt.testing.simulator.target import SimulatedTarget

ROWS = make_items(24, 1)
SETTINGS = {
    "num_epochs": 1,
    "use_slow_update": True,
    "use_meta_skill": True,
    "select_mode": "ranking",
    "gate": "strict",
}
EARLIER = Memory(
    steps=(MemoryEntry(step=0, action="reject", rejected=(Append("- Guess."),)),),
    lessons="Rules with an example help.",
)


async def target(request: Request) -> Reply:
    return Reply(
        text=SimulatedTarget(noise=0).answer(request.messages[0].text, request.messages[-1].text)
    )


def optimizer(asked: list[str]) -> Callable[[Request], Reply]:
    def answer(request: Request) -> Reply:
        system, user = request.messages[0].text, request.messages[-1].text
        asked.append(user)
        stage = stage_of(system)
        assert stage is not None
        return Reply(text=SimulatedOptimizer().answer(stage, system, user, repairing=True))

    answer.fingerprint = "simulated"  # pyright: ignore[reportFunctionMemberAccess]
    return answer


async def trained(out: Path, asked: list[str], memory: Memory | None) -> api.Result:
    return await api.train_async(
        train=ROWS[:16],
        val=ROWS[16:],
        skill="# Clerk\n",
        target=target,
        optimizer=optimizer(asked),
        out=out,
        memory=memory,
        settings=SETTINGS,
        progress=False,
    )


async def test_the_optimizer_is_shown_what_earlier_runs_tried_and_noted(tmp_path: Path) -> None:
    asked: list[str] = []
    result = await trained(tmp_path / "run", asked, EARLIER)
    assert "- Guess." in asked[0]
    assert "Rules with an example help." in asked[0]
    assert result.state.memory.steps[0] == EARLIER.steps[0]
    # What is left to the next run: the lessons of the only epoch, too.
    assert result.state.memory.lessons not in ("", EARLIER.lessons)
    assert api.load_run(tmp_path / "run").state.memory == result.state.memory


async def test_a_run_that_stands_alone_does_not_look_back_at_its_first_epoch(
    tmp_path: Path,
) -> None:
    asked: list[str] = []
    result = await trained(tmp_path / "run", asked, None)
    assert not any("<counts>" in text for text in asked)
    assert result.state.memory.lessons == ""


async def test_a_run_is_not_resumed_with_another_memory(tmp_path: Path) -> None:
    asked: list[str] = []
    await trained(tmp_path / "run", asked, EARLIER)
    count = len(asked)
    await trained(tmp_path / "run", asked, EARLIER)
    assert len(asked) == count
    with pytest.raises(StoreError, match="memory"):
        await trained(tmp_path / "run", asked, Memory(lessons="Others."))
