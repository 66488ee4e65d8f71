"""The kinds of facts: how each is read from the event log, and the files that it leaves.

A kind of fact is a subclass of `Fact` and a function for its files. Other packages register theirs
as an entry point of the group `skillopt.facts`, or by `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeAlias

from skillopt.core.chat import Usage
from skillopt.core.events import Fact
from skillopt.core.rollout import Evaluation, Rollout
from skillopt.core.skill import Skill
from skillopt.errors import StoreError
from skillopt.store.run_history import HistoryEntry

GROUP = "skillopt.facts"
Json: TypeAlias = dict[str, object]
Spent: TypeAlias = Mapping[tuple[str, str, str], Usage]
"""By move, role and stage."""
Content: TypeAlias = Skill | Evaluation | Mapping[str, object] | Sequence[object]
"""A skill becomes its document, an evaluation the folder of its rollouts, anything else JSON."""
Files: TypeAlias = Iterable[tuple[str, Content]]
"""Names within the run directory, with contents."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a file may be made from besides its fact."""

    spent: Spent
    """The cost of the operation."""
    config: Mapping[str, object]
    rollouts: Callable[[str, Sequence[str]], Mapping[str, Rollout]]
    """Kept rollouts of a skill (by digest), by task."""


def _no_files(_fact: Fact, _entry: HistoryEntry, _sources: Sources) -> Files:
    return ()


@dataclass(frozen=True, slots=True)
class FactKind:
    """A kind of fact."""

    fact: type[Fact]
    files: Callable[[Any, HistoryEntry, Sources], Files] = _no_files
    """Its files; a later fact of the same operation replaces them."""

    @property
    def name(self) -> str:
        """The value of `type` in the event log."""
        return str(self.fact.__dataclass_fields__["type"].default)


_registered: dict[str, FactKind] = {}


def register(kind: FactKind) -> None:
    """Add a kind of fact in this process."""
    _registered[kind.name] = kind


def fact_kinds() -> Mapping[str, FactKind]:
    """All kinds of facts, by name."""
    return {**_installed(), **_registered}


@cache
def _installed() -> Mapping[str, FactKind]:
    from skillopt.store.projections import KINDS

    kinds = {kind.name: kind for kind in KINDS}
    for point in entry_points(group=GROUP):
        kind: object = point.load()
        if not isinstance(kind, FactKind):
            raise StoreError(f"the entry point {point.name!r} ({GROUP}) is no FactKind")
        kinds[kind.name] = kind
    return kinds
