"""What questions share stands at their beginning, where a provider's prefix cache can hold it."""

from __future__ import annotations

from pathlib import Path

from skillopt.api import train_async
from skillopt.core.chat import Request
from skillopt.testing.simulator import (
    SimulatedOptimizer,
    SimulatedTarget,
    initial_skill,
    make_items,
)
from skillopt.testing.simulator.optimizer import stage_of

VOLATILE = ("<attempt", "<proposals>", "<directions>", "<pair")
STABLE = ("<skill>", "<lessons>", "<history>", "<budget>")


async def test_every_question_begins_with_what_others_of_its_step_share(tmp_path: Path) -> None:
    asked: list[Request] = []
    teacher, pupil = SimulatedOptimizer(seed=1), SimulatedTarget(seed=1)

    async def optimizer(request: Request) -> str:
        asked.append(request)
        system, user = (message.text for message in request.messages[:2])
        stage = stage_of(system)
        assert stage is not None
        return teacher.answer(stage, system, user, repairing=len(request.messages) > 2)

    async def target(request: Request) -> str:
        return pupil.answer(request.messages[0].text, request.messages[-1].text)

    items = make_items(36, seed=1)
    await train_async(
        train=items[:24],
        val=items[24:],
        target=target,
        optimizer=optimizer,
        skill=initial_skill(),
        out=tmp_path / "run",
        settings={
            "select_mode": "ranking",
            "num_epochs": 3,
            "batch_size": 12,
            "minibatch_size": 3,
            "learning_rate": 2,
            "use_meta_reflect": True,
            "slow_update_samples": 4,
        },
    )
    stages = {each.stage for each in asked}
    assert stages >= {"analyst", "merge", "ranking", "meta_reflect", "slow_update", "meta_skill"}
    for request in asked:
        assert [message.role for message in request.messages[:2]] == ["system", "user"]
        text = request.messages[1].text
        volatile = min(text.find(each) for each in VOLATILE if each in text)
        fixed = [text.find(each) for each in STABLE if each in text]
        assert fixed, request.stage
        assert max(fixed) < volatile, request.stage
