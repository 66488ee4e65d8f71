from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest
from support_cli import Call, Done, skillopt
from support_wire import WireServer, completion, says

from skillopt.app.integrity import check
from skillopt.app.run_spec import prepare
from skillopt.cli.quickstart import CAPABLE, Discovered, make_folder
from skillopt.config.load import load_config


async def test_quickstart_trains_offline_labels_it_simulated_and_is_done_at_once_again(
    tmp_path: Path,
) -> None:
    command = ("quickstart", "--sim", "--out", "my first: run", "--seed", "3")
    (tmp_path / "bin").mkdir()
    found = {"PATH": str(tmp_path / "bin")}
    first = await skillopt(*command, cwd=tmp_path, **found)
    assert first.code == 0, first.err
    assert first.err.startswith("SIMULATED models")
    for text in ("what was learnt (simulated)", "result (simulated)", "\n+- "):
        assert text in first.out
    assert f"not on your PATH; write this instead:\n  {sys.executable} -m skillopt" in first.out
    made = tmp_path / "my first: run"
    for name in ("config.yaml", "skill.md", "data/test/items.jsonl", "run/best_skill.md"):
        assert (made / name).is_file()
    second = await skillopt(*command[:-2], cwd=tmp_path, **found)
    assert second.code == 0
    assert "this run is already finished" in second.err
    assert second.out == first.out
    by_hand = await skillopt("train", "my first: run/config.yaml", cwd=tmp_path)
    assert by_hand.code == 0, by_hand.err
    assert "this run is already finished" in by_hand.err
    other = await skillopt(*command[:-1], "5", cwd=tmp_path)
    assert other.code == 1
    assert "created with seed 3" in other.err


def test_a_folder_with_other_files_is_left_alone_unless_the_user_is_sure(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    done = call("quickstart", "--sim", "--out", ".", cwd=tmp_path)
    assert done.code == 1
    assert "--yes" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_first_job_is_sound_and_asks_the_model_for_every_rule(tmp_path: Path) -> None:
    settings = {"backend": "local", "target": "some.gguf", "optimizer": "some.gguf"}
    make_folder(tmp_path, Discovered("a model", settings), seed=1)
    config = load_config(tmp_path / "config.yaml")
    assert config.gradient.proposer == ("instruct",)
    assert config.train.seed == 1
    rows = [
        json.loads(line)
        for split in ("train", "val", "test")
        for line in (tmp_path / "data" / split / "items.jsonl").read_text("utf-8").splitlines()
    ]
    assert {tuple(row) for row in rows} == {("id", "input", "answer")}
    longest = max(len(row["answer"]) for row in rows)
    assert longest * 4 < config.model.role("target").max_tokens * 3
    found = asyncio.run(check(config))
    assert [each for each in found if each.verdict == "bad"] == []
    assert not prepare(config).data_warnings


def test_the_simulated_run_says_who_proposed_what(call: Call, tmp_path: Path) -> None:
    done = call("quickstart", "--sim", "--out", "first", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "analyst (uses the optimizer model): " in done.out
    assert " accepted" in done.out


def _says_what_to_do(done: Done) -> None:
    assert done.code == 3, done.err
    assert "no reply of the optimizer was usable" in done.err
    assert "What helps:" in done.err
    assert "next" in done.out


async def test_a_quickstart_whose_optimizer_was_never_usable_ends_like_such_a_training(
    tmp_path: Path,
) -> None:
    async with WireServer([says(completion("hello"))]) as server:
        settings = {"backend": "openai_compatible", "base_url": f"{server.url}/v1"}
        means = Discovered("a model", {**settings, "target": "m", "optimizer": "m"}, CAPABLE)
        make_folder(tmp_path / "first", means, seed=0)
        _says_what_to_do(await skillopt("quickstart", "--out", "first", cwd=tmp_path))


async def test_a_simulated_quickstart_whose_optimizer_was_never_usable_ends_the_same_way(
    tmp_path: Path,
) -> None:
    first = await skillopt("quickstart", "--sim", "--out", "first", "--yes", cwd=tmp_path)
    assert first.code == 0, first.err
    async with WireServer([says(completion("hello"))]) as server:
        config = tmp_path / "first" / "config.yaml"
        text = config.read_text("utf-8")
        own = f"model:\n  optimizer_base_url: {server.url}/v1\n"
        config.write_text(text.replace("model:\n", own, 1), encoding="utf-8")
        shutil.rmtree(tmp_path / "first" / "run")
        again = await skillopt("quickstart", "--sim", "--out", "first", "--yes", cwd=tmp_path)
    _says_what_to_do(again)


@pytest.mark.parametrize("flags", [("--sim",), ()])
def test_a_configuration_that_the_quickstart_did_not_make_is_not_trained_with(
    call: Call, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    mine = "train:\n  num_epochs: 1\n"
    (tmp_path / "config.yaml").write_text(mine, encoding="utf-8")
    done = call("quickstart", *flags, "--yes", "--out", ".", cwd=tmp_path)
    assert done.code == 1
    assert "config.yaml was not made by the quickstart" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
    assert (tmp_path / "config.yaml").read_text(encoding="utf-8") == mine
