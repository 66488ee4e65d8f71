"""The demo: a whole night on the sessions that we ship, offline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skillopt.errors import StoreError
from skillopt_sleep.demo import SMALLEST, demo_night, demo_place
from skillopt_sleep.documents import Document
from skillopt_sleep.night import look, run_night_async
from skillopt_sleep.report import Night


@pytest.mark.sandbox
async def test_the_demo_learns_what_the_sessions_taught_wherever_it_lies(tmp_path: Path) -> None:
    nights: list[Night] = []
    for folder in ("demo", "elsewhere"):
        with demo_place(tmp_path / folder) as place:
            settings, bench = demo_night(place)
            nights.append(await run_night_async(settings, bench))
    night, other = nights
    assert [each.after for each in night.lessons] == [each.after for each in other.lessons]
    assert night.simulated
    assert night.gathered.sessions == 40
    assert night.gathered.sources == {"claude": 40}
    skill = night.lessons[0]
    assert skill.accepted
    assert "Refs: SHOP-" in skill.after
    assert night.staging is not None
    proposed = Document.parse((night.staging / "proposed_SKILL.md").read_bytes())
    assert proposed.learned == skill.after
    assert "SIMULATED" in (night.staging / "report.md").read_text()


def demo(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skillopt_sleep", "demo", *words],
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sandbox
def test_the_demo_without_options_learns_in_the_temporary_folder_of_the_system(
    tmp_path: Path,
) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Something was learnt" in done.stdout
    assert "40 sessions (claude 40)" in done.stdout
    # The folder is gone by now: nothing in it can be adopted.
    assert "skillopt-sleep adopt" not in done.stdout
    assert "skillopt-sleep demo --out" in done.stderr


@pytest.mark.sandbox
def test_the_demo_leaves_nothing_behind_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = demo(tmp_path, "--json", TMPDIR=str(temporary))
    told = json.loads(done.stdout)
    assert told["accepted"] is True
    assert told["simulated"] is True
    assert "SIMULATED" in done.stderr
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


def test_a_folder_of_the_demo_that_cannot_be_made_is_refused_with_what_to_do() -> None:
    with pytest.raises(StoreError, match="choose a new folder"), demo_place(Path("/proc/x")):
        pass


def test_the_demo_does_not_write_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="--out"), demo_place(tmp_path):
        pass


@pytest.mark.sandbox
def test_the_demo_with_a_real_model_is_short_and_still_has_enough_to_decide_by(
    tmp_path: Path,
) -> None:
    settings, bench = demo_night(tmp_path, real=True)
    assert (settings.model, settings.progress) == (SMALLEST, True)
    planned = look(settings, bench)
    assert Counter(task.split for task in planned.practised) == {"train": 5, "val": 7}
    assert planned.estimate.startswith("about 28 calls")
    chosen, _ = demo_night(tmp_path, real=True, model="other.gguf")
    assert chosen.model == "other.gguf"


@pytest.mark.weights
async def test_the_embedded_model_plays_a_whole_night(tmp_path: Path) -> None:
    with demo_place(tmp_path / "demo") as place:
        settings, bench = demo_night(place, real=True, model="qwen2.5-coder-0.5b")
        night = await run_night_async(settings.model_copy(update={"max_tasks": 6}), bench)
    assert not night.simulated
    assert not night.failed
    assert night.lessons[0].score_before is not None
    assert night.spent.calls > 6
