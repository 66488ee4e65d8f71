"""A process that makes attempts for a run: specs on standard input, answers on standard output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skillopt.aio import TaskGroup
from skillopt.app.executors import RemoteExecutor, open_worker
from skillopt.config.load import load_kept
from skillopt.config.schema import Config
from skillopt.errors import HarnessError
from skillopt.model.budget import Budget

LINE = 2**24
HERE = Path(__file__).parent


@dataclass(slots=True)
class Pipes:
    """Sends lines to a worker process, each with a number by which its answer is found."""

    process: asyncio.subprocess.Process
    waiting: dict[int, asyncio.Future[bytes]] = field(
        default_factory=dict[int, "asyncio.Future[bytes]"]
    )
    sent: int = 0
    lost: bool = False

    async def exchange(self, line: bytes) -> bytes:
        if self.lost:
            raise HarnessError("the worker is gone")
        assert self.process.stdin is not None
        number = self.sent = self.sent + 1
        self.waiting[number] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(b"%d %s\n" % (number, line))
        return await self.waiting[number]

    async def read(self) -> None:
        """Hand out answers until the worker ends; who waits then has lost an attempt."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            number, _, answer = line.partition(b" ")
            self.waiting.pop(int(number)).set_result(answer)
        self.lost = True
        for each in self.waiting.values():
            each.set_exception(HarnessError("the worker is gone"))


@dataclass(slots=True)
class WorkerProcess:
    """Opens a worker with a configuration; `pipes` is there as long as it is open."""

    config: Config
    pipes: Pipes | None = None

    @asynccontextmanager
    async def __call__(self, budget: Budget) -> AsyncGenerator[RemoteExecutor, None]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, json.dumps(self.config.flat())),
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE,
        )
        self.pipes = Pipes(process)
        reading = asyncio.create_task(self.pipes.read())
        try:
            yield RemoteExecutor(self.pipes.exchange, budget)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # at the end of its input it removes its folder and ends
            await process.wait()
            await reading


async def _serve(settings: str) -> None:
    lines = asyncio.StreamReader(limit=LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with open_worker(load_kept(json.loads(settings))) as worker, TaskGroup() as group:

        async def one(number: bytes, spec: bytes) -> None:
            answer = await worker.answer(spec)
            sys.stdout.buffer.write(number + b" " + answer + b"\n")
            sys.stdout.buffer.flush()

        async for line in lines:
            number, _, spec = line.partition(b" ")
            group.start(one(number, spec))


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
