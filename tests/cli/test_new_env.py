"""`skillopt new env`: what it writes works as it is."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from support import analysis
from support_cli import skillopt

from skillopt.api import check_async, evaluate, new_env, train_async
from skillopt.core.chat import Reply, Request
from skillopt.errors import ConfigError, DataError


async def test_the_tests_of_a_new_environment_pass_as_they_are(tmp_path: Path) -> None:
    made = await skillopt("new", "env", "my_sums", cwd=tmp_path)
    assert made.code == 0, made.err
    assert "my_sums_env:MySums" in made.out
    tested = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=tmp_path / "my_sums",
        stdout=PIPE,
    )
    out, _ = await tested.communicate()
    assert tested.returncode == 0, out.decode()
    assert re.search(r"\b[89] passed|\b1\d passed", out.decode())


async def test_a_new_environment_is_checked_and_trains_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_env("tried_sums", tmp_path / "here")
    monkeypatch.chdir(made.folder)

    async def pupil(request: Request) -> Reply:
        number = int(re.findall(r"(\d+) \+", request.messages[-1].text)[0])
        said = str(2 * number) if "Double" in request.messages[0].text else "many"
        return Reply(text=f"<answer>{said}</answer>")

    async def teacher(request: Request) -> Reply:
        return Reply(text=analysis("Double the number.") if request.stage == "analyst" else "{}")

    result = await train_async(
        made.folder / "config.yaml",
        target=pupil,
        optimizer=teacher,
        progress=False,
        settings={"train.num_epochs": 1, "train.batch_size": 6},
    )
    assert (result.before.mean, result.test_score) == (0, 1)
    assert len(json.loads((made.folder / "run" / "history.json").read_text("utf-8"))) == 2
    bad = [each for each in await check_async(made.folder / "config.yaml") if each.verdict == "bad"]
    assert [each for each in bad if each.check != "shortcuts"] == []


@pytest.mark.parametrize("name", ["Big", "1st", "a-b", "class", "", "../up", "x" * 300])
def test_a_name_that_python_cannot_import_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot name an environment"):
        new_env(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty; nothing was written"):
        new_env("sums", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def doubling(prompt: str) -> str:
    return str(2 * int(re.findall(r"(\d+) \+", prompt)[-1]))


def test_its_scorer_can_be_tried_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_env("python_sums", tmp_path / "here")
    monkeypatch.chdir(made.folder)
    found = evaluate(
        "Add.",
        target=doubling,
        out=tmp_path / "out",
        progress=False,
        settings={
            "env.name": made.name,
            "env.split_mode": "split_dir",
            "env.split_dir": str(made.folder / "data"),
        },
    )
    assert found.whole.hard == 1
