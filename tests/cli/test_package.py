from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support_cli import Call, Done, make_project, skillopt
from support_runs import make_package

from skillopt.core.facts import Stepped
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator


async def test_a_package_is_trained_shown_compared_and_measured(tmp_path: Path, call: Call) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        make_package(tmp_path / "office")
        command = ("c.yaml", "--skill_init", "office")
        done = await skillopt("train", *command, cwd=tmp_path)
        assert done.code == 0, done.err
        named = ("--skill", "run/best_skill", "--split", "test", "--out_root", "ev")
        measured = await skillopt("eval", "c.yaml", *named, cwd=tmp_path)
    assert "skill SKILL.md with 2 references" in done.err
    assert "run/best_skill.md (as a folder: run/best_skill)" in done.out
    assert measured.code == 0, measured.err
    with RunReader(tmp_path / "run") as reader:
        final_test, steps = reader.state.final_test, reader.steps
    assert final_test is not None
    assert f"{final_test.best.hard:.3f}" in measured.out
    _told(steps[0], call("show", "run", "--step", "1", cwd=tmp_path))
    _compared(call("diff", "run", "office", "run/best_skill.md", cwd=tmp_path))


def _told(step: Stepped, shown: Done) -> None:
    files = {placed.edit.file for placed in step.draft.leading.report}
    assert any(path.startswith("references/") for path in files)
    for path in files - {"SKILL.md"}:
        assert f"in {path}" in shown.out


def _compared(done: Done) -> None:
    assert done.code == 0, done.err
    heads = re.findall(r"^\+\+\+ run/best_skill\.md/(\S+)", done.out, re.MULTILINE)
    assert len(heads) > 1
    assert heads == sorted(heads, key=lambda path: (path != "SKILL.md", path))


@pytest.mark.parametrize("lost", ["SKILL.md", "."])
def test_a_folder_that_is_no_package_is_an_error_before_any_call(
    lost: str, call: Call, tmp_path: Path
) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    package = make_package(tmp_path / "office")
    if lost == ".":
        shutil.rmtree(package)
    else:
        (package / lost).unlink()
    done = call("eval", "c.yaml", "--skill", "office", cwd=tmp_path)
    assert done.code == 1
    assert "office" in done.err
    assert "skill" in done.err
