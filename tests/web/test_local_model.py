"""A run with the embedded model, from rows that are sent to the page to a trained skill."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support_web import dashboard, until

from skillopt.model.weights import Folder, default_root, find

pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
pytestmark = pytest.mark.weights

MODEL = "qwen2.5-coder-0.5b"
ROOT = default_root(os.environ.get)
COLOURS = ("red", "blue", "green", "black", "white", "grey")
ROWS = "input,answer\n" + "".join(
    f"The car is {colour}. Which colour?,{colour.upper()}\n" for colour in COLOURS
)


def test_a_skill_is_trained_with_the_embedded_model_from_rows_that_were_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Folder(ROOT).has(find(MODEL)):
        pytest.skip(f"not on this machine: skillopt model fetch {MODEL}")
    monkeypatch.setenv("SKILLOPT_CACHE", str(ROOT.parent))  # its home is another one
    with dashboard(tmp_path) as site:
        assert site.get("means")["embedded"]
        sent = site.post("data?name=colours&filename=rows.csv", raw=ROWS.encode())
        assert (sent.status, sent.json["rows"]) == (200, 6), sent.body
        settings = {
            "env.name": "custom",
            "env.data_path": json.dumps(sent.json["path"]),
            "env.split_ratio": "1:1:1",
            "env.input": "input",
            "env.answer": "answer",
            "env.scorer": "exact",
            "env.skill_init": "blank",
            "model.backend": "local",
            "model.target": MODEL,
            "model.optimizer": MODEL,
            "model.target_max_tokens": "8",
            "model.optimizer_max_tokens": "48",
            "train.num_epochs": "1",
            "train.batch_size": "2",
        }
        estimated = site.post("ask/estimate", {"config": "", "settings": settings}).json
        assert estimated["dollars"] is None or estimated["dollars"]["expected"] == 0
        launch = {"kind": "config", "name": "colours", "settings": settings}
        run = site.post("launch", launch).json["id"]
        until(lambda: not site.get(f"runs/{run}")["job"]["running"] or None, seconds=900)
        told = site.get(f"runs/{run}")
    assert (told["head"]["status"], told["job"]["code"]) == ("finished", 0), told["job"]
    assert (told["head"]["target"], told["head"]["simulated"]) == (MODEL, False)
    assert told["head"]["claim"]["split"] == "test"
    assert told["tally"]["steps"] == 1
    spent = told["cost"]["total"]
    assert spent["calls"] > 0
    tokens = spent["input"] + spent["output"]
    assert estimated["tokens"]["low"] <= tokens <= estimated["tokens"]["high"]
