"""Divides `alpha` among the gate decisions of a run."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.core.state import State


def alpha_share(alpha: float, gates: Sequence[str], state: State) -> float:
    """The chance of a false accept that the next decision may have.

    What is left of `alpha` is shared equally among the gates (moves, by id) that are still to
    come; a move that made no candidate, or could not have accepted any, leaves its part to the
    others. `alpha` counts for the run
    as it was begun: with more epochs than then, it grows in proportion.
    """
    left = sum(gate not in state.closed for gate in gates)
    begun = len(gates) if state.gates == 0 else state.gates
    total = alpha * max(1.0, len(gates) / max(1, begun))
    return max(0.0, total - state.spent) / max(1, left)
