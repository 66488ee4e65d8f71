"""Sleep: learns from the sessions of a coding agent, every night, and proposes what it learnt.

A user of `skillopt.api`: mined tasks are an environment, a night is a short training run.
"""

from __future__ import annotations
