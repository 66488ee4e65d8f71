"""Reflection by exploration: the optimizer opens what it wants to see of a step's rollouts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field
from typing_extensions import assert_never

from skillopt.core.chat import Message
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal, Source
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate, head
from skillopt.errors import Unusable
from skillopt.optimizer.replies import EditAnswer, PatternAnswer, Reasoned, ReplyShape, Text
from skillopt.optimizer.sections import (
    attempt_section,
    budget_section,
    memory_sections,
    skill_section,
)
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import NOTE, Digest, shorten

_FIRST_WORDS = 24
"""Tokens of the feedback that a listing shows."""
_LINE = 150
"""Tokens of a line of a file; a longer one goes on in the next."""
_MATCH = 60
"""Tokens of a line that a search shows."""
_QUOTED = 20
"""Tokens of what was asked for that an answer repeats."""


_NUMBER = re.compile(r"\d{3,}-")


@dataclass(frozen=True, slots=True)
class File:
    name: str
    task: str
    passed: bool
    about: str
    """What a listing says of it."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The files, those of failed attempts first."""

    files: Mapping[str, File]

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> AttemptFiles:
        """One file per attempt that has a score."""
        scored = [
            (rollout, rollout.outcome) for rollout in rollouts if isinstance(rollout.outcome, Score)
        ]
        scored.sort(key=lambda both: both[1].passed)
        files = [_file(number, *both) for number, both in enumerate(scored, start=1)]
        return cls({file.name: file for file in files})

    def list(self, room: int) -> str:
        return head(_fitting([file.about for file in self.files.values()], room, "files"), room)

    def read(self, name: str, line: int, room: int) -> str:
        """A file from a line on, as far as there is room."""
        file = self.named(name)
        if file is None:
            return head(f"There is no file {_quoted(name)}; list shows what there is.", room)
        total = len(file.lines)
        if not 1 <= line <= total:
            return head(f"{file.name} has lines 1 to {total}, no line {line}.", room)
        shown = _as_far_as(file.lines[line - 1 :], room - 2 * NOTE)
        last = line + len(shown) - 1
        lines = [f"{file.name}, lines {line} to {last} of {total}:", *shown]
        if last < total:
            lines.append(f"[… {total - last} lines left out; read on from line {last + 1} …]")
        return head("\n".join(lines), room)

    def grep(self, text: str, room: int) -> str:
        """Lines that hold a text; `|` stands between alternatives, `.*` for anything in a line."""
        wanted = "|".join(filter(None, map(_pattern, text.split("|"))))
        if not wanted:
            return head("A search needs a text to look for.", room)
        matches = [
            f"{file.name}:{number}: {shorten(line.strip(), _MATCH)}"
            for file in self.files.values()
            for number, line in enumerate(file.lines, start=1)
            if re.search(wanted, line.casefold())
        ]
        if not matches:
            return head(
                f"No line holds {_quoted(text)}. A search is for plain text in any case; "
                "`|` stands between alternatives, `.*` for anything within a line.",
                room,
            )
        heading = f"{len(matches)} line{'' if len(matches) == 1 else 's'} found:"
        return head(f"{heading}\n{_fitting(matches, room - NOTE, 'lines')}", room)

    def named(self, name: str) -> File | None:
        """The file that a name means; its number is enough."""
        number = _NUMBER.match(name.strip().removeprefix("./"))
        return next(
            (file for key, file in self.files.items() if number and key.startswith(number[0])), None
        )


def _file(number: int, rollout: Rollout, score: Score) -> File:
    mark = "passed" if score.passed else "failed"
    kind = re.sub(r"[^a-z0-9]+", "-", rollout.kind.lower()).strip("-")[:30]
    name = "-".join(part for part in (f"{number:03d}", mark, kind) if part) + ".md"
    text = attempt_section(rollout)
    word = shorten(" ".join(score.feedback.split()), _FIRST_WORDS)
    about = f"{name}  task {rollout.task}  about {estimate(text)} tokens  {word}".rstrip()
    return File(name, rollout.task, score.passed, about, tuple(_wrapped(text)))


def _wrapped(text: str) -> Iterator[str]:
    """Lines of which none is too long to be read from its start to its end."""
    for line in text.splitlines():
        rest = line
        while estimate(rest) > _LINE:
            piece = head(rest, _LINE)
            yield piece
            rest = rest[len(piece) :]
        yield rest


def _fitting(rows: Sequence[str], room: int, what: str) -> str:
    shown = _as_far_as(rows, room - NOTE)
    left = len(rows) - len(shown)
    return "\n".join([*shown, f"[… {left} more {what} …]"] if left else shown)


def _as_far_as(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit, at least the first, cut if need be."""
    shown: list[str] = []
    for line in lines:
        size = estimate(f"{line}\n")
        if shown and size > room:
            break
        shown.append(shorten(line, max(room, NOTE)))
        room -= size
    return shown


def _pattern(text: str) -> str:
    """What a line must hold: the pieces between `.*`, one after the other."""
    unescaped = re.sub(r"\\([^\w\s])", r"\1", text.replace(".*", "\0"))
    pieces = (piece.strip().casefold() for piece in unescaped.split("\0"))
    return ".*".join(re.escape(piece) for piece in pieces if piece)


def _quoted(text: str) -> str:
    # Escaping can make a text ten times as long, so it is cut after it.
    return shorten(repr(text), _QUOTED)


CALLS = 8
"""Calls that are carried out per turn."""
_LEAST = 200
"""Tokens below which there is no use in looking further."""


_TOOLS = {"ls": "list", "list_files": "list", "cat": "read", "open": "read"} | {
    "read_file": "read",
    "search": "grep",
}


def _tool(value: object) -> object:
    """Models write `read_file` and `search` too."""
    return _TOOLS.get(word := value.strip().lower(), word) if isinstance(value, str) else value


def _first(value: object) -> object:
    return 1 if value is None else value


def _together(value: object) -> object:
    return [] if value is None else [cast("object", value)] if isinstance(value, dict) else value


class CallAnswer(ReplyShape):
    """Something that an explorer wants to see."""

    tool: Annotated[Literal["list", "read", "grep"], BeforeValidator(_tool)]
    file: Text = ""
    line: Annotated[int, BeforeValidator(_first)] = 1
    text: Text = ""


class Exploration(Reasoned):
    """A turn of an explorer: what to look at next, or the conclusion."""

    calls: Annotated[list[CallAnswer], BeforeValidator(_together)] = Field(
        default_factory=list[CallAnswer]
    )
    patterns: list[PatternAnswer] = Field(default_factory=list[PatternAnswer])
    edits: list[EditAnswer] | None = None

    @property
    def concluded(self) -> bool:
        return bool(self.edits) or (self.edits is not None and not self.calls)

    def complaint(self, *, last: bool) -> str:
        if self.concluded or (self.calls and not last):
            return ""
        if last:
            return 'no turns are left; conclude with "edits", an empty list if need be.'
        return 'it needs "calls", or "edits" to conclude.'

    def said(self) -> str:
        """The turn as the next ones remember it."""
        return self.model_dump_json(include={"reasoning", "calls"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explore:
    """One exploration per step, over all of its attempts, in a bounded number of turns.

    It shows the model no more per turn than one attempt may take in any other question, and no more
    in all than such a question may show.
    """

    asker: Asker
    explore_turns: int = 12
    failure_only: bool = False

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        if size.budget != 0:
            most = self.explore_turns
            turns = Range(0 if self.failure_only else 1, most, most / 3)
            shown = size.evidence_tokens or most * CALLS * size.attempt_tokens
            yield PartCost("explore", turns, "explore", shown)

    def proposes(self, size: StepSize) -> StepSize:
        return replace(size, findings=2, proposals=size.allowed)

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        """One finding on failures and one on successes, as far as there is something to say."""
        rollouts = [rollout for batch in batches async for rollout in batch]
        files = AttemptFiles.of(rollouts)
        if self.failure_only:
            failed = {name: file for name, file in files.files.items() if not file.passed}
            files = AttemptFiles(failed)
        if not files.files or budget == 0:
            return ()
        visit = _Exploration(files, self.explore_turns)
        sections = [
            skill_section(skill),
            *memory_sections(memory),
            budget_section(budget),
            _turns_left(self.explore_turns),
        ]
        return _findings(visit, await self._look_around(visit, sections), budget)

    async def _look_around(self, visit: _Exploration, sections: Sequence[str]) -> Exploration | str:
        """Turn by turn until there is a conclusion; else why there is none."""
        with self.asker.sink.phase("reflect") as progress:
            while True:
                last = visit.left == 1
                question = PromptQuestion(
                    stage="explore",
                    sections=sections,
                    said=visit.said(),
                    shape=Exploration,
                    check=lambda answer, last=last: answer.complaint(last=last),
                )
                answer = await self.asker.answer(question, progress)
                if isinstance(answer, Unusable):
                    if last or not visit.turns:
                        return str(answer)
                    visit.left = 1  # what was seen so far may still be worth a conclusion
                elif answer.concluded:
                    return answer
                else:
                    visit.look(answer, self.asker.digest)


@dataclass(frozen=True, slots=True)
class _Turn:
    asked: str
    told: str
    left: int
    """Turns that were left then."""


@dataclass(slots=True)
class _Exploration:
    files: AttemptFiles
    left: int
    """Turns that are left, the present one included."""
    turns: list[_Turn] = field(default_factory=list[_Turn])
    seen: set[str] = field(default_factory=set[str])
    """Tasks whose files were opened."""
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
                return self.files.list(room)
            case "read":
                self.trail.append(f"read {call.file}")
                if file := self.files.named(call.file):
                    self.seen.add(file.task)
                return self.files.read(call.file, call.line, room)
            case "grep":
                self.trail.append(f"grep {json.dumps(call.text, ensure_ascii=False)}")
                return self.files.grep(call.text, room)
        assert_never(call.tool)


def _findings(
    visit: _Exploration, answer: Exploration | str, budget: int | None
) -> tuple[Finding, ...]:
    files = visit.files.files
    ids = {file.task: file.passed for file in files.values()}

    def known(named: Sequence[str]) -> tuple[str, ...]:
        """The tasks that an answer names, by id or by file, and that are really there."""
        tasks = {files[name].task if name in files else name for name in named}
        return tuple(sorted(tasks & ids.keys()))

    def finding(source: Source, proposals: Sequence[Proposal] = ()) -> Finding:
        read = {task for task in visit.seen if ids[task] == (source == "success")}
        named = {task for proposal in proposals for task in proposal.tasks}
        tasks = tuple(sorted(read | named))
        return Finding(source=source, batch=0, number=0, tasks=tasks, proposals=tuple(proposals))

    if isinstance(answer, str):
        return (replace(finding("failure"), problem=answer, trail=tuple(visit.trail)),)
    made: dict[Source, list[Proposal]] = {"failure": [], "success": []}
    for edit in (answer.edits or [])[:budget]:
        # What nothing speaks for that was seen is no proposal.
        if tasks := known(edit.tasks) or tuple(sorted(visit.seen)):
            source: Source = "success" if all(ids[task] for task in tasks) else "failure"
            made[source].append(Proposal(edit.change(), source, tasks, edit.why, by="explore"))
    patterns = tuple(
        Pattern(pattern.name, pattern.count, pattern.description, known(pattern.tasks))
        for pattern in answer.patterns
    )
    first = replace(
        finding("failure", made["failure"]),
        reasoning=answer.reasoning,
        patterns=patterns,
        trail=tuple(visit.trail),
    )
    second = replace(finding("success", made["success"]), reasoning=answer.reasoning)
    return (first, second) if made["success"] else (first,)


def _turns_left(turns: int) -> str:
    told = "\nThis is the last one: conclude with your edits." if turns == 1 else ""
    return f"<turns_left>{turns}</turns_left>{told}"
