from __future__ import annotations

from dataclasses import replace

from rich.text import Text
from support_store import FIRST, RULE, draft, measured, story

from skillopt.cli.progress import line_for
from skillopt.cli.step import step_story
from skillopt.core.events import Decision, Fact
from skillopt.core.facts import MetaReflected, Pruned, Stepped
from skillopt.core.proposal import Draft, Proposal
from skillopt.core.rules import Cut, Rule, Worth
from skillopt.gates.compared import Metric
from skillopt.store.run_history import RunHistory

AGAIN = (Proposal(RULE, "failure", ("a",)), Proposal(RULE, "success", ("b",)))


def line(fact: Fact) -> str:
    return line_for(fact, 4, Metric()).plain


def test_a_step_tells_how_many_repeats_were_dropped_and_the_step_shows_which() -> None:
    facts = [
        replace(event, draft=replace(event.draft, repeats=AGAIN))
        if isinstance(event, Stepped) and event.step == 2
        else event
        for event in story()
    ]
    step = next(event for event in facts if isinstance(event, Stepped) and event.step == 2)
    assert "dropped 2 repeats of rejected edits" in line(step)
    chapter = next(each for each in RunHistory.of(facts).entries if each.fact == step)
    told = "\n".join(str(part) for part in step_story(chapter) if isinstance(part, Text | str))
    assert "dropped 2 repeats of rejected edits, before merging and ranking:" in told


def test_a_step_without_repeats_says_nothing_of_them() -> None:
    step = next(event for event in story() if isinstance(event, Stepped))
    assert "repeat" not in line(step)


def test_a_meta_reflection_is_told_in_one_line() -> None:
    taken = Decision(measured(FIRST, "meta_reflect_epoch_01", 2, 1.0), "accept", "1 > 0")
    thought = MetaReflected(
        move="meta_reflect_epoch_01",
        step=2,
        epoch=1,
        draft=draft(RULE, FIRST),
        action="accept",
        decision=taken,
    )
    assert line(thought) == "meta reflect, epoch 1  edits 1 of 2  val 1 > 0  accepted"
    idle = replace(thought, draft=Draft(budget=2), action="skip_no_patches", decision=None)
    assert line(idle) == ("meta reflect, epoch 1  skipped: no edits proposed")


def test_pruning_is_told_in_one_line() -> None:
    rule = Rule("SKILL.md", 3, "- x")
    worths = (Worth(rule, 0.0, -0.1, 0.1, 20, 0), Worth(rule, 0.5, 0.3, 0.7, 20, 10))
    taken = Decision(measured(FIRST, "prune_epoch_01", 2, 1.0), "accept", "1 >= 1")
    cut = Cut(worths, (rule,))
    fact = Pruned(move="prune_epoch_01", step=2, epoch=1, cut=cut, decision=taken)
    assert line(fact) == "prune, epoch 1  rules 2  without effect 1  val 1 >= 1  accepted"
    idle = replace(fact, cut=Cut(worths), decision=None)
    assert line(idle) == "prune, epoch 1  rules 2  no rule removed"
