"""BabyVision: puzzles of early vision; rules settle most answers, a judge the others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Final

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
    id_column,
    named_field,
    row_of,
    texts_field,
)
from skillopt.envs.images import ImageEnvironment, ImageSettings, embedded_as
from skillopt.envs.judge import JudgedEnvironment, Judging
from skillopt.envs.metrics import boxed, label_of, option, verdict
from skillopt.errors import DataError

_INSTRUCTIONS = """\
You solve puzzles about an image. Look closely, and reason from what is really there.

End your reply with the final answer in a box, and with nothing else in the box:
\\boxed{answer}
Where choices are given, the answer is the letter of one of them."""
_RUBRIC = """\
The answer is correct if it means the same as the reference answer to the question: notation,
spelling, brackets, units that are clear from the question, and words around the answer do not
matter. It is incorrect if any part of it differs, if it names more than one answer, or if there is
none. Go by the reference answer alone, even if you would solve the puzzle in another way."""
_NUMBER: Final = re.compile(r"[-+]?\d{1,40}(?:\.\d{1,40})?")
_NO_ANSWER: Final = "None"
"""What the judge is shown where there is no box; as the owners do."""


class BabyVision(ImageEnvironment, JudgedEnvironment):
    """Hard and soft: whether the answer in the box is right."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings(ImageSettings):
        """How images are shown and answers judged."""

        judging: Judging = "leftovers"
        """leftovers: the judge is asked where no rule settles it | all: always, as the owners do |
        none: never; what no rule accepts is wrong."""

    rubric: ClassVar[str] = _RUBRIC
    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="BabyVision: 22 kinds of puzzles of early vision",
        sources=(
            DataSource(
                what="questions and images",
                url="https://huggingface.co/datasets/UnipatAI/BabyVision",
                licence="released for research purposes; no open licence",
                files={"meta_data.jsonl": ""},
            ),
        ),
        items={"in all": 388},
    )
    name = "babyvision"

    def __init__(self, settings: BabyVision.Settings, splits: Splits) -> None:
        self._settings = settings
        self.judging = settings.judging
        column = id_column(splits, "taskId")
        super().__init__(settings, splits, self._task, id_column=column)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """`meta_data.jsonl` with its images, or the table of the hub that holds them."""
        folder = raw_folder(source)
        return (_item(raw, folder) for raw in raw_rows(source))

    def gold(self, task: Task) -> Gold:
        row = row_of(task)
        answer, options = _answer(row), _options(row)
        reply = f"\\boxed{{{answer}}}"
        if not options:
            return Gold(answers=(answer,), reply=reply)
        right = _right(row, options)
        return Gold(answers=(options[right],), options=options, right=right, reply=reply)

    def groups(self, task: Task) -> list[str]:
        """Its type, and its subtype within it."""
        subtype = named_field(row_of(task), "subtype")
        return [task.kind, *([f"{task.kind}: {subtype}"] if subtype else [])]

    def question(self, row: Row) -> Question:
        options, gold, brief = _options(row), _answer(row), _brief(row)

        async def judge(reply: str) -> Score:
            answer = boxed(reply)
            settled = None if self.judging == "all" else settle(answer, gold, options)
            if settled is None and self.judging == "none":
                settled = False
            if settled is not None:
                fault = "no box" if answer is None else "wrong answer"
                return verdict(answer or reply, [gold], settled, fault=fault)
            shown = _NO_ANSWER if answer is None else answer
            found = await self.ask(row.where, question=brief, answer=shown, references=[gold])
            mark = float(found.word == "correct")
            return Score(mark, mark, f"{found.word}: {found.reason}")

        def details(reply: str) -> Mapping[str, object]:
            answer = boxed(reply)
            settled = settle(answer, gold, options)
            return {
                "question": brief,
                "predicted_answer": answer or "",
                "gold_answers": [gold],
                "settled_by_rule": settled is not None and self.judging != "all",
            }

        images = self.images(row, [filled_field(row, "image")])
        return Question(_INSTRUCTIONS, brief, judge, tell=details, images=images)

    def _task(self, name: str, row: Row) -> Task:
        filled_field(row, "question")
        _answer(row)
        kind = named_field(row, "type") or "default"
        return Task(name, kind, self.seen(row, [filled_field(row, "image")]))


def settle(answer: str | None, gold: str, options: tuple[str, ...] = ()) -> bool | None:
    """Whether an answer is right, where that needs no judgement; None: it does.

    Two numbers, two tuples of numbers, or two letters of choices are the same or they are not.
    """
    if answer is None or not answer.strip():
        return False
    if options:
        named = option(unicodedata.normalize("NFKC", answer), options)
        return None if named is None else named == gold
    ours, theirs = _bare(answer), _bare(gold)
    if ours == theirs:
        return True
    numbers, wanted = _numbers(ours), _numbers(theirs)
    if numbers is None or wanted is None:
        return None
    if len(numbers) != len(wanted) and re.findall(r"\d", ours) == re.findall(r"\d", theirs):
        return None  # 1,234 and 1,5 may be one number or two
    return numbers == wanted


def _bare(text: str) -> str:
    """Without what notation adds: LaTeX commands for text, dollars, case, a full stop.

    Blanks stay between words or numbers.
    """
    plain = "".join(map(_compatible, unicodedata.normalize("NFC", text)))
    plain = re.sub(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]*)\}", r"\1", plain)
    plain = re.sub(r"\\[,;!: ]", " ", re.sub(r"\\(?:left|right)", "", plain)).replace("$", "")
    plain = " ".join(plain.split()).rstrip(".")
    return re.sub(r"(?<!\w) | (?![\w+-])", "", plain).casefold()


def _compatible(sign: str) -> str:
    """A sign in its plain form, unless its place is what it means: 10² is not 102."""
    raised = unicodedata.decomposition(sign).startswith(("<super>", "<sub>", "<fraction>"))
    return sign if raised else unicodedata.normalize("NFKC", sign)


def _numbers(text: str) -> tuple[Fraction, ...] | None:
    """Of `7`, `(10,5)`, `10;5` or `10 5`; None: there is anything else in it."""
    inside = text[1:-1] if text[:1] + text[-1:] in ("()", "[]", "{}") else text
    marks = set(re.findall("[,; ]", inside))
    parts = re.split("[,; ]", inside)
    if len(marks) > 1 or not all(map(_NUMBER.fullmatch, parts)):
        return None
    return tuple(map(Fraction, parts))


def _options(row: Row) -> tuple[str, ...]:
    if named_field(row, "ansType") != "choice":
        return ()
    return texts_field(row, "options")


def _answer(row: Row) -> str:
    """The letter of the right choice, or what belongs into the blank."""
    kind = named_field(row, "ansType")
    if kind == "choice":
        return label_of(_right(row, _options(row)))
    if kind != "blank":
        raise DataError(f"{row.where}: 'ansType' must be blank or choice, found {kind!r}")
    answer = named_field(row, "blankAns")
    if not answer:
        raise DataError(f"{row.where}: 'blankAns' is empty; it holds the right answer")
    return answer


def _right(row: Row, options: tuple[str, ...]) -> int:
    value = row.data.get("choiceAns")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(options):
        raise DataError(
            f"{row.where}: 'choiceAns' must be the number of one of {len(options)} options, from "
            f"0, found {value if isinstance(value, int) else shape(value)}"
        )
    return value


def _brief(row: Row) -> str:
    listed = [f"({label_of(n)}) {each}" for n, each in enumerate(_options(row))]
    return "\n".join([filled_field(row, "question"), *(["Choices:", *listed] if listed else [])])


def _item(raw: RawRow, folder: Path) -> RawItem:
    row = raw.row
    name = named_field(row, "taskId", "id")
    if not name:
        raise DataError(f"{row.where}: no field 'taskId'; is this a file of BabyVision?")
    data: dict[str, object] = {"id": name, **row.data}
    if "image" in raw.embedded:
        content = raw.embedded["image"]
        path = embedded_as(name, content)
        return RawItem(Row({**data, "image": path}, row.where), embedded={path: content})
    path = find_file(folder, filled_field(row, "image"), row.where, ("images",))
    return RawItem(Row({**data, "image": path}, row.where), (path,))
