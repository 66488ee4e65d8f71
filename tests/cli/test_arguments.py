from __future__ import annotations

from pathlib import Path

import click
import pytest

from skillopt.cli.arguments import Given, SettingsCommand, given


@click.command(cls=SettingsCommand)
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--config", "config_option", type=click.Path(path_type=Path))
@click.option("--split", default="all")
@click.pass_context
def command(ctx: click.Context, split: str, **_: object) -> tuple[Given, str]:
    return given(ctx), split


def parse(*args: str) -> tuple[Given, str]:
    return command.main(list(args), standalone_mode=False)


def settings(*args: str) -> Given:
    return parse(*args)[0]


def test_a_file_may_come_first_last_or_as_an_option() -> None:
    for args in (("c.yaml", "a.b=1"), ("a.b=1", "c.yaml"), ("--config", "c.yaml", "a.b=1")):
        assert settings(*args) == Given(Path("c.yaml"), ("a.b=1",), {})


def test_two_different_files_are_refused() -> None:
    with pytest.raises(click.UsageError, match=r"x\.yaml and y\.yaml"):
        settings("x.yaml", "--config", "y.yaml")


def test_cfg_options_takes_every_override_that_follows_and_leaves_the_file() -> None:
    found = settings("--cfg-options", "a.b=1", "c.d=[1, 2]", "c.yaml")
    assert found == Given(Path("c.yaml"), ("a.b=1", "c.d=[1, 2]"), {})


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


def test_a_key_on_the_command_line_is_refused_with_the_variable_to_use() -> None:
    with pytest.raises(click.NoSuchOption, match="OPENAI_API_KEY"):
        settings("--azure_openai_api_key", "sk-abcdefghijkl")


def test_a_command_is_told_again_with_settings_changed() -> None:
    given = Given(
        Path("my c.yaml"), ("limits.calls=5", "a.b=c d"), {"num_epochs": "2", "calls": "9"}
    )
    assert given.command("train", {"limits.calls": "60"}) == (
        "skillopt train 'my c.yaml' 'a.b=c d' --num_epochs=2 limits.calls=60"
    )
    assert given.command("train", {}).endswith("limits.calls=5 'a.b=c d' --num_epochs=2 --calls=9")
