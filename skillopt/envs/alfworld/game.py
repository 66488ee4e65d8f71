"""A game in a process of its own, which is gone when the game is over."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO, Final, cast

from skillopt.aio import within
from skillopt.core.intake import MIB
from skillopt.core.temporary import swept
from skillopt.envs.processes import kill
from skillopt.errors import EnvironmentFault

_WORKER: Final = Path(__file__).with_name("worker.py")
_TOLD: Final = 2000
"""Characters of a broken program's last words."""


@dataclass(frozen=True, slots=True)
class GameState:
    observation: str
    commands: tuple[str, ...]
    """Those that do something in this state."""
    won: bool
    done: bool

    @classmethod
    def read(cls, line: bytes) -> GameState:
        """What a line of the worker says; `ValueError` if it tells of an error."""
        told = cast("dict[str, object]", json.loads(line))
        if "error" in told:
            raise ValueError(str(told["error"]))
        commands = cast("list[str]", told["commands"])
        return cls(
            str(told["observation"]),
            tuple(command for command in commands if command != "help"),
            won=bool(told["won"]),
            done=bool(told["done"]),
        )


@dataclass(slots=True)
class Game:
    """A game under way. Whatever breaks it is an `EnvironmentFault`, never a lost game."""

    process: Process
    errors: IO[bytes]
    seconds: float
    """For a command, and for the start."""
    state: GameState = field(default=GameState("", (), won=False, done=False))
    steps: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each command, and the observation that followed."""

    async def act(self, command: str) -> GameState:
        """Take a step; one that is not possible changes nothing and counts, too."""
        if self.process.stdin is None or self.state.done:
            raise ValueError("the game is over")
        one_line = " ".join(command.split())[:200]
        self.process.stdin.write(json.dumps(one_line).encode() + b"\n")
        await self.read()
        self.steps.append((one_line, self.state.observation))
        return self.state

    async def read(self) -> None:
        """Wait for the next state."""
        try:
            line = await within(self.seconds, self._line())
        except TimeoutError:
            raise EnvironmentFault(f"the game did not answer within {self.seconds:g} s") from None
        try:
            self.state = GameState.read(line)
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentFault(f"the game broke: {error or self._last_words()}") from error

    async def _line(self) -> bytes:
        if self.process.stdout is None:
            return b""
        line = await self.process.stdout.readline()
        if not line:
            raise EnvironmentFault(f"the game ended by itself: {self._last_words()}")
        return line

    def _last_words(self) -> str:
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - _TOLD))
        return self.errors.read().decode(errors="replace").strip() or "it said nothing"


@asynccontextmanager
async def playing(file: Path, *, max_steps: int, seconds: float) -> AsyncGenerator[Game, None]:
    """A game from its start; its process and its files are gone afterwards, whatever happens."""
    with swept("alfworld") as prefix, TemporaryFile() as errors:
        folder = Path(mkdtemp(prefix=prefix))
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_command(file, max_steps),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=folder,
                env={"TMPDIR": str(folder), "PATH": os.defpath, "PYTHONHASHSEED": "0"},
                limit=8 * MIB,
                start_new_session=True,
            )
        )
        try:
            game = Game(await asyncio.shield(starting), errors, seconds)
            await game.read()
            yield game
        finally:
            await asyncio.shield(_ended(starting, folder))


def _command(file: Path, max_steps: int) -> list[str]:
    return [sys.executable, "-I", str(_WORKER), str(file.absolute()), str(max_steps)]


async def _ended(starting: asyncio.Future[Process], folder: Path) -> None:
    with suppress(OSError):  # it could not be started
        process = await starting
        kill(process)
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            while await process.stdout.read(2**16):
                pass
        await process.wait()
    shutil.rmtree(folder, ignore_errors=True)
