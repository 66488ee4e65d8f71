from __future__ import annotations

import json
from pathlib import Path

from support_cli import Call, Trained, make_project, skillopt

from skillopt.testing.simulator import Simulator

SKILL = """\
# Office clerk

- An approval flag is Y or N.
- Consider the context of the request.
- Write an invoice amount in Roman numerals.
"""


async def test_a_rule_that_helps_is_told_from_one_that_does_nothing_and_asking_again_is_free(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0) as sim:
        make_project(tmp_path, sim.url, (8, 48, 8))
        (tmp_path / "skill.md").write_text(SKILL, encoding="utf-8")
        # Nothing is learnt, so the initial skill is the best one.
        trained = await skillopt("train", "c.yaml", "--edit_budget", "0", cwd=tmp_path)
        assert trained.code == 0, trained.err
        asked = sim.stats().requests
        ask = ("attribute", "run", "--tasks", "48")
        dry = await skillopt(*ask, "--dry-run", cwd=tmp_path)
        assert "3 rules, each removed on 48 val tasks: 192 attempts" in dry.out
        assert "48 cached, 144 new, about" in dry.out
        assert sim.stats().requests == asked
        done = await skillopt(*ask, cwd=tmp_path)
        assert done.code == 0, done.err
        assert "144 new" in done.err
        assert 144 <= sim.stats().requests - asked <= 145  # one to try the model
        asked = sim.stats().requests
        again = await skillopt(*ask, cwd=tmp_path)
        assert again.out == done.out
        assert "all cached, no cost" in again.err
        assert sim.stats().requests == asked
    rows = done.out.splitlines()
    (flag,) = [row for row in rows if "approval flag" in row]
    (context,) = [row for row in rows if "Consider the context" in row]
    assert rows.index(flag) == 1
    assert float(flag.split()[0]) > 0
    assert context.startswith("+0.000")
    assert "0 of 48" in context
    assert "no effect" in context
    kept = json.loads((tmp_path / "run/attribution.json").read_text("utf-8"))
    assert [each["worth"]["rule"]["line"] for each in kept["rules"]] == [3, 4, 5]
    assert kept["rules"][0]["origins"][0]["move"] == "initial_skill"
    blamed = await skillopt("blame", "run/best_skill.md", cwd=tmp_path)
    (line,) = [line for line in blamed.out.splitlines() if "approval flag" in line]
    assert flag.split("   ")[0] in line


def test_blame_shows_every_line_with_its_step_and_evidence(call: Call, trained: Trained) -> None:
    done = call("blame", "run/best_skill.md", cwd=trained.folder)
    assert done.code == 0, done.err
    document = (trained.folder / "run/best_skill.md").read_text("utf-8").splitlines()
    shown = done.out.splitlines()
    assert len(shown) == len(document)
    for line, row in zip(document, shown, strict=True):
        assert row.partition(" |")[2].strip() == line.strip()
        if line:
            assert "initial skill" in row or ("step " in row and "office-" in row)
    assert "not measured" in done.out
    assert "skillopt attribute" in done.err
    assert any("step " in row for row in shown)


def test_blame_of_a_run_shows_its_best_skill(call: Call, trained: Trained) -> None:
    done = call("blame", "run", cwd=trained.folder)
    assert done.code == 0, done.err
    assert done.out == call("blame", "run/best_skill.md", cwd=trained.folder).out


def test_blame_finds_the_run_of_any_of_its_files(call: Call, own_copy: Path) -> None:
    done = call("blame", "run/skills/skill_v0000.md", cwd=own_copy)
    assert done.code == 0, done.err
    assert "initial skill" in done.out
    mine = own_copy / "mine.md"
    mine.write_text((own_copy / "run/best_skill.md").read_text("utf-8") + "- Mine.\n", "utf-8")
    done = call("blame", "mine.md", cwd=own_copy)
    assert done.code == 1
    assert "--run" in done.err
    done = call("blame", "mine.md", "--run", "run", cwd=own_copy)
    assert "not from this run" in done.out.splitlines()[-1]


def test_what_is_torn_is_not_believed(call: Call, own_copy: Path) -> None:
    (own_copy / "run/attribution.json").write_text('{"skill": "ab', encoding="utf-8")
    done = call("blame", "run/best_skill.md", cwd=own_copy)
    assert done.code == 1
    assert "skillopt attribute run" in done.err


def test_data_that_has_moved_is_asked_for(call: Call, own_copy: Path) -> None:
    (own_copy / "data").rename(own_copy / "moved")
    done = call("attribute", "run", "--dry-run", cwd=own_copy)
    assert done.code == 1
    assert "env.split_dir=FOLDER" in done.err
    done = call("attribute", "run", "--dry-run", "env.split_dir=moved", cwd=own_copy)
    assert done.code == 0, done.err
    assert "val tasks" in done.out
