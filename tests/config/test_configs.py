"""The configuration files in the repository."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from skillopt.app.run_spec import prepare
from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.config.sections import KEYS
from skillopt.errors import ConfigError

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
    assert (config.train.train_size, config.env.own) == (0, {"max_turns": 1})


def test_the_preset_holds_the_published_protocol(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    bases = [str(CONFIGS / "searchqa/default.yaml"), str(CONFIGS / "presets/paper.yaml")]
    path.write_text(f"_base_: {bases}", encoding="utf-8")
    config = load_config(path)
    optimizer, train = config.optimizer, config.train
    assert (train.num_epochs, train.batch_size, config.gradient.minibatch_size) == (4, 40, 8)
    assert (optimizer.lr_scheduler, optimizer.learning_rate, optimizer.min_learning_rate) == (
        "cosine",
        4,
        2,
    )
    assert (config.evaluation.gate_metric, config.evaluation.use_gate) == ("hard", True)
    assert optimizer.slow_update_gate_with_selection


def test_the_example_of_a_soft_gate_is_ready_to_run() -> None:
    config = load_config(CONFIGS / "examples/soft_gate.yaml")
    brief = prepare(config)
    assert config.evaluation.gate_metric == "soft"
    assert len(brief.environment.tasks("train")) == 24
    assert brief.skill.body.startswith("# Reading customers' notes")


@pytest.mark.parametrize("word", ["", "two words", "- must"])
def test_a_leading_word_is_a_word(word: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"evaluation: {{leading_words: ['{word}']}}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"leading_words.*single word"):
        load_config(path)


def reference() -> ModuleType:
    path = CONFIGS.parent / "scripts" / "reference.py"
    spec = spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_base_file_and_the_page_of_keys_are_up_to_date() -> None:
    writer = reference()
    page = (CONFIGS.parent / "docs" / "configuration.md").read_text("utf-8")
    again = "run `make reference`"
    assert writer.default_yaml() == DEFAULT.read_text("utf-8"), again
    assert writer.page(page) == page, again


def test_the_page_of_the_settings_of_sleep_is_up_to_date() -> None:
    page = (CONFIGS.parent / "docs" / "sleep" / "settings.md").read_text("utf-8")
    assert reference().sleep_page() == page, "run `make reference`"


def test_a_key_that_the_page_lacks_gets_a_row_and_a_wrong_default_is_put_right() -> None:
    writer = reference()
    page = (CONFIGS.parent / "docs" / "configuration.md").read_text("utf-8")
    rows = "| `accumulation` | `1` | micro-batches per step |\n"
    assert rows in page
    assert "| `accumulation` | `1` | micro-batches per step |" in writer.page(
        page.replace(rows, "")
    )
    stale = page.replace("| `batch_size` | `40` |", "| `batch_size` | `39` |")
    assert writer.page(stale) == page
