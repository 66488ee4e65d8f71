"""OfficeQA: questions about U.S. Treasury Bulletins, answered from the documents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from skillopt.core.chat import Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, Workspace
from skillopt.core.intake import MIB
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Gold, Split, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_folder, raw_rows
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    Tasks,
    filled_field,
    fingerprint,
    id_column,
    named_field,
    row_of,
    text_field,
)
from skillopt.envs.metrics import extract_answer, f1, verdict
from skillopt.envs.officeqa.documents import DOCUMENT_TOOLS, Documents
from skillopt.envs.officeqa.reward import final_answer, is_right, original_form
from skillopt.errors import ConfigError, DataError

_INSTRUCTIONS: Final = """\
You answer questions about financial documents. Every answer can be found in the documents or \
computed from figures in them. {access}

End your reply with the answer alone, on one line, in this form:
<FINAL_ANSWER>your answer</FINAL_ANSWER>"""
_BY_TOOLS: Final = (
    "Find them with glob, look for words with grep, and read the lines around what you find."
)
_BY_FILES: Final = "They are in the folder documents/ of your workspace."
_WORKSPACE_BYTES: Final = 128 * MIB
"""Copied for every attempt."""
_REPORTED: Final = (0.0, 0.001, 0.01, 0.05)
"""Tolerances at which the owners report scores."""


class OfficeQA:
    """Hard and soft: the official reward; or the original's exact match and word overlap."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """Which documents there are, and how an answer is compared."""

        data_dirs: tuple[Path, ...] = ()
        """Folders with the documents; of a folder with `transformed/` in it, that one. Empty: the
        folder of the items."""
        documents: Literal["sources", "all"] = "sources"
        """Which of them can be read: those that a question is about, or all."""
        scorer: Literal["official", "original"] = "official"
        tolerance: float = 0.0
        """By which share of the right number an answer may differ."""
        max_tool_turns: int = 24
        workspace: bool = False
        """Whether the target gets the documents as files of its workspace instead of tools; agent
        programs do in any case."""
        search_mode: Literal["offline"] = "offline"
        """Answers come from the documents alone. The keys below are for a search service, which
        is not supported; they have no effect."""
        max_queries_per_turn: int = 4
        search_api_url: str = ""
        search_auth_env: str = ""
        search_provider: str = ""
        search_max_num_results: int = 4
        search_timeout_seconds: float = 20.0

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    prompts: ClassVar[Path | None] = None
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="OfficeQA: questions about U.S. Treasury Bulletins",
        sources=(
            DataSource(
                what="the questions, and the bulletins as texts (below transformed/)",
                url="https://huggingface.co/datasets/databricks/officeqa",
                licence="CC BY-SA 4.0; the bulletins are in the public domain",
                revision="8ecbf18d3833daf4750a903d14963e4c4c1d4cd8",
                access="gated: ask the owners on that page",
                files={"officeqa_full.csv": ""},
            ),
        ),
        items={"full": 246, "pro": 133},
    )
    name = "officeqa"

    def __init__(self, settings: OfficeQA.Settings, splits: Splits) -> None:
        if not 0 <= settings.tolerance <= 1:
            raise ConfigError(f"env.tolerance: {settings.tolerance} is no share; use 0 to 1")
        if settings.max_tool_turns < 1:
            raise ConfigError(f"env.max_tool_turns: {settings.max_tool_turns}; use 1 or more")
        self._settings = settings
        self._folders = settings.data_dirs or ((splits.root,) if splits.root else ())
        self._documents = _documents(self._folders)
        self._digests: dict[str, str] = {}
        column = id_column(splits, "uid")
        self._tasks = Tasks.of(splits, self._task, id_column=column)
        self._check_room()

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The questions of a table, with those of their documents that lie beside it."""
        folder = raw_folder(source)
        documents = Documents.below(folder)
        for raw in raw_rows(source, ("*.csv", "*.jsonl", "*.parquet")):
            row = raw.row
            name = named_field(row, "uid", "id")
            here: list[str] = []
            for document in _sources(row):
                with suppress(KeyError):
                    here += documents.only([document]).files
            yield RawItem(Row({**row.data, "id": name}, row.where), tuple(here))

    @property
    def fingerprint(self) -> str:
        shown = self._settings
        everything = self._digest(self._documents) if shown.documents == "all" else ""
        how = {
            "scorer": shown.scorer,
            "tolerance": shown.tolerance,
            "turns": shown.max_tool_turns,
            "documents": everything,
            "workspace": shown.workspace,
        }
        return fingerprint(f"{self.name}/2", how)

    @property
    def warnings(self) -> Sequence[str]:
        return self._tasks.warnings

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("workspace",) if self._settings.workspace else ("tools",)

    def in_folder(self) -> OfficeQA:
        """The documents as files instead of tools."""
        made = copy(self)
        made._settings = replace(self._settings, workspace=True)
        made._check_room()
        return made

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks.splits[split]

    def gold(self, task: Task) -> Gold:
        answer = _answer(row_of(task))
        tag = "FINAL_ANSWER" if self._settings.scorer == "official" else "answer"
        return Gold(answers=(answer,), reply=f"<{tag}>{answer}</{tag}>")

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[OfficeEpisode, None]:
        row = row_of(task)
        yield OfficeEpisode(
            text_field(row, "question").strip(), _answer(row), self._readable(row), self._settings
        )

    def _readable(self, row: Row) -> Documents:
        if self._settings.documents == "all":
            return self._documents
        try:
            return self._documents.only(_sources(row))
        except KeyError as error:
            folders = ", ".join(map(str, self._folders))
            raise DataError(
                f"{row.where}: there is no document {error.args[0]!r} in {folders} (env.data_dirs)"
            ) from None

    def _task(self, name: str, row: Row) -> Task:
        filled_field(row, "question")
        _answer(row)
        documents = self._readable(row)
        data = dict(row.data)
        if self._settings.documents == "sources":
            data["documents"] = self._digest(documents)
        return Task(name, named_field(row, "difficulty", "category") or "default", data)

    def _check_room(self) -> None:
        if self._settings.workspace and self._settings.documents == "all":
            size = sum(path.stat().st_size for path in self._documents.files.values())
            if size > _WORKSPACE_BYTES:
                raise ConfigError(
                    f"env.documents: all documents have {size / MIB:.0f} MiB, too much for a "
                    f"workspace ({_WORKSPACE_BYTES / MIB:.0f} MiB); use env.documents=sources, or "
                    "a harness that serves tools (env.harness=chat)"
                )

    def _digest(self, documents: Documents) -> str:
        """Of the content, so that an attempt counts for these documents only."""
        names = "\n".join(documents.files)
        if names not in self._digests:
            try:
                self._digests[names] = documents.digest()
            except OSError as error:
                raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
        return self._digests[names]


@dataclass(frozen=True, slots=True)
class OfficeEpisode:
    """One question, with documents to look it up in."""

    question: str
    answer: str
    documents: Documents
    settings: OfficeQA.Settings

    @property
    def instructions(self) -> str:
        return _INSTRUCTIONS.format(access=_BY_FILES if self.settings.workspace else _BY_TOOLS)

    @property
    def brief(self) -> str:
        text = f"## Question\n{self.question}"
        if self.settings.documents == "all":
            return text
        return "\n".join([text, "", "## Documents", *self.documents.files])

    @property
    def tools(self) -> tuple[Tool, ...]:
        return () if self.settings.workspace else DOCUMENT_TOOLS

    async def call(self, call: ToolCall) -> str:
        return await self.documents.call(call)

    @property
    def workspace(self) -> Workspace | None:
        if not self.settings.workspace:
            return None
        contents = self.documents.contents()
        return Workspace(files={f"documents/{name}": text for name, text in contents.items()})

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(turns=self.settings.max_tool_turns)

    async def score(self, trajectory: Trajectory) -> Score:
        if self.settings.scorer == "original":
            answer = _first_answer(trajectory.answer)
            ours, gold = original_form(answer), original_form(self.answer)
            return verdict(answer, [self.answer], ours == gold, f1(ours, [gold]))
        answer = final_answer(trajectory.answer)
        return verdict(
            answer, [self.answer], is_right(self.answer, answer, self.settings.tolerance)
        )

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        answer = final_answer(trajectory.answer)
        return {
            "question": self.question,
            "predicted_answer": answer,
            "gold_answers": [self.answer],
            "reward_by_tolerance": {
                str(share): float(is_right(self.answer, answer, share)) for share in _REPORTED
            },
        }


def _documents(folders: Sequence[Path]) -> Documents:
    if not folders:
        raise ConfigError("env.data_dirs: names no folder; name the one that holds the documents")
    found: dict[str, Path] = {}
    for folder in folders:
        place = folder / "transformed" if (folder / "transformed").is_dir() else folder
        if not place.is_dir():
            raise ConfigError(
                f"env.data_dirs: there is no folder {folder}; name the one with the documents, or, "
                "if `materialize` has put them beside the items, none: env.data_dirs=[]"
            )
        for name, path in Documents.below(place).files.items():
            if name in found:
                raise ConfigError(f"env.data_dirs: {name} is both {found[name]} and {path}")
            found[name] = path
    if not found:
        listed = ", ".join(map(str, folders))
        raise ConfigError(f"env.data_dirs: no .txt or .md document in {listed}")
    return Documents(found)


def _answer(row: Row) -> str:
    column = "ground_truth" if "ground_truth" in row.data else "answer"
    return filled_field(row, column).strip()


def _sources(row: Row) -> list[str]:
    """The names of the documents that a question is about, one a line."""
    names = [name.strip() for name in text_field(row, "source_files").splitlines()]
    if not any(names):
        raise DataError(f"{row.where}: 'source_files' names no document; or set env.documents=all")
    return [name for name in names if name]


def _first_answer(reply: str) -> str:
    """The original's rule: the first answer that is marked, or else the last line."""
    _, opened, rest = reply.partition("<answer>")
    inside, closed, _ = rest.partition("</answer>")
    return inside.strip() if opened and closed else extract_answer(reply)
