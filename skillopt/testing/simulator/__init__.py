"""A SIMULATION of a target and an optimizer behind a real HTTP server on loopback.

The target works in a made-up office with twelve hidden conventions and is right only where the
skill states what a task needs; the optimizer learns the conventions from expected and actual
answers. No score measured against it says anything about a real model.
"""

from __future__ import annotations

from skillopt.testing.simulator.optimizer import SimulatedOptimizer
from skillopt.testing.simulator.server import Faults, Simulator, Stats
from skillopt.testing.simulator.target import SimulatedTarget
from skillopt.testing.simulator.world import initial_skill, make_items, stated_skill, write_data

__all__ = [
    "Faults",
    "SimulatedOptimizer",
    "SimulatedTarget",
    "Simulator",
    "Stats",
    "initial_skill",
    "make_items",
    "stated_skill",
    "write_data",
]
