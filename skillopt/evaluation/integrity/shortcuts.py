"""Whether one feature of the text predicts the answer."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.evaluation.integrity import guesses
from skillopt.evaluation.integrity.findings import CheckFinding, Item, closed, percent, spoken
from skillopt.evaluation.integrity.guesses import ALONE, Cue
from skillopt.evaluation.integrity.options import option_cues
from skillopt.evaluation.integrity.phrases import label_cues

_LEAST = 10
_SHOWN = 3
_SEVERAL = 3
_NAME = "shortcuts"


def shortcuts(items: Sequence[Item], instructions: str = "") -> CheckFinding:
    """The strongest cues, judged by how often they are right and how much they score alone.

    A cue that the instructions state is the task and no shortcut. Where each of several answers
    has a word of its own, a table of words may be the task as well, which only the user can know.
    """
    told = [item for item in items if item.gold is not None]
    if len(told) < _LEAST:
        return CheckFinding(_NAME, "left out", f"{len(told)} items; {_LEAST} are needed to tell")
    found = _cues(told)
    cues = [each for each in found if not _stated(each, instructions)]
    if not cues:
        what = "only words with a rule in the instructions or first skill predict"
        nothing = what if found else "no surface feature predicts"
        return CheckFinding(_NAME, "ok", f"{nothing} the answer ({len(told)} items)")
    best = cues[0]
    table = _is_table(found, len(told))
    sure = any(each.precision >= ALONE and each.giveaway for each in cues) and not table
    found = f"{best.says}: right {best.hits} of {best.support} times, alone scores "
    found += f"{percent(best.score)} (without it {percent(best.base)})"
    advice = (
        "the skill can learn this shortcut instead of the task: balance the feature over right and "
        "wrong answers, or report scores with and without these items"
    )
    if table:
        advice = f"expected if the task is to look up a word's answer; otherwise {advice}"
    examples = tuple(
        f"{each.says}: {each.hits} of {each.support}, alone scores {percent(each.score)}"
        for each in cues[1:_SHOWN]
    )
    return CheckFinding(_NAME, "bad" if sure else "look", found, advice, examples)


def _stated(cue: Cue, instructions: str) -> bool:
    """Whether a line of the instructions has the word and its answer."""
    if not cue.word:
        return False
    lines = map(spoken, instructions.splitlines())
    return any(spoken(cue.word) in line and spoken(cue.answer) in line for line in lines)


def _is_table(cues: Sequence[Cue], n: int) -> bool:
    """Whether words decide nearly every item, each of several answers by its own."""
    answers = {each.answer for each in cues if each.word}
    covered = frozenset[int]().union(*(each.where for each in cues if each.word))
    right = all(each.precision >= ALONE for each in cues)
    return len(answers) >= _SEVERAL and len(covered) >= ALONE * n and right


def _cues(items: Sequence[Item]) -> list[Cue]:
    golds = [item.gold for item in items if item.gold is not None]
    if all(gold.right is not None for gold in golds):
        found = option_cues(golds)
    elif closed(golds):
        found = label_cues(items)
    else:
        found = guesses.spans(items)
    return guesses.strongest(found)
