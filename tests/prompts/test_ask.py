from __future__ import annotations

from pathlib import Path

import pytest
from support import Seen

from skillopt.core.chat import Model, Request
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.errors import ConfigError, ModelError, Refused, Unusable
from skillopt.model.scripted import Scripted
from skillopt.optimizer.replies import EDITS, EditAnswer
from skillopt.optimizer.selection import Ranking
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.library import Library

QUESTION = PromptQuestion(
    stage="ranking",
    prompt="ranking",
    sections=["<a>1</a>", "<b>2</b>"],
    shape=Ranking,
    check=lambda answer: "" if answer.selected_indices else "nothing was selected.",
)


def asker(model: Model, prompts: Library | None = None) -> Asker:
    return Asker(model, prompts or Library(), EventSink(MemoryLog(), Seen()))


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        ("Sure!", 'no JSON object with "selected_indices"'),
        ('{"selected_indices": "all"}', "selected_indices: Input should be a valid list"),
        ('{"selected_indices": []}', "nothing was selected."),
    ],
)
async def test_a_badly_shaped_answer_gets_one_second_chance_with_the_complaint(
    first: str, complaint: str
) -> None:
    asked: list[Request] = []

    def clumsy(request: Request) -> str:
        asked.append(request)
        return first if len(asked) == 1 else '{"selected_indices": [1]}'

    answer = await asker(Scripted(clumsy)).ask(QUESTION)
    assert answer.selected_indices == [1]
    assert [message.role for message in asked[1].messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert asked[1].messages[2].text == first
    assert complaint in asked[1].messages[3].text
    assert asked[0].messages[1].text == "<a>1</a>\n\n<b>2</b>"


async def test_a_second_bad_answer_is_final() -> None:
    calls: list[Request] = []

    def hopeless(request: Request) -> str:
        calls.append(request)
        return "no"

    with pytest.raises(Unusable, match="no usable answer to the question 'ranking'"):
        await asker(Scripted(hopeless)).ask(QUESTION)
    assert len(calls) == 2


async def test_a_refused_request_is_unusable_but_an_outage_is_an_outage() -> None:
    def refuse(_: Request) -> str:
        raise Refused("context too long")

    def down(_: Request) -> str:
        raise ModelError("overloaded", retryable=True)

    with pytest.raises(Unusable, match="context too long"):
        await asker(Scripted(refuse)).ask(QUESTION)
    with pytest.raises(ModelError, match="overloaded") as caught:
        await asker(Scripted(down)).ask(QUESTION)
    assert not isinstance(caught.value, Unusable)


def test_models_may_use_other_words_for_the_operations() -> None:
    said = [{"op": "Insert After", "target": "a", "content": None, "from": 2}, {"op": "REMOVE"}]
    parsed = EDITS.analysis.model_validate({"edits": said, "extra": 1})
    edits = [edit for edit in parsed.items if isinstance(edit, EditAnswer)]
    assert [edit.op for edit in edits] == ["insert_after", "delete"]
    assert edits[0].sources == [2]
    assert EditAnswer.model_validate({"op": "add", "content": 3}).change().op == "append"


def test_every_prompt_describes_the_answer_it_wants() -> None:
    wanted = {
        "analyst_error": ('"patterns"', '"edits"', '"tasks"', "failed"),
        "analyst_success": ('"patterns"', '"edits"', '"tasks"', "succeeded"),
        "merge_failure": ('"edits"', '"from"'),
        "merge_success": ('"edits"', '"from"'),
        "merge_final": ('"edits"', '"from"'),
        "ranking": ('"selected_indices"',),
        "slow_update": ('"slow_update_content"',),
        "meta_skill": ('"meta_skill_content"',),
    }
    for name, words in wanted.items():
        for word in words:
            assert word in Library().text(name), name


def test_a_prompt_is_replaced_by_a_file_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "ranking.md").write_text("Mine.\n", encoding="utf-8")
    library = Library.of([tmp_path])
    assert library.text("ranking") == "Mine."
    assert library.text("slow_update") == Library().text("slow_update")
    assert library.fingerprint != Library().fingerprint


def test_a_misspelt_prompt_file_is_named_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "rankng.md").write_text("Mine.", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"rankng\.md.*did you mean 'ranking\.md'"):
        Library.of([tmp_path])


def test_a_folder_of_prompts_must_exist_and_be_utf8(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a folder"):
        Library.of([tmp_path / "nowhere"])
    (tmp_path / "ranking.md").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        Library.of([tmp_path]).text("ranking")
    with pytest.raises(ConfigError, match="no prompt called 'other'"):
        Library().text("other")
