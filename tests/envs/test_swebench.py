from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path

import pytest
from support_benchmark_agents import real_agents, trained_by_agent
from support_benchmarks import calling, knows_the_rule, results, sample, scored, trained

from skillopt.app.data import materialize_data
from skillopt.core.chat import Reply, Request, ToolCall
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.datasets.rows import read_rows, rows_of
from skillopt.datasets.splits import Splits
from skillopt.envs.swebench.env import RepositoryTask, SweBench
from skillopt.envs.swebench.grading import eval_script, graded
from skillopt.errors import ConfigError, DataError, EnvironmentFault, SkilloptError
from skillopt.harness.chat import Chat
from skillopt.harness.sandbox import Bubblewrap
from skillopt.harness.tools import Tools
from skillopt.model.scripted import from_callable
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS

pytest.importorskip("swebench", reason="swebench is not installed; make test-envs installs it")
PLAIN = SweBench.Settings(max_turns=10, command_timeout=60, test_timeout=120)
CANARY = "test_of_the_fix"
CODE = "".join(f"def f{n}(x):\n    return x - {n}\n\n\n" for n in range(6))
TESTS = "import calc\n\n\ndef test_zero():\n    assert calc.f0(1) == 1\n"


def git(*arguments: str, folder: Path) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@localhost"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repos(tmp_path: Path) -> Path:
    """A clone of a small project, which has the fix of every issue in a later commit."""
    folder = tmp_path / "repos" / "own__calc"
    (folder / "tests").mkdir(parents=True)
    git("init", "-q", "-b", "main", folder=folder)
    (folder / "calc.py").write_text(CODE, encoding="utf-8")
    (folder / "tests/test_calc.py").write_text(TESTS, encoding="utf-8")
    (folder / ".gitignore").write_text("*.log\n__pycache__/\n", encoding="utf-8")
    git("add", ".", folder=folder)
    git("commit", "-q", "-m", "first", folder=folder)
    (folder / "calc.py").write_text(CODE.replace("x - ", "x + "), encoding="utf-8")
    git("commit", "-q", "-am", "the fix of tomorrow", folder=folder)
    return tmp_path / "repos"


def diff(name: str, before: str, after: str) -> str:
    lines = [text.splitlines(keepends=True) for text in (before, after)]
    return f"diff --git a/{name} b/{name}\n" + "".join(
        unified_diff(*lines, fromfile=f"a/{name}", tofile=f"b/{name}")
    )


def instance(repos: Path, number: int = 1, **changes: object) -> dict[str, object]:
    base = git("rev-list", "--max-parents=0", "HEAD", folder=repos / "own__calc")
    right = CODE.replace(f"x - {number}", f"x + {number}")
    more = f"{TESTS}\n\ndef {CANARY}_{number}():\n    assert calc.f{number}(10) == {10 + number}\n"
    patch, test = diff("calc.py", CODE, right), diff("tests/test_calc.py", TESTS, more)
    script = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff {base}
source /opt/miniconda3/bin/activate
conda activate testbed
python -m pip install -e .
git checkout {base} tests/test_calc.py
git apply -v - <<'EOF_114329324912'
{test}
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA -p no:cacheprovider tests/test_calc.py
: '>>>>> End Test Output'
git checkout {base} tests/test_calc.py
"""
    return {
        "instance_id": f"own__calc-{number}",
        "repo": "own/calc",
        "base_commit": base,
        "problem_statement": f"f{number} subtracts {number}; it should add {number}.",
        "hints_text": "It is one character.",
        "patch": patch,
        "test_patch": test,
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps([f"tests/test_calc.py::{CANARY}_{number}"]),
        "PASS_TO_PASS": json.dumps(["tests/test_calc.py::test_zero"]),
        "image": "none",
        "eval_script": script,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        **changes,
    }


def made(repos: Path, settings: SweBench.Settings = PLAIN, **changes: object) -> SweBench:
    rows = [rows_of([instance(repos, 1, **changes)], "train"), rows_of([instance(repos, 2)], "val")]
    splits = Splits(tuple(rows[0]), tuple(rows[1]))
    return SweBench(replace(settings, repos=repos), splits).with_sandbox(Bubblewrap.create())


@asynccontextmanager
async def opened(
    environment: SweBench, split: Split = "train"
) -> AsyncGenerator[RepositoryTask, None]:
    async with environment.open(environment.tasks(split)[0]) as episode:
        yield episode


async def use(episode: RepositoryTask, name: str, **arguments: str) -> str:
    return await episode.call(ToolCall("c", name, json.dumps(arguments)))


async def changes(episode: RepositoryTask) -> bytes:
    assert episode.copy is not None
    return await episode.copy.patch()


async def test_it_keeps_the_contract_of_environments(repos: Path) -> None:
    environment = made(repos)
    for check in ENVIRONMENT_CHECKS:
        await check(environment)


@pytest.mark.parametrize("kind", ["gold", "empty"])
@pytest.mark.parametrize(
    "name", ["django__django-16569", "pallets__flask-5014", "pytest-dev__pytest-7490"]
)
def test_real_logs_grade_as_labelled(name: str, kind: str) -> None:
    rows = read_rows(sample("swebench", "tasks.jsonl"))
    row = next(row for row in rows if row.data["instance_id"] == name)
    log = sample("swebench", "logs", f"{name}.{kind}.test_output.txt").read_text(encoding="utf-8")
    grade = graded(row.data, log)
    assert grade.ran
    assert grade.resolved is (kind == "gold")
    assert bool(grade.still_failing) is (kind == "empty")


def test_real_scripts_lose_what_a_sandbox_has_not_and_keep_the_tests() -> None:
    for row in read_rows(sample("swebench", "tasks.jsonl")):
        script = eval_script(row.data)
        outside = script.partition("<<'EOF")[0]
        for gone in ("conda", "/testbed", "git show", str(row.data["base_commit"])):
            assert gone not in outside
        assert str(row.data["test_patch"]).strip() in script
        official = str(row.data["eval_script"])
        command = official.partition("Start Test Output'\n")[2].partition("\n")[0]
        assert f"\n{command}\n" in script


async def test_the_gold_patch_resolves_and_a_wrong_one_does_not(repos: Path) -> None:
    environment = made(repos)
    task = environment.tasks("train")[0]
    gold = environment.gold(task).reply or ""
    async with opened(environment) as episode:
        assert (await scored(episode, gold)).feedback == "resolved"
    async with opened(environment) as episode:
        wrong = await scored(episode, gold.replace("x + 1", "x * 1"))
        assert (wrong.hard, wrong.soft) == (0, 0)
        assert wrong.feedback == (f"not resolved: still failing: tests/test_calc.py::{CANARY}_1")
    async with opened(environment) as episode:
        assert (await scored(episode, "I give up.")).feedback.startswith("no change")


async def test_folders_of_repositories_and_environments_may_be_relative(
    repos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repos.parent)
    (repos.parent / "venvs").mkdir()
    (repos.parent / "venvs/own__calc-1.0").symlink_to(sys.prefix)
    settings = replace(PLAIN, environments=Path("venvs"))
    async with opened(made(Path("repos"), settings)) as episode:
        assert "(status 0)" in await use(episode, "bash", command="python -m pytest -q tests")


async def test_a_patch_that_breaks_another_test_does_not_resolve(repos: Path) -> None:
    environment = made(repos, replace(PLAIN, soft="fixed"))
    async with opened(environment) as episode:
        await use(episode, "bash", command="sed -i 's/x - 1/x + 1/; s/x - 0/x - 5/' calc.py")
        score = await scored(episode, "Done.")
        assert (score.hard, score.soft) == (0, 1)
        assert score.feedback == "not resolved: broken: tests/test_calc.py::test_zero"


async def test_tools_change_the_repository_and_the_difference_is_the_answer(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        assert "calc.py\ntests" in await use(episode, "bash", command="ls")
        edited = await use(episode, "edit", path="calc.py", old="x - 1", new="x + 1")
        assert edited == "done\n(status 0)"
        assert "+    return x + 1" in await use(episode, "bash", command="git diff")
        made_new = await use(episode, "edit", path="notes/new.txt", old="", new="hello\n")
        assert made_new.startswith("done")
        assert "hello" in await use(episode, "bash", command="cat notes/new.txt; touch a.log")
        assert "a.log" in await use(episode, "bash", command="ls")
        assert "(status 3)" in await use(episode, "bash", command="exit 3")
        text = (await changes(episode)).decode()
        assert "a.log" not in text
        assert "new file mode 100644\nindex" in text
        assert "-    return x - 1\n+    return x + 1" in text
        assert (await scored(episode, "Done.")).hard == 1
        assert episode.details(None)["resolved"] is True  # type: ignore[arg-type]


async def test_a_change_that_keeps_the_size_of_a_file_is_seen_at_once(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        base = episode.checkout.base
        index = (base / ".git/index").stat().st_mtime
        command = f"sed -i 's/x - 1/x + 1/' calc.py; touch -d @{index:.0f} calc.py"
        await use(episode, "bash", command=command)
        assert b"+    return x + 1" in await changes(episode)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"path": "calc.py", "old": "return", "new": "x"}, "6 times"),
        ({"path": "calc.py", "old": "", "new": "x"}, "is there already"),
        ({"path": "../outside.py", "old": "", "new": "x"}, "a file in the repository"),
        ({"path": "/etc/passwd", "old": "root", "new": "x"}, "a file in the repository"),
        ({"path": "none.py", "old": "a", "new": "x"}, "FileNotFoundError"),
    ],
)
async def test_an_edit_that_makes_no_sense_changes_nothing_and_is_told(
    repos: Path, arguments: dict[str, str], complaint: str
) -> None:
    async with opened(made(repos)) as episode:
        assert complaint in await use(episode, "edit", **arguments)
        assert await changes(episode) == b""


async def test_a_command_that_hangs_is_ended_and_what_it_changed_stays(repos: Path) -> None:
    async with opened(made(repos, replace(PLAIN, command_timeout=3))) as episode:
        told = await use(episode, "bash", command="echo x > new.txt; sleep 100")
        assert told.endswith("(ended after 3 s)")
        assert b"new.txt" in await changes(episode)


async def test_an_agent_sees_neither_the_tests_of_the_fix_nor_what_came_later(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        shown = f"{episode.instructions}{episode.brief}{episode.tools}"
        assert CANARY not in shown
        assert "one character" not in shown
        log = await use(episode, "bash", command="git log --all --oneline; git fsck --lost-found")
        assert "tomorrow" not in log
        search = (
            f"grep -rl -e {CANARY} -e 'fix of tomorrow' / --include=* "
            "--exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 2>/dev/null; true"
        )
        found = await use(episode, "bash", command=f"cd /workspace && ls -a; {search}")
        assert CANARY not in found
        assert "/workspace" not in found
        assert str(repos) not in found
    async with opened(made(repos, replace(PLAIN, hints=True))) as episode:
        assert "one character" in episode.brief


async def test_who_tampers_with_git_or_with_tests_gains_nothing(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        await use(episode, "bash", command="git add -A; git commit -qm x; rm -rf .git")
        await use(episode, "bash", command="echo 'def test_zero(): pass' > tests/test_calc.py")
        score = await scored(episode, "Done.")
        assert f"still failing: tests/test_calc.py::{CANARY}_1" in score.feedback
        await use(
            episode, "bash", command="sed -i 's/x - 1/x + 1/' calc.py; git init -q; rm -rf .git"
        )
        assert (await scored(episode, "Done.")).hard == 1
        spoil = (
            "chmod 0 calc.py; mkdir -p ../changes.patch/x; ln -s / /tmp/index; mkdir ~/.gitconfig"
        )
        await use(episode, "bash", command=spoil)
        assert (await scored(episode, "Done.")).hard == 1
        await use(episode, "bash", command="cd ..; chmod -R 700 repo; rm -rf repo")
        assert "(status 0)" in await use(episode, "bash", command="pwd")
        assert (await scored(episode, "Done.")).hard == 0


async def test_a_patch_with_which_no_test_runs_is_wrong_if_they_run_without(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        await use(episode, "bash", command="echo 'import os; os._exit(0)' > conftest.py")
        assert (await scored(episode, "Done.")).hard == 0


async def test_tests_that_do_not_run_here_at_all_are_a_failure_and_no_score(repos: Path) -> None:
    script = str(instance(repos)["eval_script"]).replace("pytest -rA", "no_such_program -rA")
    async with opened(made(repos, eval_script=script)) as episode:
        await use(episode, "edit", path="calc.py", old="x - 1", new="x + 1")
        with pytest.raises(EnvironmentFault, match="do not run here, with or without"):
            await scored(episode, "Done.")


async def test_a_patch_that_cannot_be_applied_is_wrong(repos: Path) -> None:
    environment = made(repos)
    gold = environment.gold(environment.tasks("train")[0]).reply or ""
    async with opened(environment) as episode:
        assert (await scored(episode, gold.replace("x - 1", "x ? 1"))).hard == 0


async def test_tests_that_take_too_long_do_not_resolve(repos: Path) -> None:
    environment = made(repos, replace(PLAIN, test_timeout=20))
    async with opened(environment) as episode:
        await use(episode, "bash", command="echo 'import time; time.sleep(100)' >> calc.py")
        score = await scored(episode, "Done.")
        assert (score.hard, "Timed Out" in score.feedback) == (0, True)


async def test_an_agent_with_a_workspace_gets_the_files_and_leaves_them_changed(
    repos: Path,
) -> None:
    environment = made(repos, replace(PLAIN, workspace=True))
    async with opened(environment) as episode:
        assert episode.workspace is not None
        given = episode.workspace.files
        assert sorted(given) == [".gitignore", "calc.py", "tests/test_calc.py"]
        assert not any(CANARY.encode() in content for content in given.values())
        left = {**given, "calc.py": given["calc.py"].replace(b"x - 1", b"x + 1"), ".git/x": b""}
        assert (await scored(episode, "Done.", left)).hard == 1
        assert episode.patch.decode().count("diff --git") == 1
    async with opened(environment) as episode:
        assert (await scored(episode, "Done.", given)).feedback.startswith("no change")


def test_bad_items_are_refused_with_their_place(repos: Path, tmp_path: Path) -> None:
    def complaint(
        settings: SweBench.Settings = PLAIN,
        kind: type[SkilloptError] = DataError,
        **changes: object,
    ) -> str:
        with pytest.raises(kind) as caught:
            made(repos, settings, **changes)
        assert str(caught.value).startswith("train[0]: ")
        return str(caught.value)

    # What the machine lacks is no fault of the item: it can be materialized without.
    clone = complaint(kind=ConfigError, repo="other/repo")
    assert "make one with: git clone https://github.com/other/repo" in clone
    assert "has no commit 'deadbeef'" in complaint(base_commit="deadbeef")
    assert "has no commit '--help'" in complaint(base_commit="--help")
    assert "'FAIL_TO_PASS' should be a list" in complaint(FAIL_TO_PASS="test_x")
    assert "'problem_statement' is empty" in complaint(problem_statement=" ")
    assert "rows of swebench 5" in complaint(eval_script=None)
    empty = replace(PLAIN, environments=tmp_path)
    told = complaint(empty, kind=ConfigError)
    assert "there is no virtual environment for own/calc 1.0" in told


def test_rows_are_split_without_clones_of_their_repositories(
    repos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps(instance(repos, 1)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    materialize_data("swebench", raw, tmp_path / "split", ratio="0:0:1")
    (row,) = json.loads((tmp_path / "split" / "test" / "items.json").read_bytes())
    assert row["id"] == "own__calc-1"


def test_settings_that_cannot_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"env\.max_turns: 0"):
        SweBench(replace(PLAIN, max_turns=0), Splits((), ()))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"env\.engine: docker cannot be found"):
        SweBench(replace(PLAIN, engine="docker"), Splits((), ()))
    monkeypatch.setitem(sys.modules, "swebench", None)
    with pytest.raises(ConfigError, match=r"pip install .*swebench"):
        SweBench(PLAIN, Splits((), ()))


def developer(request: Request) -> Reply | str:
    """Makes the right change if it knows the rule, and another one if it does not."""
    number = re.findall(r"\bf(\d) subtracts", request.messages[1].text)[0]
    if results(request):
        return "Done."
    new = f"x + {number}" if knows_the_rule(request) else f"x * {number}"
    call = {"path": "calc.py", "old": f"x - {number}", "new": new}
    return calling("edit", json.dumps(call))


async def test_a_target_with_tools_resolves_an_issue(repos: Path) -> None:
    async with opened(made(repos)) as episode:
        skill = Skill.parse("Work with great care.")
        trajectory = await Chat(from_callable(developer)).run(episode, skill)
        assert (await episode.score(trajectory)).hard == 1


async def test_a_target_with_a_workspace_resolves_an_issue(repos: Path) -> None:
    def editing(request: Request) -> Reply | str:
        if results(request):
            return "Done."
        call = {"path": "calc.py", "old": "x - 1", "new": "x + 1"}
        return calling("edit_file", json.dumps(call))

    async with opened(made(repos, replace(PLAIN, workspace=True))) as episode:
        harness = Tools(from_callable(editing), Bubblewrap.create())
        trajectory = await harness.run(episode, Skill.parse(""))
        assert (await episode.score(trajectory)).hard == 1


async def test_it_trains_with_a_target_that_edits_the_repository(
    repos: Path, tmp_path: Path
) -> None:
    rows = [instance(repos, number) for number in range(1, 6)] + [instance(repos, 1, version="2")]
    rows[-1]["instance_id"] = "own__calc-6"
    result = await trained(
        "swebench", rows, developer, tmp_path / "run", repos=str(repos), workers=2
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)


@pytest.mark.agents
@real_agents
async def test_it_trains_with_a_real_agent_that_finds_the_repository_in_its_folder(
    agent: str, repos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(task: str) -> str:
        number = re.findall(r"\bf(\d) subtracts", task)[0]
        return f"sed -i 's/x - {number}/x + {number}/' calc.py && ls -a . tests"

    def answer(task: str, printed: str) -> str:
        del task
        assert "test_calc.py" in printed
        return "Done."

    rows = [instance(repos, number) for number in range(1, 5)]
    result, asked = await trained_by_agent(
        *(agent, "swebench", rows, work, answer, tmp_path / "run", monkeypatch), repos=str(repos)
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert not any(CANARY in text or "fix of tomorrow" in text for text in asked)
