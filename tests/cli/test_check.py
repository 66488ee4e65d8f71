from __future__ import annotations

import json
from pathlib import Path

from support_cli import Call, Done, Trained, make_project, skillopt

from skillopt.testing.simulator import Simulator


def row(done: Done, what: str) -> str:
    return next(line for line in done.out.splitlines() if line.startswith(f"{what}  "))


def test_data_is_checked_without_a_model(call: Call, tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    done = call("check", "c.yaml", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert "16 train, 8 val, 8 test items" in row(done, "data")
    assert "32 of 32 gold answers get full marks" in row(done, "scorer")
    assert "add --spend" in row(done, "bare prompt")
    assert "no bad findings" in done.err
    assert not (tmp_path / "run").exists()


def test_bad_data_ends_with_1_for_people_and_for_programs(call: Call, tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    words = ("check", "c.yaml", "env.template={input} Answer: {hint}")
    for file in (tmp_path / "data").glob("*/*.jsonl"):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        spoilt = [json.dumps({**each, "hint": each["answer"]}) for each in rows]
        file.write_text("\n".join(spoilt), encoding="utf-8")
    done = call(*words, cwd=tmp_path)
    assert done.code == 1
    assert " bad " in row(done, "gold in the brief")
    assert "what to do" in done.out
    done = call(*words, "--json", cwd=tmp_path)
    assert done.code == 1
    told = json.loads(done.out)
    assert told["ok"] is False
    assert "gold in the brief" in [
        each["check"] for each in told["findings"] if each["verdict"] == "bad"
    ]


async def test_with_leave_to_spend_the_bare_prompt_is_measured(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("check", "c.yaml", "--spend", "--sample", "5", cwd=tmp_path)
        asked = sim.stats().requests
    assert done.code == 0, done.out + done.err
    assert "on 5 val items; with instructions and first skill" in row(done, "bare prompt")
    assert asked == 11  # one to try the model
    assert not (tmp_path / "run").exists()


async def test_a_model_that_does_not_answer_is_bad(tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    done = await skillopt("check", "c.yaml", "--spend", "model.retries=0", cwd=tmp_path)
    assert done.code == 1
    assert "cannot be measured" in row(done, "bare prompt")


def test_a_run_is_checked_for_what_its_best_skill_recites(call: Call, trained: Trained) -> None:
    done = call("check", "run", cwd=trained.folder)
    assert done.code == 0, done.out + done.err
    assert row(done, "copied phrases")
    assert row(done, "gold in the skill")
    assert "skillopt check run" in trained.done.out


def test_a_document_that_recites_is_bad(call: Call, trained: Trained, tmp_path: Path) -> None:
    data = (trained.folder / "data/val/items.jsonl").read_text(encoding="utf-8")
    item = json.loads(data.splitlines()[0])
    document = tmp_path / "mine.md"
    document.write_text(f"- {item['input']} It is {item['answer']}.\n", encoding="utf-8")
    for subject in ("c.yaml", "run"):
        done = call("check", subject, "--skill", str(document), cwd=trained.folder)
        assert done.code == 1
        assert item["id"] in done.out


def test_a_run_whose_data_has_moved_says_what_to_do(call: Call, own_copy: Path) -> None:
    (own_copy / "data").rename(own_copy / "moved")
    done = call("check", "run", cwd=own_copy)
    assert done.code == 1
    assert "skillopt check CONFIG --skill run/best_skill.md" in done.err
    done = call("check", "run", "env.split_dir=moved", cwd=own_copy)
    assert done.code == 2
    assert "its own settings" in done.err


def test_a_gate_that_can_never_accept_is_told_by_every_command_before_a_model_is_asked(
    call: Call, tmp_path: Path
) -> None:
    make_project(tmp_path, "http://127.0.0.1:9")
    words = ("c.yaml", "evaluation.gate=paired", "evaluation.alpha=0.001")
    told = "none of the 2 decisions can accept a candidate"
    for command in ("estimate", "train"):
        done = call(command, *words, cwd=tmp_path)
        assert told in " ".join(done.err.split()), done.err
    checked = call("check", *words, cwd=tmp_path)
    assert checked.code == 1
    assert told in " ".join(checked.out.split())
    fine = call("check", "c.yaml", "evaluation.gate=paired", cwd=tmp_path)
    assert fine.code == 0
    assert "paired: 2 decisions, each accepts 6 of 8 val items won and none lost" in fine.out
