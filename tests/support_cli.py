"""The command line as users have it: a process of its own, in a folder of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from skillopt.testing.simulator import initial_skill, write_data

CONFIG = """\
model:
  backend: openai_compatible
  base_url: {url}
  target: simulated-target
  optimizer: simulated-optimizer
  retries: 2
train: {{num_epochs: 1, batch_size: 8}}
optimizer: {{select_mode: ranking}}
env:
  name: custom
  split_mode: split_dir
  split_dir: data
  skill_init: skill.md
  workers: 8
  out_root: run
"""


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended."""

    code: int
    out: str
    err: str


Call: TypeAlias = Callable[..., Done]


@dataclass(frozen=True, slots=True)
class Trained:
    """A project with a finished run, and no server any more."""

    folder: Path
    done: Done


def make_project(folder: Path, url: str, sizes: tuple[int, int, int] = (16, 8, 8)) -> Path:
    """A folder with data, a skill and `c.yaml`."""
    write_data(folder / "data", sizes, seed=0)
    (folder / "skill.md").write_text(initial_skill(), encoding="utf-8")
    (folder / "c.yaml").write_text(CONFIG.format(url=url), encoding="utf-8")
    return folder


@asynccontextmanager
async def started(
    *args: str, cwd: Path, **env: str
) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """`python -m skillopt ARGS`, with both outputs piped; gone when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "skillopt"),
        *args,
        cwd=cwd,
        env={**_clean_environment(), **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def finish(process: asyncio.subprocess.Process, seconds: float = 240) -> Done:
    """Wait for the end of a process."""
    out, err = await asyncio.wait_for(process.communicate(), seconds)
    return Done(process.returncode or 0, out.decode(), err.decode())


async def skillopt(*args: str, cwd: Path, **env: str) -> Done:
    """Run a command to its end."""
    async with started(*args, cwd=cwd, **env) as process:
        return await finish(process)


def _clean_environment() -> dict[str, str]:
    unwanted = ("OPENAI", "TARGET_", "OPTIMIZER_", "SKILLOPT", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}


async def until(condition: Callable[[], bool], seconds: int = 30) -> None:
    """Wait for something that happens in another process."""
    for _ in range(100 * seconds):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it did not happen within {seconds} s")
