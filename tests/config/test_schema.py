from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from skillopt.config.load import load_config
from skillopt.config.model_section import ModelSection
from skillopt.config.schema import Config, settings_for
from skillopt.config.sections import EnvSection, EvaluationSection
from skillopt.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    input: str
    scorer: str | Callable[..., float] = "exact"
    columns: tuple[str, ...] = ()
    choices: str | list[str] = ""
    tolerance: float = 0.0


def score(answer: str) -> float:
    return float(len(answer))


def test_the_shared_backend_fills_both_roles() -> None:
    model = load_config(overrides=["backend=openai-compatible"]).model
    assert model.role("optimizer").backend == "openai_compatible"
    assert model.role("target").backend == "openai_compatible"


def test_a_role_with_a_backend_of_its_own_keeps_it() -> None:
    model = load_config(overrides=["backend=compat", "target_backend=scripted"]).model
    assert model.role("optimizer").backend == "openai_compatible"
    assert model.role("target").backend == "scripted"
    model = load_config(overrides=["backend=compat", "target_backend=openai"]).model
    assert model.role("target").backend == "openai_chat"


@pytest.mark.parametrize("alias", ["azure", "azure_openai", "openai", "openai_chat"])
def test_aliases_of_a_backend_are_resolved(alias: str) -> None:
    assert ModelSection(backend=alias).role("target").backend == "openai_chat"


@pytest.mark.parametrize(
    ("label", "target", "optimizer"),
    [
        ("anthropic", "claude_chat", "claude_chat"),
        ("claude", "claude_chat", "claude_chat"),
        ("codex", "codex_exec", "codex_cli"),
        ("codex_exec", "codex_exec", "codex_cli"),
        ("codex_cli", "codex_cli", "codex_cli"),
        ("claude_code_exec", "claude_code_exec", "claude_cli"),
        ("copilot", "copilot_chat", "copilot_chat"),
        ("copilot_cli", "copilot_chat", "copilot_chat"),
        ("github_copilot", "copilot_chat", "copilot_chat"),
        ("copilot_exec", "copilot_exec", "copilot_chat"),
        ("cursor", "cursor_exec", "cursor_exec"),
        ("cursor_agent", "cursor_exec", "cursor_exec"),
        ("qwen", "qwen_chat", "qwen_chat"),
        ("minimax", "minimax_chat", "minimax_chat"),
    ],
)
def test_one_name_fills_all_roles_and_agents_are_text_models_where_text_is_written(
    label: str, target: str, optimizer: str
) -> None:
    model = load_config(flags={"backend": label}).model
    assert model.role("target").backend == target
    assert model.role("optimizer").backend == model.role("judge").backend == optimizer


def test_a_judge_that_is_not_mentioned_is_the_optimizer() -> None:
    model = load_config(
        overrides=[
            "optimizer=big", "optimizer_backend=compat", "optimizer_base_url=http://a",
            "optimizer_api_key_env=A", "optimizer_temperature=0", "retries=2",
        ]
    ).model  # fmt: skip
    judge, optimizer = model.role("judge"), model.role("optimizer")
    assert judge == replace(optimizer, role="judge")
    assert judge.lender == "optimizer"


def test_a_judge_may_be_another_model_on_the_server_of_the_optimizer() -> None:
    model = load_config(
        overrides=["judge_model=j", "judge_retries=0", "optimizer_base_url=http://a"]
    ).model
    judge = model.role("judge")
    assert (judge.model, judge.retries, judge.base_url) == ("j", 0, "http://a")


def test_a_judge_on_a_server_of_its_own_takes_nothing_from_the_optimizer() -> None:
    model = load_config(
        overrides=[
            "judge=j", "judge_base_url=http://b", "optimizer_base_url=http://a",
            "optimizer_api_key_env=A", "optimizer_backend=compat", "temperature=1",
        ]
    ).model  # fmt: skip
    judge = model.role("judge")
    assert (judge.backend, judge.base_url, judge.api_key_env) == (
        "openai_compatible", "http://b", "",
    )  # fmt: skip
    assert (judge.lender, judge.temperature) == ("judge", 1.0)


def test_a_judge_on_a_server_of_its_own_needs_a_name() -> None:
    model = load_config(overrides=["judge_backend=compat"]).model
    with pytest.raises(ConfigError, match=r"model\.judge: should name the judge's model"):
        model.role("judge")


def test_a_role_takes_its_own_value_before_the_shared_one_even_zero() -> None:
    model = load_config(
        overrides=[
            "temperature=0.7", "target_temperature=0", "retries=3", "optimizer_retries=0",
            "input_price=2.5", "target_input_price=0", "base_url=http://a", "target_base_url=",
        ]
    ).model  # fmt: skip
    optimizer, target = model.role("optimizer"), model.role("target")
    assert (optimizer.temperature, target.temperature) == (0.7, 0.0)
    assert (optimizer.retries, target.retries) == (0, 3)
    assert (optimizer.input_price, target.input_price) == (2.5, 0.0)
    assert (optimizer.model, optimizer.max_tokens) == ("gpt-5.5", 16384)


def test_a_blank_role_address_is_the_shared_one_and_quotes_make_it_blank() -> None:
    shared = load_config(overrides=["base_url=http://a", "target_base_url="]).model
    assert shared.role("target").base_url == "http://a"
    blank = load_config(overrides=["base_url=http://a", "target_base_url=''"]).model
    assert blank.role("target").base_url == ""


def test_an_environment_gets_its_own_settings_in_its_own_types() -> None:
    config = load_config(
        overrides=[
            "env=custom", "env.input=2024", "env.scorer=1e3", "env.columns=[1, yes, c]",
            "env.choices=[1, 2]", "env.tolerance=1",
        ]
    )  # fmt: skip
    assert settings_for(Own, config) == Own(
        input="2024", scorer="1e3", columns=("1", "yes", "c"), choices=["1", "2"], tolerance=1.0
    )


def test_an_environment_may_be_given_a_function() -> None:
    config = load_config(values={"env.input": "q", "env.scorer": score})
    assert settings_for(Own, config).scorer is score
    name = f"{score.__module__}:score"
    assert config.flat()["scorer"] == name
    assert json.loads(config.identity()["env.scorer"]) == name


def test_a_value_put_in_later_counts_instead_of_the_one_given_first() -> None:
    config = load_config(overrides=["env.input=1"])
    changed = replace(config, env=config.env.model_copy(update={"own": {"input": "q"}}))
    assert settings_for(Own, changed).input == "q"


def test_settings_that_are_no_dataclass_are_refused() -> None:
    with pytest.raises(TypeError, match="int should be a dataclass"):
        settings_for(int, Config())


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    root: Path | None = None
    dirs: tuple[Path, ...] = ()


def test_paths_of_a_part_are_looked_for_beside_the_file_and_may_name_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("env:\n  root: $DATA_OF_A_TEST/x\n  dirs: [one, two]\n", encoding="utf-8")
    (tmp_path / "two").mkdir()
    monkeypatch.setenv("DATA_OF_A_TEST", "/data")
    places = settings_for(Places, load_config(file))
    assert places == Places(root=Path("/data/x"), dirs=(Path("one"), tmp_path / "two"))
    assert settings_for(Places, load_config(overrides=["env.root="])) == Places()


def test_a_path_object_is_written_as_text() -> None:
    assert load_config(values={"env.file": Path("a/b")}).flat()["file"] == str(Path("a/b"))


def test_settings_can_be_made_without_any_file() -> None:
    config = Config(env=EnvSection(own={"input": "q", "columns": ["a"]}))
    assert settings_for(Own, config) == Own(input="q", columns=("a",))


def test_all_mistakes_in_the_keys_of_an_environment_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("a.yaml")
    path.write_text(
        "env:\n  name: mine\n  inptu: q\n  tolerance: big\n  worker: 3\n  columns: [[a]]\n"
        "  batch_size: 3\n  qqq: 1\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        settings_for(Own, load_config(path))
    unknown = "unknown key for environment 'mine'"
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        f"env.inptu: {unknown}; did you mean 'env.input'? [a.yaml:3]",
        f"env.worker: {unknown}; did you mean 'env.workers'? [a.yaml:5]",
        f"env.batch_size: {unknown}; did you mean 'train.batch_size'? [a.yaml:7]",
    ]
    assert lines[3].startswith(f"env.qqq: {unknown}; env has name, skill_init, ")
    assert lines[3].endswith("input, scorer, columns, choices, tolerance [a.yaml:8]")
    assert lines[4:] == [
        "env.input: is needed and was not given",
        'env.columns[0]: should be a text, not ["a"] [a.yaml:6]',
        "env.tolerance: should be a number, unable to parse string as a number, not 'big' "
        "[a.yaml:4]",
    ]


def test_the_flat_form_uses_the_names_that_users_know() -> None:
    flat = load_config(
        overrides=["env=custom", "edit_budget=3", "target_model=m", "env.seed=9"]
    ).flat()
    assert (flat["env"], flat["edit_budget"], flat["target_model"]) == ("custom", 3, "m")
    assert (flat["seed"], flat["env.seed"]) == (42, 9)
    assert {"optimizer_model", "min_edit_budget", "model_backend", "num_epochs"} <= set(flat)
    json.dumps(flat)


def test_no_form_of_a_configuration_shows_a_secret() -> None:
    config = load_config(
        overrides=[
            "base_url=https://me:hunter2@host/v1", "env.api_key=plainword",
            "env.nested={password: plainword, list: [sk-0123456789]}", "data_path=ghp_" + "a" * 36,
        ]
    )  # fmt: skip
    for text in (json.dumps(config.flat()), config.dump(), json.dumps(config.identity())):
        for secret in ("hunter2", "plainword", "sk-0", "ghp_"):
            assert secret not in text
    assert config.flat()["base_url"] == "https://me:[redacted]@host/v1"


@pytest.mark.parametrize(
    "override",
    [
        "num_epochs=9", "workers=9", "analyst_workers=9", "eval_test=false", "test_env_num=9",
        "base_url=http://x", "target_base_url=http://x", "api_key_env=X", "timeout_seconds=9",
        "optimizer_retries=9", "max_concurrency=9", "requests_per_minute=9",
        "target_tokens_per_minute=9", "input_price=9", "cached_input_price=9", "out_root=x",
        "split_output_dir=x", "skill_init=x", "data_path=x", "split_dir=x", "backend=openai",
    ],
)  # fmt: skip
def test_what_may_change_on_resume_is_no_part_of_the_identity(override: str) -> None:
    assert load_config(overrides=[override]).identity() == Config().identity()


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("batch_size=9", {"train.batch_size"}),
        ("gate_metric=soft", {"evaluation.gate_metric"}),
        ("env.free=9", {"env.free"}),
        ("rewrite_reasoning_effort=low", {"model.rewrite_reasoning_effort"}),
        # What makes a model is told by the model's fingerprint: tests/app/test_identity.py.
        ("target_model=m", set[str]()),
        ("temperature=0", set[str]()),
    ],
)
def test_every_other_setting_is_a_part_of_the_identity(override: str, changed: set[str]) -> None:
    default, other = Config().identity(), load_config(overrides=[override]).identity()
    assert {key for key in other if other[key] != default.get(key)} == changed


def test_two_configurations_with_equal_settings_are_equal_wherever_they_came_from() -> None:
    assert load_config(overrides=["seed=1"]) == load_config(values={"train.seed": 1})
    assert load_config(overrides=["seed=1"]) != load_config()
    assert replace(Config(), env=EnvSection(name="x")) == load_config(flags={"env": "x"})


@pytest.mark.parametrize("given", [{"use_gate": False}, {"gate": "always"}])
def test_no_gate_has_two_spellings_and_one_meaning(given: dict[str, object]) -> None:
    evaluation = EvaluationSection.model_validate(given)
    assert (evaluation.gate, evaluation.use_gate) == ("always", False)


def test_no_gate_and_a_gate_exclude_each_other() -> None:
    with pytest.raises(
        ConfigError, match=r"use_gate: is false.*but gate is paired; remove one of them"
    ):
        load_config(None, values={"use_gate": False, "gate": "paired"})
