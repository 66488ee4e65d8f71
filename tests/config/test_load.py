from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.load import load_config, load_kept
from skillopt.config.schema import Config
from skillopt.errors import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def complaint(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides=overrides)
    return str(caught.value)


def test_nothing_given_means_the_defaults() -> None:
    assert load_config() == Config()


def test_an_empty_file_and_a_section_without_keys_mean_the_defaults() -> None:
    assert load_config(write("a.yaml", "")) == Config()
    assert load_config(write("b.yaml", "# nothing\ntrain:\nenv:\noptimizer: {}\n")) == Config()


def test_a_file_with_a_byte_order_mark_is_read() -> None:
    path = Path("a.yaml")
    path.write_bytes(b"\xef\xbb\xbftrain:\r\n  seed: 7\r\n")
    assert load_config(path).train.seed == 7


def test_non_ascii_text_is_read_as_utf8() -> None:
    assert load_config(write("a.yaml", "env: {data_path: données/ä.jsonl}")).env.data_path == (
        "données/ä.jsonl"
    )


def test_a_child_wins_over_its_base_and_keeps_the_rest() -> None:
    write("base/a.yaml", "train: {seed: 1, batch_size: 5}\nenv: {choices: [a, b], deep: {x: 1}}")
    path = write(
        "b.yaml", "_base_: base/a.yaml\ntrain: {seed: 2}\nenv: {choices: [c], deep: {y: 2}}"
    )
    config = load_config(path)
    assert (config.train.seed, config.train.batch_size) == (2, 5)
    assert config.env.own == {"choices": ["c"], "deep": {"x": 1, "y": 2}}


def test_of_several_bases_the_later_wins() -> None:
    write("a.yaml", "train: {seed: 1, batch_size: 5}")
    write("b.yaml", "train: {seed: 2}")
    config = load_config(write("c.yaml", "_base_: [a.yaml, b.yaml]"))
    assert (config.train.seed, config.train.batch_size) == (2, 5)


@pytest.mark.parametrize(
    ("base", "child"),
    [("train: {seed: 1}", "seed: 2"), ("seed: 1", "train: {seed: 2}"), ("seed: 1", "seed: 2")],
)
def test_a_child_beats_its_base_whatever_the_spelling(base: str, child: str) -> None:
    write("a.yaml", base)
    assert load_config(write("b.yaml", f"_base_: a.yaml\n{child}")).train.seed == 2


@pytest.mark.parametrize("text", ["seed: 1\ntrain: {seed: 2}", "train: {seed: 2}\nseed: 1"])
def test_inside_one_file_the_structured_spelling_wins(text: str) -> None:
    assert load_config(write("a.yaml", text)).train.seed == 2


def test_the_same_key_under_two_names_is_an_error() -> None:
    path = write("a.yaml", "teacher_model: x\noptimizer_model: y\n")
    assert complaint(path) == (
        "a.yaml:2: 'optimizer_model' and 'teacher_model' (line 1) are the same key "
        "'model.optimizer'; keep one"
    )


def test_a_base_that_leads_back_is_an_error_that_shows_the_way() -> None:
    write("sub/b.yaml", "_base_: ../a.yaml")
    assert complaint(write("a.yaml", "_base_: sub/b.yaml")) == (
        "a.yaml: _base_ leads back to the file itself: a.yaml -> sub/b.yaml -> a.yaml"
    )


def test_two_ways_to_the_same_base_are_no_cycle() -> None:
    write("a.yaml", "seed: 1")
    write("b.yaml", "_base_: a.yaml")
    write("c.yaml", "_base_: a.yaml")
    assert load_config(write("d.yaml", "_base_: [b.yaml, c.yaml]")).train.seed == 1


def test_a_missing_base_names_the_file_that_wants_it() -> None:
    assert complaint(write("a.yaml", "_base_: gone.yaml")) == (
        "gone.yaml: no such file; it is the _base_ of a.yaml"
    )


@pytest.mark.parametrize("base", ["3", "{a: b}", "[a.yaml, 3]"])
def test_a_base_that_is_no_path_is_an_error(base: str) -> None:
    assert complaint(write("b.yaml", f"_base_: {base}")) == (
        "b.yaml:1: _base_ should be a path or a list of paths"
    )


def test_a_missing_file_suggests_its_neighbour() -> None:
    write("configs/default.yaml", "")
    assert complaint(Path("configs/defualt.yaml")) == (
        "configs/defualt.yaml: no such file; did you mean 'default.yaml'?"
    )
    assert complaint(Path("nowhere/x.yaml")) == "nowhere/x.yaml: no such file; check the path"
    assert complaint(Path("configs")) == (
        "configs: no such file; it is a folder, name a file in it"
    )


def test_broken_yaml_is_an_error_with_its_line() -> None:
    assert complaint(write("a.yaml", "train:\n  seed: [1, 2\n")).startswith(
        "a.yaml:3:1: not valid YAML: "
    )
    assert "a.yaml: not valid YAML: " in complaint(write("a.yaml", "seed: \x07"))


def test_a_file_that_is_not_utf8_is_an_error() -> None:
    path = Path("a.yaml")
    path.write_bytes(b"env: {name: \xe9}")
    assert complaint(path) == "a.yaml: not UTF-8 (byte 12); save the file as UTF-8"


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words", "3"])
def test_a_file_without_settings_is_an_error(text: str) -> None:
    assert complaint(write("a.yaml", text)) == (
        "a.yaml:1: should hold settings such as `train:` with keys below it"
    )


def test_a_repeated_key_is_an_error_with_both_lines() -> None:
    assert complaint(write("a.yaml", "train:\n  seed: 1\n  seed: 2\n")) == (
        "a.yaml:3: 'seed' is given twice, first in line 2"
    )


def test_all_mistakes_are_named_at_once_with_their_places() -> None:
    write("base.yaml", "evaluation:\n  gate_metric: meen\n")
    text = "_base_: base.yaml\ntrain:\n  batchsize: 3\n  num_epochs: five\nnum_epoch: 3\n"
    path = write("sub/../a.yaml", text)
    assert complaint(path, "train.epoch=3", "train=1").splitlines() == [
        "num_epoch: unknown key; did you mean 'num_epochs'? [a.yaml:5]",
        "train.batchsize: unknown key; did you mean 'train.batch_size'? [a.yaml:3]",
        "train.epoch: unknown key; did you mean 'train.num_epochs'? [command line (train.epoch=3)]",
        "train: is a section; write its keys below it, or train.KEY=VALUE [command line (train=1)]",
        "train.num_epochs: should be a whole number, not 'five' [a.yaml:4]",
        "evaluation.gate_metric: should be 'hard', 'soft' or 'mixed', not 'meen' [base.yaml:2]",
    ]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.learning_rate=3", "unknown key; did you mean 'optimizer.learning_rate'?"),
        ("trian.seed=3", "unknown key; did you mean 'train.seed'?"),
        ("trian.sead=3", "unknown key; did you mean 'train.seed'?"),
        ("qqq.lr_schedular=3", "unknown key; did you mean 'optimizer.lr_scheduler'?"),
        ("optimzer.foo=1", "unknown key; did you mean the section 'optimizer'?"),
        ("qqq.foo=1", "unknown key; the sections are model, train, gradient, optimizer, "),
        ("train.qqq=1", "unknown key; train has num_epochs, train_size, batch_size, "),
        ("qqqq=1", "unknown key; the sections are "),
        ("train.a.b=1", "unknown key"),
        (
            "skill_update_mode=rewritten",
            "no update mode is named 'rewritten'; known: ",
        ),
        (
            "lr_control_mode=free",
            "no learning rate control is named 'free'",
        ),
        ("merge_batch_size=1", "should be at least 2, not 1"),
        ("train.num_epochs=999999999999", "should be at most 10000, not 999999999999"),
        ("max_failure_share=1.5", "should be at most 1, not 1.5"),
        ("timeout_seconds=0", "should be above 0, not 0"),
        ("temperature=.nan", "should be a finite number, not NaN"),
        ("seed=true", "should be a whole number, not true"),
        ("batch_size=1.5", "should be a whole number, not 1.5"),
        ("use_gate=maybe", "should be true or false, not 'maybe'"),
        ("use_gate=1", "should be true or false, not 1"),
        ("model.optimizer=", "should not be empty"),
        ("split_ratio=2:1", "should be three shares such as '2:1:7', not '2:1'"),
        ("reasoning_effort=hihg", "should be '', 'none', 'minimal', 'low', "),
    ],
)
def test_a_wrong_setting_says_what_is_wrong(setting: str, message: str) -> None:
    assert message in complaint(write("a.yaml", ""), setting)


def test_a_list_where_a_text_is_wanted_is_an_error() -> None:
    assert complaint(write("a.yaml", "env:\n  data_path: [a, b]\n")) == (
        'env.data_path: should be a text, not ["a", "b"] [a.yaml:2]'
    )


def test_a_key_written_where_its_variable_belongs_is_not_repeated() -> None:
    message = complaint(write("a.yaml", "model: {api_key_env: k-123/456}"))
    assert "should be the name of an environment variable, not the key itself" in message
    assert "k-123/456" not in message


def test_a_secret_on_the_command_line_is_not_repeated() -> None:
    message = complaint(write("a.yaml", ""), "model.api_key=hunter2hunter2", "x=sk-0123456789ab")
    assert "hunter2" not in message
    assert "sk-0" not in message
    assert "did you mean 'model.api_key_env'?" in message


def test_keys_without_effect_are_accepted_with_a_warning() -> None:
    path = write("a.yaml", "steps_per_epoch: 3\ngradient: {max_analyst_rounds: 2}")
    assert load_config(path) == Config()
    assert load_config(path).warnings == (
        "train.steps_per_epoch: has no effect: it follows from the size of the train split and "
        "the batch size [a.yaml:1]",
        "gradient.max_analyst_rounds: has no effect: each minibatch is read once [a.yaml:2]",
    )


def test_flags_win_over_overrides_and_values_over_both() -> None:
    path = write("a.yaml", "train: {seed: 1, batch_size: 1, num_epochs: 1, accumulation: 1}")
    config = load_config(
        path,
        overrides=["train.seed=2", "batch_size=2", "train.num_epochs=2"],
        flags={"batch-size": "3", "num_epochs": "3"},
        values={"train.num_epochs": 4},
    )
    train = config.train
    assert (train.accumulation, train.seed, train.batch_size, train.num_epochs) == (1, 2, 3, 4)


def test_python_values_are_checked_like_any_other() -> None:
    with pytest.raises(ConfigError, match=r"train\.seed: .* not 'x' \[argument seed\]"):
        load_config(values={"seed": "x"})


def test_a_relative_path_is_looked_for_here_and_then_beside_its_file(here: Path) -> None:
    write("sub/data.jsonl", "")
    write("sub/base.yaml", "env: {data_path: data.jsonl, split_dir: gone}")
    config = load_config(write("a.yaml", "_base_: sub/base.yaml"))
    beside = config.path("env.data_path")
    assert beside is not None
    assert beside.resolve() == here / "sub/data.jsonl"
    assert config.path("env.split_dir") == Path("gone")
    assert config.path("env.prompts") is None
    write("data.jsonl", "")
    assert config.path("env.data_path") == Path("data.jsonl")


def test_a_path_from_the_command_line_is_looked_for_here_only() -> None:
    write("sub/data.jsonl", "")
    config = load_config(write("sub/a.yaml", ""), overrides=["data_path=data.jsonl"])
    assert config.path("env.data_path") == Path("data.jsonl")


def test_a_complaint_names_where_the_value_was_given() -> None:
    config = load_config(write("a.yaml", "split_mode: split_dir"))
    error = config.complaint("env.split_mode", "needs env.split_dir")
    assert str(error) == "env.split_mode: needs env.split_dir [a.yaml:1]"
    assert str(config.complaint("env.split_dir", "is missing")) == "env.split_dir: is missing"


def test_the_settings_that_a_run_kept_are_the_configuration_it_had(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "model: {target: t, base_url: 'http://x/v1'}\n"
        "env: {name: custom, input: question, scorer: f1}\n",
        encoding="utf-8",
    )
    config = load_config(path)
    assert load_kept(config.flat()) == config
    changed = load_kept(config.flat(), overrides=["env.input=q"], flags={"seed": "3"})
    assert (changed.env.own["input"], changed.train.seed) == ("q", 3)
