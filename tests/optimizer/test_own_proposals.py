"""A small model improves a neutral draft by its own proposals: `skillopt model fetch NAME`."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

import pytest

from skillopt.api import Result, train_async
from skillopt.model.weights import Folder, default_root, find

pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
pytestmark = pytest.mark.weights

MODEL = "qwen2.5-coder-1.5b"
DRAFT = (
    "# Questions about notes\n\n"
    "You get a note and a question about it. Read the note and answer the question.\n"
)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """The quickstart's items as SearchQA items: nothing but note, question and answer."""
    if not Folder(default_root(os.environ.get)).has(find(MODEL)):
        pytest.skip(f"not on this machine: skillopt model fetch {MODEL}")
    for split in ("train", "val", "test"):
        given = files("skillopt.quickstart") / "data" / split / "items.jsonl"
        rows = [json.loads(line) for line in given.read_text("utf-8").splitlines()]
        written = [
            {
                "id": row["id"],
                "context": row["input"].partition("\n")[0].removeprefix("Note: "),
                "question": row["input"].partition("\n")[2],
                "answers": [row["answer"]],
            }
            for row in rows
        ]
        folder = tmp_path / "data" / split
        folder.mkdir(parents=True)
        (folder / "items.json").write_text(json.dumps(written), encoding="utf-8")
    return tmp_path / "data"


async def trained(items: Path, seed: int, *proposers: str, epochs: int = 1) -> Result:
    settings = {
        "env.name": "searchqa",
        "env.split_mode": "split_dir",
        "env.split_dir": str(items),
        "model.backend": "local",
        "model.target": MODEL,
        "gradient.proposer": list(proposers),
        "train.seed": seed,
        "train.num_epochs": epochs,
    }
    return await train_async(
        skill=DRAFT, out=items.parent / "run", settings=settings, progress=False
    )


@pytest.mark.parametrize("seed", [1, 2, 3], ids="1.5b-seed{}".format)
async def test_a_neutral_draft_gets_good_by_the_proposals_of_the_model_itself(
    items: Path, seed: int
) -> None:
    result = await trained(items, seed, "instruct")
    assert result.state.initial.evaluation.hard < 0.4
    assert result.test_score is not None
    assert result.test_score >= 0.8, result.best_skill


@pytest.mark.parametrize("seed", [1], ids="1.5b-seed{}".format)
async def test_it_gets_better_with_rules_that_the_answers_show_and_a_second_look(
    items: Path, seed: int
) -> None:
    result = await trained(items, seed, "instruct", "patterns", epochs=2)
    assert result.test_score is not None
    assert result.test_score >= 0.9, result.best_skill
