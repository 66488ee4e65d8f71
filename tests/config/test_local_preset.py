"""The preset for a small model on this machine, with a table of one's own."""

from __future__ import annotations

from pathlib import Path

from skillopt.app.run_spec import prepare
from skillopt.config.load import load_config

PRESET = Path(__file__).parents[2] / "configs" / "presets" / "local.yaml"


def test_the_preset_and_a_csv_are_a_whole_configuration(tmp_path: Path) -> None:
    rows = [f"Which number follows {n}?,{n + 1}\n" for n in range(90)]
    (tmp_path / "tickets.csv").write_text("question,answer\n" + "".join(rows), encoding="utf-8")
    (tmp_path / "my.yaml").write_text(
        f"_base_: [{PRESET}]\n"
        "env: {name: custom, data_path: tickets.csv, input: question, answer: answer, "
        "skill_init: blank}\n",
        encoding="utf-8",
    )
    config = load_config(tmp_path / "my.yaml")
    for role in (config.model.role("target"), config.model.role("optimizer")):
        assert (role.backend, role.model) == ("local", "qwen2.5-coder-1.5b")
    assert config.gradient.proposer == ("instruct", "patterns")
    assert config.optimizer.select_mode == "trial"
    assert len(prepare(config).environment.tasks("train")) == 30
