from __future__ import annotations

from pathlib import Path

from skillopt.app.calibrating import calibrate
from skillopt.app.run_spec import SuppliedParts, prepare
from skillopt.config.load import load_config
from skillopt.core.events import Event, Signal
from skillopt.core.skill import Skill
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import Splits
from skillopt.model.scripted import from_callable

NOBODY = "http://127.0.0.1:9"


def silent(event: Event | Signal) -> None:
    del event


async def test_with_a_target_of_the_callers_no_other_model_is_needed(tmp_path: Path) -> None:
    """It is known to answer, so it is not tried; the optimizer is not asked at all."""
    asked: list[str] = []

    def target(prompt: str) -> str:
        asked.append(prompt)
        return "4"

    rows = rows_of([{"input": f"2 + {n}?", "answer": str(2 + n)} for n in range(6)], "rows")
    config = load_config(
        values={
            "env.name": "custom",
            "env.out_root": str(tmp_path / "run"),
            "evaluation.eval_test": False,
            "model.backend": "openai_compatible",
            "model.base_url": NOBODY,
            "model.retries": 0,
        }
    )
    supplied = SuppliedParts(
        splits=Splits(tuple(rows[:2]), tuple(rows[2:]), ()),
        models={"target": from_callable(target)},
        skill=Skill.parse("Add.\n"),
    )
    found = (await calibrate(prepare(config, supplied), silent)).measured
    assert (found.tasks, found.flipping) == (4, 0)
    assert len(asked) == 2 * 4
