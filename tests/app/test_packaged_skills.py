"""The skills in `ckpt/`: complete, and their scores can be had again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from skillopt.api import evaluate_async
from skillopt.config.load import load_config
from skillopt.core.skill import Skill
from skillopt.model.weights import Folder, default_root, find

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in ROOT.glob("ckpt/*/config.yaml"))


def provenance(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "ckpt" / name / "provenance.json").read_text("utf-8"))


def test_there_are_at_least_three() -> None:
    assert len(NAMES) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_skill_is_what_its_provenance_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    folder, told = ROOT / "ckpt" / name, provenance(name)
    for file, sha256 in told["data"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == sha256
    skill = (folder / "best_skill.md").read_text("utf-8")
    assert hashlib.sha256(skill.encode()).hexdigest() == told["skill"]
    assert Skill.parse(skill).body.strip()
    config = load_config(ROOT / told["config"]["file"])
    assert (config.model.target, config.train.seed) == (
        told["model"]["name"],
        told["config"]["seed"],
    )
    assert find(told["model"]["name"]).sha256 == told["model"]["sha256"]
    scores = told["test"]["hard"]
    assert scores["before"]["low"] <= scores["before"]["mean"] < scores["after"]["mean"]
    assert scores["after"]["low"] <= scores["after"]["mean"] <= scores["after"]["high"]


@pytest.mark.weights
@pytest.mark.parametrize("name", NAMES, ids="1.5b-{}".format)
async def test_the_score_of_a_packaged_skill_can_be_had_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    told = provenance(name)
    model = find(told["model"]["name"])
    if not Folder(default_root(os.environ.get)).has(model):
        pytest.skip(f"not on this machine: skillopt model fetch {model.name}")
    monkeypatch.chdir(ROOT)
    found = await evaluate_async(
        Path("ckpt", name, "best_skill.md"),
        Path("ckpt", name, "config.yaml"),
        split="test",
        out=tmp_path / "out",
        progress=False,
    )
    # Another processor may change an answer or two of 24.
    assert found.whole.hard == pytest.approx(told["test"]["hard"]["after"]["mean"], abs=2.1 / 24)
