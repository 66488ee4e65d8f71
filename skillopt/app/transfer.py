"""One skill with several harnesses and models: how well it carries over."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.analysis.report import mean
from skillopt.app.environment import ENVIRONMENTS
from skillopt.app.evaluation import EvalResult
from skillopt.app.harness import HARNESSES
from skillopt.config.schema import Config, configure
from skillopt.errors import ConfigError, SkilloptError


@dataclass(frozen=True, slots=True)
class TransferCell:
    """One evaluation of the skill."""

    harness: str
    target: str
    """The name of the model."""
    result: EvalResult | None
    problem: str = ""
    """Why there is no result."""

    @property
    def score(self) -> float | None:
        """In the metric of the evaluation; None: there is no result."""
        return None if self.result is None else self.result.metric(self.result.whole)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score."""
        if self.result is None:
            return None
        found = mean(self.result.whole, self.result.metric)
        return found.low, found.high


@dataclass(frozen=True, slots=True)
class Transfer:
    cells: tuple[TransferCell, ...]

    @property
    def harnesses(self) -> list[str]:
        return list(dict.fromkeys(cell.harness for cell in self.cells))

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(cell.target for cell in self.cells))

    @property
    def metric(self) -> str:
        return next((cell.result.metric.name for cell in self.cells if cell.result), "hard")

    def cell(self, harness: str, target: str) -> TransferCell:
        return next(cell for cell in self.cells if (cell.harness, cell.target) == (harness, target))


async def measure_transfer(
    harnesses: Sequence[str],
    targets: Sequence[str],
    evaluate: Callable[[str, str], Awaitable[EvalResult]],
) -> Transfer:
    """Evaluate every combination, one after the other; one that fails does not end the others."""

    async def cell(harness: str, target: str) -> TransferCell:
        try:
            return TransferCell(harness, target, await evaluate(harness, target))
        except SkilloptError as error:
            return TransferCell(harness, target, None, str(error))

    cells = [await cell(harness, target) for target in targets for harness in harnesses]
    return Transfer(tuple(cells))


def settings_of_harness(name: str) -> dict[str, object]:
    """The settings that choose a harness, together with the backend that it brings along.

    Raises:
        ConfigError: There is no such harness.
    """
    if problem := HARNESSES.unknown(name):
        raise ConfigError(f"--harness {name}: {problem}")
    brings: object = getattr(HARNESSES.load(name), "backend", "")
    return {"env.harness": name, **({"model.target_backend": name} if brings else {})}


def config_for_harness(config: Config, harness: str, harnesses: Collection[str]) -> Config:
    """The configuration without keys of `env` that only the other harnesses know."""
    environment = config.env.name
    known = _setting_names(HARNESSES.load(harness))
    if environment and not ENVIRONMENTS.unknown(environment):
        known |= _setting_names(ENVIRONMENTS.load(environment))
    others = {name for other in harnesses for name in _setting_names(HARNESSES.load(other))}
    foreign = {f"env.{name}" for name in others - known}
    return configure({key: value for key, value in config.given.items() if key not in foreign})


def _setting_names(kind: object) -> set[str]:
    settings: object = getattr(kind, "Settings", None)
    if isinstance(settings, type) and dataclasses.is_dataclass(settings):
        return {field.name for field in dataclasses.fields(settings)}
    return set()


def cell_folder(out: str | Path, harness: str, target: str) -> Path:
    """Where a combination goes, below the folder that was given for all of them."""
    name = f"{harness}_{target}"
    plain = re.sub(r"[^\w.-]+", "-", name)
    # Two names may look alike without what a folder cannot be called.
    unlike = "" if plain == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Path(out) / f"{plain}{unlike}"
