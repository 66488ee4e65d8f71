"""How scalars are read, in files and on the command line."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.errors import ConfigError

TRICKY = [
    "1e3", "2024-05-13", "gpt-4e5", "0x1F", "012", "0o17", "2:1:7", "1_000", "1.", ".5", "3.10",
    "+1", "yes", "No", "on", "OFF", "true", ".inf", ".NaN", "=", "null-model", "y", "n", "-",
]  # fmt: skip
words = st.text(string.ascii_letters + string.digits + "+-._:/", min_size=1, max_size=12)


def write(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [name for name in TRICKY if name != "-"])
def test_a_model_name_in_a_file_stays_as_it_is_written(tmp_path: Path, name: str) -> None:
    config = load_config(write(tmp_path, f"model:\n  target: {name}\noptimizer_model: {name}\n"))
    assert config.model.target == name
    assert config.model.optimizer == name


@pytest.mark.parametrize("name", [*TRICKY, "[a", "{a}", "@a", "*a", "%a", "a: b", "a #b", "!a"])
def test_a_text_on_the_command_line_stays_as_it_is_typed(name: str) -> None:
    config = load_config(overrides=[f"model.target={name}"], flags={"optimizer_model": name})
    assert config.model.target == name
    assert config.model.optimizer == name


@settings(deadline=None)
@given(words)
def test_any_word_on_the_command_line_stays_as_it_is_typed(name: str) -> None:
    assert load_config(overrides=[f"env.data_path={name}"]).env.data_path == (
        "" if name.lower() == "null" else name
    )
    assert load_config(overrides=[f"env.data_path='{name}'"]).env.data_path == name


@settings(deadline=None)
@given(st.text(max_size=30))
def test_quoted_text_survives_an_override(text: str) -> None:
    quoted = yaml.safe_dump(text, default_style='"', width=10_000)
    assert load_config(overrides=[f"env.out_root={quoted}"]).env.out_root == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("0x10", 16),
        ("0o10", 8),
        ("010", 10),
        ("yes", True),
        ("off", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'3'", "3"),
        ('"a\\tb"', "a\tb"),
        ("!!str 3", "3"),
        ("[1, x, null, '2']", [1, "x", None, "2"]),
        ("{a: 1, b: [no]}", {"a": 1, "b": [False]}),
        ("two words", "two words"),
        ("2024-05-13", "2024-05-13"),
        ("2:1:7", "2:1:7"),
        ("-.inf", float("-inf")),
    ],
)
def test_a_value_reads_as_yaml_reads_it(tmp_path: Path, text: str, value: object) -> None:
    assert load_config(overrides=[f"env.free={text}"]).env.own == {"free": value}
    assert load_config(write(tmp_path, f"env:\n  free: {text}\n")).env.own == {"free": value}


def test_null_is_no_limit_for_a_number_and_blank_for_a_text() -> None:
    config = load_config(
        values={"requests_per_minute": 5},
        overrides=["temperature=null", "base_url=null", "split_dir=~", "optimizer_base_url=null"],
    )
    assert config.model.temperature is None
    assert (config.model.base_url, config.env.split_dir) == ("", "")
    assert config.values()["model.optimizer_base_url"] is None


@pytest.mark.parametrize("word", ["yes", "True", "on", "TRUE"])
def test_the_usual_words_for_true_are_true(word: str) -> None:
    assert load_config(overrides=[f"failure_only={word}"]).gradient.failure_only is True


def test_a_whole_number_is_good_where_a_fraction_may_be() -> None:
    assert load_config(overrides=["temperature=1"]).model.temperature == 1.0


def test_anchors_and_merge_keys_work_below_what_is_written_out(tmp_path: Path) -> None:
    text = "env:\n  one: &a {x: 1, y: 2}\n  two: {y: 3, <<: *a}\n  three: {<<: [{x: 5}, *a]}\n"
    own = load_config(write(tmp_path, text)).env.own
    assert own["two"] == {"x": 1, "y": 3}
    assert own["three"] == {"x": 5, "y": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: {a: &a [*a]}", "an anchor that contains itself"),
        ("env: {a: &a {b: *a}}", "an anchor that contains itself"),
        ("env: &a {<<: *a}", "an anchor that contains itself"),
        ("env: {<<: 3}", "`<<` should name a mapping"),
        ("env: {a: !!python/name:os.system x}", "is not used here; write a plain value"),
        ("env: {a: !!int x}", "'x' is not a valid value"),
        ("? [a, b]\n: 3", "a key should be plain text"),
        ("env: {a: " + "[" * 3000 + "]" * 3000 + "}", "nested too deeply"),
    ],
)
def test_what_a_configuration_cannot_hold_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert message in str(caught.value)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(TRICKY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(model=st.sampled_from(TRICKY) | words, own=plain, seed=st.integers())
def test_the_effective_yaml_reads_back_as_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory, model: str, own: object, seed: int
) -> None:
    config = load_config(values={"target_model": model, "env.mine": own, "seed": seed})
    path = write(tmp_path_factory.mktemp("dump"), config.dump())
    assert load_config(path) == config


def test_the_effective_yaml_of_the_defaults_is_complete(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, Config().dump())) == Config()
