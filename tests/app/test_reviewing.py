"""A person accepts, rejects and edits proposals of a run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pytest
from support_runs import ROOT, Job, facts, make_data

from skillopt.api import (
    ReviewResult,
    blame,
    final_test_async,
    load_run,
    open_run,
    proposals,
    rebuild_run,
    review_async,
    text_to_edit,
    view_run,
)
from skillopt.core.facts import HumanReviewed
from skillopt.core.memory import meaning
from skillopt.errors import ConfigError, Outdated, SkillError, StoreError
from skillopt.store.lock import RunLock
from skillopt.testing.simulator import Simulator


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A finished run: steps 1 to 3 accepted, step 4 rejected."""
    folder = tmp_path_factory.mktemp("finished")

    async def train() -> Job:
        async with Simulator(seed=1) as sim:
            job = Job(url=sim.url, data=make_data(folder / "data"), out=folder / "run")
            await job.here()
            return job

    return asyncio.run(train())


@dataclass(frozen=True, slots=True)
class Desk:
    """A run of one's own, and models that answer."""

    sim: Simulator
    job: Job

    @property
    def calls(self) -> int:
        return sum(self.sim.stats().completed.values())

    async def decide(self, verdict: str, about: str = "", **more: object) -> ReviewResult:
        settings = {"model.base_url": self.sim.url, **self.job.more}
        arguments = {"settings": settings, "progress": False, **more}
        return await review_async(self.job.out, verdict, about, **arguments)  # type: ignore[arg-type]


@asynccontextmanager
async def at_desk(finished: Job, folder: Path) -> AsyncGenerator[Desk, None]:
    out = shutil.copytree(finished.out, folder / "run")
    async with Simulator(seed=1) as sim:
        yield Desk(sim, replace(finished, url=sim.url, out=out))


Sitting: TypeAlias = Callable[[Desk], Awaitable[None]]


def sitting(work: Sitting) -> Callable[[Job, Path], Awaitable[None]]:
    """A test that has a desk."""

    async def test(finished: Job, tmp_path: Path) -> None:
        async with at_desk(finished, tmp_path) as desk:
            await work(desk)

    test.__name__ = getattr(work, "__name__", "test")
    return test


@sitting
async def test_what_a_person_accepts_is_measured_to_the_end_and_becomes_current(desk: Desk) -> None:
    rejected = next(item for item in proposals(desk.job.out) if item.id == "step_0004")
    assert (rejected.outcome, rejected.said) == ("rejected", ())
    result = await desk.decide("accept", "step_0004", reviewer="Ann", comment="it reads well")
    decision = result.fact.decision
    assert decision is not None
    assert (decision.action, decision.candidate.evaluation.n) == ("force_accept", 30)
    assert decision.candidate.skill.digest == rejected.skill
    with open_run(desk.job.out) as reader:
        fact = reader.facts[-1]
        assert isinstance(fact, HumanReviewed)
        assert (fact.verdict, fact.about, fact.reviewer) == ("accept", "step_0004", "Ann")
        assert reader.state.current.origin == "review_0001"
        assert reader.state.best.origin == "step_0003"  # it is not better
        assert reader.status == "finished"
    listed = {item.id: item for item in proposals(desk.job.out)}
    assert [word.words for word in listed["step_0004"].said] == ["accepted by Ann"]


@sitting
async def test_a_dry_run_records_nothing_and_what_it_measured_is_not_paid_again(desk: Desk) -> None:
    before = (desk.job.out / "events.jsonl").read_bytes()
    tried = await desk.decide("accept", "step_0004", dry_run=True)
    assert (desk.job.out / "events.jsonl").read_bytes() == before
    paid = desk.calls
    result = await desk.decide("accept", "step_0004")
    assert (desk.calls, result.fact.decision) == (paid, tried.fact.decision)
    assert (tried.recorded, result.recorded) == (False, True)


KILLED = """
import os, signal, sys
from skillopt.api import review
from skillopt.core.events import PhaseClosed

def watch(event):
    if isinstance(event, PhaseClosed) and event.phase == "evaluate":
        os.kill(os.getpid(), signal.SIGKILL)

review(sys.argv[1], "accept", "step_0004", settings={"model.base_url": sys.argv[2]}, watch=watch,
       progress=False)
"""


@sitting
async def test_a_process_killed_between_measuring_and_recording_loses_nothing(desk: Desk) -> None:
    before = (desk.job.out / "events.jsonl").read_bytes()
    command = [sys.executable, "-c", KILLED, str(desk.job.out), desk.sim.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = await asyncio.to_thread(subprocess.run, command, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (desk.job.out / "events.jsonl").read_bytes() == before
    paid = desk.calls
    assert paid > 0
    assert (await desk.decide("accept", "step_0004")).recorded
    # A preflight request is no work that was lost.
    assert desk.calls - paid <= 1


@sitting
async def test_what_a_person_rejects_is_taken_out_from_under_later_changes(desk: Desk) -> None:
    with open_run(desk.job.out) as reader:
        second, last = reader.step(2).fact.decision, reader.state.current.skill.render()
    assert second is not None
    result = await desk.decide("reject", "step_0002", comment="too special")
    now = result.after.current.skill.render()
    gone = [line for line in last.splitlines() if line not in now.splitlines()]
    assert gone
    assert all(line in second.candidate.skill.render() for line in gone)
    # The best skill held it, so it is best no longer, and the file follows.
    assert result.after.best.skill.digest == result.after.current.skill.digest
    assert (desk.job.out / "best_skill.md").read_text(encoding="utf-8") == now
    assert result.after.memory.steps[-1].action == "rejected: too special"
    assert result.after.memory.steps[-1].rejected
    assert result.after.memory.disproved.issuperset(map(meaning, result.fact.tried))
    # Even if what is rejected next was never part of an older best skill.
    await desk.decide("accept", "step_0004")
    undone = await desk.decide("reject", "review_0002")
    assert undone.after.current.skill == result.after.current.skill
    assert undone.after.best.skill == result.after.best.skill


@sitting
async def test_a_rejection_that_stands_is_remembered_and_costs_nothing(desk: Desk) -> None:
    before = (desk.job.out / "best_skill.md").read_bytes()
    result = await desk.decide("reject", "step_0004")
    assert (desk.calls, result.fact.decision, result.recorded) == (0, None, True)
    assert result.after.memory.steps[-1].rejected == result.fact.tried != ()
    assert (desk.job.out / "best_skill.md").read_bytes() == before


@sitting
async def test_what_is_in_or_out_already_is_not_put_in_or_taken_out_again(desk: Desk) -> None:
    def stands(about: str) -> str:
        return next(item.stands for item in proposals(desk.job.out) if item.id == about)

    assert [stands(f"step_000{n}") for n in (1, 2, 3, 4)] == ["in", "in", "in", "out"]
    at_first = await desk.decide("reject", "step_0002")
    assert stands("step_0002") == "out"
    with pytest.raises(StoreError, match="step_0002 is already out of the skill"):
        await desk.decide("reject", "step_0002")
    again = await desk.decide("accept", "step_0002")
    lines = again.after.current.skill.render().splitlines()
    assert sorted(lines) == sorted(at_first.before.current.skill.render().splitlines())
    paid = desk.calls
    with pytest.raises(StoreError, match="review_0001 is already out of the skill"):
        await desk.decide("reject", "review_0001")
    with pytest.raises(StoreError, match="step_0002 is already in the skill"):
        await desk.decide("accept", "step_0002")
    assert text_to_edit(desk.job.out, "step_0002") == again.after.current.skill.render()
    assert desk.calls == paid


@sitting
async def test_a_rejection_takes_out_what_a_person_had_accepted(desk: Desk) -> None:
    accepted = await desk.decide("accept", "step_0004")
    result = await desk.decide("reject", "step_0004")
    assert result.after.current.skill == accepted.before.current.skill
    with pytest.raises(StoreError, match="step_0004 is already out of the skill"):
        await desk.decide("reject", "step_0004")


def only_second(run: Path) -> str:
    """The initial skill with what the second step added, and nothing else."""
    with open_run(run) as reader:
        first, second = (reader.step(n).after.current.skill.render() for n in (1, 2))
        text = reader.state.initial.skill.render()
    return text + "".join(f"{line}\n" for line in second.splitlines() if line not in first)


@sitting
async def test_a_best_skill_without_what_is_rejected_stays_best(desk: Desk) -> None:
    without = await desk.decide("reject", "step_0002", dry_run=True)
    await desk.decide("edit", text=without.after.current.skill.render(), as_best=True)
    await desk.decide("edit", text=only_second(desk.job.out))
    result = await desk.decide("reject", "step_0002")
    assert result.before.best.origin == result.after.best.origin == "review_0001"


@sitting
async def test_what_was_rejected_and_accepted_again_may_be_best_again(desk: Desk) -> None:
    await desk.decide("reject", "step_0002")
    await desk.decide("accept", "step_0002")
    text = only_second(desk.job.out)
    await desk.decide("edit", text=text)
    await desk.decide("edit", text=text + "- Sign with your name.\n", as_best=True)
    result = await desk.decide("reject", "review_0004")
    assert (result.before.best.origin, result.after.best.origin) == ("review_0004", "step_0003")


@sitting
async def test_an_edited_skill_is_measured_and_its_lines_name_the_person(desk: Desk) -> None:
    text = text_to_edit(desk.job.out) + "- Always check the form twice.\n"
    result = await desk.decide("edit", text=text, reviewer="Ann")
    assert result.fact.decision is not None
    assert result.fact.decision.candidate.evaluation.n == 30
    assert result.after.current.skill.render() == text
    with view_run(desk.job.out) as views:
        lines = {line.text: line for line in views.blame("current").lines}
        assert views.steps[-1].words.startswith("edited by Ann")
    origin = lines["- Always check the form twice."].origin
    assert origin is not None
    assert (origin.move, origin.by) == ("review_0001", ("Ann",))
    assert blame(desk.job.out).is_best


@sitting
async def test_an_edit_may_be_left_to_the_gate_or_be_made_the_best_skill(desk: Desk) -> None:
    worse = "# Forms\n\n- Fill in the form.\n"
    refused = await desk.decide("edit", text=worse, if_better=True)
    assert refused.fact.decision is not None
    assert refused.fact.decision.action == "reject"
    assert refused.after.current.skill == refused.before.current.skill
    forced = await desk.decide("edit", text=worse, as_best=True)
    assert forced.after.best.skill.render() == forced.after.current.skill.render() == worse
    assert (desk.job.out / "best_skill.md").read_text(encoding="utf-8") == worse


@sitting
async def test_what_was_decided_from_an_old_text_undoes_no_later_decision(desk: Desk) -> None:
    with open_run(desk.job.out) as reader:
        text, base = text_to_edit(reader), reader.state.current.skill.digest
    between = await desk.decide("reject", "step_0002", base=base)
    with pytest.raises(Outdated, match="review 1 is current now"):
        await desk.decide("edit", text=f"{text}- Sign with your name.\n", base=base)
    with open_run(desk.job.out) as reader:
        assert reader.state.current.skill == between.after.current.skill


@sitting
async def test_the_test_score_is_never_that_of_another_skill(desk: Desk) -> None:
    tested = load_run(desk.job.out)
    assert tested.split == "test"
    await desk.decide("reject", "step_0002")
    now = load_run(desk.job.out)
    assert (now.split, now.test_score) == ("val", None)
    with view_run(desk.job.out) as views:
        assert "not tested" in views.head.claim.sentence
        assert views.untested is not None
        assert (views.untested.items, views.untested.attempts) == (20, 20)
    again = await desk.job.here()
    assert again.split == "test"
    assert again.state.final_test is not None
    assert again.state.final_test.best.skill == again.state.best.skill.digest


@sitting
async def test_the_final_test_is_repeated_alone_and_once_for_the_skills_that_are_new(
    desk: Desk,
) -> None:
    with pytest.raises(StoreError, match="nothing to test again"):
        await final_test_async(desk.job.out, progress=False)
    await desk.decide("reject", "step_0002")
    steps, paid = len(open_run(desk.job.out).steps), desk.calls
    settings = {"model.base_url": desk.sim.url}
    state = await final_test_async(desk.job.out, settings=settings, progress=False)
    assert state.final_test is not None
    assert state.final_test.best.skill == state.best.skill.digest
    assert desk.calls - paid <= 20 + 1  # the models are tried first
    with view_run(desk.job.out) as views:
        assert "not tested" not in views.head.claim.sentence
        assert (views.head.status, views.untested) == ("finished", None)
        assert views.head.steps == steps


@sitting
async def test_what_is_offered_for_a_proposal_is_what_can_be_decided(desk: Desk) -> None:
    await desk.decide("reject", "step_0004")
    items = {item.id: item for item in proposals(desk.job.out)}
    assert items["step_0003"].open == ("reject", "edit")
    assert items["step_0004"].open == ("accept", "edit")
    for item in items.values():
        for verdict in {"accept", "reject"}.difference(item.open):
            with pytest.raises(StoreError, match="nothing is left to do"):
                await desk.decide(verdict, item.id)


async def test_a_run_can_be_reviewed_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    make_data(tmp_path / "project" / "data")
    monkeypatch.chdir(tmp_path / "project")
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=Path("data"), out=Path("run"), epochs=1)
        await job.here()
        monkeypatch.chdir(tmp_path / "elsewhere")
        desk = Desk(sim, replace(job, out=tmp_path / "project" / "run"))
        text = text_to_edit(desk.job.out) + "- Sign with your name.\n"
        result = await desk.decide("edit", text=text)
        assert result.after.current.origin == "review_0001"


@sitting
async def test_training_continues_from_the_decision_and_the_same_way_each_time(desk: Desk) -> None:
    await desk.decide("reject", "step_0002", reviewer="Ann")
    copy = shutil.copytree(desk.job.out, desk.job.out.parent / "copy")
    longer = replace(desk.job, epochs=3)
    await longer.here()
    with open_run(longer.out) as reader:
        step = reader.step(5)
        assert step.before.current.origin == "review_0001"
    await replace(longer, out=copy).here()
    assert facts(longer.out) == facts(copy)


@sitting
async def test_the_files_of_a_review_can_be_written_again(desk: Desk) -> None:
    await desk.decide("accept", "step_0004", reviewer="Ann")
    folder = desk.job.out / "reviews" / "review_0001"
    told = json.loads((folder / "review.json").read_bytes())
    assert (told["verdict"], told["about"], told["reviewer"]) == ("accept", "step_0004", "Ann")
    assert told["current_origin"] == "review_0001"
    shutil.rmtree(folder)
    written = {path.as_posix() for path in rebuild_run(desk.job.out).files}
    assert {"reviews/review_0001/review.json", "reviews/review_0001/candidate_skill.md"} <= written
    assert rebuild_run(desk.job.out).files == ()


@pytest.mark.parametrize(
    ("verdict", "about", "more", "error", "words"),
    [
        ("accept", "step_0009", {}, StoreError, "no proposal 'step_0009'; did you mean 'step_000"),
        ("accept", "", {}, ConfigError, "name a proposal"),
        ("edit", "", {}, ConfigError, "needs the new text"),
        ("accept", "step_0004", {"if_better": True}, ConfigError, "only an edit"),
        ("accept", "step_0003", {}, StoreError, "step_0003 is already in the skill"),
        ("accept", "step_0001", {}, StoreError, "step_0001 is already in the skill"),
        ("edit", "", {"text": " \n"}, SkillError, "is empty"),
        ("edit", "", {"text": "<!-- SLOW_UPDATE_START -->\n"}, SkillError, "stray region mark"),
    ],
)
async def test_what_cannot_be_done_is_said_and_leaves_the_record_as_it_was(
    finished: Job,
    tmp_path: Path,
    verdict: str,
    about: str,
    more: dict[str, object],
    error: type[Exception],
    words: str,
) -> None:
    async with at_desk(finished, tmp_path) as desk:
        before = (desk.job.out / "events.jsonl").read_bytes()
        with pytest.raises(error, match=words):
            await desk.decide(verdict, about, **more)
        assert (desk.job.out / "events.jsonl").read_bytes() == before
        assert desk.calls == 0


@sitting
async def test_a_change_of_lines_that_were_changed_since_is_left_to_an_edit(desk: Desk) -> None:
    with open_run(desk.job.out) as reader:
        first = reader.step(1).fact.decision
    assert first is not None
    added = first.candidate.skill.render().splitlines()[-1]
    text = text_to_edit(desk.job.out).replace(added, f"{added} Always, without exception.")
    await desk.decide("edit", text=text)
    with pytest.raises(SkillError, match="other changes were made to the same lines"):
        await desk.decide("reject", "step_0001")


async def test_a_skill_that_is_too_long_is_refused_before_it_costs_anything(
    finished: Job, tmp_path: Path
) -> None:
    async with Simulator(seed=1) as sim:
        job = replace(
            finished, url=sim.url, out=tmp_path / "run", epochs=1,
            more={"optimizer.max_skill_tokens": 400},
        )  # fmt: skip
        await job.here()
        desk = Desk(sim, job)
        paid = desk.calls
        with pytest.raises(SkillError, match="this run allows 400"):
            await desk.decide("edit", text="- A rule.\n" * 300)
        assert desk.calls == paid


@sitting
async def test_a_run_that_another_process_writes_to_is_refused(desk: Desk) -> None:
    with RunLock(desk.job.out), pytest.raises(StoreError, match="another process is using"):
        await desk.decide("accept", "step_0004")
    assert desk.calls == 0


def test_only_a_decision_that_changes_the_skill_gives_training_a_new_start(finished: Job) -> None:
    with open_run(finished.out) as reader:
        state, decision = reader.state, reader.step(4).fact.decision
    assert decision is not None
    tired = replace(state, memory=replace(state.memory, fruitless=2))
    stays = HumanReviewed(move="review_0001", verdict="reject", about="step_0004")
    assert tired.apply(stays).memory.fruitless == 2
    refused = HumanReviewed(move="review_0001", verdict="edit", decision=decision)
    assert tired.apply(refused).memory.fruitless == 2
    kept = replace(refused, decision=replace(decision, action="force_accept"))
    assert tired.apply(kept).memory.fruitless == 0
    assert tired.apply(kept).final_test is None
