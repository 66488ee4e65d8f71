from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread

import pytest
from pydantic import TypeAdapter

from skillopt.core.chat import Message
from skillopt.core.ports import Environment
from skillopt.core.rollout import Score, Trajectory
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import Splits
from skillopt.envs.custom.env import Custom
from skillopt.errors import ConfigError, DataError, EnvironmentFault
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS, Check

TRAIN: list[dict[str, object]] = [
    {"id": "t1", "input": "2 + 2?", "answer": 4, "kind": "sum"},
    {"input": "Capital of France?", "answer": ["Paris", "paris city"], "note": {"a": [1]}},
]
VAL: list[dict[str, object]] = [{"id": 7, "input": "Is it so?", "answer": True}]


def splits_of(train: list[dict[str, object]] = TRAIN, val: list[dict[str, object]] = VAL) -> Splits:
    return Splits(tuple(rows_of(train, "train")), tuple(rows_of(val, "val")))


def one(row: dict[str, object], **settings: object) -> Custom:
    """An environment with this row as its only training task."""
    made = TypeAdapter(Custom.Settings).validate_python(settings)
    return Custom(made, splits_of([row], []))


async def judged(environment: Environment, answer: str, index: int = 0) -> Score:
    async with environment.open(environment.tasks("train")[index]) as episode:
        asked = (Message("user", episode.brief), Message("assistant", answer))
        return await episode.score(Trajectory(asked, answer))


async def brief(environment: Environment) -> str:
    async with environment.open(environment.tasks("train")[0]) as episode:
        return episode.brief


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_it_keeps_the_contract_of_environments(check: Check):
    await check(Custom(Custom.Settings(), splits_of()))


async def test_a_row_becomes_a_task_with_its_id_kind_and_content():
    environment = Custom(Custom.Settings(instructions="Be brief."), splits_of())
    first, second = environment.tasks("train")
    assert (first.id, first.kind, first.data) == ("t1", "sum", TRAIN[0])
    assert second.id.startswith("row-")
    assert second.kind == "default"
    assert environment.tasks("val")[0].id == "7"
    assert environment.tasks("test") == ()
    async with environment.open(first) as episode:
        assert (episode.instructions, episode.brief) == ("Be brief.", "2 + 2?")


async def test_exact_accepts_any_listed_answer_and_says_what_was_wrong():
    environment = Custom(Custom.Settings(), splits_of())
    assert await judged(environment, "Well,\n<answer> 4 </answer>") == Score(1, 1, "correct")
    assert (await judged(environment, "5")).feedback == "wrong answer: expected '4', got '5'"
    assert (await judged(environment, "")).feedback == "empty answer: expected '4'"
    assert (await judged(environment, "PARIS  city", 1)).passed
    missed = await judged(environment, "Rome", 1)
    assert missed == Score(0, 0, "wrong answer: expected 'Paris' or 'paris city', got 'Rome'")


@pytest.mark.parametrize(
    ("settings", "gold", "answer", "score"),
    [
        ({}, "Ab", "aB", (1, 1)),
        ({"case_sensitive": True}, "Ab", "aB", (0, 0)),
        ({"extract": "whole"}, "a b", "a\nb", (1, 1)),
        ({}, "a b", "a\nb", (0, 0)),
        ({"scorer": "f1"}, "the red car", "red", (0, 2 / 3)),
        ({"scorer": "f1"}, "the red car", "Red car.", (1, 1)),
        ({"scorer": "contains"}, "red", "a RED car", (1, 1)),
        ({"scorer": "contains", "case_sensitive": True}, "red", "a RED car", (0, 0)),
        ({"scorer": "regex"}, "^r[aeiou]d$", "RED", (1, 1)),
        ({"scorer": "regex", "case_sensitive": True}, "^r[aeiou]d$", "RED", (0, 0)),
        ({"scorer": "numeric"}, 1200, "about $1,200", (1, 1)),
        ({"scorer": "numeric", "tolerance": 0.01}, "100", "101", (1, 1)),
        ({"scorer": "numeric"}, "100", "101", (0, 0)),
        ({"scorer": "numeric"}, "1/2", "7/2", (0, 0)),
        ({"scorer": "numeric"}, "1/2", "0.5", (1, 1)),
        ({"scorer": "numeric"}, "1 000", "5 000", (0, 0)),
        ({"scorer": "numeric"}, "30", "4:30", (0, 0)),
        ({"scorer": "numeric"}, "5", "\u20135", (0, 0)),
        ({"scorer": "choice"}, "B", "b) since", (1, 1)),
        ({"scorer": "choice", "choices": ["yes", "no"]}, "no", "B", (1, 1)),
        ({"scorer": "choice", "choices": ["yes", "no"]}, "no", "A", (0, 0)),
        ({"scorer": "choice", "choices": "options"}, "B", "Green", (1, 1)),
        ({"scorer": "choice", "choices": "listed"}, "2", "B", (1, 1)),
    ],
)
async def test_each_scorer_judges_by_its_rule(
    settings: dict[str, object], gold: object, answer: str, score: tuple[float, float]
):
    row: dict[str, object] = {
        "input": "?",
        "answer": gold,
        "options": "red|green",
        "listed": [1, 2],
    }
    found = await judged(one(row, **settings), answer)
    assert (found.hard, found.soft) == pytest.approx(score)
    assert (found.feedback == "correct") == found.passed


@pytest.mark.parametrize(
    ("settings", "gold", "category"),
    [
        ({"scorer": "numeric"}, "1", "not a number"),
        ({"scorer": "choice", "choices": ["yes", "no"]}, "no", "no option named"),
        ({"scorer": "f1"}, "some day", "partial answer"),
        ({"scorer": "regex"}, "^x$", "wrong answer"),
    ],
)
async def test_feedback_starts_with_a_category(
    settings: dict[str, object], gold: str, category: str
):
    score = await judged(one({"input": "?", "answer": gold}, **settings), "some words")
    assert score.feedback.startswith(f"{category}: expected '{gold}', got 'some words'")


async def test_options_are_shown_with_their_letters():
    row: dict[str, object] = {"input": "Which?", "answer": "B", "options": ["red", "green"]}
    environment = one(row, scorer="choice", choices="options")
    assert await brief(environment) == "Which?\n\nA. red\nB. green"


async def test_a_template_shows_columns_of_any_type_and_braces():
    row: dict[str, object] = {"q": "How {many}?", "n": 3, "tags": ["é"], "answer": "x"}
    environment = one(row, template="{{{q}}} {n} {tags}")
    assert await brief(environment) == '{How {many}?} 3 ["é"]'


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"template": "no place"}, "env.template: no {column}"),
        ({"template": "{input} {answer}"}, "would show the answer"),
        ({"template": "{input.x}"}, "env.template: a place is {column}"),
        ({"template": "{input!r}"}, "env.template: a place is {column}"),
        ({"template": "{}"}, "env.template: a place is {column}"),
        ({"template": "{input"}, "env.template: "),
        ({"tolerance": -1}, "env.tolerance: -1"),
        ({"tolerance": float("nan")}, "env.tolerance: nan"),
        ({"input": "answer"}, "env.answer: the column 'answer' is also shown"),
        ({"scorer": "exakt"}, "env.scorer: no scorer 'exakt'; did you mean 'exact'?"),
        ({"scorer": "qqqq"}, "known: exact, f1, contains, regex, numeric, choice"),
        ({"scorer": "absent_module:f"}, "env.scorer: no module 'absent_module'"),
        ({"scorer": "json:absent"}, "env.scorer: json has no 'absent'"),
        ({"scorer": "string:digits"}, "env.scorer: string has no callable 'digits'"),
        ({"scorer": "json:"}, "env.scorer: 'json:' names no function"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(settings: dict[str, object], complaint: str):
    with pytest.raises(ConfigError) as caught:
        one(TRAIN[0], **settings)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("row", "settings", "complaint"),
    [
        (
            {"answer": "x"},
            {},
            "no field 'input' (found: answer); name the right column in env.input",
        ),
        (
            {"input": "?"},
            {},
            "no field 'answer' (found: input); name the right column in env.answer",
        ),
        ({"input": 5, "answer": "x"}, {}, "'input' must be text, found a number"),
        ({"input": " ", "answer": "x"}, {}, "'input' is empty; fill it in"),
        ({"input": "?", "answer": None}, {}, "'answer' must be text, a number or a list"),
        ({"input": "?", "answer": {}}, {}, "found an object"),
        ({"input": "?", "answer": []}, {}, "'answer' is an empty list"),
        ({"input": "?", "answer": ["a", " "]}, {}, "'answer' is empty; fill it in"),
        ({"input": "?", "answer": "x", "kind": ["k"]}, {}, "'kind' must be text, found a list"),
        ({"input": "?", "answer": "x", "id": "a/b"}, {}, "the id 'a/b' holds a slash"),
        ({"input": "?", "answer": "x"}, {"template": "{q}"}, "no field 'q'"),
        ({"input": "?", "answer": "("}, {"scorer": "regex"}, "'(' is not a regular expression"),
        ({"input": "?", "answer": "x"}, {"scorer": "numeric"}, "'x' is not one number"),
        ({"input": "?", "answer": "10:30"}, {"scorer": "numeric"}, "'10:30' is not one number"),
        ({"input": "?", "answer": "2 and 3"}, {"scorer": "numeric"}, "set env.scorer=exact"),
        ({"input": "?", "answer": "xx"}, {"scorer": "choice"}, "'xx' names none of the options"),
        ({"input": "?", "answer": "C"}, {"scorer": "choice", "choices": ["x", "y"]}, "(x, y)"),
        (
            {"input": "?", "answer": "A", "o": 5},
            {"scorer": "choice", "choices": "o"},
            "found a number",
        ),
        (
            {"input": "?", "answer": "A", "o": "x"},
            {"scorer": "choice", "choices": "o"},
            "1 option to choose",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_by_place(
    row: dict[str, object], settings: dict[str, object], complaint: str
):
    with pytest.raises(DataError) as caught:
        one(row, **settings)
    assert str(caught.value).startswith("train[0]: ")
    assert complaint in str(caught.value)


def test_rows_shared_between_splits_are_refused_and_near_duplicates_are_warnings():
    row: dict[str, object] = {"input": "Where is it?", "answer": "x"}
    with pytest.raises(DataError, match="the same row is in train"):
        Custom(Custom.Settings(), splits_of([row], [row]))
    near = Custom(Custom.Settings(), splits_of([row], [{**row, "input": "where is it"}]))
    assert list(near.warnings) == ["almost the same row is in train (train[0]) and in val (val[0])"]
    assert list(Custom(Custom.Settings(), splits_of()).warnings) == []


def returning(value: object) -> Callable[[str, Mapping[str, object]], object]:
    def scorer(answer: str, row: Mapping[str, object]) -> object:
        return value

    return scorer


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (True, Score(1, 1, "correct")),
        (0, Score(0, 0, "wrong answer: expected '4', got 'x'")),
        (0.25, Score(0.25, 0.25, "partial answer: expected '4', got 'x'")),
        (Score(0, 0.5, "style: too long"), Score(0, 0.5, "style: too long")),
        ({"hard": 0, "soft": 0.5, "feedback": "style: x"}, Score(0, 0.5, "style: x")),
        ({"hard": 1}, Score(1, 1, "correct")),
    ],
)
async def test_a_function_may_return_a_number_a_score_or_a_mapping(value: object, score: Score):
    assert await judged(one(TRAIN[0], scorer=returning(value)), "x") == score


@pytest.mark.parametrize(
    "value",
    [1.5, -0.1, float("nan"), None, "1", {"soft": 1}, {"hard": 2}, {"hard": 1, "Soft": 0}, 1j],
)
async def test_what_is_no_score_is_a_fault_of_the_environment_that_names_the_task(value: object):
    environment = one(TRAIN[0], scorer=returning(value))
    with pytest.raises(EnvironmentFault, match=r"^task 't1': scorer .*returning"):
        await judged(environment, "x")


async def test_an_error_in_a_scorer_is_a_fault_of_the_environment_that_names_the_task():
    def broken(answer: str, row: Mapping[str, object]) -> float:
        return float(str(row["answer"])) / 0

    with pytest.raises(EnvironmentFault, match=r"task 't1': scorer .*broken: ZeroDivisionError"):
        await judged(one(TRAIN[0], scorer=broken), "x")


async def test_a_function_gets_the_extracted_answer_and_a_copy_of_the_row_in_a_thread():
    seen: list[object] = []

    def greedy(answer: str, row: dict[str, object]) -> bool:
        seen.extend([answer, dict(row), current_thread() is main_thread()])
        row.clear()
        return True

    environment = one(TRAIN[0], scorer=greedy)
    await judged(environment, "so <answer>4</answer>")
    assert seen == ["4", TRAIN[0], False]
    assert environment.tasks("train")[0].data == TRAIN[0]


async def test_a_function_needs_no_answer_column():
    environment = Custom(
        Custom.Settings(scorer=returning(0)), splits_of([{"input": "?"}], [{"input": "!"}])
    )
    assert (await judged(environment, "x")).feedback == "wrong answer: got 'x'"


OWN_SCORERS = """
def shout(answer, row):
    return answer.isupper()

async def patient(answer, row):
    return 1.0 if answer == row["answer"] else 0.5
"""


async def test_a_scorer_is_found_by_name_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "own_scorers_here.py").write_text(OWN_SCORERS, encoding="utf-8")
    (tmp_path / "broken_scorers_here.py").write_text("def f(:", encoding="utf-8")
    (tmp_path / "needy_scorers_here.py").write_text("import absent_package", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert (await judged(one(TRAIN[0], scorer="own_scorers_here:shout"), "X")).passed
    row: dict[str, object] = {"input": "?", "answer": "x"}
    assert (await judged(one(row, scorer="own_scorers_here:patient"), "y")).hard == 0.5
    with pytest.raises(ConfigError, match=r"broken_scorers_here cannot be imported \(SyntaxError"):
        one(row, scorer="broken_scorers_here:f")
    with pytest.raises(ConfigError, match="needy_scorers_here needs 'absent_package'; install it"):
        one(row, scorer="needy_scorers_here:f")


def test_the_fingerprint_changes_with_every_setting_that_changes_briefs_or_scores():
    def loose(answer: str, row: object) -> bool:
        return True

    def strict(answer: str, row: object) -> bool:
        return False

    base: dict[str, object] = {"q": "a", "input": "b", "gold": "c", "answer": "d"}
    variants: list[dict[str, object]] = [
        {},
        {"input": "q"},
        {"answer": "gold"},
        {"instructions": "x"},
        {"template": "{q}"},
        {"case_sensitive": True},
        {"extract": "whole"},
        {"tolerance": 0.5},
        {"scorer": "f1"},
        {"scorer": loose},
        {"scorer": strict},
        {"scorer": partial(strict, row=1)},
        {"scorer": partial(strict, row=2)},
    ]

    def prints() -> list[str]:
        splits = splits_of([base], [{**base, "q": "other", "input": "other"}])
        return [
            Custom(TypeAdapter(Custom.Settings).validate_python(each), splits).fingerprint
            for each in variants
        ]

    found = prints()
    assert len(set(found)) == len(variants)
    assert found == prints()
    assert all(each.startswith("custom:") for each in found)


def test_a_changed_source_is_another_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def fingerprint(result: str) -> str:
        body = f"def judge(answer, row):\n    return {result}\n"
        (tmp_path / "edited_scorer.py").write_text(body, encoding="utf-8")
        sys.modules.pop("edited_scorer", None)
        importlib.invalidate_caches()
        return one(TRAIN[0], scorer="edited_scorer:judge").fingerprint

    assert fingerprint("True") == fingerprint("True")
    assert fingerprint("True") != fingerprint("False")


def test_a_wrong_column_name_is_told_once_with_the_nearest_one() -> None:
    rows: list[dict[str, object]] = [{"question": f"{n}?", "answer": n} for n in range(30)]
    with pytest.raises(DataError) as told:
        Custom(Custom.Settings(input="qestion"), splits_of(rows[:20], rows[20:]))
    assert str(told.value) == (
        "train[0]: no field 'qestion' (found: question, answer), nor in any other row; did you "
        "mean 'question'?; name the right column in env.input"
    )


def test_rows_that_lack_a_column_are_told_each_if_others_have_it() -> None:
    rows: list[dict[str, object]] = [{"input": "?", "answer": 1}, {"input": "!"}, {"input": "."}]
    with pytest.raises(DataError, match=r"train\[1\]: no field 'answer'(.|\n)*train\[2\]"):
        Custom(Custom.Settings(), splits_of(rows, []))
