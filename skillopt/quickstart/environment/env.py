"""NewEnvironment: say here what a task is and what a good answer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Task
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import (
    DatasetEnvironment,
    Question,
    filled_field,
    fingerprint,
    row_of,
)
from skillopt.envs.metrics import equal, extract_answer, verdict

# Role and answer format. They are the same for all tasks; the skill follows them.
INSTRUCTIONS = """\
You answer questions.

End your reply with the answer alone, in this form:
<answer>your answer</answer>"""


class NewEnvironment(DatasetEnvironment):
    """Every row is one question, judged by its answer."""

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        """Each field is a key of the configuration: `env.case_sensitive`."""

        case_sensitive: bool = False
        """Whether capital letters count."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skill.md"
    name = "new_environment"

    def __init__(self, settings: NewEnvironment.Settings, splits: Splits) -> None:
        self.settings = settings
        super().__init__(splits, self.task)

    @property
    def fingerprint(self) -> str:
        """Finished attempts are found by it: change the version when texts or scores change."""
        return fingerprint(self.name, {**asdict(self.settings), "version": 1})

    def task(self, name: str, row: Row) -> Task:
        """A task from a row of the data; `DataError` where the row cannot be used."""
        filled_field(row, "question")
        filled_field(row, "answer")
        return Task(name, "default", row.data)

    def gold(self, task: Task) -> Gold:
        """The right answer, for `skillopt check`; no agent sees it."""
        answer = filled_field(row_of(task), "answer")
        return Gold(answers=(answer,), reply=f"<answer>{answer}</answer>")

    def question(self, row: Row) -> Question:
        """What the agent is asked, and how its reply is scored."""
        asked, gold = filled_field(row, "question"), filled_field(row, "answer")

        async def judge(reply: str) -> Score:
            answer = extract_answer(reply)
            right = equal(answer, [gold], case_sensitive=self.settings.case_sensitive)
            # The feedback says what was expected and found; the optimizer learns from it.
            return verdict(answer, [gold], right)

        def details(reply: str) -> Mapping[str, object]:
            """What `results.jsonl` says about the attempt besides its score."""
            return {"question": asked, "predicted_answer": extract_answer(reply)}

        return Question(INSTRUCTIONS, f"## Question\n{asked}", judge, tell=details)
