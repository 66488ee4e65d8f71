"""Skills are trained in the real agents: the score rises only if the skill file is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support_agent_model import office_worker
from support_agents import AGENTS, TARGET_KEY, installed
from support_cli import finish, started

from skillopt.testing.model_server import ModelServer
from skillopt.testing.simulator import Simulator, initial_skill, make_items

pytestmark = pytest.mark.agents

KINDS = ("invoice amount", "planning week", "delivery date")
KNOWN = ("--use_deep_reflect", "true", "--skill_update_mode", "rewrite_from_suggestions")


def write_rows(folder: Path) -> None:
    """Tasks of a few kinds, so that what is learnt from one split counts in the other."""
    rows = [row for row in make_items(120, seed=0) if row["kind"] in KINDS]
    for number, split in enumerate(("train", "val", "test")):
        (folder / split).mkdir(parents=True)
        lines = [json.dumps(row) for row in rows[8 * number : 8 * number + 8]]
        (folder / split / "items.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "flags"), [("codex_exec", KNOWN), ("claude_code_exec", ())], ids=["codex", "claude"]
)
async def test_two_epochs_with_a_real_agent_raise_the_score(
    name: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    facts = AGENTS[name]
    path = installed(facts.program)
    write_rows(tmp_path / "data")
    (tmp_path / "skill.md").write_text(initial_skill(), encoding="utf-8")
    async with ModelServer(office_worker(facts)) as server, Simulator() as simulator:
        words = [
            *("train", "--env", "custom", "--student_backend", name, "--student_model", "m"),
            *("--split_mode", "split_dir", "--split_dir", "data", "--skill_init", "skill.md"),
            *("--num_epochs", "2", "--batch_size", "8", "--out_root", "run", *flags),
            *("--eval_test", "false", "--use_slow_update", "false", "--use_meta_skill", "false"),
            *("--edit_budget", "8", "--minibatch_size", "4"),
            *("model.optimizer_backend=openai_compatible", "model.optimizer=simulated-optimizer"),
            f"model.optimizer_base_url={simulator.url}",
            f"model.target_base_url={server.url}{facts.root}",
            f"model.{name}_path={path}",
            *("env.workers=4", "env.agent_seconds=300"),
        ]
        async with started(*words, cwd=tmp_path, **{facts.key: TARGET_KEY}) as process:
            done = await finish(process, 900)
    assert done.code == 0, done.err + done.out
    summary: dict[str, Any] = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert summary["best_selection_hard"] > summary["baseline_selection_hard"]
    rows = [
        json.loads(line)
        for results in (tmp_path / "run").rglob("results.jsonl")
        for line in results.read_text("utf-8").splitlines()
    ]
    assert all(row["skill_opened"] for row in rows if row["agent_ok"])
    calls = len(server.questions)
    stages = summary["receipt"]["target"].values()
    assert max(stage["calls"] for stage in stages) == calls, "the sum of all stages"
