"""A whole night: what it learns, what it refuses to learn, what it spends, how it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sleep.support_adoption import night as staged_night
from sleep.support_adoption import stop_before_the_receipt
from support_sleep import MORNING, SKILL, bench, mined, office, places, simulated, tree

from skillopt.app.inputs import Inputs, configured
from skillopt.config.model_section import Role
from skillopt.core.chat import Reply, Request
from skillopt.errors import AnswerError, ConfigError, ModelError, Pending, StoreError
from skillopt.testing.simulator import Simulator
from skillopt.testing.simulator.optimizer import SimulatedOptimizer, stage_of
from skillopt.testing.simulator.target import SimulatedTarget
from skillopt_sleep.adoption import pending
from skillopt_sleep.documents import Document
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.learning import HIDDEN_IN_RULES
from skillopt_sleep.models import NightModels, model_settings
from skillopt_sleep.night import AGAIN, is_due, look_async, run_night_async
from skillopt_sleep.planning import Bench
from skillopt_sleep.rendering import render_markdown
from skillopt_sleep.report import Night
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import NightRecord, ProjectState, State, load_state
from skillopt_sleep.status import status
from skillopt_sleep.values import Reference


async def a_night(folder: Path, seed: int = 3, **more: object) -> tuple[Night, Path, Path]:
    project, home = places(folder)
    async with Simulator(seed=1, fresh=True) as simulator:
        settings = simulated(project, home, simulator.url, **more)
        night = await run_night_async(settings, bench(home, office(60, seed, project)))
    return night, project, home


@pytest.mark.sandbox
async def test_a_night_learns_stages_and_adopts_only_what_got_better(tmp_path: Path) -> None:
    night, project, home = await a_night(tmp_path, auto_adopt=True, evolve_memory=True)
    assert night.accepted
    assert [lesson.target for lesson in night.lessons] == ["skill", "memory"]
    skill, memory = night.lessons
    assert skill.accepted
    assert skill.gain is not None
    assert skill.gain.low > 0
    assert not memory.accepted
    # A memory file that learnt nothing is not made.
    assert not (project / "CLAUDE.md").exists()
    document = Document.parse((project / SKILL).read_bytes())
    assert document.learned == skill.after
    assert night.adopted == (project / SKILL,)
    assert night.rollback_command.startswith("skillopt-sleep rollback 2")
    assert night.staging is not None
    assert {
        *("manifest.json", "report.md", "report.html", "report.json"),
        *("diagnostics.json", "evidence.jsonl", "tasks.json", "proposed_SKILL.md"),
    } == set(tree(night.staging))
    state = load_state(home / ".skillopt-sleep")
    assert state.night == 1
    assert state.history[0].accepted == ["skill"]
    assert len(state.project(project).archive) == 60


@pytest.mark.sandbox
async def test_a_document_that_was_edited_during_the_night_is_not_overwritten(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    path = project / SKILL
    path.parent.mkdir(parents=True)
    path.write_text("# Mine\n")
    models = Models()
    settings = simulated(project, home, "", backend="simulated", auto_adopt=True)

    def edit(_: object) -> None:
        path.write_text("# Mine, changed meanwhile\n")

    night = await run_night_async(
        settings, bench(home, office(60, 3, project), models=models.given, watch=edit)
    )
    assert night.accepted
    assert night.adopted == ()
    assert any(note.startswith("not adopted:") for note in night.notes)
    assert path.read_text() == "# Mine, changed meanwhile\n"


@pytest.mark.sandbox
async def test_without_adoption_the_documents_stay_as_they_were(tmp_path: Path) -> None:
    night, project, home = await a_night(tmp_path)
    assert night.accepted
    assert not (project / SKILL).exists()
    (waiting,) = pending(simulated(project, home, ""))
    assert waiting.night.folder == night.staging
    assert (project / ".skillopt-sleep/.gitignore").read_text() == "*\n"


class Models:
    """Models of the simulator as functions, which remember what they were asked."""

    def __init__(self, right: Callable[[str], bool] = lambda _: True) -> None:
        self.right = right
        self.asked: list[str] = []

    async def target(self, request: Request) -> Reply:
        system, user = (request.messages[0].text, request.messages[-1].text)
        if not self.right(user):
            raise ModelError("the server is down")
        return Reply(text=SimulatedTarget(noise=0).answer(system, user))

    async def optimizer(self, request: Request) -> Reply:
        system, user = (request.messages[0].text, request.messages[-1].text)
        self.asked.append(user)
        stage = stage_of(system)
        assert stage is not None
        return Reply(text=SimulatedOptimizer().answer(stage, system, user, repairing=True))

    @property
    def given(self) -> NightModels:
        return NightModels(target=self.target, optimizer=self.optimizer)


@pytest.mark.sandbox
async def test_rejected_edits_and_lessons_are_shown_to_the_optimizer_the_next_night(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    settings = simulated(project, home, "", preferences="No exclamation marks.", edit_budget=1)
    models = Models()
    # Few held-out tasks: nothing can be proven, whatever is tried.
    tasks = tuple(
        replace(task, split="val" if at < 4 else "train")
        for at, task in enumerate(office(24, 5, project))
    )
    first = await run_night_async(settings, bench(home, tasks, models=models.given))
    assert not first.accepted
    (remembered,) = load_state(home / ".skillopt-sleep").project(project).documents.values()
    tried = [edit for entry in remembered.entries() for edit in entry.undecided + entry.rejected]
    assert tried
    models.asked.clear()
    later = replace(bench(home, tasks, models=models.given), clock=lambda: MORNING.replace(day=3))
    await run_night_async(settings, later)
    reflections = [text for text in models.asked if "<history>" in text]
    assert reflections
    assert "Earlier night" in reflections[0]
    assert "No exclamation marks." in models.asked[0]
    assert any(getattr(edit, "content", "?")[2:20] in reflections[0] for edit in tried)


@pytest.mark.sandbox
async def test_a_failure_of_the_server_is_no_score_and_the_sessions_come_up_again(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    models = Models(right=lambda user: False)
    settings = simulated(project, home, "", backend="simulated")
    night = await run_night_async(
        settings, bench(home, office(30, 3, project), models=models.given)
    )
    assert night.failed
    assert "no score" in night.verdict or "attempts failed" in night.verdict
    assert night.lessons[0].score_before is None
    state = load_state(home / ".skillopt-sleep").project(project)
    assert state.archive == []
    assert state.checkpoint is None
    (record,) = status(settings).nights
    assert record.finished
    assert record.failed == night.lessons[0].failed


@pytest.mark.sandbox
async def test_single_failures_are_missing_data_and_never_pass_a_candidate(
    tmp_path: Path,
) -> None:
    """One attempt in twenty fails; an irrelevant rule must not profit from that."""
    project, home = places(tmp_path)
    calls = 0

    async def target(request: Request) -> Reply:
        nonlocal calls
        calls += 1
        if calls == 2:
            return Reply(text="")  # an empty reply is asked for again, and is no answer
        return Reply(text="always the same")

    models = NightModels(target=target, optimizer=Models().optimizer)
    night = await run_night_async(
        simulated(project, home, "", backend="simulated"),
        bench(home, office(60, 3, project), models=models),
    )
    assert not night.accepted


@pytest.mark.sandbox
@pytest.mark.parametrize("tokens", [1, 3_000, 20_000, 60_000])
async def test_a_night_never_takes_more_tokens_than_it_may(tmp_path: Path, tokens: int) -> None:
    night, _, home = await a_night(tmp_path, max_tokens_per_night=tokens, evolve_memory=True)
    assert night.spent.input + night.spent.output <= tokens
    assert any(lesson.stopped for lesson in night.lessons)
    assert load_state(home / ".skillopt-sleep").history[0].tokens <= tokens


@pytest.mark.sandbox
async def test_a_limit_that_lets_nothing_be_learnt_keeps_the_sessions_for_the_next_night(
    tmp_path: Path,
) -> None:
    night, project, home = await a_night(tmp_path, max_tokens_per_night=1)
    state = load_state(home / ".skillopt-sleep").project(project)
    assert state.archive == []
    assert AGAIN in night.notes
    assert "the share of max_tokens_per_night" in night.lessons[0].stopped
    report = render_markdown(night)
    assert "limits." not in report
    assert "; could be practised: " in report


@pytest.mark.sandbox
async def test_sessions_come_up_again_if_no_reply_of_the_optimizer_could_be_used(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)

    async def optimizer(request: Request) -> Reply:
        return Reply(text="I would rather not.")

    models = NightModels(target=Models().target, optimizer=optimizer)
    night = await run_night_async(
        simulated(project, home, "", backend="simulated"),
        bench(home, office(30, 3, project), models=models),
    )
    assert night.failed
    assert AGAIN in night.notes
    told = [night.verdict, *night.notes, night.lessons[0].failed]
    assert "no reply of the optimizer was usable" in night.verdict
    assert "a more capable optimizer_model" in night.verdict
    for foreign in ("doctor", "model.", "gradient.", "env."):
        assert [text for text in told if foreign in text] == []
    assert sum("no reply of the optimizer" in note for note in night.notes) == 0
    assert load_state(home / ".skillopt-sleep").project(project).archive == []


async def test_a_finished_night_is_not_taken_up_again_if_the_state_is_moved_away(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    settings = Settings(project=project, state_dir=home / ".skillopt-sleep")
    first = await run_night_async(settings, bench(home, office(12, 3, project)))
    (home / ".skillopt-sleep/state.json").unlink()
    second = await run_night_async(settings, bench(home, office(6, 4, project)))
    assert (first.night, second.night) == (1, 2)
    assert len(second.gathered.tasks) == 6


async def test_a_night_without_time_starts_no_calls(tmp_path: Path) -> None:
    night, _, _ = await a_night(tmp_path, max_minutes_per_night=1e-9)
    assert night.spent.calls <= 1
    assert not night.accepted


@pytest.mark.sandbox
async def test_a_look_calls_nobody_and_writes_nothing(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    async with Simulator(seed=1) as simulator:
        settings = simulated(project, home, simulator.url)
        before = tree(tmp_path)
        night = await look_async(settings, bench(home, office(30, 3, project)))
        assert simulator.stats().requests == 0
    assert tree(tmp_path) == before
    assert list(home.iterdir()) == []
    assert "calls" in night.estimate
    assert len(night.practised) == 30


async def test_without_a_model_a_night_looks_and_keeps_the_sessions_for_later(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    settings = Settings(project=project, state_dir=home / ".skillopt-sleep")
    night = await run_night_async(settings, bench(home, office(12, 3, project)))
    assert "no model is configured" in night.verdict
    assert night.lessons == ()
    assert load_state(home / ".skillopt-sleep").project(project).archive == []


async def test_a_night_with_a_single_task_proves_nothing_and_says_so(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    settings = simulated(project, home, "", backend="simulated")
    night = await run_night_async(
        settings, bench(home, office(2, 3, project)[1:], models=Models().given)
    )
    assert "too few tasks" in night.verdict
    assert not night.accepted


async def test_documents_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("not yours")
    (project / "CLAUDE.md").symlink_to(elsewhere)
    async with Simulator(seed=1) as simulator:
        settings = simulated(project, home, simulator.url, evolve_memory=True)
        with pytest.raises(RefusedChange, match=r"CLAUDE\.md"):
            await run_night_async(settings, bench(home, office(30, 3, project)))
        assert simulator.stats().requests == 0
    assert elsewhere.read_text() == "not yours"


@pytest.mark.parametrize("obstacle", ["link", "file", "link of staging", "file of staging"])
async def test_a_staging_folder_that_cannot_be_used_is_refused_before_anything_is_spent(
    tmp_path: Path, obstacle: str
) -> None:
    project, home = places(tmp_path)
    place = project / ".skillopt-sleep"
    if "staging" in obstacle:
        place.mkdir()
        place /= "staging"
    if obstacle.startswith("link"):
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text("mine")
    async with Simulator(seed=1) as simulator:
        settings = simulated(project, home, simulator.url)
        with pytest.raises(RefusedChange, match=re.escape(str(place))):
            await look_async(settings, bench(home, office(30, 3, project)))
        with pytest.raises(RefusedChange, match=re.escape(str(place))):
            await run_night_async(settings, bench(home, office(30, 3, project)))
        assert simulator.stats().requests == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
async def test_a_night_undoes_an_adoption_that_was_stopped_half_way_and_tells_so(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    (project / "CLAUDE.md").write_text("mine\n")
    settings = simulated(project, home, "", backend="", evolve_memory=True)
    staged_night(settings)
    stop_before_the_receipt(settings)
    looked = await look_async(settings, bench(home, ()))
    assert any("stopped half-way" in note for note in looked.notes)
    night = await run_night_async(settings, bench(home, ()))
    assert any("CLAUDE.md" in note for note in night.notes)
    assert (project / "CLAUDE.md").read_text() == "mine\n"
    assert not (project / SKILL).exists()


async def test_a_night_that_an_error_ended_is_remembered_with_its_reason_and_goes_on(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    (project / "CLAUDE.md").symlink_to(tmp_path / "elsewhere.md")
    settings = simulated(project, home, "", backend="", evolve_memory=True)
    for _ in range(2):
        with pytest.raises(RefusedChange):
            await run_night_async(settings, bench(home, ()))
        (record,) = status(settings).nights
        assert record.night == 1
        assert not record.finished
        assert "CLAUDE.md" in record.failed
    (project / "CLAUDE.md").unlink()
    night = await run_night_async(settings, bench(home, ()))
    assert night.night == 1
    (record,) = status(settings).nights
    assert (record.finished, record.failed) == (True, "")


def put_skill(place: Path, name: str, folder: str = ".claude/skills") -> Path:
    path = place / folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: it\n---\n# {name}\n\nMy own words.\n")
    return path


@pytest.mark.sandbox
async def test_each_skill_learns_from_its_own_tasks_and_one_that_fails_harms_no_other(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    for name in ("forms", "broken"):
        put_skill(project, name)
    tasks = office(75, 3, project)
    hinted = tuple(
        replace(task, skill_hint="forms" if at < 60 else "nowhere") for at, task in enumerate(tasks)
    )
    failing = tuple(
        mined(
            f"broken{at}",
            f"Broken request number {at} {'abcdefgh'[at]}",
            split="val" if at % 2 else "train",
            reference=Reference(kind="exact", text="x"),
            skill_hint="broken",
        )
        for at in range(8)
    )
    models = Models(right=lambda user: "Broken request" not in user)
    settings = simulated(
        project, home, "", backend="simulated", multi_skill_fanout=True, auto_adopt=True
    )
    night = await run_night_async(settings, bench(home, (*hinted, *failing), models=models.given))
    outcomes = {group.name: group.outcome for group in night.groups}
    assert outcomes == {"forms": "learnt", "nowhere": "missing", "broken": "failed"}
    learnt = next(lesson for lesson in night.lessons if lesson.target == "forms")
    assert learnt.accepted
    assert "My own words." in (project / ".claude/skills/forms/SKILL.md").read_text()
    # Skills of the user are never changed unasked.
    assert learnt.path not in night.adopted
    (waiting,) = pending(settings)
    assert "forms" in [file.target for file in waiting.files]
    assert "--skill forms" in night.adopt_command


@pytest.mark.sandbox
async def test_a_skill_that_sessions_call_by_several_names_or_that_is_managed_learns_once(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    forms = put_skill(home, "forms", ".claude/plugins/cache/market/office/1.0/skills")
    managed = put_skill(project, "skillopt-sleep-learned")
    names = ("forms", "office:forms", "skillopt-sleep-learned", "office:forms")
    tasks = tuple(
        replace(task, skill_hint=names[at % 4]) for at, task in enumerate(office(60, 3, project))
    )
    settings = simulated(
        project, home, "", backend="simulated", multi_skill_fanout=True, evolve_memory=False
    )
    night = await run_night_async(settings, bench(home, tasks, models=Models().given))
    assert sorted(lesson.path for lesson in night.lessons) == sorted((forms, managed))
    assert {lesson.path: lesson.n_train + lesson.n_val for lesson in night.lessons} == {
        forms: 45,
        managed: 15,
    }
    assert [(group.name, group.why) for group in night.groups] == [
        ("forms", ""),
        ("office:forms", "it is the skill forms"),
    ]


@pytest.mark.sandbox
async def test_a_skill_that_is_called_as_a_managed_document_is_left_alone(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    names = ("skill", "memory")
    files = [put_skill(project, name) for name in names]
    before = [path.read_bytes() for path in files]
    tasks = tuple(
        replace(task, skill_hint=names[at % 2]) for at, task in enumerate(office(60, 3, project))
    )
    settings = simulated(
        project, home, "", backend="simulated", multi_skill_fanout=True, auto_adopt=True
    )
    night = await run_night_async(settings, bench(home, tasks, models=Models().given))
    assert night.accepted
    assert [(group.name, group.outcome) for group in night.groups] == [
        ("skill", "rejected"),
        ("memory", "rejected"),
    ]
    assert night.adopted
    assert not set(night.adopted) & set(files)
    assert [path.read_bytes() for path in files] == before


_SCRIPT = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support_sleep import bench, office, simulated
from skillopt_sleep.night import run_night_async
project, home, url = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
settings = simulated(project, home, url)
night = asyncio.run(run_night_async(settings, bench(home, office(60, 3, project))))
print(night.night, night.accepted, night.spent.calls, flush=True)
"""


@pytest.mark.sandbox
async def test_a_night_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    script = _SCRIPT.format(tests=str(Path(__file__).parents[1]))
    async with Simulator(seed=1, latency=(0.005, 0.02)) as simulator:
        command = [sys.executable, "-c", script, str(project), str(home), simulator.url]

        def killed() -> None:
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                deadline = time.monotonic() + 60
                while simulator.stats().requests < 120 and time.monotonic() < deadline:
                    if process.poll() is not None:
                        break
                    os.sched_yield()
                process.send_signal(signal.SIGKILL)

        from skillopt.aio import in_thread

        await in_thread(killed)
        assert load_state(home / ".skillopt-sleep") == State()
        before = simulator.stats().requests
        assert before >= 120
        settings = simulated(project, home, simulator.url)
        night = await run_night_async(settings, bench(home, office(60, 3, project)))
        assert night.night == 1
        # What was answered before is not asked again.
        assert simulator.stats().requests - before < night.spent.calls - 60
    assert len(load_state(home / ".skillopt-sleep").history) == 1
    assert len(list((project / ".skillopt-sleep/staging").iterdir())) == 1


@pytest.mark.sandbox
async def test_handoff_takes_one_round_of_questions_per_phase(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    tasks = office(24, 3, project)
    rubric = tuple(
        replace(task, reference=Reference(kind="rubric", text=task.reference.text))
        if at < 8
        else task
        for at, task in enumerate(tasks)
    )
    settings = simulated(
        project, home, "", backend="handoff", model="", optimizer_model="", replicates=1
    )
    rounds: list[int] = []
    for _ in range(12):
        try:
            night = await run_night_async(settings, bench(home, rubric))
            break
        except Pending as waiting:
            rounds.append(len(waiting.questions))
            for name in waiting.questions:
                _answer(Path(waiting.folder) / name)
    else:
        pytest.fail(f"still asked after {rounds}")
    # Attempts at val, their verdicts, attempts at train, verdicts, reflection, candidate, verdicts.
    assert len(rounds) <= 8
    assert max(rounds) >= 8
    assert night.night == 1
    assert len(list((project / ".skillopt-sleep/staging").iterdir())) == 1


def _answer(question: Path) -> None:
    text = question.read_text()
    system, _, user = text.partition("===== user =====")
    if "judge-judge" in str(question):
        answer = '{"reason": "so", "verdict": "partly"}'
    elif "target" in str(question.parent):
        answer = SimulatedTarget(noise=0).answer(system, user)
    else:
        stage = stage_of(system)
        assert stage is not None, system
        answer = SimulatedOptimizer().answer(stage, system, user, repairing=True)
    question.with_name(question.name.replace("question", "answer")).write_text(answer)


def by_hand(project: Path, home: Path, **more: object) -> Settings:
    return simulated(
        project, home, "", backend="handoff", model="", optimizer_model="", replicates=1, **more
    )


async def questions(settings: Settings, given: Bench) -> list[Path]:
    with pytest.raises(Pending) as waiting:
        await run_night_async(settings, given)
    return [Path(waiting.value.folder) / name for name in sorted(waiting.value.questions)]


@pytest.mark.sandbox
async def test_an_answer_that_cannot_be_read_ends_no_night(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    settings, given = (
        by_hand(project, home, evolve_memory=True),
        bench(home, office(24, 3, project)),
    )
    asked = await questions(settings, given)
    for question in asked:
        _answer(question)
    answer = asked[0].with_name(asked[0].name.replace("question", "answer"))
    said = answer.read_bytes()
    answer.write_bytes(b"\xff\xfe")
    with pytest.raises(AnswerError, match=f"{answer.name}: not UTF-8"):
        await run_night_async(settings, given)
    assert status(settings).nights == ()
    answer.write_bytes(said)
    later = await questions(settings, given)
    assert later
    assert not set(later) & set(asked)
    assert [each.night for each in status(settings).questions] == [1]


@pytest.mark.sandbox
async def test_a_night_that_waits_for_answers_is_never_tidied_away(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    settings, given = by_hand(project, home, keep_nights=1), bench(home, office(24, 3, project))
    asked = await questions(settings, given)
    for question in asked[1:]:
        _answer(question)
    for _ in range(2):
        await run_night_async(settings.model_copy(update={"backend": ""}), given)
    assert await questions(settings, given) == asked[:1]
    (waiting,) = status(settings).questions
    assert (waiting.night, waiting.files) == (1, (asked[0],))


@pytest.mark.sandbox
async def test_only_the_questions_that_a_night_asks_now_are_open(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    settings, given = by_hand(project, home), bench(home, office(24, 3, project))
    before = await questions(settings, given)
    skill = project / SKILL
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: skillopt-sleep-learned\ndescription: it\n---\nSay please.\n")
    now = await questions(settings, given)
    assert not set(now) & set(before)
    (waiting,) = status(settings).questions
    assert sorted(waiting.files) == sorted(now)


@pytest.mark.sandbox
@pytest.mark.parametrize("name", ["tasks.json", "settings.json", "asked.json"])
async def test_a_damaged_file_of_a_night_that_waits_is_named(tmp_path: Path, name: str) -> None:
    project, home = places(tmp_path)
    settings, given = by_hand(project, home), bench(home, office(24, 3, project))
    asked = await questions(settings, given)
    place = asked[0].parents[3]
    (place / name).write_text('{"broken')
    if name == "tasks.json":
        with pytest.raises(StoreError, match=f"{place / name} is damaged .* remove {place}"):
            await run_night_async(settings, given)
    else:
        (problem,) = status(settings).problems
        assert f"{place / name} is damaged" in problem
        assert status(settings).questions == ()


@pytest.mark.sandbox
async def test_a_gate_that_allows_no_loss_refuses_what_makes_any_task_worse(
    tmp_path: Path,
) -> None:
    night, _, _ = await a_night(tmp_path, gate_no_regression=True)
    (lesson,) = night.lessons
    assert lesson.failed == ""
    assert lesson.trials
    for trial in lesson.trials:
        assert trial.accepted == ("0 worse" in trial.reason and "<=" in trial.reason)


@pytest.mark.sandbox
async def test_dreams_and_recalled_tasks_are_practised_and_not_archived(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    models = Models()
    settings = simulated(
        project, home, "", backend="simulated", recall_k=4, dream_factor=1, dream_rollouts=2
    )
    settings = settings.model_copy(update={"test_fraction": 0.1})
    first = office(18, 3, project)
    night = await run_night_async(settings, bench(home, first, models=models.given))
    assert {task.origin for task in night.practised} == {"real", "dream"}
    assert night.lessons[0].n_train == 2 * sum(task.split == "train" for task in first)
    second = tuple(
        replace(task, split="test") if at < 2 else task
        for at, task in enumerate(office(18, 4, project))
    )
    night = await run_night_async(settings, bench(home, second, models=models.given))
    assert {task.origin for task in night.practised} == {"real", "dream", "recall"}
    recalled = [task for task in night.practised if task.origin == "recall"]
    assert {task.split for task in recalled} == {"train", "val"}
    # Nothing was chosen by the test tasks, so the report goes by them.
    assert night.lessons[0].split == "test"
    archive = load_state(home / ".skillopt-sleep").project(project).archived()
    assert {task.origin for task in archive} == {"real"}
    assert len(archive) == 36


@pytest.mark.sandbox
async def test_tokens_and_latency_count_if_the_gate_goes_by_the_reward(tmp_path: Path) -> None:
    night, _, _ = await a_night(
        tmp_path, gate_metric="reward", weight_tokens=0.5, weight_latency=0.5
    )
    (lesson,) = night.lessons
    assert lesson.accepted
    assert lesson.score_after is not None
    # A right answer that took tokens and time is worth less than 1.
    assert all(task.after is None or task.after < 1 for task in lesson.tasks)


def test_two_models_may_play_the_roles() -> None:
    settings = Settings(backend="claude", optimizer_backend="openai", optimizer_model="gpt-5.5")
    chosen = model_settings(settings, NightModels())
    assert chosen["model.target_backend"] == "claude_cli"
    assert chosen["model.optimizer_backend"] == "openai"
    agent = model_settings(Settings(backend="claude", replay="agent"), NightModels())
    assert agent["model.target_backend"] == "claude_code_exec"
    assert agent["model.optimizer_backend"] == "claude_cli"
    tools = Settings(backend="openai", replay="agent")
    assert model_settings(tools, NightModels())["env.harness"] == "tools"


@pytest.mark.parametrize(
    ("backend", "optimizer", "roles"),
    [
        ("claude", "openai_compatible", {"optimizer"}),
        ("openai_compatible", "openai", {"target"}),
        ("openai_compatible", "", {"target", "optimizer"}),
        ("claude", "", {"target", "optimizer"}),
    ],
)
def test_an_address_is_for_the_role_whose_backend_has_such_a_server(
    backend: str, optimizer: str, roles: set[str]
) -> None:
    settings = Settings(
        backend=backend,
        model="m",
        optimizer_backend=optimizer,
        optimizer_model="m",
        base_url="http://localhost:1/v1",
    )
    config, _ = configured(None, Inputs(settings=model_settings(settings, NightModels())))
    every: tuple[Role, ...] = ("target", "optimizer")
    assert {role for role in every if config.model.role(role).base_url} == roles


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"backend": "cursor", "model": "x"}, "--replay agent"),
        ({"backend": "gemini"}, "name the model"),
        ({"backend": "mock"}, "no model backend is named 'mock'"),
        ({"backend": "claud_chat"}, "did you mean 'claude_chat'"),
        ({"backend": "handoff", "replay": "agent"}, "cannot be combined"),
    ],
)
def test_a_backend_that_cannot_be_used_like_that_is_refused(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        model_settings(Settings.model_validate(given), NightModels())


async def test_a_project_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--project"):
        await run_night_async(Settings(project=tmp_path / "none", state_dir=tmp_path))


async def test_a_damaged_state_ends_a_night_before_anything_is_spent(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    (home / ".skillopt-sleep").mkdir()
    (home / ".skillopt-sleep/state.json").write_text("{")
    async with Simulator(seed=1) as simulator:
        settings = simulated(project, home, simulator.url)
        with pytest.raises(StoreError, match="damaged"):
            await run_night_async(settings, bench(home, office(30, 3, project)))
        assert simulator.stats().requests == 0


def test_a_night_is_due_until_one_has_run_since_the_time_of_day(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc).astimezone().replace(hour=12, minute=0)

    def after(last: datetime | None) -> State:
        project = ProjectState(last_night=None if last is None else last.timestamp())
        record = NightRecord(night=1, project=str(tmp_path), at=0)
        return State().after(record, project)

    assert is_due(State(), tmp_path, now, 3, 17)
    assert is_due(after(None), tmp_path, now, 3, 17)
    assert not is_due(after(now - timedelta(hours=2)), tmp_path, now, 3, 17)
    # Missed at 3:17, because the machine was off.
    assert is_due(after(now - timedelta(hours=20)), tmp_path, now, 3, 17)
    # The time of today has not come yet.
    assert not is_due(after(now - timedelta(hours=10)), tmp_path, now, 23, 0)
    assert is_due(after(now - timedelta(hours=20)), tmp_path, now, 23, 0)


PLANTED = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1"


class Telling(Models):
    """Models that tell a secret in all that they say."""

    async def target(self, request: Request) -> Reply:
        reply = await super().target(request)
        # It begins where diagnostics are cut.
        return replace(reply, text=f"{'x' * 290} {PLANTED} mail me@corp.example\n{reply.text}")

    async def optimizer(self, request: Request) -> Reply:
        reply = await super().optimizer(request)
        answer = json.loads(reply.text)
        for edit in answer.get("edits", []):
            edit["content"] += f" Use {PLANTED}."
        return replace(reply, text=json.dumps(answer))


@pytest.mark.sandbox
async def test_a_secret_that_models_tell_is_in_nothing_that_a_night_writes_for_people(
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    path = project / SKILL
    path.parent.mkdir(parents=True)
    path.write_bytes(Document(before="").with_rules(["Mail to shop@bakery.example."]).render())
    settings = simulated(project, home, "", backend="simulated")
    models = Telling()
    night = await run_night_async(
        settings, bench(home, office(60, 3, project), models=models.given)
    )
    assert night.accepted
    assert night.staging is not None
    state = (home / ".skillopt-sleep" / "state.json").read_bytes()
    for name, data in {**tree(night.staging), "state": state}.items():
        assert PLANTED[:10].encode() not in data, name
        assert b"me@corp" not in data, name
    proposed = (night.staging / "proposed_SKILL.md").read_text(encoding="utf-8")
    assert "Use [redacted]." in proposed
    assert "- Mail to shop@bakery.example." in proposed  # the user's own words stay
    assert HIDDEN_IN_RULES in render_markdown(night)


@pytest.mark.parametrize("replay", ["run", "look"])
async def test_a_limit_in_dollars_without_a_known_price_is_refused_with_advice_that_exists(
    tmp_path: Path, replay: str
) -> None:
    project, home = places(tmp_path)
    settings = simulated(project, home, "http://127.0.0.1:9/v1", max_usd_per_night=1)
    work = run_night_async if replay == "run" else look_async
    with pytest.raises(ConfigError, match="no price is known for target simulated-target") as told:
        await work(settings, bench(home, office(12, 3, project)))
    keys = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", str(told.value))
    assert set(keys) == {"max_usd_per_night", "max_tokens_per_night"}
    assert not (home / ".skillopt-sleep").exists()
