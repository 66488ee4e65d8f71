from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support_cli import Call, Trained, make_project, skillopt

from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator


async def test_the_overview_has_scores_steps_and_cost_by_role_and_stage(trained: Trained) -> None:
    done = await skillopt("show", "run", cwd=trained.folder)
    assert done.code == 0, done.err
    assert done.err == ""
    assert "last [95 %]" in done.out
    lines = done.out.splitlines()
    assert not any(line != line.rstrip() for line in lines)
    head = next(n for n, line in enumerate(lines) if line.startswith("step "))
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["1", "2"]
    assert re.search(r"^target +\d+ .*\n  preflight .*\n  rollout +\d+ ", done.out, re.MULTILINE)
    assert re.search(r"^optimizer +\d+ .*\n  analyst +\d+ ", done.out, re.MULTILINE)
    assert "run/best_skill.md" in done.out


def test_a_step_shows_evidence_findings_edits_and_the_verdict(call: Call, trained: Trained) -> None:
    with RunReader(trained.folder / "run") as reader:
        fact = reader.steps[0]
    done = call("show", "run", "--step", "1", cwd=trained.folder)
    assert done.code == 0, done.err
    assert "attempts  8 scored" in done.out
    for finding in fact.draft.findings:
        assert finding.tasks[0] in done.out
        assert all(pattern.name in done.out for pattern in finding.patterns)
    for proposal, placement in zip(
        fact.draft.leading.chosen.proposals, fact.draft.leading.report, strict=True
    ):
        assert placement.status in done.out
        assert proposal.why in done.out
    assert fact.decision is not None
    assert fact.decision.reason in done.out
    assert "verdict: accepted" in done.out


def test_an_item_shows_every_attempt_with_conversation_and_feedback(
    call: Call,
    trained: Trained,
) -> None:
    with RunReader(trained.folder / "run") as reader:
        item = next(iter(reader.state.initial.evaluation.scores))
        attempts = reader.rollouts(task=item)
    done = call("show", "run", "--item", item, cwd=trained.folder)
    assert done.code == 0, done.err
    assert "under the initial skill" in done.out
    assert "the best skill" in done.out
    assert len(re.findall(r"^under ", done.out, re.MULTILINE)) == len(attempts)
    assert len(re.findall(r"^    feedback ", done.out, re.MULTILINE)) == len(attempts)
    for attempt in attempts:
        assert attempt.trajectory is not None
        assert all(said.text in done.out for said in attempt.trajectory.messages[1:])


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["run", "--step", "9"], "steps 1 to 2"),
        (["run", "--item", "ofice-0001"], "did you mean 'office-0001'"),
        (["data"], "holds no run"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    args: list[str], hint: str, call: Call, trained: Trained
) -> None:
    done = call("show", *args, cwd=trained.folder)
    assert done.code == 1
    assert hint in done.err


def test_rebuild_writes_lost_files_again_and_leaves_the_settings(
    call: Call, own_copy: Path
) -> None:
    run = own_copy / "run"
    lost = [run / "history.json", run / "best_skill.md", run / "config.json"]
    whole = [path.read_bytes() for path in lost]
    for path in lost:
        path.unlink()
    done = call("show", "run", "--rebuild", cwd=own_copy)
    assert done.code == 0, done.err
    assert sorted(done.out.split()) == ["best_skill.md", "config.json", "history.json"]
    assert [path.read_bytes() for path in lost] == whole
    again = call("show", "run", "--rebuild", cwd=own_copy)
    assert again.out == ""
    assert "nothing was missing" in again.err


def test_diff_shows_what_was_learnt(call: Call, trained: Trained) -> None:
    done = call("diff", "run", cwd=trained.folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[:2] == ["--- initial", "+++ best"]
    old = (trained.folder / "skill.md").read_text(encoding="utf-8").splitlines()
    new = (trained.folder / "run" / "best_skill.md").read_text(encoding="utf-8").splitlines()
    assert [line[1:] for line in lines[2:] if line.startswith("+")] == [
        line for line in new if line not in old
    ]


def test_diff_takes_steps_and_files_and_says_when_nothing_differs(
    call: Call, trained: Trained
) -> None:
    same = call("diff", "run", "0", "skill.md", cwd=trained.folder)
    unknown = call("diff", "run", "initial", "nobody", cwd=trained.folder)
    assert (same.code, same.out) == (0, "")
    assert "the same skill" in same.err
    assert unknown.code == 1
    assert "nobody" in unknown.err


def test_a_reader_that_stops_reading_is_no_error(trained: Trained) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "skillopt", "show", "run"],
            cwd=trained.folder,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


async def test_every_proposal_that_a_trial_left_out_is_told_with_text_and_reason(
    tmp_path: Path,
) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        done = await skillopt(
            "train", "c.yaml", "optimizer.select_mode=trial", "gradient.merge_mode=union",
            "optimizer.learning_rate=1", "optimizer.min_learning_rate=1", cwd=tmp_path,
        )  # fmt: skip
    assert done.code == 0, done.err
    shown = await skillopt("show", "run", "--step", "1", cwd=tmp_path)
    kept = json.loads(
        (tmp_path / "run/steps/step_0001/ranked_edits.json").read_text(encoding="utf-8")
    )
    merged = json.loads(
        (tmp_path / "run/steps/step_0001/merged_patch.json").read_text(encoding="utf-8")
    )
    assert kept["dropped"]
    assert len(kept["edits"]) + len(kept["dropped"]) == len(merged["edits"])
    for each in kept["dropped"]:
        assert each["reason"]
        assert " ".join(each["content"].split())[:40] in " ".join(shown.out.split())
    assert shown.out.count("left out  by analyst") == len(kept["dropped"])
