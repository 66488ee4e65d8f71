"""The settings of environment `custom`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skillopt.envs.metrics import Extract


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Columns, scorer and text around the input; every key has a working default."""

    input: str = "input"
    """Column that the agent is shown, when there is no template."""
    answer: str = "answer"
    """Column with the reference: text, a number, or a list of acceptable ones."""
    id: str = "id"
    """Column with the id; a row without one is named after its content."""
    kind: str = "kind"
    """Column that groups rows in reports; may be absent."""
    scorer: str | Callable[..., object] = "exact"
    """exact, f1, contains, regex, numeric, choice, judge, `module:function`, or a function.

    A function gets `(answer, row)` and returns a number from 0 to 1, a bool, a `Score`, or a
    mapping with `hard` and perhaps `soft` and `feedback`; it may be async. A plain one is called
    in a worker thread, so that a slow one does not hold up the others.
    """
    rubric: str = ""
    """For judge: the rules by which the judge model calls an answer correct or incorrect."""
    instructions: str = ""
    """Fixed text that stands before the skill."""
    template: str = ""
    """The request, with `{column}` where a field goes; empty: the input as it is."""
    tolerance: float = 0.0
    """For numeric: how far off is still right, as a share of the reference."""
    choices: str | tuple[str, ...] = ()
    """For choice: the options, or the column with them (a list, or text split at `|`)."""
    case_sensitive: bool = False
    """For exact, contains and regex. `exact` ignores outer and repeated spaces in any case."""
    extract: Extract = "tag_or_line"
    """Judge the last `<answer>` or else the last line (tag_or_line), or the whole reply."""
    empty_ok: bool = False
    """Whether an empty reply is an answer, and scored; else it is asked again, then a failure."""
