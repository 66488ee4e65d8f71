from __future__ import annotations

from dataclasses import replace

from support_store import FIRST, GUIDED, INITIAL, REJECTED, draft, measured, story

from skillopt.analysis.lineage import lineage, origins_of
from skillopt.core.edits import Append, Replace, Suggestion, apply_edits
from skillopt.core.events import Decision, Fact
from skillopt.core.facts import Pruned, Stepped
from skillopt.core.proposal import Candidate, Draft, Finding, Proposal, ReminderUpdate, Selection
from skillopt.core.rules import Cut, rules_in, without
from skillopt.core.skill import Skill

FACTS = [event for event in story() if isinstance(event, Fact)]


def after(skill: Skill, made: Draft) -> list[Fact]:
    """The story up to its second step, and one more step that was accepted."""
    taken = Decision(measured(skill, "step_0003", 3, 1.0), "accept", "better")
    step = Stepped(
        move="step_0003",
        step=3,
        epoch=2,
        in_epoch=1,
        batches=(),
        patterns=(),
        draft=made,
        action="accept",
        decision=taken,
    )
    return [*FACTS[:3], step]


def draft_of(*chosen: Proposal) -> Draft:
    return Draft(budget=2, candidates=(Candidate(chosen=Selection(chosen)),))


def test_a_line_comes_from_the_step_whose_accepted_edit_wrote_it() -> None:
    found = lineage(FACTS)[FIRST.digest]
    assert found["- Be brief."].move == "initial_skill"
    origin = found["- Answer in capitals."]
    assert (origin.move, origin.by, origin.failures) == ("step_0002", ("analyst",), ("a", "b"))
    assert origin.why == ("capitals were missing",)
    assert (origin.action, origin.reason) == ("accept_new_best", "1 of 2 better")


def test_a_rejected_candidate_leaves_no_trace_in_later_skills() -> None:
    found = lineage(FACTS)
    assert found[REJECTED.digest]["- Shout."].action == "reject"
    assert found[REJECTED.digest]["- Be brief."].move == "initial_skill"
    assert "- Shout." not in found[FIRST.digest]
    # Accepted by a later step, the line is that step's.
    taken = Decision(measured(REJECTED, "step_0002", 2, 1.0), "accept", "better")
    again = replace(FACTS[2], decision=taken)
    assert lineage([*FACTS[:2], again])[REJECTED.digest]["- Shout."].move == "step_0002"


def test_a_step_that_set_out_from_an_older_skill_inherits_its_lines() -> None:
    made = Draft(budget=1)
    skill = apply_edits(INITIAL, [Append("- Sing."), Append("- Answer in capitals.")]).skill
    *before, step = after(skill, made)
    assert isinstance(step, Stepped)
    found = lineage([*before, replace(step, parent="initial_skill")])[skill.digest]
    assert found["- Be brief."].move == "initial_skill"
    assert found["- Answer in capitals."].move == "step_0003"
    assert lineage([*before, step])[skill.digest]["- Answer in capitals."].move == "step_0002"


def test_guidance_comes_from_the_epoch_that_wrote_it() -> None:
    found = lineage(FACTS)[GUIDED.digest]
    assert found["Keep going."].move == "slow_update_epoch_02"
    assert found["Keep going."].successes == ("a",)
    assert found["- Answer in capitals."].move == "step_0002"


def test_a_changed_line_comes_from_its_last_change() -> None:
    edit = Replace("capitals", "small letters")
    skill = apply_edits(FIRST, [edit]).skill
    chosen = (
        Proposal(Append("- Unrelated."), "failure", ("x",)),
        Proposal(edit, "failure", ("b",), by="explore"),
    )
    found = lineage(after(skill, draft_of(*chosen)))[skill.digest]
    origin = found["- Answer in small letters."]
    assert (origin.move, origin.by, origin.failures) == ("step_0003", ("explore",), ("b",))
    assert found["- Be brief."].move == "initial_skill"


def test_a_rewritten_line_has_the_evidence_of_all_suggestions() -> None:
    skill = FIRST.with_body("# New\n\n- Written anew.")
    chosen = (
        Proposal(Suggestion("clarify", "t", "i"), "failure", ("a",)),
        Proposal(Suggestion("compress", "t", "i"), "success", ("b",)),
    )
    origin = lineage(after(skill, draft_of(*chosen)))[skill.digest]["- Written anew."]
    assert (origin.failures, origin.successes) == (("a",), ("b",))


def test_a_reminder_has_the_tasks_that_asked_for_it() -> None:
    skill = FIRST.with_notes(["Mind the capitals."])
    noted = Finding(source="failure", batch=0, number=0, tasks=("c",), notes=("Mind the capitals",))
    made = replace(
        draft(Append("- x"), skill),
        findings=(noted,),
        reminders=ReminderUpdate(added=skill.notes, after=skill.notes),
    )
    origin = lineage(after(skill, made))[skill.digest]["- Mind the capitals."]
    assert origin.failures == ("c",)


def test_pruning_leaves_the_origins_of_what_stays() -> None:
    shorter = without(FIRST, rules_in(FIRST)[:1])
    taken = Decision(measured(shorter, "prune_epoch_01", 2, 1.0), "accept", "no worse")
    fact = Pruned(move="prune_epoch_01", step=2, epoch=1, cut=Cut(), decision=taken)
    found = lineage([*FACTS[:3], fact])[shorter.digest]
    assert found["- Answer in capitals."].move == "step_0002"
    assert "- Be brief." not in found


def test_a_rule_has_the_origins_of_its_lines() -> None:
    edit = Append("- Be brief.\n  In letters, too.")
    skill = Skill.parse(INITIAL.render().replace("brief.\r\n", "brief.\r\n  In letters, too.\r\n"))
    made = draft_of(Proposal(edit, "failure", ("a",)))
    found = lineage(after(skill, made))[skill.digest]
    (rule,) = rules_in(skill)
    assert [each.move for each in origins_of(rule, found)] == ["initial_skill", "step_0003"]
