from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_benchmark_agents import real_agents, trained_by_agent

from skillopt.app.environment import initial_skill
from skillopt.config.load import load_config
from skillopt.core.ports import Environment
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.datasets.rows import read_rows, rows_of
from skillopt.datasets.splits import Splits
from skillopt.envs.searchqa.env import SearchQA, cut
from skillopt.errors import ConfigError, DataError, SkillError
from skillopt.store.packages import read_skill
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS, Check

SAMPLE = Path(__file__).parents[3] / "shared/samples/searchqa/items_3_trimmed.json"


def item(name: str, **changes: object) -> dict[str, object]:
    return {
        "id": name,
        "question": f"This {name} is called the Red Planet",
        "context": "[DOC] [TLE] Mars [PAR] The fourth planet. [DOC] [TLE] Venus [PAR] The second.",
        "answers": ["Mars", "planet Mars"],
        **changes,
    }


def made(first: dict[str, object], settings: SearchQA.Settings | None = None) -> SearchQA:
    train, val = tuple(rows_of([first], "train")), tuple(rows_of([item("v")], "val"))
    return SearchQA(settings or SearchQA.Settings(), Splits(train, val))


async def judged(environment: Environment, answer: str) -> Score:
    async with environment.open(environment.tasks("train")[0]) as episode:
        return await episode.score(Trajectory((), answer))


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_it_keeps_the_contract_of_environments(check: Check):
    await check(made(item("t")))


async def test_the_brief_shows_context_and_question_and_no_answer():
    environment = made(item("t", context="[DOC] a", answers=["Hidden"]))
    async with environment.open(environment.tasks("train")[0]) as episode:
        assert (
            episode.brief == "## Context\n[DOC] a\n\n## Question\nThis t is called the Red Planet"
        )
        assert "<answer>" in episode.instructions


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("It is <answer>the MARS!</answer>", Score(1, 1, "correct")),
        ("Planet Mars", Score(1, 1, "correct")),
        (
            "<answer>Mars rover</answer>",
            Score(0, 2 / 3, "partial answer: expected 'Mars' or 'planet Mars', got 'Mars rover'"),
        ),
        ("Venus", Score(0, 0, "wrong answer: expected 'Mars' or 'planet Mars', got 'Venus'")),
        ("", Score(0, 0, "empty answer: expected 'Mars' or 'planet Mars'")),
    ],
)
async def test_hard_is_exact_match_and_soft_is_f1(reply: str, score: Score):
    assert await judged(made(item("t")), reply) == score


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "t"}, "no field 'question' (found: id)"),
        (item("t", question=3), "'question' must be text, found a number"),
        (item("t", question=" "), "'question' is empty"),
        (item("t", context=None), "'context' must be text, found null"),
        (item("t", answers="Mars"), "'answers' must be a list of texts, found text"),
        (item("t", answers=[]), "'answers' is an empty list"),
        (item("t", answers=["", " "]), "'answers' has only empty texts"),
        (item("t", answers=["Mars", 5]), "'answers'[1] must be text, found a number"),
        (item("../t"), "the id '../t' holds a slash"),
    ],
)
def test_a_bad_item_is_refused_by_place_field_and_finding(row: dict[str, object], complaint: str):
    with pytest.raises(DataError) as caught:
        made(row)
    assert str(caught.value).startswith("train[0]: ")
    assert complaint in str(caught.value)


def test_near_duplicates_across_splits_are_warnings():
    assert list(made(item("t")).warnings) == []
    assert len(made(item("t", question="this V is called the red planet!")).warnings) == 1


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match=r"env\.max_turns: 2"):
        made(item("t"), SearchQA.Settings(max_turns=2))
    with pytest.raises(ConfigError, match=r"env\.max_context_chars: 0"):
        made(item("t"), SearchQA.Settings(max_context_chars=0))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(10, 200))
def test_a_context_is_cut_between_documents(lengths: list[int], most: int):
    documents = [f"[DOC] {'x' * length} " for length in lengths]
    context = "".join(documents)
    kept = cut(context, most)
    assert len(kept) <= most or kept == context
    assert context.startswith(kept)
    if len(context) > most >= len(documents[0]):
        whole = ["".join(documents[:count]).rstrip() for count in range(1, len(documents))]
        assert kept == max((each for each in whole if len(each) < most), key=len)


@pytest.mark.parametrize("context", ["x" * 100, "[DOC] " + "x" * 100, " [DOC] " + "x" * 100])
def test_a_first_document_that_is_too_long_is_cut_itself(context: str):
    assert cut(context, 50) == context[:50]


async def test_the_setting_bounds_the_context():
    environment = made(item("t"), SearchQA.Settings(max_context_chars=50))
    async with environment.open(environment.tasks("train")[0]) as episode:
        assert "The fourth planet." in episode.brief
        assert "Venus" not in episode.brief
    assert environment.fingerprint != made(item("t")).fingerprint


def test_the_shipped_skill_is_there_and_readable():
    assert SearchQA.initial_skill is not None
    document = SearchQA.initial_skill.read_text(encoding="utf-8")
    assert Skill.parse(document).body.strip()


@pytest.mark.skipif(not SAMPLE.exists(), reason="the real SearchQA sample is not on this machine")
async def test_real_items_are_read_and_their_own_answers_pass():
    first, second, third = read_rows(SAMPLE)
    environment = SearchQA(SearchQA.Settings(), Splits((first,), (second,), (third,)))
    for split in ("train", "val", "test"):
        (task,) = environment.tasks(split)
        answers = task.data["answers"]
        assert isinstance(answers, list)
        async with environment.open(task) as episode:
            score = await episode.score(Trajectory((), f"<answer>{answers[0]}</answer>"))
        assert score == Score(1, 1, "correct")


@pytest.mark.agents
@real_agents
async def test_it_trains_with_a_real_agent(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [item(f"planet {number}", answers=["Mars"]) for number in range(4)]
    result, asked = await trained_by_agent(
        agent,
        "searchqa",
        rows,
        lambda _: "",
        lambda task, _: _first_title(task),
        tmp_path / "run",
        monkeypatch,
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert any("[TLE] Mars" in text for text in asked)


def _first_title(task: str) -> str:
    return f"<answer>{task.partition('[TLE] ')[2].split()[0]}</answer>"


def test_the_skill_of_a_benchmark_is_found_by_its_path_in_the_repository_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = SearchQA.initial_skill
    assert shipped
    for named in ("skillopt/envs/searchqa/skills/initial.md", ""):
        config = load_config(values={"env.name": "searchqa", "env.skill_init": named})
        assert initial_skill(config, shipped) == read_skill(shipped)
    config = load_config(values={"env.name": "searchqa", "env.skill_init": "skills/other.md"})
    with pytest.raises(SkillError, match=r"no skill document skills/other\.md"):
        initial_skill(config, shipped)
