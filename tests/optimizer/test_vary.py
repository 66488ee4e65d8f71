"""Further candidates from the same evidence: different, bounded, reproducible."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.edits import Append
from skillopt.core.proposal import Proposal, ProposalSet, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.optimizer.vary import Vary, deal


def proposals(count: int, prefix: str = "rule") -> tuple[Proposal, ...]:
    return tuple(Proposal(Append(f"{prefix} {n}"), "failure") for n in range(1, count + 1))


async def never(seed: int) -> Selection:
    pytest.fail(f"asked again with {seed}")


@given(st.integers(0, 6), st.integers(0, 4), st.integers(1, 9))
def test_selections_are_different_bounded_and_not_more_than_wanted(
    chosen: int, rest: int, most: int
) -> None:
    first = Selection(proposals(chosen))
    merged = ProposalSet((*first.proposals, *proposals(rest, "other")))
    found = asyncio.run(Vary(most=most)(first, merged, never))
    sets = [selection.proposals for _, selection in found]
    assert len(found) <= most
    assert len({name for name, _ in found}) == len(found)
    assert len({*sets, first.proposals, ()}) == len(found) + (2 if chosen else 1)
    assert all(len(some) <= max(1, chosen) for some in sets)


async def test_all_but_one_and_one_alone_come_in_turn() -> None:
    first = Selection(proposals(3))
    found = await Vary(most=9)(
        first, ProposalSet((*first.proposals, *proposals(1, "other"))), never
    )
    assert [name for name, _ in found] == [
        "without 3",
        "only 1",
        "without 2",
        "only 2",
        "without 1",
        "only 3",
        "only 4",
    ]
    named = dict(found)
    one, two, three = first.proposals
    assert named["without 2"].proposals == (one, three)
    assert named["only 2"].proposals == (two,)


async def test_attempts_dealt_anew_come_first_and_with_a_seed_of_their_own() -> None:
    seeds: list[int] = []

    async def again(seed: int) -> Selection:
        seeds.append(seed)
        return Selection(proposals(2, f"seed {seed}"))

    first = Selection(proposals(2))
    found = await Vary(most=3, shuffles=2, seed=7)(first, ProposalSet(first.proposals), again)
    assert [name for name, _ in found] == ["shuffle 1", "shuffle 2", "without 2"]
    assert seeds == [8, 9]


async def test_what_comes_out_the_same_when_dealt_anew_is_no_second_candidate() -> None:
    first = Selection(proposals(1))

    async def again(seed: int) -> Selection:
        return first

    assert await Vary(most=3, shuffles=1)(first, ProposalSet(first.proposals), again) == []


class Batch:
    """Attempts that may be read as often as wanted."""

    def __init__(self, size: int) -> None:
        self.rollouts = [Rollout(task=f"t{n}", skill="s", outcome=Score(0, 0)) for n in range(size)]

    async def __aiter__(self):
        for each in self.rollouts:
            yield each


async def test_a_batch_dealt_anew_holds_the_same_attempts_in_another_order() -> None:
    batch = Batch(12)
    (once,) = deal([batch], 1)
    first = [each.task async for each in once]
    assert sorted(first) == sorted(each.task for each in batch.rollouts)
    assert first != [each.task for each in batch.rollouts]
    assert first == [each.task async for each in once]
    (other,) = deal([batch], 2)
    assert first != [each.task async for each in other]
