from __future__ import annotations

import json
from typing import cast

from skillopt.core.chat import Message
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.optimizer.explore import AttemptFiles
from skillopt.testing.simulator import SimulatedOptimizer, make_items
from skillopt.testing.simulator.reading import read_rules

WISE = SimulatedOptimizer(useless=0, harmful=0, broken=0)
ROOM = 50_000


def attempt(item: dict[str, str]) -> Rollout:
    said = (Message("user", item["input"]), Message("assistant", "?"))
    word = f"wrong answer: expected '{item['answer']}', got '?'"
    return Rollout(
        task=item["id"],
        kind=item["kind"],
        skill="",
        outcome=Score(0, 0, word),
        trajectory=Trajectory(said, "?"),
    )


def play(space: AttemptFiles, turns: int) -> tuple[list[str], list[dict[str, object]]]:
    """The tools it used, and the edits it concluded with."""
    talk, used = "<skill>\n</skill>\n<budget>4</budget>", list[str]()
    for left in range(turns, 0, -1):
        talk += f"\n<turns_left>{left}</turns_left>"
        reply = json.loads(WISE.answer("exploration", "", talk))
        if "edits" in reply:
            return used, reply["edits"]
        for call in cast("list[dict[str, str]]", reply["calls"]):
            used.append(call["tool"])
            match call["tool"]:
                case "list":
                    shown = space.list(ROOM)
                case "read":
                    shown = space.read(call["file"], 1, ROOM)
                case _:
                    shown = space.grep(call["text"], ROOM)
            talk += f"\n<result call=0>\n{shown}\n</result>"
    raise AssertionError("it never concluded")


def about(label: str) -> AttemptFiles:
    return AttemptFiles.of(attempt(item) for item in make_items(200, 4) if item["kind"] == label)


def test_it_lists_reads_searches_and_learns_from_what_it_read() -> None:
    used, edits = play(about("room code"), turns=12)
    assert list(dict.fromkeys(used)) == ["list", "read", "grep"]
    rules = read_rules("\n".join(str(edit["content"]) for edit in edits)).by_field
    assert rules == {"room code": ("letter_first",)}


def test_it_concludes_in_the_last_turn_and_knows_nothing_that_it_did_not_open() -> None:
    used, edits = play(about("room code"), turns=2)
    assert used == ["list"]
    assert edits == []
