"""Whether one surface feature gives the answer away."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.evaluation.integrity import guesses
from skillopt.evaluation.integrity.findings import Finding, Item, closed, percent
from skillopt.evaluation.integrity.guesses import ALONE, Cue
from skillopt.evaluation.integrity.options import option_cues
from skillopt.evaluation.integrity.phrases import label_cues

_LEAST = 10
_SHOWN = 3
_NAME = "shortcuts"


def shortcuts(items: Sequence[Item]) -> Finding:
    """The strongest cues, judged by how often they are right and how much they score alone."""
    told = [item for item in items if item.gold is not None]
    if len(told) < _LEAST:
        return Finding(_NAME, "left out", f"{len(told)} items; {_LEAST} are needed to tell")
    cues = _cues(told)
    if not cues:
        return Finding(_NAME, "ok", f"no surface feature predicts the answer ({len(told)} items)")
    best = cues[0]
    sure = any(each.precision >= ALONE and each.giveaway for each in cues)
    found = f"{best.says}: right {best.hits} of {best.support} times, alone scores "
    found += f"{percent(best.score)} (without it {percent(best.base)})"
    advice = (
        "the skill can learn this shortcut instead of the task: balance the feature over right and "
        "wrong answers, or report scores with and without these items"
    )
    examples = tuple(
        f"{each.says}: {each.hits} of {each.support}, alone scores {percent(each.score)}"
        for each in cues[1:_SHOWN]
    )
    return Finding(_NAME, "bad" if sure else "look", found, advice, examples)


def _cues(items: Sequence[Item]) -> list[Cue]:
    golds = [item.gold for item in items if item.gold is not None]
    if all(gold.right is not None for gold in golds):
        found = option_cues(golds)
    elif closed(golds):
        found = label_cues(items)
    else:
        found = guesses.spans(items)
    return guesses.strongest(found)
