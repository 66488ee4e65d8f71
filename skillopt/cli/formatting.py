"""Formats numbers and outcomes as text."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillopt.analysis.report import mean
from skillopt.api import is_simulated
from skillopt.app.wording import (
    ACTION_WORDS,
    action_of,
    became_words,
    consumed,
    count,
    dollars,
    duration,
    outcome_words,
    paid,
    short,
    some,
    spelt,
    spread,
    train_score,
)
from skillopt.core.events import Action, Decision, Fact
from skillopt.core.facts import Drafted
from skillopt.core.proposal import Size
from skillopt.core.rollout import Evaluation
from skillopt.core.rules import Worth
from skillopt.gates.compared import Metric

__all__ = [
    "ACTIONS",
    "became",
    "candidates_raced",
    "consumed",
    "count",
    "dollars",
    "duration",
    "edits",
    "gain",
    "graded",
    "growth",
    "model_name",
    "outcome",
    "paid",
    "quoted",
    "rated",
    "repeats",
    "sample",
    "scored",
    "short",
    "some",
    "spelt",
    "spread",
    "train_score",
]

_COLOURS: dict[Action, str] = {
    "accept_new_best": "green",
    "accept": "green",
    "reject": "yellow",
    "force_accept": "green",
    "skip_no_patches": "dim",
    "skip_no_change": "dim",
    "skip_no_rewrite": "dim",
    "skip_too_long": "yellow",
    "skip_screened": "yellow",
    "skip_no_gain": "dim",
}
ACTIONS = {action: (words, _COLOURS[action]) for action, words in ACTION_WORDS.items()}
"""What became of a step, with the colour to say it in."""


def outcome(action: Action, decision: Decision | None) -> tuple[str, str]:
    """What became of a candidate, with the colour to say it in."""
    return outcome_words(action, decision), _COLOURS[action]


def became(fact: Fact) -> tuple[str, str]:
    """What became of a move, with the colour to say it in."""
    action = action_of(fact)
    return became_words(fact), "dim" if action is None else _COLOURS[action]


def rated(decision: Decision | None) -> str:
    """The gate's number for a candidate; `<= 0.475` when it was not measured to the end."""
    if decision is None:
        return ""
    return f"{'<= ' if decision.bounded else ''}{decision.candidate.value:.3f}"


def graded(evaluation: Evaluation) -> bool:
    """Whether the soft score says more than the hard one."""
    return any(score.hard != score.soft for score in evaluation.scores.values())


def scored(evaluation: Evaluation, metric: Metric) -> str:
    """`hard 0.475 [0.33, 0.62], n 40`."""
    return f"{metric.name} {spread(mean(evaluation, metric))}, {sample(evaluation)}"


def sample(evaluation: Evaluation) -> str:
    """`n 40`, and failed attempts if there were any."""
    lost, own = len(evaluation.failures), len(evaluation.own_failures)
    parts = (
        f"n {evaluation.n}",
        count(lost, "failure") if lost else "",
        f"{count(own, 'failure')} with this skill only, counted as 0" if own else "",
    )
    return ", ".join(filter(None, parts))


def gain(worth: Worth) -> str:
    """`+0.125 [-0.03, +0.25]`."""
    return f"{worth.gain:+.3f} [{worth.low:+.2f}, {worth.high:+.2f}]"


def edits(fact: Drafted) -> str:
    """How many edits of a step changed the text, out of those that were chosen: `3`, `2 of 3`.

    A body that was written anew counts the proposals that went into it: `rewrite (4)`.
    """
    leading = fact.draft.leading
    if leading.rewritten is not None:
        return f"rewrite ({len(leading.chosen.proposals)})"
    applied, chosen = sum(edit.applied for edit in leading.report), len(leading.report)
    return str(applied) if applied == chosen else f"{applied} of {chosen}"


def repeats(fact: Drafted) -> str:
    """How many proposals of a step repeated a disproved one; empty when none did."""
    dropped = len(fact.draft.repeats)
    return f"dropped {count(dropped, 'repeat')} of rejected edits" if dropped else ""


def candidates_raced(fact: Drafted) -> str:
    """How many candidates a step had and which one was put to the gate; empty for one alone."""
    candidates = len(fact.draft.candidates)
    if candidates == 1:
        return ""
    best = f"best of {candidates}: {fact.draft.leading.name}"
    return best if fact.decision else f"{candidates} candidates"


def growth(size: Size) -> str:
    """Estimated tokens before and after: `312 -> 358 (+46)`."""
    shortened = f", {size.drafted:,} before shortening" if size.after != size.drafted else ""
    return f"{size.before:,} -> {size.after:,} ({size.added:+,}{shortened})"


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))


def model_name(name: str, mark: str = "simulated") -> str:
    """The name of a model, marked if it is simulated."""
    return f"{name} ({mark})" if is_simulated(name) else name
