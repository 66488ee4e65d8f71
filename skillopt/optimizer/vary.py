"""Makes further candidates from the evidence of one step."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest

from skillopt.core.proposal import ProposalSet, Selection
from skillopt.core.rollout import Batches, Rollout
from skillopt.core.seeds import shuffled


@dataclass(frozen=True, slots=True, kw_only=True)
class Vary:
    """Other selections of the same proposals, and selections from the attempts dealt anew.

    No selection is larger than the one that it varies, so each is bounded by the learning rate.
    """

    most: int
    """How many further candidates there may be."""
    shuffles: int = 0
    """How many of them come from the attempts dealt anew, which asks the optimizer again."""
    seed: int = 42

    @property
    def redone(self) -> int:
        """How often proposals are made from attempts dealt anew."""
        return min(self.shuffles, self.most)

    async def __call__(
        self, chosen: Selection, merged: ProposalSet, again: Callable[[int], Awaitable[Selection]]
    ) -> list[tuple[str, Selection]]:
        """Named selections, each different from the others; those dealt anew first.

        `again` chooses once more from the attempts, dealt anew with a seed.
        """
        dealt = [
            (f"shuffle {number}", await again(self.seed + number))
            for number in range(1, self.redone + 1)
        ]
        seen = {chosen.proposals, ()}
        kept: list[tuple[str, Selection]] = []
        for name, selection in chain(dealt, _subsets(chosen, merged)):
            if selection.proposals not in seen and len(kept) < self.most:
                seen.add(selection.proposals)
                kept.append((name, selection))
        return kept


@dataclass(frozen=True, slots=True)
class Dealt:
    """A batch in another order, which depends on the seed alone."""

    batch: AsyncIterable[Rollout]
    seed: int

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        """All of them, once the last one is there."""
        rollouts = [rollout async for rollout in self.batch]
        for rollout in shuffled(rollouts, self.seed):
            yield rollout


def _subsets(chosen: Selection, merged: ProposalSet) -> Iterator[tuple[str, Selection]]:
    """In turn: all but one, the least important left out first; one alone, the best first.

    Proposals go by their place among the chosen ones, from 1; the others come after them.
    """
    given = chosen.proposals
    rest = [proposal for proposal in merged.proposals if proposal not in given]
    without = [
        (f"without {at + 1}", Selection((*given[:at], *given[at + 1 :])))
        for at in reversed(range(len(given)))
    ]
    alone = [
        (f"only {at}", Selection((proposal,)))
        for at, proposal in enumerate((*given, *rest), start=1)
    ]
    for pair in zip_longest(without, alone):
        yield from (selection for selection in pair if selection is not None)


def deal(batches: Batches, seed: int) -> list[Dealt]:
    return [Dealt(batch, seed) for batch in batches]
