"""ALFWorld: household tasks in a text game, done command by command."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.core.chat import Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, NextTurn
from skillopt.core.extras import install_command
from skillopt.core.intake import MIB, read_file, read_json, tagged
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Split, Task
from skillopt.core.wording import counted
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.alfworld.game import Game, playing
from skillopt.envs.dataset import Tasks, fingerprint, row_of, text_field
from skillopt.errors import ConfigError, DataError

_ROLE: Final = """\
You do a household task in a text game. You see what is around you and act by one command at a \
time. A command that is not possible in your situation does nothing, and counts as a step."""
_BY_TEXT: Final = f"""{_ROLE}

Think first, then give exactly one of the listed commands, in this form:
<think>what you know and what comes next</think>
<action>the command</action>"""
_BY_TOOL: Final = f"""{_ROLE}

Act by calling the tool act with exactly one of the listed commands, until it says that the game \
is over."""
_WITHOUT_ACTION: Final = "look"
"""What a reply without a command counts as."""
_GAME_BYTES: Final = 16 * MIB
_ACT: Final = Tool(
    "act",
    "Takes one step in the game, and says what came of it and which commands are possible next.",
    {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "One of those listed."}},
        "required": ["command"],
    },
)
_UNUSED: Final = re.compile(r"movable|Sliced")
"""Names of games that the benchmark leaves out."""


class AlfWorld:
    """Hard and soft: whether the game says that it is won."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """Where the games are, and how they are played."""

        data_root: Path | None = None
        """The folder that paths of games start from; it holds `json_2.1.1/`."""
        actions: Literal["text", "tool"] = "text"
        """How the agent acts: in its reply, or by calling a tool."""
        max_steps: int = 50
        history: int = 2
        """Steps that a text shows before the current one; the whole conversation is not sent."""
        game_timeout: float = 120.0
        """Seconds for one step, and for the start of a game."""
        max_api_workers: int = 0
        """Has no effect: `workers` says how many games are played at once."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    prompts: ClassVar[Path | None] = None
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="ALFWorld: household tasks in a text game",
        sources=(
            DataSource(
                what="the games (json_2.1.1), which alfworld-download fetches",
                url="https://github.com/alfworld/alfworld/releases",
                licence="MIT",
            ),
        ),
        items={"train": 3553, "valid_seen": 140, "valid_unseen": 134},
        extra="alfworld",
        notes=(
            "the packages are compiled, which takes some minutes and a C++ compiler",
            "fast-downward-textworld, which they need, is GPL-3",
        ),
    )
    name = "alfworld"

    def __init__(self, settings: AlfWorld.Settings, splits: Splits) -> None:
        for key, least in (("max_steps", 1), ("history", 0)):
            if getattr(settings, key) < least:
                raise ConfigError(f"env.{key}: {getattr(settings, key)}; use {least} or more")
        if find_spec("textworld") is None or find_spec("alfworld") is None:
            raise ConfigError(
                f"env.name: the games of alfworld need packages ({install_command('alfworld')}); "
                "they are compiled, which takes some minutes and a C++ compiler"
            )
        self._settings = settings
        self._root = settings.data_root or splits.root
        self._tasks = Tasks.of(splits, self._task)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The games below a folder, by the paths that manifests name them by."""
        for row in games_below(source):
            yield RawItem(row, (str(row.data["gamefile"]),))

    @property
    def fingerprint(self) -> str:
        played = self._settings
        return fingerprint(
            f"{self.name}/1", {"how": [played.actions, played.max_steps, played.history]}
        )

    @property
    def warnings(self) -> Sequence[str]:
        return self._tasks.warnings

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("turns",) if self._settings.actions == "text" else ("tools",)

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks.splits[split]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[TextGame | ToolGame, None]:
        file = self._file(row_of(task))
        settings = self._settings
        async with playing(
            file, max_steps=settings.max_steps, seconds=settings.game_timeout
        ) as game:
            kind = TextGame if settings.actions == "text" else ToolGame
            yield kind(game, game.state.observation, settings)

    def _task(self, name: str, row: Row) -> Task:
        """A row with the content of its game, so that an attempt counts for this game only."""
        path = self._file(row)
        try:
            content = read_file(path, _GAME_BYTES)
            game = cast("Mapping[str, object]", read_json(content))
            missing = [key for key in ("pddl_domain", "grammar", "pddl_problem") if key not in game]
        except (OSError, ValueError, TypeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a game.tw-pddl file"
            raise DataError(
                f"{row.where}: the game {path} cannot be read ({reason}); env.data_root is "
                f"{self._root or 'not set'}"
            ) from error
        if missing:
            raise DataError(f"{row.where}: {path} is no game, it has no {missing[0]!r}")
        kind = row.data.get("task_type") or path.parent.parent.name.partition("-")[0]
        digest = hashlib.sha256(content).hexdigest()[:16]
        return Task(name, str(kind), {**row.data, "game": digest})

    def _file(self, row: Row) -> Path:
        path = Path(text_field(row, "gamefile"))
        return path if self._root is None else self._root / path


@dataclass(slots=True)
class HouseholdTask:
    """A game that is played for one attempt."""

    game: Game
    opening: str
    settings: AlfWorld.Settings

    @property
    def brief(self) -> str:
        return f"{self.opening.strip()}\n\n{self.possible()}"

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(turns=self.settings.max_steps + 1)

    def possible(self) -> str:
        return "\n".join(["## Possible commands", *self.game.state.commands])

    async def score(self, trajectory: Trajectory) -> Score:
        del trajectory
        won, steps = self.game.state.won, len(self.game.steps)
        if won:
            return Score(1, 1, f"won: after {counted(steps, 'step')}")
        last = f", at last {self.game.steps[-1][0]!r}" if steps else ""
        of = "all " if steps >= self.settings.max_steps else ""
        return Score(
            0, 0, f"not won: the task is not done after {of}{counted(steps, 'step')}{last}"
        )

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        del trajectory
        return {
            "task_description": self.opening,
            "won": self.game.state.won,
            "steps": [{"action": action, "env_feedback": seen} for action, seen in self.game.steps],
        }


class TextGame(HouseholdTask):
    """Commands are read from replies; each turn says what is needed for the next one."""

    instructions = _BY_TEXT
    empty_ok = True

    async def respond(self, reply: str) -> NextTurn | None:
        state = await self.game.act([_WITHOUT_ACTION, *tagged(reply, "action")][-1])
        return None if state.done else NextTurn(self._situation(), fresh=True)

    def _situation(self) -> str:
        steps, task = self.game.steps, self.opening.rpartition("Your task is to:")[2].strip()
        shown = steps[-1 - self.settings.history : -1]
        past = [f"> {action}\n{seen.strip()}" for action, seen in shown]
        action, seen = steps[-1]
        parts = [
            f"## Task\n{task}",
            f"You have taken {len(steps)} of at most {self.settings.max_steps} steps.",
            *(["## The steps before\n" + "\n".join(past)] if past else []),
            f"## The last step\n> {action}\n{seen.strip()}",
            self.possible(),
        ]
        return "\n\n".join(parts)


class ToolGame(HouseholdTask):
    """Commands are calls of a tool."""

    instructions = _BY_TOOL
    tools = (_ACT,)

    async def call(self, call: ToolCall) -> str:
        command = json.loads(call.arguments).get("command")
        if not isinstance(command, str) or not command.strip():
            raise ValueError("give one command, as text")
        state = await self.game.act(command)
        if state.done:
            return f"{state.observation.strip()}\n\nThe game is over."
        return f"{state.observation.strip()}\n\n{self.possible()}"


def games_below(root: Path) -> list[Row]:
    """A row for each game in `json_2.1.1/<split>/<task>/<trial>/`; manifests number them anew."""
    files = sorted(root.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    if not files:
        raise DataError(
            f"{root}: no json_2.1.1/<split>/<task>/<trial>/game.tw-pddl here; alfworld-download "
            "fetches the games"
        )
    used = [file for file in files if not _UNUSED.search(file.parent.parent.name)]
    return [
        Row(
            {
                "id": f"{file.parent.parent.name}:{file.parent.name}",
                "gamefile": file.relative_to(root).as_posix(),
                "task_type": file.parent.parent.name.partition("-")[0],
            },
            str(file),
        )
        for file in used
    ]
