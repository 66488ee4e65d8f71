"""LiveMathematicianBench: which of five statements about a recent theorem holds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, cast

from skillopt.core.rollout import Score
from skillopt.core.seeds import shuffled
from skillopt.core.task import Gold, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_rows
from skillopt.datasets.rows import Row, shape
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    DatasetEnvironment,
    Question,
    filled_field,
    fingerprint,
    named_field,
    present,
    require_one_turn,
    row_of,
    text_field,
)
from skillopt.envs.metrics import extract_answer, index_of, label_of, option, tidy, verdict
from skillopt.errors import DataError

_INSTRUCTIONS = """\
You answer multiple-choice questions of research mathematics. Exactly one of the choices is right.

End your reply with the letter of your choice alone, in this form:
<answer>letter</answer>"""
_WILDCARD: Final = re.compile(r"a stronger result can be proven", re.IGNORECASE)
"""In the wording of a choice that is right whenever it is there, so that it gives itself away."""
_SHA256: Final = {
    "202511": "f991211de3605b1b0c1a42383770db99c52911c33e19b1492bae9982f480e6be",
    "202512": "ffa674fe0e91f2a266a08409d49393cdfc503358cc61f9ff74b88316d3e60bab",
    "202601": "048b6e879b501a19c0bc8585bd531cde01e6f07cdefa9e87ae37c61eb0a5889f",
    "202602": "479cee5f2c0fc930cdd97c862aa7efc874ab2af5be88a0ae75b912e29def7d1b",
}
"""Of the published files, by month."""
_PURE: Final = "without wildcard items"


class LiveMathematicianBench(DatasetEnvironment):
    """Hard and soft: whether the right option was named.

    In the published data the right option is always A; its place is drawn by seed and id.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """What the agent gets to see of an item, and in which order."""

        max_turns: int = 1
        """Only one turn is supported."""
        shuffle_choices: bool = True
        """Whether choices are shown in an order drawn by seed and id; without it, A is right."""
        shuffle_seed: int = 42
        """Seed of that order."""
        use_theorem: bool = False
        """Whether the theorem is shown, which all but says the answer."""
        use_sketch: bool = False
        """Whether the sketch of its proof is shown."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="LiveMathematicianBench: multiple-choice questions from theorems of recent months",
        sources=(
            DataSource(
                what="the questions of four months",
                url="https://github.com/LiveMathematicianBench/LiveMathematicianBench.github.io",
                revision="bb4b95a",
                licence="none stated; the twin LinyangHe/LiveMathematicianBench on the Hugging "
                "Face hub is tagged MIT",
                files={
                    f"data/{month}/qa_{month}_final.json": sha256
                    for month, sha256 in _SHA256.items()
                },
            ),
        ),
        items={"202511": 29, "202512": 52, "202601": 46, "202602": 50},
        notes=(
            "In 85 of the 177 items the right choice says that a stronger result can be proven, "
            "and no wrong choice ever does. Compare scores in the group "
            f"{_PURE!r}: picking that choice alone scores 48 %.",
        ),
    )
    name = "livemathematicianbench"

    def __init__(self, settings: LiveMathematicianBench.Settings, splits: Splits) -> None:
        require_one_turn(settings.max_turns)
        self._settings = settings
        super().__init__(splits, self._task)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The monthly files `qa_YYYYMM_final.json`."""
        for raw in raw_rows(source):
            yield RawItem(Row({"id": _name(raw.row), **raw.row.data}, raw.row.where))

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.name, asdict(self._settings))

    def gold(self, task: Task) -> Gold:
        choices, right = self._choices(row_of(task), task.id)
        text = choices[right]
        reply = f"<answer>{label_of(right)}</answer>"
        return Gold(answers=(text,), options=choices, right=right, reply=reply)

    def groups(self, task: Task) -> list[str]:
        """Whether its right choice is the one that gives itself away, and its month."""
        wildcard = _is_wildcard(row_of(task))
        return ["wildcard items" if wildcard else _PURE, named_field(row_of(task), "month")]

    def question(self, row: Row) -> Question:
        name = _name(row)
        (choices, right), asked = self._choices(row, name), filled_field(_mcq(row), "question")
        letter, text = label_of(right), choices[right]

        async def judge(reply: str) -> Score:
            answer = extract_answer(reply)
            named = option(answer, choices)
            fault = "no option named" if named is None else "wrong answer"
            return verdict(answer, [f"{letter}. {text}"], named == letter, fault=fault)

        def details(reply: str) -> Mapping[str, object]:
            answer = extract_answer(reply)
            named = option(answer, choices)
            return {
                "question": asked,
                "predicted_answer": named or answer,
                "predicted_text": "" if named is None else choices[index_of(named)],
                "gold_answers": [letter],
                "choices": list(choices),
                "wildcard": _is_wildcard(row),
            }

        listed = "\n".join(f"{label_of(n)}. {choice}" for n, choice in enumerate(choices))
        shown = [f"## Question\n{asked}", f"## Choices\n{listed}"]
        if self._settings.use_theorem:
            shown.insert(0, f"## Theorem\n{text_field(row, 'theorem')}")
        if self._settings.use_sketch:
            shown.insert(-2, f"## Sketch of the proof\n{text_field(row, 'sketch')}")
        return Question(_INSTRUCTIONS, "\n\n".join(shown), judge, tell=details)

    def _choices(self, row: Row, name: str) -> tuple[tuple[str, ...], int]:
        """The choices in the order in which they are shown, and the place of the right one."""
        labels = _labelled(row)
        right = filled_field(_inner(_mcq(row), "correct_choice"), "label").strip().upper()
        order = sorted(labels)
        if self._settings.shuffle_choices:
            # As the original draws it, so that its letters are ours.
            drawn = hashlib.sha256(f"{self._settings.shuffle_seed}:{name}".encode()).hexdigest()
            order = shuffled(order, int(drawn[:16], 16))
        return tuple(labels[label] for label in order), order.index(right)

    def _task(self, name: str, row: Row) -> Task:
        filled_field(_mcq(row), "question")
        name = _name(row)
        self._choices(row, name)
        for wanted, column in (
            (self._settings.use_theorem, "theorem"),
            (self._settings.use_sketch, "sketch"),
        ):
            if wanted:
                text_field(row, column)
        kinds = row.data.get("theorem_type")
        kind = str(cast("list[object]", kinds)[0]) if isinstance(kinds, list) and kinds else ""
        return Task(name, kind or "default", {**row.data, "id": name})


def _name(row: Row) -> str:
    if name := named_field(row, "id"):
        return name
    month, number = named_field(row, "month"), named_field(row, "no")
    if not month or not number:
        raise DataError(f"{row.where}: no id, and no 'month' and 'no' to make one from")
    return f"{month}:{number}"


def _mcq(row: Row) -> Row:
    return _inner(row, "mcq")


def _inner(row: Row, column: str) -> Row:
    value = present(row, column)
    if not isinstance(value, dict):
        raise DataError(f"{row.where}: {column!r} must be an object, found {shape(value)}")
    return Row(cast("dict[str, object]", value), f"{row.where} {column}")


def _labelled(row: Row) -> dict[str, str]:
    """All choices by their published labels; the right one is not among `choices` there."""
    mcq = _mcq(row)
    value = present(mcq, "choices")
    if not isinstance(value, list) or not value:
        raise DataError(
            f"{mcq.where}: 'choices' must be a list, found {shape(cast('object', value))}"
        )
    labels: dict[str, str] = {}
    correct = _inner(mcq, "correct_choice")
    others = [
        _inner(Row({"choice": each}, f"{mcq.where} choices[{number}]"), "choice")
        for number, each in enumerate(cast("list[object]", value))
    ]
    for choice in (correct, *others):
        label = filled_field(choice, "label").strip().upper()
        text = filled_field(choice, "text")
        if labels.setdefault(label, text) != text:
            raise DataError(f"{choice.where}: two choices have the label {label!r}")
    right, *wrong = (tidy(text, case_sensitive=True) for text in labels.values())
    if right in wrong:
        raise DataError(f"{mcq.where}: a wrong choice has the text of the right one; change it")
    if not wrong:
        raise DataError(f"{mcq.where}: only one choice; there must be a wrong one")
    return labels


def _is_wildcard(row: Row) -> bool:
    return bool(_WILDCARD.search(filled_field(_inner(_mcq(row), "correct_choice"), "text")))
