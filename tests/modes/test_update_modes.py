"""The three ways to make a candidate of proposals: what they leave, and what they never touch."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Seen
from support_runs import Uncut, kill_and_resume, run_uncut

from skillopt.core.chat import Request
from skillopt.core.edits import Append, Delete, Edit, InsertAfter, Replace, Rewrite, Suggestion
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Proposal, Selection
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Region, Skill
from skillopt.model.scripted import Scripted
from skillopt.optimizer.parts import UpdateMode
from skillopt.optimizer.update import Follow, Patch, TakeOver
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

MODES = {
    "patch": "edits",
    "rewrite_from_suggestions": "revise_suggestions",
    "full_rewrite_minibatch": "skill_candidates",
}


@pytest.fixture(scope="module", params=list(MODES))
def uncut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """A run in each mode that nobody disturbs."""
    mode = cast("str", request.param)
    return run_uncut(tmp_path_factory.mktemp(mode), optimizer__skill_update_mode=mode)


def read(path: Path) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(path.read_text(encoding="utf-8")))


def test_every_mode_ends_above_its_baseline_and_leaves_its_files(uncut: Uncut) -> None:
    out = uncut.job.out
    summary = read(out / "summary.json")
    assert cast("float", summary["test_delta_hard"]) > 0.2
    mode = str(uncut.job.more["optimizer.skill_update_mode"])
    step = out / "steps" / "step_0001"
    for name in ("merged_patch.json", "ranked_edits.json"):
        assert read(step / name)[MODES[mode]]
    record = read(step / "step_record.json")
    assert record["edit_budget"] == (None if mode == "full_rewrite_minibatch" else 4)
    assert (step / "candidate_skill.md").exists()
    assert (step / "edit_apply_report.json").exists() == (mode == "patch")
    assert (step / "rewrite_result.json").exists() == (mode == "rewrite_from_suggestions")
    assert (step / "full_rewrite_result.json").exists() == (mode == "full_rewrite_minibatch")
    assert ("rewrite_change_summary" in record) == (mode != "patch")


@pytest.mark.parametrize("moment", [0, 1])
async def test_a_run_killed_in_any_mode_ends_as_if_it_had_not_been(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    if uncut.job.more["optimizer.skill_update_mode"] != "patch":  # tested on its own
        await kill_and_resume(moment, uncut, tmp_path / "run")


PIECE = st.lists(
    st.sampled_from(
        [
            "one",
            "two",
            "g1",
            "# Title",
            "\n",
            "\r\n",
            " ",
            "é",
            "- ",
            "---",
            "---\nname: evil\n---\n",
            "<!-- SLOW_UPDATE_START",
            "<!-- SLOW_UPDATE_START -->",
            "<!-- SLOW_UPDATE_END -->",
            "<!-- APPENDIX_START -->",
            "-->",
        ]
    ),
    max_size=6,
).map("".join)
EDITS = st.one_of(
    st.builds(Append, PIECE),
    st.builds(InsertAfter, PIECE, PIECE),
    st.builds(Replace, PIECE, PIECE),
    st.builds(Delete, PIECE),
)
KEPT = "KEEP\tthis   passage — byte for byte,  \r\n\r\n\r\n  and its blank lines"


def document_of(front: str, first: str, second: str, last: str) -> str:
    return f"{front}{first}one\n{KEPT}\n{second}two\n{last}"


DOCUMENTS = st.builds(
    document_of,
    st.sampled_from(["", "---\nname: x\n---\n", "---\r\nname: x\r\n---\r\n"]),
    st.sampled_from(["", "# Title\n\n", Region("notes", "\n- n1\n").render() + "\n"]),
    st.sampled_from(["", Region("guidance", "\ng1\n").render()]),
    st.sampled_from(["", "tail", "\n\n"]),
)


def asker(reply: str) -> Asker:
    return Asker(Scripted(lambda _: reply), Library(), EventSink(MemoryLog(), Seen()))


def updated(how: UpdateMode, skill: Skill, *proposals: Proposal) -> Skill:
    done = asyncio.run(how(skill, Selection(proposals), Memory()))
    return skill if done.skill is None else done.skill


def protected(skill: Skill) -> tuple[str, list[Region]]:
    return skill.front, [part for part in skill.parts if isinstance(part, Region)]


@given(DOCUMENTS, st.lists(EDITS, max_size=5))
def test_no_edits_change_front_matter_regions_or_text_outside_their_span(
    document: str, edits: list[Edit]
) -> None:
    before = Skill.parse(document)
    proposals = [Proposal(edit, "failure") for edit in edits]
    after = updated(Patch(sink=asker("").sink), before, *proposals)
    assert protected(after) == protected(before)
    assert KEPT in after.render()
    assert Skill.parse(after.render()) == after


@given(DOCUMENTS, st.lists(PIECE, min_size=1, max_size=3))
def test_no_rewrite_changes_front_matter_or_regions(document: str, bodies: list[str]) -> None:
    before = Skill.parse(document)
    followed = taken = before
    for body in bodies:
        follow = Follow(asker=asker(json.dumps({"new_skill": body})))
        followed = updated(follow, followed, Proposal(Suggestion("clarify", "t", "i"), "failure"))
        take = TakeOver(sink=asker("").sink)
        taken = updated(take, taken, Proposal(Rewrite("t", (), body), "failure"))
    for after in (followed, taken):
        assert protected(after) == protected(before)
        assert Skill.parse(after.render()) == after
        assert "<!-- SLOW_UPDATE_START -->" not in after.body


def test_a_new_body_stands_where_the_old_one_began_and_regions_follow_it() -> None:
    region = Region("guidance", "\ng\n").render()
    skill = Skill.parse(f"---\nname: x\n---\n\nold\n\n{region}\ntail\n")
    assert skill.with_body("new\nbody\n").render() == (
        f"---\nname: x\n---\n\nnew\nbody\n\n{region}\n"
    )
    assert Skill.parse(region).with_body("new").render() == f"new\n\n{region}"
    assert Skill.parse("a").with_body("b").render() == "b"
    assert Skill.parse("a\r\nb\r\n").with_body("c\nd").render() == "c\r\nd\r\n"


def test_a_body_that_says_the_same_is_no_change() -> None:
    skill = Skill.parse("---\nname: x\n---\n\n# Job\n\n- a\n\n")
    assert skill.with_body("# Job\n\n- a") is skill
    assert skill.with_body("---\nname: x\n---\n# Job\n\n- a\n") is skill


async def test_a_rewrite_sees_the_body_and_rejected_suggestions_and_no_region() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return json.dumps({"new_skill": "# New"})

    skill = Skill.parse("---\nname: x\n---\n# Old\n").with_guidance("secret guidance")
    rejected = Suggestion("add_rule", "shouting", "Add: shout")
    memory = Memory(
        steps=(MemoryEntry(step=1, action="reject", n_total=1, n_fail=1, rejected=(rejected,)),),
        lessons="for analysts",
    )
    follow = Follow(
        asker=Asker(Scripted(answer), Library(), EventSink(MemoryLog(), Seen())),
        rewrite_tokens=77,
        rewrite_effort="high",
    )
    done = await follow(skill, Selection(), memory)
    assert done.skill is not None
    assert done.skill.guidance == "secret guidance"
    text = asked[0].messages[1].text
    assert "# Old" in text
    assert "shouting" in text
    assert not any(hidden in text for hidden in ("secret guidance", "name: x", "for analysts"))
    assert (asked[0].stage, asked[0].max_tokens, asked[0].effort) == ("rewrite", 77, "high")


@pytest.mark.parametrize("reply", ["no", '{"new_skill": "  "}'])
async def test_without_a_usable_body_there_is_no_candidate_and_it_is_said(reply: str) -> None:
    done = await Follow(asker=asker(reply))(Skill.parse("a"), Selection(), Memory())
    assert done.skill is None
    assert done.rewritten is not None
    assert "no usable answer" in done.rewritten.problem


async def test_the_first_body_with_words_is_taken_over() -> None:
    bodies = [Proposal(Rewrite(title, (), body), "failure") for title, body in ("a ", "bB")]
    take = TakeOver(sink=asker("").sink)
    done = await take(Skill.parse("x"), Selection(tuple(bodies)), Memory())
    assert done.skill == Skill.parse("B")
    none = await take(Skill.parse("x"), Selection(tuple(bodies[:1])), Memory())
    assert none.skill is None
    assert none.rewritten is not None
    assert "empty" in none.rewritten.problem
