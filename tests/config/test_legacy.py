from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.load import load_config
from skillopt.config.names import NAMES
from skillopt.config.sections import KEYS
from skillopt.errors import ConfigError

SPELLINGS = [
    ("edit_budget", "7", "optimizer.learning_rate"),
    ("min_edit_budget", "7", "optimizer.min_learning_rate"),
    ("optimizer_model", "m", "model.optimizer"),
    ("teacher_model", "m", "model.optimizer"),
    ("model.teacher", "m", "model.optimizer"),
    ("model.teacher_model", "m", "model.optimizer"),
    ("teacher", "m", "model.optimizer"),
    ("optimizer", "m", "model.optimizer"),
    ("target_model", "m", "model.target"),
    ("student_model", "m", "model.target"),
    ("model.student", "m", "model.target"),
    ("teacher_backend", "compat", "model.optimizer_backend"),
    ("model.student_backend", "compat", "model.target_backend"),
    ("student_max_tokens", "7", "model.target_max_tokens"),
    ("model.teacher_reasoning_effort", "low", "model.optimizer_reasoning_effort"),
    ("model_backend", "scripted", "model.backend"),
    ("backend", "scripted", "model.backend"),
    ("judge_model", "m", "model.judge"),
    ("env.judge_model", "m", "model.judge"),
    ("env.judge_retries", "7", "model.judge_retries"),
    ("judge_max_completion_tokens", "7", "model.judge_max_tokens"),
    ("env", "searchqa", "env.name"),
    ("num_epochs", "7", "train.num_epochs"),
    ("split_dir", "d", "env.split_dir"),
    ("optimizer.edit_budget", "7", "optimizer.learning_rate"),
    ("max_turns", "7", "env.max_turns"),
    ("env.anything", "7", "env.anything"),
]


def yaml_of(name: str, value: str) -> str:
    section, dot, key = name.partition(".")
    return f"{section}:\n  {key}: {value}\n" if dot else f"{name}: {value}\n"


@pytest.mark.parametrize(("name", "value", "key"), SPELLINGS)
def test_a_name_means_the_same_in_yaml_overrides_flags_and_arguments(
    tmp_path: Path, name: str, value: str, key: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml_of(name, value), encoding="utf-8")
    typed = int(value) if value.isdigit() else value
    loaded = [
        load_config(path),
        load_config(overrides=[f"{name}={value}"]),
        load_config(values={name: typed}),
    ]
    if "." not in name:
        loaded += [load_config(flags={name: value})]
        loaded += [load_config(flags={f"--{name.replace('_', '-')}": value})]
    for config in loaded:
        assert config.values()[key] == typed
        assert list(config.given) == [key]


def test_every_key_of_the_schema_has_a_flat_flag() -> None:
    assert set(KEYS) <= set(NAMES.values())


def test_every_role_flag_has_its_older_name() -> None:
    flags = NAMES
    for new, old in (("optimizer", "teacher"), ("target", "student")):
        names = [name for name in flags if name.startswith(f"{new}_")]
        assert len(names) >= 15
        assert all(flags[name.replace(new, old, 1)] == flags[name] for name in names)


def test_a_misspelt_flag_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(flags={"num-epoch": "3"})
    assert str(caught.value) == (
        "num_epoch: unknown key; did you mean 'num_epochs'? [command line (--num_epoch 3)]"
    )


@pytest.mark.parametrize("text", ["train.seed", "--seed", "=3", "train.=3", ".seed=3", ""])
def test_an_override_of_the_wrong_form_shows_the_right_one(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides=[text, "also wrong"])
    assert str(caught.value).splitlines() == [
        f"{text!r} is not an override; write key=value, as in train.num_epochs=2",
        "'also wrong' is not an override; write key=value, as in train.num_epochs=2",
    ]


def test_an_override_may_hold_further_equal_signs_and_spaces() -> None:
    config = load_config(overrides=["model.base_url = http://h/v1?a=b"])
    assert config.model.base_url == "http://h/v1?a=b"


def test_later_overrides_win_and_reach_into_mappings() -> None:
    config = load_config(
        overrides=["seed=1", "train.seed=2", "env.a={x: 1, y: 2}", "env.a.x=3", "env.a.z.q=[4]"]
    )
    assert config.train.seed == 2
    assert config.env.own == {"a": {"x": 3, "y": 2, "z": {"q": [4]}}}


@pytest.mark.parametrize("name", ["gradient.proposer", "optimizer.proposer", "proposer"])
def test_the_proposer_is_known_in_two_sections(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml_of(name, "[analyst, explore]"), encoding="utf-8")
    assert load_config(path).gradient.proposer == ("analyst", "explore")
    assert load_config(overrides=[f"{name}=explore"]).gradient.proposer == ("explore",)
    with pytest.raises(ConfigError, match=r"gradient\.proposer"):
        load_config(overrides=[f"{name}=exploring"])


@pytest.mark.parametrize(
    ("alias", "mode"),
    [
        ("edits", "patch"),
        ("rewrite", "rewrite_from_suggestions"),
        ("suggestions", "rewrite_from_suggestions"),
        ("rewrite_suggestions", "rewrite_from_suggestions"),
        ("full_rewrite", "full_rewrite_minibatch"),
        ("minibatch_full_rewrite", "full_rewrite_minibatch"),
        ("skill_rewrite_minibatch", "full_rewrite_minibatch"),
    ],
)
def test_update_modes_have_the_names_they_had(alias: str, mode: str) -> None:
    config = load_config(overrides=[f"optimizer.skill_update_mode={alias}"])
    assert config.optimizer.skill_update_mode == mode


def test_an_unknown_update_mode_is_an_error() -> None:
    with pytest.raises(ConfigError, match="skill_update_mode"):
        load_config(overrides=["skill_update_mode=patches"])
