from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from support_cli import Call, make_project, skillopt

from skillopt.api import evaluate, evaluate_async, load_evaluation
from skillopt.core.skill import Skill
from skillopt.testing.simulator import Simulator, stated_skill


async def test_each_split_is_told_with_score_number_interval_failures_and_cost(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        done = await skillopt(
            "eval", "c.yaml", "--skill", "good.md", "--out_root", "ev", cwd=tmp_path
        )
        assert simulator.stats().replies["target"] == 32
    assert done.code == 0, done.err
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()[:5]]
    assert rows[0] == ["split", "hard", "95 % interval", "soft", "n", "failures"]
    assert rows[1] == ["train", "1.000", "[0.806, 1.000]", "1.000", "16", "0"]
    assert [row[0] for row in rows[1:]] == ["train", "val", "test", "all"]
    assert rows[4][4] == "32"
    assert re.search(r"^cost +33 calls, [\d.]+k \+ \d+ tokens$", done.out, re.MULTILINE)
    assert "files  ev" in done.out
    summary = json.loads((tmp_path / "ev" / "eval_summary.json").read_text(encoding="utf-8"))
    assert (summary["n_items"], summary["hard"]) == (32, 1.0)


async def test_blank_is_an_empty_skill_on_the_command_line_and_in_python(tmp_path: Path) -> None:
    def target(prompt: str) -> str:
        return "no"

    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        command = ("eval", "c.yaml", "--skill", "blank", "--split", "val", "--out_root", "ev")
        done = await skillopt(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "skill  blank" in done.out
    rows = [{"input": "?", "answer": "no"}]
    told = await evaluate_async("blank", rows=rows, target=target, out=tmp_path / "python")
    assert told.skill == Skill()


async def test_a_training_does_not_mix_its_files_with_those_of_an_evaluation(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        command = ("eval", "c.yaml", "--skill", "good.md", "--split", "val")
        done = await skillopt(*command, "--out_root", "ev", cwd=tmp_path)
        assert done.code == 0, done.err
        before = sorted(tmp_path.joinpath("ev").rglob("*"))
        done = await skillopt("train", "c.yaml", "--out_root", "ev", cwd=tmp_path)
    assert done.code == 1
    assert "ev holds the results of `skillopt eval`" in done.err
    assert "choose another env.out_root" in done.err
    assert sorted(tmp_path.joinpath("ev").rglob("*")) == before


async def test_replicates_are_made_and_told_as_mean_and_share_passed_every_time(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0.3) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        command = ("eval", "c.yaml", "--skill", "good.md", "--out_root", "ev")
        done = await skillopt(*command, "evaluation.replicates=3", cwd=tmp_path)
        assert simulator.stats().replies["target"] == 3 * 32
    assert done.code == 0, done.err
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()[:5]]
    assert rows[0] == ["split", "hard", "95 % interval", "soft", "passed 3 of 3", "n", "failures"]
    told = json.loads((tmp_path / "ev" / "eval_summary.json").read_text(encoding="utf-8"))
    results = (tmp_path / "ev" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    marks = [json.loads(line)["replicates"] for line in results]
    assert [len(each) for each in marks] == [3] * 32
    every = sum(map(all, marks)) / 32
    assert told["replicates"] == 3
    assert told["passed_every_time"] == every
    assert rows[4] == ["all", *rows[4][1:4], f"{every:.3f}", "32", "0"]


async def test_one_split_by_any_of_its_names_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        command = ("eval", "--config", "c.yaml", "--skill", "skill.md", "--split")
        done = await skillopt(*command, "valid_unseen", cwd=tmp_path)
        unknown = await skillopt(*command, "tset", cwd=tmp_path)
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()[:3] if line] == ["split", "test"]
    assert unknown.code == 1
    assert "tset" in unknown.err


def test_a_skill_that_is_not_there_is_an_error_before_any_call(call: Call, tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    done = call("eval", "c.yaml", "--skill", "no.md", cwd=tmp_path)
    assert done.code == 1
    assert "no.md" in done.err


async def test_items_that_failed_are_listed_with_their_reasons_and_show_tells_the_same(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        command = ("eval", "c.yaml", "--skill", "skill.md", "--out_root", "ev")
        done = await skillopt(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    report = load_evaluation(tmp_path / "ev")
    rows = [
        json.loads(line)
        for line in (tmp_path / "ev" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    wrong = [row for row in rows if row["hard"] < 1]
    assert [each.id for each in report.failed] == [row["id"] for row in wrong]
    assert len(wrong) > 10
    for row in wrong[:10]:
        assert row["id"] in done.out
        assert " ".join(row["fail_reason"].split())[:60] in done.out
    assert f"and {len(wrong) - 10} more: ev/results.jsonl" in done.out
    assert "model  simulated-target (simulated)" in done.out
    assert "data   custom, data" in done.out
    shown = await skillopt("show", "ev", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert shown.out == f"ev\nevaluation\n\n{done.out}"
    step = await skillopt("show", "ev", "--step", "1", cwd=tmp_path)
    assert step.code == 1
    assert "holds an evaluation" in step.err


async def test_an_evaluation_of_an_earlier_format_is_refused_without_a_heading(
    tmp_path: Path,
) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        command = ("eval", "c.yaml", "--skill", "skill.md", "--split", "val", "--out_root", "ev")
        assert (await skillopt(*command, cwd=tmp_path)).code == 0
    database = sqlite3.connect(tmp_path / "ev" / "cache.sqlite")
    database.execute("PRAGMA user_version = 1")
    database.close()
    for summary in (None, "{}"):
        if summary:
            (tmp_path / "ev" / "eval_summary.json").write_text(summary, encoding="utf-8")
        shown = await skillopt("show", "ev", cwd=tmp_path)
        assert (shown.code, shown.out) == (1, "")
        assert "Only the version that wrote it (0.3.0 or earlier)" in shown.err


def test_items_without_a_score_come_first_with_the_failure(call: Call, tmp_path: Path) -> None:
    rows = [{"id": each, "input": each, "answer": "1"} for each in ("one", "two", "three")]
    found = evaluate(
        "Count.",
        rows=rows,
        scorer=_fails_on_two,
        target=str,
        out=tmp_path / "ev",
        settings={"max_failure_share": 0.5},
        progress=False,
    )
    done = call("show", "ev", cwd=tmp_path)
    assert len(found.whole.failures) == 1
    listed = done.out.partition("item without full marks")[2].splitlines()[1:4]
    assert [line.split()[0] for line in listed] == ["two", "one", "three"]
    assert "no score" in listed[0]
    assert "no such unit" in listed[0]


def test_items_without_an_id_are_listed_by_file_and_line(call: Call, tmp_path: Path) -> None:
    rows = [{"input": f"Which {number}?", "answer": "none"} for number in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    evaluate(
        "Count.",
        target=str,
        out=tmp_path / "ev",
        split="train",
        settings={"data_path": str(tmp_path / "rows.jsonl"), "split_ratio": "1:1:1"},
        progress=False,
    )
    done = call("show", "ev", cwd=tmp_path)
    item = done.out.partition("item without full marks")[2].splitlines()[1].split()[0]
    assert re.fullmatch(r".*/rows\.jsonl:[123]", item)
    assert "row-" not in done.out


def _fails_on_two(answer: str, row: dict[str, object]) -> float:
    if row["input"] == "two":
        raise ValueError("no such unit")
    return 0.0


@pytest.mark.parametrize("how", ["--skill", "skill_init"])
def test_a_misspelt_skill_names_the_nearest_one(how: str, call: Call, tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    if how == "--skill":
        done = call("eval", "c.yaml", "--skill", "skil.md", cwd=tmp_path)
    else:
        done = call("train", "c.yaml", "--skill_init", "skil.md", cwd=tmp_path)
    assert done.code == 1
    assert "no skill document skil.md; did you mean skill.md?" in done.err


async def test_an_evaluation_goes_beside_a_run_and_leaves_its_files_alone(own_copy: Path) -> None:
    run = own_copy / "run"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    async with Simulator(noise=0) as simulator:
        command = ("eval", "c.yaml", "--skill", "run/best_skill.md", "--split", "test")
        done = await skillopt(*command, "--base_url", simulator.url, cwd=own_copy)
        again = await skillopt(*command, "--base_url", simulator.url, cwd=own_copy)
        asked = simulator.stats().requests
    assert done.code == 0, done.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    files = re.search(r"^files +(\S+)$", done.out, re.MULTILINE)
    assert files is not None
    assert (own_copy / files[1]).parent == own_copy
    assert (own_copy / files[1] / "eval_summary.json").is_file()
    assert asked == 9  # 8 test items, and one to try the model
    assert re.search(r"^cost +9 calls, ", done.out, re.MULTILINE)
    assert again.out == done.out


async def test_each_evaluation_in_a_folder_tells_its_own_cost(tmp_path: Path) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        command = ("eval", "c.yaml", "--out_root", "ev", "--split", "test", "--skill")
        first = await skillopt(*command, "skill.md", cwd=tmp_path)
        second = await skillopt(*command, "good.md", cwd=tmp_path)
    assert re.search(r"^cost +9 calls, ", first.out, re.MULTILINE), first.err
    assert re.search(r"^cost +8 calls, ", second.out, re.MULTILINE), second.err


def even_numbers(prompt: str) -> str:
    return "".join(n for n in prompt[-3:] if n in "02468") or "odd"


async def test_scores_are_also_told_by_groups_of_tasks(tmp_path: Path) -> None:
    rows = [
        {"input": f"Say {n}.", "answer": str(n), "kind": "even" if n % 2 == 0 else "odd"}
        for n in range(9)
    ]
    found = await evaluate_async(
        "# Numbers",
        rows=rows,
        target=even_numbers,
        out=tmp_path / "ev",
        progress=False,
    )
    assert {name: each.hard for name, each in found.groups.items()} == {"even": 1, "odd": 0}
    shown = await skillopt("show", "ev", cwd=tmp_path)
    told = [re.split(r"\s{2,}", line.strip()) for line in shown.out.splitlines()]
    assert ["even", "1.000"] in [row[:2] for row in told]
    assert ["odd", "0.000"] in [row[:2] for row in told]
    report = load_evaluation(tmp_path / "ev")
    assert [(each.split, each.n) for each in report.groups] == [("even", 5), ("odd", 4)]
