"""Functions of the user's own that hang, end the program or fail once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import analysis
from support_cli import make_project
from support_cli import skillopt as command

import skillopt
from skillopt.api import Result
from skillopt.core.rollout import Failure
from skillopt.errors import ConfigError, ModelError, Unmeasurable
from skillopt.testing.simulator import Simulator

ROWS: list[dict[str, object]] = [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(8)]
LENIENT = {"evaluation.max_failure_share": 0.5, "model.retries": 1}


def evaluated(
    scorer: Callable[[str, dict[str, object]], float], out: Path, **more: object
) -> dict[str, Failure]:
    found = skillopt.evaluate(
        "Add.",
        rows=ROWS,
        target=lambda _: "4",
        scorer=scorer,
        out=out,
        settings={**LENIENT, **more},
    )
    assert found.whole.n + len(found.whole.failures) == len(ROWS)
    return dict(found.whole.failures)


def on_one(deed: Callable[[], object]) -> Callable[[str, dict[str, object]], float]:
    """A scorer that does this with one row."""

    def scorer(answer: str, row: dict[str, object]) -> float:
        if row["input"] == "2 + 2":
            deed()
        return float(answer == row["answer"])

    return scorer


def test_a_scorer_that_hangs_is_a_failure_of_one_attempt(tmp_path: Path) -> None:
    hang = on_one(lambda: threading.Event().wait())
    [failure] = evaluated(hang, tmp_path, **{"env.exec_timeout": 0.2}).values()
    assert failure.kind == "EnvironmentFault"
    assert "the scorer did not finish within 0.2 s (env.exec_timeout)" in failure.message


@pytest.mark.parametrize(
    ("error", "told"),
    [(SystemExit(3), "SystemExit: 3"), (KeyboardInterrupt(), "it raised KeyboardInterrupt")],
)
def test_a_scorer_that_ends_the_program_is_a_failure_of_one_attempt(
    error: BaseException, told: str, tmp_path: Path
) -> None:
    def leave() -> None:
        raise error

    [failure] = evaluated(on_one(leave), tmp_path).values()
    assert "scorer" in failure.message
    assert failure.message.endswith(told)


class OwnError(BaseException):
    """Not an `Exception`."""


CONTROL = [
    (StopIteration(1), "raised StopIteration"),
    (asyncio.CancelledError(), "it raised CancelledError"),
    (concurrent.futures.CancelledError(), "CancelledError"),
    (GeneratorExit(), "it raised GeneratorExit"),
    (OwnError("x"), "OwnError: x"),
    (SystemExit(3), "SystemExit: 3"),
]


@pytest.mark.parametrize("kind", ["function", "async function"])
@pytest.mark.parametrize(("error", "told"), CONTROL)
def test_whatever_a_scorer_raises_is_a_failure_of_one_attempt(
    error: BaseException, told: str, kind: str, tmp_path: Path
) -> None:
    def leave() -> None:
        raise error

    plain = on_one(leave)

    async def waiting(answer: str, row: dict[str, object]) -> float:
        return plain(answer, row)

    scorer: Any = waiting if kind == "async function" else plain
    [failure] = evaluated(scorer, tmp_path).values()
    assert "scorer" in failure.message
    assert told in failure.message


@pytest.mark.parametrize("kind", ["function", "async function"])
@pytest.mark.parametrize(("error", "told"), CONTROL)
def test_whatever_a_target_raises_is_a_failure_of_the_call(
    error: BaseException, told: str, kind: str, tmp_path: Path
) -> None:
    def plain(prompt: str) -> str:
        if "2 + 2" in prompt:
            raise error
        return "4"

    async def waiting(prompt: str) -> str:
        return plain(prompt)

    target: Any = waiting if kind == "async function" else plain
    found = skillopt.evaluate(
        "Add.", rows=ROWS, target=target, out=tmp_path, settings={**LENIENT, "model.retries": 0}
    )
    [failure] = dict(found.whole.failures).values()
    assert failure.kind == "ModelError"
    assert told in failure.message


async def test_the_program_says_that_a_scorer_would_have_ended_it(tmp_path: Path) -> None:
    text = "import sys\ndef judge(answer, row):\n    sys.exit(0)\n"
    (tmp_path / "scorer.py").write_text(text, encoding="utf-8")
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        done = await command("train", "c.yaml", "env.scorer=scorer:judge", cwd=tmp_path)
    assert done.code == 3
    assert "scorer scorer:judge: SystemExit: 0" in done.err


async def test_a_scorer_that_hangs_ends_with_the_program(tmp_path: Path) -> None:
    text = "import threading\ndef judge(answer, row):\n    threading.Event().wait()\n"
    (tmp_path / "scorer.py").write_text(text, encoding="utf-8")
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        words = ("env.scorer=scorer:judge", "env.exec_timeout=0.2")
        done = await command("train", "c.yaml", *words, cwd=tmp_path)
    assert done.code == 3
    assert "(env.exec_timeout)" in done.err


def test_a_module_that_ends_the_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="leaving cannot be imported"):
        skillopt.evaluate("Add.", rows=ROWS, target=str, scorer="leaving:judge", out=tmp_path / "o")


def pupil(prompt: str) -> str:
    return str(2 * int(prompt.rsplit(" + ", 1)[1])) if "Double" in prompt else "no"


def trained(optimizer: Callable[[str], str], out: Path) -> Result:
    return skillopt.train(
        train=ROWS[:4],
        val=ROWS[4:],
        target=pupil,
        optimizer=optimizer,
        skill="Add.",
        out=out,
        settings={"num_epochs": 1, "batch_size": 4, "model.retries": 1},
    )


@pytest.mark.parametrize("error", [OSError("reset by peer"), SystemExit(1)])
def test_an_optimizer_that_raises_once_is_asked_again(error: BaseException, tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def flaky(_: str) -> str:
        if not raised:
            raised.append(error)
            raise error
        return analysis("Double it.")

    assert "Double it." in trained(flaky, tmp_path).best_skill


def test_an_optimizer_that_always_raises_ends_the_run_and_is_named(tmp_path: Path) -> None:
    def broken(_: str) -> str:
        raise OSError("reset by peer")

    with pytest.raises(ModelError, match=r"broken.*OSError: reset by peer \(gave up after 2 tries"):
        trained(broken, tmp_path)


def test_a_target_that_leaves_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Unmeasurable, match="SystemExit: 7"):
        skillopt.evaluate(
            "Add.", rows=ROWS, target=lambda _: sys.exit(7), out=tmp_path, settings=LENIENT
        )
