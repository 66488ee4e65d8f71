"""Nights in which the real agent programs practise, against a model on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support_agents import AGENTS, TARGET_KEY, AgentFacts, installed
from support_sleep import MORNING, mined, places, simulated

from skillopt.config.secrets import Secrets
from skillopt.core.chat import Reply, Request
from skillopt.testing.model_server import ModelServer, ReceivedRequest
from skillopt.testing.wires import Act, Say
from skillopt_sleep.models import NightModels
from skillopt_sleep.night import run_night_async
from skillopt_sleep.planning import Bench

pytestmark = pytest.mark.agents

RULE = "End every commit message with a line that begins with Refs:"
THINGS = (
    *("search field", "login page", "price list", "export", "sitemap", "news feed"),
    *("cart", "invoice", "calendar", "archive", "profile", "newsletter"),
)


def committer(facts: AgentFacts) -> Callable[[ReceivedRequest], Act]:
    """Opens the skill with a tool of the program, and heeds what stands there."""

    def act(asked: ReceivedRequest) -> Act:
        if not asked.tools:
            return Say("OK")
        if not any(mark in asked.text for mark in ("function_call_output", "tool_result")):
            return facts.reads
        return Say("Add it\n\nRefs: 12" if RULE in asked.text else "Add it")

    return act


def optimizer(_: Request) -> Reply:
    edit: dict[str, object] = {
        "op": "append",
        "target": "",
        "content": f"- {RULE}",
        "why": "missing",
        "tasks": [],
    }
    return Reply(text=json.dumps({"reasoning": "so", "patterns": [], "edits": [edit]}))


@pytest.mark.parametrize(
    ("backend", "name"), [("claude", "claude_code_exec"), ("codex", "codex_exec")]
)
async def test_a_night_with_a_real_agent_accepts_a_rule_that_it_heeds(
    backend: str, name: str, tmp_path: Path
) -> None:
    facts = AGENTS[name]
    program = installed(facts.program)
    project, home = places(tmp_path)
    (project / "README.md").write_text("A shop.\n", encoding="utf-8")
    tasks = tuple(
        mined(
            f"task{at}",
            f"Write a commit message for the new {thing}.",
            split="train" if at < 4 else "val",
            project=project,
        )
        for at, thing in enumerate(THINGS)
    )
    async with ModelServer(committer(facts)) as server:
        settings = simulated(
            project,
            home,
            f"{server.url}{facts.root}",
            backend=backend,
            model="m",
            optimizer_model="",
            replay="agent",
            program_path=program,
            replicates=1,
            slow_update=False,
            max_tokens_per_night=0,
            workers=2,
        )
        night = await run_night_async(
            settings,
            Bench(
                tasks=tasks,
                home=home,
                clock=lambda: MORNING,
                secrets=Secrets({facts.key: TARGET_KEY}),
                models=NightModels(optimizer=optimizer),
            ),
        )
    (lesson,) = night.lessons
    assert (lesson.failed, lesson.stopped, lesson.failures) == ("", "", 0)
    assert night.accepted, lesson.trials
    assert lesson.after == f"- {RULE}"
    assert [(task.before, task.after) for task in lesson.tasks] == [(0.0, 1.0)] * 8
    assert len(server.questions) >= 2 * (4 + 8 + 8)
    assert sorted(path.name for path in project.iterdir()) == [".skillopt-sleep", "README.md"]
