from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from support import Seen, analysis

from skillopt.core.chat import Request
from skillopt.core.memory import Memory
from skillopt.core.proposal import Probe, Turn
from skillopt.core.rollout import Failure, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.model.scripted import Scripted
from skillopt.optimizer.probe import Probing, spread
from skillopt.optimizer.reflect import Reflect
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

SKILL = Skill.parse("Body.\n")


def rollout(task: str, mark: float = 0.0, kind: str = "k", feedback: str = "bad: x") -> Rollout:
    return Rollout(task=task, kind=kind, skill="d", outcome=Score(mark, mark, feedback))


@dataclass(frozen=True, slots=True)
class Stream:
    """A batch that can be read several times, as those of a run can."""

    rollouts: tuple[Rollout, ...]

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for each in self.rollouts:
            yield each


@dataclass(slots=True)
class Actor:
    """A target that explains itself, and passes once it is told to mind."""

    asked: list[str] = field(default_factory=list[str])

    def leaked_reference(self, rollout: Rollout, text: str) -> str:
        return "GOLD" if "GOLD" in text else ""

    async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
        self.asked.append(question)
        return f"{rollout.task}: I did not know."

    async def retry(self, rollout: Rollout, skill: Skill, instruction: str) -> Rollout:
        mark = float("mind" in instruction)
        again = replace(rollout, outcome=Score(mark, mark, "fine" if mark else "bad: y"))
        return replace(again, trajectory=Trajectory((), f"did {rollout.task}"))


def move(kind: str, text: str) -> str:
    return json.dumps({"reasoning": "r", "probe": kind, "text": text})


def probing(model: Scripted, actor: Actor | None = None, turns: int = 3) -> Probing:
    asker = Asker(model, Library(), EventSink(MemoryLog(), Seen()))
    target_probe = actor if actor is not None else Actor()
    return Probing(asker=asker, target_probe=target_probe, failures=2, successes=1, turns=turns)


def inquisitive(request: Request) -> str:
    """Asks, tests, concludes; the analyst gets what comes of it."""
    if request.stage == "analyst":
        return analysis("r")
    user = request.messages[1].text
    if "[asked]" not in user:
        return move("ask", "Why?")
    return move("conclude", "done") if "[score 1.00]" in user else move("rerun", "- mind it")


async def test_a_probe_asks_then_tests_then_concludes_and_keeps_its_transcript() -> None:
    found = await probing(Scripted(inquisitive))(SKILL, [Stream((rollout("a"),))])
    asked = Turn("ask", "Why?", "a: I did not know.", why="r")
    tested = Turn("rerun", "- mind it", "did a", score=Score(1, 1, "fine"), why="r")
    assert found == {"a": Probe("a", (asked, tested), "done")}


async def test_turns_are_bounded_and_the_last_word_is_a_conclusion() -> None:
    calls: list[str] = []

    def endless(request: Request) -> str:
        calls.append(request.messages[1].text)
        if len(request.messages) > 2:
            return move("conclude", "well then")
        return move("ask", "Why?")

    actor = Actor()
    found = await probing(Scripted(endless), actor, turns=2)(SKILL, [Stream((rollout("a"),))])
    assert found["a"].conclusion == "well then"
    assert len(found["a"].turns) == len(actor.asked) == 2
    assert [text.partition("<turns_left>")[2][0] for text in calls] == ["2", "1", "0", "0"]


async def test_a_question_that_gives_the_reference_away_is_asked_for_anew_and_else_never_sent() -> (
    None
):
    def leaky(request: Request) -> str:
        if "not for the agent's eyes" in request.messages[-1].text:
            return move("ask", "Which rule did you use?")
        return move("conclude", "ok") if "[asked]" in request.messages[1].text else leak

    leak = move("ask", "Why not GOLD?")
    actor = Actor()
    found = await probing(Scripted(leaky), actor)(SKILL, [Stream((rollout("a"),))])
    assert actor.asked == ["Which rule did you use?"]
    assert found["a"].conclusion == "ok"

    stubborn = await probing(Scripted(lambda _: leak), actor)(SKILL, [Stream((rollout("a"),))])
    assert actor.asked == ["Which rule did you use?"]
    assert "GOLD" in stubborn["a"].problem


async def test_what_was_found_out_stands_beside_the_attempt_in_its_own_minibatch_only() -> None:
    shown: list[tuple[str, str]] = []

    def model(request: Request) -> str:
        if request.stage == "analyst":
            shown.append((request.messages[0].text, request.messages[1].text))
        return inquisitive(request)

    scripted = Scripted(model)
    to = replace(probing(scripted), failures=1, successes=0)
    reflect = Reflect(asker=to.asker, minibatch_size=2, probing=to)
    batch = Stream(tuple(rollout(each) for each in "abcd"))
    findings = await reflect(SKILL, [batch], Memory(), budget=2)
    (probed,) = [each for each in findings if each.probes]
    (probe,) = probed.probes
    assert probe.task in probed.tasks
    told = {f'<probe id="{probe.task}">' in user: system for system, user in shown}
    assert "`<probe>`" in told[True]
    assert "`<probe>`" not in told[False]
    user = next(user for _, user in shown if "<probe id" in user)
    assert user.index(f'<attempt id="{probe.task}"') < user.index(f'<probe id="{probe.task}"')
    assert "[score 1.00] did" in user
    assert "[concluded] done" in user


async def test_a_probe_without_a_conclusion_is_kept_and_not_shown() -> None:
    def model(request: Request) -> str:
        return analysis("r") if request.stage == "analyst" else "no JSON"

    to = probing(Scripted(model))
    (found,) = await Reflect(asker=to.asker, probing=to)(
        SKILL, [Stream((rollout("a"),))], Memory(), budget=2
    )
    assert "no usable answer" in found.probes[0].problem
    assert found.problem == ""
    assert found.proposals


async def test_probes_run_at_the_same_time() -> None:
    waiting: list[asyncio.Future[None]] = []

    @dataclass(slots=True)
    class Slow(Actor):
        async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
            gate = asyncio.get_running_loop().create_future()
            waiting.append(gate)
            if len(waiting) == 2:
                for each in waiting:
                    each.set_result(None)
            await gate
            return "met"

    found = await probing(Scripted(inquisitive), Slow(asked=[]))(
        SKILL, [Stream((rollout("a"), rollout("b")))]
    )
    assert {each.turns[0].came for each in found.values()} == {"met"}


def test_attempts_are_chosen_from_every_pattern_before_a_second_of_any() -> None:
    common = [rollout(f"c{n}") for n in range(5)]
    rare = [rollout("r", feedback="worse: z"), rollout("o", kind="other")]
    chosen = spread([*common, *rare], 4, seed=1)
    assert {each.task for each in chosen} > {"r", "o"}
    assert chosen[0].task.startswith("c")
    assert len(chosen) == 4
    assert chosen == spread([*common, *rare], 4, seed=1)
    assert {tuple(e.task for e in spread(common, 2, seed)) for seed in range(9)} != {("c0", "c1")}


async def test_attempts_without_a_score_are_not_looked_into() -> None:
    lost = Rollout(task="x", skill="d", outcome=Failure("ModelError", "down"))
    batch = Stream((lost, rollout("a"), rollout("p", 1.0), rollout("q", 1.0)))
    found = await probing(Scripted(inquisitive))(SKILL, [batch])
    assert "x" not in found
    assert "a" in found
    assert len(found) == 2
