"""Whether a run makes attempts before they are needed."""

from __future__ import annotations

from skillopt.config.schema import Config


def speculates(config: Config) -> bool:
    return config.engine.speculate and not hindrance(config)


def hindrance(config: Config) -> str:
    """Why nothing is attempted before it is needed, even where that is certain; empty: it is."""
    limits, target, workers = config.limits, config.model.role("target"), config.env.workers
    for wrong, why in (
        (workers < 2, "with env.workers: 1 there is no idle worker"),
        (
            any(limit is not None for limit in (limits.dollars, limits.tokens, limits.calls)),
            "unused speculative attempts would use up the budget of the run",
        ),
        (
            target.backend == "handoff",
            "with backend handoff, people would answer prompts that may not be used",
        ),
        (_is_tight(config), "the target's server has no capacity beyond what the gate uses"),
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
