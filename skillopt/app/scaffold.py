"""A new environment of the user's own, which works as it is: code, test, data and settings."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import skillopt
from skillopt.errors import ConfigError, DataError

_TEMPLATE: Final = Path(skillopt.__file__).parent / "quickstart" / "environment" / "env.py"
_SKILL: Final = (
    "# Answering questions\n\n- Answer exactly what is asked, in as few words as you can.\n"
)
_CONFIG: Final = """\
# Run in this folder:  skillopt check config.yaml   then   skillopt train config.yaml
env:
  name: {name}_env:{kind}
  split_mode: split_dir
  split_dir: data
  out_root: run
  case_sensitive: false

model:
  backend: openai_compatible   # or claude_chat, local, ...: docs/backends.md
  base_url: http://127.0.0.1:8000/v1
  target: the-model-that-works
  optimizer: the-model-that-writes-the-skill

train:
  num_epochs: 2
  batch_size: 8
"""
_TEST: Final = '''\
"""The environment keeps what SkillOpt relies on. Run in this folder: python -m pytest"""

import asyncio
from pathlib import Path

import pytest
from {name}_env import {kind}

from skillopt.core.rollout import Trajectory
from skillopt.datasets.splits import from_directory
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS


@pytest.fixture
def environment():
    return {kind}({kind}.Settings(), from_directory(Path(__file__).parent / "data"))


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
def test_it_keeps_the_contract_of_environments(check, environment):
    asyncio.run(check(environment))


def test_a_wrong_answer_is_told_what_was_expected(environment):
    async def scored():
        async with environment.open(environment.tasks("train")[0]) as episode:
            return await episode.score(Trajectory((), "<answer>nonsense</answer>"))

    score = asyncio.run(scored())
    assert score.hard == 0
    assert "expected" in score.feedback
'''
_SUMS: Final = {"train": range(2, 14), "val": range(14, 34), "test": range(34, 46)}


@dataclass(frozen=True, slots=True)
class NewEnv:
    """What was written for a new environment."""

    folder: Path
    name: str
    """What `env.name` says."""
    files: tuple[Path, ...]


def new_environment(name: str, out: Path | None = None) -> NewEnv:
    """Write an environment with test, data, skill and configuration into a new folder."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot name an environment: use lower-case letters, digits and _, such as "
            "'my_tickets'"
        )
    folder = Path(name) if out is None else out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder} exists and is not empty; nothing was written. Name another folder"
        )
    kind = "".join(part.capitalize() for part in name.split("_"))
    files = _files(name, kind)
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    return NewEnv(folder, f"{name}_env:{kind}", tuple(folder / path for path in files))


def _files(name: str, kind: str) -> Mapping[str, str]:
    code = _TEMPLATE.read_text(encoding="utf-8")
    code = code.replace("NewEnvironment", kind).replace("new_environment", name)
    data = {
        f"data/{split}/items.jsonl": "".join(
            json.dumps({"question": f"What is {n} + {n}?", "answer": str(n + n)}) + "\n"
            for n in numbers
        )
        for split, numbers in _SUMS.items()
    }
    return {
        f"{name}_env.py": code,
        f"test_{name}.py": _TEST.format(name=name, kind=kind),
        "config.yaml": _CONFIG.format(name=name, kind=kind),
        "skill.md": _SKILL,
        **data,
    }
