"""What the user has to train with: a key, a server on this machine, weights, or none yet."""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from skillopt.cli.render import Screen
from skillopt.cli.weights import fetch
from skillopt.config.secrets import Secrets
from skillopt.core.extras import install_command
from skillopt.core.intake import Json
from skillopt.errors import ConfigError
from skillopt.model.weights import CATALOGUE, Folder, default_root, find

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


SERVERS = (("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000))
"""Servers that may run on this machine, with their usual ports."""
_PATIENCE = 0.5
"""Seconds; a server on this machine answers at once, or is not there."""


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
    wishes: QuickstartOptions,
    screen: Screen,
    estimate: Callable[[Discovered], str],
) -> Discovered:
    """The first means that is there and that the user agrees to."""
    if wishes.model is None:
        found = _paid(secrets, wishes, screen, estimate) or _served()
        if found is not None:
            return found
    return _embedded(secrets, wishes)


def _paid(
    secrets: Secrets,
    wishes: QuickstartOptions,
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
    if wishes.spend:
        return means
    if not wishes.asked:
        screen.tell("OPENAI_API_KEY is set but not used; add --spend to use it")
        return None
    question = f"Use OpenAI with the key in OPENAI_API_KEY? It costs money: {estimate(means)}."
    return means if click.confirm(question, default=False, err=True) else None


def _served() -> Discovered | None:
    for name, port in SERVERS:
        url = f"http://127.0.0.1:{port}/v1"
        if model := first_model(url):
            settings = {
                "backend": "openai_compatible",
                "base_url": url,
                "target": model,
                "optimizer": model,
            }
            return Discovered(f"{model}, served by {name} on port {port}", settings)
    return None


def first_model(url: str) -> str | None:
    """The first model that a server offers; None when there is no such server."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=_PATIENCE) as answer:  # noqa: S310
            listed: Json = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    match listed:
        case {"data": [{"id": str(model)}, *_]}:
            return model
        case _:
            return None


def _embedded(secrets: Secrets, wishes: QuickstartOptions) -> Discovered:
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "no model found: no API key, no model server on this machine, and llama.cpp is not "
            f"installed. Install it with {install_command('local')} (33 MB), or use simulated "
            "models: skillopt quickstart --sim"
        )
    folder = Folder(default_root(secrets.setting))
    name = wishes.model or next(
        (each.name for each in CATALOGUE if folder.has(each)), CATALOGUE[0].name
    )
    if not name.endswith(".gguf") and not folder.has(find(name)):
        _fetch(name, wishes)
    shown = Path(name).name
    settings = {"backend": "local", "target": name, "optimizer": name}
    return Discovered(f"{shown}, on this machine's CPU", settings)


def _fetch(name: str, wishes: QuickstartOptions) -> None:
    weights = find(name)
    size = f"{weights.size / 1e9:.1f} GB"
    if not wishes.yes:
        if not wishes.asked:
            raise ConfigError(
                "no model found: no API key, no model server on this machine, no downloaded model. "
                f"Download one with `skillopt model fetch {name}` ({size}, licence "
                f"{weights.licence}) or with --yes, or use simulated models with --sim"
            )
        question = (
            f"Download {name} ({size}, licence {weights.licence})? It is kept for later runs."
        )
        click.confirm(question, default=True, abort=True, err=True)
    fetch(name)
