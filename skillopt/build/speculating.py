"""Whether a run works ahead of its decisions."""

from __future__ import annotations

from skillopt.config.schema import Config


def speculates(config: Config) -> bool:
    """Whether the next step is begun while a gate decides."""
    return config.engine.speculate and not hindrance(config)


def hindrance(config: Config) -> str:
    """Why nothing is attempted ahead although it is wished for; empty: it is."""
    limits, target, workers = config.limits, config.model.role("target"), config.env.workers
    for wrong, why in (
        (workers < 2, "env.workers: 1 leaves no worker idle"),
        (
            config.evaluation.gate == "always",
            "evaluation.gate: always takes every candidate, so every guess would be wrong",
        ),
        (
            any(each is not None for each in (limits.dollars, limits.tokens, limits.calls)),
            "wrong guesses would use up what a limit leaves for the run itself",
        ),
        (target.backend == "handoff", "people answer for the target; they are not asked in vain"),
        (_is_tight(config), "the target's server has no room beside what the gate asks"),
    ):
        if wrong:
            return why
    return ""


def _is_tight(config: Config) -> bool:
    """Whether calls ahead may take turns at the target's server that the gate waits for."""
    target, workers = config.model.role("target"), config.env.workers
    if target.backend == "local":
        return config.model.local_parallel == 1
    if target.requests_per_minute is not None or target.tokens_per_minute is not None:
        return True
    return target.max_concurrency is not None and target.max_concurrency < workers + workers // 2
