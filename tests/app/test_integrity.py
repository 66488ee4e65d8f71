from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support_items import prose

from skillopt.analysis.integrity.findings import CheckFinding
from skillopt.app.doctor import check_data
from skillopt.app.integrity import check as run_check
from skillopt.app.integrity import scan_skill
from skillopt.app.run_spec import SuppliedParts
from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.core.rollout import Score
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.envs.dataset import Question

Row = Mapping[str, object]
SAMPLE = Path(__file__).parents[3] / "shared/samples/livemathematicianbench/data"


def configured(folder: Path, rows: Sequence[Row], **env: object) -> Config:
    lines = [json.dumps({"id": f"i{n}", **row}) for n, row in enumerate(rows)]
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings = {"data_path": str(folder / "rows.jsonl"), "name": "custom", "skill_init": "blank"}
    settings |= {"split_ratio": "2:2:1"}
    return load_config(values={f"env.{key}": value for key, value in (settings | env).items()})


def plain(count: int = 40) -> list[Row]:
    chance = random.Random(0)
    return [{"input": prose(chance, 15), "answer": prose(chance, 2)} for _ in range(count)]


def verdicts(found: Sequence[CheckFinding]) -> dict[str, str]:
    return {each.check: each.verdict for each in found}


def named(found: Sequence[CheckFinding], check: str) -> CheckFinding:
    return next(each for each in found if each.check == check)


async def test_sound_data_is_ok_and_no_model_is_asked(tmp_path: Path) -> None:
    found = verdicts(await run_check(configured(tmp_path, plain(60))))
    assert found.pop("bare prompt") == "left out"
    assert set(found.values()) == {"ok"}, found


@pytest.mark.parametrize(
    ("scorer", "answer"), [("exact", "a b"), ("f1", "a b"), ("contains", "a b"), ("numeric", 7)]
)
@pytest.mark.parametrize("extract", ["tag_or_line", "whole"])
async def test_every_rule_gives_its_own_gold_full_marks(
    tmp_path: Path, scorer: str, answer: object, extract: str
) -> None:
    rows = [{**row, "answer": answer} for row in plain(20)]
    config = configured(tmp_path, rows, scorer=scorer, extract=extract)
    found = named(await run_check(config), "scorer")
    assert found.verdict == "ok"
    assert "20 of 20 gold answers get full marks" in found.found


async def test_an_answer_of_several_lines_gets_full_marks_too(tmp_path: Path) -> None:
    rows = [{**row, "answer": f"first\n{row['answer']}"} for row in plain(20)]
    assert named(await run_check(configured(tmp_path, rows)), "scorer").verdict == "ok"


async def test_patterns_are_no_answers_and_that_is_said(tmp_path: Path) -> None:
    rows = [{**row, "answer": "^ab+$"} for row in plain(20)]
    found = await run_check(configured(tmp_path, rows, scorer="regex"))
    assert named(found, "gold answers").verdict == "left out"
    assert "no gold answer is known" in named(found, "scorer").found


def lavish(answer: str, row: Mapping[str, object]) -> float:
    return 1.0


def never(answer: str, row: Mapping[str, object]) -> float:
    return 0.0


def raising(answer: str, row: Mapping[str, object]) -> float:
    raise KeyError("points")


@pytest.mark.parametrize(
    ("scorer", "told"),
    [
        (lavish, "0 of 20 empty answers get 0"),
        (never, "0 of 20 gold answers get full marks"),
        (raising, "fails on a right or an empty answer"),
    ],
)
async def test_a_scorer_that_is_wrong_is_bad(tmp_path: Path, scorer: object, told: str) -> None:
    found = named(await run_check(configured(tmp_path, plain(20), scorer=scorer)), "scorer")
    assert found.verdict == "bad"
    assert told in found.found


async def test_data_that_cannot_be_used_is_bad_and_says_why(tmp_path: Path) -> None:
    row = plain(1)[0]
    (found,) = await run_check(configured(tmp_path, [row, row, row, row, row]))
    assert found.verdict == "bad"
    assert "splits must not share rows" in found.advice


@pytest.mark.parametrize(
    ("env", "check", "advice"),
    [
        ({"skill_init": ""}, "settings", "env.skill_init: no skill to start from is given"),
        ({"skill_init": "no.md"}, "first skill", "no skill document no.md"),
        ({"data_path": ""}, "settings", "env.data_path"),
        ({"data_path": "no.csv"}, "data", "no.csv"),
    ],
)
async def test_what_is_missing_is_named_and_not_the_data_blamed(
    tmp_path: Path, env: dict[str, object], check: str, advice: str
) -> None:
    config = configured(tmp_path, plain(), **env)
    (found,) = await run_check(config)
    assert (found.check, found.verdict) == (check, "bad")
    assert advice in found.advice
    told = check_data(config)[0]
    assert (told.what, told.state) == (check, "failure")
    assert advice in told.advice


async def test_an_answer_column_that_is_shown_under_another_name_is_bad(tmp_path: Path) -> None:
    rows = [{**row, "note": row["answer"]} for row in plain()]
    template = "{input}\nsolution: {note}"
    found = await run_check(configured(tmp_path, rows, template=template))
    assert named(found, "gold in the brief").verdict == "bad"


async def test_the_shortcut_of_a_real_benchmark_is_found(tmp_path: Path) -> None:
    if not SAMPLE.is_dir():
        pytest.skip("no sample of LiveMathematicianBench here")
    found = await run_check(
        configured(tmp_path, _questions(SAMPLE), scorer="choice", choices="choices")
    )
    shortcut = named(found, "shortcuts")
    assert shortcut.verdict == "bad"
    assert "a stronger result can be proven" in shortcut.found
    assert named(found, "scorer").verdict == "ok"


def _questions(folder: Path) -> list[Row]:
    rows: list[Row] = []
    for file in sorted(folder.glob("*/*.json")):
        for item in json.loads(file.read_text(encoding="utf-8")):
            mcq = item["mcq"]
            texts = [each["text"] for each in (mcq["correct_choice"], *mcq["choices"])]
            order = random.Random(f"{item['month']}:{item['no']}").sample(range(5), 5)
            answer = "ABCDE"[order.index(0)]
            choices = [texts[place] for place in order]
            rows.append({"input": mcq["question"], "choices": choices, "answer": answer})
    return rows


async def test_a_trained_skill_is_compared_with_the_first_one(tmp_path: Path) -> None:
    rows = plain()
    config = configured(tmp_path, rows)
    recited = Skill.parse(f"- {rows[0]['input']}: {rows[0]['answer']}\n")
    assert set(verdicts(await run_check(config, trained=recited)).values()) == {"bad"}
    assert set(
        verdicts(await run_check(config, SuppliedParts(skill=recited), trained=recited)).values()
    ) == {"ok"}


class Silent:
    """An environment that does not tell its answers."""

    name = fingerprint = "silent"

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"{split}{n}") for n in range(3)]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Question, None]:
        async def judge(reply: str) -> Score:
            return Score(0.0, 0.0, "wrong answer")

        yield Question("Go.", f"The brief of {task.id} and of nobody else in this world", judge)


async def test_without_gold_a_skill_is_still_searched_for_copies() -> None:
    recited = Skill.parse("- The brief of train0 and of nobody else in this world: say no.\n")
    found = await scan_skill(Silent(), recited, Skill())
    assert verdicts(found) == {"copied phrases": "bad", "gold in the skill": "left out"}
    assert "gold(task)" in found[1].found
