"""Promise: a gate that cannot accept anything says so before it costs anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import analysis

import skillopt
from skillopt.core.chat import Reply, Request


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]


def quiet(prompt: str) -> str:
    raise AssertionError("no model may be asked")


def settings(**evaluation: object) -> dict[str, object]:
    """Eight decisions over 16 train rows, at 0.00625 each: 8 wins without a loss."""
    named = {f"evaluation.{key}": value for key, value in evaluation.items()}
    return {
        "train.num_epochs": 1,
        "train.batch_size": 2,
        "evaluation.gate": "paired",
        "optimizer.use_slow_update": False,
        **named,
    }


def warned(val: int, **evaluation: object) -> list[str]:
    found = skillopt.estimate(
        train=rows(1, 16),
        val=rows(100, val),
        scorer="exact",
        target=quiet,
        optimizer=quiet,
        skill="You add numbers.",
        settings=settings(**evaluation),
    )
    return [each for each in found.warnings if "evaluation.gate" in each]


def test_what_val_can_never_show_is_said_with_what_would_help_in_numbers() -> None:
    (told,) = warned(4)
    assert told == (
        "evaluation.gate paired: none of the 8 decisions can accept a candidate. With alpha among "
        "8 decisions each has 0.0063, for which a candidate must win at least 8 val tasks and lose "
        "none, and val has 4. What helps: at least 8 val tasks; evaluation.paired_test mid_p "
        "(7 wins); a larger evaluation.alpha; or evaluation.gate strict, which tests nothing"
    )


def test_where_only_later_decisions_can_accept_the_number_that_can_is_told() -> None:
    """Six wins are enough at 0.05 / 3."""
    (told,) = warned(6)
    assert "the first 5 of 8 decisions cannot accept any candidate" in told
    assert "at most 3 decisions (fewer train.num_epochs, or a larger train.batch_size)" in told


@pytest.mark.parametrize(
    ("val", "evaluation"),
    [
        (8, {}),
        (7, {"paired_test": "mid_p"}),
        (4, {"gate": "strict"}),
        (4, {"gate": "no_regression"}),
        (4, {"alpha": 0.6}),
    ],
)
def test_a_gate_that_can_accept_in_every_decision_is_not_warned_about(
    val: int, evaluation: dict[str, object]
) -> None:
    assert warned(val, **evaluation) == []


def test_replicates_cost_a_paired_gate_wins_and_spare_a_sequential_one_some() -> None:
    buying: dict[str, object] = {"inconclusive": "replicate", "max_replicates": 3}
    (told,) = warned(8, **buying)
    assert "What helps: at least 9 val tasks" in told
    assert "evaluation.inconclusive reject (8 wins)" in told
    (alone,) = warned(5, gate="sequential")
    assert "evaluation.gate sequential: none" in alone
    assert warned(5, gate="sequential", **buying) == []


def able(prompt: str) -> str:
    """Right about all but four val rows, unless told to double."""
    left = int(prompt.rsplit(" + ", 1)[1])
    return str(2 * left) if left > 103 or "double" in prompt.lower() else "I do not know"


async def teacher(request: Request) -> Reply:
    return Reply(text=analysis("Double the number.") if request.stage == "analyst" else "{}")


def test_after_the_baseline_it_is_said_when_too_few_val_tasks_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = skillopt.train(
        train=rows(1, 16),
        val=rows(100, 20),
        scorer="exact",
        target=able,
        optimizer=teacher,
        skill="You add numbers.",
        out=tmp_path / "run",
        settings=settings(),
    )
    told = (
        "evaluation.gate paired: none of the 8 decisions can accept a candidate, because the "
        "current skill fails only 4 of 20 val tasks. With alpha among 8 decisions each has 0.0063, "
        "for which a candidate must win at least 8 val tasks and lose none. What helps: 40 val "
        "tasks like these, or harder ones; "
    )
    (warning,) = result.warnings
    assert skillopt.load_run(result.out).warnings == result.warnings
    assert warning.startswith(told)
    assert capsys.readouterr().err.count(f"warning: {told}") == 1
    assert result.state.spent == 0
