"""SearchQA: a trivia clue and search snippets; a short answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, cast

from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_rows
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    DatasetEnvironment,
    Question,
    answers_field,
    filled_field,
    fingerprint,
    present,
    require_one_turn,
    row_of,
    text_field,
)
from skillopt.envs.metrics import (
    WordRule,
    contains_words,
    exact_match,
    extract_answer,
    f1,
    judge_words,
)
from skillopt.errors import ConfigError, DataError

_INSTRUCTIONS = """\
You answer trivia clues. A clue describes a person, place, thing or phrase; name it. You are given \
snippets from web searches, of which some help and some mislead.

End your reply with the answer alone, as short as it can be, in this form:
<answer>your answer</answer>"""
_DOCUMENT = "[DOC]"
_FIELDS = ("question", "context", "answers")


class SearchQA(DatasetEnvironment):
    """Hard: exact match after SQuAD's normalisation. Soft: F1 over words."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """How much the agent gets to see."""

        max_turns: int = 1
        """Only one turn is supported."""
        max_context_chars: int = 6000
        """Snippets beyond this length are left out, whole documents at a time."""
        scorer: WordRule = "guarded"
        """guarded: SQuAD's rules, but an answer of articles alone ("The The") keeps its words |
        official: those of MRQA | original: those of the original, where nothing matches nothing."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="SearchQA: trivia clues with snippets of web searches",
        sources=(
            DataSource(
                what="the questions of MRQA 2019, with the ids that the manifests name",
                url="https://huggingface.co/datasets/lucadiliello/searchqa",
                licence="snippets and clues belong to their owners; for research",
            ),
            DataSource(
                what="the same questions as MRQA publishes them (with other ids)",
                url="https://github.com/mrqa/MRQA-Shared-Task-2019",
                licence="code MIT; snippets and clues belong to their owners",
                files={"SearchQA.jsonl.gz": ""},
            ),
        ),
        items={"train": 117_384, "dev": 16_980},
    )
    name = "searchqa"

    def __init__(self, settings: SearchQA.Settings, splits: Splits) -> None:
        require_one_turn(settings.max_turns)
        if settings.max_context_chars < 1:
            raise ConfigError(
                f"env.max_context_chars: {settings.max_context_chars} shows nothing; use 1 or more"
            )
        self._settings = settings
        super().__init__(splits, _task)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """Rows with a `key`, or those of MRQA, where a context has several questions."""
        for raw in raw_rows(source):
            row = raw.row
            if "header" in row.data:
                continue
            if isinstance(row.data.get("qas"), list):
                yield from map(RawItem, _from_mrqa(row))
                continue
            name = row.data.get("key", row.data.get("id"))
            if not isinstance(name, str):
                raise DataError(f"{row.where}: no field 'key' that holds the item's id as text")
            fields = {column: present(row, column) for column in _FIELDS}
            yield RawItem(Row({"id": name, **fields}, row.where))

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.name, asdict(self._settings))

    def gold(self, task: Task) -> Gold:
        """The acceptable names; snippets are there to hold one."""
        golds = answers_field(row_of(task), "answers")
        return Gold(answers=golds, reply=f"<answer>{golds[0]}</answer>", quoted=True)

    def question(self, row: Row) -> Question:
        context = cut(text_field(row, "context"), self._settings.max_context_chars)
        question, golds = text_field(row, "question"), answers_field(row, "answers")

        rule = self._settings.scorer

        async def judge(reply: str) -> Score:
            return judge_words(extract_answer(reply), golds, rule)

        def details(reply: str) -> dict[str, object]:
            answer = extract_answer(reply)
            return {
                "question": question,
                "predicted_answer": answer,
                "gold_answers": list(golds),
                "em": float(exact_match(answer, golds, rule)),
                "f1": f1(answer, golds, rule),
                "sub_em": float(contains_words(answer, golds)),
            }

        brief = f"## Context\n{context}\n\n## Question\n{question}"
        return Question(_INSTRUCTIONS, brief, judge, tell=details)


def cut(context: str, most: int) -> str:
    """As many whole documents from the front as fit; a part of the first if it alone is too long.

    Documents start with `[DOC]`.
    """
    if len(context) <= most:
        return context
    end = context.rfind(_DOCUMENT, 0, most + len(_DOCUMENT))
    whole = end > 0 and context[:end].strip()
    return context[: end if whole else most].rstrip()


def _from_mrqa(row: Row) -> Iterator[Row]:
    context = text_field(row, "context")
    for number, asked in enumerate(cast("list[object]", row.data["qas"])):
        if not isinstance(asked, dict):
            raise DataError(f"{row.where}: 'qas'[{number}] must be an object")
        inner = Row(cast("dict[str, object]", asked), f"{row.where} qas[{number}]")
        fields = {column: present(inner, column) for column in ("question", "answers")}
        yield Row({"id": text_field(inner, "qid"), "context": context, **fields}, inner.where)


def _task(name: str, row: Row) -> Task:
    filled_field(row, "question")
    text_field(row, "context")
    answers_field(row, "answers")
    return Task(name, data=row.data)
