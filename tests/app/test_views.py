"""What people are shown of a run, from its record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support_store import FIRST, INITIAL, REJECTED, VAL, evaluation, measured, story

from skillopt.api import write_report
from skillopt.app.charts import budget_chart
from skillopt.app.environment import few_to_decide
from skillopt.app.step_views import tally_of
from skillopt.app.summaries import run_markdown
from skillopt.app.views import RunViews
from skillopt.config.load import load_config
from skillopt.core.edits import Append, apply_edits
from skillopt.core.events import (
    Begun,
    Decision,
    Event,
    Fact,
    FinalTested,
    Measured,
    Started,
    Stopped,
    Warned,
)
from skillopt.core.facts import HumanReviewed, Stepped
from skillopt.core.rollout import Evaluation
from skillopt.errors import StoreError
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.reader import RunReader


def recorded(folder: Path, *events: Event) -> RunViews:
    log = EventFile(Layout(folder).events)
    for event in events:
        log.append(event)
    return RunViews(RunReader(folder))


def edited(number: int, decision: Decision) -> HumanReviewed:
    return HumanReviewed(move=f"review_{number:04d}", verdict="edit", decision=decision)


def begun(*marks: float) -> Begun:
    return Begun(measured(INITIAL, "initial_skill", 0, *marks))


def test_the_timeline_of_a_run_tells_each_move_with_its_evidence(tmp_path: Path) -> None:
    with recorded(tmp_path, *story()) as views:
        facts = [event for event in story() if isinstance(event, Fact)]
        assert [step.move for step in views.steps] == [fact.move for fact in facts]
        for step, fact in zip(views.steps, facts, strict=True):
            assert (step.evidence is None) == (fact.decision is None)
        steps = [step for step in views.steps if step.kind == "step"]
        assert {step.outcome for step in steps} == {"accepted", "rejected", "skipped"}
        rejected = next(step for step in steps if step.outcome == "rejected")
        assert rejected.evidence is not None
        assert rejected.train is not None
        assert rejected.train.n > 0
        detail = views.step(rejected.position)
        fates = {proposal.fate for proposal in detail.proposals}
        assert "applied" in fates
        assert any("no JSON came" in problem for problem in detail.problems)
        assert {name for name, *_ in detail.patterns} >= {"format"}
        assert any(line.kind == "added" for file in detail.diff for line in file.lines)


def test_moves_are_counted_alike_on_a_terminal_a_page_and_in_a_report(tmp_path: Path) -> None:
    with recorded(tmp_path, *story()) as views:
        tally = views.tally
        shown = [step.outcome for step in views.steps if step.outcome != "measured"]
        assert (tally.steps + tally.others, tally.steps) == (len(shown), views.head.steps)
        for outcome in ("accepted", "rejected", "inconclusive", "skipped"):
            assert getattr(tally, outcome) == shown.count(outcome)
        assert tally == tally_of(views.reader.facts)
        assert tally.words == ("4 steps and 1 other decision: 2 accepted, 1 rejected, 2 skipped")
        assert tally.words in run_markdown(views)
    page = write_report(tmp_path, check=False).read_text(encoding="utf-8")
    assert f"{tally.accepted} of {tally.candidates} candidates accepted" in page


def test_a_step_tells_how_many_edits_it_was_allowed(tmp_path: Path) -> None:
    with recorded(tmp_path, *story()) as views:
        budgets = {step.title: step.budget for step in views.steps}
        assert budgets["step 1"] == 1
        assert budgets["baseline"] is None
        assert "edits allowed in each step" in budget_chart(views.steps)
        unlimited = [replace(step, budget=None) for step in views.steps]
        assert budget_chart(unlimited) == ""


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("CancelledError", "stopped on request"),
        ("KeyboardInterrupt", "stopped on request"),
        ("BudgetSpent: limits.calls is reached", "limits.calls is reached"),
        ("AccessError: the key is wrong", "AccessError: the key is wrong"),
    ],
)
def test_why_a_run_stopped_is_told_in_words(tmp_path: Path, reason: str, told: str) -> None:
    with recorded(tmp_path, begun(1.0, 0.0), Stopped(reason, "2026-01-01T00:00:00Z")) as views:
        assert views.head.why == told


def test_a_refresh_takes_in_what_is_new_and_nothing_else_changes(tmp_path: Path) -> None:
    events = list(story())
    half = next(index for index, event in enumerate(events) if isinstance(event, Stepped)) + 1
    log = EventFile(Layout(tmp_path).events)
    for event in events[:half]:
        log.append(event)
    with RunViews(RunReader(tmp_path)) as views:
        early = list(views.steps)
        for event in events[half:]:
            log.append(event)
        assert [entry.event for entry in views.refresh()] == events[half:]
        assert list(views.steps)[: len(early)] == early
        assert views.refresh() == []
        with RunViews(RunReader(tmp_path)) as anew:
            assert list(views.steps) == list(anew.steps)
            assert views.items() == anew.items()
            assert views.versions == anew.versions


def final(better: int) -> FinalTested:
    """A final test of twelve items, all wrong before."""
    tasks = [f"t{number}" for number in range(12)]
    before = evaluation(INITIAL, "test", tasks, *[0.0] * 12)
    after = evaluation(FIRST, "test", tasks, *[1.0] * better, *[0.0] * (12 - better))
    return FinalTested(move="final_test", tasks="", initial=before, best=after, last=after)


KEPT = measured(FIRST, "step_0001", 1, 1.0, 1.0)
ACCEPTED = Decision(KEPT, "accept_new_best", "better", new_best=True)


@pytest.mark.parametrize(
    ("better", "words"),
    [
        (10, "+0.83 [0.44, 0.99] on 12 test items, conclusive"),
        (4, "+0.33 [0.01, 0.56] on 12 test items, not conclusive: fewer than 6 items changed"),
        (0, "+0.00 [-0.14, 0.14] on 12 test items, no item changed"),
    ],
)
def test_the_claim_is_one_sentence_with_interval_items_and_verdict(
    tmp_path: Path, better: int, words: str
) -> None:
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, ACCEPTED), final(better)) as views:
        assert views.head.claim.sentence == words


def test_what_is_unknown_stays_unknown(tmp_path: Path) -> None:
    with recorded(tmp_path, begun()) as views:
        head = views.head
        assert head.claim.sentence == "unknown: no item has a score with both skills"
        assert (head.claim.gain, head.benchmark, head.seed) == (None, "", None)
        assert views.steps[0].current.text == "unknown"
        assert views.cost().total.calls == 0


def test_a_gain_on_the_items_that_chose_the_skill_is_not_called_tested(tmp_path: Path) -> None:
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, ACCEPTED)) as views:
        assert "on 2 val items, not tested" in views.head.claim.sentence
        assert not views.head.claim.conclusive


REFUSED = replace(ACCEPTED, action="reject", new_best=False)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "no candidate is measured yet"),
        (
            [edited(1, REFUSED)],
            "no gain: of 1 candidate, none became best, so the best skill is the initial one",
        ),
    ],
)
def test_a_skill_is_not_compared_with_itself(
    tmp_path: Path, events: list[Event], words: str
) -> None:
    with recorded(tmp_path, begun(0.0, 1.0), *events) as views:
        claim = views.head.claim
        assert (claim.sentence, claim.gain, claim.low, claim.n) == (words, None, None, 2)
        assert claim.after is not None
        assert claim.after.mean == 0.5


def test_that_val_is_small_is_said_once_with_what_to_do(tmp_path: Path) -> None:
    (plain,) = few_to_decide(2)
    warned = f"{plain}: add rows"
    with recorded(tmp_path, begun(0.0, 1.0), Warned(warned)) as views:
        assert views.findings() == (warned,)
        assert run_markdown(views).count("val has only") == 1


def test_how_an_edit_was_placed_does_not_repeat_what_it_is(tmp_path: Path) -> None:
    with recorded(tmp_path, *story()) as views:
        details = [
            (proposal.op, proposal.detail)
            for step in views.steps
            for proposal in views.step(step.position).proposals
            if proposal.fate == "applied"
        ]
    assert ("append", "") in details
    assert not any(op in detail for op, detail in details)


def test_the_settings_of_a_run_that_has_not_begun_are_those_it_was_started_with(
    tmp_path: Path,
) -> None:
    planned = load_config(None, overrides=["env.name=custom", "model.target=simulated-target"])
    with RunLock(tmp_path):
        recorded(tmp_path, Started("2026-01-01T00:00:00+00:00", "1"))
        with RunViews(RunReader(tmp_path), planned) as views:
            head = views.head
            assert (head.target, head.benchmark, head.simulated) == (
                "simulated-target",
                "custom",
                True,
            )


def test_a_run_whose_first_skill_is_being_measured_has_a_head_and_nothing_else(
    tmp_path: Path,
) -> None:
    with RunLock(tmp_path):
        EventFile(Layout(tmp_path).events).append(Started("2026-01-01T00:00:00+00:00", "1"))
        with RunViews(RunReader(tmp_path)) as views:
            assert views.head.status == "running"
            assert views.head.claim.sentence == "unknown: the initial skill is not measured yet"
            assert (list(views.steps), views.versions, views.items().rows) == ([], [], ())
            with pytest.raises(StoreError, match="has no move 0"):
                views.step(0)


def test_a_score_measured_in_part_is_a_bound_and_one_not_measured_is_no_score(
    tmp_path: Path,
) -> None:
    part = Decision(measured(FIRST, "step_0001", 1, 0.0), "reject", "at most 0.5", saved=1)
    nothing = Measured(REJECTED, Evaluation(REJECTED.digest, "val", {}), 1.0, "step_0002", 2)
    spared = Decision(nothing, "reject", "no candidate can: at best 2 better, p 0.25", saved=2)
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, part), edited(2, spared)) as views:
        _, first, second = views.steps
        assert first.candidate is not None
        assert (first.candidate.bound, first.candidate.text) == (True, "at most 0.000")
        assert second.candidate is not None
        assert second.candidate.text == "not measured"
        assert second.evidence is not None
        assert (second.evidence.n, second.evidence.p, second.evidence.gain) == (0, None, None)


@pytest.mark.parametrize(
    ("reason", "p", "e_value"),
    [
        ("1 better, 0 worse of 2, p 0.031 <= 0.05", 0.031, None),
        ("1 better, 0 worse of 2, p 2.4e-07 <= 0.0036", 2.4e-07, None),
        ("1 better, 0 worse of 2, e-value 24.5 >= 20", None, 24.5),
        ("0.9000 > 0.5000 on 2 tasks", 0.5, None),
    ],
)
def test_the_value_of_the_gates_own_test_is_told_else_that_of_a_sign_test(
    tmp_path: Path, reason: str, p: float | None, e_value: float | None
) -> None:
    decision = Decision(measured(FIRST, "step_0001", 1, 1.0, 1.0), "accept", reason)
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, decision)) as views:
        evidence = views.steps[-1].evidence
        assert evidence is not None
        assert (evidence.p, evidence.e_value, evidence.better) == (p, e_value, (VAL[0],))


def test_versions_are_named_by_origin_and_any_two_can_be_compared(tmp_path: Path) -> None:
    second = apply_edits(FIRST, [Append("- Answer in small letters.")]).skill
    kept = Decision(measured(second, "step_0002", 2, 1.0, 1.0), "accept", "better")
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, ACCEPTED), edited(2, kept)) as views:
        names = [version.name for version in views.versions]
        assert names == ["initial_skill", "step_0001", "step_0002"]
        assert [version.is_best for version in views.versions] == [False, True, False]
        assert views.versions[-1].is_current
        sizes = [version.tokens for version in views.versions]
        assert sizes == sorted(sizes)
        (file,) = views.diff("step_0001", "step_0002", context=0).files
        assert [line.text for line in file.lines if line.kind == "added"] == [
            "- Answer in small letters."
        ]
        assert views.diff("step_0002", "step_0002").files == ()
        assert views.skill("best") == FIRST


def test_blame_marks_what_edits_cannot_reach(tmp_path: Path) -> None:
    guided = FIRST.with_guidance("Keep going.")
    kept = Decision(measured(guided, "epoch_01", 1, 1.0, 1.0), "accept", "better", new_best=True)
    with recorded(tmp_path, begun(0.0, 1.0), edited(1, kept)) as views:
        lines = {line.text.strip(): line for line in views.blame("best").lines}
        assert lines["name: s"].protected == "front matter"
        assert lines["- Be brief."].protected == ""
        assert lines["Keep going."].protected == "guidance"
        assert lines["- Be brief."].origin is not None
