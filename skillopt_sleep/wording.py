"""How Sleep says things to people: numbers with their nouns, and what skillopt says."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from skillopt.errors import Pending, SkilloptError

OURS: Final = {
    "model.target_backend": "backend",
    "model.target": "model",
    "model.optimizer_backend": "optimizer_backend",
    "model.optimizer": "optimizer_model",
    "model.base_url": "base_url",
    "model.target_base_url": "base_url",
    "model.optimizer_base_url": "base_url",
    "env.prompts": "prompts",
    "env.workers": "workers",
    "train.num_epochs": "epochs",
    "train.seed": "seed",
    "optimizer.learning_rate": "edit_budget",
    "optimizer.use_slow_update": "slow_update",
    "evaluation.alpha": "alpha",
    "evaluation.gate": "gate",
    "evaluation.gate_metric": "gate_metric",
    "evaluation.replicates": "replicates",
    "limits.tokens": "max_tokens_per_night",
    "limits.minutes": "max_minutes_per_night",
    "limits.dollars": "max_usd_per_night",
}
"""Settings of skillopt by the names that they have here."""
_SECTIONS: Final = r"(?:data|env|evaluation|gradient|judge|limits|model|optimizer|train)"
_SETTING: Final = re.compile(rf"(?<![\w./-]){_SECTIONS}\.[a-z]\w*(?![\w/])")
_ASIDE: Final = re.compile(rf" \(({_SETTING.pattern})\)")
_PROGRAM: Final = re.compile(r"model\.\w+_exec_path")
_ELSEWHERE: Final = re.compile(rf"{_SETTING.pattern}|skillopt (?:check|doctor|eval|resume|train)\b")
_REACHED: Final = re.compile(r"(limits\.\w+) is reached")
_CLAUSES: Final = re.compile(r"(?<=[.!?;])\s+")
_RESUMING: Final = ". Finished work is saved"
_HELP: Final = " What helps: "


def in_our_words(text: str) -> str:
    """What skillopt says, by the names of our settings and without advice on others.

    A limit of a run is a part of that of the night. How a single run is resumed is no advice.
    """
    if few := re.match(r"val has only (\d+) items", text):
        return f"only {few[1]} held-out tasks: a small gain cannot be proven with them"
    told = _ASIDE.sub(lambda found: found[0] if found[1] in OURS else "", text)
    told = _REACHED.sub(r"the share of \1 for this part of the night is used up", told)
    told = _PROGRAM.sub("program_path", told.partition(_RESUMING)[0])
    told = _SETTING.sub(lambda found: OURS.get(found[0], found[0]), told)
    what, helps, ways = told.partition(_HELP)
    first, *others = _CLAUSES.split(what)
    kept = [first, *(clause for clause in others if not _ELSEWHERE.search(clause))]
    useful = [way for way in re.split(r"; |\. ", ways) if way and not _ELSEWHERE.search(way)]
    return " ".join(kept).rstrip(";") + (f"{helps}{'; '.join(useful)}" if useful else "")


@contextmanager
def told_in_our_words() -> Generator[None, None, None]:
    """An error of skillopt leaves this block in our words."""
    try:
        yield
    except Pending:
        raise
    except SkilloptError as error:
        error.args = (in_our_words(str(error)),)
        raise
