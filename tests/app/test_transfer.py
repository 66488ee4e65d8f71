"""One skill with several harnesses and models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from support_cli import make_project, skillopt

from skillopt.api import export_skill, train, transfer
from skillopt.app.transfer import cell_folder
from skillopt.errors import ConfigError, SkillError, StoreError
from skillopt.harness.places import PLACES
from skillopt.testing.simulator import Simulator, stated_skill

ROWS = [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(1, 9)]


def adds(prompt: str) -> str:
    number = int(prompt.rsplit(" + ", 1)[1])
    return str(2 * number)


def doubles(prompt: str) -> str:
    return str(2 * int(prompt.rsplit(" ", 1)[1])) if "Add both" in prompt else "0"


def guesses(prompt: str) -> str:
    return "4" if prompt else ""


def breaks(prompt: str) -> str:
    raise RuntimeError(f"no answer to {len(prompt)} characters")


@pytest.mark.sandbox
def test_every_combination_is_evaluated_and_has_an_interval(tmp_path: Path) -> None:
    found = transfer(
        "- Add.",
        harnesses=["chat", "code"],
        targets=[adds, guesses],
        rows=ROWS,
        out=tmp_path,
        progress=False,
    )
    assert found.harnesses == ["chat", "code"]
    scores = {(cell.harness, cell.target.rpartition(":")[2]): cell.score for cell in found.cells}
    assert scores == {
        ("chat", "adds"): 1.0,
        ("code", "adds"): 1.0,
        ("chat", "guesses"): 0.125,
        ("code", "guesses"): 0.125,
    }
    cell = found.cell("chat", found.targets[1])
    assert cell.interval is not None
    assert cell.interval[0] < 0.125 < cell.interval[1]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_combination_that_fails_says_why_and_the_others_remain(tmp_path: Path) -> None:
    found = transfer(
        "- Add.",
        targets=[breaks, adds],
        rows=ROWS,
        out=tmp_path,
        settings={"model.target_retries": 0},
        progress=False,
    )
    broken, whole = found.cells
    assert (broken.result, broken.score, broken.interval) == (None, None, None)
    assert "no answer to" in broken.problem
    assert whole.score == 1.0


def test_an_unknown_harness_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--harness tool: .*did you mean 'tools'"):
        transfer("- Add.", harnesses=["chat", "tool"], targets=[adds], rows=ROWS, out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.sandbox
async def test_the_command_prints_the_matrix_and_pays_for_no_attempt_twice(tmp_path: Path) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        command = ("eval", "c.yaml", "--skill", "good.md", "--split", "val")
        several = ("--harness", "chat", "--harness=code", "--target_model", "simulated-target")
        first = await skillopt(*command, *several, "--out_root", "ev", cwd=tmp_path)
        paid = simulator.stats().replies["target"]
        again = await skillopt(*command, *several, "--out_root", "ev", cwd=tmp_path)
        assert simulator.stats().replies["target"] == paid
        alone = await skillopt(*command, "--harness", "chat", "--out_root", "one", cwd=tmp_path)
    assert (first.code, again.code) == (0, 0), first.err
    lines = [line.split() for line in first.out.splitlines()]
    assert ["model", "chat", "code"] in lines
    assert "hard score with 95 % interval" in first.out
    score = r"[01]\.\d{3} \[[01]\.\d{3}, [01]\.\d{3}\]"
    assert re.search(rf"^simulated-target .* {score} +{score}$", first.out, re.MULTILINE)
    assert sorted(path.name for path in (tmp_path / "ev").iterdir()) == [
        *("chat_simulated-target", "code_simulated-target")
    ]
    assert "files  one" in alone.out, alone.err


async def test_the_command_tells_which_cell_failed(tmp_path: Path) -> None:
    async with Simulator(noise=0) as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "good.md").write_text(stated_skill(), encoding="utf-8")
        command = ("eval", "c.yaml", "--skill", "good.md", "--split", "val", "--out_root", "ev")
        models = ("--target_model", "simulated-target", "--target_model", "nobody")
        done = await skillopt(*command, *models, cwd=tmp_path)
    rows = {line.split()[0]: line for line in done.out.splitlines() if line}
    assert "1.000 [" in rows["simulated-target"], done.err
    assert (done.code, rows["nobody"].split()[1]) == (1, "failed")
    assert "chat, nobody: " in done.out


@pytest.mark.parametrize("program", PLACES)
def test_a_skill_is_written_to_where_a_program_looks_for_it(tmp_path: Path, program: str) -> None:
    (tmp_path / "Office Rules.md").write_text("# Office\n\n- Be brief.\n", encoding="utf-8")
    written = export_skill(tmp_path / "Office Rules.md", program, tmp_path / "project")
    (path,) = written
    assert path == tmp_path / "project" / PLACES[program].workspace / "office-rules" / "SKILL.md"
    front = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])
    assert front["name"] == "office-rules"
    assert "Office" in front["description"]


def test_the_best_skill_of_a_run_is_written(tmp_path: Path) -> None:
    edit = json.dumps({"edits": [{"op": "append", "content": "Add both numbers."}]})
    result = train(
        data=[{"input": f"{n} and {n}", "answer": str(2 * n)} for n in range(1, 41)],
        target=doubles,
        optimizer=lambda prompt: edit if prompt else "",
        skill="---\nname: sums\ndescription: Sums.\n---\nCount.\n",
        out=tmp_path / "run",
        progress=False,
    )
    (path,) = export_skill(result.out, "claude", tmp_path, home=True)
    assert path == tmp_path / ".claude" / "skills" / "sums" / "SKILL.md"
    assert "Add both numbers." in path.read_text(encoding="utf-8")


async def test_export_prints_what_it_wrote_and_refuses_what_it_does_not_know(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.md").write_text("- Rule.\n", encoding="utf-8")
    command = ("export", "s.md", "--out", "project", "--name", "Own Name")
    done = await skillopt(*command, "--for", "codex", cwd=tmp_path)
    assert done.out == "project/.agents/skills/own-name/SKILL.md\n", done.err
    wrong = await skillopt(*command, "--for", "codx", cwd=tmp_path)
    assert wrong.code == 1
    assert "did you mean 'codex'?" in wrong.err
    missing = await skillopt("export", "none.md", "--for", "codex", cwd=tmp_path)
    assert "there is no skill document none.md" in missing.err


def test_a_link_in_the_project_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "s.md").write_text("- Rule.\n", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".claude").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="is a link, or lies behind one"):
        export_skill(tmp_path / "s.md", "claude", tmp_path / "project")
    assert not list((tmp_path / "elsewhere").iterdir())
    with pytest.raises(SkillError, match="there is no skill document"):
        export_skill(tmp_path / "none.md", "claude", tmp_path)


def test_a_skill_that_somebody_else_wrote_or_changed_is_not_replaced(tmp_path: Path) -> None:
    source, project = tmp_path / "office.md", tmp_path / "project"
    source.write_text("- Rule.\n", encoding="utf-8")
    (path,) = export_skill(source, "claude", project)
    source.write_text("- Better rule.\n", encoding="utf-8")
    export_skill(source, "claude", project)
    assert "Better" in path.read_text("utf-8"), "what we wrote ourselves is replaced"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match=r"SKILL\.md was written or changed by somebody else"):
        export_skill(source, "claude", project)
    assert path.read_text("utf-8") == "mine"
    export_skill(source, "claude", project, force=True)
    assert "Better" in path.read_text("utf-8")
    export_skill(source, "claude", project)


def test_what_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "skill.md").write_text("# Rules\n\n- Be brief.\n", encoding="utf-8")
    there = tmp_path / "project/.claude/skills/skill/SKILL.md"
    there.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"SKILL\.md cannot be read .*; nothing is replaced"):
        export_skill(tmp_path / "skill.md", "claude", tmp_path / "project")
    assert there.is_dir()


async def test_the_command_refuses_to_replace_unless_it_is_forced(tmp_path: Path) -> None:
    (tmp_path / "s.md").write_text("- Rule.\n", encoding="utf-8")
    own = tmp_path / ".agents" / "skills" / "s" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("by hand", encoding="utf-8")
    refused = await skillopt("export", "s.md", "--for", "codex", cwd=tmp_path)
    assert (refused.code, own.read_text("utf-8")) == (1, "by hand")
    assert "--force" in refused.err
    done = await skillopt("export", "s.md", "--for", "codex", "--force", cwd=tmp_path)
    assert (done.code, "Rule" in own.read_text("utf-8")) == (0, True)


def test_two_models_whose_names_look_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    names = ["org/m", "org-m", "a/../../b", "a-..-..-b", "org m"]
    folders = {cell_folder(tmp_path, "chat", name) for name in names}
    assert len(folders) == len(names)
    assert {folder.parent for folder in folders} == {tmp_path}
    assert cell_folder(tmp_path, "chat", "org-m").name == "chat_org-m"


def test_a_skill_is_not_written_below_a_file(tmp_path: Path) -> None:
    source, out = tmp_path / "skill.md", tmp_path / "out"
    source.write_text("- Add.\n", encoding="utf-8")
    out.touch()
    with pytest.raises(StoreError, match="a file where a folder is needed"):
        export_skill(source, "claude", out)
    assert out.read_bytes() == b""


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("env.harness=tools env.tool_memory_mb=0", "env.tool_memory_mb: should be above 0"),
        ("env.harness=code env.max_turns=0", "env.max_turns: should be above 0"),
    ],
)
async def test_a_limit_of_nothing_is_refused_by_its_key(
    tmp_path: Path, setting: str, problem: str
) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    done = await skillopt("estimate", "c.yaml", *setting.split(), cwd=tmp_path)
    assert problem in done.err
    assert done.code == 1


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"env.tool_seconds": 5, "max_turns": 3}, ""),
        ({"env.tool_secnds": 5}, "env.tool_secnds: unknown key"),
    ],
)
def test_a_key_of_one_harness_is_no_error_of_the_others(
    tmp_path: Path, settings: dict[str, object], problem: str
) -> None:
    found = transfer(
        "- Add.",
        harnesses=["chat", "code"],
        targets=[adds],
        rows=ROWS,
        out=tmp_path,
        progress=False,
        settings=settings,
    )
    for cell in found.cells:
        assert cell.problem.startswith(problem)
        assert bool(cell.problem) == bool(problem)
