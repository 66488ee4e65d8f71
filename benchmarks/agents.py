"""What an attempt with an agent takes besides the program itself.

    python benchmarks/agents.py [--programs codex,claude] [--attempts 5]

Each program answers the same small task in two ways, against a model server on loopback that
answers at once:

- alone: started by hand with the same arguments in a plain folder, without a sandbox;
- attempt: as a harness runs it: workspace, sandbox, relay, proxy, budget, reading its report.

The difference is ours. A stand-in program that does nothing but one request shows it without the
noise of a large program. Programs are those that `make agents` installs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from skillopt.app.harness import make_harness, with_agent
from skillopt.app.models import ModelFactory
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.harness.agents.base import DOOR, HOME, WORK, AgentCall, AgentHarness
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.testing.doubles import MemoryCache
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import Say

AGENTS = {
    "codex": ("codex_exec", "/v1", "OPENAI_API_KEY"),
    "claude": ("claude_code_exec", "", "ANTHROPIC_API_KEY"),
    "copilot": ("copilot_exec", "/v1", "OPENAI_API_KEY"),
    "gemini": ("gemini_exec", "/v1beta", "GEMINI_API_KEY"),
    "opencode": ("opencode_exec", "/v1", "OPENAI_API_KEY"),
    "qwen": ("qwen_exec", "/v1", "QWEN_CHAT_API_KEY"),
}
"""By program: the agent, what follows the address of its server, and the variable of its key."""
SKILL = Skill.parse("# Sums\n\n- Answer with the bare number and with nothing else.\n")
STAND_IN = """#!/usr/bin/env python3
import json, os, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
body = {"messages": [{"role": "user", "content": "2+2?"}], "max_tokens": 50}
request = urllib.request.Request(url, json.dumps(body).encode())
answer = json.load(urllib.request.urlopen(request))["content"][0]["text"]
print(json.dumps({"type": "result", "is_error": False, "result": answer}))
"""


@dataclass(frozen=True)
class Sum:
    brief: str = "What is 2 + 2?"
    instructions: str = "You add numbers."

    async def score(self, trajectory: Trajectory) -> Score:
        return Score(float(trajectory.answer == "4"), float(trajectory.answer == "4"))


@asynccontextmanager
async def opened(
    program: str, path: str, server: ModelServer
) -> AsyncGenerator[AgentHarness, None]:
    """An agent as a run makes it from a configuration."""
    name, root, key = AGENTS[program]
    settings = {"target_backend": name, "target": "m", "target_base_url": server.url + root}
    settings[f"{name}_path"] = path
    overrides = [f"model.{key}={value}" for key, value in settings.items()]
    config = with_agent(load_config(overrides=overrides))
    shell = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], key: "a-key-of-loopback"}
    async with Http() as http:
        factory = ModelFactory(Secrets(shell), http, MemoryCache(), Budget(Meter()))
        target = factory.models_for(config, ["target"], {})["target"]
        harness = make_harness(config, target, factory)
        if not isinstance(harness, AgentHarness):
            raise TypeError(f"{name} is no agent")
        yield harness


async def timed(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Seconds that it usually takes."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


async def alone(harness: AgentHarness, url: str) -> None:
    """The program as a user would start it, with the same arguments."""
    call = AgentCall("m", "What is 2 + 2?", "", {}, (), network=False, own_folder=Path())
    how = harness.launch(call)
    with TemporaryDirectory() as folder:
        home, work, scratch = (Path(folder) / name for name in ("home", "work", "tmp"))
        for each in (home, work, scratch):
            each.mkdir()

        def told(text: str) -> str:
            return text.replace(DOOR, url).replace(HOME, str(home)).replace(WORK, str(work))

        for name, text in how.home.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(told(text), encoding="utf-8")
        variables = {name: told(value) for name, value in how.variables.items()}
        process = await asyncio.create_subprocess_exec(
            str(harness.path),
            *map(told, how.arguments),
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TMPDIR": str(scratch),
                **variables,
            },
        )
        await process.wait()


async def measure(label: str, program: str, path: str, attempts: int) -> None:
    async with ModelServer([Say("4")]) as server, opened(program, path, server) as harness:
        by_hand = await timed(lambda: alone(harness, server.url), attempts)
        attempt = await timed(lambda: harness.run(Sum(), SKILL), attempts)
    row: dict[str, object] = {"program": label, "alone_s": round(by_hand, 3)}
    row |= {"attempt_s": round(attempt, 3), "overhead_s": round(attempt - by_hand, 3)}
    print(json.dumps(row), flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--programs", default="codex,claude", help="by comma")
    parser.add_argument("--attempts", type=int, default=5)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stand-in" / "claude"
        path.parent.mkdir()
        path.write_text(STAND_IN, encoding="utf-8")
        path.chmod(0o755)
        await measure("stand-in", "claude", str(path), options.attempts)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    installed = Path(cache) / "skillopt" / "agents" / "node_modules" / ".bin"
    for program in options.programs.split(","):
        await measure(program, program, str(installed / program), options.attempts)


if __name__ == "__main__":
    asyncio.run(main())
