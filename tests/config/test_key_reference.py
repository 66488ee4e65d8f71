"""What every setting tells about itself, for people and for forms."""

from __future__ import annotations

import pytest

from skillopt.api import config_keys
from skillopt.config.sections import KEYS
from skillopt.errors import ConfigError


def test_every_key_of_the_schema_is_told_with_its_meaning() -> None:
    entries = {entry.key: entry for entry in config_keys()}
    assert entries.keys() == KEYS.keys()
    assert all(entry.meaning for entry in entries.values())


def test_types_ranges_choices_and_null_are_those_of_the_schema() -> None:
    keys = {entry.key: entry for entry in config_keys()}
    assert (keys["train.num_epochs"].kind, keys["train.num_epochs"].least) == ("integer", 1)
    assert (keys["limits.dollars"].kind, keys["limits.dollars"].above) == ("number", 0)
    assert keys["limits.dollars"].optional
    share = keys["evaluation.max_broken"]
    assert (share.least, share.most) == (0, 1)
    assert keys["engine.speculate"].kind == "flag"
    assert keys["env.split_mode"].choices == ("ratio", "split_dir")
    assert keys["gradient.proposer"].kind == "list"
    assert "paired" in keys["evaluation.gate"].choices


def test_an_environment_adds_its_own_settings() -> None:
    own = {entry.key: entry for entry in config_keys("custom")}
    assert own["env.extract"].choices == ("tag_or_line", "whole")
    assert own["env.tolerance"].kind == "number"
    assert own["env.rubric"].meaning.startswith("For judge")
    with pytest.raises(ConfigError, match="did you mean"):
        config_keys("costum")
