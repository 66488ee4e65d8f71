"""What a proposer may use."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.optimizer.forms import EDITS, Form
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.prompts.ask import Asker


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerTools:
    """Given to `from_settings` of a proposer, after its settings."""

    asker: Asker
    """Asks the optimizer model; `asker.sink` reports progress."""
    form: Form = EDITS
    """The form of proposals: edits, suggestions or whole texts."""
    reminders: Reminders | None = None
    probing: Probing | None = None
