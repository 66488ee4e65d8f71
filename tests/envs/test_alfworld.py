from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support_alfworld import ROOMS, installed, write_game
from support_benchmarks import calling, knows_the_rule, sample, scored, trained

from skillopt.aio import map_all
from skillopt.app.data import materialize_data
from skillopt.core.chat import Reply, Request
from skillopt.core.episode import NextTurn
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.datasets.rows import rows_of
from skillopt.datasets.splits import Splits, from_directory
from skillopt.envs.alfworld.env import AlfWorld, TextGame
from skillopt.envs.alfworld.game import playing
from skillopt.errors import ConfigError, DataError, EnvironmentFault
from skillopt.harness.chat import Chat
from skillopt.model.scripted import from_callable
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS

PLAIN = AlfWorld.Settings(max_steps=8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    installed()
    return tmp_path / "games"


def made(root: Path, settings: AlfWorld.Settings = PLAIN, **changes: object) -> AlfWorld:
    train, val = {**write_game(root, 0), **changes}, write_game(root, 5, "valid_seen")
    splits = Splits(tuple(rows_of([train], "train")), tuple(rows_of([val], "val")))
    return AlfWorld(replace(settings, data_root=root), splits)


def walkthrough(file: Path) -> list[str]:
    return json.loads(file.read_text(encoding="utf-8"))["walkthrough"]


@asynccontextmanager
async def by_text(
    environment: AlfWorld, task: Task | None = None
) -> AsyncGenerator[TextGame, None]:
    async with environment.open(task or environment.tasks("train")[0]) as episode:
        assert isinstance(episode, TextGame)
        yield episode


def workers() -> set[int]:
    """Processes of games that this process has started."""
    found = set[int]()
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes()
            parent = int(
                (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
        except (OSError, IndexError):
            continue
        if b"alfworld/worker.py" in line and parent == os.getpid():
            found.add(int(folder.name))
    return found


def solver(request: Request) -> str:
    """Looks everywhere for the thing of the task, and brings it where it belongs."""
    seen = request.messages[-1].text
    offered = seen.partition("## Possible commands")[2].splitlines()
    thing, goal = re.findall(r"put a (\w+) in (\w+)\.", seen)[0]
    steps = int((re.findall(r"You have taken (\d+)", seen) or ["0"])[0])
    takes = [line for line in offered if line.startswith(f"take {thing} 1 from")]
    moves = [line for line in offered if line.startswith(f"move {thing} 1 to")]
    last = f"move {thing} 1 to {goal} 1"
    if last in offered:
        command = last
    elif moves:
        command = f"go to {goal} 1"
    else:
        command = (takes or [f"go to {ROOMS[steps % len(ROOMS)].lower()} 1"])[0]
    return f"<think>Next.</think><action>{command}</action>"


def player(request: Request) -> str:
    """Plays well if it knows the rule, and looks around if it does not."""
    return solver(request) if knows_the_rule(request) else "<action>look</action>"


@pytest.mark.parametrize("actions", ["text", "tool"])
async def test_it_keeps_the_contract_of_environments(root: Path, actions: str) -> None:
    settings = replace(PLAIN, actions="text" if actions == "text" else "tool")
    environment = made(root, settings)
    for check in ENVIRONMENT_CHECKS:
        await check(environment)
    assert workers() == set()


async def test_a_game_is_won_by_its_walkthrough_and_lost_otherwise(root: Path) -> None:
    environment = made(root)
    task = environment.tasks("train")[0]
    async with environment.open(task) as episode:
        assert (await scored(episode, "")).hard == 0
        for command in walkthrough(root / str(task.data["gamefile"])):
            await episode.game.act(command)
        score = await scored(episode, "")
    assert (score.hard, score.feedback) == (1, "won: after 4 steps")


async def test_a_folder_of_games_may_be_relative(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = write_game(root, 0)
    monkeypatch.chdir(root)
    async with playing(Path(str(row["gamefile"])), max_steps=3, seconds=120) as game:
        assert "Your task is to" in game.state.observation


async def test_a_turn_tells_the_task_the_last_steps_and_the_possible_commands(root: Path) -> None:
    environment = made(root, replace(PLAIN, history=1))
    async with by_text(environment) as episode:
        assert "Your task is to: put a book in desk." in episode.brief
        assert "\nhelp" not in episode.brief
        turn = NextTurn("")
        for command in ("go to shelf 1", "go to bed 1", "look"):
            turn = await episode.respond(f"<think>x</think><action>{command}</action>")
            assert turn is not None
        assert turn.fresh
        assert "put a book in desk." in turn.text
        assert "You have taken 3 of at most 8 steps." in turn.text
        assert "> go to bed 1" in turn.text
        assert "> look" in turn.text
        assert "> go to shelf 1" not in turn.text
        assert "take book 1 from bed 1" in turn.text.partition("## Possible commands")[2]


async def test_a_reply_without_an_action_looks_and_an_impossible_one_does_nothing(
    root: Path,
) -> None:
    environment = made(root)
    async with by_text(environment) as episode:
        await episode.respond("I am lost.")
        turn = await episode.respond("<action>fly to\nthe moon</action>")
        assert [step[0] for step in episode.game.steps] == ["look", "fly to the moon"]
        assert turn is not None
        assert "Nothing happens." in turn.text


async def test_a_game_that_is_not_won_after_all_steps_is_lost(root: Path) -> None:
    environment = made(root, replace(PLAIN, max_steps=3))
    async with by_text(environment) as episode:
        harness = Chat(from_callable(lambda request: "<action>look</action>"))
        trajectory = await harness.run(episode, Skill.parse(""))
        score = await episode.score(trajectory)
    assert (trajectory.turns, trajectory.reached_limit) == (3, "")
    assert score.feedback == "not won: the task is not done after all 3 steps, at last 'look'"


async def test_a_model_with_tools_wins_by_calling_one(root: Path) -> None:
    environment = made(root, replace(PLAIN, actions="tool"))
    task = environment.tasks("train")[0]
    plan = walkthrough(root / str(task.data["gamefile"]))

    def acting(request: Request) -> Reply | str:
        done = sum(message.role == "tool" for message in request.messages)
        return calling("act", json.dumps({"command": plan[done]})) if done < len(plan) else "Done."

    async with environment.open(task) as episode:
        trajectory = await Chat(from_callable(acting)).run(episode, Skill.parse(""))
        assert (await episode.score(trajectory)).hard == 1
    assert trajectory.messages[-2].text.endswith("The game is over.")


async def test_it_trains_with_a_target_that_plays_by_text(root: Path, tmp_path: Path) -> None:
    rows = [write_game(root, number, "train") for number in range(6)]
    result = await trained(
        "alfworld", rows, player, tmp_path / "run", data_root=str(root), max_steps=8, workers=2
    )
    assert result.state.initial.value == 0.0
    assert (result.score, result.test_score) == (1.0, 1.0)
    assert workers() == set()


async def test_eight_games_are_played_at_once_and_leave_no_process_behind(root: Path) -> None:
    rows = [write_game(root, number) for number in range(8)]

    async def won(row: dict[str, object]) -> bool:
        file = root / str(row["gamefile"])
        async with playing(file, max_steps=8, seconds=120) as game:
            for command in walkthrough(file):
                await game.act(command)
            return game.state.won

    assert await map_all(won, rows) == [True] * 8
    assert workers() == set()


async def test_a_game_that_is_given_up_leaves_neither_process_nor_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    row = write_game(root, 0)
    file = root / str(row["gamefile"])
    started = asyncio.Event()

    async def play() -> None:
        async with playing(file, max_steps=8, seconds=120):
            started.set()
            await asyncio.Event().wait()

    for when in ("while it starts", "in the middle"):
        task = asyncio.ensure_future(play())
        if when == "in the middle":
            await started.wait()
        else:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert workers() == set()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("skillopt-")]  # noqa: PTH208


async def test_games_end_with_a_process_that_is_killed(root: Path) -> None:
    file = root / str(write_game(root, 0)["gamefile"])
    script = f"""
import asyncio
from pathlib import Path
from skillopt.envs.alfworld.game import playing
async def main():
    async with playing(Path({str(file)!r}), max_steps=8, seconds=120) as game:
        print(game.process.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    game = int(await parent.stdout.readline())
    ended = os.pidfd_open(game)
    parent.kill()
    await parent.wait()
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(ended, gone.set)
    await gone.wait()
    asyncio.get_running_loop().remove_reader(ended)
    os.close(ended)


async def broken(file: Path, act: Callable[[int], None], seconds: float = 120) -> str:
    async with playing(file, max_steps=8, seconds=120) as game:
        game.seconds = seconds  # the start may take long where much else is going on
        act(game.process.pid)
        with pytest.raises(EnvironmentFault) as caught:
            await game.act("look")
    assert workers() == set()
    return str(caught.value)


async def test_a_game_that_breaks_is_a_failure_and_no_lost_game(root: Path) -> None:
    file = root / str(write_game(root, 0)["gamefile"])
    assert "ended by itself" in await broken(file, lambda pid: os.kill(pid, signal.SIGKILL))
    assert "did not answer within 3 s" in await broken(
        file, lambda pid: os.kill(pid, signal.SIGSTOP), 3
    )
    game = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**game, "pddl_problem": "(define"}), encoding="utf-8")
    with pytest.raises(EnvironmentFault, match="the game"):
        await playing(file, max_steps=8, seconds=120).__aenter__()


@pytest.mark.parametrize(
    ("gamefile", "content", "complaint"),
    [
        ("json_2.1.1/nowhere/game.tw-pddl", None, "cannot be read (No such file or directory)"),
        ("bad.tw-pddl", "{", "not a game.tw-pddl file"),
        ("bad.tw-pddl", '{"grammar": ""}', "is no game, it has no 'pddl_domain'"),
        (5, None, "'gamefile' must be text, found a number"),
    ],
)
def test_a_game_that_is_none_is_refused_with_its_place(
    root: Path, gamefile: object, content: str | None, complaint: str
) -> None:
    root.mkdir()
    if content is not None:
        (root / "bad.tw-pddl").write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        made(root, gamefile=gamefile)
    assert str(caught.value).startswith("train[0]: ")
    assert complaint in str(caught.value)


def test_an_attempt_counts_for_the_game_as_it_was(root: Path) -> None:
    first: Task = made(root).tasks("train")[0]
    file = root / str(first.data["gamefile"])
    game = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**game, "solvable": False}), encoding="utf-8")
    rows = rows_of([{key: first.data[key] for key in ("id", "gamefile", "task_type")}], "train")
    again = AlfWorld(replace(PLAIN, data_root=root), Splits(tuple(rows), ()))
    assert again.tasks("train")[0].digest != first.digest


async def test_the_walkthrough_is_shown_to_nobody(root: Path) -> None:
    environment = made(root)
    async with by_text(environment) as episode:
        shown = f"{episode.instructions}{episode.brief}{environment.tasks('train')[0].data}"
        assert "move book 1 to desk 1" not in shown
        assert "walkthrough" not in shown


def test_games_of_the_official_folder_are_listed_without_those_that_are_left_out(
    root: Path,
) -> None:
    write_game(root, 0)
    for name in (
        "pick_two_obj_and_place-AppleSliced-None-Fridge-1",
        "movable_recep-Pen-Mug-Desk-1",
    ):
        (root / "json_2.1.1/train" / name / "trial_1").mkdir(parents=True)
        (root / "json_2.1.1/train" / name / "trial_1/game.tw-pddl").touch()
    (item,) = AlfWorld.read_raw(root)
    assert item.row.data["task_type"] == "pick_and_place_simple"
    assert item.files == (item.row.data["gamefile"],)
    with pytest.raises(DataError, match="alfworld-download fetches the games"):
        list(AlfWorld.read_raw(root / "json_2.1.1"))


def test_a_manifest_of_paths_is_materialised_with_its_own_ids(root: Path, tmp_path: Path) -> None:
    for number, split in enumerate(("train", "val", "test")):
        row = write_game(root, number)
        folder = tmp_path / "manifest" / split
        folder.mkdir(parents=True)
        (folder / "items.json").write_text(json.dumps([row]), encoding="utf-8")
    made_data = materialize_data(
        "alfworld", root, tmp_path / "split", manifest=tmp_path / "manifest"
    )
    assert made_data.counts == {"train": 1, "val": 1, "test": 1}
    environment = AlfWorld(PLAIN, from_directory(tmp_path / "split"))
    assert [task.id for task in environment.tasks("test")] == ["train:0002"]


def test_without_the_packages_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(ConfigError, match=r"pip install .*alfworld"):
        AlfWorld(PLAIN, Splits((), ()))


async def test_every_real_game_is_won_by_replaying_its_walkthrough_through_an_episode() -> None:
    installed()
    folder = sample("alfworld")
    rows = [dict(item.row.data) for item in AlfWorld.read_raw(folder)]
    own = sorted((folder / "own_generated").glob("*/*/game.tw-pddl"))
    rows += [{"id": file.parts[-3], "gamefile": str(file)} for file in own]
    assert len(rows) == 30
    settings = replace(PLAIN, max_steps=50, data_root=folder)
    environment = AlfWorld(settings, Splits(tuple(rows_of(rows, "real")), ()))
    tasks = asyncio.Semaphore(2)

    async def replayed(task: Task) -> float:
        async with tasks, by_text(environment, task) as episode:
            for command in walkthrough(folder / str(task.data["gamefile"])):
                await episode.respond(f"<action>{command}</action>")
            return (await scored(episode, "")).hard

    assert await map_all(replayed, environment.tasks("train")) == [1.0] * 30
