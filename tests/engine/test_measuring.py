"""What an evaluation holds, what is shown meanwhile, and what its failures mean, compared whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from support import Seen, Sums, World

from skillopt.core.chat import Request
from skillopt.core.events import Measured, PhaseClosed, PhaseOpened, Ticked
from skillopt.core.rollout import Evaluation, Failure, Rollout, RolloutSpec, Score
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.rollouts import FailureCounter, RolloutRunner
from skillopt.errors import ModelError, Pending, Unmeasurable
from skillopt.model.scripted import Scripted

OLD, NEW = Skill.parse("old\n"), Skill.parse("new\n")
RIGHT, ZERO = Score(1, 1), Score(0, 0)
WRONG = "wrong sum: expected '203', got '0'"
DOWN = Failure("ModelError", "down")
TASKS = Sums(size=4).tasks("val")
A, B, C, D = (task.id for task in TASKS)


@dataclass(slots=True)
class Answers:
    """Right on all tasks, but for those that are named with a skill: `x` fails, `0` is wrong.

    Of several letters, each is for one attempt, and the last for all that follow.
    """

    old: dict[str, str] = field(default_factory=dict[str, str])
    new: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def __call__(self, request: Request) -> str:
        skill = "new" if "new" in request.messages[0].text else "old"
        left, right = map(int, request.messages[1].text.split(" + "))
        task = f"val-{left}"
        before = sum((skill, task) == each[:2] for each in self.asked)
        self.asked.append((skill, task, request.replicate))
        course = (self.new if skill == "new" else self.old).get(task, "1")
        match course[min(before, len(course) - 1)]:
            case "x":
                raise ModelError("down")
            case "0":
                return "0"
            case _:
                return str(left + right)


def runner(answers: Callable[[Request], str], **changes: object) -> tuple[RolloutRunner, Seen]:
    seen = Seen()
    env = Sums(size=4)
    world = World(env=env, target=Scripted(answers), seen=seen, workers=1, max_failed=0.5)
    return world.but(**changes).runner(), seen


def marks(evaluation: Evaluation) -> list[dict[str, float]]:
    return [{task: score.hard for task, score in each.items()} for each in evaluation.replicates]


def known(**scores: float) -> Measured:
    """The old skill, with these scores."""
    found = {f"val-{name[1:]}": Score(mark, mark) for name, mark in scores.items()}
    return Measured(OLD, Evaluation(OLD.digest, "val", found), 0.0, "x", 0)


ALL = known(v100=1, v101=1, v102=1, v103=1)


def shown(seen: Seen) -> list[tuple[str, int]]:
    return [(each.phase, each.total) for each in seen.events if isinstance(each, PhaseOpened)]


async def test_an_evaluation_has_every_task_in_order_with_its_score_or_its_failure() -> None:
    subject, seen = runner(Answers(new={B: "0", D: "x"}))
    found = await subject.measure(NEW, "val", [TASKS[n] for n in (3, 1, 0, 2)], "evaluate")
    assert found == Evaluation(NEW.digest, "val", {B: ZERO, A: RIGHT, C: RIGHT}, {D: DOWN})
    assert list(found.scores) == [B, A, C]
    opened, *ticks, closed = [
        each for each in seen.events if isinstance(each, PhaseOpened | Ticked | PhaseClosed)
    ]
    assert (opened, closed) == (PhaseOpened("", "evaluate", 4), PhaseClosed("", "evaluate"))
    assert ticks == [
        Ticked("", "evaluate", "failed"),
        Ticked("", "evaluate", "done", 0.0),
        Ticked("", "evaluate", "done", 1.0),
        Ticked("", "evaluate", "done", 1.0),
    ]
    again = await subject.measure(NEW, "val", TASKS[:1], "again")
    assert again == Evaluation(NEW.digest, "val", {A: RIGHT})
    assert Ticked("", "again", "reused", 1.0) in seen.events


async def test_a_task_is_attempted_once_per_replicate() -> None:
    answers = Answers()
    subject, seen = runner(answers)
    found = await subject.measure(NEW, "val", TASKS[:2], "evaluate", replicates=(0, 2))
    assert answers.asked == [("new", A, 0), ("new", A, 2), ("new", B, 0), ("new", B, 2)]
    assert shown(seen) == [("evaluate", 4)]
    assert marks(found)[0] == {A: 1, B: 1}


@pytest.mark.parametrize(("due", "met"), [([4], 4), ([1, 1, 0], 2), ([2, 0], 2), ([3, 9], 4)])
async def test_so_many_tasks_are_started_as_are_due_until_none_is(due: list[int], met: int) -> None:
    looked: list[int] = []

    def next_due(evaluation: Evaluation) -> int:
        looked.append(evaluation.n)
        return due[len(looked) - 1]

    subject, seen = runner(Answers())
    found = await subject.measure(NEW, "val", TASKS, "evaluate", due=next_due)
    assert list(found.scores) == [task.id for task in TASKS[:met]]
    assert looked == [sum(due[:number]) for number in range(len(due))]
    assert shown(seen) == [("evaluate", 4)]


async def test_a_failure_is_put_down_to_its_cause() -> None:
    """Once only; with this skill only; with both; with one that has no score to compare with."""
    answers = Answers(new={A: "x1", B: "x", C: "x", D: "x"}, old={C: "x"})
    subject, seen = runner(answers)
    found = await subject.measure(
        NEW, "val", TASKS, "evaluate", against=known(v100=1, v101=1, v102=1)
    )
    assert found == Evaluation(
        NEW.digest, "val", {A: RIGHT, B: ZERO}, {C: DOWN, D: DOWN}, own_failures={B: DOWN}
    )
    assert shown(seen) == [
        ("evaluate", 4),
        ("failed attempts again", 3),
        ("failed attempts compared", 2),
    ]
    again, compared = answers.asked[4:7], answers.asked[7:]
    assert again == [("new", A, 0), ("new", B, 0), ("new", C, 0)]
    check = 1_000_000 + int(NEW.digest[:6], 16)
    assert compared == [("old", B, check), ("old", C, check)]


async def test_every_replicate_is_settled_for_itself() -> None:
    answers = Answers(new={B: "x1x"})
    subject, _ = runner(answers)
    scores = {B: Score(1, 1)}
    both = Evaluation.over(OLD.digest, "val", [scores, scores], {})
    against = Measured(OLD, both, 1.0, "x", 0)
    found = await subject.measure(
        NEW, "val", TASKS[1:2], "evaluate", replicates=(0, 1), against=against
    )
    assert marks(found) == [{B: 0}, {B: 1}]
    check = 1_000_000 + int(NEW.digest[:6], 16)
    assert answers.asked == [("new", B, 0), ("new", B, 1), ("new", B, 0), ("old", B, check)]


async def test_what_counts_as_0_with_both_skills_is_not_looked_into() -> None:
    own = Evaluation(OLD.digest, "val", {A: ZERO}, own_failures={A: DOWN})
    answers = Answers(new={A: "x"})
    subject, seen = runner(answers)
    found = await subject.measure(
        NEW, "val", TASKS[:1], "evaluate", against=Measured(OLD, own, 0.0, "x", 0)
    )
    assert found == Evaluation(NEW.digest, "val", {A: ZERO}, own_failures={A: DOWN})
    assert shown(seen) == [("evaluate", 1), ("failed attempts again", 1)]


REFUSED = (
    "attempts failed, more than {share} (evaluation.max_failure_share), so the result would be "
    "meaningless. Last failure: {last}. Finished work is saved: fix the cause and run the same "
    "command again."
)


def refused(least: str, share: str, last: str = "down") -> str:
    return f"{least} {REFUSED.format(share=share, last=last)}"


async def test_too_many_failures_are_refused_with_their_number_and_the_last_of_them() -> None:
    down, two = Answers(new={A: "x", B: "x", C: "x"}), Answers(new={A: "x", B: "x"})
    with pytest.raises(Unmeasurable) as error:
        await runner(down)[0].measure(NEW, "val", TASKS, "evaluate")
    assert str(error.value) == refused("at least 3 of 4", "50%")
    with pytest.raises(Unmeasurable) as error:
        await runner(down)[0].measure(NEW, "val", TASKS[:3], "evaluate", max_failed=0.9)
    assert str(error.value) == refused("all 3", "90%")
    with pytest.raises(Unmeasurable) as error:
        await runner(two)[0].measure(NEW, "val", TASKS, "evaluate", max_failed=0.1, beside=6)
    assert str(error.value) == refused("at least 2 of 10", "10%")
    found = await runner(down)[0].measure(NEW, "val", TASKS, "evaluate", max_failed=0.75)
    assert list(found.failures) == [A, B, C]
    found = await runner(down)[0].measure(NEW, "val", TASKS, "evaluate", beside=2)
    assert list(found.failures) == [A, B, C]
    await runner(two)[0].measure(NEW, "val", TASKS, "evaluate")


async def test_failures_that_are_nobodys_fault_are_refused_where_they_are_too_many() -> None:
    answers = Answers(new={A: "x", B: "x", C: "x"}, old={A: "x", B: "x", C: "x"})
    with pytest.raises(Unmeasurable) as error:
        await runner(answers)[0].measure(NEW, "val", TASKS, "evaluate", against=ALL)
    assert str(error.value) == refused("at least 3 of 4", "50%")
    with pytest.raises(Unmeasurable) as error:
        await runner(answers)[0].measure(NEW, "val", TASKS, "evaluate", against=known())
    assert str(error.value) == refused("at least 3 of 4", "50%")
    nothing = Evaluation(NEW.digest, "val", {A: RIGHT})
    subject, _ = runner(answers)
    unsettled = subject.failure_counter(4)
    with pytest.raises(Unmeasurable) as error:
        await subject.settle(nothing, NEW, TASKS, known(), unsettled)
    assert str(error.value) == refused("at least 3 of 4", "50%", "an attempt failed")


async def test_several_skills_are_measured_side_by_side_each_on_its_own_tasks() -> None:
    answers = Answers(new={A: "x1", B: "x"})
    subject, seen = runner(answers)
    trials: Sequence[tuple[Skill, Sequence[Task]]] = [(OLD, TASKS[:3]), (NEW, TASKS[:2])]
    old, new = await subject.measure_each(trials, "val", "trial", against="first")
    assert old == Evaluation(OLD.digest, "val", {A: RIGHT, B: RIGHT, C: RIGHT})
    assert new == Evaluation(NEW.digest, "val", {A: RIGHT, B: ZERO}, own_failures={B: DOWN})
    assert shown(seen) == [
        ("trial", 5),
        ("failed attempts again", 2),
        ("failed attempts compared", 1),
    ]
    subject, seen = runner(Answers(new={B: "x"}))
    old, new = await subject.measure_each(trials, "val", "trial", replicates=(0, 1))
    assert (marks(old), marks(new)) == (
        [{A: 1, B: 1, C: 1}] * 2,
        [{A: 1}] * 2,
    )
    assert shown(seen) == [("trial", 10)]


async def test_an_attempt_outside_of_any_evaluation_is_neither_shown_nor_counted() -> None:
    answers = Answers(new={A: "x", B: "0"})
    subject, seen = runner(answers)
    first, second = await subject.try_out(NEW, TASKS[:2])
    assert (first.outcome, first.task, first.replicate, first.skill) == (DOWN, A, 0, NEW.digest)
    assert second.outcome == Score(0, 0, WRONG)
    (third,) = await subject.try_out(NEW, TASKS[2:3], 7)
    assert (third.outcome, third.replicate) == (Score(1, 1, "correct"), 7)
    assert answers.asked == [("new", A, 0), ("new", B, 0), ("new", C, 7)]
    assert not seen.events


async def test_a_counter_tells_the_first_trouble_at_once_and_counts_on() -> None:
    counter = FailureCounter(4, 0.25)
    counter.count("one")
    assert (counter.failed, counter.trouble, counter.halted.done()) == (1, None, False)
    counter.count("two")
    assert counter.halted.done()
    counter.count("three")
    assert str(counter.trouble) == refused("at least 3 of 4", "25%", "three")
    counter.count("four")
    assert str(counter.trouble) == refused("all 4", "25%", "four")
    other = ModelError("key refused")
    counter.halt(other)
    assert isinstance(counter.trouble, Unmeasurable)
    counter = FailureCounter(4, 0.25)
    counter.halt(other)
    for message in ("one", "two"):
        counter.count(message)
    assert counter.trouble is other


async def test_what_waits_for_an_answer_is_told_when_all_others_are_done() -> None:
    counter = FailureCounter(3, 1.0, started=3)
    one, other = (Pending("asked", frozenset({name})) for name in ("q1", "q2"))
    counter.wait(one)
    counter.finish()
    counter.finish()
    assert counter.trouble is None
    counter.wait(other)
    counter.finish()
    assert isinstance(counter.trouble, Pending)
    assert counter.trouble.questions == {"q1", "q2"}


class Elsewhere:
    """An executor whose workers are gone."""

    async def run(self, spec: RolloutSpec) -> Rollout:
        raise ModelError(f"no worker for {spec.task.id}")


async def test_an_attempt_that_an_executor_cannot_make_is_a_failure() -> None:
    subject = replace(runner(Answers())[0], executor=Elsewhere())
    (found,) = await subject.try_out(NEW, TASKS[:1])
    assert found == Rollout(
        task=A,
        kind="sum",
        skill=NEW.digest,
        outcome=Failure("ModelError", f"no worker for {A}"),
    )


async def test_several_skills_that_fail_on_what_all_fail_on_cannot_be_compared() -> None:
    answers = Answers(new={A: "x", B: "x"}, old={A: "1x", B: "1x"})
    trials: Sequence[tuple[Skill, Sequence[Task]]] = [(OLD, TASKS[:2]), (NEW, TASKS[:2])]
    subject, _ = runner(answers, max_failed=0.25)
    with pytest.raises(Unmeasurable) as error:
        await subject.measure_each(trials, "val", "trial", against="first")
    assert str(error.value) == refused("at least 2 of 4", "25%")
    found = await runner(Answers(new={A: "x"}), max_failed=0.25)[0].measure_each(
        trials, "val", "trial"
    )
    assert [list(each.failures) for each in found] == [[], [A]]
