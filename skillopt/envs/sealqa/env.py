"""SealQA: fact-seeking questions for which search results conflict; a judge scores answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.core.episode import EpisodeNeed, Workspace
from skillopt.core.ports import Episode
from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_files, read_table
from skillopt.datasets.rows import Row, shape
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    Question,
    filled_field,
    fingerprint,
    named_field,
    present,
    row_of,
)
from skillopt.envs.functions import load_function
from skillopt.envs.judge import JudgedEnvironment
from skillopt.envs.metrics import equal, extract_answer, verdict
from skillopt.envs.sealqa.search import (
    DocumentSearch,
    FunctionSearch,
    Page,
    Search,
    SearchedQuestion,
)
from skillopt.errors import ConfigError, DataError

_FORM: Final = """\
If you cannot find out the answer, say so instead of guessing. End your reply with the answer \
alone, in this form:
<answer>your answer</answer>"""
_INSTRUCTIONS: Final = {
    "search": "You answer questions of fact. Use the tool search to find pages and fetch to read "
    "them. Pages may be wrong, outdated, or contradict each other: compare several before you "
    f"answer.\n\n{_FORM}",
    "files": "You answer questions of fact from documents, which are in the folder documents/ of "
    "your workspace. Some of them are wrong, outdated, or have nothing to do with the question; "
    f"they may contradict each other: compare several before you answer.\n\n{_FORM}",
    "documents": "You answer questions of fact from documents. Some of them are wrong, outdated, "
    f"or have nothing to do with the question; they may contradict each other.\n\n{_FORM}",
    "closed": f"You answer questions of fact from what you know.\n\n{_FORM}",
}
_RUBRIC = """\
Compare the answer with the reference answer to the question, and give one of these verdicts:

A (correct): it contains everything that the reference answer says, and nothing that contradicts it.
   Case, punctuation, word order, hedging, and details beyond the question do not matter. A number
   must be right to the last digit that the reference answer has. What the question itself makes
   clear need not be repeated. A likely misspelling of a name is correct.
B (incorrect): any part of it contradicts the reference answer, even if that part is hedged, or the
   answer contradicts itself.
C (not attempted): nothing in it contradicts the reference answer, but something that the reference
   answer says is missing, for instance because the answer says that it is not known."""
_FAULTS: Final = {"A": "correct", "B": "incorrect", "C": "not attempted"}
_COUNTS: Final = (12, 20, 30)
_NO_FUNCTION: Final = (
    "env.search: a function can be called as a tool only, not from a workspace, in which agent "
    "programs work; use env.search=documents, or a harness that serves tools (env.harness=chat)"
)


class SealQA(JudgedEnvironment):
    """Hard and soft: whether the judge's verdict is A."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """How the agent gets to know anything."""

        mode: Literal["search", "documents", "closed"] = "search"
        """search: with a tool | documents: all documents of the item in the question (LongSeal) |
        closed: from memory."""
        search: str = "documents"
        """What the tool searches: the item's own `documents`, or a function `module:function` that
        takes a query and returns mappings with title, url and text."""
        documents: int = 12
        """Which of the item's sets of documents: 12, 20 or 30."""
        max_turns: int = 10
        """Requests of one attempt with the tool."""
        workspace: bool = False
        """search: whether the target gets the item's documents as files of its workspace instead of
        the tool; agent programs do in any case."""

    rubric: ClassVar[str] = _RUBRIC
    verdicts: ClassVar[tuple[str, ...]] = ("A", "B", "C")
    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="SealQA: questions for which search results conflict or do not help",
        sources=(
            DataSource(
                what="seal_0, seal_hard, and longseal with documents",
                url="https://huggingface.co/datasets/vtllms/sealqa",
                licence="not stated where we could look; rows carry a canary: keep them private",
                files={"*longseal*": "", "*seal*0*": "", "*seal*hard*": ""},
            ),
        ),
        items={"seal_0": 111, "seal_hard": 254, "longseal": 254},
        notes=(
            "Answers are refreshed about monthly: note the revision that you fetched.",
            "Only longseal has documents; for the others, env.search names a function.",
        ),
    )
    name = "sealqa"

    def __init__(self, settings: SealQA.Settings, splits: Splits) -> None:
        if settings.documents not in _COUNTS:
            raise ConfigError(f"env.documents: {settings.documents} is none of 12, 20 and 30")
        if settings.max_turns < 1:
            raise ConfigError(f"env.max_turns: {settings.max_turns} allows nothing; use 1 or more")
        if settings.workspace and settings.search != "documents":
            raise ConfigError(_NO_FUNCTION)
        self._settings = settings
        self._own: FunctionSearch | None = None
        if settings.search != "documents":
            self._own = FunctionSearch(load_function("env.search", settings.search))
        super().__init__(splits, self._task)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The tables of the hub; ids are made from the name of the file and the row."""
        for file in raw_files(source):
            for number, raw in enumerate(read_table(file)):
                row = raw.row
                for column in ("question", "answer"):
                    present(row, column)
                name = named_field(row, "id") or f"{file.stem.partition('-')[0]}-{number:04d}"
                yield RawItem(Row({**row.data, "id": name}, row.where))

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        if self._settings.mode != "search":
            return ()
        return ("workspace",) if self._settings.workspace else ("tools",)

    def in_folder(self) -> SealQA:
        """The item's documents as files instead of a tool."""
        if self._own is not None:
            raise ConfigError(_NO_FUNCTION)
        made = copy(self)
        made._settings = replace(self._settings, workspace=True)
        return made

    @property
    def own_fingerprint(self) -> str:
        own = fingerprint(self.name, asdict(self._settings))
        return own if self._own is None else f"{own}/search={self._own.identity}"

    def gold(self, task: Task) -> Gold:
        """Documents are there to hold it; how a reply must be worded is up to the judge."""
        answer = filled_field(row_of(task), "answer")
        return Gold(answers=(answer,), quoted=True)

    def groups(self, task: Task) -> list[str]:
        row = row_of(task)
        told = {name: named_field(row, name) for name in ("freshness", "search_results")}
        return [f"{name}: {value}" for name, value in told.items() if value] or ["all"]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Episode, None]:
        row = row_of(task)
        question = self.question(row)
        if "tools" not in self.needs:
            yield question
            return
        search: Search = self._own or DocumentSearch(_pages(row, self._settings.documents))
        yield SearchedQuestion(question, search, self._settings.max_turns)

    def question(self, row: Row) -> Question:
        asked, gold = filled_field(row, "question"), filled_field(row, "answer")

        async def judge(reply: str) -> Score:
            answer = extract_answer(reply)
            if not answer.strip():
                return verdict(answer, [gold], 0)
            # The whole reply would let an answer hide behind its explanation.
            found = await self.ask(row.where, question=asked, answer=answer, references=[gold])
            mark = float(found.word == "A")
            return Score(mark, mark, f"{_FAULTS[found.word]}: {found.reason}")

        def details(reply: str) -> Mapping[str, object]:
            answer = extract_answer(reply)
            return {
                "question": asked,
                "predicted_answer": answer,
                "gold_answers": [gold],
                "em": float(equal(answer, [gold])),
            }

        shown = [f"## Question\n{asked}"]
        if self._settings.mode == "documents":
            pages = _pages(row, self._settings.documents)
            listed = "\n\n".join(
                f"[Document {n}] {page.shown(len(page.text))}" for n, page in enumerate(pages, 1)
            )
            shown.insert(0, f"## Documents\n{listed}")
        files, how = None, str(self._settings.mode)
        if "workspace" in self.needs:
            files, how = _filed(_pages(row, self._settings.documents)), "files"
        brief = "\n\n".join(shown)
        return Question(_INSTRUCTIONS[how], brief, judge, tell=details, workspace=files)

    def _task(self, name: str, row: Row) -> Task:
        filled_field(row, "question")
        filled_field(row, "answer")
        mode, count = self._settings.mode, self._settings.documents
        if mode == "documents" or (mode == "search" and self._own is None):
            _pages(row, count)
        return Task(name, named_field(row, "topic") or "default", row.data)


def _pages(row: Row, count: int) -> tuple[Page, ...]:
    column = f"{count}_docs"
    value = row.data.get(column)
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{row.where}: no documents in {column!r}; only longseal has them. For other questions "
            "set env.search to a function that searches, or env.mode to closed"
        )
    return tuple(_document(row, column, each) for each in cast("list[object]", value))


def _filed(pages: Sequence[Page]) -> Workspace:
    named = {f"documents/{n:02}.md": page for n, page in enumerate(pages, 1)}
    files = {name: page.shown(len(page.text)).encode() for name, page in named.items()}
    return Workspace(files=files)


def _document(row: Row, column: str, each: object) -> Page:
    if not isinstance(each, dict):
        raise DataError(f"{row.where}: {column!r} must hold objects, found {shape(each)}")
    inner = Row(cast("dict[str, object]", each), f"{row.where} {column}")
    told = {name: named_field(inner, name) for name in ("title", "url", "date")}
    return Page(text=filled_field(inner, "text"), **told)
