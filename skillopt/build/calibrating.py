"""The noise of a job measured, before or during its training."""

from __future__ import annotations

from skillopt.build.brief import Brief
from skillopt.build.judging import metric
from skillopt.build.models import preflight
from skillopt.build.training import open_training
from skillopt.config.secrets import Secrets
from skillopt.core.ports import Watcher
from skillopt.core.rollout import Evaluation
from skillopt.core.state import replay
from skillopt.errors import Unmeasurable
from skillopt.evaluation.calibration import Calibration, Terms, calibrated


def terms(brief: Brief, *, power: float = 0.8, effect: float = 0.05) -> Terms:
    """The error rates that a configuration asks for."""
    return Terms(
        alpha=brief.config.evaluation.alpha,
        decisions=brief.plan.decisions,
        power=power,
        effect=effect,
    )


def noise(brief: Brief, evaluation: Evaluation) -> Calibration | None:
    """What an evaluation tells about noise; None if no task was scored twice."""
    return calibrated(evaluation, metric(brief.config))


async def calibrate(brief: Brief, watch: Watcher, secrets: Secrets | None = None) -> Calibration:
    """Measure the skill that training would start or go on from, at least twice.

    Attempts are kept in the run directory, so that training does not pay for them again.
    """
    async with open_training(brief, watch, secrets) as training:
        run = training.run
        run.enter("calibration")
        if (target := training.models.get("target")) is not None:
            await preflight(target)
        state = replay(run.journal.record.events())
        skill = brief.skill if state is None else state.current.skill
        rounds = range(max(2, run.sampling.replicates))
        evaluation = await run.bench.measure(skill, "val", run.val, "calibrate", replicates=rounds)
    found = noise(brief, evaluation)
    if found is None:
        raise Unmeasurable(
            "no val task was scored twice, so there is nothing to compare. "
            "Finished work is kept: run the same command again."
        )
    return found
