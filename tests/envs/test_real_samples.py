"""Benchmarks on real samples of their data; each test is skipped where the sample is not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support_bench import sample

from skillopt.api import benchmark_data, check_async, evaluate_async, materialize
from skillopt.core.abilities import images_of
from skillopt.core.chat import Request
from skillopt.core.ports import Environment
from skillopt.core.rollout import Trajectory
from skillopt.core.task import Task
from skillopt.datasets.splits import SPLITS, Splits, by_ratio, from_directory
from skillopt.envs.babyvision.env import BabyVision
from skillopt.envs.docvqa.env import DocVQA
from skillopt.envs.livemathematicianbench.env import LiveMathematicianBench
from skillopt.envs.mathverse.env import MathVerse
from skillopt.envs.mmrb.env import MMRB
from skillopt.envs.sealqa.env import SealQA
from skillopt.model.scripted import Scripted


def manifest(name: str) -> Path:
    return sample("original") / "data" / f"{name}_id_split"


def tasks(environment: Environment) -> list[Task]:
    return [task for split in SPLITS for task in environment.tasks(split)]


@pytest.fixture
def livemath(tmp_path: Path) -> Path:
    """All 177 items, split as the original splits them."""
    raw = sample("livemathematicianbench")
    made = materialize(
        "livemathematicianbench",
        raw=raw,
        out=tmp_path / "split",
        manifest=manifest("livemathematicianbench"),
    )
    assert made.counts == {"train": 35, "val": 17, "test": 125}
    return tmp_path / "split"


def test_the_published_months_of_livemath_are_those_that_are_known() -> None:
    report = benchmark_data("livemathematicianbench", sample("livemathematicianbench"))
    assert [file.state for file in report.files] == ["verified"] * 4
    assert (report.items, report.complete) == (177, True)


def test_letters_of_livemath_are_those_of_the_original_and_one_letter_scores_near_chance(
    livemath: Path,
) -> None:
    splits = from_directory(livemath)
    environment = LiveMathematicianBench(LiveMathematicianBench.Settings(), splits)
    letters = Counter("ABCDE"[environment.gold(each).right or 0] for each in tasks(environment))
    assert letters == {"A": 33, "B": 30, "C": 45, "D": 38, "E": 31}
    wild = [each for each in tasks(environment) if "wildcard items" in environment.groups(each)]
    assert len(wild) == 85


async def test_the_check_of_data_finds_the_shortcut_of_livemath(livemath: Path) -> None:
    found = await check_async(
        settings={
            "env.name": "livemathematicianbench",
            "env.split_mode": "split_dir",
            "env.split_dir": str(livemath),
        }
    )
    (shortcut,) = [each for each in found if each.check == "shortcuts"]
    assert shortcut.verdict == "bad"
    told = f"{shortcut.found} {shortcut.advice} {' '.join(shortcut.examples)}"
    assert "stronger" in told


async def test_livemath_is_reported_with_and_without_items_that_give_themselves_away(
    livemath: Path, tmp_path: Path
) -> None:
    def picks_the_wildcard(prompt: str) -> str:
        lines = prompt.split("## Choices\n")[1].splitlines()
        wild = [line[0] for line in lines if "a stronger result can be proven" in line]
        return f"<answer>{wild[0] if wild else 'A'}</answer>"

    found = await evaluate_async(
        "# Skill",
        target=picks_the_wildcard,
        out=tmp_path / "out",
        progress=False,
        settings={
            "env.name": "livemathematicianbench",
            "env.split_mode": "split_dir",
            "env.split_dir": str(livemath),
        },
    )
    assert found.whole.n == 177
    assert found.groups["wildcard items"].hard == 1
    assert found.groups["wildcard items"].n == 85
    assert found.groups["without wildcard items"].hard < 0.35
    summary = json.loads((tmp_path / "out" / "eval_summary.json").read_text("utf-8"))
    assert summary["groups"]["without wildcard items"]["n_scored"] == 92


async def test_real_pages_of_docvqa_are_shown_and_their_answers_pass(tmp_path: Path) -> None:
    raw = sample("docvqa")
    made = materialize(
        "docvqa", raw=raw, out=tmp_path / "split", manifest=manifest("docvqa"), partial=True
    )
    assert (dict(made.counts), made.files, len(made.missing)) == (
        {"train": 4, "val": 3, "test": 17},
        24,
        510,
    )
    environment = DocVQA(DocVQA.Settings(), from_directory(tmp_path / "split"))
    kept = json.loads((raw / "sample_val_24.json").read_text("utf-8"))
    splits = {str(row["questionId"]): row["peer_split"] for row in kept}
    for split in SPLITS:
        for task in environment.tasks(split):
            assert splits[task.id] == split
            async with environment.open(task) as episode:
                (image,) = images_of(episode)
                assert image.media_type == "image/png"
                gold = environment.gold(task)
                score = await episode.score(Trajectory((), gold.reply or ""))
                assert score.passed


def cut(rows: list[object], root: Path) -> Splits:
    return replace(by_ratio(rows, "1:1:1"), root=root)  # type: ignore[arg-type]


@pytest.mark.parametrize("file", ["visualizer_sample.json", "testmini_text_only_first40.json"])
async def test_real_problems_of_mathverse_are_read_and_their_answers_pass(file: str) -> None:
    pytest.importorskip("math_verify", reason="math-verify is not installed")
    raw = sample("mathverse")
    rows = [item.row for item in MathVerse.read_raw(raw / file)]
    environment = MathVerse(MathVerse.Settings(judging="none"), cut([*rows], raw))
    shown = 0
    for task in tasks(environment):
        async with environment.open(task) as episode:
            shown += len(images_of(episode))
            gold = environment.gold(task)
            assert (await episode.score(Trajectory((), gold.reply or ""))).passed
            assert not (await episode.score(Trajectory((), "<answer>77.77</answer>"))).passed
    assert (shown > 20) == (file == "visualizer_sample.json")
    assert environment.needs == (("images",) if shown else ())


async def test_own_samples_in_the_format_of_the_owners_are_read() -> None:
    def grade(request: Request) -> str:
        del request
        return '{"reason": "r", "verdict": "A"}'

    for kind, count in ((BabyVision, 2), (MMRB, 2), (SealQA, 1)):
        raw = sample(kind.name)
        rows = tuple(item.row for item in kind.read_raw(raw))
        assert len(rows) == count
        splits = Splits(rows[:1], rows[1:], root=raw)
        environment = kind(kind.Settings(), splits)  # type: ignore[arg-type]
        if isinstance(environment, SealQA):
            environment = environment.with_models({"judge": Scripted(grade, "grader")})
        for task in tasks(environment):
            gold = environment.gold(task)
            async with environment.open(task) as episode:
                reply = gold.reply or f"<answer>{gold.answers[0]}</answer>"
                assert (await episode.score(Trajectory((), reply))).passed
