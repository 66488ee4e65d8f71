from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillopt.analysis.integrity.duplicates import near_duplicates
from skillopt.analysis.integrity.findings import CheckFinding, Item
from skillopt.app.integrity import check
from skillopt.config.load import load_config

_TOWNS = ["Paris", "Rome", "Oslo", "Lima", "Cairo", "Bern", "Quito", "Dakar", "Hanoi", "Minsk"]


async def scorer_finding(
    folder: Path, rows: list[dict[str, object]], **env: object
) -> CheckFinding:
    lines = "\n".join(json.dumps(each) for each in rows)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    values = {"data_path": str(folder / "rows.jsonl"), "name": "custom", "skill_init": "blank"}
    settings = {f"env.{key}": value for key, value in {**values, **env}.items()}
    found = await check(load_config(None, values=settings))
    (one,) = [each for each in found if each.check == "scorer"]
    return one


def towns() -> list[dict[str, object]]:
    return [
        {"input": f"Which town has the number {n * 37}?", "answer": f"{_TOWNS[n % 10]} {n}"}
        for n in range(60)
    ]


def anything(answer: str, row: dict[str, object]) -> float:
    return float(bool(answer.strip()))


def ignores_numbers(answer: str, row: dict[str, object]) -> float:
    def letters(text: str) -> str:
        return "".join(each for each in text.casefold() if each.isalpha())

    return float(bool(answer.strip()) and letters(answer) == letters(str(row["answer"])))


def same_case(answer: str, row: dict[str, object]) -> float:
    return float(answer == row["answer"])


@pytest.mark.parametrize(
    ("scorer", "verdict", "told"),
    [(anything, "bad", "nonsense"), (ignores_numbers, "bad", "other numbers")],
)
async def test_a_scorer_that_rewards_wrong_answers_is_bad(
    scorer: object, verdict: str, told: str, tmp_path: Path
) -> None:
    found = await scorer_finding(tmp_path, towns(), scorer=scorer)
    assert (found.verdict, told in found.found) == (verdict, True)


async def test_a_pattern_that_fits_everything_is_bad(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{**each, "answer": ".+"} for each in towns()]
    found = await scorer_finding(tmp_path, rows, scorer="regex")
    assert found.verdict == "bad"


async def test_a_scorer_in_which_case_alone_decides_is_worth_a_look(tmp_path: Path) -> None:
    found = await scorer_finding(tmp_path, towns(), scorer=same_case)
    assert (found.verdict, "case alone decides" in found.found) == ("look", True)


@pytest.mark.parametrize(
    ("scorer", "told"),
    [("exact", True), ("f1", False), ("contains", False), (same_case, True)],
)
async def test_a_full_stop_that_makes_right_answers_wrong_is_told(
    scorer: object, told: bool, tmp_path: Path
) -> None:
    found = await scorer_finding(tmp_path, towns(), scorer=scorer)
    said = "a full stop at the end makes 60 of 60 right answers wrong" in found.found
    assert said is told


@pytest.mark.parametrize(
    ("scorer", "verdict"), [("exact", "look"), ("f1", "look"), (same_case, "look")]
)
async def test_answers_that_differ_only_in_case_or_punctuation_are_tried_for_each_other(
    scorer: object, verdict: str, tmp_path: Path
) -> None:
    rows = [{**row, "answer": ("Yes", "yes")[n % 2]} for n, row in enumerate(towns())]
    found = await scorer_finding(tmp_path, rows, scorer=scorer)
    equal = "differ only in case or punctuation pass as equal" in found.found
    assert (found.verdict, equal) == (verdict, scorer != same_case)


@pytest.mark.parametrize("scorer", ["exact", "f1", "contains"])
async def test_the_rules_for_texts_are_not_accused(scorer: str, tmp_path: Path) -> None:
    assert (await scorer_finding(tmp_path, towns(), scorer=scorer)).verdict == "ok"


async def test_the_rules_for_numbers_options_and_patterns_are_not_accused(tmp_path: Path) -> None:
    numbers: list[dict[str, object]] = [{**row, "answer": 3 * n} for n, row in enumerate(towns())]
    found = await scorer_finding(tmp_path, numbers, scorer="numeric", tolerance=0.05)
    assert found.verdict == "ok"
    options: list[dict[str, object]] = [
        {**row, "answer": "ABC"[n % 3], "options": ["Bern", "Rome", f"Oslo {n}"]}
        for n, row in enumerate(towns())
    ]
    found = await scorer_finding(tmp_path, options, scorer="choice", choices="options")
    assert found.verdict == "ok"
    patterns: list[dict[str, object]] = [
        {**row, "answer": rf"\b{_TOWNS[n % 10]}\b"} for n, row in enumerate(towns())
    ]
    found = await scorer_finding(tmp_path, patterns, scorer="regex")
    assert found.verdict == "look"  # no right answer is known to try
    assert "nonsense" not in found.found


def test_the_same_words_in_another_order_are_near_duplicates() -> None:
    told = "The blue lorry left Oslo harbour before the heavy storm reached town"
    turned = "Before the heavy storm reached town the blue lorry left Oslo harbour"
    mixed = "Town reached storm heavy before harbour Oslo left lorry blue"
    other = "A red bicycle stood near the quiet library during summer evenings"
    items = [Item("a", "train", told), Item("b", "val", turned), Item("c", "test", mixed)]
    found = near_duplicates([*items, Item("d", "val", other)])
    assert {(each.one.id, each.other.id) for each in found} == {("a", "b"), ("a", "c"), ("b", "c")}


def test_the_same_words_with_other_numbers_are_another_item() -> None:
    text = "How much are {} kilos of flour and {} litres of milk in the corner shop"
    items = [Item("a", "train", text.format(3, 4)), Item("b", "val", text.format(17, 9))]
    assert near_duplicates(items) == []
