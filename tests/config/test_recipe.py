"""Which search a run uses where its user set nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.load import load_config, load_kept
from skillopt.config.recipe import RECIPE, told_recipe
from skillopt.config.schema import Config

CONFIGS = Path(__file__).parents[2] / "configs"


def custom(**given: object) -> Config:
    settings = {key.replace("__", "."): value for key, value in given.items()}
    return load_config(values={"env.name": "custom", **settings})


def uses_recipe(config: Config) -> bool:
    return config.optimizer.select_mode == "credit"


def test_tasks_of_ones_own_are_trained_by_the_recipe_and_it_is_told() -> None:
    for name in ("custom", "my_house:Tasks"):
        config = load_config(values={"env.name": name})
        values = config.values()
        assert {key: values[key] for key in RECIPE} == RECIPE
        assert told_recipe(config) == "recipe: credit, for tasks of your own (docs/efficient.md)"
        assert load_kept(config.flat()) == config


def test_a_benchmark_keeps_the_published_protocol_and_it_is_told() -> None:
    config = load_config(values={"env.name": "searchqa"})
    assert not uses_recipe(config)
    assert told_recipe(config) == "recipe: the published protocol"
    for file in ("searchqa/default.yaml", "_base_/default.yaml"):
        assert told_recipe(load_config(CONFIGS / file)) == "recipe: the published protocol"


def test_the_efficient_preset_is_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    bases = [str(CONFIGS / "searchqa/default.yaml"), str(CONFIGS / "presets/efficient.yaml")]
    path.write_text(f"_base_: {bases}", encoding="utf-8")
    values = load_config(path).values()
    assert {key: values[key] for key in RECIPE} == RECIPE
    assert told_recipe(load_config(path)) == "recipe: credit (docs/efficient.md)"


def test_with_the_paper_preset_tasks_of_ones_own_follow_the_published_protocol() -> None:
    config = load_config(CONFIGS / "presets/paper.yaml", values={"env.name": "custom"})
    assert told_recipe(config) == "recipe: the published protocol"
    assert config.evaluation.gate == "strict"


def test_what_the_user_sets_wins_and_is_named() -> None:
    config = custom(train__num_epochs=2, evaluation__gate="paired")
    assert uses_recipe(config)
    assert (config.train.num_epochs, config.evaluation.gate) == (2, "paired")
    assert "but train.num_epochs, evaluation.gate (" in told_recipe(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optimizer.select_mode", "ranking"),
        ("optimizer.skill_update_mode", "rewrite_from_suggestions"),
        ("optimizer.candidates", 3),
        ("optimizer.use_skill_aware_reflection", True),
    ],
)
def test_whoever_chooses_another_search_gets_nothing_of_the_recipe(key: str, value: object) -> None:
    config = load_config(values={"env.name": "custom", key: value})
    assert not uses_recipe(config)
    assert config.evaluation.gate == "strict"
    assert config.train.repeat_solved


def test_a_learning_rate_or_a_gate_that_is_switched_off_stays_so() -> None:
    assert custom(optimizer__learning_rate=2).optimizer.lr_control_mode == "fixed"
    assert custom(evaluation__use_gate=False).evaluation.gate == "always"


def test_a_small_local_optimizer_has_settings_of_its_own() -> None:
    assert custom(model__backend="local").evaluation.gate == "strict"


def test_other_settings_are_told_as_ones_own() -> None:
    config = load_config(values={"env.name": "searchqa", "evaluation.gate": "paired"})
    assert told_recipe(config) == "recipe: settings of your own"
