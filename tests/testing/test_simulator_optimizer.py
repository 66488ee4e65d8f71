from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import pytest

from skillopt.core.chat import Message
from skillopt.core.edits import Append, Delete, Edit, Replace
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Proposal
from skillopt.core.rollout import Pair, Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.optimizer.sections import (
    attempt_section,
    budget_section,
    directions_section,
    memory_sections,
    pair_sections,
    proposals_section,
    skill_section,
)
from skillopt.prompts.digest import Digest
from skillopt.prompts.library import Library
from skillopt.testing.simulator import (
    SimulatedOptimizer,
    SimulatedTarget,
    initial_skill,
    make_items,
)
from skillopt.testing.simulator.office import BY_LABEL, FIELDS
from skillopt.testing.simulator.optimizer import stage_of
from skillopt.testing.simulator.reading import read_rules
from skillopt.testing.simulator.world import HOUSE

WISE = SimulatedOptimizer(useless=0, harmful=0, broken=0)
PROMPTS = Library()


def attempt(item: dict[str, str], skill: str = "") -> Rollout:
    answer = SimulatedTarget(noise=0).answer(f"## Skill\n{skill}", item["input"])
    right = answer == item["answer"]
    feedback = "correct" if right else f"wrong answer: expected '{item['answer']}', got '{answer}'"
    said = (Message("user", item["input"]), Message("assistant", answer))
    return Rollout(
        task=item["id"],
        kind=item["kind"],
        skill="",
        outcome=Score(float(right), float(right), feedback),
        trajectory=Trajectory(said, answer),
    )


def reflection(
    items: Sequence[dict[str, str]], skill: str = "", budget: int = 20, memory: Memory | None = None
) -> str:
    sections = [
        skill_section(Skill.parse(skill)),
        *memory_sections(memory if memory is not None else Memory()),
        budget_section(budget),
        *(attempt_section(attempt(item, skill)) for item in items),
    ]
    return "\n\n".join(sections)


def ask(stage: str, user: str, optimizer: SimulatedOptimizer = WISE) -> dict[str, object]:
    return json.loads(optimizer.answer(stage, "", user))


def edits_of(reply: dict[str, object]) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", reply["edits"])


def learned(edits: Sequence[dict[str, object]]) -> dict[str, str]:
    text = "\n".join(str(edit["content"]) for edit in edits)
    return {label: forms[-1] for label, forms in read_rules(text).by_field.items()}


def about(label: str, n: int = 2) -> list[dict[str, str]]:
    return [item for item in make_items(200, 4) if item["kind"] == label][:n]


@pytest.mark.parametrize(
    ("prompt", "stage"),
    [
        ("analyst_error", "reflection"),
        ("analyst_success", "reflection"),
        ("explore", "exploration"),
        ("merge_failure", "merge"),
        ("merge_success", "merge"),
        ("merge_final", "merge"),
        ("ranking", "ranking"),
        ("analyst_error_rewrite", "reflection"),
        ("analyst_success_rewrite", "reflection"),
        ("analyst_error_full_rewrite", "reflection"),
        ("analyst_success_full_rewrite", "reflection"),
        ("merge_failure_rewrite", "merge"),
        ("merge_success_rewrite", "merge"),
        ("merge_final_rewrite", "merge"),
        ("merge_failure_full_rewrite", "merge"),
        ("merge_success_full_rewrite", "merge"),
        ("merge_final_full_rewrite", "merge"),
        ("ranking_rewrite", "ranking"),
        ("rewrite_skill", "rewrite"),
        ("lr_autonomous", "learning_rate"),
        ("compress_skill", "compress"),
        ("slow_update", "slow_update"),
        ("meta_skill", "meta_skill"),
        ("meta_reflect", "meta_reflect"),
        ("appendix_consolidate", "consolidation"),
        ("probe", "probe"),
    ],
)
def test_every_prompt_of_the_framework_is_recognised(prompt: str, stage: str) -> None:
    assert stage_of(PROMPTS.text(prompt)) == stage


def test_a_skill_is_not_taken_for_a_question_to_the_optimizer() -> None:
    assert stage_of(f"Fill in forms.\n\n## Skill\n{initial_skill()}") is None


def test_all_conventions_are_inferred_from_expected_and_actual_answers() -> None:
    edits = edits_of(ask("reflection", reflection(make_items(60, 9))))
    assert learned(edits) == HOUSE


def test_another_house_teaches_other_rules() -> None:
    house = {each.label: each.forms[-1].name for each in FIELDS}
    edits = edits_of(ask("reflection", reflection(make_items(60, 9, house))))
    assert learned(edits) == house


def test_no_rule_is_written_about_a_field_that_was_not_shown() -> None:
    edits = edits_of(ask("reflection", reflection(about("room code"))))
    assert learned(edits) == {"room code": "letter_first"}
    assert edits[0]["tasks"] == sorted(item["id"] for item in about("room code"))


def test_the_budget_bounds_the_edits_and_wide_support_comes_first() -> None:
    items = [*about("room code", 1), *about("start time", 3), *about("phone number", 2)]
    edits = edits_of(ask("reflection", reflection(items, budget=2)))
    assert list(learned(edits)) == ["start time", "phone number"]
    assert edits_of(ask("reflection", reflection(items, budget=0))) == []


def test_an_empty_answer_is_evidence_too() -> None:
    item = about("room code")[0]
    block = (
        f'<attempt id="a" kind="k" score="0.00">\n<task>\n{item["input"]}\n</task>\n'
        f"<feedback>\nempty answer: expected '{item['answer']}'\n</feedback>\n</attempt>"
    )
    assert learned(edits_of(ask("reflection", block))) == {"room code": "letter_first"}


def test_a_rule_that_the_skill_states_is_not_proposed_again() -> None:
    rule = BY_LABEL["room code"].form("letter_first").rules[0]
    slips = "\n".join(attempt_section(attempt(item)) for item in about("room code"))
    user = f"<skill>\n- {rule}\n</skill>\n<budget>4</budget>\n{slips}"
    assert edits_of(ask("reflection", user)) == []


def test_a_wrong_rule_is_replaced_and_a_contradicting_one_deleted() -> None:
    field = BY_LABEL["room code"]
    wrong, right = (f"- {field.form(name).rules[0]}" for name in ("floor_first", "letter_first"))
    [edit] = edits_of(ask("reflection", reflection(about("room code"), skill=wrong)))
    assert (edit["op"], edit["target"]) == ("replace", wrong)
    torn = reflection(about("room code", 9), skill=f"{right}\n{wrong}")
    [edit] = edits_of(ask("reflection", torn))
    assert (edit["op"], edit["target"]) == ("delete", wrong)


def test_rejected_words_are_not_used_again() -> None:
    rules = BY_LABEL["room code"].form("letter_first").rules
    rejected: tuple[Edit, ...] = tuple(Append(f"- {rule}") for rule in rules[:2])
    entry = MemoryEntry(step=1, action="reject", n_total=4, n_fail=2, rejected=rejected)
    user = reflection(about("room code"), memory=Memory((entry,)))
    assert [edit["content"] for edit in edits_of(ask("reflection", user))] == [f"- {rules[2]}"]


def test_meta_reflection_learns_from_what_was_accepted_and_rejected() -> None:
    field = BY_LABEL["room code"]
    wrong, right = (f"- {field.form(name).rules[0]}" for name in ("floor_first", "letter_first"))
    week = BY_LABEL["planning week"].form("short").rules
    steps = (
        MemoryEntry(step=1, action="accept", n_total=4, n_fail=2, accepted=(Append(right),)),
        MemoryEntry(
            step=2, action="reject", n_total=4, n_fail=2, rejected=(Append(f"- {week[0]}"),)
        ),
    )
    idle = "- Consider the context of the request."
    sections = [
        skill_section(Skill.parse(f"{right}\n{wrong}\n{idle}\n")),
        *memory_sections(Memory(steps)),
        budget_section(3),
        directions_section(Memory(steps)),
    ]
    settled, again, dropped = edits_of(ask("meta_reflect", "\n\n".join(sections)))
    assert (settled["op"], settled["target"]) == ("delete", wrong)
    assert again["content"] in {f"- {rule}" for rule in week[1:]}
    assert (dropped["op"], dropped["target"]) == ("delete", idle)
    sections[2] = budget_section(1)
    assert len(edits_of(ask("meta_reflect", "\n\n".join(sections)))) == 1


def test_flawed_edits_come_about_as_often_as_their_settings_say() -> None:
    users = [reflection(make_items(8, seed), budget=4) for seed in range(300)]

    def share(optimizer: SimulatedOptimizer, sign: str) -> float:
        texts = [optimizer.answer("reflection", "", user) for user in users]
        return sum(sign in text for text in texts) / len(texts)

    sign = "It seems to help."
    assert share(WISE, sign) == 0
    assert 0.18 < share(SimulatedOptimizer(harmful=0, broken=0), sign) < 0.32
    assert 0.05 < share(SimulatedOptimizer(useless=0, broken=0), sign) < 0.15


def test_a_harmful_edit_states_a_form_that_the_evidence_speaks_against() -> None:
    bad = SimulatedOptimizer(useless=0, harmful=1, broken=0)
    edits = edits_of(ask("reflection", reflection(about("room code"), budget=4), bad))
    assert learned(edits[1:]) == {"room code": "floor_first"}


def test_successes_alone_give_a_wise_optimizer_nothing_to_propose() -> None:
    rule = BY_LABEL["room code"].form("letter_first").rules[0]
    assert edits_of(ask("reflection", reflection(about("room code"), skill=rule))) == []


def proposals(*edits: tuple[Edit, int]) -> str:
    made = [Proposal(edit, "failure", tuple(map(str, range(n)))) for edit, n in edits]
    return f"<budget>2</budget>\n{proposals_section(made)}"


def test_merging_unites_what_means_the_same_and_drops_the_weaker_of_two_contradictions() -> None:
    rules = BY_LABEL["room code"].form("letter_first").rules
    wrong = BY_LABEL["room code"].form("floor_first").rules[0]
    user = proposals(
        (Append(f"- {wrong}"), 2),
        (Append(f"- {rules[0]}"), 1),
        (Append("- Be careful."), 1),
        (Append(f"- {rules[1]}"), 3),
        (Append("-  be  careful."), 1),
        (Delete("- Old."), 1),
    )
    sources = [edit["from"] for edit in edits_of(ask("merge", user))]
    assert sources == [[1, 3], [2, 4], [5]]


def test_merging_prefers_a_replacement_to_an_addition_of_the_same_rule() -> None:
    rules = BY_LABEL["room code"].form("letter_first").rules
    user = proposals((Append(f"- {rules[0]}"), 1), (Replace("- Old.", f"- {rules[1]}"), 1))
    [edit] = edits_of(ask("merge", user))
    assert (edit["op"], edit["target"], edit["from"]) == ("replace", "- Old.", [0, 1])


def test_ranking_keeps_the_best_supported_within_the_budget() -> None:
    user = proposals((Append("a"), 1), (Append("b"), 3), (Append("c"), 2))
    assert ask("ranking", user)["selected_indices"] == [1, 2]


def test_unreadable_proposals_give_an_empty_but_valid_answer() -> None:
    assert ask("merge", "<proposals>\nnot JSON\n</proposals>")["edits"] == []
    assert ask("ranking", "nothing")["selected_indices"] == []


def comparison(skill: str, n: int = 6) -> str:
    items = about("room code", n)
    pairs = [Pair(attempt(item, skill), attempt(item, skill)) for item in items]
    return "\n\n".join(
        [
            skill_section(Skill.parse(skill), "previous_skill"),
            skill_section(Skill.parse(skill)),
            *pair_sections(pairs, Digest()),
            "<guidance>\n- Keep calm.\n</guidance>",
        ]
    )


def test_the_slow_update_states_what_still_fails_and_keeps_older_guidance() -> None:
    guidance = str(ask("slow_update", comparison("# Clerk"))["slow_update_content"])
    assert read_rules(guidance).by_field == {"room code": ("letter_first",)}
    assert guidance.startswith("- Keep calm.\n")
    known = BY_LABEL["room code"].form("letter_first").rules[0]
    assert ask("slow_update", comparison(known))["slow_update_content"] == "- Keep calm."


def test_the_meta_skill_sums_up_the_epoch() -> None:
    assert "0 tasks improved" in str(ask("meta_skill", comparison("x"))["meta_skill_content"])


def test_some_first_replies_are_broken_json_and_repairs_never_are() -> None:
    optimizer = SimulatedOptimizer(broken=0.5)
    users = [reflection(make_items(4, seed)) for seed in range(60)]
    broken = 0
    for user in users:
        try:
            json.loads(optimizer.answer("reflection", "", user))
        except json.JSONDecodeError:
            broken += 1
        assert json.loads(optimizer.answer("reflection", "", user, repairing=True))["edits"]
    assert 15 < broken < 45
