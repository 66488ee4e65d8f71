"""What the results of search.py come to, as tables of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from statistics import fmean

RESAMPLES = 2000
BASELINE = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run of a trainer came to."""

    system: str
    world: str
    aside: bool
    seed: int
    budget: int
    share: float
    """True score on test as a share of what the perfect skill reaches."""
    true: float
    calls: int
    """Of the target, on train and val tasks."""
    calls_with_test: int
    optimizer_calls: int
    harmful: bool
    """Whether the skill holds a rule that spoils answers."""
    rules_missing: int
    stopped: bool
    """Whether it was ended because its budget was spent."""
    seconds: float

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Result:
        return cls(**{each.name: values[each.name] for each in fields(cls)})  # type: ignore[arg-type]


def report(results: Sequence[Result]) -> str:
    """A table for each world and budget, then the means over worlds."""
    lines: list[str] = []
    for (world, budget), some in _grouped(results):
        calls = f"{budget} target calls" if budget else "each with its defaults"
        aside = " (set aside)" if some[0].aside else ""
        lines += ["", f"{world}{aside}, {calls}, {_seeds(some)} seeds", _HEAD]
        lines += [_row(system, some) for system in _systems(some)]
    for aside in (False, True):
        for equal in (True, False):
            some = [r for r in results if r.aside == aside and bool(r.budget) == equal]
            if some:
                kind = "worlds set aside" if aside else "worlds for tuning"
                calls = "equal calls" if equal else "each with its defaults"
                worlds = len({result.world for result in some})
                lines += ["", f"ALL {worlds} {kind}, {calls}", _HEAD]
                lines += [_row(system, some) for system in _systems(some)]
    return "\n".join([*lines, "", _NOTE])


def summary(results: Sequence[Result]) -> list[dict[str, object]]:
    """The rows of the tables of worlds as values."""
    return [
        {
            "world": world,
            "budget": budget,
            "system": system,
            **_figures(_of(system, some)),
            "difference": _difference(system, some),
        }
        for (world, budget), some in _grouped(results)
        for system in _systems(some)
    ]


_HEAD = (
    f"{'':10}{'share':>6} {'95 %':^11}{'worst':>6}{'calls':>6}{'+test':>6}{'optim':>6}{'harm':>7}"
    "  against original"
)
_NOTE = """\
share: true score on test by a target without noise, 1 = the perfect skill; 95 %:
bootstrap over seeds; worst: of the seeds; calls: of the target on train and val,
as served; +test: with test tasks; optim: calls of the optimizer; harm: runs whose
skill holds a harmful rule; against original: mean difference on the same seeds."""


def _row(system: str, results: Sequence[Result]) -> str:
    mine = _of(system, results)
    shares = [result.share for result in mine]
    low, high = interval(_by_world(mine, shares))
    row = (
        f"{system[:10]:10}{fmean(shares):6.3f} {low:5.3f}-{high:5.3f}{min(shares):6.3f}"
        f"{_mean(r.calls for r in mine):6.0f}{_mean(r.calls_with_test for r in mine):6.0f}"
        f"{_mean(r.optimizer_calls for r in mine):6.0f}"
        f"{f'{sum(r.harmful for r in mine)}/{len(mine)}':>7}"
    )
    found = _difference(system, results)
    return row if found is None else f"{row}  {found[0]:+.3f} {found[1]:+.2f}..{found[2]:+.2f}"


def _figures(results: Sequence[Result]) -> dict[str, object]:
    shares = [result.share for result in results]
    return {
        "seeds": len(results),
        "share": fmean(shares),
        "share_interval": interval(_by_world(results, shares)),
        "worst": min(shares),
        "true": _mean(result.true for result in results),
        "calls": _mean(result.calls for result in results),
        "calls_with_test": _mean(result.calls_with_test for result in results),
        "optimizer_calls": _mean(result.optimizer_calls for result in results),
        "harmful": sum(result.harmful for result in results),
        "rules_missing": _mean(result.rules_missing for result in results),
        "seconds": _mean(result.seconds for result in results),
    }


def _difference(system: str, results: Sequence[Result]) -> tuple[float, float, float] | None:
    """How much better than the original on the same seeds, with an interval."""
    base = {_pair(result): result.share for result in _of(BASELINE, results)}
    mine = [result for result in _of(system, results) if _pair(result) in base]
    if system == BASELINE or not mine:
        return None
    gains = [result.share - base[_pair(result)] for result in mine]
    return (fmean(gains), *interval(_by_world(mine, gains)))


def interval(results: Mapping[tuple[str, int], Sequence[float]]) -> tuple[float, float]:
    """The middle 95 % of the means of resamples; seeds are drawn within worlds and budgets."""
    draw = Random(0)
    means = sorted(
        fmean(value for some in results.values() for value in draw.choices(some, k=len(some)))
        for _ in range(RESAMPLES)
    )
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def _pair(result: Result) -> tuple[str, int, int]:
    return result.world, result.budget, result.seed


def _by_world(
    results: Sequence[Result], values: Sequence[float]
) -> dict[tuple[str, int], list[float]]:
    groups: dict[tuple[str, int], list[float]] = {}
    for result, value in zip(results, values, strict=True):
        groups.setdefault((result.world, result.budget), []).append(value)
    return groups


def _grouped(results: Sequence[Result]) -> Iterator[tuple[tuple[str, int], list[Result]]]:
    groups: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result.world, result.budget), []).append(result)
    yield from groups.items()


def _of(system: str, results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.system == system]


def _systems(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.system for result in results))


def _seeds(results: Sequence[Result]) -> int:
    return len({result.seed for result in results})


def _mean(values: Iterator[float]) -> float:
    return fmean(values)
