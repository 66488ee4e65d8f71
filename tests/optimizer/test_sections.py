from __future__ import annotations

import pytest

from skillopt.core.chat import Message
from skillopt.core.edits import Append, Delete, InsertAfter, Replace
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Pattern, Proposal
from skillopt.core.rollout import Failure, Pair, Rollout, Score, Trajectory
from skillopt.core.skill import Reference, Skill, Text
from skillopt.optimizer.replies import EditAnswer
from skillopt.optimizer.sections import (
    attempt_section,
    describe,
    directions_section,
    memory_sections,
    pair_sections,
    proposals_section,
    skill_section,
)
from skillopt.prompts.digest import Digest


def rollout(hard: float, *between: Message) -> Rollout:
    messages = (
        Message("system", "the skill"),
        Message("user", "2 + 2"),
        *between,
        Message("assistant", "I say 5"),
    )
    score = Score(hard, hard, "wrong: expected 4")
    return Rollout(
        task="t1", kind="sum", skill="d", outcome=score, trajectory=Trajectory(messages, "5")
    )


def test_an_attempt_shows_task_answer_and_feedback_but_not_the_skill_again() -> None:
    shown = attempt_section(rollout(0))
    assert shown.startswith('<attempt id="t1" kind="sum" score="0.00">\n<task>\n2 + 2\n</task>')
    assert "<agent_reply>\n5\n</agent_reply>" in shown
    assert "<feedback>\nwrong: expected 4\n</feedback>" in shown
    assert "the skill" not in shown
    assert "<conversation>" not in shown


def test_the_turns_between_task_and_answer_are_shown() -> None:
    shown = attempt_section(rollout(0, Message("assistant", "hm"), Message("tool", "seen 3")))
    assert "<conversation>\n[assistant] hm\n[tool] seen 3\n</conversation>" in shown


def test_an_attempt_without_a_trajectory_says_why() -> None:
    failed = Rollout(task='a"b', skill="d", outcome=Failure("ModelError", "down"))
    shown = attempt_section(failed)
    assert 'score="none"' in shown
    assert "ModelError: down" in shown
    assert """id='a"b'""" in shown


def test_only_pairs_with_something_to_learn_show_their_attempts() -> None:
    (same,) = pair_sections([Pair(rollout(1), rollout(1))], Digest())
    assert same == '<pair id="t1" change="stable_success"/>'
    (shown,) = pair_sections([Pair(rollout(1), rollout(0))], Digest())
    assert shown.startswith('<pair id="t1" change="regressed">')
    assert shown.count("<attempt") == 2


def test_memory_tells_lessons_patterns_and_rejected_edits() -> None:
    entry = MemoryEntry(
        step=3,
        action="reject",
        n_total=8,
        n_fail=5,
        patterns=(Pattern("wrong unit", 4),),
        score_before=0.5,
        score_after=0.25,
        rejected=(Append("x"), InsertAfter("a", "b"), Replace("a", "b"), Delete("a")),
    )
    lessons, history = memory_sections(Memory((entry,), "be brief"))
    assert lessons == "<lessons>\nbe brief\n</lessons>"
    assert "Step 3: reject; 5 of 8 attempts failed." in history
    assert "pattern (4x, last in step 3): wrong unit" in history
    assert "Held-out score 0.5000 was not beaten." in history
    assert history.count("rejected edit") == 4
    assert memory_sections(Memory()) == []


def test_what_is_told_of_a_rejected_candidate_does_not_depend_on_its_score() -> None:
    def shown(action: str, after: float) -> str:
        entry = MemoryEntry(
            step=3,
            action=action,
            n_total=8,
            n_fail=5,
            score_before=0.5,
            score_after=after,
            rejected=(Append("x"),) if action == "reject" else (),
            accepted=() if action == "reject" else (Append("x"),),
        )
        memory = Memory((entry,))
        return "".join(memory_sections(memory)) + directions_section(memory)

    assert shown("reject", 0.25) == shown("reject", 0.375)
    assert "0.5000 -> 0.7500" in shown("accept_new_best", 0.75)


def test_a_long_past_is_told_in_bounded_room_and_what_is_missing_is_counted() -> None:
    entries = tuple(
        MemoryEntry(
            step=step,
            action="reject",
            n_total=8,
            n_fail=5,
            patterns=(Pattern(f"failure {step * 7919}", 1),),
            rejected=(Append(f"rule {step * 104729} " + "x" * 5000), Append("- Be careful.")),
        )
        for step in range(1, 200)
    )
    (history,) = memory_sections(Memory(entries))
    assert len(history) < 15_000
    assert "(187 earlier steps are not listed.)" in history
    assert "Step 199: reject" in history
    assert "Step 187: reject" not in history
    first = history.partition("most often rejected first:\n")[2]
    assert first.startswith("  rejected edit (199x, last in step 199): ")
    assert "Be careful" in first.partition("\n")[0]
    assert f"rule {199 * 104729}" in history
    assert " others are left out.)" in history
    assert " older or rarer ones are left out.)" in history


def test_proposals_are_numbered_with_their_support() -> None:
    shown = proposals_section([Proposal(Append("é"), "failure", ("a", "b"), "why")])
    assert '{"index": 0, "op": "append", "target": "", "content": "é"' in shown
    assert '"support": 2, "source": "failure"' in shown


def test_a_single_document_is_shown_as_it_stands_and_a_package_with_how_to_name_its_files() -> None:
    assert skill_section(Skill.parse("a\n")) == "<skill>\na\n\n</skill>"
    package = Skill.of("", [Text("a\n")], [Reference("references/b.md", "b\n")])
    shown = skill_section(package)
    assert shown.startswith(f"<skill>\n{package.render()}\n</skill>\n\n<files>\n- SKILL.md\n")
    assert "- references/b.md\n" in shown
    assert '"file"' in shown


@pytest.mark.parametrize(
    ("written", "file"),
    [
        (None, "SKILL.md"),
        ("", "SKILL.md"),
        ("skill.md", "SKILL.md"),
        ("./references/b.md", "references/b.md"),
        (" references/b.md ", "references/b.md"),
        ("../b.md", "../b.md"),
    ],
)
@pytest.mark.parametrize("op", ["append", "insert_after", "replace", "delete"])
def test_an_edit_names_its_file_or_means_the_document(
    op: str, written: str | None, file: str
) -> None:
    raw = {"op": op, "target": "t", "content": "c", "file": written}
    edit = EditAnswer.model_validate(raw).change()
    assert edit.file == file
    told = describe(edit)
    assert told.get("file", "SKILL.md") == file
    assert EditAnswer.model_validate(told).change() == edit


def test_a_history_names_the_rules_that_were_pruned() -> None:
    gone = MemoryEntry(
        step=4,
        action="accept_new_best",
        n_total=0,
        n_fail=0,
        kind="pruning",
        score_before=0.5,
        score_after=0.5,
        accepted=(Delete("- Smile."),),
    )
    shown = "\n".join(memory_sections(Memory((gone,))))
    assert "Pruning after step 4: accept_new_best." in shown
    assert 'Nothing was missed without: ["- Smile."].' in shown
    assert "Held-out score 0.5000 -> 0.5000." in shown


def test_a_reply_that_holds_an_answer_section_stands_in_a_section_of_another_name() -> None:
    said = "Thinking.\n<answer>5</answer>"
    messages = (Message("user", "2 + 2"), Message("assistant", said))
    attempt = Rollout(
        task="t1", skill="d", outcome=Score(0, 0), trajectory=Trajectory(messages, said)
    )
    shown = attempt_section(attempt)
    assert shown.count("<answer>") == 1
    assert f"<agent_reply>\n{said}\n</agent_reply>" in shown
