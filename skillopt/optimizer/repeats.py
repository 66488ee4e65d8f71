"""Drops proposals that repeat a disproved edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from skillopt.core.memory import Meaning, Memory, meaning
from skillopt.core.proposal import Finding, Proposal, ProposalSet


@dataclass(slots=True)
class RepeatFilter:
    """Lets through what is new, and remembers what it held back."""

    disproved: frozenset[Meaning]
    held: list[Proposal] = field(default_factory=list[Proposal])

    @classmethod
    def of(cls, memory: Memory) -> RepeatFilter:
        """What is held back is fixed by the memory at the start of a step."""
        return cls(memory.disproved)

    def findings(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The same findings without proposals that repeat a disproved one."""
        return tuple(replace(each, proposals=self._new(each.proposals)) for each in findings)

    def bundle(self, bundle: ProposalSet) -> ProposalSet:
        """The same bundle without them: a merge may have put one together again."""
        return replace(bundle, proposals=self._new(bundle.proposals))

    def _new(self, proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
        given = list(proposals)
        again = [each for each in given if meaning(each.edit) in self.disproved]
        self.held += again
        return tuple(each for each in given if each not in again)
