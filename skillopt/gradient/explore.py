"""Proposer `explore`: the optimizer chooses which attempts of a step to read.

An analyst is shown a few attempts at a time. An explorer sees a list of all of them and uses list,
read and grep, turn by turn, before it proposes edits.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field

from typing_extensions import assert_never

from skillopt.core.chat import Message
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal, Source
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.errors import Unusable
from skillopt.gradient.workspace import File, Workspace
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest
from skillopt.prompts.replies import CallAnswer, EditAnswer, Exploration
from skillopt.prompts.sections import budget_section, memory_sections, skill_section

CALLS = 8
"""Calls that are carried out per turn."""
_LEAST = 200
"""Tokens below which there is no use in looking further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explore:
    """One exploration per step, over all of its attempts, in a bounded number of turns.

    It shows the model no more per turn than one attempt may take in any other question, and no more
    in all than such a question may show.
    """

    asker: Asker
    turns: int = 12
    failure_only: bool = False

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """One finding on failures and one on successes, as far as there is something to say."""
        rollouts = [each for batch in batches async for each in batch]
        workspace = Workspace.of(rollouts)
        if self.failure_only:
            failed = {name: file for name, file in workspace.files.items() if not file.passed}
            workspace = Workspace(failed)
        if not workspace.files or budget == 0:
            return ()
        visit = _Exploration(workspace, self.turns)
        sections = [
            skill_section(skill),
            *memory_sections(memory),
            budget_section(budget),
            _turns_left(self.turns),
        ]
        return _findings(visit, await self._look_around(visit, sections), budget)

    async def _look_around(self, visit: _Exploration, sections: Sequence[str]) -> Exploration | str:
        """Turn by turn until there is a conclusion; else why there is none."""
        with self.asker.sink.phase("reflect") as progress:
            while True:
                last = visit.left == 1
                question = PromptQuestion(
                    stage="explore",
                    prompt="explore",
                    sections=sections,
                    said=visit.said(),
                    shape=Exploration,
                    check=lambda answer, last=last: answer.complaint(last=last),
                )
                try:
                    answer = await self.asker.ask(question)
                except Unusable as error:
                    progress.tick("failed")
                    if last or not visit.turns:
                        return str(error)
                    visit.left = 1  # what was seen so far may still be worth a conclusion
                    continue
                progress.tick()
                if answer.concluded:
                    return answer
                visit.look(answer, self.asker.digest)


@dataclass(frozen=True, slots=True)
class _Turn:
    asked: str
    told: str
    left: int
    """Turns that were left then."""


@dataclass(slots=True)
class _Exploration:
    """An exploration under way."""

    workspace: Workspace
    left: int
    """Turns that are left, the present one included."""
    turns: list[_Turn] = field(default_factory=list[_Turn])
    seen: dict[str, File] = field(default_factory=dict[str, File])
    """Files that were opened, by task."""
    trail: list[str] = field(default_factory=list[str])

    def said(self) -> tuple[Message, ...]:
        """The conversation since the first message."""
        # Each message keeps what it said when it was the last, so that prefixes stay the same.
        left = [*(turn.left for turn in self.turns[:-1]), self.left]
        return tuple(
            message
            for turn, turns in zip(self.turns, left, strict=False)
            for message in (
                Message("assistant", turn.asked),
                Message("user", f"{turn.told}\n\n{_turns_left(turns)}"),
            )
        )

    def look(self, answer: Exploration, limits: Digest) -> None:
        """Carry the calls of a turn out."""
        rest = limits.question - sum(estimate(turn.told) for turn in self.turns)
        room = min(limits.attempt, rest)
        told: list[str] = []
        calls = answer.calls[:CALLS]
        for number, call in enumerate(calls):
            share = max(0, room - sum(map(estimate, told))) // (len(calls) - number)
            told.append(f"<result call={number}>\n{self._carry_out(call, share)}\n</result>")
        if len(answer.calls) > CALLS:
            told.append(f"Only the first {CALLS} calls of a turn are carried out.")
        text = "\n".join(told)
        self.left = self.left - 1 if rest - estimate(text) >= _LEAST else 1
        self.turns.append(_Turn(answer.said(), text, self.left))

    def _carry_out(self, call: CallAnswer, room: int) -> str:
        match call.tool:
            case "list":
                self.trail.append("list")
                return self.workspace.list(room)
            case "read":
                self.trail.append(f"read {call.file}")
                if file := self.workspace.named(call.file):
                    self.seen[file.task] = file
                return self.workspace.read(call.file, call.line, room)
            case "grep":
                self.trail.append(f"grep {json.dumps(call.text, ensure_ascii=False)}")
                return self.workspace.grep(call.text, room)
        assert_never(call.tool)


def _findings(
    visit: _Exploration, answer: Exploration | str, budget: int | None
) -> tuple[Finding, ...]:
    if isinstance(answer, str):
        return (_finding(visit, "failure", problem=answer),)
    edits = answer.edits or []
    made = [each for edit in edits[:budget] if (each := _proposal(edit, visit))]
    failures = [each for each in made if each.source == "failure"]
    successes = [each for each in made if each.source == "success"]
    patterns = tuple(
        Pattern(each.name, each.count, each.description, _known(each.tasks, visit))
        for each in answer.patterns
    )
    first = _finding(visit, "failure", answer.reasoning, patterns, failures)
    second = _finding(visit, "success", answer.reasoning, (), successes)
    return (first, second) if successes else (first,)


def _finding(
    visit: _Exploration,
    source: Source,
    reasoning: str = "",
    patterns: tuple[Pattern, ...] = (),
    proposals: Sequence[Proposal] = (),
    problem: str = "",
) -> Finding:
    read = {task for task, file in visit.seen.items() if file.passed == (source == "success")}
    named = {task for each in proposals for task in each.tasks}
    return Finding(
        source=source,
        batch=0,
        number=0,
        tasks=tuple(sorted(read | named)),
        reasoning=reasoning,
        patterns=patterns,
        proposals=tuple(proposals),
        problem=problem,
        trail=tuple(visit.trail) if source == "failure" else (),
    )


def _proposal(edit: EditAnswer, visit: _Exploration) -> Proposal | None:
    """The edit with its evidence; None when nothing that was seen speaks for it."""
    tasks = _known(edit.tasks, visit) or tuple(sorted(visit.seen))
    if not tasks:
        return None
    passed = {file.task for file in visit.workspace.files.values() if file.passed}
    source: Source = "success" if passed.issuperset(tasks) else "failure"
    return Proposal(edit.change(), source, tasks, edit.why, by="explore")


def _known(named: Sequence[str], visit: _Exploration) -> tuple[str, ...]:
    """The tasks that an answer names, by id or by file, and that are really there."""
    files = visit.workspace.files
    ids = {file.task for file in files.values()}
    found = {files[each].task if each in files else each for each in named}
    return tuple(sorted(found & ids))


def _turns_left(turns: int) -> str:
    told = "\nThis is the last one: conclude with your edits." if turns == 1 else ""
    return f"<turns_left>{turns}</turns_left>{told}"
