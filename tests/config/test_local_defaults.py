"""`model.backend: local` and nothing else."""

from __future__ import annotations

from pathlib import Path

from skillopt.config.load import load_config, load_kept
from skillopt.config.local_models import told_defaults

PRESET = Path(__file__).parents[2] / "configs" / "presets" / "local.yaml"


def test_the_backend_alone_chooses_what_the_preset_says() -> None:
    alone, preset = load_config(values={"model.backend": "local"}), load_config(PRESET)
    kept = {key: value for key, value in alone.values().items() if "max_tokens" not in key}
    assert kept == {key: value for key, value in preset.values().items() if "max_tokens" not in key}
    for role in ("target", "optimizer"):
        assert alone.model.role(role).max_tokens == preset.model.role(role).max_tokens == 256


def test_what_was_chosen_is_told_in_one_line_and_recorded() -> None:
    config = load_config(values={"model.backend": "local"})
    told = told_defaults(config)
    assert told.startswith("small local model: using target=qwen2.5-coder-1.5b, ")
    for text in (
        "proposer=[instruct, patterns]",
        "select_mode=trial and 10 more settings",
        "skillopt config",
    ):
        assert text in told
    assert config.flat()["select_mode"] == "trial"
    assert load_kept(config.flat()) == config
    assert not told_defaults(load_config(PRESET))
    assert not told_defaults(load_config())


def test_what_the_user_sets_wins_and_both_roles_share_one_file() -> None:
    given = {"backend": "local", "target": "my.gguf", "max_tokens": 999, "num_epochs": 3}
    config = load_config(values={**given, "proposer": "analyst"})
    assert [config.model.role(each).model for each in ("target", "optimizer")] == ["my.gguf"] * 2
    assert [config.model.role(each).max_tokens for each in ("target", "optimizer")] == [999] * 2
    assert config.train.num_epochs == 3
    assert config.gradient.proposer == ("analyst",)
    assert "num_epochs" not in told_defaults(config)


def test_a_local_target_of_a_capable_optimizer_changes_nothing_but_its_own_settings() -> None:
    config = load_config(values={"target_backend": "local", "optimizer": "gpt-5.5"})
    plain = load_config(values={"optimizer": "gpt-5.5"})
    assert config.gradient == plain.gradient
    assert config.optimizer == plain.optimizer
    assert config.model.role("optimizer").max_tokens == 16384
    assert config.model.role("target").max_tokens == 256
