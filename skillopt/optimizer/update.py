"""Chosen proposals to a candidate skill."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.edits import Applied, apply_edits
from skillopt.core.journal import Journal
from skillopt.core.proposal import Selection
from skillopt.core.skill import Skill
from skillopt.optimizer.locate import forgiving


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Applies the edits one after another, in order of priority."""

    journal: Journal

    def __call__(self, skill: Skill, chosen: Selection) -> Applied:
        """The candidate, with a report on every edit."""
        with self.journal.phase("update", len(chosen.proposals)):
            return apply_edits(skill, (each.edit for each in chosen.proposals), forgiving)
