from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_benchmark_agents import real_agents, trained_by_agent
from support_benchmarks import (
    answered,
    calling,
    knows_the_rule,
    results,
    sample,
    scored,
    trained,
)

from skillopt.app.data import materialize_data
from skillopt.core.chat import Reply, Request, ToolCall
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.datasets.rows import read_rows, rows_of
from skillopt.datasets.splits import Splits, from_directory
from skillopt.envs.officeqa.documents import MOST_BYTES, Documents
from skillopt.envs.officeqa.env import OfficeQA
from skillopt.envs.officeqa.reward import final_answer, is_right
from skillopt.errors import ConfigError, DataError
from skillopt.harness.sandbox import Bubblewrap
from skillopt.harness.tools import Tools
from skillopt.model.scripted import from_callable
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS, Check

PLAIN = OfficeQA.Settings()
CANARY = "7,654,321"
BULLETIN = """\
# Bulletin of {month} 1950

| Department | 1949 | 1950 |
| --- | --- | --- |
| Post Office | 1,201 | {figure} |
| Mint | 12 | 14 |
"""
MONTHS = ("January", "February", "March", "April", "May", "June")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, month in enumerate(MONTHS):
        text = BULLETIN.format(month=month, figure=f"1,30{number}")
        (folder / f"bulletin_{month.lower()}.txt").write_text(text, encoding="utf-8")
    return folder


def item(number: int, **changes: object) -> dict[str, object]:
    return {
        "uid": f"UID{number:04}",
        "question": f"What did the Post Office spend in 1950, by the bulletin of {MONTHS[number]}?",
        "answer": f"1,30{number}",
        "source_docs": "https://example.org/bulletin?page=2",
        "source_files": f"bulletin_{MONTHS[number].lower()}.txt",
        "difficulty": "easy",
        **changes,
    }


def made(
    docs: Path, first: dict[str, object] | None = None, settings: OfficeQA.Settings = PLAIN
) -> OfficeQA:
    train, val = rows_of([first or item(0)], "train"), rows_of([item(1)], "val")
    return OfficeQA(replace(settings, data_dirs=(docs,)), Splits(tuple(train), tuple(val)))


async def used(documents: Documents, name: str, **arguments: object) -> str:
    return await documents.call(ToolCall("c", name, json.dumps(arguments)))


@pytest.mark.parametrize(
    "settings", [PLAIN, replace(PLAIN, documents="all"), replace(PLAIN, workspace=True)]
)
@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_it_keeps_the_contract_of_environments(
    check: Check, settings: OfficeQA.Settings, docs: Path
) -> None:
    await check(made(docs, settings=settings))


def test_the_official_vectors_are_rewarded_as_labelled() -> None:
    vectors = json.loads(sample("officeqa", "officeqa_reward_vectors.json").read_bytes())
    assert len(vectors) > 100
    for case in vectors:
        answer = final_answer(case["predicted"])
        assert is_right(case["ground_truth"], answer, case["tolerance"]) == case["score"], case


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("2,602", "about 2,602 million, as of 1940", True),
        ("2,602", "2,602 or 2,603", False),
        ("2,602", "2,602\nsee page 3", False),
        ("2,602", "<b>2,602</b>", False),
        ("2,602", "2,602 " + "x" * 250, False),
        ("($7.5)", "-7.5", True),
        ("7.5", "\u22127.5", False),
        ("[1.5, 2.5]", "[2.5, 1.5]", False),
        ("[1,234, 5]", "[1234,5]", True),
        ("Mint", "the Mint", False),
        ("Mint", "'mint (Bureau)'", True),
        ("Mint", "Mint 5", False),
        ("June 1950", "in June of 1950", True),
        ("June 1950", "May 1950", False),
    ],
)
def test_an_answer_is_right_when_its_numbers_and_words_are(
    gold: str, answer: str, right: bool
) -> None:
    assert is_right(gold, answer) is right


@given(st.integers(-(10**11), 10**11).filter(lambda cents: not 1900 <= cents // 100 <= 2100))
def test_a_number_is_right_however_it_is_written(cents: int) -> None:
    gold = f"{cents / 100:,.2f}"
    for answer in (gold, gold.replace(",", ""), f"It is {gold} million, as of 1950", f"{gold}%"):
        assert is_right(gold, answer), answer
    assert not is_right(gold, f"{(cents + 1) / 100:,.2f}")


async def test_the_reply_is_read_by_its_last_final_answer(docs: Path) -> None:
    environment = made(docs)
    reply = "<FINAL_ANSWER>9</FINAL_ANSWER> no, <FINAL_ANSWER>1300</FINAL_ANSWER>"
    assert (await answered(environment, reply)).hard == 1
    assert (await answered(environment, "It is\n<answer>1,300</answer>")).hard == 1
    wrong = await answered(environment, "1,301")
    assert (wrong.hard, wrong.feedback) == (0, "wrong answer: expected '1,300', got '1,301'")
    assert (await answered(made(docs, settings=replace(PLAIN, tolerance=0.01)), "1,301")).hard == 1


async def test_the_scorer_of_the_original_compares_the_text_of_the_first_answer(docs: Path) -> None:
    environment = made(docs, settings=replace(PLAIN, scorer="original"))
    assert (await answered(environment, "<answer>1300 million</answer> 5")).hard == 1
    assert (await answered(environment, "<answer>1300.0</answer>")).hard == 0
    half = await answered(environment, "<answer>about 1300</answer>")
    assert (half.hard, half.soft) == (0, 2 / 3)


async def test_results_tell_the_reward_at_every_tolerance_that_owners_report(docs: Path) -> None:
    environment = made(docs)
    async with environment.open(environment.tasks("train")[0]) as episode:
        told = episode.details(Trajectory((), "1,310"))
    assert told["reward_by_tolerance"] == {"0.0": 0, "0.001": 0, "0.01": 1, "0.05": 1}
    assert told["predicted_answer"] == "1,310"


async def test_tools_list_search_and_read_the_documents_of_the_question_only(docs: Path) -> None:
    environment = made(docs)
    async with environment.open(environment.tasks("train")[0]) as episode:
        documents = episode.documents
        assert episode.brief.endswith("## Documents\nbulletin_january.txt")
    assert await used(documents, "glob", pattern="*") == "bulletin_january.txt"
    found = await used(documents, "grep", pattern="post office")
    assert found == "bulletin_january.txt:5: | Post Office | 1,201 | 1,300 |"
    read = await used(documents, "read", path="bulletin_january.txt", start=5, limit=1)
    assert read == "5: | Post Office | 1,201 | 1,300 |"
    assert "no line contains" in await used(documents, "grep", pattern="February")


async def test_all_documents_can_be_opened_if_asked_for(docs: Path) -> None:
    environment = made(docs, settings=replace(PLAIN, documents="all"))
    async with environment.open(environment.tasks("train")[0]) as episode:
        assert "bulletin" not in episode.brief.replace("by the bulletin of", "")
        listed = await used(episode.documents, "glob", pattern="*.txt")
        assert len(listed.splitlines()) == len(MONTHS)
    before = environment.fingerprint
    (docs / "bulletin_june.txt").write_text("changed", encoding="utf-8")
    assert made(docs, settings=replace(PLAIN, documents="all")).fingerprint != before


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link.txt", "out/secret.txt", "docs/../../secret.txt"]
)
async def test_no_path_leads_out_of_the_documents(path: str, docs: Path) -> None:
    secret = docs.parent / "secret.txt"
    secret.write_text(CANARY, encoding="utf-8")
    (docs / "link.txt").symlink_to(secret)
    (docs / "out").symlink_to(docs.parent)
    documents = Documents.below(docs)
    for name in ("read", "grep"):
        with pytest.raises(ValueError, match="there is no document"):
            await used(documents, name, path=path, pattern=CANARY)
    assert "no line contains" in await used(documents, "grep", pattern=CANARY)
    assert "secret" not in await used(documents, "glob", pattern="*")


async def test_who_follows_the_advice_of_read_has_read_everything(docs: Path) -> None:
    lines = ["x" * 3000, "y" * 1500 + " SECRET 42", "z" * 9000 + " THE END", "last"]
    (docs / "wide.txt").write_text("\n".join(lines), encoding="utf-8")
    documents, place, seen = Documents.below(docs), {"start": 1}, ""
    for _ in range(10):
        page = await used(documents, "read", path="wide.txt", **place)
        assert len(page) <= 4100
        told = re.search(r"\(cut; go on with (.*)\)$", page)
        seen += re.sub(r"(?m)^\d+: …?|…? ?\(cut;.*$|\n", "", page)
        if told is None:
            break
        place = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", told[1])}
    assert seen == "".join(lines)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
async def test_what_is_no_readable_document_ends_in_one_line(docs: Path) -> None:
    everything = replace(PLAIN, documents="all")
    os.mkfifo(docs / "pipe.txt")
    assert made(docs, settings=everything).fingerprint
    with (docs / "huge.txt").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    documents = Documents.below(docs)
    with pytest.raises(ValueError, match=r"^huge.txt cannot be read$"):
        await used(documents, "read", path="huge.txt")
    with pytest.raises(DataError, match=r"huge.txt cannot be read: it is larger than 64 MB"):
        _ = made(docs, settings=everything).fingerprint


async def test_results_of_tools_are_cut_and_say_so(docs: Path) -> None:
    (docs / "bulletin_january.txt").write_text(
        "\n".join(["word " * 500, *("word" for _ in range(100))]), encoding="utf-8"
    )
    documents = Documents.below(docs)
    hits = await used(documents, "grep", pattern="WORD", path="bulletin_january.txt")
    assert len(hits.splitlines()) == 21
    assert max(map(len, hits.splitlines())) < 400
    page = await used(documents, "read", path="bulletin_january.txt", limit=1000)
    assert len(page) <= 4100
    assert await used(documents, "read", path="bulletin_january.txt", start=500) == (
        "bulletin_january.txt has 101 lines"
    )
    for number in range(60):
        (docs / f"more_{number}.txt").touch()
    assert (await used(Documents.below(docs), "glob", pattern="more*")).endswith("and 10 more")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"path": "bulletin_may.txt", "start": 0}, "start should be a whole number"),
        ({"path": "bulletin_may.txt", "limit": "3"}, "limit should be a whole number"),
        ({}, "path should be a text"),
    ],
)
async def test_a_call_that_makes_no_sense_is_told_to_the_model(
    arguments: dict[str, object], complaint: str, docs: Path
) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        await used(Documents.below(docs), "read", **arguments)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"uid": "a"}, "no field 'question'"),
        (item(0, answer=" "), "'answer' is empty"),
        (item(0, answer=5), "'answer' must be text, found a number"),
        (item(0, source_files="bulletin_1800.txt"), "there is no document 'bulletin_1800.txt' in"),
        (item(0, source_files=""), "'source_files' names no document"),
    ],
)
def test_a_bad_item_is_refused_with_its_place(
    row: dict[str, object], complaint: str, docs: Path
) -> None:
    with pytest.raises(DataError) as caught:
        made(docs, row)
    assert str(caught.value).startswith("train[0]: ")
    assert complaint in str(caught.value)


def test_folders_without_documents_are_refused(docs: Path, tmp_path: Path) -> None:
    for folders, complaint in (
        ((), "names no folder"),
        ((tmp_path / "nowhere",), "there is no folder"),
        ((docs, docs), "is both"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            OfficeQA(OfficeQA.Settings(data_dirs=folders), Splits((), ()))
    (tmp_path / "empty/transformed").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"no \.txt or \.md document"):
        OfficeQA(OfficeQA.Settings(data_dirs=(tmp_path / "empty",)), Splits((), ()))


def test_an_attempt_counts_for_the_documents_as_they_were(docs: Path) -> None:
    def digest() -> str:
        task: Task = made(docs).tasks("train")[0]
        return task.digest

    before = digest()
    assert digest() == before
    (docs / "bulletin_january.txt").write_text("changed", encoding="utf-8")
    assert digest() != before


async def test_neither_tools_nor_texts_nor_workspace_hold_the_gold(docs: Path) -> None:
    for workspace in (False, True):
        environment = made(docs, item(0, answer=CANARY), replace(PLAIN, workspace=workspace))
        async with environment.open(environment.tasks("train")[0]) as episode:
            shown = f"{episode.instructions}{episode.brief}{episode.tools}{episode.workspace}"
            assert CANARY not in shown
            assert CANARY not in await used(episode.documents, "grep", pattern=CANARY[:5])


def reader(request: Request) -> Reply | str:
    """Looks the figure up if it knows the rule, and guesses if it does not."""
    found = results(request)
    if not knows_the_rule(request):
        return "<FINAL_ANSWER>12</FINAL_ANSWER>"
    if not found:
        return calling("grep", '{"pattern": "Post Office"}')
    return f"<FINAL_ANSWER>{found[0].split('|')[-2].strip()}</FINAL_ANSWER>"


async def test_it_trains_with_a_target_that_calls_the_tools(docs: Path, tmp_path: Path) -> None:
    rows = [item(number) for number in range(6)]
    result = await trained("officeqa", rows, reader, tmp_path / "run", data_dirs=[str(docs)])
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)


@pytest.mark.sandbox
async def test_an_agent_finds_the_documents_as_files(docs: Path) -> None:
    def looking(request: Request) -> Reply | str:
        found = results(request)
        if not found:
            return calling("bash", '{"command": "grep -h Post documents/*"}')
        return f"<FINAL_ANSWER>{found[0].split('|')[-2].strip()}</FINAL_ANSWER>"

    environment = made(docs, settings=replace(PLAIN, workspace=True))
    async with environment.open(environment.tasks("train")[0]) as episode:
        harness = Tools(from_callable(looking), Bubblewrap.create())
        trajectory = await harness.run(episode, Skill.parse(""))
        assert (await episode.score(trajectory)).hard == 1


async def test_real_questions_are_read_and_their_own_answers_pass() -> None:
    rows = read_rows(sample("officeqa", "officeqa_sample.csv"))
    settings = OfficeQA.Settings(data_dirs=(sample("officeqa", "docs"),))
    environment = OfficeQA(settings, Splits(tuple(rows[:4]), tuple(rows[4:7]), tuple(rows[7:])))
    for split in ("train", "val", "test"):
        for task in environment.tasks(split):
            async with environment.open(task) as episode:
                assert (await scored(episode, environment.gold(task).reply or "")).hard == 1
                assert (await scored(episode, "1")).hard == 0
                assert "treasury_bulletin" in await used(episode.documents, "glob", pattern="*.txt")


def test_published_rows_become_items_with_the_documents_beside_them(
    docs: Path, tmp_path: Path
) -> None:
    table = docs.parent / "officeqa.jsonl"
    table.write_text(
        "".join(json.dumps(item(number)) + "\n" for number in range(6)), encoding="utf-8"
    )
    made_data = materialize_data("officeqa", table, tmp_path / "split", ratio="1:1:1")
    assert sum(made_data.counts.values()) == made_data.files == 6
    splits = from_directory(tmp_path / "split")
    environment = OfficeQA(PLAIN, splits)
    assert len(environment.tasks("test")) == 2


@pytest.mark.agents
@real_agents
async def test_it_trains_with_a_real_agent_that_finds_the_documents_as_files(
    agent: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(task: str, printed: str) -> str:
        assert "documents/" in task
        found = re.search(r"Post Office \| 1,201 \| ([0-9,]+)", printed)
        assert found is not None, printed
        return f"<FINAL_ANSWER>{found[1]}</FINAL_ANSWER>"

    rows = [item(number) for number in range(4)]
    result, asked = await trained_by_agent(
        agent,
        "officeqa",
        rows,
        lambda _: "grep -rh 'Post Office' documents/",
        answer,
        tmp_path / "run",
        monkeypatch,
        data_dirs=[str(docs)],
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert not any(f"1,30{number}" in text for text in asked for number in (4, 5))


def test_more_documents_than_fit_into_a_workspace_are_refused(docs: Path) -> None:
    with (docs / "large.txt").open("wb") as file:
        file.truncate(2**28)
    everything = replace(PLAIN, documents="all")
    assert made(docs, settings=everything).needs == ("tools",)
    with pytest.raises(ConfigError, match=r"env\.documents: all documents have 256 MiB, too much"):
        made(docs, settings=everything).in_folder()
    assert made(docs).in_folder().needs == ("workspace",)
