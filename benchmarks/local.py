"""Backend local on this machine: memory, load time, tokens per second, seconds per short call.

    python benchmarks/local.py                       all downloaded models
    python benchmarks/local.py qwen2.5-coder-0.5b --parallel 1 2 4 --json

Each row is measured in its own process. Run nothing else on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from skillopt.aio import map_all
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.core.chat import Message, Reply, Request
from skillopt.model.http import Http
from skillopt.model.local import Local
from skillopt.model.provider import ModelSettings
from skillopt.model.weights import CATALOGUE, Folder, default_root

ROOT = default_root(os.environ.get)
SKILL = "Rule: a ticket about something broken goes to the house code of its floor. " * 18
QUESTION = (
    "Ticket {}: " + "the lamp over the second desk flickers since the storm, please look. " * 3
)
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Of `ru_maxrss`, in bytes."""
LONG, ANSWER, CALLS = "When the lamp flickers, the desk is dark and the work is late. " * 30, 15, 8


@dataclass(frozen=True, slots=True)
class Row:
    """One model at one number of calls at a time."""

    model: str
    parallel: int
    load_seconds: float
    memory_gb: float
    """The most that the process held."""
    prefill: float
    """Tokens of prompts per second, all calls together."""
    decode: float
    """Tokens of answers per second, all calls together."""
    short_call: float
    """Seconds per call, of several at once: shared skill, short question, short answer."""
    skill_tokens: int
    question_tokens: int


async def measure(name: str, parallel: int) -> Row:
    extra = {"folder": ROOT, "parallel": parallel}
    settings = ModelSettings(role="target", name=name, extra=extra, timeout=3600)
    model = Local.create(settings, Http())
    load, _ = await timed(model, [question("Hello", limit=1)])
    reading, read = await timed(
        model, [question(f"{number} {LONG}", limit=1) for number in range(parallel)]
    )
    writing, written = await timed(
        model, [question(f"Count to {number + 900}.", limit=48) for number in range(parallel)]
    )
    await timed(model, [ticket(0)])
    calling, called = await timed(model, [ticket(number + 1) for number in range(CALLS)])
    used = called[-1].usage
    return Row(
        model=name,
        parallel=parallel,
        load_seconds=load,
        memory_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 1e9,
        prefill=sum(reply.usage.input - reply.usage.cached for reply in read) / reading,
        decode=sum(reply.usage.output for reply in written) / writing,
        short_call=calling / CALLS,
        skill_tokens=used.cached,
        question_tokens=used.input - used.cached,
    )


async def timed(model: Local, requests: Sequence[Request]) -> tuple[float, list[Reply]]:
    start = time.perf_counter()
    replies = await map_all(model.complete, requests)
    return time.perf_counter() - start, replies


def question(text: str, limit: int) -> Request:
    return Request(stage="bench", messages=(Message("user", text),), max_tokens=limit)


def ticket(number: int) -> Request:
    messages = (Message("system", SKILL), Message("user", QUESTION.format(number)))
    return Request(stage="bench", messages=messages, max_tokens=ANSWER)


def rows(models: Sequence[str], parallels: Sequence[int]) -> list[Row]:
    found: list[Row] = []
    for name in models:
        for parallel in parallels:
            command = [sys.executable, __file__, name, "--parallel", str(parallel), "--here"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found.append(Row(**json.loads(done.stdout)))
    return found


def show(found: Sequence[Row]) -> None:
    names = ("parallel", "load s", "memory GB", "prefill t/s", "decode t/s", "short call s")
    made = Table("model", *names, right=names)
    for row in found:
        figures = (row.load_seconds, row.memory_gb, row.prefill, row.decode, row.short_call)
        made.add_row(row.model, str(row.parallel), *(f"{figure:.2f}" for figure in figures))
    Screen().show(made)
    if found:
        last = found[-1]
        Screen().show(
            f"\nshort call: skill of {last.skill_tokens} tokens, computed once; question of "
            f"{last.question_tokens}; answer of at most {ANSWER}; {CALLS} calls at once"
        )


def main() -> None:
    here = [each.name for each in CATALOGUE if Folder(ROOT).has(each)]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=here, help="names, or paths of GGUF files")
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        row = asyncio.run(measure(options.models[0], options.parallel[0]))
        sys.stdout.write(json.dumps(asdict(row)))
        return
    if not options.models:
        parser.error("no model is here; `skillopt model fetch NAME` gets one")
    found = rows(options.models, options.parallel)
    if options.json:
        sys.stdout.write(json.dumps([asdict(row) for row in found], indent=2) + "\n")
    else:
        show(found)


if __name__ == "__main__":
    main()
