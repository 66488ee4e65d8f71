"""DocVQA: a question about the image of a page; the answer stands on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias, cast

from rapidfuzz.distance import Levenshtein

from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Task
from skillopt.datasets.raw import (
    BenchmarkData,
    DataSource,
    RawItem,
    RawRow,
    find_file,
    raw_folder,
    raw_rows,
)
from skillopt.datasets.rows import Row, shape
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    Question,
    answers_field,
    filled_field,
    id_column,
    named_field,
    present,
    require_one_turn,
    row_of,
)
from skillopt.envs.images import ImageEnvironment, ImageSettings, embedded_as
from skillopt.envs.metrics import extract_answer, verdict
from skillopt.errors import DataError

_INSTRUCTIONS = """\
You answer questions about a scanned page. The answer is written on the page: find it and copy it \
as it is printed, without a sentence around it.

End your reply with the answer alone, in this form:
<answer>your answer</answer>"""
AnlsRule: TypeAlias = Literal["official", "script"]
_THRESHOLD: Final = 0.5
_WHOLE: Final = 0.999
"""ANLS from which the original counts an answer as right."""
_PATH_IN_QUESTION: Final = "document_path:"
_FOLDERS: Final = ("images", "documents", "docvqa_images")


class DocVQA(ImageEnvironment):
    """Soft: ANLS, the official measure. Hard: an ANLS of 1."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings(ImageSettings):
        """How images are shown and answers compared."""

        max_turns: int = 1
        """Only one turn is supported."""
        scorer: AnlsRule = "official"
        """official: as the paper defines ANLS | script: as the script of the challenge computes it,
        where an answer that is half wrong keeps its half."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="DocVQA: questions about single pages of documents",
        sources=(
            DataSource(
                what="questions and page images of the validation split",
                url="https://huggingface.co/datasets/lmms-lab/DocVQA",
                revision="539088ef8a8ada01ac8e2e6d4e372586748a265e",
                licence="tagged apache-2.0; pages of the UCSF Industry Documents Library",
                files={"DocVQA/validation-*.parquet": ""},
            ),
            DataSource(
                what="the official release",
                url="https://rrc.cvc.uab.es/?ch=17",
                licence="for research",
                access="by registration",
                files={"val_v1.0*.json": ""},
            ),
        ),
        items={"train": 39_463, "val": 5_349, "test (without answers)": 5_188},
        notes=("The id manifests name 534 questions of the validation split.",),
    )
    name = "docvqa"

    def __init__(self, settings: DocVQA.Settings, splits: Splits) -> None:
        require_one_turn(settings.max_turns)
        self._settings = settings
        column = id_column(splits, "questionId")
        super().__init__(settings, splits, self._task, id_column=column)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The official JSON, the table of the hub with its images, or a CSV with image paths."""
        folder = raw_folder(source)
        return (_item(raw, folder) for raw in raw_rows(source))

    @property
    def fingerprint(self) -> str:
        return self.own_fingerprint

    def gold(self, task: Task) -> Gold:
        golds = _answers(row_of(task))
        return Gold(answers=golds, reply=f"<answer>{golds[0]}</answer>")

    def groups(self, task: Task) -> list[str]:
        """Its types: table/list, form, handwritten, ..."""
        return [each.strip() for each in task.kind.split("|")]

    def question(self, row: Row) -> Question:
        golds, rule = _answers(row), self._settings.scorer
        asked, image = _question(row)

        async def judge(reply: str) -> Score:
            return score_of(extract_answer(reply), golds, rule)

        def details(reply: str) -> Mapping[str, object]:
            answer = extract_answer(reply)
            return {
                "question": asked,
                "predicted_answer": answer,
                "gold_answers": list(golds),
                "anls": anls(answer, golds, rule),
            }

        images = self.images(row, [image])
        return Question(_INSTRUCTIONS, f"## Question\n{asked}", judge, tell=details, images=images)

    def _task(self, name: str, row: Row) -> Task:
        _answers(row)
        return Task(name, _kind(row), self.seen(row, [_question(row)[1]]))


def score_of(answer: str, golds: tuple[str, ...], rule: AnlsRule = "official") -> Score:
    soft = anls(answer, golds, rule)
    return verdict(answer, golds, float(soft >= _WHOLE), soft)


def score_text(answer: str, row: Mapping[str, object]) -> Score:
    """A scorer for tasks of one's own in which the text of a page stands in for its image."""
    return score_of(answer, _answers(Row(row, "the row")))


def anls(prediction: str, golds: tuple[str, ...], rule: AnlsRule = "official") -> float:
    """One minus the edit distance as a share of the longer text, if that is below one half.

    Case, outer blanks and runs of blanks do not count; the best over all golds.
    """
    return max(_similarity(prediction, gold, rule) for gold in golds)


def _similarity(ours: str, theirs: str, rule: AnlsRule) -> float:
    one, other = _plain(ours), _plain(theirs)
    # The script divides by the texts as they came.
    longer = max(map(len, (ours, theirs) if rule == "script" else (one, other)))
    distance = Levenshtein.distance(one, other) / longer if longer else 0.0
    near = distance <= _THRESHOLD if rule == "script" else distance < _THRESHOLD
    return 1 - distance if near else 0.0


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _answers(row: Row) -> tuple[str, ...]:
    """`answers`, a list; or `answer`, a text that may be a list in Python's notation."""
    if "answers" in row.data or "answer" not in row.data:
        return answers_field(row, "answers")
    value = row.data["answer"]
    if isinstance(value, list):
        return answers_field(row, "answer")
    if not isinstance(value, str):
        raise DataError(f"{row.where}: 'answer' must be text or a list, found {shape(value)}")
    if not value.strip().startswith("["):
        return (filled_field(row, "answer"),)
    try:
        listed: object = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        listed = None
    return answers_field(Row({"answer": listed}, row.where), "answer")


def _question(row: Row) -> tuple[str, str]:
    """The question, and the path of its image."""
    asked = filled_field(row, "question")
    before, mark, after = asked.rpartition(_PATH_IN_QUESTION)
    inside = after.strip() if mark and len(after.split()) == 1 else ""
    path = named_field(row, "image_path", "image") or inside
    if not path:
        present(row, "image_path")
        raise DataError(f"{row.where}: 'image_path' is empty; name the image of the page")
    return (before.rstrip() if inside else asked), path


def _kind(row: Row) -> str:
    types = row.data.get("question_types")
    listed = "|".join(map(str, cast("list[object]", types))) if isinstance(types, list) else ""
    return named_field(row, "topic", "category") or listed or "default"


def _item(raw: RawRow, folder: Path) -> RawItem:
    row = raw.row
    name = named_field(row, "questionId", "id")
    if not name:
        raise DataError(f"{row.where}: no field 'questionId'; is this a file of DocVQA?")
    data: dict[str, object] = {"id": name, **row.data}
    if "image" in raw.embedded:
        content = raw.embedded["image"]
        path = embedded_as(f"q{name}_d{named_field(row, 'docId') or 0}", content)
        data.pop("image", None)
        return RawItem(Row({**data, "image_path": path}, row.where), embedded={path: content})
    page = f"{named_field(row, 'ucsf_document_id')}_{named_field(row, 'ucsf_document_page_no')}.png"
    named = named_field(row, "image_path", "image")
    try:
        path = find_file(folder, named or page, row.where, _FOLDERS)
    except DataError:
        path = find_file(folder, page, row.where, _FOLDERS)
    data.pop("image", None)
    return RawItem(Row({**data, "image_path": path}, row.where), (path,))
