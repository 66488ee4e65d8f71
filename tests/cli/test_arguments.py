from __future__ import annotations

from pathlib import Path

import click
import pytest
from support_cli import skillopt

from skillopt.cli.arguments import CommandLine, Session, SettingsCommand
from skillopt.config.load import load_config
from skillopt.config.sections import KEYS


@click.command(cls=SettingsCommand)
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--config", "config_option", type=click.Path(path_type=Path))
@click.option("--split", default="all")
@click.pass_context
def command(ctx: click.Context, split: str, **_: object) -> tuple[CommandLine, str]:
    return ctx.ensure_object(Session).given, split


def parse(*args: str) -> tuple[CommandLine, str]:
    return command.main(list(args), standalone_mode=False)


def settings(*args: str) -> CommandLine:
    return parse(*args)[0]


def test_a_file_may_come_first_last_or_as_an_option() -> None:
    for args in (("c.yaml", "a.b=1"), ("a.b=1", "c.yaml"), ("--config", "c.yaml", "a.b=1")):
        assert settings(*args) == CommandLine(Path("c.yaml"), ("a.b=1",), {})


def test_two_different_files_are_refused() -> None:
    with pytest.raises(click.UsageError, match=r"x\.yaml and y\.yaml"):
        settings("x.yaml", "--config", "y.yaml")


def test_cfg_options_takes_every_override_that_follows_and_leaves_the_file() -> None:
    found = settings("--cfg-options", "a.b=1", "c.d=[1, 2]", "c.yaml")
    assert found == CommandLine(Path("c.yaml"), ("a.b=1", "c.d=[1, 2]"), {})


def test_cfg_options_may_be_repeated_and_ends_at_the_next_option() -> None:
    found, split = parse("--cfg-options", "a.b=1", "--split", "val", "--cfg_options", "c.d=2")
    assert found.overrides == ("a.b=1", "c.d=2")
    assert split == "val"


def test_cfg_options_without_a_value_is_a_usage_error() -> None:
    with pytest.raises(click.BadOptionUsage, match="KEY=VALUE"):
        settings("--cfg-options", "c.yaml")


def test_overrides_keep_the_order_in_which_they_were_written() -> None:
    found = settings("train.seed=1", "--cfg-options", "train.seed=2", "--seed", "3", "x.y=4")
    assert found.overrides == ("train.seed=1", "train.seed=2", "x.y=4")


@pytest.mark.parametrize(
    "args",
    [
        ("--batch_size", "8"),
        ("--batch-size", "8"),
        ("--batch_size=8",),
        ("--batch-size=8",),
    ],
)
def test_a_flat_flag_is_spelt_with_dash_or_underscore(args: tuple[str, ...]) -> None:
    assert settings(*args).flags == {"batch_size": "8"}


def test_older_names_are_flags_too() -> None:
    assert settings("--teacher_model", "m", "--edit_budget", "3").flags == {
        "teacher_model": "m",
        "edit_budget": "3",
    }


def test_a_negative_number_is_a_value() -> None:
    assert settings("--seed", "-1").flags == {"seed": "-1"}


def test_a_switch_takes_true_or_false_and_alone_means_true() -> None:
    found = settings("--use_gate", "false", "--eval_test", "--failure_only", "c.yaml")
    assert found.flags == {"use_gate": "false", "eval_test": "true", "failure_only": "true"}
    assert found.config == Path("c.yaml")


def test_a_flag_without_its_value_is_a_usage_error() -> None:
    for args in (("--batch_size",), ("--batch_size", "--seed", "1")):
        with pytest.raises(click.BadOptionUsage, match="--batch_size"):
            settings(*args)


def test_an_unknown_flag_names_the_nearest_one() -> None:
    with pytest.raises(click.NoSuchOption, match="did you mean '--batch_size'"):
        settings("--batchsize", "8")
    with pytest.raises(click.NoSuchOption, match="did you mean '--split'"):
        settings("--splitt", "val")


def test_a_dotted_flag_is_told_to_drop_its_dashes() -> None:
    with pytest.raises(click.NoSuchOption, match=r"train\.seed=VALUE"):
        settings("--train.seed", "1")


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("azure_openai_api_key", "AZURE_OPENAI_API_KEY"),
        ("azure_api_key", "AZURE_OPENAI_API_KEY"),
        ("optimizer_azure_openai_api_key", "OPTIMIZER_AZURE_OPENAI_API_KEY"),
        ("qwen_chat_api_key", "QWEN_CHAT_API_KEY"),
        ("target_qwen_chat_api_key", "TARGET_QWEN_CHAT_API_KEY"),
        ("student-qwen-chat-api-key", "TARGET_QWEN_CHAT_API_KEY"),
        ("minimax_api_key", "MINIMAX_API_KEY"),
        ("openai_compatible_api_key", "OPENAI_COMPATIBLE_API_KEY"),
        ("openai_api_key", "OPENAI_API_KEY"),
        ("anthropic_api_key", "ANTHROPIC_API_KEY"),
        ("api_key", "the variable of your backend, such as OPENAI_API_KEY"),
        ("hf_token", "the variable of your backend, such as OPENAI_API_KEY"),
    ],
)
def test_a_key_on_the_command_line_is_refused_with_the_variable_to_use(
    flag: str, variable: str
) -> None:
    with pytest.raises(click.NoSuchOption) as caught:
        settings(f"--{flag}", "sk-abcdefghijkl")
    assert f"Put the key into {variable} " in str(caught.value)
    assert "sk-abcdefghijkl" not in str(caught.value)


@pytest.mark.parametrize("flag", ["--api_key", "--openai-api-key"])
async def test_the_refusal_of_a_key_is_shown_whole_and_without_the_key(
    flag: str, tmp_path: Path
) -> None:
    for words in ((flag, "abcdefghijkl"), (f"{flag}=abcdefghijkl",)):
        done = await skillopt("train", *words, cwd=tmp_path)
        assert done.code == 2
        assert f"No such option '{flag}'; other users can see a command line" in done.err
        assert "abcdefghijkl" not in done.err + done.out


def test_every_key_that_a_file_may_name_has_a_variable_of_the_same_name() -> None:
    for key in KEYS:
        name = key.partition(".")[2]
        if name.endswith("_api_key"):
            with pytest.raises(click.NoSuchOption, match=f"Put the key into {name.upper()} in"):
                settings(f"--{name}", "x")


TRAIN_FLAGS = {
    "env": "searchqa",
    "optimizer_model": "a",
    "target_model": "b",
    "optimizer_backend": "openai_chat",
    "target_backend": "qwen_chat",
    "reasoning_effort": "low",
    "rewrite_reasoning_effort": "high",
    "rewrite_max_completion_tokens": "64000",
    **dict.fromkeys(
        [
            f"{role}azure_openai_{what}"
            for role in ("", "optimizer_", "target_")
            for what in ("endpoint", "api_version", "ad_scope", "managed_identity_client_id")
        ],
        "text",
    ),
    **{f"{role}azure_openai_auth_mode": "azure_cli" for role in ("", "optimizer_", "target_")},
    "azure_endpoint": "https://a.example",
    "azure_api_version": "2024-12-01-preview",
    **{
        f"{role}qwen_chat_{what}": value
        for role in ("", "optimizer_", "target_")
        for what, value in {
            "base_url": "http://h/v1",
            "temperature": "0.7",
            "timeout_seconds": "300",
            "max_tokens": "8000",
            "enable_thinking": "false",
            "thinking_mode": "disabled",
        }.items()
    },
    "minimax_region": "cn_zh",
    "minimax_base_url": "http://h/v1",
    "minimax_model": "MiniMax-M3",
    "minimax_temperature": "0.7",
    "minimax_max_tokens": "8000",
    "minimax_enable_thinking": "true",
    "codex_exec_path": "codex",
    "codex_path": "codex",
    "codex_exec_sandbox": "workspace-write",
    "codex_exec_profile": "p",
    "codex_exec_reasoning_effort": "low",
    "codex_exec_use_sdk": "auto",
    "codex_exec_network_access": "false",
    "codex_exec_web_search": "false",
    "codex_exec_approval_policy": "never",
    "codex_exec_full_auto": "true",
    "codex_trace_to_optimizer": "false",
    "claude_code_exec_path": "claude",
    "claude_code_exec_profile": "p",
    "claude_code_exec_use_sdk": "sdk",
    "claude_code_exec_effort": "high",
    "claude_code_exec_max_thinking_tokens": "16384",
    "cursor_exec_path": "cursor-agent",
    "cursor_exec_sandbox": "enabled",
    "copilot_exec_path": "copilot",
    "copilot_exec_home": "home",
    "copilot_exec_allow_all_tools": "true",
    "copilot_chat_optimizer_model": "m",
    "copilot_chat_target_model": "m",
    "copilot_chat_timeout": "600",
    "skill_init": "s.md",
    "num_epochs": "2",
    "train_size": "0",
    "steps_per_epoch": "5",
    "batch_size": "8",
    "accumulation": "2",
    "seed": "1",
    "edit_budget": "4",
    "min_edit_budget": "2",
    "lr_scheduler": "linear",
    "lr_control_mode": "autonomous",
    "merge_batch_size": "8",
    "max_analyst_rounds": "3",
    "sel_env_num": "0",
    "test_env_num": "0",
    "eval_test": "true",
    "use_gate": "true",
    "max_steps": "50",
    "max_api_workers": "8",
    "analyst_workers": "8",
    "failure_only": "true",
    "minibatch_size": "8",
    "skill_update_mode": "patch",
    "use_slow_update": "true",
    "slow_update_samples": "20",
    "longitudinal_pair_policy": "changed",
    "use_meta_skill": "true",
    "use_skill_aware_reflection": "true",
    "skill_aware_appendix_source": "failure_only",
    "skill_aware_consolidate_threshold": "9",
    "data_path": "d.json",
    "split_mode": "ratio",
    "split_ratio": "2:1:7",
    "split_seed": "42",
    "split_dir": "d",
    "split_output_dir": "d",
    "data_root": "d",
    "max_turns": "1",
    "workers": "8",
    "limit": "0",
    "shuffle_choices": "true",
    "use_theorem": "false",
    "use_sketch": "false",
    "image_detail": "auto",
    "judge_model": "j",
    "judge_max_completion_tokens": "64",
    "judge_retries": "2",
    "out_root": "o",
    "mode": "multi",
}
"""Every flag of the original's training command that holds no key, with a value it may have."""

BACKENDS = [
    "azure_openai",
    "codex",
    "codex_exec",
    "claude",
    "claude_chat",
    "claude_code_exec",
    "cursor",
    "cursor_exec",
    "copilot",
    "copilot_chat",
    "copilot_exec",
    "qwen",
    "qwen_chat",
    "minimax",
    "minimax_chat",
]


@pytest.mark.parametrize("flag", TRAIN_FLAGS)
def test_every_flag_of_the_original_is_taken_alone_and_with_its_value(flag: str) -> None:
    value = TRAIN_FLAGS[flag]
    for args in (
        (f"--{flag}", value),
        (f"--{flag}={value}",),
        (f"--{flag.replace('_', '-')}", value),
    ):
        found = settings("--config", "c.yaml", *args)
        assert found == CommandLine(Path("c.yaml"), (), {flag: value})
        load_config(flags=found.flags)


def test_all_flags_of_the_original_are_taken_together() -> None:
    twice = {"codex_path", "azure_endpoint", "azure_api_version"}
    words = [
        word
        for flag, value in TRAIN_FLAGS.items()
        if flag not in twice
        for word in (f"--{flag}", value)
    ]
    config = load_config(flags=settings("--config", "c.yaml", *words).flags)
    assert config.optimizer.learning_rate == 4
    assert config.values()["model.target_qwen_chat_enable_thinking"] is False
    assert config.env.own["mode"] == "multi"


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_of_the_original_may_be_named(name: str) -> None:
    assert load_config(flags=settings("--backend", name).flags).model.backend == name


def test_a_switch_that_may_be_unset_stands_alone_too() -> None:
    found = settings("--minimax_enable_thinking", "--codex_exec_web_search", "c.yaml")
    assert found.flags == {"minimax_enable_thinking": "true", "codex_exec_web_search": "true"}
    assert found.config == Path("c.yaml")


@pytest.mark.parametrize("command", ["train", "eval"])
async def test_the_commands_of_the_original_get_as_far_as_the_data(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "s.md").write_text("Answer.", encoding="utf-8")
    config = Path(__file__).parents[1] / "config" / "original" / "searchqa.yaml"
    some = {
        "backend": "azure_openai",
        "target_model": "gpt-5.5",
        "azure_openai_endpoint": "https://your-resource.openai.azure.com/",
        "split_dir": "data/searchqa_split",
        "out_root": "outputs/x",
        "seed": "42",
        "test_env_num": "0",
        "workers": "8",
    }
    own = ("--skill", "s.md", "--split", "valid_unseen") if command == "eval" else ()
    flags = [word for flag, value in some.items() for word in (f"--{flag}", value)]
    done = await skillopt(command, "--config", str(config), *own, *flags, cwd=tmp_path)
    assert done.code == 1
    assert (
        "data/searchqa_split does not exist; create it with: skillopt materialize searchqa"
        in done.err
    )


def test_a_command_is_told_again_with_settings_changed() -> None:
    given = CommandLine(
        Path("my c.yaml"), ("limits.calls=5", "a.b=c d"), {"num_epochs": "2", "calls": "9"}
    )
    assert given.command("train", {"limits.calls": "60"}) == (
        "skillopt train 'my c.yaml' 'a.b=c d' --num_epochs=2 limits.calls=60"
    )
    assert given.command("train", {}).endswith("limits.calls=5 'a.b=c d' --num_epochs=2 --calls=9")


@pytest.mark.parametrize(
    ("words", "seed"),
    [
        (("--seed", "3", "train.seed=5"), 5),
        (("--seed=3", "--cfg-options", "train.seed=5"), 5),
        (("--seed", "3", "seed=5"), 5),
        (("train.seed=5", "--seed", "3"), 3),
        (("--seed", "3", "train.seed=5", "--seed", "7"), 7),
        (("train.seed=5", "train.seed=6"), 6),
    ],
)
def test_of_flags_and_key_values_for_one_setting_the_last_one_wins(
    words: tuple[str, ...], seed: int
) -> None:
    found = settings("c.yaml", *words)
    assert load_config(overrides=found.overrides, flags=found.flags).train.seed == seed
