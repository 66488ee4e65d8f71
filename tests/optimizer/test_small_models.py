"""Proposers for small models and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from support import Seen

from skillopt.core.chat import Message, Request
from skillopt.core.edits import Append, Delete
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding
from skillopt.core.rollout import Failure, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import Refused, Unusable
from skillopt.model.scripted import Scripted
from skillopt.optimizer.cases import Case, contrasting, expected_in, questions_of, shape_of
from skillopt.optimizer.instruct import (
    Instruct,
    instruction_in,
    rule_of_codes,
    subjects_in,
    telling,
)
from skillopt.optimizer.merging import Several, Union
from skillopt.optimizer.patterns import Patterns, form_of
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

SKILL = Skill.parse("# Job\n\n- Read the note.\n- Explain your answer in a friendly sentence.\n")
RULE = "When asked for a date, write it as YYYY-MM-DD and nothing else."


def attempt(task: str, kind: str, said: str, right: str) -> Rollout:
    passed = float(said == right)
    feedback = "correct" if passed else f"wrong answer: expected '{right}', got '{said}'"
    messages = (Message("user", f"Note {task}: when?"), Message("assistant", said))
    return Rollout(
        task=task,
        kind=kind,
        skill="d",
        outcome=Score(passed, passed, feedback),
        trajectory=Trajectory(messages, said),
    )


DATES = [
    attempt(f"d{n}", "due date", f"They want it on May {n}th, I think.", f"2026-05-0{n}")
    for n in range(1, 6)
]
TEAMS = [
    attempt(f"t{n}", "team", "The billing department, of course.", right)
    for n, right in enumerate(["FIN-1", "OPS-2", "FIN-1", "OPS-2"])
]
DOWN = Rollout(task="x", kind="team", skill="d", outcome=Failure("ModelError", "down"))


async def stream(rollouts: Sequence[Rollout]) -> AsyncIterator[Rollout]:
    for rollout in rollouts:
        yield rollout


def sink() -> EventSink:
    return EventSink(MemoryLog(), Seen())


def asker(model: Scripted) -> Asker:
    return Asker(model, Library(), sink())


async def found(proposer: Instruct | Patterns | Several, *rollouts: Rollout) -> tuple[Finding, ...]:
    return await proposer(SKILL, [stream(rollouts)], Memory(), budget=4)


async def test_a_small_model_is_asked_about_one_kind_of_failure_at_a_time_in_plain_words() -> None:
    asked: list[Request] = []

    def says(request: Request) -> str:
        asked.append(request)
        return f"Instruction: {RULE} It is important. And more."

    findings = await found(Instruct(asker=asker(Scripted(says)), samples=2), *DATES, *TEAMS, DOWN)
    names = [each.patterns[0].name for each in findings]
    assert [name.partition(",")[0] for name in names] == ["wrong: due date", "wrong: team"]
    assert len(asked) == 4
    assert {(each.temperature, each.replicate) for each in asked} == {(0.0, 0), (0.8, 1)}
    first = asked[0].messages[-1].text
    assert first.count("Task: ") == 5
    assert "team" not in first
    (proposal,) = findings[0].proposals
    assert proposal.edit == Append(f"- {RULE} It is important.")
    assert (proposal.by, proposal.tasks) == ("instruct", ("d1", "d2", "d3", "d4", "d5"))


async def test_an_answer_that_is_no_instruction_is_recorded_as_a_problem() -> None:
    def refuse(_: Request) -> str:
        raise Refused("too long")

    def short(_: Request) -> str:
        return "No."

    for answer in (short, refuse):
        (finding,) = await found(Instruct(asker=asker(Scripted(answer))), *DATES)
        assert finding.proposals == ()
        assert finding.problem


async def test_a_model_that_reasons_first_is_asked_again_without_a_limit() -> None:
    def says(request: Request) -> str:
        if request.max_tokens is not None:
            raise Unusable("all tokens were used before the first word")
        return RULE

    (finding,) = await found(Instruct(asker=asker(Scripted(says)), samples=1), *DATES)
    assert [each.edit for each in finding.proposals] == [Append(f"- {RULE}")]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (RULE, ""),
        (f"- {RULE}\n\nThis helps because dates vary.", ""),
        (f'**Instruction:** "{RULE}"', ""),
        ("", "empty"),
        ("Yes.", "too short"),
        ("For all tasks, answer with the order number only.", "it claims every task"),
        ("word " * 80, "too long"),
        ('{"op": "append", "content": "<x>"}', "markup"),
        ("Answer Note d1: when? It was a long one with the right date.", "it repeats a task"),
    ],
)
def test_an_instruction_is_short_general_and_plain_or_it_is_said_what_is_wrong(
    reply: str, problem: str
) -> None:
    case = Case("d1", "due date", "Note d1: when? It was a long one", "x", "y", passed=False)
    found = instruction_in(reply, [case])
    assert found.problem == problem
    assert problem or found.rule == RULE


@pytest.mark.parametrize(
    ("right", "said", "phrase"),
    [
        (["2026-05-01", "2026-06-02"], ["May 1", "June 2"], "YYYY-MM-DD"),
        (["14:00", "09:30"], ["2 pm", "half past nine"], "HH:MM"),
        (["3 kg", "2.5 kg"], ["3 kilos", "2.5 kilograms"], "a space and kg"),
        (["1.50", "2.25"], ["$1.5", "2.25 dollars"], "2 decimals"),
        (["12", "7"], ["twelve", "7 pieces"], "only the number"),
        (["FIN", "OPS", "FIN"], ["billing", "ops team", "money"], "one of FIN, OPS"),
        (["RED", "BLUE"], ["red", "blue"], "capital letters"),
        (["red", "blue"], ["RED", "BLUE"], "small letters"),
        (["A-1", "B-2"], ["The order number is A-1.", "It is B-2, I think."], "no other words"),
    ],
)
def test_what_right_answers_share_and_wrong_ones_lack_becomes_a_phrase(
    right: list[str], said: list[str], phrase: str
) -> None:
    assert phrase in ", ".join(form_of(right, said))


def test_nothing_is_said_about_a_form_that_the_answers_already_have() -> None:
    assert form_of(["2026-05-01", "2026-06-02"], ["2026-05-02", "2026-06-03"]) == []


async def test_patterns_propose_rules_examples_and_deletions_without_a_model() -> None:
    dates, teams, wordy = await found(Patterns(), *DATES, *TEAMS)
    edits = [each.edit for each in dates.proposals]
    assert isinstance(edits[0], Append)
    assert "YYYY-MM-DD" in edits[0].content
    assert edits[0].content.endswith("such as 2026-05-01.")
    deletions = [each.edit for each in wordy.proposals]
    assert deletions == [Delete("- Explain your answer in a friendly sentence.")]
    assert len(wordy.tasks) == len(DATES) + len(TEAMS)
    assert {each.by for each in dates.proposals} == {"patterns"}
    rules = [each.edit.content for each in teams.proposals if isinstance(each.edit, Append)]
    assert "one of FIN-1, OPS-2" in rules[0]
    assert '"Note t0: when?" is FIN-1.' in rules[0]
    assert "is FIN-1" not in rules[1]


async def test_patterns_without_a_kind_say_which_question_they_are_for() -> None:
    dates = [asked(f"d{n}", f"On May {n}.\nWhen?", f"May {n}", f"2026-05-0{n}") for n in (1, 2, 3)]
    weights = [asked(f"w{n}", f"{n} kilos.\nHow heavy?", f"{n}", f"{n} kg") for n in (4, 5, 6)]
    lone = asked("x", "Who is it?", "nobody", "Al")
    findings = await found(Patterns(), *dates, *weights, lone)
    edits = [each.proposals[0].edit for each in findings]
    assert edits == [
        Append('- When asked "when", write the date as YYYY-MM-DD, such as 2026-05-01.'),
        Append('- When asked "how heavy", write the number, a space and kg, such as 4 kg.'),
    ]
    (alike,) = await found(Patterns(), *dates)
    assert alike.proposals[0].edit == Append(
        "- In every task, write the date as YYYY-MM-DD, such as 2026-05-01."
    )


async def test_worked_examples_are_tried_on_other_tasks_than_those_they_show() -> None:
    signers = [
        asked(f"s{n}", f"Signed by Al {name}.\nWho signed?", f"Al {name}", f"{name}, Al")
        for n, name in enumerate(["Bo", "Cy", "Do", "Ed", "Fay"])
    ]
    weights = [asked(f"w{n}", f"{n} kilos.\nHow heavy?", f"{n}", f"{n} kg") for n in (4, 5, 6)]
    shown, _ = await found(Patterns(), *signers, *weights)
    (worked,) = shown.proposals
    assert worked.edit == Append(
        '- When asked "who signed", answer with only that and no other words as in these examples. '
        '"Signed by Al Bo. Who signed?" is Bo, Al. "Signed by Al Cy. Who signed?" is Cy, Al.'
    )
    assert worked.tasks == ("s2", "s3", "s4")
    assert shown.tasks == ("s0", "s1", "s2", "s3", "s4")


SUBJECTS = {"heat": "radiators, rooms and the heating", "key": "Keys; locks.", "bill": "bills\nyes"}
CODES = {"heat": "H2", "key": "K1", "bill": "P4"}


def tickets(*words: str) -> list[Rollout]:
    return [
        asked(f"{word}{n}", f"The {word} of room {n}. Which desk?", "No.", CODES[word])
        for word in words
        for n in (1, 2)
    ]


def describes(request: Request) -> str:
    """A model that can say what texts are about, but mixes up codes."""
    text = request.messages[-1].text
    if text.startswith("Task: "):
        return "Answer with the number of the desk, such as P4."
    return next(said for word, said in SUBJECTS.items() if word in text)


async def test_of_several_codes_each_is_asked_about_by_itself_and_one_rule_names_them_all() -> None:
    asked_for: list[str] = []

    def says(request: Request) -> str:
        asked_for.append(request.messages[-1].text)
        return describes(request)

    (finding,) = await found(
        Instruct(asker=asker(Scripted(says)), samples=1), *tickets("heat", "key", "bill")
    )
    assert "- The key of room 1.\n- The key of room 2." in asked_for
    assert [each.edit for each in finding.proposals] == [
        Append("- Answer with the number of the desk, such as P4."),
        Append(
            '- When asked "Which desk?", answer with one of these codes and nothing else: H2 if it '
            "is about radiators, heating; K1 if it is about keys, locks; P4 if it is about "
            "bills."
        ),
    ]
    assert {each.by for each in finding.proposals} == {"instruct"}


@pytest.mark.parametrize(
    ("reply", "subjects"),
    [
        ("radiators, the heating and taps.", ["radiators", "heating", "taps"]),
        ("Subjects:\n- keys\n- locks, doors", ["keys", "locks", "doors"]),
        ("1. keys\n2. locks", ["keys", "locks"]),
        ("Here are the subjects: keys; locks", ["here are the subjects", "keys", "locks"]),
        ("keys, <!-- end -->, # Heading, a\x1b, \u2028, b\r# c", ["keys"]),
        ("one two three four five six seven, keys", ["keys"]),
        ("", []),
    ],
)
def test_what_tasks_are_about_is_read_from_a_list_without_markup(
    reply: str, subjects: list[str]
) -> None:
    assert subjects_in(reply) == subjects


def test_a_list_without_end_gives_a_few_subjects_and_what_all_codes_have_tells_nothing() -> None:
    said = ", ".join(f"thing {'x' * n}" for n in range(1, 1500))
    assert len(subjects_in(said)) == 8
    texts = {"A": ["a room of keys"], "B": ["a room of taps"], "C": ["a room of bills"]}
    subjects = {
        "A": ["requests", "loss of keys"],
        "B": ["requests", "rooms", "taps"],
        "C": ["requests", "bills", "bills"],
    }
    assert telling(subjects, texts) == {"A": ["loss of keys"], "B": ["taps"], "C": ["bills"]}


async def test_what_is_said_in_several_lines_is_no_right_answer_though_it_passes() -> None:
    chatty = [
        asked(f"c{n}", f"Ticket {n}. Which desk?", "Sure:\nK1", "Sure:\nK1") for n in range(3)
    ]
    failed = [
        asked(f"f{n}", f"Note {n}. Which desk?", "No.", code) for n, code in enumerate("AABB")
    ]
    findings = await found(Patterns(), *chatty, *failed)
    edits = [each.edit for it in findings for each in it.proposals]
    texts = [edit.content for edit in edits if isinstance(edit, Append)]
    assert texts
    assert not any("Sure" in text for text in texts)


async def test_two_codes_are_told_apart_by_one_instruction_alone() -> None:
    instruct = Instruct(asker=asker(Scripted(describes)), samples=1)
    (finding,) = await found(instruct, *tickets("heat", "key"))
    assert len(finding.proposals) == 1


def test_a_rule_of_codes_names_the_codes_where_the_tasks_share_no_question() -> None:
    rule = rule_of_codes("", {"H2": ["heating"], "K1": ["keys", "locks"], "P4": ["bills"]})
    assert rule == (
        "Where H2, K1 or P4 is right, answer with one of these codes and nothing else: H2 if it is "
        "about heating; K1 if it is about keys, locks; P4 if it is about bills."
    )


async def test_a_code_of_which_nothing_is_known_makes_no_rule() -> None:
    def says(request: Request) -> str:
        said = describes(request)
        return "rooms" if said == SUBJECTS["key"] else said

    instruct = Instruct(asker=asker(Scripted(says)), samples=1)
    (finding,) = await found(instruct, *tickets("heat", "key", "bill"))
    assert len(finding.proposals) == 1


def test_a_few_values_are_no_labels() -> None:
    right = ["150 cm", "150 cm", "200 cm", "250 cm"]
    (phrase, *_) = form_of(right, ["1.5 m", "1.5m", "2 metres", "It is 2.5 m"])
    assert phrase == "write the number, a space and cm"
    assert "one of" not in ", ".join(form_of(["3", "3", "5"], ["three", "3 pieces", "5 pieces"]))


async def test_one_failure_is_no_pattern() -> None:
    assert await found(Patterns(), DATES[0]) == ()


async def test_several_proposers_read_the_same_attempts_and_equal_edits_are_united() -> None:
    class Again:
        """Attempts that can be read twice, as those of a run can."""

        def __aiter__(self) -> AsyncIterator[Rollout]:
            return stream(DATES)

    both = Several((Patterns(), Patterns()))
    findings = await both(SKILL, [Again()], Memory(), budget=4)
    assert [each.number for each in findings] == [0, 1, 2, 3]
    bundle = await Union()(SKILL, findings, Memory())
    assert len(bundle.proposals) * 2 == sum(len(each.proposals) for each in findings)


def test_the_reference_is_read_out_of_the_feedback() -> None:
    assert expected_in("wrong answer: expected 'it's 4', got 'x'") == "it's 4"
    assert expected_in("empty answer: expected '4'") == "4"
    assert expected_in("off by 3") == ""


def asked(task: str, text: str, said: str, right: str) -> Rollout:
    messages = (Message("user", text), Message("assistant", said))
    return replace(attempt(task, "default", said, right), trajectory=Trajectory(messages, said))


async def test_failures_are_grouped_without_a_kind_by_question_and_by_shape_of_the_answer() -> None:
    dates = [asked(f"d{n}", f"On May {n}.\nWhen?", f"May {n}", f"2026-05-0{n}") for n in (1, 2, 3)]
    moods = [
        asked(f"m{n}", f"Note {n}.\nWhat mood?", "angry", right)
        for n, right in enumerate(["NEG", "POS", "NEG", "POS"])
    ]
    solved = asked("m9", "Great.\nWhat mood?", "POS", "POS")
    weights = [
        asked(f"w{n}", f"How heavy is {name}?", f"{n}", f"{n} kg")
        for n, name in ((7, "it"), (8, "the box"))
    ]
    names = [asked(f"n{who}", f"Who is {who}?", "nobody", who) for who in ("Al", "Bo")]
    questions: list[str] = []

    def says(request: Request) -> str:
        questions.append(request.messages[-1].text)
        return RULE

    rollouts = [*weights, *dates, *names, solved, *moods]
    findings = await found(Instruct(asker=asker(Scripted(says)), samples=1), *rollouts)
    groups = [each.tasks for each in findings]
    assert groups == [("m0", "m1", "m2", "m3"), ("d1", "d2", "d3"), ("w7", "w8"), ("nAl", "nBo")]
    assert "Great." in questions[0], "a solved case of the group is shown beside the failed ones"


async def test_where_no_right_answer_is_known_the_question_tells_what_is_wrong() -> None:
    shown: list[str] = []

    def says(request: Request) -> str:
        shown.append(request.messages[-1].text)
        return RULE

    told = Score(0.0, 0.0, "not met: it should end with 'Your team'")
    letters = [
        replace(asked(f"l{n}", f"Write to customer {n}.", "Hello.", "x"), outcome=told)
        for n in (1, 2)
    ]
    silent = replace(asked("s", "Write.", "Hello.", "x"), outcome=Score(0.0, 0.0))
    findings = await found(Instruct(asker=asker(Scripted(says)), samples=1), *letters, silent)
    assert [each.tasks for each in findings] == [("l1", "l2")]
    assert "What is wrong: not met: it should end with 'Your team'" in shown[0]
    assert "Right answer" not in shown[0].rpartition("Task:")[2]


async def test_failures_that_are_alone_of_their_sort_share_one_question() -> None:
    lone = [
        asked("a", "Who?", "x", "Al"),
        asked("b", "When?", "x", "2026-05-01"),
        asked("c", "How much?", "x", "7 kg"),
    ]
    findings = await found(Instruct(asker=asker(Scripted(lambda _: RULE)), samples=1), *lone)
    assert [each.tasks for each in findings] == [("a", "b", "c")]


QUESTIONS = ("Which day is meant?", "What does it weigh?", "How many are there?")


@pytest.mark.parametrize(
    "form",
    [
        "## Context\n{note}\n\n## Question\n{question}",
        "{question}\n\n{note}",
        "You get a note and a question.\nNote: {note} {question}",
    ],
)
async def test_the_question_groups_tasks_wherever_it_stands(form: str) -> None:
    rights = [("2026-05-0{}", "5 May"), ("{} kg", "a lot"), ("{}", "some")]
    rollouts = [
        asked(
            f"{kind}{n}",
            form.format(note=f"Al wrote about thing {n}. Where is it?", question=QUESTIONS[kind]),
            said,
            right.format(n),
        )
        for n in range(1, 5)
        for kind, (right, said) in enumerate(rights)
    ]
    findings = await found(Instruct(asker=asker(Scripted(lambda _: RULE)), samples=1), *rollouts)
    assert [{task[0] for task in each.tasks} for each in findings] == [{"0"}, {"1"}, {"2"}]


def test_a_question_that_names_something_else_in_every_task_is_the_same_question() -> None:
    things = ("bicycle", "rug", "lamp", "desk", "sofa")
    weigh = [f"A note.\nWhat does the {thing} weigh?" for thing in things]
    who = [f"A letter.\nWho has sent the {thing} back?" for thing in things]
    assert questions_of([*weigh, *who]) == [
        *["what does the ... weigh"] * 5,
        *["who has sent the ... back"] * 5,
    ]


def test_a_sentence_of_all_tasks_and_one_of_a_single_task_are_no_common_question() -> None:
    tasks = [f"Read it.\n{word} {word}{word} {word}x?" for word in ("red", "blue", "green")]
    assert questions_of(tasks) == ["", "", ""]


def test_a_question_that_all_tasks_ask_leaves_the_grouping_to_the_answers() -> None:
    tasks = [f"{note} Thank you.\nWhich desk is it for?" for note in ("Rain.", "Sun.", "Snow.")]
    assert questions_of([*tasks, "Hail.\nWhich desk is it for?"]) == [""] * 4


async def test_many_failures_of_one_sort_are_told_apart_by_what_was_given() -> None:
    written = [asked(f"a{n}", f"{n}. When?", f"May {n}", f"2026-05-0{n}") for n in range(1, 6)]
    early = [asked(f"b{n}", f"{n}. When?", "2026-04-01", f"2026-06-0{n}") for n in range(1, 5)]
    prose = [asked("c1", "1. When?", "no idea", "2026-07-01")]
    one = asked("a9", "9. When?", "2026-05-09", "2026-05-09")
    findings = await found(
        Instruct(asker=asker(Scripted(lambda _: RULE)), samples=1), *written, *early, *prose, one
    )
    assert [sorted({task[0] for task in each.tasks}) for each in findings] == [["a"], ["b"], ["c"]]


def test_cases_that_are_shown_differ_in_the_right_answer_or_in_what_was_given() -> None:
    def case(task: str, said: str, right: str) -> Case:
        return Case(task, "default", task, said, right, passed=False)

    labels = [case(str(n), "x", "FIN" if n < 4 else "OPS") for n in range(6)]
    assert [each.id for each in contrasting(labels, 3)] == ["0", "1", "4"]
    dates = [case(str(n), "May 1" if n < 4 else "soon", f"2026-05-0{n}") for n in range(6)]
    assert [each.id for each in contrasting(dates, 3)] == ["0", "1", "4"]


async def test_what_is_around_a_marked_answer_is_no_part_of_it() -> None:
    shown: list[str] = []

    def says(request: Request) -> str:
        shown.append(request.messages[-1].text)
        return RULE

    reply = "Let me see.\n<answer>POS</answer>"
    passed = replace(
        asked("m1", "Great.\nWhat mood?", "POS", "POS"),
        trajectory=Trajectory(
            (Message("user", "Great.\nWhat mood?"), Message("assistant", reply)), reply
        ),
    )
    wrong = [asked(f"m{n}", f"{n}.\nWhat mood?", "sad", "NEG") for n in (2, 3, 4)]
    await found(Instruct(asker=asker(Scripted(says)), samples=1), passed, *wrong)
    assert "Answered: POS\nRight answer: POS" in shown[0]


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        ("2026-05-01", "9-9-9"),
        ("15.6 kg", "9 a"),
        ("FIN-01", "A-9"),
        ("POS", "A"),
        ("a small dog", "a"),
        ("New York", "Aa"),
        ("It is " + "very " * 12 + "late", "a text"),
    ],
)
def test_the_shape_of_an_answer_is_what_it_is_made_of(answer: str, shape: str) -> None:
    assert shape_of(answer) == shape


async def test_the_question_after_a_long_context_is_shown() -> None:
    shown: list[str] = []

    def says(request: Request) -> str:
        shown.append(request.messages[-1].text)
        return RULE

    text = f"The beginning. {'Some context. ' * 200}\nWhich date is asked for?"
    long = asked("d1", text, "May 1", "2026-05-01")
    await found(Instruct(asker=asker(Scripted(says)), samples=1), long)
    assert "The beginning." in shown[0]
    assert "Which date is asked for?" in shown[0]
    assert len(shown[0]) < 1000


async def test_a_reply_that_cannot_be_used_is_told_beside_the_ones_that_can() -> None:
    def says(request: Request) -> str:
        return RULE if request.replicate else "For every task, be kind to the customer."

    (finding,) = await found(Instruct(asker=asker(Scripted(says)), samples=2), *DATES)
    assert len(finding.proposals) == 1
    assert "it claims every task: 'For every task, be kind" in finding.reasoning
