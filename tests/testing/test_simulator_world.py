from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.testing.simulator import (
    SimulatedTarget,
    initial_skill,
    make_items,
    stated_skill,
    write_data,
)
from skillopt.testing.simulator.office import BY_LABEL, FIELDS
from skillopt.testing.simulator.reading import read_request, read_rules
from skillopt.testing.simulator.world import HOUSE

seeds = st.integers(0, 2**32)


def bare(text: str) -> str:
    """A text as a lenient scorer might compare it."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def test_there_are_twelve_conventions_each_with_a_form_of_its_field() -> None:
    assert len(HOUSE) == len(FIELDS) == 12
    assert all(BY_LABEL[label].form(name) for label, name in HOUSE.items())


@given(seed=seeds)
def test_the_plain_answer_is_never_right_however_leniently_compared(seed: int) -> None:
    for item in make_items(24, seed):
        wanted = read_request(item["input"])
        parts = item["answer"].split(" | ")
        assert len(wanted) == len(parts) > 0
        for each, part in zip(wanted, parts, strict=True):
            assert bare(each.field.plain(each.value)) != bare(part)


@given(seed=seeds)
def test_a_quarter_of_the_items_needs_two_conventions_and_all_fields_occur(seed: int) -> None:
    items = make_items(48, seed)
    assert sum(item["kind"] == "two fields" for item in items) == 12
    kinds = {each.field.label for item in items for each in read_request(item["input"])}
    assert kinds == set(HOUSE)


def test_items_depend_on_the_seed_only() -> None:
    assert make_items(30, 5) == make_items(30, 5) != make_items(30, 6)


def test_thousands_of_items_have_different_inputs_and_ids() -> None:
    items = make_items(3000, 1)
    assert len({item["input"] for item in items}) == len({item["id"] for item in items}) == 3000


def test_written_splits_are_disjoint_and_have_the_sizes_asked_for(tmp_path: Path) -> None:
    write_data(tmp_path, (8, 4, 6), seed=3)
    inputs: list[str] = []
    for name, size in (("train", 8), ("val", 4), ("test", 6)):
        lines = (tmp_path / name / "items.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) == size
        inputs += [json.loads(line)["input"] for line in lines]
    assert len(set(inputs)) == 18


@pytest.mark.parametrize(
    ("label", "form", "rule"),
    [
        (each.label, form.name, rule)
        for each in FIELDS
        for form in each.forms
        for rule in form.rules
    ],
)
def test_a_rule_is_read_as_its_own_form_and_says_nothing_about_other_fields(
    label: str, form: str, rule: str
) -> None:
    assert read_rules(f"- {rule}").by_field == {label: (form,)}


def paraphrased(rule: str) -> dict[str, tuple[str, ...]]:
    return read_rules(rule).by_field


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        ("## Dates\n\n- Always YYYY-MM-DD, never 03/05/2024.", "delivery date"),
        ("**Money**\nConvert to cents and append ct.", "invoice amount"),
        ("When you route something, use e.g. Q-TRA for Travel.", "ticket queue"),
        ("Contacts: last name first, in capitals.", "contact name"),
        ("Convert feet into metres; keep one decimal.", "shelf length"),
        ("Telephone: begin with +1, then put dots between the groups.", "phone number"),
        ("Urgent things are P1, minor ones P4.", "priority level"),
        ("For rooms write the building letter, the floor, a dash and the room.", "room code"),
        ("Answer yes/no fields with Y or N instead of yes or no.", "approval flag"),
        ("Weeks look like 23W09.", "planning week"),
        ("Durations are rounded up to a quarter of an hour.", "billable time"),
        ("Times of the day: 07h15 rather than 7:15 am.", "start time"),
    ],
)
def test_other_words_for_a_convention_are_understood(rule: str, label: str) -> None:
    assert paraphrased(rule) == {label: (HOUSE[label],)}


@pytest.mark.parametrize(
    "rule",
    [
        "Dates must be consistent.",
        "Be careful with phone numbers.",
        "Use YYYY-MM-DD.",
        "Never write dates as 05/03/2024.",
        "",
    ],
)
def test_a_text_without_subject_or_form_states_no_rule(rule: str) -> None:
    assert paraphrased(rule) == {}


def solved(skill: str, *, noise: float = 0.04, seed: int = 0) -> float:
    target = SimulatedTarget(seed, noise)
    items = make_items(400, 11)
    system = f"Do it.\n\n## Skill\n{skill}"
    right = [target.answer(system, item["input"]) == item["answer"] for item in items]
    return sum(right) / len(right)


def test_the_initial_skill_is_poor_and_the_stated_one_nearly_perfect() -> None:
    assert 0.02 < solved(initial_skill()) < 0.3
    assert 0.92 < solved(stated_skill()) < 0.99
    assert solved(stated_skill(), noise=0) == 1


def test_one_rule_solves_the_items_that_need_it_alone() -> None:
    rule = "- " + BY_LABEL["planning week"].form("short").rules[1]
    target = SimulatedTarget(noise=0)
    for item in make_items(200, 2):
        if item["kind"] == "planning week":
            assert target.answer(f"## Skill\n{rule}", item["input"]) == item["answer"]
        else:
            assert target.answer(f"## Skill\n{rule}", item["input"]) != item["answer"]


def test_contradictions_and_bloat_hurt() -> None:
    clean = solved(stated_skill())
    wrong = "\n".join(
        f"- {each.form(form.name).rules[0]}"
        for each in FIELDS
        for form in each.forms
        if form.name != HOUSE[each.label]
    )
    assert solved(stated_skill() + wrong) < clean - 0.3
    assert solved(stated_skill() + "- Think well about it all.\n" * 200) < clean - 0.2


def test_the_same_request_gets_the_same_answer_and_another_seed_other_slips() -> None:
    assert solved(stated_skill(), seed=1) == solved(stated_skill(), seed=1)
    item = make_items(1, 0)[0]["input"]
    answers = {SimulatedTarget(seed, 0.5).answer(stated_skill(), item) for seed in range(20)}
    assert len(answers) == 2


def test_answers_are_tagged_when_the_request_asks_for_tags() -> None:
    item = make_items(1, 0)[0]
    answer = SimulatedTarget(noise=0).answer(
        f"Use <answer>.\n## Skill\n{stated_skill()}", item["input"]
    )
    assert answer == f"<answer>{item['answer']}</answer>"


def test_a_question_of_another_world_gets_a_title_or_an_admission() -> None:
    found = SimulatedTarget().answer(
        "", "## Context\n[DOC] [TLE] Mars [PAR] The fourth.\n## Question\nRed?"
    )
    assert found == "Mars"
    assert SimulatedTarget().answer("", "What is the capital of France?") == "unknown"
