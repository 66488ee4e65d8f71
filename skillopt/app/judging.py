"""Measures how far the judge of an environment agrees with people."""

from __future__ import annotations

from asyncio import Semaphore
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from skillopt.aio import map_all
from skillopt.analysis.agreement import kappa
from skillopt.app.environment import make_environment, with_models
from skillopt.app.models import check_backends, preflight, unwatched, with_backend_defaults
from skillopt.app.resources import open_resources
from skillopt.app.run_spec import RunParts, SuppliedParts, out_root, parts_of
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.ports import Watcher
from skillopt.datasets.rows import Row, shape
from skillopt.datasets.splits import Splits
from skillopt.envs.judge import Judge
from skillopt.errors import ConfigError, DataError, ModelError, Unmeasurable
from skillopt.gates.statistics import Interval, interval
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock

_YES: Final = {"1", "1.0", "true", "yes", "correct", "right"}
_NO: Final = {"0", "0.0", "false", "no", "incorrect", "wrong"}


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer that a person has labelled, and what the judge said."""

    where: str
    question: str
    answer: str
    label: str
    verdict: str
    """Empty: it gave no usable one."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    judge: str
    """The name of the model."""
    verdicts: tuple[str, ...]
    """What was compared: the judge's own words, or `X` and `not X` where people said yes or no."""
    answers: tuple[JudgedAnswer, ...]
    agreement: Interval
    """Share of the answers with a verdict on which both agree, with its 95 % interval."""
    kappa: Interval | None
    """Cohen's kappa; None: there was only one label."""
    spent: Usage

    @property
    def judged(self) -> tuple[JudgedAnswer, ...]:
        """Those with a verdict."""
        return tuple(each for each in self.answers if each.verdict)

    @property
    def unscored(self) -> tuple[JudgedAnswer, ...]:
        return tuple(each for each in self.answers if not each.verdict)

    @property
    def disagreements(self) -> tuple[JudgedAnswer, ...]:
        return tuple(each for each in self.judged if each.verdict != each.label)

    @property
    def confusion(self) -> Mapping[tuple[str, str], int]:
        """How often people said the first and the judge the second."""
        return Counter((each.label, each.verdict) for each in self.judged)


@dataclass(frozen=True, slots=True)
class _Labelled:
    row: Row
    question: str
    answer: str
    references: tuple[str, ...]
    label: str


async def check_judge(
    config: Config,
    rows: Sequence[Row],
    supplied: SuppliedParts | None = None,
    watch: Watcher = unwatched,
    secrets: Secrets | None = None,
) -> JudgeAgreement:
    """Ask the judge of an environment about answers that people have labelled.

    Verdicts are cached in the run directory, so that the same check again costs nothing. The data
    of the environment is not needed.
    """
    parts = _parts(config, supplied or SuppliedParts(), secrets)
    layout = Layout(out_root(parts, "eval", {"judge": config.env.name}))
    with RunLock(layout.root):
        async with open_resources(parts, layout, None, secrets, watch=watch) as resources:
            resources.cache.enter("judge check")
            models = resources.models()
            judge: object = getattr(with_models(parts.environment, models), "judge", None)
            if not isinstance(judge, Judge):
                raise ConfigError(f"environment {config.env.name!r} does not show its judge")
            labelled, verdicts = _read(rows, judge.verdicts)
            if "judge" not in parts.supplied.models:
                await preflight(models["judge"])
            answers = await _judged(judge, labelled, verdicts, parts.config.env.workers)
            spent = sum(resources.cache.spent().values(), Usage())
    judged = [each for each in answers if each.verdict]
    if not judged:
        raise Unmeasurable(f"the judge gave no usable verdict on any answer: {answers[0].reason}")
    return JudgeAgreement(
        judge=parts.config.model.role("judge").model,
        verdicts=verdicts,
        answers=tuple(answers),
        agreement=interval([float(each.verdict == each.label) for each in judged]),
        kappa=kappa([(each.label, each.verdict) for each in judged]),
        spent=spent,
    )


def _parts(config: Config, supplied: SuppliedParts, secrets: Secrets | None) -> RunParts:
    config = with_backend_defaults(config, secrets or Secrets.load())
    nothing = Splits((), ())
    environment = supplied.environment or make_environment(config, nothing)
    parts = parts_of(config, supplied, (), environment, nothing)
    if "judge" not in parts.roles:
        raise config.complaint("env.name", f"{config.env.name} asks no judge with these settings")
    check_backends(config, [role for role in parts.roles if role not in parts.supplied.models])
    return parts


async def _judged(
    judge: Judge, labelled: Sequence[_Labelled], verdicts: Sequence[str], workers: int
) -> list[JudgedAnswer]:
    room = Semaphore(workers)

    async def ask(each: _Labelled) -> JudgedAnswer:
        verdict, reason = "", ""
        async with room:
            try:
                found = await judge.ask(
                    question=each.question, answer=each.answer, references=each.references
                )
            except ModelError as error:
                reason = str(error)
            else:
                word = found.word
                verdict = word if word in verdicts else f"not {judge.verdicts[0]}"
                reason = found.reason
        where = each.row.where
        return JudgedAnswer(where, each.question, each.answer, each.label, verdict, reason)

    return await map_all(ask, labelled)


def _read(rows: Sequence[Row], words: tuple[str, ...]) -> tuple[list[_Labelled], tuple[str, ...]]:
    """The rows, and the labels that are compared."""
    if not rows:
        raise DataError("no labelled answers; give at least one")
    labels = [_text(row, ("label", "human"), "what a person said") for row in rows]
    known = {word.casefold(): word for word in words}
    if all(label.casefold() in known for label in labels):
        read, verdicts = [known[label.casefold()] for label in labels], words
    else:
        verdicts = words if len(words) == 2 else (words[0], f"not {words[0]}")
        read = [
            _yes_or_no(row, label, verdicts, words) for row, label in zip(rows, labels, strict=True)
        ]
    answer = ("answer", "predicted_answer", "response")
    labelled = [
        _Labelled(
            row,
            _text(row, ("question",), "the task as the judge is shown it"),
            _text(row, answer, "the answer to judge", empty=True),
            _references(row),
            label,
        )
        for row, label in zip(rows, read, strict=True)
    ]
    _check_once(labelled)
    return labelled, verdicts


def _check_once(labelled: Sequence[_Labelled]) -> None:
    """Refuse answers that are given twice: both have one verdict, and would count as two."""
    seen: dict[tuple[object, ...], Row] = {}
    for each in labelled:
        key = each.question, each.answer, each.references
        if key in seen:
            raise DataError(
                f"{each.row.where}: the same answer as {seen[key].where}; give each answer once, "
                "with the label that people agree on"
            )
        seen[key] = each.row


def _yes_or_no(row: Row, label: str, verdicts: Sequence[str], words: Sequence[str]) -> str:
    said = label.casefold()
    if said in _YES or said == words[0].casefold():
        return verdicts[0]
    if said in _NO or said in {word.casefold() for word in words[1:]}:
        return verdicts[1]
    allowed = ", ".join(map(repr, words))
    raise DataError(f"{row.where}: the label {label!r} is none of {allowed}, nor yes or no")


def _text(row: Row, columns: Sequence[str], what: str, *, empty: bool = False) -> str:
    for column in columns:
        value = row.data.get(column)
        if isinstance(value, str | int | float) and (empty or str(value).strip()):
            return str(value).strip() if not isinstance(value, bool) else str(value).lower()
    raise DataError(f"{row.where}: no field {columns[0]!r} ({what})")


def _references(row: Row) -> tuple[str, ...]:
    for column in ("references", "gold_answers", "reference"):
        value = row.data.get(column)
        if value is None or value == "":
            continue
        many = cast("list[object]", value) if isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float) for each in many):
            found = shape(row.data.get(column))
            raise DataError(
                f"{row.where}: {column!r} must be text or a list of texts, found {found}"
            )
        return tuple(map(str, many))
    return ()
