"""What the user has to train with: a key, a server on this machine, weights, or none yet."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt.api import local_models
from skillopt.app.machine import local_url, served_models
from skillopt.cli.models import fetch
from skillopt.cli.render import Screen
from skillopt.config.secrets import Secrets
from skillopt.core.extras import install_command
from skillopt.errors import ConfigError
from skillopt.model.weights import CATALOGUE, Weights, find

SMALL = """gradient:
  proposer: instruct               # short prompts: one instruction per group of failures
  samples: 2                       # instructions per group
  merge_mode: union                # merge without calling the optimizer

optimizer:
  select_mode: trial               # try each proposal on a few of its tasks before the gate sees it
  trial_tasks: 4
  learning_rate: 6                 # edits per step
  min_learning_rate: 6
  use_slow_update: false           # both need a capable optimizer
  use_meta_skill: false
"""

CAPABLE = """optimizer:
  learning_rate: 4                 # edits per step, at the start
  min_learning_rate: 2             # edits per step, at the end
"""


@dataclass(frozen=True, slots=True)
class Discovered:
    """A way to train: in words, and as settings."""

    words: str
    settings: Mapping[str, str]
    recipe: str = SMALL


@dataclass(frozen=True, slots=True)
class QuickstartOptions:
    """What the user said on the command line."""

    model: str | None
    yes: bool
    spend: bool

    @property
    def asked(self) -> bool:
        """Whether there is somebody to ask."""
        return sys.stdin.isatty() and not self.yes


def choose(
    secrets: Secrets,
    options: QuickstartOptions,
    screen: Screen,
    estimate: Callable[[Discovered], str],
) -> Discovered:
    """The first means that is there and that the user agrees to."""
    if options.model is None:
        means = _paid(secrets, options, screen, estimate) or _served()
        if means is not None:
            return means
    return _local(secrets, options, screen)


def _paid(
    secrets: Secrets,
    options: QuickstartOptions,
    screen: Screen,
    estimate: Callable[[Discovered], str],
) -> Discovered | None:
    if secrets.get("OPENAI_API_KEY") is None:
        return None
    means = Discovered(
        "OpenAI, with the key in OPENAI_API_KEY",
        {"backend": "openai_chat", "target": "gpt-5.5", "optimizer": "gpt-5.5"},
        CAPABLE,
    )
    if options.spend:
        return means
    if not options.asked:
        screen.tell("OPENAI_API_KEY is set but not used; add --spend to use it")
        return None
    question = f"Use OpenAI with the key in OPENAI_API_KEY? It costs money: {estimate(means)}."
    return means if screen.confirm(question) else None


def _served() -> Discovered | None:
    for name, port, model in served_models():
        settings = {
            "backend": "openai_compatible",
            "base_url": local_url(port),
            "target": model,
            "optimizer": model,
        }
        return Discovered(f"{model}, served by {name} on port {port}", settings)
    return None


def _local(secrets: Secrets, options: QuickstartOptions, screen: Screen) -> Discovered:
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "no model found: no API key, no model server on this machine, and llama.cpp is not "
            f"installed. Install it with {install_command('local')} (33 MB), or use simulated "
            "models: skillopt quickstart --sim"
        )
    here = [model.weights.name for model in local_models(secrets) if model.is_here]
    name = options.model or next(iter(here), CATALOGUE[0].name)
    if not name.endswith(".gguf") and find(name).name not in here:
        _fetch(find(name), options, screen)
    settings = {"backend": "local", "target": name, "optimizer": name}
    return Discovered(f"{Path(name).name}, on this machine's CPU", settings)


def _fetch(weights: Weights, options: QuickstartOptions, screen: Screen) -> None:
    name, size = weights.name, f"{weights.size / 1e9:.1f} GB"
    if not options.yes:
        if not options.asked:
            raise ConfigError(
                "no model found: no API key, no model server on this machine, no downloaded model. "
                f"Download one with `skillopt model fetch {name}` ({size}, licence "
                f"{weights.licence}) or with --yes, or use simulated models with --sim"
            )
        question = (
            f"Download {name} ({size}, licence {weights.licence})? It is kept for later runs."
        )
        screen.confirm(question, default=True, abort=True)
    fetch(name)
