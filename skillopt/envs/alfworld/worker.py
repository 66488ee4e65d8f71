"""Plays one game: reads a command per line, and writes what came of it as a line of JSON.

It is a program of its own, because TextWorld can neither play several games in one process at a
time nor be interrupted. It ends when standard input does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, TextIO


def main() -> None:
    """Play the game that the first argument names, for as many steps as the second allows."""
    game, steps = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is none of our lines
    try:
        play(_environment(game, int(steps)), out)
    except Exception as error:  # noqa: BLE001 - told to whoever started us
        _tell(out, {"error": f"{type(error).__name__}: {error}"})


def play(environment: Any, out: TextIO) -> None:  # noqa: ANN401 - TextWorld has no types
    observations, infos = environment.reset()
    _tell(out, _state(observations, infos, done=False))
    for line in sys.stdin:
        observations, _, done, infos = environment.step([json.loads(line)])
        _tell(out, _state(observations, infos, done=bool(done[0])))


def _environment(game: str, steps: int) -> Any:  # noqa: ANN401 - TextWorld has no types
    textworld: Any = importlib.import_module("textworld")
    gym: Any = importlib.import_module("textworld.gym")
    alfred: Any = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    name = gym.register_games(
        [game],
        textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"]),
        batch_size=1,
        asynchronous=False,
        max_episode_steps=steps,
        wrappers=[alfred.AlfredDemangler(shuffle=False), alfred.AlfredInfos],
    )
    return gym.make(name)


def _state(observations: Any, infos: Any, *, done: bool) -> dict[str, object]:  # noqa: ANN401
    return {
        "observation": str(observations[0]),
        "commands": sorted(map(str, infos["admissible_commands"][0])),
        "won": bool(infos["won"][0]),
        "done": done,
    }


def _tell(out: TextIO, what: dict[str, object]) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
