"""MMRB: questions about several images; the answer by rule, the reasoning by a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.aio import map_all
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
    filled_field,
    named_field,
    present,
    row_of,
    texts_field,
)
from skillopt.envs.images import ImageEnvironment, ImageSettings, embedded_as
from skillopt.envs.judge import JudgedEnvironment, Judging
from skillopt.envs.metrics import verdict
from skillopt.envs.mmrb.score import MmrbRule, found_answer, is_right
from skillopt.errors import DataError

_FORM: Final = """\
End your reply with the answer in this form, with the letter or letters of your choice where there \
are choices:
Answer[your answer]"""
_INSTRUCTIONS: Final = {
    "cot": "You answer questions about several images. Reason step by step: what each image shows, "
    f"then how that leads to the answer.\n\n{_FORM}",
    "direct": "You answer questions about several images. Give only the answer, without any "
    "explanation.\n\n" + _FORM.replace("End your reply with", "Give"),
}
_RUBRIC = """\
The reference answer is one step of a sound solution. Judge whether the reply contains this step: it
states the same fact or makes the same inference, in any words and at any place. It is absent if the
reply does not contain it or contradicts it. Whether the final answer of the reply is right does not
matter."""


_ANNOTATED: Final = "with annotated steps"
_UNANNOTATED: Final = "without annotated steps"


class MMRB(ImageEnvironment, JudgedEnvironment):
    """Hard: whether the answer is right. Soft: the same, or the score of the reasoning."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings(ImageSettings):
        """What is asked, how images are shown and answers judged."""

        prompt: Literal["cot", "direct"] = "cot"
        """Whether the agent is asked to reason first."""
        scorer: MmrbRule = "strict"
        """strict: the same letters or text | lenient: as the owners' script, where one may be a
        part of the other."""
        steps: bool = False
        """Whether soft is the process score, for which a judge looks for every annotated step."""

    rubric: ClassVar[str] = _RUBRIC
    verdicts: ClassVar[tuple[str, ...]] = ("present", "absent")
    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="MMRB: multimodal multi-image reasoning, 92 sub-tasks with annotated steps",
        sources=(
            DataSource(
                what="questions, images and annotated steps",
                url="https://huggingface.co/datasets/HarrytheOrange/MMRB",
                licence="none stated",
            ),
        ),
        items={"in all": 4_750},
        notes=("Not to be taken for MMRB2, a benchmark of reward models.",),
    )
    name = "mmrb"

    def __init__(self, settings: MMRB.Settings, splits: Splits) -> None:
        self._settings = settings
        self.judging: Judging = "all" if settings.steps else "none"
        super().__init__(settings, splits, self._task)
        tasks = [task for each in self._tasks.splits.values() for task in each]
        self._items, self._unannotated = len(tasks), sum(not _steps(row_of(t)) for t in tasks)

    @property
    def warnings(self) -> Sequence[str]:
        told = list(self._tasks.warnings)
        if self._settings.steps and self._unannotated:
            told.append(
                f"{self._unannotated} of {self._items} items have no annotated steps between a "
                "first and a last one; their soft score is whether the answer is right, so the "
                f"mean of soft is no process score (see the group {_ANNOTATED!r})"
            )
        return tuple(told)

    def groups(self, task: Task) -> list[str]:
        """With steps, whether its soft score is a process score."""
        if not self._settings.steps:
            return []
        return [_ANNOTATED if _steps(row_of(task)) else _UNANNOTATED]

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """JSON files whose rows name their images, or the table of the hub that holds them."""
        folder = raw_folder(source)
        return (_item(raw, folder) for raw in raw_rows(source))

    def gold(self, task: Task) -> Gold:
        answer = filled_field(row_of(task), "answer")
        return Gold(answers=(answer,), reply=f"Answer[{answer}]")

    def question(self, row: Row) -> Question:
        gold, options = filled_field(row, "answer"), _options(row)
        brief, paths = _brief(row), _steps(row)

        async def judge(reply: str) -> Score:
            answer = found_answer(reply)
            right = is_right(answer, gold, options, self._settings.scorer)
            fault = "no answer in the form asked for" if answer is None else "wrong answer"
            found = verdict(reply if answer is None else answer, [gold], right, fault=fault)
            if not self._settings.steps or not paths:
                return found
            soft, missing = await self._reasoning(row, brief, reply, paths)
            told = f"; the reasoning lacks: {missing}" if missing else ""
            return Score(found.hard, soft, f"{found.feedback}{told}")

        def details(reply: str) -> Mapping[str, object]:
            return {
                "question": brief,
                "predicted_answer": found_answer(reply) or "",
                "gold_answers": [gold],
            }

        images = self.images(row, texts_field(row, "image_paths"))
        instructions = _INSTRUCTIONS[self._settings.prompt]
        return Question(instructions, brief, judge, tell=details, images=images)

    async def _reasoning(
        self, row: Row, brief: str, reply: str, paths: Sequence[Sequence[str]]
    ) -> tuple[float, str]:
        """The share of steps of the best path that are there, and a step that is not."""

        async def has(step: str) -> bool:
            found = await self.ask(row.where, question=brief, answer=reply, references=[step])
            return found.word == "present"

        best, missing = -1.0, ""
        for path in paths:
            marks = await map_all(has, path)
            if (share := sum(marks) / len(marks)) > best:
                absent = (step for step, mark in zip(path, marks, strict=True) if not mark)
                best, missing = share, next(absent, "")
        return best, missing

    def _task(self, name: str, row: Row) -> Task:
        filled_field(row, "question")
        gold, options = filled_field(row, "answer"), _options(row)
        if not is_right(found_answer(f"Answer[{gold}]"), gold, options, self._settings.scorer):
            raise DataError(f"{row.where}: no reply could give the answer {gold[:60]!r}")
        _steps(row)
        kind = named_field(row, "subtask") or "default"
        return Task(name, kind, self.seen(row, texts_field(row, "image_paths")))


def _options(row: Row) -> tuple[str, ...]:
    if named_field(row, "question_type") != "multi-choice":
        return ()
    return texts_field(row, "options")


def _brief(row: Row) -> str:
    """The question with `Image 1` where it has a slot for the first image."""
    text = filled_field(row, "question")
    for number in range(1, len(texts_field(row, "image_paths")) + 1):
        text = text.replace(f"{{image#{number}}}", f"[Image {number}]")
    return text


def _steps(row: Row) -> list[list[str]]:
    """The annotated steps of each path, without its first and last one, which do not count."""
    value = row.data.get("reasoning_steps")
    paths = cast("list[object]", value) if isinstance(value, list) else [value] if value else []
    inner: list[list[str]] = []
    for path in paths:
        if not isinstance(path, list):
            raise DataError(
                f"{row.where}: 'reasoning_steps' must be a list of paths, found {shape(path)} in it"
            )
        steps = [_step(row, step) for step in cast("list[object]", path)]
        if len(steps) > 2:
            inner.append(steps[1:-1])
    return inner


def _step(row: Row, step: object) -> str:
    if not isinstance(step, dict):
        raise DataError(f"{row.where}: a step in 'reasoning_steps' must be an object")
    inner = Row(cast("dict[str, object]", step), row.where)
    return named_field(inner, "rationale_fix", "rationale") or filled_field(inner, "rationale")


def _item(raw: RawRow, folder: Path) -> RawItem:
    row = raw.row
    key = [named_field(row, column) for column in ("source", "subtask", "index")]
    name = named_field(row, "id") or "-".join(key)
    if not named_field(row, "id") and not all(key):
        raise DataError(f"{row.where}: no 'source', 'subtask' and 'index'; is this a file of MMRB?")
    name = "-".join(name.replace("/", " ").replace("\\", " ").split())
    data: dict[str, object] = {**row.data, "id": name}
    embedded = {
        embedded_as(f"{name}-{number}", content): content
        for number, content in enumerate(raw.embedded.values(), start=1)
    }
    if embedded:
        data = {key: value for key, value in data.items() if key != "images"}
        return RawItem(Row({**data, "image_paths": list(embedded)}, row.where), embedded=embedded)
    present(row, "image_paths")
    paths = [
        find_file(folder, path, row.where, ("images",)) for path in texts_field(row, "image_paths")
    ]
    return RawItem(Row({**data, "image_paths": paths}, row.where), tuple(dict.fromkeys(paths)))
