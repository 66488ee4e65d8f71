"""The scorers: built-in rules by name, a function of the user, or a judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Protocol, cast

from skillopt.core.callables import identify
from skillopt.core.nearest import did_you_mean
from skillopt.core.rollout import Score
from skillopt.core.task import Gold
from skillopt.datasets.rows import Row
from skillopt.envs import metrics, processes
from skillopt.envs.custom import columns
from skillopt.envs.custom.columns import Settings
from skillopt.envs.functions import Function, call_function, load_function
from skillopt.envs.judge import Judge
from skillopt.errors import ConfigError, DataError, EnvironmentFault, attributed_to


class Scorer(Protocol):
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
            return Called.of(load_function("env.scorer", name), settings.answer)
        case str() as name if name in _RULES:
            return Ruled(name, _RULES[name], settings)
        case str() as name:
            names = [*_RULES, "judge"]
            hint = did_you_mean(name, names) or f"known: {', '.join(names)}"
            raise ConfigError(f"env.scorer: no scorer {name!r}; {hint} (or write module:function)")
        case function:
            return Called.of(function, settings.answer)


@dataclass(frozen=True, slots=True)
class _Expected:
    answers: tuple[str, ...]
    options: tuple[str, ...]
    settings: Settings


def _plain_gold(expected: _Expected) -> Gold | None:
    return Gold(answers=expected.answers, reply=expected.answers[0])


@dataclass(frozen=True, slots=True)
class _Rule:
    """How an answer compares with reference answers."""

    score: Callable[[str, _Expected], Awaitable[Score]]
    complaint: Callable[[_Expected], str | None] = lambda _: None
    """Why no answer could be judged against these references; None if one can."""
    gold: Callable[[_Expected], Gold | None] = _plain_gold
    """The right answer; None where the reference only describes it."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """A rule, applied to the columns of the settings."""

    identity: str
    rule: _Rule
    settings: Settings

    def check(self, row: Row) -> None:
        if complaint := self.rule.complaint(self._expected(row)):
            raise DataError(f"{row.where}: {self.settings.answer!r}: {complaint}")

    def gold(self, row: Row) -> Gold | None:
        return self.rule.gold(self._expected(row))

    async def score(self, answer: str, row: Row) -> Score:
        return await self.rule.score(answer, self._expected(row))

    def _expected(self, row: Row) -> _Expected:
        choices = self.settings.choices
        options = columns.options(row, choices) if choices else ()
        return _Expected(columns.answers(row, self.settings.answer), options, self.settings)


async def _exact(answer: str, expected: _Expected) -> Score:
    golds, cased = expected.answers, expected.settings.case_sensitive
    return metrics.verdict(answer, golds, metrics.equal(answer, golds, case_sensitive=cased))


async def _contains(answer: str, expected: _Expected) -> Score:
    golds, cased = expected.answers, expected.settings.case_sensitive
    return metrics.verdict(answer, golds, metrics.contains(answer, golds, case_sensitive=cased))


async def _f1(answer: str, expected: _Expected) -> Score:
    return metrics.judge_words(answer, expected.answers)


async def _regex(answer: str, expected: _Expected) -> Score:
    golds, cased = expected.answers, expected.settings.case_sensitive
    for pattern in golds:
        if await processes.found(pattern, answer, case_sensitive=cased):
            return metrics.verdict(answer, golds, 1)
    return metrics.verdict(answer, golds, 0)


def _no_pattern(expected: _Expected) -> str | None:
    try:
        for pattern in expected.answers:
            re.compile(pattern)
    except re.error as error:
        return f"{error.pattern!r} is not a regular expression ({error})"
    return None


async def _numeric(answer: str, expected: _Expected) -> Score:
    golds = expected.answers
    right = metrics.numeric(answer, golds, expected.settings.tolerance)
    fault = "not a number" if metrics.number(answer) is None else "wrong answer"
    return metrics.verdict(answer, golds, right, fault=fault)


def _no_number(expected: _Expected) -> str | None:
    bad = next((gold for gold in expected.answers if metrics.only_number(gold) is None), None)
    if bad is None:
        return None
    return (
        f"{bad!r} is not one number (1200.5, 1,000 and 1/2 are); for dates, times, lists and other "
        "texts, set env.scorer=exact"
    )


async def _choice(answer: str, expected: _Expected) -> Score:
    named = metrics.option(answer, expected.options)
    right = metrics.choice(answer, expected.answers, expected.options)
    fault = "no option named" if named is None else "wrong answer"
    return metrics.verdict(answer, expected.answers, right, fault=fault)


def _no_option(expected: _Expected) -> str | None:
    for gold in expected.answers:
        if metrics.option(gold, expected.options) is None:
            known = ", ".join(expected.options) if expected.options else "A to Z"
            return f"{gold!r} names none of the options ({known})"
    return None


def _chosen(expected: _Expected) -> Gold | None:
    letter = metrics.option(expected.answers[0], expected.options)
    if letter is None or not expected.options:
        return _plain_gold(expected)
    right = metrics.index_of(letter)
    text = expected.options[right]
    return Gold(answers=(text,), options=expected.options, right=right, reply=letter)


_RULES = {
    "exact": _Rule(_exact),
    "f1": _Rule(_f1),
    "contains": _Rule(_contains),
    "regex": _Rule(_regex, _no_pattern, gold=lambda _: None),
    "numeric": _Rule(_numeric, _no_number),
    "choice": _Rule(_choice, _no_option, _chosen),
}


@dataclass(frozen=True, slots=True)
class Called:
    """A function, which sees the answer and the whole row."""

    function: Function
    answer: str
    """The column that feedback quotes where the function gives none; may be absent."""
    identity: str
    """Who the function was when it was given."""

    @classmethod
    def of(cls, function: Function, answer: str) -> Called:
        return cls(function, answer, identify(function).text)

    def check(self, row: Row) -> None:
        """Only the function knows what it needs."""

    def gold(self, row: Row) -> Gold | None:
        golds = columns.answers_to_quote(row, self.answer)
        return Gold(answers=golds, reply=golds[0]) if golds else None

    async def score(self, answer: str, row: Row) -> Score:
        doing = f"{row.where}: scorer {_name_of(self.function)}"
        with attributed_to(EnvironmentFault, doing):
            score = await _call(self.function, answer, row.data)
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
        if not settings.rubric.strip():
            raise ConfigError(
                "env.rubric: env.scorer judge needs the rules by which an answer is correct"
            )
        rubric = hashlib.sha256(settings.rubric.encode()).hexdigest()[:12]
        return cls(settings.answer, brief, f"judge {rubric}")

    def check(self, row: Row) -> None:
        """Any row can be judged; a reference is not needed."""

    def gold(self, row: Row) -> Gold | None:
        golds = columns.answers_to_quote(row, self.answer)
        return Gold(answers=golds) if golds else None

    async def score(self, answer: str, row: Row) -> Score:
        if self.judge is None:
            raise EnvironmentFault(f"{row.where}: this scorer needs the judge model of a run")
        golds = columns.answers_to_quote(row, self.answer)
        verdict = await self.judge.ask(question=self.brief(row), answer=answer, references=golds)
        mark = float(verdict.word == "correct")
        return Score(mark, mark, f"{verdict.word}: {verdict.reason}")


def _name_of(function: Function) -> str:
    """Where a function is defined."""
    defined = _definition(function)
    return f"{defined.__module__}:{defined.__qualname__}"


def _definition(function: Function) -> Function:
    """What has a name and a source: a partial's function, a callable object's class."""
    inner = cast("partial[object]", function).func if isinstance(function, partial) else function
    return inner if hasattr(inner, "__qualname__") else type(inner)


async def _call(function: Function, answer: str, data: Mapping[str, object]) -> Score:
    """Ask a scorer, which gets a copy of the row and so cannot change the task.

    What it returns is read as a score; anything else is a TypeError or ValueError.
    """
    return _read_score(await call_function(function, answer, deepcopy(dict(data))))


def _read_score(result: object) -> Score:
    match result:
        case Score():
            return result
        case Real():
            return Score(_unit("hard", result), _unit("soft", result))
        case Mapping():
            return _from_mapping(cast("Mapping[str, object]", result))
        case _:
            message = (
                f"it returned a {type(result).__name__}; return a number from 0 to 1, "
                "a bool, a Score, or a mapping with 'hard'"
            )
            raise TypeError(message)


def _from_mapping(result: Mapping[str, object]) -> Score:
    if unknown := set(result) - {"hard", "soft", "feedback"}:
        message = f"it returned the keys {sorted(map(str, unknown))}; use hard, soft, feedback"
        raise ValueError(message)
    hard = _unit("hard", result.get("hard"))
    soft = _unit("soft", result["soft"]) if "soft" in result else hard
    return Score(hard, soft, str(result.get("feedback", "")))


def _unit(name: str, value: object) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        message = f"its {name} score is {value!r}; a score is a number from 0 to 1"
        raise ValueError(message)
    return float(value)
