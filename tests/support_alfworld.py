"""Small games that we make ourselves, with the rules that come with the package alfworld."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOMS = ("Bed", "Desk", "Shelf", "SideTable")
THINGS = ("Book", "Pen", "CD", "Mug")
# What the rules mention has to exist, if only by name.
OTHERS = ("FridgeType", "MicrowaveType", "SinkBasinType")


def installed() -> Path:
    """The folder of the package; the test is skipped where it is not installed."""
    found = find_spec("alfworld")
    if found is None or found.origin is None or find_spec("textworld") is None:
        pytest.skip("alfworld is not installed; make test-envs installs it")
    return Path(found.origin).parent


def write_game(root: Path, number: int, split: str = "train") -> dict[str, object]:
    """A game in which a thing has to be brought from one place to another; its row."""
    thing = THINGS[number % len(THINGS)]
    place = ROOMS[number // len(THINGS) % len(ROOMS)]
    goal = ROOMS[(number // len(THINGS) + 1) % len(ROOMS)]
    name = f"pick_and_place_simple-{thing}-None-{goal}-{number}"
    folder = root / "json_2.1.1" / split / name / "trial_own"
    folder.mkdir(parents=True)
    data = installed() / "data"
    wish = f"put a {thing.lower()} in {goal.lower()}."
    rules = (data / "alfred.twl2").read_text(encoding="utf-8")
    start, goods = place.lower(), thing.lower()
    game = {
        "pddl_domain": (data / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": rules.replace("UNKNOWN GOAL.", wish),
        "pddl_problem": _problem(thing, place, goal),
        "solvable": True,
        "walkthrough": [
            f"go to {start} 1",
            f"take {goods} 1 from {start} 1",
            f"go to {goal.lower()} 1",
            f"move {goods} 1 to {goal.lower()} 1",
        ],
    }
    file = folder / "game.tw-pddl"
    file.write_text(json.dumps(game), encoding="utf-8")
    return {
        "id": f"{split}:{number:04}",
        "gamefile": file.relative_to(root).as_posix(),
        "task_type": "pick_and_place_simple",
    }


def _problem(thing: str, place: str, goal: str) -> str:
    """The world in PDDL; names end in coordinates, as the game expects them."""

    def at(kind: str, number: int) -> str:
        return f"{kind}_bar__plus_0{number}_dot_00_bar__plus_00_dot_90_bar__plus_0{number}_dot_50"

    rooms = {kind: at(kind, number) for number, kind in enumerate(ROOMS)}
    spots = {kind: f"loc_bar_{number}_bar_1_bar_0_bar_60" for number, kind in enumerate(ROOMS)}
    item, agent_spot = at(thing, 9), "loc_bar_0_bar_0_bar_0_bar_30"
    objects = [
        "agent1 - agent",
        f"{thing}Type - otype",
        "ButterKnifeType - otype",
        "KnifeType - otype",
        *(f"{kind}Type - rtype" for kind in ROOMS),
        *(f"{kind} - rtype" for kind in OTHERS),
        f"{item} - object",
        *(f"{name} - receptacle" for name in rooms.values()),
        *(f"{spot} - location" for spot in (*spots.values(), agent_spot)),
    ]
    facts = [
        *(f"(receptacleType {rooms[kind]} {kind}Type)" for kind in ROOMS),
        *(f"(receptacleAtLocation {rooms[kind]} {spots[kind]})" for kind in ROOMS),
        *(f"(canContain {kind}Type {thing}Type)" for kind in ROOMS),
        f"(objectType {item} {thing}Type)",
        f"(inReceptacle {item} {rooms[place]})",
        f"(objectAtLocation {item} {spots[place]})",
        f"(pickupable {item})",
        f"(atLocation agent1 {agent_spot})",
        "(= (total-cost) 0)",
    ]
    wanted = (
        f"(exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) "
        f"(objectType ?o {thing}Type) (receptacleType ?r {goal}Type))))"
    )
    lines = ["(define (problem own)", "(:domain alfred)", "(:objects", *objects, ")", "(:init"]
    return "\n".join([*lines, *facts, ")", f"(:goal (and {wanted}))", ")"])
