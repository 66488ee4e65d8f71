"""The twelve fields of the simulated office."""

from __future__ import annotations

from skillopt.testing.simulator import papers, premises
from skillopt.testing.simulator.forms import Field

FIELDS: tuple[Field, ...] = (
    papers.DATE,
    papers.MONEY,
    papers.QUEUE,
    papers.NAME,
    papers.PHONE,
    papers.PRIORITY,
    premises.LENGTH,
    premises.ROOM,
    premises.FLAG,
    premises.WEEK,
    premises.BILLABLE,
    premises.CLOCK,
)
BY_LABEL: dict[str, Field] = {each.label: each for each in FIELDS}
