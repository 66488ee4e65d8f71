from __future__ import annotations

import pytest
from support import Seen

from skillopt.core.chat import Request
from skillopt.core.edits import Append, Replace
from skillopt.core.memory import Memory
from skillopt.core.proposal import Proposal, ProposalSet, Selection
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import ModelError
from skillopt.model.scripted import Scripted
from skillopt.optimizer.learning_rate import Constant, Cosine, Linear
from skillopt.optimizer.parts import Evidence
from skillopt.optimizer.selection import Select
from skillopt.optimizer.update import Patch
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

MERGED = ProposalSet(
    tuple(Proposal(Append(str(n)), "failure", tuple(f"t{i}" for i in range(n))) for n in range(4))
)


def sink() -> EventSink:
    return EventSink(MemoryLog(), Seen())


async def selected(reply: str, budget: int) -> Selection:
    select = Select(asker=Asker(Scripted(lambda _: reply), Library(), sink()))
    return await select(Skill.parse("a"), MERGED, Memory(), budget=budget, evidence=Evidence())


async def test_the_ranking_decides_order_and_unknown_or_repeated_indices_are_ignored() -> None:
    chosen = await selected('{"reasoning": "r", "selected_indices": [3, 9, 3, -1, 0, 1]}', 2)
    assert [each.edit for each in chosen.proposals] == [Append("3"), Append("0")]
    assert (chosen.indices, chosen.reasoning, chosen.problem) == ((3, 0), "r", "")


async def test_within_the_budget_nothing_is_asked_and_budget_zero_chooses_nothing() -> None:
    def never(_: Request) -> str:
        raise ModelError("asked")

    select = Select(asker=Asker(Scripted(never), Library(), sink()))
    for budget in (4, 5):
        chosen = await select(
            Skill.parse("a"), MERGED, Memory(), budget=budget, evidence=Evidence()
        )
        assert chosen.proposals == MERGED.proposals
    nothing = await select(Skill.parse("a"), MERGED, Memory(), budget=0, evidence=Evidence())
    assert nothing.proposals == ()
    assert [each.proposal for each in nothing.dropped] == list(MERGED.proposals)


async def test_without_a_usable_ranking_support_decides_and_it_is_said() -> None:
    chosen = await selected("no", 2)
    assert [each.edit for each in chosen.proposals] == [Append("3"), Append("2")]
    assert "no usable answer" in chosen.problem


@pytest.mark.parametrize("schedule", [Linear(4, 2), Cosine(4, 2)])
def test_rates_fall_from_high_to_low(schedule: Linear | Cosine) -> None:
    assert [schedule(step, 4) for step in range(1, 5)] == [4, 3, 2, 2]
    assert [schedule(step, 8) for step in range(1, 9)] == [4, 4, 3, 3, 3, 2, 2, 2]
    assert schedule(1, 1) == 4


def test_a_constant_rate_stays() -> None:
    assert [Constant(3)(step, 9) for step in range(1, 10)] == [3] * 9


async def test_an_update_reports_on_every_edit_and_finds_targets_that_were_not_quoted_exactly() -> (
    None
):
    edits = [Replace("write DATES as iso", "- Write dates as YYYY-MM-DD."), Replace("absent", "x")]
    chosen = Selection(tuple(Proposal(edit, "failure") for edit in edits))
    skill = Skill.parse("# Job\n\n- Write dates as ISO.\n- Be brief.\n")
    applied = await Patch(sink=sink())(skill, chosen, Memory())
    assert applied.skill is not None
    assert applied.skill.render() == "# Job\n\n- Write dates as YYYY-MM-DD.\n- Be brief.\n"
    assert [placed.status for placed in applied.report] == [
        "applied_replace",
        "skipped_replace_target_not_found",
    ]
    assert applied.report[0].how == "normalised"
