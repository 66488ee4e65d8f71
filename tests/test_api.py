from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import analysis

import skillopt
from skillopt.api import Result
from skillopt.core.chat import Reply, Request, Usage
from skillopt.core.events import Event, FinalTested, Signal
from skillopt.core.facts import Stepped
from skillopt.core.rollout import Score
from skillopt.errors import (
    BudgetSpent,
    ConfigError,
    DataError,
    SkillError,
    StoreError,
    Unmeasurable,
)
from skillopt.progress import PlainProgress


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(first, first + count)]


TRAIN, VAL, TEST = rows(1, 6), rows(100, 4), rows(200, 4)


def pupil(prompt: str) -> str:
    left = prompt.rsplit(" + ", 1)[1]
    return str(2 * int(left)) if "double" in prompt.lower() else "I do not know"


async def teacher(request: Request) -> Reply:
    said = analysis("Double the number.") if request.stage == "analyst" else "{}"
    return Reply(text=said, usage=Usage(input=10, output=2))


def closeness(answer: str, row: dict[str, object]) -> float:
    return 1.0 if answer == row["answer"] else 0.0


QUICK = {"num_epochs": 1, "batch_size": 3}


def test_rows_a_scorer_and_two_functions_are_enough(tmp_path: Path) -> None:
    result = skillopt.train(
        train=TRAIN,
        val=VAL,
        test=TEST,
        scorer=closeness,
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        out=tmp_path / "run",
        settings=QUICK,
    )
    assert "Double the number." in result.best_skill
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert (tmp_path / "run" / "best_skill.md").read_text(encoding="utf-8") == result.best_skill
    assert result.spent.input >= 10


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("hard", (0.0, 0.0)), ("soft", (0.75, 0.75)), ("mixed", (0.375, 0.375))],
)
def test_both_scores_of_a_result_speak_in_the_metric_of_the_run(
    tmp_path: Path, metric: str, expected: tuple[float, float]
) -> None:
    def nearly(answer: str, row: Mapping[str, object]) -> Score:
        return Score(0.0, 0.75 if answer == str(row["answer"]) else 0.25)

    result = skillopt.train(
        train=TRAIN,
        val=VAL,
        test=TEST,
        scorer=nearly,
        target=pupil,
        optimizer=teacher,
        skill="You add numbers." if metric == "hard" else "Double the number.",
        out=tmp_path / "run",
        settings={**QUICK, "gate_metric": metric, "gate_mixed_weight": 0.5},
    )
    assert (result.score, result.test_score) == expected
    told = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert told["claim"]["metric"] == told["metric"]
    assert (told["test_score"], told["test_hard"]) == (expected[1], 0.0)


def test_the_same_call_again_continues_and_asks_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    def counting(prompt: str) -> str:
        asked.append(prompt)
        return pupil(prompt)

    def attempt() -> Result:
        return skillopt.train(
            train=TRAIN,
            val=VAL,
            target=counting,
            optimizer=teacher,
            skill="You add numbers.",
            out=tmp_path / "run",
            settings=QUICK,
        )

    first, second = attempt(), attempt()
    assert len(asked) == len(set(asked))
    assert first.state == second.state
    assert second.test_score is None


def test_one_list_is_cut_into_splits(tmp_path: Path) -> None:
    seen: list[Event | Signal] = []
    result = skillopt.train(
        data=rows(1, 20),
        target=pupil,
        optimizer=teacher,
        skill="You add numbers.",
        out=tmp_path,
        settings={**QUICK, "split_ratio": "2:1:1"},
        watch=seen.append,
    )
    assert result.state.final_test is not None
    assert (len(VAL), result.state.best.evaluation.n, result.state.final_test.best.n) == (4, 5, 5)
    assert {Stepped, FinalTested} <= {type(event) for event in seen}


def test_a_scorer_may_explain_itself_and_the_optimizer_reads_it(tmp_path: Path) -> None:
    prompts: list[str] = []

    def judge(answer: str, row: dict[str, object]) -> skillopt.Score:
        right = float(answer == row["answer"])
        return skillopt.Score(right, right, "shy: it did not dare to answer")

    def listening(prompt: str) -> str:
        prompts.append(prompt)
        return analysis("Double the number.")

    skillopt.train(
        train=TRAIN,
        val=VAL,
        scorer=judge,
        target=pupil,
        optimizer=listening,
        skill="You add numbers.",
        out=tmp_path,
        settings=QUICK,
    )
    assert "shy: it did not dare to answer" in prompts[0]


def test_a_broken_scorer_is_not_a_wrong_answer_and_its_repair_pays_no_call_twice(
    tmp_path: Path,
) -> None:
    asked: list[str] = []
    broken = True

    def counting(prompt: str) -> str:
        asked.append(prompt)
        return pupil(prompt)

    def scorer(answer: str, row: dict[str, object]) -> float:
        if broken:
            raise KeyError("gold")
        return closeness(answer, row)

    def attempt() -> Result:
        return skillopt.train(
            train=TRAIN,
            val=VAL,
            scorer=scorer,
            target=counting,
            optimizer=teacher,
            skill="You add numbers.",
            out=tmp_path,
            settings=QUICK,
        )

    with pytest.raises(Unmeasurable, match="gold"):
        attempt()
    broken = False
    assert attempt().score == 1.0
    assert len(asked) == len(set(asked))


def test_a_skill_is_measured_on_rows(tmp_path: Path) -> None:
    verdict = skillopt.evaluate("Double it.", rows=VAL, target=pupil, out=tmp_path)
    assert (verdict.whole.hard, verdict.whole.n) == (1.0, 4)
    told = json.loads((tmp_path / "eval_summary.json").read_text(encoding="utf-8"))
    assert (told["hard"], told["n_items"], told["split"]) == (1.0, 4, "test")
    assert (tmp_path / "results.jsonl").read_text(encoding="utf-8").count("\n") == 4


@pytest.mark.parametrize(("settings", "most"), [({"max_concurrency": 2}, 2), ({}, 6)])
def test_limits_of_a_model_hold_for_functions_too(
    tmp_path: Path, settings: dict[str, object], most: int
) -> None:
    busy, peak = 0, 0

    async def slow(prompt: str) -> str:
        nonlocal busy, peak
        busy += 1
        peak = max(peak, busy)
        for _ in range(50):  # long enough for all others to come in
            await asyncio.sleep(0)
        busy -= 1
        return pupil(prompt)

    skillopt.evaluate(
        "Double it.", rows=TRAIN, target=slow, out=tmp_path / "eval", settings=settings
    )
    assert peak == most


def test_a_result_is_printed_as_its_scores_and_files(tmp_path: Path) -> None:
    verdict = skillopt.evaluate("Double it.", rows=VAL, target=pupil, out=tmp_path)
    assert str(verdict) == f"test: hard 1.000, soft 1.000, 4 items\nfiles: {tmp_path}"


def test_a_table_of_pandas_is_refused_with_what_to_give(tmp_path: Path) -> None:
    @dataclass
    class DataFrame:
        columns: tuple[str, ...] = ("input", "answer")

    table: Any = DataFrame()
    with pytest.raises(ConfigError, match=r'not a DataFrame; .*\.to_dict\("records"\)'):
        skillopt.evaluate("Double it.", rows=table, target=pupil, out=tmp_path)


def test_an_error_names_a_row_from_python_by_its_place(tmp_path: Path) -> None:
    def scorer(answer: str, row: Mapping[str, object]) -> float:
        raise ValueError(answer)

    with pytest.raises(Unmeasurable, match=r"rows\[\d\]: scorer"):
        skillopt.evaluate("Double it.", rows=VAL, scorer=scorer, target=pupil, out=tmp_path)


def test_a_split_that_does_not_exist_is_refused_also_beside_rows(tmp_path: Path) -> None:
    for work in (skillopt.evaluate, skillopt.transfer):
        with pytest.raises(ConfigError, match="leave out split='tset'"):
            work("Double it.", rows=VAL, target=pupil, out=tmp_path, split="tset")


def test_a_skill_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.md").write_text("Double it.", encoding="utf-8")
    for skill in (tmp_path / "s.md", str(tmp_path / "s.md")):
        verdict = skillopt.evaluate(skill, rows=VAL, target=pupil, out=tmp_path / "out")
        assert verdict.whole.hard == 1.0
    with pytest.raises(SkillError, match=r"no skill document .*other\.md"):
        skillopt.evaluate(tmp_path / "other.md", rows=VAL, target=pupil)


NO_READER = {"use_deep_reflect": True, "gradient.proposer": "patterns"}
NO_ANALYST = {"use_skill_aware_reflection": True, "gradient.proposer": "patterns"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"train": TRAIN}, ConfigError, "train and val go together"),
        ({"train": TRAIN, "val": VAL, "data": TRAIN}, ConfigError, "either data, or train"),
        ({"train": TRAIN, "val": []}, DataError, "val split is empty"),
        ({"train": TRAIN, "val": TRAIN[:2]}, DataError, "same row is in train"),
        ({"train": TRAIN, "val": VAL, "skill": None}, ConfigError, "skill_init"),
        ({"train": TRAIN, "val": VAL, "settings": {"nm_epochs": 1}}, ConfigError, "num_epochs"),
        ({"train": TRAIN, "val": VAL, "scorer": "exakt"}, ConfigError, "exact"),
        (
            {
                "train": TRAIN,
                "val": VAL,
                "settings": {"skill_update_mode": "rewrite", "select_mode": "trial"},
            },
            ConfigError,
            "works with edits only",
        ),
        ({"train": [{"input": "x"}], "val": VAL}, DataError, "answer"),
        ({"train": TRAIN, "val": VAL, "skill": "a<!-- APPENDIX_END -->"}, SkillError, "mark"),
        ({"train": TRAIN, "val": VAL, "target": 5}, ConfigError, "target should be the name of a"),
        ({"data": "rows.csv"}, ConfigError, r"data should be a list.*\"data_path\": 'rows.csv'"),
        (
            {"train": TRAIN, "val": VAL, "settings": [1]},
            ConfigError,
            "settings should be a mapping",
        ),
        ({"train": TRAIN, "val": VAL, "optimiser": str}, TypeError, "did you mean 'optimizer'"),
        ({"train": TRAIN, "val": VAL, "settings": NO_READER}, ConfigError, "needs analyst among"),
        ({"train": TRAIN, "val": VAL, "settings": NO_ANALYST}, ConfigError, "needs analyst among"),
    ],
)
def test_bad_input_is_named_before_anything_is_spent(
    arguments: dict[str, object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    def never(prompt: str) -> str:
        raise AssertionError(prompt)

    given = {"skill": "Add.", "target": never, "optimizer": never, "out": tmp_path / "run"}
    with pytest.raises(error, match=message):
        skillopt.train(**{**given, **arguments})  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def small_run(out: Path, *, progress: bool = True) -> Result:
    return skillopt.train(
        train=TRAIN, val=VAL, test=TEST, target=pupil, optimizer=teacher,
        skill="You add numbers.", out=out, settings=QUICK, progress=progress,
    )  # fmt: skip


async def test_inside_a_running_event_loop_the_same_call_works(tmp_path: Path) -> None:
    assert small_run(tmp_path).test_score == 1.0
    verdict = skillopt.evaluate("Double.", rows=VAL, target=pupil, out=tmp_path / "eval")
    assert verdict.whole.hard == 1.0
    with pytest.raises(ConfigError, match="train and val go together"):
        skillopt.train(train=TRAIN)


INTERRUPTED = """
import asyncio, os, signal, sys, threading
import skillopt

stopped = threading.Event()
rows = [{"input": str(n), "answer": "x"} for n in range(60)]
asked = []

def target(prompt):
    asked.append(prompt)
    if len(asked) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    elif len(asked) > 3:
        stopped.wait(5)
    return "x"

target.fingerprint = "x"

def attempt():
    settings = {"num_epochs": 1, "env.workers": 1}
    return skillopt.train(
        data=rows, target=target, optimizer=lambda p: "{}", skill="s", out="run", settings=settings
    )

def both():
    try:
        attempt()
    except KeyboardInterrupt:
        print("stopped after", len(asked) <= 4)
        stopped.set()
    print("finished", attempt().score)

async def inside():
    both()

asyncio.run(inside()) if sys.argv[1] == "inside" else both()
"""


@pytest.mark.parametrize("place", ["inside", "outside"])
def test_ctrl_c_stops_a_run_in_order_inside_and_outside_of_an_event_loop(
    place: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, place],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines() == ["stopped after True", "finished 1.0"], done.stderr


def test_progress_is_told_by_default_and_can_be_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run(tmp_path / "loud")
    told = capsys.readouterr()
    assert told.out == ""
    assert "run directory" in told.err
    assert "initial skill: 0.000 on 4 val items" in told.err
    assert "step 1: candidate 1.000, accept new best" in told.err
    assert "done: " in told.err
    small_run(tmp_path / "quiet", progress=False)
    assert capsys.readouterr().err == ""


def test_a_result_tells_before_after_how_sure_and_what_it_cost(tmp_path: Path) -> None:
    result = small_run(tmp_path, progress=False)
    assert (result.split, result.before.mean, result.after.mean) == ("test", 0.0, 1.0)
    assert result.after.low < 1.0
    assert result.claim.gain.mean == 1.0
    shown = repr(result)
    assert "test 0.000 -> 1.000" in shown
    assert result.claim.words() in shown
    assert "calls" in shown
    assert len(shown) < 300
    page = result._repr_html_()  # pyright: ignore[reportPrivateUsage]
    for text in ("1.000", "before", "after", "Double the number."):
        assert text in page


def test_a_result_speaks_in_the_metric_of_the_run(tmp_path: Path) -> None:
    def half(answer: str, row: dict[str, object]) -> skillopt.Score:
        return skillopt.Score(0, 0.75 if answer == row["answer"] else 0.25)

    result = skillopt.train(
        train=TRAIN, val=VAL, test=TEST, scorer=half, target=pupil, optimizer=teacher,
        skill="You add numbers.", out=tmp_path, progress=False,
        settings={**QUICK, "gate_metric": "soft"},
    )  # fmt: skip
    assert (result.before.mean, result.after.mean) == (0.25, 0.75)


def test_importing_the_package_is_light() -> None:
    code = "import skillopt, sys; print(sorted({'aiohttp', 'pydantic', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        getattr(skillopt, "trian")  # noqa: B009


def test_an_evaluation_with_replicates_tells_the_mean_and_who_passed_every_time(
    tmp_path: Path,
) -> None:
    asked = [{"input": str(n), "answer": str(n)} for n in range(4)]

    def moody(request: Request) -> str:
        """Knows 0 and 1 always, 2 only on the first try, 3 never."""
        number = int(request.messages[-1].text.split()[-1])
        return str(number if number < 2 or (number == 2 and request.replicate == 0) else "no")

    found = skillopt.evaluate(
        "Count.", rows=asked, target=moody, out=tmp_path, settings={"evaluation.replicates": 2}
    )
    assert (found.whole.hard, found.whole.passed, found.whole.n) == (5 / 8, 0.5, 4)
    told = json.loads((tmp_path / "eval_summary.json").read_text(encoding="utf-8"))
    assert (told["hard"], told["passed_every_time"], told["replicates"]) == (5 / 8, 0.5, 2)


def answering(answer: str) -> Callable[[str], str]:
    def model(prompt: str) -> str:
        return answer if prompt else ""

    return model


class Clerk:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    def __call__(self, prompt: str) -> str:
        return self.answer if prompt else ""


def parroting(answer: str, prompt: str) -> str:
    return answer if prompt else ""


def bound(answer: str) -> Callable[[str], str]:
    return partial(parroting, answer)


@pytest.mark.parametrize("make", [answering, Clerk, bound])
def test_two_models_of_one_name_never_share_a_result(
    make: Callable[[str], Callable[[str], str]], tmp_path: Path
) -> None:
    row: list[dict[str, object]] = [{"input": "How many?", "answer": "7"}]
    for answer, score in (("7", 1.0), ("8", 0.0), ("7", 1.0)):
        verdict = skillopt.evaluate("Count.", rows=row, target=make(answer), out=tmp_path)
        assert verdict.whole.hard == score


def test_two_scorers_of_one_name_never_share_a_score(tmp_path: Path) -> None:
    def scorer(score: float) -> Callable[[str, object], float]:
        return lambda answer, row: score

    for score in (0.25, 0.75):
        verdict = skillopt.evaluate(
            "Count.", rows=VAL, target=pupil, scorer=scorer(score), out=tmp_path
        )
        assert verdict.whole.soft == score


@pytest.mark.parametrize("role", ["target", "optimizer", "scorer"])
def test_a_run_is_not_continued_with_another_callable_of_the_same_name(
    role: str, tmp_path: Path
) -> None:
    def scorer(word: str) -> Callable[[str, dict[str, object]], float]:
        return lambda answer, row: float(answer == row["answer"]) if word else 0.0

    def target(word: str) -> Callable[[str], str]:
        return lambda prompt: pupil(prompt) + word * 0

    def optimizer(word: str) -> Callable[[str], str]:
        return lambda prompt: analysis("Double the number.") if prompt else word

    makers: dict[str, Callable[[str], object]] = {
        "target": target,
        "optimizer": optimizer,
        "scorer": scorer,
    }

    def attempt(word: str) -> Result:
        given: dict[str, Any] = {name: make("a") for name, make in makers.items()}
        given[role] = makers[role](word)
        return skillopt.train(
            train=TRAIN, val=VAL, skill="Add.", out=tmp_path, settings=QUICK, **given
        )

    assert attempt("a").state == attempt("a").state
    with pytest.raises(StoreError, match=rf"{'scorer' if role == 'scorer' else role}.*state="):
        attempt("b")


def test_every_command_has_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = small_run(tmp_path / "outputs" / "one", progress=False)
    loaded = skillopt.load_run(tmp_path / "outputs" / "one")
    assert (loaded.state, loaded.best_skill, loaded.spent) == (
        result.state, result.best_skill, result.spent,
    )  # fmt: skip
    (tmp_path / "outputs" / "other").mkdir()
    assert [each.out.name for each in skillopt.list_runs()] == ["one"]
    with pytest.raises(StoreError, match="not a directory"):
        skillopt.load_run(tmp_path / "none")

    found = skillopt.check(train=TRAIN, val=VAL, test=TEST, scorer=closeness, skill="Add.")
    verdicts = {each.check: each.verdict for each in found}
    assert verdicts["data"] == "ok"
    assert verdicts["bare prompt"] == "left out"
    found = skillopt.check(train=TRAIN, val=VAL, skill="Add.", trained=result.best_skill)
    assert "gold in the skill" in {each.check for each in found}

    noise = skillopt.calibrate(
        train=TRAIN, val=VAL, target=pupil, optimizer=teacher, skill="Add.",
        out=tmp_path / "noise", progress=False,
    )  # fmt: skip
    assert (noise.measured.tasks, noise.measured.flipping) == (4, 0.0)
    assert noise.advice.gate == "strict"

    checks = skillopt.doctor(offline=True)
    assert [each.what for each in checks] == ["disk"]


def test_a_prepared_run_can_be_estimated_and_trained_and_takes_no_more_arguments(
    tmp_path: Path,
) -> None:
    spec = skillopt.prepare(
        train=TRAIN, val=VAL, target=pupil, optimizer=teacher, skill="Add.", out=tmp_path,
        settings=QUICK,
    )  # fmt: skip
    assert skillopt.estimate(spec).calls.high > 0
    assert skillopt.train(spec, progress=False).out == tmp_path
    with pytest.raises(ConfigError, match="takes no other arguments"):
        skillopt.train(spec, target=pupil)


def test_what_the_skills_of_a_run_say_and_where_it_came_from(tmp_path: Path) -> None:
    small_run(tmp_path, progress=False)
    changes = skillopt.diff_run(tmp_path).splitlines()
    assert changes[:2] == ["--- initial", "+++ best"]
    assert "+- Double the number." in changes
    assert skillopt.diff_run(tmp_path, "best", "last") == ""
    found = skillopt.blame(tmp_path)
    moves = {line.text: line.origin.move for line in found.lines if line.origin is not None}
    assert moves == {"You add numbers.": "initial_skill", "- Double the number.": "step_0001"}
    assert (found.is_best, found.measured) == (True, False)
    (tmp_path / "history.json").unlink()
    rebuilt = skillopt.rebuild_run(tmp_path)
    assert [path.name for path in rebuilt.files] == ["history.json"]
    assert not rebuilt.settings_lost


def test_the_settings_that_a_run_would_have_can_be_asked_for() -> None:
    config = skillopt.effective_config(settings={"num_epochs": 3})
    assert config.train.num_epochs == 3
    assert "num_epochs: 3" in config.dump()


def test_progress_shows_control_characters_and_does_not_send_them() -> None:
    stream = io.StringIO()
    PlainProgress(stream).tell("a\x1b[2Jb")
    assert stream.getvalue() == "a\\x1b[2Jb\n"


def test_a_run_tells_what_its_rules_are_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_models.py").write_text(OWN_MODELS, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps(row) for row in rows(1, 30)), encoding="utf-8"
    )
    (tmp_path / "start.md").write_text("You add numbers.", encoding="utf-8")
    skillopt.train(
        out=tmp_path / "run",
        progress=False,
        settings={
            **QUICK,
            "model.backend": "scripted",
            "model.target": "own_models:target",
            "model.optimizer": "own_models:optimizer",
            "data_path": "rows.jsonl",
            "skill_init": "start.md",
        },
    )
    found = skillopt.attribute(tmp_path / "run", tasks=4, progress=False)
    assert [each.worth.gain > 0 for each in found.rules] == [True]


OWN_MODELS = f"""
def target(prompt):
    if " + " not in prompt:
        return "OK"
    number = int(prompt.rsplit(" + ", 1)[1])
    return str(2 * number) if "double" in prompt.lower() else "I do not know"


def optimizer(prompt):
    return {analysis("- Double the number.")!r}
"""


def test_a_result_says_when_no_reply_of_the_optimizer_could_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def babbler(request: Request) -> Reply:
        return Reply(text="Let us talk about the weather.", usage=Usage(input=10, output=2))

    def trained(optimizer: Callable[[Request], Awaitable[Reply]], out: str) -> Result:
        return skillopt.train(
            train=TRAIN, val=VAL, scorer=closeness, target=pupil, optimizer=optimizer,
            skill="You add numbers.", out=tmp_path / out, settings=QUICK,
        )  # fmt: skip

    bad = trained(babbler, "bad")
    assert "no reply of the optimizer was usable" in bad.problem
    assert bad.problem in bad.warnings
    assert f"warning: {bad.problem}" in capsys.readouterr().err
    assert trained(teacher, "good").problem == ""


def test_a_check_asks_a_target_that_is_a_function(tmp_path: Path) -> None:
    asked: list[str] = []

    def counting(prompt: str) -> str:
        asked.append(prompt)
        return pupil(prompt)

    given: dict[str, Any] = {"train": TRAIN, "val": VAL, "target": counting, "skill": "Double it."}
    found = skillopt.check(**given)
    assert {each.check: each.verdict for each in found}["bare prompt"] == "left out"
    assert not asked
    found = skillopt.check(**given, sample=3)
    bare = next(each for each in found if each.check == "bare prompt")
    assert "on 3 val items" in bare.found, bare
    assert len(asked) == 2 * 3


def test_a_loaded_run_has_the_warnings_that_it_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained() -> Result:
        return skillopt.train(
            train=TRAIN, val=VAL, target=pupil, optimizer=teacher, skill="You add numbers.",
            out=tmp_path / "run", settings={**QUICK, "optimizer.screen_tasks": 2},
        )  # fmt: skip

    first = trained()
    few, vain = first.warnings
    assert "val has only 4 items" in few
    assert "optimizer.candidate_shuffles and screen_tasks have no effect" in vain
    told = capsys.readouterr().err
    assert (told.count(few), told.count(vain)) == (1, 1)
    assert skillopt.load_run(tmp_path / "run").warnings == first.warnings
    log = (tmp_path / "run" / "events.jsonl").read_bytes()
    assert trained().warnings == first.warnings
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == log
    assert capsys.readouterr().err.count(few) == 1


FRUIT = [{"input": f"{n} apples and {n} pears", "answer": str(2 * n)} for n in range(1, 121)]


def counter(prompt: str) -> str:
    number = int(prompt.rsplit(" pears", 1)[0].rsplit(" ", 1)[1])
    return str(2 * number) if "Add both" in prompt else str(number)


def adviser(prompt: str) -> str:
    return analysis("Add both numbers.")


@pytest.mark.parametrize("limit", [81, 100, 121])
def test_what_a_limit_has_cut_short_is_learnt_once_the_limit_is_raised(
    limit: int, tmp_path: Path
) -> None:
    """80 calls show all train and val tasks; too few are left for a step and its gate."""

    def train(calls: int) -> Result:
        return skillopt.train(
            train=FRUIT[:40],
            val=FRUIT[40:80],
            test=FRUIT[80:],
            target=counter,
            optimizer=adviser,
            skill="Count the fruit.",
            out=tmp_path / "run",
            settings={"limits.calls": calls},
            progress=False,
        )

    with pytest.raises(BudgetSpent, match=f"limits.calls is reached: {limit} allowed, 80 were"):
        train(limit)
    result = train(2000)
    assert result.test_score == 1.0
