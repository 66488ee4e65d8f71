"""How far a judge agrees with people, and what it takes to find out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_cli import skillopt
from support_judge import RUBRIC, grades, judged, verdict
from support_wire import WireServer, completion, says

from skillopt.analysis.agreement import kappa
from skillopt.api import judge_check_async
from skillopt.core.chat import Request
from skillopt.errors import ConfigError, DataError, Unmeasurable

SETTINGS = {"env.name": "custom", "env.scorer": "judge", "env.rubric": RUBRIC}


def row(answer: str, label: object, **more: object) -> dict[str, object]:
    return {
        "question": "Capital of France?",
        "answer": answer,
        "references": ["Paris"],
        "label": label,
        **more,
    }


ROWS = [
    *(row("paris", "correct", question=f"{n}. Capital of France?") for n in range(6)),
    *(row(f"Rome {n}", "incorrect") for n in range(3)),
    row("Paris, Texas", "correct"),
]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}, 0.4),
        ({("y", "y"): 45, ("y", "n"): 15, ("n", "y"): 25, ("n", "n"): 15}, 0.1304),
        ({("a", "a"): 7, ("b", "b"): 3}, 1.0),
        ({("a", "b"): 5, ("b", "a"): 5}, -1.0),
        ({("a", "a"): 5, ("a", "b"): 5}, 0.0),
    ],
)
def test_kappa_has_the_values_of_textbooks_and_lies_in_its_interval(
    table: dict[tuple[str, str], int], expected: float
) -> None:
    found = kappa([pair for pair, count in table.items() for _ in range(count)])
    assert found is not None
    assert found.mean == pytest.approx(expected, abs=1e-4)
    assert found.low <= found.mean <= found.high
    assert kappa([("a", "a")] * 5) is None


@pytest.mark.parametrize("pairs", [[("a", "a"), ("b", "b")], [("a", "a"), ("b", "a")]])
def test_kappa_of_a_few_answers_is_told_as_unsure(pairs: list[tuple[str, str]]) -> None:
    few, many = kappa(pairs), kappa(pairs * 200)
    assert few is not None
    assert many is not None
    assert few.low < few.mean - 0.5
    assert many.mean == few.mean
    assert many.high - many.low < 0.2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([row("Paris", "maybe")], "the label 'maybe' is none of"),
        ([row("Paris", "correct"), row("Paris", "incorrect")], "the same answer as"),
        ([row("Paris", "correct", references={"a": 1})], "found an object"),
        ([], "no labelled answers"),
    ],
)
async def test_labels_are_looked_at_before_the_judge_is_asked_anything(
    labels: list[dict[str, object]], message: str, tmp_path: Path
) -> None:
    async with WireServer([grades]) as server:
        settings = {**SETTINGS, **judged(server.url)}
        with pytest.raises(DataError, match=message):
            await judge_check_async(labels, out=tmp_path / "out", settings=settings)
        assert server.seen == []


async def test_agreement_is_told_with_interval_kappa_and_the_answers_in_dispute(
    tmp_path: Path,
) -> None:
    found = await judge_check_async(ROWS, judge=verdict, out=tmp_path / "out", settings=SETTINGS)
    assert found.agreement.mean == pytest.approx(0.9)
    assert 0.55 < found.agreement.low < 0.9 < found.agreement.high < 1
    assert found.kappa is not None
    assert found.kappa.mean == pytest.approx((0.9 - 0.54) / (1 - 0.54))
    (dispute,) = found.disagreements
    assert (dispute.label, dispute.verdict) == ("correct", "incorrect")
    assert dispute.answer == "Paris, Texas"


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (True, False), ("yes", "no"), ("RIGHT", "0")])
async def test_people_may_say_yes_or_no(yes: object, no: object, tmp_path: Path) -> None:
    rows = [row("Paris", yes), row("Rome", no)]
    found = await judge_check_async(rows, judge=verdict, out=tmp_path / "out", settings=SETTINGS)
    assert found.agreement.mean == 1


def three_way(request: Request) -> str:
    said = request.messages[-1].text
    word = "C" if "do not know" in said else "A" if "\n3\n" in said.split("judge", 1)[1] else "B"
    return json.dumps({"reason": "seen", "verdict": word})


@pytest.mark.parametrize(
    ("labels", "verdicts"),
    [(("A", "b", "C"), ("A", "B", "C")), ((1, 0, 0), ("A", "not A"))],
)
async def test_a_judge_with_three_verdicts_is_compared_by_them_or_by_the_first(
    labels: tuple[object, ...], verdicts: tuple[str, ...], tmp_path: Path
) -> None:
    answers = ("3", "5", "I do not know")
    rows = [
        {"question": "How many?", "answer": answer, "references": ["3"], "label": label}
        for answer, label in zip(answers, labels, strict=True)
    ]
    found = await judge_check_async(
        rows, judge=three_way, out=tmp_path / "out", settings={"env.name": "sealqa"}
    )
    assert (found.agreement.mean, found.verdicts) == (1, verdicts)


def silent(request: Request) -> str:
    del request
    return "Hm."


async def test_an_answer_without_a_usable_verdict_is_unscored_and_counts_for_nobody(
    tmp_path: Path,
) -> None:
    def unsure(request: Request) -> str:
        text = request.messages[-1].text
        return "well" if "Rome 1" in text else verdict(text)

    found = await judge_check_async(ROWS, judge=unsure, out=tmp_path / "out", settings=SETTINGS)
    assert (len(found.unscored), len(found.judged)) == (1, 9)
    assert "no usable verdict" in found.unscored[0].reason
    assert found.agreement.mean == pytest.approx(8 / 9)
    with pytest.raises(Unmeasurable, match="no usable verdict"):
        await judge_check_async(ROWS, judge=silent, out=tmp_path / "o", settings=SETTINGS)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (row("x", "maybe"), r"labels\[0\]: the label 'maybe' is none of 'correct', 'incorrect'"),
        ({"question": "q", "answer": "a"}, r"labels\[0\]: no field 'label'"),
        ({"answer": "a", "label": 1}, r"labels\[0\]: no field 'question'"),
        (row("x", 1, references=[["y"]]), "'references' must be text or a list"),
    ],
)
async def test_labels_that_cannot_be_read_are_told_by_place(
    bad: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=told):
        await judge_check_async([bad], judge=verdict, out=tmp_path / "out", settings=SETTINGS)


async def test_an_environment_without_a_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="custom asks no judge"):
        await judge_check_async(
            ROWS, judge=verdict, out=tmp_path / "out", settings={"env.name": "custom"}
        )


async def test_the_command_prints_it_and_asks_nothing_twice(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    async with WireServer([grades]) as server:
        settings = {**SETTINGS, **judged(server.url), "env.out_root": str(tmp_path / "out")}
        words = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        command = ("judge-check", *words, "--labels", str(labels))
        first = await skillopt(*command, cwd=tmp_path)
        asked = len(server.seen)
        again = await skillopt(*command, "--json", cwd=tmp_path)
        assert len(server.seen) - asked <= 1  # whether it answers at all
    assert first.code == again.code == 0, first.err + again.err
    assert "judge grader: agrees on 0.900 [" in first.out
    assert "Cohen's kappa 0.783 [" in first.out
    told = json.loads(again.out)
    assert (told["agreement"], told["n"], told["unscored"]) == (0.9, 10, 0)
    assert told["disagreements"][0]["answer"] == "Paris, Texas"


async def test_a_judge_that_cannot_be_reached_is_an_error_not_a_disagreement(
    tmp_path: Path,
) -> None:
    async with WireServer([says(completion(), status=401)]) as server:
        settings = {**SETTINGS, **judged(server.url), "env.out_root": str(tmp_path / "out")}
        words = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        labels = tmp_path / "labels.json"
        labels.write_text(json.dumps(ROWS), encoding="utf-8")
        done = await skillopt("judge-check", *words, "--labels", str(labels), cwd=tmp_path)
    assert done.code == 1
    assert "agrees" not in done.out
