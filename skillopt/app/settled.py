"""The settings of a run, with values that follow from the data."""

from __future__ import annotations

from dataclasses import replace

from skillopt.app.run_spec import RunSpec
from skillopt.config.schema import Config
from skillopt.engine.plan import Step


def settled(brief: RunSpec) -> Config:
    """The configuration with the size of the train split and the place of the run directory."""
    config = brief.config
    size = len(brief.world.environment.tasks("train"))
    return replace(
        config,
        train=config.train.model_copy(update={"train_size": size}),
        env=config.env.model_copy(update={"out_root": str(brief.out.resolve())}),
    )


def told(brief: RunSpec) -> dict[str, object]:
    """The settings under their flat names, and what follows from them and the data."""
    steps = sum(isinstance(move, Step) and move.epoch == 1 for move in brief.plan.moves)
    config = settled(brief)
    return {
        **config.flat(),
        "steps_per_epoch": steps,
        "batches_per_epoch": steps * config.train.accumulation,
        "samples_per_epoch": config.train.train_size,
    }
