"""Tests the scorer with answers that are known to be right or wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.analysis.integrity.findings import CheckFinding, few, label, percent, words
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.task import Gold
from skillopt.core.wording import counted
from skillopt.gates.statistics import interval, paired

_SOLVED = 0.95
_TOO_OFTEN, _OFTEN = 0.5, 0.2
"""Shares of wrong answers with full marks that are bad, and that are worth a look."""
_MOST = 0.5
_NONSENSE = "zxqv wrong vqxz"
_OPEN, _CLOSE = "<answer>", "</answer>"

Wrong: TypeAlias = Literal[
    "nonsense", "another item's answer", "another option", "other numbers", "another spelling"
]
Form: TypeAlias = Literal["case", "spaces", "punctuation"]


@dataclass(frozen=True, slots=True)
class ScorerTrial:
    """How an item's own scorer judged two known answers."""

    item: str
    gold: Score | None
    """None where no right answer is known."""
    empty: Score
    wrong: Mapping[Wrong, Score] = field(default_factory=dict[Wrong, Score])
    """Wrong answers of the right shape."""
    formed: Mapping[Form, Score] = field(default_factory=dict[Form, Score])
    """The right answer in another case, with more spaces, or with a full stop."""


def wrong_replies(gold: Gold | None, others: Sequence[Gold]) -> dict[Wrong, str]:
    """Replies that deserve nothing but look right; `others`: the golds of other items."""
    if gold is None or gold.reply is None:
        return {"nonsense": _NONSENSE}
    before, inside, after = _parts(gold.reply)
    found: dict[Wrong, str] = {"nonsense": f"{before}{_NONSENSE}{after}"}
    if gold.right is not None and len(gold.options) > 1:
        letter = chr(ord("A") + (gold.right + 1) % len(gold.options))
        return {**found, "another option": f"{before}{letter}{after}"}
    accepted = {" ".join(answer.casefold().split()) for answer in gold.answers}
    for other in others:
        text = " ".join(_parts(other.reply or "")[1].casefold().split())
        # An answer that holds the right one, or is held by it, may be right as well.
        near = any(text in answer or answer in text for answer in accepted)
        if other.reply and not near and label(other) != label(gold):
            found["another item's answer"] = other.reply
            break
    spelt = {_parts(other.reply or "")[1].strip(): other.reply for other in others}
    ours = {answer.strip() for answer in (*gold.answers, inside)}
    same = {words(answer) for answer in ours} - {()}
    for text, reply in spelt.items():
        if reply and text not in ours and words(text) in same:
            found["another spelling"] = reply
            break
    changed = re.sub(r"\d+", lambda number: str(7 * int(number[0]) + 13), inside)
    if changed != inside:
        found["other numbers"] = f"{before}{changed}{after}"
    return found


def formed_replies(gold: Gold | None) -> dict[Form, str]:
    """The right reply in other forms that mean the same."""
    if gold is None or gold.reply is None:
        return {}
    before, inside, after = _parts(gold.reply)
    found: dict[Form, str] = {"spaces": f"{before} {inside}  {after}"}
    found["punctuation"] = f"{before}{inside.rstrip()}.{after}"
    other = inside.lower() if inside.lower() != inside else inside.upper()
    return {**found, "case": f"{before}{other}{after}"} if other != inside else found


def _parts(reply: str) -> tuple[str, str, str]:
    """What stands before the answer, the answer, and what follows it."""
    end = reply.rfind(_CLOSE)
    start = reply.rfind(_OPEN, 0, max(end, 0))
    if start < 0:
        return "", reply, ""
    start += len(_OPEN)
    return reply[:start], reply[start:end], reply[end:]


def scorer(trials: Sequence[ScorerTrial]) -> CheckFinding:
    """Right answers must get full marks, and silence nothing."""
    name = "scorer"
    judged = [trial for trial in trials if trial.gold is not None]
    unfair = [trial for trial in judged if trial.gold and not trial.gold.passed]
    lavish = [trial for trial in trials if trial.empty.hard > 0]
    known = f"{len(judged) - len(unfair)} of {len(judged)} gold answers get full marks"
    found = f"{known if judged else 'no gold answer is known'}; "
    found += f"{len(trials) - len(lavish)} of {len(trials)} empty answers get 0"
    if not unfair and not lavish:
        found += _full_stop(trials)
        return _shaped(trials, found) or CheckFinding(
            name, "ok" if judged else "look", found, "" if judged else _UNKNOWN
        )
    advice = (
        "fix the scorer or these answers: right answers get too little or empty answers get points"
    )
    shown = [f"{trial.item}: gold gets {trial.gold.hard:.2f}" for trial in unfair if trial.gold]
    shown += [f"{trial.item}: an empty answer gets {trial.empty.hard:.2f}" for trial in lavish]
    return CheckFinding(name, "bad", found, advice, few(shown))


def _shaped(trials: Sequence[ScorerTrial], found: str) -> CheckFinding | None:
    """What wrong answers of the right shape tell; None where they get nothing."""
    name = "scorer"
    for kind in ("nonsense", "another item's answer", "another option", "other numbers"):
        tried = [(trial, trial.wrong[kind]) for trial in trials if kind in trial.wrong]
        passed = [trial for trial, score in tried if score.passed]
        share = sum(score.hard for _, score in tried) / len(tried) if tried else 0.0
        if share < _OFTEN:
            continue
        result = f"{found}; as a wrong answer, {kind} gets {share:.2f} on average"
        advice = f"fix the scorer: {kind} should score 0"
        shown = few([f"{trial.item}: {kind} gets full marks" for trial in passed])
        return CheckFinding(name, "bad" if share >= _TOO_OFTEN else "look", result, advice, shown)
    if spelt := [trial for trial in trials if _passed(trial, "another spelling")]:
        result = f"{found}; answers of items that differ only in case or punctuation pass as equal"
        advice = "spell them alike if they mean the same; otherwise make the scorer tell them apart"
        return CheckFinding(name, "look", result, advice, few([trial.item for trial in spelt]))
    for form in ("case", "spaces"):
        tried = [(trial, trial.formed[form]) for trial in trials if form in trial.formed]
        lost = [trial for trial, score in tried if not score.passed]
        if tried and len(lost) > _MOST * len(tried):
            result = f"{found}; {form} alone decides in {len(lost)} of {len(tried)} right answers"
            advice = f"correct if {form} matters for this task; otherwise make the scorer ignore it"
            return CheckFinding(name, "look", result, advice, few([trial.item for trial in lost]))
    return None


def _passed(trial: ScorerTrial, kind: Wrong) -> bool:
    return kind in trial.wrong and trial.wrong[kind].passed


def _full_stop(trials: Sequence[ScorerTrial]) -> str:
    """Said of scorers that take an answer to the letter, which is not wrong in itself."""
    tried = [trial.formed["punctuation"] for trial in trials if "punctuation" in trial.formed]
    lost = sum(not score.passed for score in tried)
    if lost <= _MOST * len(tried):
        return ""
    return f"; a full stop at the end makes {lost} of {len(tried)} right answers wrong"


_UNKNOWN = "no gold answer is known; test the scorer on a few right answers yourself"


def baseline(bare: Evaluation, first: Evaluation) -> CheckFinding:
    """The brief alone, compared with instructions and first skill, on the same items."""
    name = "bare prompt"
    alone = interval(score.hard for score in bare.scores.values())
    both = [task for task in bare.scores if task in first.scores]
    gain = paired(first.scores[task].hard - bare.scores[task].hard for task in both)
    found = f"{alone.mean:.3f} [{alone.low:.2f}, {alone.high:.2f}] on {counted(bare.n, 'val item')}"
    found += f"; with instructions and first skill {first.hard:.3f}"
    lost = len(bare.failures) + len(first.failures)
    found += f"; {counted(lost, 'attempt')} failed" if lost else ""
    if alone.mean >= _SOLVED:
        advice = (
            f"{percent(alone.mean)} without the skill: little is left to learn; use harder items"
        )
        return CheckFinding(name, "look", found, advice)
    if gain.high < 0:
        advice = "instructions or first skill lower the score: try env.skill_init: blank"
        return CheckFinding(name, "look", found, advice)
    return CheckFinding(name, "ok", found)
