"""What the engine expects of a harness.

    async def test_my_harness_keeps_the_contract():
        await check_harness(MyHarness(...))

The checks make about ten attempts at tiny tasks, so use a local server or a script as the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, cast, get_args

from skillopt.aio import map_all
from skillopt.core.chat import Image, Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, Workspace
from skillopt.core.ports import Episode, Harness, TellsServed
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.testing.contracts import check_fingerprint, expect
from skillopt.testing.contracts.models import DOT, check_usage

AT_ONCE: Final = 4
_SKILL = Skill.parse("# Rules\n\n- Answer with one word.\n")
_FILE = "given.txt"
_MOST_TURNS = 2


@dataclass(frozen=True)
class TextEpisode:
    """A task that is text only."""

    number: int = 0
    instructions: str = "You answer briefly."

    @property
    def brief(self) -> str:
        return f"This is question number {self.number}. Reply with OK."

    async def score(self, trajectory: Trajectory) -> Score:
        raise AssertionError("a harness does not score")


@dataclass(frozen=True)
class RichEpisode(TextEpisode):
    """A task with everything that the harness says to serve."""

    images: tuple[Image, ...] = ()
    tools: tuple[Tool, ...] = ()
    workspace: Workspace | None = None
    limits: EpisodeLimits = field(default_factory=lambda: EpisodeLimits(turns=_MOST_TURNS))

    async def call(self, call: ToolCall) -> str:
        return f"{call.name}: nothing to see"


async def check_harness(harness: Harness) -> None:
    """Run all checks of this module; raises `ContractBroken` for the first one that fails."""
    check_description(harness)
    await check_attempt(harness)
    await check_many_at_once(harness)
    await check_cancelled(harness)
    await check_served(harness)


def check_description(harness: Harness) -> None:
    """The fingerprint is not empty and does not change; `serves` names what there is to serve."""
    check_fingerprint(harness)
    unknown = set(_serves(harness)) - set(get_args(EpisodeNeed))
    expect(not unknown, f"`serves` names only images, tools, turns and workspace, not {unknown}")


async def check_attempt(harness: Harness) -> None:
    """An attempt gives a valid trajectory, with and without a skill, and scores nothing."""
    before = harness.fingerprint
    for replicate, skill in enumerate((_SKILL, Skill())):
        await _attempt(harness, TextEpisode(), skill, replicate)
    expect(harness.fingerprint == before, "an attempt does not change the fingerprint")


async def check_many_at_once(harness: Harness) -> None:
    """Attempts at the same time do not mix: each tells of its own task only."""
    episodes = [TextEpisode(number) for number in range(AT_ONCE)]
    attempts = await map_all(lambda episode: _attempt(harness, episode), episodes)
    for attempt in attempts:
        text = "\n".join(message.text for message in attempt.messages)
        shown = sum(episode.brief in text for episode in episodes)
        expect(shown == 1, "attempts at the same time do not mix")


async def check_cancelled(harness: Harness) -> None:
    """A cancelled attempt ends, and the harness still works afterwards."""
    attempt = asyncio.ensure_future(_attempt(harness, TextEpisode()))
    await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.wait([attempt], timeout=5)
    expect(attempt.done(), "a cancelled attempt ends")
    await _attempt(harness, TextEpisode())


async def check_served(harness: Harness) -> None:
    """An episode with all that is in `serves` is attempted; with tools, within its turns."""
    serves = _serves(harness)
    look = Tool("look", "Looks around.", {"type": "object", "properties": {}})
    episode = RichEpisode(
        images=(Image.of(DOT, "image/gif"),) if "images" in serves else (),
        tools=(look,) if "tools" in serves else (),
        workspace=Workspace(files={_FILE: b"1"}, collect=(_FILE,))
        if "workspace" in serves
        else None,
    )
    attempt = await _attempt(harness, episode)
    within = attempt.turns <= _MOST_TURNS or "tools" not in serves
    expect(within, "an attempt with tools keeps to the limit of turns")
    if "workspace" in serves:
        expect(_FILE in attempt.files, "files that the workspace collects are read out")


def _serves(harness: Harness) -> Collection[EpisodeNeed]:
    return harness.serves if isinstance(harness, TellsServed) else ()


async def _attempt(
    harness: Harness, episode: Episode, skill: Skill = _SKILL, replicate: int = 0
) -> Trajectory:
    attempt = await harness.run(episode, skill, replicate=replicate)
    expect(isinstance(cast("object", attempt), Trajectory), "an attempt is a `Trajectory`")
    expect(isinstance(cast("object", attempt.answer), str), "the answer is a string")
    texts = [message.text for message in attempt.messages]
    expect(any(episode.brief in text for text in texts), "the messages contain the brief")
    expect(attempt.turns >= 1, "an attempt has at least one turn")
    check_usage(attempt.usage)
    return attempt
