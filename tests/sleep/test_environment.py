"""Mined tasks as an environment: what a score is, and what is none."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support_sleep import mined

from skillopt.core.chat import Message, Reply, Request, ToolCall, Usage
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Task
from skillopt.errors import EnvironmentFault, Unusable
from skillopt.harness.sandbox import Bubblewrap
from skillopt.model.scripted import from_callable
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS
from skillopt.testing.contracts.environments import Check as Contract
from skillopt_sleep.environment import (
    MinedTasks,
    ReplaySettings,
    Reward,
    obstacles,
    replayable,
)
from skillopt_sleep.learning import DocumentTask, learn
from skillopt_sleep.models import Allowance, NightModels
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import DocumentMemory
from skillopt_sleep.values import Check, MinedTask, Reference

EXACT = Reference(kind="exact", text="42 ct")
RUBRIC = Reference(kind="rubric", text="It apologises and names the date.")
RULES = Reference(
    kind="rule", checks=(Check("contains", "Refs: SHOP-"), Check("not_contains", "simply"))
)


def judging(verdict: str) -> MinedTasks:
    return MinedTasks([mined("r", reference=RUBRIC)]).with_models(
        {"judge": from_callable(lambda _: verdict)}
    )


async def scored(
    environment: MinedTasks, answer: str, *, calls: tuple[str, ...] = (), **more: object
) -> Score:
    task = next(task for split in ("train", "val") for task in environment.tasks(split))
    called = tuple(ToolCall(str(at), name, "{}") for at, name in enumerate(calls))
    async with environment.open(task) as episode:
        said = (Message("user", episode.brief), Message("assistant", answer, calls=called))
        return await episode.score(Trajectory(said, answer, **more))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_mined_tasks_keep_the_contract_of_environments(check: Contract) -> None:
    answers = Reply(text='{"reason": "it says nothing", "verdict": "missed"}')

    async def judge(request: Request) -> Reply:
        return answers

    tasks = [
        mined("a/../b", reference=RULES),
        mined("b", "How much is it?", split="val", reference=EXACT, system="{skill_section}"),
        mined("c", "Say sorry.", split="test", reference=RUBRIC, context="It was late."),
    ]
    environment = MinedTasks(tasks, ReplaySettings(dream_rollouts=2, standing="Be kind."))
    await check(environment.with_models({"judge": from_callable(judge)}))


async def test_the_whole_answer_or_its_last_line_must_be_the_exact_one() -> None:
    environment = MinedTasks([mined(reference=EXACT)])
    assert (await scored(environment, "42 CT")).passed
    assert (await scored(environment, "Let me see.\n42 ct")).passed
    contained = await scored(environment, "142 ct, or 42 ct and a half")
    assert not contained.passed
    assert "expected '42 ct'" in contained.feedback


async def test_every_rule_must_hold_and_the_share_that_does_is_the_soft_score() -> None:
    environment = MinedTasks([mined(reference=RULES)])
    assert (await scored(environment, "fix: it\n\nRefs: SHOP-7")) == Score(1, 1, "passed")
    half = await scored(environment, "fix: it, simply\n\nRefs: SHOP-7")
    assert (half.hard, half.soft) == (0, 0.5)
    assert "does not contain 'simply'" in half.feedback


async def test_a_tool_counts_as_called_only_if_it_was() -> None:
    checks = (Check("tool_called", "Bash"),)
    environment = MinedTasks([mined(reference=Reference(kind="rule", checks=checks))])
    assert not (await scored(environment, "TOOL_CALL: Bash")).passed
    assert (await scored(environment, "done", calls=("Bash",))).passed


@pytest.mark.parametrize(("word", "soft"), [("met", 1.0), ("partly", 0.5), ("missed", 0.0)])
async def test_a_judge_grades_by_the_rubric(word: str, soft: float) -> None:
    score = await scored(judging(f'{{"reason": "so", "verdict": "{word}"}}'), "Sorry, on Monday.")
    assert (score.hard, score.soft) == (float(soft == 1), soft)


@pytest.mark.parametrize("reply", ["95", '{"score": 95}', '{"reason": "a"} {"reason": "b"}'])
async def test_a_judge_that_cannot_be_understood_gives_no_score(reply: str) -> None:
    with pytest.raises(Unusable):
        await scored(judging(reply), "Sorry, on Monday.")


async def test_without_a_judge_there_is_no_score() -> None:
    with pytest.raises(EnvironmentFault, match="judge"):
        await scored(MinedTasks([mined(reference=RUBRIC)]), "Sorry")


def test_a_task_that_nothing_can_check_is_not_attempted() -> None:
    assert replayable(mined(reference=Reference(kind="none")), in_project=True)
    command = mined(reference=Reference(kind="command", text="pytest"))
    assert replayable(command, in_project=False)
    assert not replayable(command, in_project=True)


def test_training_tasks_are_attempted_as_often_as_dreams_ask_and_others_once() -> None:
    tasks = [mined("a"), mined("b", "Something else", split="val")]
    environment = MinedTasks(tasks, ReplaySettings(dream_rollouts=3))
    assert [task.id for task in environment.tasks("train")] == ["a", "a~2", "a~3"]
    assert [task.id for task in environment.tasks("val")] == ["b"]


async def test_only_a_right_answer_earns_by_being_cheap() -> None:
    reward = Reward(accuracy=1, tokens=1, latency=1)
    assert reward(0, 10, 0.1) == 0
    assert reward(1, 10, 0.1) > reward(1, 4000, 0.1) > reward(1, 4000, 60)
    now = iter([0.0, 30.0])
    environment = MinedTasks(
        [mined(reference=RULES)], ReplaySettings(reward=reward), lambda: next(now)
    )
    score = await scored(environment, "Refs: SHOP-1", usage=Usage(1, 1500, 500))
    assert score.hard == 1
    assert score.soft == pytest.approx((1 + 0.5 + 1 / 3) / 3)


def test_what_changes_scores_changes_the_fingerprint() -> None:
    task = [mined()]
    prints = {
        MinedTasks(task, settings).fingerprint
        for settings in (
            ReplaySettings(),
            ReplaySettings(standing="Be kind."),
            ReplaySettings(reward=Reward()),
            ReplaySettings(in_project=True),
        )
    }
    assert len(prints) == 4


def git(folder: Path, *words: str) -> None:
    settings = ("user.name=a", "user.email=a@example.com", "protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *options, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "price.py").write_text("def price():\n    return 1\n")
    (folder / "check.py").write_text("from price import price\nassert price() == 2\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        git(folder, *words)
    return folder


async def test_a_task_whose_project_or_commit_is_gone_is_not_attempted(
    repository: Path, tmp_path: Path
) -> None:
    command = Reference(kind="command", text="python check.py")
    kept = [
        mined(project=repository, reference=command),
        mined(project=repository, reference=command, commit="HEAD"),
        mined(project=tmp_path),
    ]
    gone = [
        mined(project=repository, commit="0123456789" * 4),
        mined(project=tmp_path, commit="0123456789" * 4),
        mined(project=tmp_path, reference=command),
        mined(project=tmp_path / "removed"),
    ]
    assert await obstacles(kept, in_project=True) == ["", "", ""]
    assert await obstacles(gone, in_project=True) == [
        "the commit that it began from is not in the repository",
        "the commit that it began from is not in the repository",
        "its check is a command, which needs a git repository",
        "its project is not there",
    ]
    assert await obstacles(gone[:2], in_project=False) == ["", ""]


@pytest.mark.sandbox
async def test_a_folder_of_a_repository_is_tried_and_tested_where_it_is(repository: Path) -> None:
    shop = repository / "the shop"
    shop.mkdir()
    for name in ("price.py", "check.py"):
        (repository / name).rename(shop / name)
    (repository / "new").mkdir()
    (repository / "new/mine.txt").write_text("not in any commit")
    git(repository, "add", "the shop")
    git(repository, "commit", "-qam", "moved")
    environment = checked_by(shop, "python check.py")
    (task,) = environment.tasks("train")
    async with environment.open(task) as episode:
        assert "`the shop`" in episode.brief
        assert set(episode.given) == {"the shop/price.py", "the shop/check.py"}
        wrong = await episode.score(Trajectory((), "done", files=episode.given))
        mended = {**episode.given, "the shop/price.py": b"def price():\n    return 2\n"}
        right = await episode.score(Trajectory((), "done", files=mended))
    assert (wrong.hard, right.hard) == (0, 1)
    apart = MinedTasks([mined(project=repository / "new")], ReplaySettings(in_project=True))
    async with apart.open(apart.tasks("train")[0]) as episode:
        assert set(episode.given) == {"mine.txt"}
    assert await obstacles([mined(project=shop, commit="HEAD~1")], in_project=True) != [""]


@pytest.mark.sandbox
async def test_a_copy_has_the_submodules_as_they_were_then(
    repository: Path, tmp_path: Path
) -> None:
    for name in ("outer", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("then")
        git(tmp_path / name, "init", "-q")
    git(tmp_path / "inner", "add", "-A")
    git(tmp_path / "inner", "commit", "-qm", "one")
    git(tmp_path / "outer", "submodule", "add", str(tmp_path / "inner"), "deep")
    git(tmp_path / "outer", "add", "-A")
    git(tmp_path / "outer", "commit", "-qm", "one")
    git(repository, "submodule", "add", str(tmp_path / "outer"), "part")
    git(repository, "submodule", "update", "--init", "--recursive")
    git(repository, "commit", "-qm", "two")
    (repository / "part/outer.txt").write_text("now")
    git(repository / "part", "commit", "-qam", "later")

    async def copied() -> dict[str, bytes]:
        environment = MinedTasks([mined(project=repository)], ReplaySettings(in_project=True))
        made = environment.with_sandbox(Bubblewrap.create())
        assert isinstance(made, MinedTasks)
        async with made.open(made.tasks("train")[0]) as episode:
            assert episode.workspace is not None
            return {name: data for name, data in episode.workspace.files.items() if "txt" in name}

    assert await copied() == {"part/outer.txt": b"then", "part/deep/inner.txt": b"then"}
    git(repository, "submodule", "deinit", "--all", "--force")
    shutil.rmtree(repository / ".git/modules")
    assert await copied() == {}


async def test_a_commit_that_git_would_take_for_an_option_is_none(
    repository: Path, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    task = mined(project=repository, commit=f"--index-output={written}")
    assert await obstacles([task], in_project=True) != [""]
    environment = MinedTasks([task], ReplaySettings(in_project=True))
    with pytest.raises(EnvironmentFault, match="has no commit"):
        await scored(environment, "Refs: 1")
    assert not written.exists()


def checked_by(repository: Path, command: str, seconds: float = 60) -> MinedTasks:
    task: MinedTask = mined(
        "price", "Make it 2.", reference=Reference(kind="command", text=command), project=repository
    )
    settings = ReplaySettings(in_project=True, command_seconds=seconds)
    made = MinedTasks([task], settings).with_sandbox(Bubblewrap.create())
    assert isinstance(made, MinedTasks)
    return made


async def left(environment: MinedTasks, price: bytes) -> Score:
    (task,) = environment.tasks("train")
    async with environment.open(task) as episode:
        assert episode.workspace is not None
        assert set(episode.workspace.files) == {"price.py", "check.py"}
        files = {**episode.workspace.files, "price.py": price}
        said = (Message("user", episode.brief), Message("assistant", "done"))
        return await episode.score(Trajectory(said, "done", files=files))


@pytest.mark.sandbox
async def test_a_command_runs_in_a_copy_of_the_project_as_the_agent_left_it(
    repository: Path,
) -> None:
    environment = checked_by(repository, "python3 check.py")
    assert (await left(environment, b"def price():\n    return 2\n")).passed
    failed = await left(environment, b"def price():\n    return 3\n")
    assert failed.hard == 0
    assert "AssertionError" in failed.feedback
    assert (repository / "price.py").read_text() == "def price():\n    return 1\n"


@pytest.mark.sandbox
async def test_an_agent_with_tools_works_in_the_copy_and_is_judged_by_the_command(
    repository: Path, tmp_path: Path
) -> None:
    async def target(request: Request) -> Reply:
        if request.messages[-1].role == "tool":
            return Reply(text="It is done.")
        price = 2 if "price is two" in request.messages[0].text else 1
        script = f"printf 'def price():\\n    return {price}\\n' > price.py"
        return Reply(text="", calls=(ToolCall("1", "bash", json.dumps({"command": script})),))

    def night(skill: str) -> DocumentTask:
        return DocumentTask(
            target="skill",
            path=tmp_path / "SKILL.md",
            learned=skill,
            standing="",
            tasks=[
                mined("one", "Do it.", reference=command, project=repository),
                mined("two", "Do so.", split="val", reference=command, project=repository),
            ],
            memory=DocumentMemory(),
            alpha=0.05,
            folder=tmp_path / f"run{len(skill)}",
        )

    async def optimizer(request: Request) -> Reply:
        return Reply(text='{"reasoning": "", "patterns": [], "edits": []}')

    command = Reference(kind="command", text="python3 check.py")
    settings = Settings(backend="simulated", replay="agent", replicates=1, slow_update=False)
    models = NightModels(target=target, optimizer=optimizer)
    scores: list[float] = []
    for skill in ("- A price is one.", "- A price is two, always."):
        lesson = await learn(night(skill), settings, Allowance(), models)
        assert lesson.failed == ""
        assert lesson.score_before is not None
        scores.append(lesson.score_before.mean)
    assert scores == [0, 1]


@pytest.mark.sandbox
async def test_a_command_that_cannot_be_run_is_no_score(repository: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot be run here"):
        await left(checked_by(repository, "no-such-program --test"), b"")


@pytest.mark.sandbox
async def test_a_command_that_never_ends_is_no_score_unless_the_agent_is_to_blame(
    repository: Path,
) -> None:
    with pytest.raises(EnvironmentFault, match="does not end"):
        await left(checked_by(repository, "sleep 60", seconds=0.5), b"def price():\n    return 2\n")
    endless = await left(checked_by(repository, "python3 check.py", 2), b"while True: pass\n")
    assert endless.hard == 0


async def test_a_task_without_a_repository_gets_a_copy_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("one")
    (folder / ".secret").write_text("hidden")
    environment = MinedTasks([mined(project=folder)], ReplaySettings(in_project=True))
    task: Task = environment.tasks("train")[0]
    async with environment.open(task) as episode:
        assert episode.workspace is not None
        assert episode.workspace.files == {"a.md": b"one"}
