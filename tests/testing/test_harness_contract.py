from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from skillopt.core.chat import Reply, ToolCall, Usage
from skillopt.core.ports import Episode, Harness
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.harness.chat import Chat
from skillopt.model.scripted import Scripted
from skillopt.testing.contracts import ContractBroken
from skillopt.testing.contracts.harnesses import check_harness

Change = Callable[[Trajectory], Trajectory]


@dataclass
class Altered:
    """The chat harness, with a change to what it returns."""

    change: Change = lambda attempt: attempt
    fingerprint: str = "altered/1"
    serves: tuple[str, ...] = ()
    harness: Chat = field(default_factory=lambda: Chat(Scripted(lambda _: "OK")))

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        return self.change(await self.harness.run(episode, skill, replicate=replicate))


@dataclass
class Restless(Altered):
    """A fingerprint that never stays the same."""

    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __getattribute__(self, name: str) -> object:
        if name == "fingerprint":
            return f"restless/{next(self.numbers)}"
        return super().__getattribute__(name)


class Mixing(Altered):
    """Keeps everything that it was ever told in one conversation."""

    told = ()

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        attempt = await super().run(episode, skill, replicate=replicate)
        self.told = (*self.told, *attempt.messages)
        return replace(attempt, messages=self.told)


class Scoring(Altered):
    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        attempt = await super().run(episode, skill, replicate=replicate)
        await episode.score(attempt)
        return attempt


class Stubborn(Altered):
    """Goes on when it is cancelled, until the test lets it go."""

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        attempt = await super().run(episode, skill, replicate=replicate)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.harness = Chat(Scripted(lambda _: Reply(text="", usage=Usage(-1))))
        return attempt


@pytest.mark.parametrize(
    ("harness", "broken"),
    [
        (Altered(fingerprint=" "), "fingerprint is not blank"),
        (Restless(), "fingerprint is stable"),
        (Altered(serves=("smells",)), "names only images, tools, turns and workspace"),
        (Altered(lambda attempt: replace(attempt, messages=())), "contain the brief"),
        (Altered(lambda attempt: replace(attempt, turns=0)), "at least one turn"),
        (Altered(lambda attempt: replace(attempt, turns=3), serves=("tools",)), "limit of turns"),
        (Altered(lambda attempt: replace(attempt, usage=Usage(1, -1))), "below zero"),
        (Altered(serves=("workspace",)), "are read out"),
        (Mixing(), "do not mix"),
        (Scoring(), "does not score"),
        (Stubborn(), "below zero"),
    ],
)
async def test_a_harness_that_breaks_the_contract_is_told_how(
    harness: Harness, broken: str
) -> None:
    with pytest.raises(AssertionError, match=broken):
        await check_harness(harness)


async def test_a_broken_contract_is_an_error_of_its_own() -> None:
    with pytest.raises(ContractBroken):
        await check_harness(Altered(fingerprint=""))


@pytest.mark.parametrize(
    "reply", [Reply(text="OK"), Reply(text="", calls=(ToolCall("c", "look", "{}"),))]
)
async def test_the_chat_harness_keeps_the_contract(reply: Reply) -> None:
    await check_harness(Chat(Scripted(lambda _: reply)))
