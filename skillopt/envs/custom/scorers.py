"""The scorers: built-in rules by name, or a function of the user."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from skillopt.core.callables import identify
from skillopt.core.nearest import did_you_mean
from skillopt.core.rollout import Score
from skillopt.core.task import Gold
from skillopt.datasets.rows import Row
from skillopt.envs import metrics, patterns
from skillopt.envs.custom import columns, functions
from skillopt.envs.custom.settings import Settings
from skillopt.envs.judge import Judge
from skillopt.errors import ConfigError, DataError, EnvironmentFault, attributed_to


class Scorer(Protocol):
    """One way to judge an answer."""

    @property
    def identity(self) -> str:
        """Changes when the way of judging does, beyond what the settings say."""
        ...

    def check(self, row: Row) -> None:
        """Refuse a row against which no answer could be judged."""
        ...

    def gold(self, row: Row) -> Gold | None:
        """The right answer, with a bare text that earns full marks; None where it is not known."""
        ...

    async def score(self, answer: str, row: Row) -> Score:
        """Judge an answer, with feedback."""
        ...


def scorer_of(settings: Settings, brief: Callable[[Row], str]) -> Scorer:
    """The scorer that the settings ask for; `brief` is the text of a row's task."""
    match settings.scorer:
        case "judge":
            return Judged.of(settings, brief)
        case str() as name if ":" in name:
            return Called.of(functions.load(name), settings.answer)
        case str() as name:
            return Ruled(name, _rule_of(name, settings), settings)
        case function:
            return Called.of(function, settings.answer)


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """What a rule judges an answer against."""

    answers: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def gold(self) -> Gold:
        """The answers as they stand, where they are texts to be met."""
        return Gold(answers=self.answers, reply=self.answers[0])


class AnswerRule(Protocol):
    """How an answer compares with a reference."""

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """Why no answer could be judged against this reference; None if one can."""
        ...

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """The right answer; None where the reference only describes it."""
        ...

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """Score an answer, with feedback."""
        ...


@dataclass(frozen=True, slots=True)
class Ruled:
    """A rule, applied to the columns of the settings."""

    identity: str
    rule: AnswerRule
    settings: Settings

    def check(self, row: Row) -> None:
        """The reference must be of use to the rule."""
        if complaint := self.rule.complaint(self._reference(row)):
            raise DataError(f"{row.where}: {self.settings.answer!r}: {complaint}")

    def gold(self, row: Row) -> Gold | None:
        """Ask the rule."""
        return self.rule.gold(self._reference(row))

    async def score(self, answer: str, row: Row) -> Score:
        """Ask the rule."""
        return await self.rule.judge(answer, self._reference(row))

    def _reference(self, row: Row) -> ExpectedAnswer:
        choices = self.settings.choices
        options = columns.options(row, choices) if choices else ()
        return ExpectedAnswer(columns.answers(row, self.settings.answer), options)


@dataclass(frozen=True, slots=True)
class Called:
    """A function, which sees the answer and the whole row."""

    function: functions.Function
    answer: str
    """The column that feedback quotes where the function gives none; may be absent."""
    identity: str
    """Who the function was when it was given."""

    @classmethod
    def of(cls, function: functions.Function, answer: str) -> Called:
        """A scorer out of a function, as it is now."""
        return cls(function, answer, identify(function).text)

    def check(self, row: Row) -> None:
        """Only the function knows what it needs."""

    def gold(self, row: Row) -> Gold | None:
        """The answer column, where the row has one."""
        golds = columns.answers_to_quote(row, self.answer)
        return Gold(answers=golds, reply=golds[0]) if golds else None

    async def score(self, answer: str, row: Row) -> Score:
        """Call the function; whatever goes wrong in it is named after the task."""
        doing = f"{row.where}: scorer {functions.name_of(self.function)}"
        with attributed_to(EnvironmentFault, doing):
            score = await functions.call(self.function, answer, row.data)
        if score.feedback:
            return score
        golds = columns.answers_to_quote(row, self.answer)
        return metrics.verdict(answer, golds, score.hard, score.soft)


@dataclass(frozen=True, slots=True)
class Judged:
    """A model, which sees the task, the answer and the answer column, and goes by a rubric."""

    answer: str
    """The column with reference answers; may be absent."""
    brief: Callable[[Row], str]
    identity: str
    judge: Judge | None = None
    """None until the models of the run exist."""

    @classmethod
    def of(cls, settings: Settings, brief: Callable[[Row], str]) -> Judged:
        """A judge needs to be told what is right."""
        if not settings.rubric.strip():
            raise ConfigError(
                "env.rubric: env.scorer judge needs the rules by which an answer is correct"
            )
        rubric = hashlib.sha256(settings.rubric.encode()).hexdigest()[:12]
        return cls(settings.answer, brief, f"judge {rubric}")

    def check(self, row: Row) -> None:
        """Any row can be judged; a reference is not needed."""

    def gold(self, row: Row) -> Gold | None:
        """The answer column, where the row has one; it need not be a reply."""
        golds = columns.answers_to_quote(row, self.answer)
        return Gold(answers=golds) if golds else None

    async def score(self, answer: str, row: Row) -> Score:
        """Ask the judge; without a usable verdict there is no score."""
        if self.judge is None:
            raise EnvironmentFault(f"{row.where}: this scorer needs the judge model of a run")
        golds = columns.answers_to_quote(row, self.answer)
        verdict = await self.judge.ask(question=self.brief(row), answer=answer, references=golds)
        mark = float(verdict.word == "correct")
        return Score(mark, mark, f"{verdict.word}: {verdict.reason}")


@dataclass(frozen=True, slots=True)
class TextScorer:
    """Any text against any text, right or wrong."""

    right: Callable[[str, tuple[str, ...]], bool]

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """Any text can be compared."""

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """Any of the references."""
        return reference.gold

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """All or nothing."""
        return metrics.verdict(
            answer, reference.answers, float(self.right(answer, reference.answers))
        )


@dataclass(frozen=True, slots=True)
class Words:
    """Equality of normalised texts as hard score, overlap of words as soft score."""

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """Any text can be compared."""

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """Any of the references."""
        return reference.gold

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """Partial credit in the soft score only."""
        return metrics.judge_words(answer, reference.answers)


@dataclass(frozen=True, slots=True)
class Regex:
    """The reference is a pattern that must match somewhere in the answer."""

    case_sensitive: bool

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """Patterns must compile."""
        try:
            for pattern in reference.answers:
                re.compile(pattern)
        except re.error as error:
            return f"{error.pattern!r} is not a regular expression ({error})"
        return None

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """A pattern is not an answer."""

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """All or nothing."""
        right = False
        for pattern in reference.answers:
            right = right or await patterns.found(
                pattern, answer, case_sensitive=self.case_sensitive
            )
        return metrics.verdict(answer, reference.answers, float(right))


@dataclass(frozen=True, slots=True)
class Numeric:
    """The last number of the answer is the reference, or close enough."""

    tolerance: float

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """References must be numbers."""
        bad = next((each for each in reference.answers if metrics.number(each) is None), None)
        return None if bad is None else f"{bad!r} is not a number"

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """Any of the references."""
        return reference.gold

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """All or nothing."""
        golds = reference.answers
        right = metrics.numeric(answer, golds, self.tolerance)
        fault = "not a number" if metrics.number(answer) is None else "wrong answer"
        return metrics.verdict(answer, golds, float(right), fault=fault)


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer names the right option by letter or by text."""

    def complaint(self, reference: ExpectedAnswer) -> str | None:
        """References must name an option."""
        for gold in reference.answers:
            if metrics.option(gold, reference.options) is None:
                known = ", ".join(reference.options) if reference.options else "A to Z"
                return f"{gold!r} names none of the options ({known})"
        return None

    def gold(self, reference: ExpectedAnswer) -> Gold | None:
        """The option that the first reference names."""
        letter = metrics.option(reference.answers[0], reference.options)
        if letter is None or not reference.options:
            return reference.gold
        right = metrics.index_of(letter)
        text = reference.options[right]
        return Gold(answers=(text,), options=reference.options, right=right, reply=letter)

    async def judge(self, answer: str, reference: ExpectedAnswer) -> Score:
        """All or nothing."""
        named = metrics.option(answer, reference.options)
        right = metrics.choice(answer, reference.answers, reference.options)
        fault = "no option named" if named is None else "wrong answer"
        return metrics.verdict(answer, reference.answers, float(right), fault=fault)


def _rule_of(name: str, settings: Settings) -> AnswerRule:
    cased = settings.case_sensitive
    rules: dict[str, AnswerRule] = {
        "exact": TextScorer(lambda text, golds: metrics.equal(text, golds, case_sensitive=cased)),
        "f1": Words(),
        "contains": TextScorer(
            lambda text, golds: metrics.contains(text, golds, case_sensitive=cased)
        ),
        "regex": Regex(cased),
        "numeric": Numeric(settings.tolerance),
        "choice": Choice(),
    }
    if name not in rules:
        names = [*rules, "judge"]
        hint = did_you_mean(name, names) or f"known: {', '.join(names)}"
        raise ConfigError(f"env.scorer: no scorer {name!r}; {hint} (or write module:function)")
    return rules[name]
