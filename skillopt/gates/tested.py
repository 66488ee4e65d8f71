"""Gates with a statistical test.

Both gates limit the rate of false accepts if no candidate has an effect. They compare scores
only; a bonus for the text itself (`Metric.bonus`) is no evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from typing import ClassVar

from typing_extensions import Self

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import EQUAL, Evaluation, Score
from skillopt.core.wording import counted
from skillopt.gates.compared import MetricSettings, RankedByMetric
from skillopt.gates.statistics import sign_flip, wealth

_MOST_WINS = 1000
"""Wins that are enough at any level that makes sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSettings(MetricSettings):
    alpha: float = 0.05
    paired_test: str = "exact"
    inconclusive: str = "reject"
    replicates: int = 1
    max_replicates: int = 3

    @property
    def looks(self) -> int:
        """How often a gate looks at a candidate: after its attempts, and after each replicate."""
        added = 0 if self.inconclusive == "reject" else self.max_replicates - self.replicates
        return max(0, added) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(RankedByMetric):
    """Accept what a sign-flip test over the same tasks finds better.

    For scores of 0 and 1 that is McNemar's test. The exact one holds the stated rate always, the
    mid-p one on average. It asks only for the end, so any order of tasks is fair.
    """

    Settings: ClassVar[type[LevelSettings]] = LevelSettings

    alpha: float = 0.05
    looks: int = 1
    """How often the evidence may be looked at, as replicates are bought; each look has its part."""
    mid: bool = False
    """Whether to go by the mid-p value instead of the exact one."""

    @classmethod
    def from_settings(cls, settings: LevelSettings) -> Self:
        mid = settings.paired_test == "mid_p"
        return cls(settings.metric, alpha=settings.alpha, looks=settings.looks, mid=mid)

    def looser(self, level: float) -> Iterator[str]:
        """The mid-p value, and one look only."""
        if not self.mid:
            wins = replace(self, mid=True).fewest_wins(level)
            yield f"evaluation.paired_test mid_p ({wins} wins)"
        if self.looks > 1:
            wins = replace(self, looks=1).fewest_wins(level)
            yield f"evaluation.inconclusive reject ({wins} wins)"

    def fewest_wins(self, level: float) -> int | None:
        """As many as make a sign test over nothing but wins sure enough."""
        bar = level / self.looks
        return _fewest(lambda wins: sign_flip([1.0] * wins, mid=self.mid) <= bar)

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        """Nothing, if full marks on all tasks left would prove nothing."""
        gains = self.differences(candidate, incumbent)
        most = [*gains, *(self.room(task, incumbent.evaluation) for task in left)]
        bar = level / self.looks
        p = sign_flip(most, mid=self.mid)
        worse = fsum(most) <= 0
        if p <= bar and not worse:
            return None
        reason = f"{_count(gains)}, p cannot fall below {p:.2g} > {bar:.2g}, {len(left)} tasks left"
        return GateVerdict("not_better" if worse else "inconclusive", reason)

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        """Better only at the level; no better when the mean says so; else nobody knows."""
        gains = self.differences(candidate, incumbent)
        bar = level / self.looks
        p = sign_flip(gains, mid=self.mid)
        reason = f"{_count(gains)}, p {p:.2g}"
        if sum(gains) <= EQUAL * len(gains):
            return GateVerdict("not_better", reason)
        if p <= bar:
            return GateVerdict("better", f"{reason} <= {bar:.2g}")
        return GateVerdict("inconclusive", f"{reason} > {bar:.2g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential(RankedByMetric):
    """A sequential test by betting: accept as soon as the e-value reaches 1 / level.

    Anytime-valid: it may be looked at after every task, and more may be bought, at no price. Tasks
    are bet on in an order that depends on the text alone, never on how they went.
    """

    Settings: ClassVar[type[LevelSettings]] = LevelSettings

    alpha: float = 0.05
    replicates: int = 1
    """Attempts per task that are made in any case; they make one bet."""
    rounds: int = 1
    """The most bets on a task: that one, and one for each replicate that may be bought."""

    @classmethod
    def from_settings(cls, settings: LevelSettings) -> Self:
        return cls(
            settings.metric,
            alpha=settings.alpha,
            replicates=settings.replicates,
            rounds=settings.looks,
        )

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> list[str]:
        return bet_order(tasks, skill)

    def fewest_wins(self, level: float) -> int | None:
        """As many as bring enough bets that are won, if every bet on them is."""
        bets = _fewest(lambda bets: wealth([1.0] * bets)[-1] * level >= 1)
        return None if bets is None else ceil(bets / self.rounds)

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        """Worse, if that is proven; nothing, if full marks on all tasks left would not pay."""
        so_far = self.judge(candidate, incumbent, level=level)
        if so_far.finding == "better":
            return None
        bets = list(self._bets(candidate, incumbent))
        if _first(wealth([-bet for bet in bets]), level) is not None:
            return GateVerdict("not_better", f"{so_far.reason}, {counted(len(left), 'task')} left")
        most = [*bets, *(self.room(task, incumbent.evaluation) for task in left)]
        if _first(wealth(most), level) is not None:
            return None
        cannot = f"the e-value cannot become high enough on the {counted(len(left), 'task')} left"
        finding = "not_better" if fsum(most) <= 0 else "inconclusive"
        return GateVerdict(finding, f"{_count(bets)}, {cannot}")

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        """Bet on both sides; whichever first wins enough is right."""
        bets = list(self._bets(candidate, incumbent))
        for_it, against = wealth(bets), wealth([-bet for bet in bets])
        wins, loses = _first(for_it, level), _first(against, level)
        bar = f"{1 / level:.4g}" if level else "infinity"
        if wins is not None and (loses is None or wins < loses):
            reason = f"{_count(bets[: wins + 1])}, e-value {for_it[wins]:.3g}"
            return GateVerdict("better", f"{reason} >= {bar}")
        if loses is not None:
            reason = f"{_count(bets[: loses + 1])}, e-value against it {against[loses]:.3g}"
            return GateVerdict("not_better", f"{reason} >= {bar}")
        reason = f"{_count(bets)}, e-value {max(for_it, default=1.0):.3g}"
        if sum(bets) <= EQUAL * len(bets):
            return GateVerdict("not_better", reason)
        return GateVerdict("inconclusive", f"{reason} < {bar}")

    def _bets(self, candidate: Measured, incumbent: Measured) -> Iterator[float]:
        ours, theirs = candidate.evaluation.replicates, incumbent.evaluation.replicates
        first = _over(ours[: self.replicates]).beside(_over(theirs[: self.replicates]))
        later = zip(ours[self.replicates :], theirs[self.replicates :], strict=False)
        for new, old in [(first[0].scores, first[1].scores), *later]:
            for task in bet_order(new.keys() & old.keys(), candidate.evaluation.skill):
                yield self.metric.difference(new[task], old[task])


def bet_order(tasks: Iterable[str], skill: str) -> list[str]:
    """Tasks in an order of their own for every skill, which no outcome can influence."""

    def place(task: str) -> bytes:
        return hashlib.sha256(f"{skill}\0{task}".encode()).digest()

    return sorted(tasks, key=place)


def _over(rounds: tuple[Mapping[str, Score], ...]) -> Evaluation:
    return Evaluation.over("", "val", rounds, {})


def _fewest(enough: Callable[[int], bool]) -> int | None:
    return next((number for number in range(1, _MOST_WINS) if enough(number)), None)


def _first(sums: list[float], level: float) -> int | None:
    return next((at for at, owned in enumerate(sums) if owned * level >= 1), None)


def _count(differences: list[float]) -> str:
    gained = sum(difference > EQUAL for difference in differences)
    lost = sum(difference < -EQUAL for difference in differences)
    return f"{gained} better, {lost} worse of {len(differences)}"
