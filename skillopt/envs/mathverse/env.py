"""MathVerse: problems with diagrams; letters and expressions by rule, the rest by a judge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.core.episode import EpisodeNeed
from skillopt.core.extras import install_command
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
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    Question,
    filled_field,
    named_field,
    row_of,
)
from skillopt.envs.images import ImageEnvironment, ImageSettings, embedded_as
from skillopt.envs.judge import JudgedEnvironment, Judging
from skillopt.envs.metrics import boxed, extract_answer, index_of, label_of, option, verdict
from skillopt.envs.processes import ask_process
from skillopt.errors import ConfigError, DataError

_INSTRUCTIONS = """\
You solve mathematical problems, most of them with a diagram. What the text does not say is in the \
diagram.

End your reply with the final answer alone (where choices are given, the letter of one of them), \
in this form:
<answer>your answer</answer>"""
_RUBRIC = """\
The answer is correct if it has the same value or meaning as the reference answer to the problem.
Notation, rounding that the problem asks for, and units that agree after conversion do not matter
(50 cm is 0.5 m). It is incorrect if its value differs, if a unit contradicts the reference, if it
gives several answers, or if there is none. Go by the reference answer alone, even if you would
solve the problem in another way."""
_UNSEEN: Final = "The problem is stated in the image. Solve it."
_TEXT_ONLY: Final = "Text Only"
_LETTERED: Final = re.compile(r"^\s*\(?([A-H])\)?\s*[:.]\s*(.+?)\s*$", re.MULTILINE)
_BARE_NUMBER: Final = re.compile(r"[-+\u2212]?(?:\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})")
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_ASSIGNED: Final = re.compile(r"^[A-Za-z]=(?=[^=]+$)")
_NOTATION: Final = re.compile(
    r"(?:\\(?:[dt]?frac|left|right|cdot|times|div|text|mathrm|leq?|geq?|quad)"
    r"|\\?(?<![A-Za-z])(?:sqrt|sin|cos|tan|log|ln))(?![A-Za-z])"
)
"""What an expression may be written with; all other words are its own."""
_NAME: Final = re.compile(r"[^\W\d_π]+['\u2032]*|['\"\u2019\u2032\u2033]+|[π%°$€£¥∠△:±∞]|\\[{}]")
_WORD: Final = re.compile(r"(?<![A-Za-z\\])[A-Z][a-z]{2,}(?![A-Za-z])")
_NUMBERS: Final = re.compile(r"\d \d|[A-Za-z]\d")
_LETTERS: Final = re.compile(r"[A-Za-z]{2,}")
_BLANK: Final = re.compile(r"(\\[A-Za-z]+ (?=[A-Za-z])|\d (?=\d))| ")
_BETWEEN: Final = re.compile(r"\s*[,;&]\s*|\s+and\s+|\s+")
_LONGEST: Final = 300
"""Letters of an answer beyond which it is no expression."""
_SECONDS: Final = 30.0
_SCRIPT: Final = """\
import json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
except ImportError:
    pass  # there is no such limit on Windows
from math_verify import parse, verify
gold, answer = json.load(sys.stdin)
def read(text):
    return parse("$" + text.strip().strip("$").replace("π", "\\\\pi ") + "$", parsing_timeout=None)
ours, theirs = read(answer), read(gold)
same = bool(ours) and bool(theirs) and verify(theirs, ours, timeout_seconds=None)
sys.stdout.write("same" if same else "different")
"""


class MathVerse(ImageEnvironment, JudgedEnvironment):
    """Hard and soft: whether the final answer is right (the score without steps)."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings(ImageSettings):
        """What is asked, how images are shown and answers judged."""

        prompt: Literal["direct", "cot"] = "direct"
        """Whether the published question asks for the answer at once (direct) or for reasoning
        first (cot)."""
        judging: Judging = "leftovers"
        """leftovers: the judge is asked where no rule settles it | all: always, as the owners do |
        none: never; what no rule accepts is wrong."""

    rubric: ClassVar[str] = _RUBRIC
    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="MathVerse: mathematical problems with diagrams, each in six versions",
        sources=(
            DataSource(
                what="testmini with its images",
                url="https://huggingface.co/datasets/AI4Math/MathVerse",
                licence="MIT (repository ZrrSkywalker/MathVerse)",
                files={"testmini.json": "", "testmini_text_only.json": ""},
            ),
            DataSource(
                what="726 problems of the project page, in the fields of its viewer",
                url="https://github.com/mathverse-cuhk/mathverse-cuhk.github.io",
                revision="26d00ea",
                licence="CC BY-SA 4.0",
            ),
        ),
        items={"with an image": 3_940, "text only": 788},
        extra="mathverse",
        notes=("The published score is that of the five versions with an image.",),
    )
    name = "mathverse"

    def __init__(self, settings: MathVerse.Settings, splits: Splits) -> None:
        if settings.judging != "all" and find_spec("math_verify") is None:
            raise ConfigError(
                f"env.name mathverse compares expressions with math-verify; "
                f"{install_command('mathverse')} or set env.judging=all"
            )
        self._settings = settings
        self.judging = settings.judging
        super().__init__(settings, splits, self._task)
        tasks = (task for each in self._tasks.splits.values() for task in each)
        self._shows = any(_image(row_of(task)) for task in tasks)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """`testmini*.json` with image folders, the table of the hub, or the file of the viewer."""
        folder = raw_folder(source)
        return (_item(raw, folder) for raw in raw_rows(source))

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("images",) if self._shows else ()

    def gold(self, task: Task) -> Gold:
        row = row_of(task)
        answer, options = _answer(row), _options(row)
        reply = f"<answer>{answer}</answer>"
        letter = option(answer, options) if options else None
        if letter is None:
            return Gold(answers=(answer,), reply=reply)
        right = index_of(letter)
        return Gold(answers=(options[right],), options=options, right=right, reply=reply)

    def groups(self, task: Task) -> list[str]:
        """Its version and its subject; and whether it counts for the published score."""
        told = _metadata(row_of(task))
        subject = named_field(told, "subject", "subjects")
        seen = [] if task.kind == _TEXT_ONLY else ["all with an image"]
        return [f"version: {task.kind}", *([f"subject: {subject}"] if subject else []), *seen]

    def question(self, row: Row) -> Question:
        gold, options, brief = _answer(row), _options(row), self._brief(row)
        chosen = _is_choice(row)

        async def judge(reply: str) -> Score:
            answer = found_answer(reply)
            settled: bool | None = None
            if self.judging != "all":
                settled = await (
                    settle_choice(answer, gold, options) if chosen else settle(answer, gold)
                )
            if settled is None and self.judging == "none":
                settled = False
            if settled is not None:
                return verdict(answer, [gold], settled)
            found = await self.ask(row.where, question=brief, answer=answer, references=[gold])
            mark = float(found.word == "correct")
            return Score(mark, mark, f"{found.word}: {found.reason}")

        def details(reply: str) -> Mapping[str, object]:
            answer = found_answer(reply)
            return {"question": brief, "predicted_answer": answer, "gold_answers": [gold]}

        shown = [path] if (path := _image(row)) else []
        images = self.images(row, shown)
        return Question(_INSTRUCTIONS, brief, judge, tell=details, images=images)

    def _brief(self, row: Row) -> str:
        column = "query_wo" if self._settings.prompt == "direct" else "query_cot"
        if published := named_field(row, column):
            return published
        listed = [f"{label_of(n)}: {each}" for n, each in enumerate(_listed(row))]
        text = named_field(row, "question") or _UNSEEN
        return "\n".join([text, *(["Choices:", *listed] if listed else [])])

    def _task(self, name: str, row: Row) -> Task:
        gold, options = _answer(row), _options(row)
        if _is_choice(row) and not _chosen(gold, options):
            raise DataError(f"{row.where}: the answer {gold!r} names none of the choices")
        shown = [path] if (path := _image(row)) else []
        if not shown and not named_field(row, "question"):
            raise DataError(f"{row.where}: neither a question nor an image; give one of them")
        return Task(name, _version(row), self.seen(row, shown))


def found_answer(reply: str) -> str:
    """The answer between tags, else in a box, else the last line."""
    tagged = extract_answer(reply)
    inside = boxed(tagged)
    if inside is None and "</answer>" not in reply.lower():
        inside = boxed(reply)
    return tagged if inside is None else inside


async def settle_choice(answer: str, gold: str, options: Sequence[str]) -> bool | None:
    if not answer.strip():
        return False
    right = _chosen(gold, options)
    named = _chosen(answer, options)
    # Several letters where one is right may be a list of choices that were thought of.
    return None if not named or len(named) > len(right) else named == right


def _chosen(text: str, options: Sequence[str]) -> set[str]:
    """The letters of the choices that a text is; a few problems ask for two."""
    if letter := option(text, options):
        return {letter}
    named = [option(each, options) for each in _BETWEEN.split(text.strip())]
    return set(filter(None, named)) if all(named) else set()


async def settle(answer: str, gold: str) -> bool | None:
    """Whether two expressions are the same, where that needs no judgement; None: it does.

    Different numbers are different answers. Other texts may differ in units or words alone.
    """
    if not answer.strip():
        return False
    ours, theirs = _plain(answer), _plain(gold)
    if ours == theirs:
        return True
    if _BARE_NUMBER.fullmatch(ours) and _BARE_NUMBER.fullmatch(theirs):
        return _value(ours) == _value(theirs)
    if len(answer) > _LONGEST or not _comparable(ours, theirs):
        return None
    try:
        same = await ask_process(_SCRIPT, [theirs, ours], _SECONDS) == "same"
    except TimeoutError:
        return None
    return True if same else None


def _comparable(ours: str, theirs: str) -> bool:
    """Whether two expressions differ in nothing that math-verify does not look at.

    It drops units and percent signs, takes points for factors (ABC is CAB), tuples for sets and
    1,2 for 12.
    """
    if "=" not in theirs:
        ours = _ASSIGNED.sub("", ours)
    elif "=" not in ours:
        theirs = _ASSIGNED.sub("", theirs)
    if ours.count("=") != theirs.count("=") or _names(ours) != _names(theirs):
        return False
    if any(_several(_NOTATION.sub(" ", each)) for each in (ours, theirs)):
        return False
    around = _brackets(ours)
    return around[2] == 0 == _brackets(theirs)[2] or (
        around == _brackets(theirs) and around[0] in ("(", "[", "\\{")
    )


def _several(text: str) -> bool:
    """Several numbers, quantities or words in a row, whose order matters (5 cats 7 dogs)."""
    return bool(_NUMBERS.search(text)) or len(_LETTERS.findall(text)) > 1


def _names(text: str) -> set[str]:
    """Units, variables, points, words, and signs such as %."""
    return set(_NAME.findall(_NOTATION.sub(" ", text)))


def _brackets(text: str) -> tuple[str, str, int]:
    """The signs around a list, and how many commas are in it."""
    begin = text[:2] if text.startswith("\\") else text[:1]
    return begin, text[-1:], text.count(",")


def _value(number: str) -> Fraction:
    return Fraction(number.replace("\u2212", "-"))


def _plain(text: str) -> str:
    """In one notation: no blanks but between digits, no commas between thousands.

    Words are in one case, names of variables and points are as they are.
    """
    plain = " ".join(text.split()).rstrip(".")
    if len(plain) > 1 and plain[0] == plain[-1] == "$":
        plain = plain.strip("$").strip()
    if not re.search(r"[(\[{]", plain):  # (1,234) may be a point
        plain = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    plain = re.sub(r"\\(?:left|right)(?=\s?[()\[\]\\])", "", plain).replace("\\%", "%")
    plain = re.sub(r"\^ ?\{? ?\\circ ?\}?|(?<=\d) ?degrees?", "°", plain)
    plain = re.sub(r"\\prime(?![A-Za-z])", "\u2032", plain)
    plain = re.sub(r"\\pi(?![A-Za-z])", "π", plain).replace("²", "^2").replace("³", "^3")
    plain = _BLANK.sub(lambda found: found[1] or "", plain)
    return _WORD.sub(lambda found: found[0].lower(), plain)


def _answer(row: Row) -> str:
    return filled_field(row, "answer")


def _is_choice(row: Row) -> bool:
    return named_field(row, "question_type").replace("_", "-") == "multi-choice"


def _listed(row: Row) -> tuple[str, ...]:
    """Choices in a field of their own, as the viewer's file has them."""
    value = row.data.get("choices")
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else ()


def _options(row: Row) -> tuple[str, ...]:
    """The choices, wherever they stand; empty: the letters are known, but not what they say."""
    if not _is_choice(row):
        return ()
    if listed := _listed(row):
        return listed
    text = named_field(row, "question") or named_field(row, "query_wo")
    found = cast("list[tuple[str, str]]", _LETTERED.findall(text.partition("Choices")[2]))
    letters = "".join(letter for letter, _ in found)
    return tuple(said for _, said in found) if letters and "ABCDEFGH".startswith(letters) else ()


def _metadata(row: Row) -> Row:
    value = row.data.get("metadata")
    return Row(cast("dict[str, object]", value) if isinstance(value, dict) else {}, row.where)


def _version(row: Row) -> str:
    told = named_field(row, "problem_version") or named_field(_metadata(row), "problem_version")
    return told or "default"


def _image(row: Row) -> str:
    return named_field(row, "image")


def _item(raw: RawRow, folder: Path) -> RawItem:
    row = raw.row
    name = named_field(row, "id") or named_field(row, "pid")
    if not name and (number := named_field(row, "sample_index")):
        # The text-only file has a numbering of its own.
        name = f"text-{number}" if _version(row) == _TEXT_ONLY else number
    if not name:
        raise DataError(f"{row.where}: no field 'sample_index'; is this a file of MathVerse?")
    data: dict[str, object] = {"id": name, **row.data}
    if "image" in raw.embedded:
        content = raw.embedded["image"]
        path = embedded_as(name, content)
        return RawItem(Row({**data, "image": path}, row.where), embedded={path: content})
    if not (named := _image(row)):
        return RawItem(Row({**data, "image": ""}, row.where))
    path = find_file(folder, named, row.where, ("images", f"images/{Path(named).parent.name}"))
    return RawItem(Row({**data, "image": path}, row.where), (path,))
