"""What the scorer says to answers that are known to be right or empty, and a bare model's score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.core.rollout import Evaluation, Score
from skillopt.evaluation.integrity.findings import Finding, few, percent
from skillopt.evaluation.statistics import interval, paired

_SOLVED = 0.95


@dataclass(frozen=True, slots=True)
class Trial:
    """How an item's own scorer judged two known answers."""

    item: str
    gold: Score | None
    """None where no right answer is known."""
    empty: Score


def scorer(trials: Sequence[Trial]) -> Finding:
    """Right answers must get full marks, and silence nothing."""
    name = "scorer"
    judged = [each for each in trials if each.gold is not None]
    unfair = [each for each in judged if each.gold and not each.gold.passed]
    lavish = [each for each in trials if each.empty.hard > 0]
    known = f"{len(judged) - len(unfair)} of {len(judged)} gold answers get full marks"
    found = f"{known if judged else 'no gold answer is known'}; "
    found += f"{len(trials) - len(lavish)} of {len(trials)} empty answers get 0"
    if not unfair and not lavish:
        return Finding(name, "ok" if judged else "look", found, "" if judged else _UNKNOWN)
    advice = "mend the scorer or these answers: as it is, right answers lose or silence wins"
    shown = [f"{each.item}: gold gets {each.gold.hard:.2f}" for each in unfair if each.gold]
    shown += [f"{each.item}: an empty answer gets {each.empty.hard:.2f}" for each in lavish]
    return Finding(name, "bad", found, advice, few(shown))


_UNKNOWN = "try the scorer on a few right answers yourself: no gold answer is known to try"


def baseline(bare: Evaluation, first: Evaluation) -> Finding:
    """The brief alone, compared with instructions and first skill, on the same items."""
    name = "bare prompt"
    alone = interval(score.hard for score in bare.scores.values())
    both = [task for task in bare.scores if task in first.scores]
    gain = paired(first.scores[task].hard - bare.scores[task].hard for task in both)
    found = f"{alone.mean:.3f} [{alone.low:.2f}, {alone.high:.2f}] on {bare.n} val items"
    found += f"; with instructions and first skill {first.hard:.3f}"
    lost = len(bare.failures) + len(first.failures)
    found += f"; {lost} attempts failed" if lost else ""
    if alone.mean >= _SOLVED:
        advice = (
            f"{percent(alone.mean)} without any help: little is left to learn; use harder items"
        )
        return Finding(name, "look", found, advice)
    if gain.high < 0:
        advice = "instructions or first skill do harm: try env.skill_init: blank"
        return Finding(name, "look", found, advice)
    return Finding(name, "ok", found)
