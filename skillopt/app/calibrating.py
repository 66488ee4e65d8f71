"""Measures the noise of scores, before or during training."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.analysis.calibration import Advice, Calibration, Terms, calibrated
from skillopt.app.gating import gates, halving_schedule, metric, own_gate
from skillopt.app.run_spec import RunSpec
from skillopt.app.training import open_training
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.ports import LooksRepeatedly, Watcher
from skillopt.core.rollout import Evaluation
from skillopt.core.state import replay
from skillopt.errors import Unmeasurable


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of scores, and the settings that it suggests."""

    measured: Calibration
    terms: Terms

    @property
    def advice(self) -> Advice:
        """Gate, replicates and val size that would detect a gain of the given size."""
        return self.measured.advice(self.terms)


def terms(spec: RunSpec, *, power: float = 0.8, effect: float = 0.05) -> Terms:
    """The error rates that a configuration asks for."""
    return Terms(
        alpha=spec.config.evaluation.alpha,
        decisions=len(spec.plan.gated(steps=True, guidance=not gates(spec.config)[1].forced)),
        shares=_shares(spec.config),
        power=power,
        effect=effect,
    )


def _shares(config: Config) -> int:
    gate, way = own_gate(config), halving_schedule(config)
    compared = 1 if way is None else way.most_compared(config.optimizer.candidates)
    return compared * (gate.looks if isinstance(gate, LooksRepeatedly) else 1)


def noise(spec: RunSpec, evaluation: Evaluation) -> Calibration | None:
    """What an evaluation tells about noise; None if no task was scored twice."""
    return calibrated(evaluation, metric(spec.config))


async def calibrate(
    spec: RunSpec,
    watch: Watcher,
    secrets: Secrets | None = None,
    *,
    effect: float = 0.05,
    power: float = 0.8,
) -> Noise:
    """Measure the skill that training would start or go on from, at least twice.

    Attempts are kept in the run directory, so that training does not pay for them again.
    """
    async with open_training(spec, watch, secrets) as training:
        run = training.run
        run.enter("calibration")
        await training.preflight_attempts()
        state = replay(run.sink.record.events())
        skill = spec.skill if state is None else state.current.skill
        rounds = range(max(2, run.replication.replicates))
        evaluation = await run.runner.measure(skill, "val", run.val, "calibrate", replicates=rounds)
    measured = noise(spec, evaluation)
    if measured is None:
        raise Unmeasurable(
            "no val task was scored twice, so the noise is unknown. "
            "Finished work is kept: run the same command again."
        )
    return Noise(measured, terms(spec, effect=effect, power=power))
