"""Whether a run works ahead of its decisions."""

from __future__ import annotations

from skillopt.config.schema import Config


def speculates(config: Config) -> bool:
    """Whether the next step is begun while a gate decides."""
    return config.engine.speculate and not hindrance(config)


def hindrance(config: Config) -> str:
    """Why nothing is attempted ahead although it is wished for; empty: it is."""
    evaluation, limits = config.evaluation, config.limits
    for wrong, why in (
        (
            evaluation.gate == "always",
            "evaluation.gate: always takes every candidate, so every guess would be wrong",
        ),
        (
            any(each is not None for each in (limits.dollars, limits.tokens, limits.calls)),
            "wrong guesses would use up what a limit leaves for the run itself",
        ),
        (
            config.model.role("target").backend == "handoff",
            "people answer for the target, and should not be asked in vain",
        ),
        (config.env.workers < 2, "env.workers: 1 leaves no worker idle"),
    ):
        if wrong:
            return why
    return ""
