"""`python -m skillopt.testing.simulator`: runs the simulator as a process."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path

from skillopt.testing.simulator import (
    Faults,
    SimulatedOptimizer,
    Simulator,
    initial_skill,
    write_data,
)


def main() -> None:
    """Write data if asked to, serve, and say where in one line on standard output."""
    options = _parser().parse_args()
    if options.data is not None:
        write_data(options.data, options.sizes, options.seed)
        (options.data / "initial_skill.md").write_text(initial_skill(), encoding="utf-8")
    names = [field.name for field in fields(Faults)]
    faults = Faults(**{name: getattr(options, name) for name in names})
    simulator = Simulator(
        seed=options.seed,
        noise=options.noise,
        latency=options.latency_ms,
        faults=faults,
        key=options.key,
        port=options.port,
        optimizer=SimulatedOptimizer(options.seed, broken=options.broken),
    )
    asyncio.run(_serve(simulator, watch_stdin=options.watch_stdin))


async def _serve(simulator: Simulator, *, watch_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(simulator)
        except OSError as error:
            sys.exit(
                f"cannot listen on port {simulator.port}: {os.strerror(error.errno or 0)}; "
                "give another --port"
            )
        sys.stdout.write(f"SIMULATION, no real model: {simulator.url}\n")
        sys.stdout.flush()
        if not watch_stdin:
            await stopped.wait()
            return
        pipe = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(pipe), sys.stdin
        )
        waits = [asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(pipe.read())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        transport.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skillopt.testing.simulator",
        description="Serve a SIMULATION of a target and an optimizer model on loopback.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="0: a free port")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--noise", type=float, default=0.04, help="share of answers with a mistake")
    parser.add_argument("--broken", type=float, default=0.03, help="share of broken JSON replies")
    parser.add_argument("--latency-ms", type=_latency, default="0", help="a number or A-B")
    faults = {
        "429": "HTTP status 429",
        "500": "HTTP status 500",
        "drop": "a closed connection",
        "truncate": "an incomplete body",
    }
    for name, what in faults.items():
        parser.add_argument(
            f"--rate-{name}", type=float, default=0.0, help=f"share of requests that get {what}"
        )
    parser.add_argument("--retry-after", type=float, default=1.0, help="Retry-After of a 429 (s)")
    parser.add_argument("--key", help="refuse requests without this key")
    parser.add_argument("--data", type=Path, help="folder for data and initial_skill.md")
    parser.add_argument("--sizes", type=_sizes, default="80,40,60", help="items of train,val,test")
    parser.add_argument("--watch-stdin", action="store_true", help="exit when stdin closes")
    return parser


def _latency(text: str) -> tuple[float, float]:
    shortest, dash, longest = text.partition("-")
    return float(shortest) / 1000, float(longest if dash else shortest) / 1000


def _sizes(text: str) -> tuple[int, int, int]:
    train, val, test = (int(size) for size in text.split(","))
    return train, val, test


if __name__ == "__main__":
    main()
