"""A short training run written by hand: its events, and the finished work behind them."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.core.chat import Message, Reply, Usage
from skillopt.core.edits import Append, Delete, InsertAfter, Replace, apply_edits
from skillopt.core.events import (
    Begun,
    Decision,
    Event,
    FinalTested,
    Measured,
    Started,
    Stopped,
    Timed,
)
from skillopt.core.facts import Batch, Compared, EpochClosed, Stepped
from skillopt.core.proposal import (
    Candidate,
    Draft,
    Finding,
    Pattern,
    Proposal,
    ProposalSet,
    Review,
    Selection,
)
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split
from skillopt.store.cache import SqliteCache

INITIAL = Skill.parse("---\nname: s\n---\n# Übung\r\n\r\n- Be brief.\r\n")
RULE = Append("- Answer in capitals.")
REJECTED = apply_edits(INITIAL, [Append("- Shout.")]).skill
FIRST = apply_edits(INITIAL, [RULE]).skill
GUIDED = FIRST.with_guidance("Keep going.")
TRAIN, VAL, TEST = ("a", "b", "c"), ("v1", "v2"), ("t1", "t2", "t3")
CONFIG: dict[str, object] = {
    "gate_metric": "hard",
    "lr_control_mode": "fixed",
    "num_epochs": 2,
    "seed": 7,
    "accumulation": 1,
}


def rollout(task: str, skill: Skill, hard: float = 1.0, replicate: int = 0) -> Rollout:
    """A finished attempt that says which one it is."""
    said = (Message("user", f"do {task}"), Message("assistant", f"{task} by {skill.digest} ✓"))
    trajectory = Trajectory(said, f"answer {task}", Usage(1, 10, 5), turns=1)
    score = Score(hard, hard / 2, "" if hard == 1 else "format: not in capitals")
    return Rollout(
        task=task,
        kind="odd" if task.endswith("1") else "even",
        skill=skill.digest,
        outcome=score,
        trajectory=trajectory,
        replicate=replicate,
    )


def evaluation(skill: Skill, split: Split, tasks: Sequence[str], *marks: float) -> Evaluation:
    """Marks for the first tasks; the others failed."""
    scores = {task: Score(mark, mark / 2) for task, mark in zip(tasks, marks, strict=False)}
    lost = {task: Failure("ModelError", "timed out") for task in tasks[len(marks) :]}
    return Evaluation(skill.digest, split, scores, lost)


def measured(skill: Skill, origin: str, step: int, *marks: float) -> Measured:
    """A skill on the validation tasks."""
    result = evaluation(skill, "val", VAL, *marks)
    return Measured(skill, result, result.hard, origin, step)


def draft(edit: Append, skill: Skill) -> Draft:
    """One finding of each kind and a reflection that failed, merged, ranked and applied."""
    proposals = (
        Proposal(edit, "failure", ("a", "b"), why="capitals were missing", level=1),
        Proposal(InsertAfter("- Be brief.", "- x"), "success", ("c",)),
        Proposal(Replace("x", "y"), "failure", ("a",)),
        Proposal(Delete("z"), "failure", ("b",)),
    )
    wrong = Pattern("format", 2, "no capitals", ("a", "b"))
    return Draft(
        budget=1,
        findings=(
            Finding(
                source="failure",
                batch=0,
                number=0,
                tasks=("a", "b"),
                reasoning="why",
                patterns=(wrong,),
                proposals=proposals[:1],
            ),
            Finding(
                source="success",
                batch=0,
                number=0,
                tasks=("c",),
                patterns=(Pattern("brevity", 1),),
                proposals=proposals[1:2],
            ),
            Finding(source="failure", batch=0, number=1, tasks=("a",), problem="no JSON came"),
        ),
        merged=ProposalSet(proposals, "merged"),
        candidates=(
            Candidate(
                chosen=Selection(proposals[:1], "ranked", (0,)),
                report=apply_edits(INITIAL, [edit, Delete("not there")]).report,
                skill=skill,
            ),
        ),
    )


def story() -> list[Event]:
    """Two epochs: rejected, accepted, skipped twice, then guidance, and an exam."""
    start = measured(INITIAL, "initial_skill", 0, 0.0, 1.0)
    batch = Batch(TRAIN, evaluation(INITIAL, "train", TRAIN, 0.0, 1.0))
    later = Batch(TRAIN[:2], evaluation(FIRST, "train", TRAIN[:2], 1.0, 1.0))
    wrong = (Pattern("format", 1, "no capitals", ("a",)),)
    refused = Decision(measured(REJECTED, "step_0001", 1, 0.0), "reject", "0 of 1 better")
    taken = Decision(
        measured(FIRST, "step_0002", 2, 1.0, 1.0), "accept_new_best", "1 of 2 better", new_best=True
    )
    guided = Decision(measured(GUIDED, "slow_update_epoch_02", 4, 1.0, 1.0), "force_accept", "told")
    pairs = (
        Compared("a", "improved", Score(0, 0), Score(1, 0.5)),
        Compared("b", None, None, Score(1, 0.5)),
    )
    steps = [
        Stepped(
            move="step_0001",
            step=1,
            epoch=1,
            in_epoch=1,
            batches=(batch,),
            patterns=wrong,
            draft=draft(Append("- Shout."), REJECTED),
            action="reject",
            decision=refused,
        ),
        Stepped(
            move="step_0002",
            step=2,
            epoch=1,
            in_epoch=2,
            batches=(batch, batch),
            patterns=wrong,
            draft=draft(RULE, FIRST),
            action="accept_new_best",
            decision=taken,
        ),
        Stepped(
            move="step_0003",
            step=3,
            epoch=2,
            in_epoch=1,
            batches=(later,),
            patterns=(),
            draft=Draft(budget=1),
            action="skip_no_patches",
            decision=None,
        ),
        Stepped(
            move="step_0004",
            step=4,
            epoch=2,
            in_epoch=2,
            batches=(later,),
            patterns=(),
            draft=Draft(budget=1, merged=ProposalSet((Proposal(RULE, "success", ("a",)),))),
            action="skip_no_change",
            decision=None,
        ),
    ]
    return [
        Started("2026-01-01T00:00:00Z", "9.9"),
        Timed("baseline", "evaluate", 0.5),
        Begun(start, {"env.name": '"custom"'}),
        Timed("step_0001", "rollout", 1.25),
        Timed("step_0001", "rollout", 0.75),
        Timed("step_0001", "reflect", 0.5),
        steps[0],
        Timed("step_0002", "evaluate", 3.0),
        Timed("step_0002", "total", 4.0),
        steps[1],
        EpochClosed(move="epoch_01", epoch=1),
        Stopped("interrupted", "2026-01-01T01:00:00Z"),
        Started("2026-01-02T00:00:00Z", "9.9"),
        *steps[2:],
        EpochClosed(
            move="epoch_02",
            epoch=2,
            before=INITIAL.digest,
            after=FIRST.digest,
            pairs=pairs,
            review=Review("Keep going.", "it works", "Be bold.", "it paid", ("one gap",)),
            decision=guided,
        ),
        FinalTested(
            move="final_test",
            tasks="d" * 16,
            initial=evaluation(INITIAL, "test", TEST, 0.0, 0.0, 1.0),
            best=evaluation(FIRST, "test", TEST, 1.0, 1.0),
            last=evaluation(GUIDED, "test", TEST, 1.0, 1.0, 1.0),
        ),
    ]


async def fill(cache: SqliteCache) -> None:
    """Put the work behind the story into a cache."""
    cache.enter("step_0001")
    await keep_reply(cache, "r1", stage="rollout")
    await keep_reply(cache, "r2", stage="analyst")
    cache.enter("step_0002")
    await keep_reply(cache, "r3", stage="analyst")
    for skill in (INITIAL, REJECTED, FIRST, GUIDED):
        for task in (*TRAIN, *VAL, *TEST):
            await keep_rollout(cache, rollout(task, skill, 0.0 if task == "a" else 1.0))


async def keep_rollout(cache: SqliteCache, value: Rollout, key: str = "") -> tuple[Rollout, bool]:
    """Keep a value under a key made from it."""

    async def make() -> Rollout:
        return value

    return await cache.rollout(key or f"{value.task}/{value.skill}/{value.replicate}", make)


async def keep_reply(
    cache: SqliteCache,
    key: str,
    *,
    text: str = "ok",
    role: str = "optimizer",
    stage: str = "analyst",
) -> Reply:
    """Keep a reply that cost something."""

    async def make() -> Reply:
        return Reply(text=text, usage=Usage(1, 100, 20, 10, 0.25))

    return await cache.reply(key, role=role, stage=stage, make=make)
