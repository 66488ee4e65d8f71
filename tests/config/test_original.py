"""Configurations of the original load here, and what they ask for is done or told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support_cli import skillopt
from support_original import ROOT, samples, write_splits

from skillopt.app.run_spec import prepare
from skillopt.config.load import load_config
from skillopt.errors import ConfigError
from skillopt.testing.simulator import Simulator

OURS = Path(__file__).parent / "original"
FILES = (
    "_base_/default.yaml",
    "alfworld/default.yaml",
    "docvqa/default.yaml",
    "features/soft_gate.yaml",
    "livemathematicianbench/default.yaml",
    "officeqa/default.yaml",
    "searchqa/default.yaml",
    "spreadsheetbench/default.yaml",
)
HERE = ("docvqa", "livemathematicianbench")


def theirs(name: str) -> Path:
    return samples() / "configs" / name


def ours(name: str) -> Path:
    return OURS / name


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_original_loads_without_a_warning(name: str) -> None:
    config = load_config(theirs(name))
    assert config.warnings == ()


def test_values_of_the_original_arrive_with_their_types() -> None:
    config = load_config(theirs("searchqa/default.yaml"))
    values = config.values()
    assert values["model.minimax_temperature"] == 0.7
    assert values["model.minimax_max_tokens"] == 8000
    assert values["model.minimax_enable_thinking"] is False
    assert values["model.target_max_tokens"] == 16384
    assert config.env.own == {"max_turns": 1}


@pytest.mark.parametrize("name", ["alfworld", "docvqa", "livemathematicianbench", "officeqa"])
def test_a_benchmark_of_the_original_lacks_nothing_but_its_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = theirs(f"{name}/default.yaml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match=r"env\.(split_dir|skill_init|name): .*(data/|skills/|pip)"
    ):
        prepare(load_config(file))


@pytest.mark.parametrize("name", HERE)
def test_a_file_of_the_original_names_the_command_that_makes_its_data(name: str) -> None:
    with pytest.raises(ConfigError, match=f"skillopt materialize {name} --manifest"):
        prepare(load_config(theirs(f"{name}/default.yaml")))


@pytest.mark.parametrize(
    "config",
    [lambda: theirs("searchqa/default.yaml"), lambda: ours("searchqa.yaml")],
    ids=["theirs", "ours"],
)
async def test_searchqa_trains_two_steps_with_the_file_of_the_original(
    config: Callable[[], Path], tmp_path: Path
) -> None:
    data = write_splits(tmp_path / "split", (16, 8, 8))
    async with Simulator(seed=1) as sim:
        done = await skillopt(
            *("train", "--config", str(config()), "--split_dir", str(data)),
            *("--num_epochs", "1", "--batch_size", "8", "--out_root", str(tmp_path / "run")),
            *("--optimizer_backend", "openai_compatible", "--target_backend", "openai_compatible"),
            *("--optimizer_model", "simulated-optimizer", "--target_model", "simulated-target"),
            f"model.base_url={sim.url}",
            cwd=ROOT,
        )
    assert done.code == 0, done.err
    assert len(json.loads((tmp_path / "run" / "history.json").read_text(encoding="utf-8"))) == 2
    assert "train.train_size is 400, but the train split has 16 items; all are used" in done.err


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("model: {temperature: '0.7'}", "model.temperature", 0.7),
        ("model: {max_tokens: '8000'}", "model.max_tokens", 8000),
        ("model: {temperature: ''}", "model.temperature", None),
        ("model: {claude_chat_thinking: '2048'}", "model.claude_chat_thinking", 2048),
        ("model: {codex_exec_use_sdk: 'true'}", "model.codex_exec_use_sdk", True),
        ("model: {codex_exec_use_sdk: 'cli'}", "model.codex_exec_use_sdk", "cli"),
        ("gradient: {failure_only: 'yes'}", "gradient.failure_only", True),
        ("evaluation: {use_gate: 'false'}", "evaluation.gate", "always"),
        ("train: {seed: '-3'}", "train.seed", -3),
    ],
)
def test_a_number_or_switch_may_stand_in_quotes(
    tmp_path: Path, text: str, key: str, value: object
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_config(path).values()[key] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {seed: '42 '}", "train.seed: should be a whole number"),
        ("train: {seed: '4.5'}", "train.seed: should be a whole number"),
        ("train: {batch_size: 'true'}", "train.batch_size: should be a whole number"),
        ("train: {batch_size: true}", "train.batch_size: should be a whole number"),
        ("train: {batch_size: ''}", "train.batch_size: should be a whole number"),
        ("gradient: {failure_only: '1'}", "gradient.failure_only: should be true or false"),
        ("gradient: {failure_only: 1}", "gradient.failure_only: should be true or false"),
        ("model: {claude_chat_thinking: '500'}", "model.claude_chat_thinking: "),
        ("model: {codex_exec_sandbox: none}", "model.codex_exec_sandbox: should be "),
    ],
)
def test_quotes_make_nothing_else_a_number_or_switch(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(message)


def test_keys_of_agents_have_an_effect_and_are_not_warned_of() -> None:
    config = load_config(
        ours("base.yaml"),
        overrides=["codex_exec_sandbox=read-only", "cursor_exec_path=/opt/cursor"],
    )
    assert not [each for each in config.warnings if "exec" in each]
    assert config.model.options("codex_exec", "target")["sandbox"] == "read-only"
    assert config.model.options("cursor_exec", "target")["path"] == "/opt/cursor"


def test_a_blank_value_of_a_role_leaves_the_shared_one_in_force() -> None:
    config = load_config(
        ours("base.yaml"),
        overrides=["azure_openai_endpoint=https://a.example", "qwen_chat_thinking_mode=disabled"],
    )
    assert config.model.role("target").extra["endpoint"] == "https://a.example"
    qwen = load_config(
        ours("base.yaml"),
        overrides=["target_backend=qwen_chat", "qwen_chat_thinking_mode=disabled"],
    )
    assert qwen.model.role("target").extra["thinking_mode"] == "disabled"


def test_the_old_script_takes_the_old_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/train.py"), "--config", str(ours("searchqa.yaml"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "data/searchqa_split" in done.stderr
