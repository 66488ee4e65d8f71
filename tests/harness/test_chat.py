from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.core.episode import EpisodeLimits, NextTurn
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import EnvironmentFault
from skillopt.harness.chat import Chat


@dataclass
class Answering:
    reply: Reply = field(default_factory=lambda: Reply(text="42", usage=Usage(1, 2, 3)))
    asked: list[Request] = field(default_factory=list[Request])
    fingerprint: str = "m/1"

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.reply


@dataclass(frozen=True)
class Opened:
    instructions: str = "Answer in a word."
    brief: str = "How much?"

    async def score(self, trajectory: Trajectory) -> Score:
        hit = float(trajectory.answer == "42")
        return Score(hit, hit)


SKILL = Skill.parse("---\nname: x\n---\n# Rules\n- Be right.\n")


async def test_the_shared_part_comes_first_and_the_task_last() -> None:
    model = Answering()
    trajectory = await Chat(model).run(Opened(), SKILL, replicate=2)
    asked = (
        Message("system", f"Answer in a word.\n\n## Skill\n\n{SKILL.render()}"),
        Message("user", "How much?"),
    )
    assert model.asked == [Request(stage="rollout", messages=asked, replicate=2)]
    assert trajectory == Trajectory(
        (*asked, Message("assistant", "42")), answer="42", usage=Usage(1, 2, 3)
    )


@pytest.mark.parametrize("blank", ["", " \n\n"])
async def test_a_blank_skill_leaves_no_heading_behind(blank: str) -> None:
    model = Answering()
    await Chat(model).run(Opened(), Skill.parse(blank))
    assert model.asked[0].messages == (
        Message("system", "Answer in a word."),
        Message("user", "How much?"),
    )


async def test_with_nothing_to_share_only_the_brief_is_sent() -> None:
    model = Answering()
    await Chat(model).run(Opened(instructions=""), Skill())
    assert model.asked[0].messages == (Message("user", "How much?"),)
    await Chat(model).run(Opened(instructions=""), Skill.parse("s"))
    assert model.asked[1].messages[0] == Message("system", "## Skill\n\ns")


async def test_tasks_of_one_skill_share_their_prefix() -> None:
    model = Answering()
    for brief in ("one", "two"):
        await Chat(model).run(Opened(brief=brief), SKILL)
    first, second = (request.messages for request in model.asked)
    assert first[0] == second[0]
    assert first[1] != second[1]


@pytest.mark.parametrize(
    "reply", [Reply(text="", stop="length"), Reply(text="", stop="filter"), Reply(text="")]
)
async def test_an_empty_reply_is_an_answer(reply: Reply) -> None:
    trajectory = await Chat(Answering(reply)).run(Opened(), SKILL)
    assert trajectory.answer == ""
    assert trajectory.messages[-1] == Message("assistant", "")


async def test_a_limit_is_passed_on_and_changes_the_fingerprint() -> None:
    model = Answering()
    assert Chat(model).fingerprint == "chat/1/m/1"
    limited = Chat(model, max_tokens=5)
    assert limited.fingerprint == "chat/1/max_tokens=5/m/1"
    await limited.run(Opened(), SKILL)
    assert model.asked[0].max_tokens == 5


@dataclass(frozen=True)
class Guessing(Opened):
    """Tells every guess that it is too low, until one is right."""

    fresh: bool = False
    broken: bool = False
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    async def respond(self, reply: str) -> NextTurn | None:
        if self.broken:
            raise OSError("the game broke")
        return None if reply == "3" else NextTurn(f"{reply} is too low.", fresh=self.fresh)


@dataclass
class Counting:
    asked: list[Request] = field(default_factory=list[Request])
    fingerprint: str = "m/1"

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=str(len(self.asked)), usage=Usage(1, 10, 1))


@pytest.mark.parametrize("fresh", [False, True])
async def test_an_episode_that_takes_turns_answers_every_reply_until_it_is_over(
    fresh: bool,
) -> None:
    model = Counting()
    trajectory = await Chat(model).run(Guessing(fresh=fresh), Skill())
    assert (trajectory.answer, trajectory.turns, trajectory.usage.calls) == ("3", 3, 3)
    texts = [message.text for message in trajectory.messages]
    assert texts[1:] == ["How much?", "1", "1 is too low.", "2", "2 is too low.", "3"]
    shown = [message.text for message in model.asked[-1].messages]
    everything = ["Answer in a word.", "How much?", "1", "1 is too low.", "2", "2 is too low."]
    assert shown == (["Answer in a word.", "2 is too low."] if fresh else everything)


async def test_turns_end_at_the_limit_of_the_episode() -> None:
    episode = Guessing(limits=EpisodeLimits(turns=2))
    trajectory = await Chat(Counting()).run(episode, Skill())
    assert (trajectory.answer, trajectory.turns, trajectory.reached_limit) == ("2", 2, "turns")


async def test_an_episode_that_cannot_answer_ends_the_attempt_without_a_score() -> None:
    with pytest.raises(EnvironmentFault, match="OSError: the game broke"):
        await Chat(Counting()).run(Guessing(broken=True), Skill())
