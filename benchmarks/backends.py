"""CPU time per call of each HTTP backend, with a local server that answers at once.

    python benchmarks/backends.py
    python benchmarks/backends.py --calls 5000 --json

The server runs in its own process, so its CPU time is not counted. `wire` is the backend alone;
`whole` includes everything that a run adds except the cache file: rate limits, retries, cost
accounting, caching. Each figure is the best of `--repeats`. Run nothing else on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass

from skillopt.app.models import ModelFactory, provider_model
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.testing.doubles import MemoryCache

PROMPT, ANSWER = "Rule: be brief and say why. " * 70, "It is so because it was so. " * 35
KEYS: dict[str, str] = dict.fromkeys(
    ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MINIMAX_API_KEY"),
    "sk-0123456789",
)
BACKENDS = {
    "openai_compatible": ("backend=openai_compatible", "base_url=URL"),
    "openai_chat": ("backend=openai_chat", "base_url=URL"),
    "openai_chat, responses": ("base_url=URL", "openai_chat_api=responses"),
    "openai_chat, Azure": ("azure_openai_endpoint=URL",),
    "claude_chat": ("backend=claude_chat", "base_url=URL"),
    "qwen_chat": ("backend=qwen_chat", "base_url=URL"),
    "minimax_chat": ("backend=minimax_chat", "base_url=URL"),
}
_COUNTS = {"input_tokens": 500, "output_tokens": 250}
_PARTS = [{"type": "output_text", "text": ANSWER}]
ANSWERS: dict[bytes, object] = {
    b"/messages": {
        "type": "message",
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "usage": _COUNTS,
    },
    b"/responses": {
        "status": "completed",
        "output": [{"type": "message", "content": _PARTS}],
        "usage": _COUNTS,
    },
    b"/chat/completions": {
        "choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 250},
    },
}


@dataclass(frozen=True, slots=True)
class Row:
    """One backend."""

    backend: str
    wire: float
    """Milliseconds of CPU per call."""
    whole: float


class Server(asyncio.Protocol):
    """As little of HTTP as one client needs, so that the client is what is measured."""

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, gap, body = self.buffer.partition(b"\r\n\r\n")
        if not gap or len(body) < _length(head):
            return
        self.buffer = b""
        path = head.split(b" ", 2)[1].partition(b"?")[0]
        answer = next(each for end, each in _BYTES.items() if path.endswith(end))
        if isinstance(self.transport, asyncio.Transport):
            self.transport.write(answer)


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))


def _response(answer: object) -> bytes:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


_BYTES = {path: _response(answer) for path, answer in ANSWERS.items()}


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def running_server() -> Generator[str, None, None]:
    argv = [sys.executable, __file__, "--serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, text=True, stdin=pipe, stdout=pipe) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("the server has no pipes")
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.stdin.close()


@asynccontextmanager
async def models(url: str, backend: str) -> AsyncGenerator[tuple[Model, Model]]:
    """The backend alone, and wrapped as in a run."""
    overrides = [each.replace("URL", url) for each in BACKENDS[backend]]
    role = load_config(overrides=overrides).model.role("target")
    secrets = Secrets(KEYS)
    async with Http() as http:
        factory = ModelFactory(secrets, http, MemoryCache(), Budget(Meter()))
        yield provider_model(role, secrets, http).wire, factory.connect(role)


async def cpu_per_call(model: Model, calls: int, at_once: int, first: int) -> float:
    """Milliseconds, every call with a prompt of its own."""
    numbers = iter(range(first, first + calls))

    async def worker() -> None:
        for number in numbers:
            asked = (Message("system", PROMPT), Message("user", f"Question {number}?"))
            reply = await model.complete(Request(stage="rollout", messages=asked))
            if reply.text != ANSWER:
                raise SystemExit(f"a wrong answer: {reply.text[:80]}")

    start = time.process_time()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return (time.process_time() - start) * 1000 / calls


async def measure(url: str, backend: str, options: argparse.Namespace) -> Row:
    async with models(url, backend) as (wire, whole):
        best: list[float] = []
        for model in (wire, whole):
            await cpu_per_call(model, 5 * options.at_once, options.at_once, -5 * options.at_once)
            figures = [
                await cpu_per_call(model, options.calls, options.at_once, turn * options.calls)
                for turn in range(options.repeats)
            ]
            best.append(min(figures))
    return Row(backend, *best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    with running_server() as url:
        rows = [asyncio.run(measure(url, backend, options)) for backend in BACKENDS]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    made = Table("backend", "wire, ms", "whole, ms", right=["wire, ms", "whole, ms"])
    for row in rows:
        made.add_row(row.backend, f"{row.wire:.2f}", f"{row.whole:.2f}")
    Screen().show(made)


if __name__ == "__main__":
    main()
