"""Benchmarks whose episodes real agent programs serve, against a model on loopback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support_agent_model import texts_in
from support_agents import AGENTS, TARGET_KEY, AgentFacts, installed
from support_benchmarks import RULE, teacher

from skillopt.api import Result, train_async
from skillopt.core.chat import Request
from skillopt.testing.model_server import ModelServer, ReceivedRequest
from skillopt.testing.wires import Act, Call, Json, Say

real_agents = pytest.mark.parametrize("agent", ["claude_code_exec", "codex_exec"])
_TASK = re.compile(r"<task>\n(.*?)</task>", re.DOTALL)
_OUTPUTS = ("function_call_output", "tool_result")


@dataclass
class Worker:
    """Opens the skill; if it holds the rule, works with the program's own shell, then answers."""

    facts: AgentFacts
    work: Callable[[str], str]
    """The command for a task; empty: none is needed."""
    answer: Callable[[str, str], str]
    """The answer to a task, from the task and what the command printed."""
    asked: list[str] = field(default_factory=list[str])

    def __call__(self, asked: ReceivedRequest) -> Act:
        self.asked.append(asked.text)
        found = next(filter(None, map(_TASK.search, texts_in(asked.body))), None)
        if not asked.tools or found is None:
            return Say("OK")
        task, outputs = found[1], list(_outputs(asked.body))
        if not outputs:
            return self.facts.reads
        if RULE not in outputs[0]:
            return Say("I do not know.")
        command = self.work(task)
        if command and len(outputs) == 1:
            about = {"description": "a command"} if self.facts.shell == "Bash" else {}
            return Call(self.facts.shell, {self.facts.command: command, **about})
        return Say(self.answer(task, outputs[-1]))


async def trained_by_agent(
    agent: str,
    environment: str,
    rows: Sequence[Mapping[str, object]],
    work: Callable[[str], str],
    answer: Callable[[str, str], str],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    judge: Callable[[Request], str] | None = None,
    **settings: object,
) -> tuple[Result, list[str]]:
    """Train for two steps with a real program; and all that its model was asked."""
    facts = AGENTS[agent]
    path = installed(facts.program)
    monkeypatch.setenv(facts.key, TARGET_KEY)
    worker = Worker(facts, work, answer)
    first, second, third, fourth = rows
    async with ModelServer(worker) as server:
        result = await train_async(
            train=[first, second],
            val=[third],
            test=[fourth],
            optimizer=teacher,
            judge=judge,
            skill="# Skill\n\n- Read the task to its end before you begin with it.\n",
            out=out,
            progress=False,
            settings={
                "env.name": environment,
                "model.target_backend": agent,
                "model.target": "m",
                "model.target_base_url": f"{server.url}{facts.root}",
                f"model.{agent}_path": path,
                "train.num_epochs": 1,
                "train.batch_size": 1,
                "evaluation.gate": "strict",
                "env.workers": 2,
                "env.agent_seconds": 300,
                **{f"env.{key}": value for key, value in settings.items()},
            },
        )
    return result, worker.asked


def _outputs(value: Json) -> Iterator[str]:
    """What tools have printed, in order."""
    match value:
        case {"type": str(kind), **rest} if kind in _OUTPUTS:
            yield "\n".join(texts_in(rest))
        case dict():
            for each in value.values():
                yield from _outputs(each)
        case list():
            for each in value:
                yield from _outputs(each)
        case _:
            pass
