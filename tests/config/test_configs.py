"""The configuration files in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.config.sections import KEYS

CONFIGS = Path(__file__).parents[2] / "configs"
DEFAULT = CONFIGS / "_base_" / "default.yaml"


def test_the_base_file_says_what_the_schema_says() -> None:
    config = load_config(DEFAULT)
    assert config == Config()
    assert list(config.given) == list(KEYS)
    assert config.env.own == {}


def test_every_key_of_the_base_file_is_explained() -> None:
    keys = [line for line in DEFAULT.read_text("utf-8").splitlines() if re.match(r"  \w", line)]
    assert len(keys) == len(KEYS)
    assert all(re.search(r"  ?# \S", line) for line in keys)


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_can_be_loaded(path: Path) -> None:
    assert load_config(path).warnings == ()


def test_a_feature_can_be_added_to_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    bases = [str(CONFIGS / "searchqa/default.yaml"), str(CONFIGS / "features/soft_gate.yaml")]
    path.write_text(f"_base_: {bases}", encoding="utf-8")
    config = load_config(path)
    assert (config.env.name, config.evaluation.gate_metric) == ("searchqa", "soft")
    assert (config.train.train_size, config.env.own) == (400, {"max_turns": 1})
