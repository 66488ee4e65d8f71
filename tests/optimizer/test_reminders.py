from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from support import Seen, World, analysis, pupil

from skillopt.core.chat import Request
from skillopt.core.edits import Append
from skillopt.core.facts import Stepped
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Finding, ReminderUpdate, Source
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.engine.loop import train
from skillopt.engine.run import TrainingRun
from skillopt.model.scripted import Scripted
from skillopt.optimizer.merging import Aggregate
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.reflect import Reflect
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.selection import Select
from skillopt.optimizer.update import Patch
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

SKILL = Skill.parse("Add.\n").with_notes(["Old one."])
FAILURES: frozenset[Source] = frozenset(("failure",))


def never(_: Request) -> str:
    raise AssertionError


def reminders(model: Scripted, threshold: int = 0) -> Reminders:
    asker = Asker(model, Library(), EventSink(MemoryLog(), Seen()))
    return Reminders(asker=asker, threshold=threshold)


async def gathered(
    to: Reminders, notes: Sequence[str], memory: Memory | None = None
) -> ReminderUpdate:
    finding = Finding(source="failure", batch=0, number=0, tasks=("t",), notes=tuple(notes))
    return await to(SKILL, [finding], memory if memory is not None else Memory())


def shortened(*notes: str) -> Scripted:
    return Scripted(lambda _: json.dumps({"consolidated_notes": notes}))


async def test_new_reminders_join_the_old_ones_and_known_ones_do_not() -> None:
    appendix = await gathered(reminders(Scripted(never)), ["old one", "New one.", "new one"])
    assert appendix == ReminderUpdate(("New one.",), ("Old one.", "New one."))


async def test_a_reminder_that_the_gate_rejected_does_not_come_back() -> None:
    entry = MemoryEntry(step=1, action="reject", n_total=1, n_fail=1, rejected_notes=("Shout.",))
    appendix = await gathered(reminders(Scripted(never)), ["shout!"], Memory((entry,)))
    assert appendix == ReminderUpdate((), ("Old one.",))


async def test_reminders_share_the_blame_with_what_was_rejected_beside_them() -> None:
    entry = MemoryEntry(
        step=1,
        action="reject",
        n_total=1,
        n_fail=1,
        rejected=(Append("- Whisper."),),
        rejected_notes=("Shout.",),
    )
    once, twice = Memory((entry,)), Memory((entry, entry))
    assert (await gathered(reminders(Scripted(never)), ["Shout."], once)).added == ("Shout.",)
    assert (await gathered(reminders(Scripted(never)), ["Shout."], twice)).added == ()
    assert len(once.disproved) == 0
    assert len(twice.disproved) == 2


async def test_above_the_threshold_one_question_makes_the_list_shorter() -> None:
    appendix = await gathered(reminders(shortened("A.", "a"), threshold=2), ["x", "y"])
    assert appendix == ReminderUpdate(("x", "y"), ("A.",), consolidated=2)


async def test_at_the_threshold_and_without_news_nothing_is_asked() -> None:
    assert (await gathered(reminders(Scripted(never), threshold=3), ["x", "y"])).consolidated == 0
    assert (await gathered(reminders(Scripted(never), threshold=1), [])).after == ("Old one.",)


async def test_a_list_that_got_no_shorter_or_lost_everything_is_not_taken() -> None:
    for notes in (("a", "b", "c"), ("", " ")):
        appendix = await gathered(reminders(shortened(*notes), threshold=2), ["x", "y"])
        assert appendix.after == ("Old one.", "x", "y")
        assert "1 to 2 notes" in appendix.problem


def run_with(model: Scripted, world: World, sources: frozenset[Source]) -> TrainingRun:
    run = world.run()
    asker = Asker(model, Library(), run.sink)
    noting = Reminders(asker=asker, failure_only="success" not in sources)
    pipeline = Pipeline(
        reflect=Reflect(asker=asker, reminders=noting),
        merge=Aggregate(asker=asker),
        select=Select(asker=asker),
        update=Patch(sink=run.sink),
        annotate=noting,
    )
    return replace(run, optimizer=pipeline)


async def trained(
    model: Scripted, sources: frozenset[Source] = FAILURES
) -> tuple[State, TrainingRun]:
    run = run_with(model, World(target=Scripted(pupil)), sources)
    return await train(run, Skill.parse("You add numbers.\n")), run


def noting(*notes: str) -> Scripted:
    """An analyst without edits; other questions get no usable answer."""

    def answer(request: Request) -> str:
        if request.stage != "analyst":
            return json.dumps({"slow_update_content": "", "meta_skill_content": ""})
        return json.dumps({"edits": [], "appendix_notes": notes})

    return Scripted(answer)


def steps(run: TrainingRun) -> list[Stepped]:
    return [event for event in run.sink.record.events() if isinstance(event, Stepped)]


async def test_a_step_with_reminders_only_is_measured_and_kept_if_it_helps() -> None:
    state, run = await trained(noting("Add carefully."))
    assert steps(run)[0].action == "accept_new_best"
    assert state.best.skill.notes == ("Add carefully.",)
    assert state.best.skill.body.strip() == "You add numbers."
    assert state.best.value == 1.0


async def test_reminders_that_do_not_help_are_rejected_with_their_candidate_and_remembered() -> (
    None
):
    state, run = await trained(noting("Guess boldly."))
    first, second = steps(run)[:2]
    assert (first.action, second.action) == ("reject", "skip_no_change")
    assert state.current.skill.notes == ()
    shown = [e for e in run.sink.record.events() if isinstance(e, Stepped) and e.draft.reminders]
    assert shown[0].draft.reminders == ReminderUpdate(("Guess boldly.",), ("Guess boldly.",))


async def test_a_learning_rate_of_0_adds_no_reminders() -> None:
    world = World(target=Scripted(pupil), budget=lambda _step, _total: 0)
    run = run_with(noting("Add carefully."), world, FAILURES)
    state = await train(run, Skill.parse("You add numbers.\n"))
    assert state.current.skill.notes == ()
    assert {step.action for step in steps(run)} == {"skip_no_patches"}


async def test_only_chosen_attempts_are_asked_about_reminders_and_may_give_them() -> None:
    asked: dict[str, str] = {}

    def analyst(request: Request) -> str:
        if request.stage == "analyst":
            system, user = (each.text for each in request.messages[:2])
            asked["success" if 'score="1.00"' in user else "failure"] = system
            said = {**json.loads(analysis("Add carefully.")), "appendix_notes": ["Add carefully."]}
            return json.dumps(said)
        return json.dumps({"slow_update_content": "", "meta_skill_content": ""})

    _, run = await trained(Scripted(analyst))
    assert "appendix_notes" in asked["failure"]
    assert "appendix_notes" not in asked["success"]
    found = [each for step in steps(run) for each in step.draft.findings]
    assert {each.source for each in found if each.notes} == {"failure"}
