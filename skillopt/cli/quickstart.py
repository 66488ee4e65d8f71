"""`skillopt quickstart`: a first run on a small example task, with real or simulated models."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from rich.text import Text

from skillopt.api import diff_run, estimate, local_models
from skillopt.app.machine import local_url, served_models
from skillopt.cli.arguments import CommandLine, Session
from skillopt.cli.estimate import one_line
from skillopt.cli.formatting import quoted
from skillopt.cli.models import fetch
from skillopt.cli.render import Screen
from skillopt.cli.report import next_commands
from skillopt.cli.running import Command
from skillopt.cli.show import coloured
from skillopt.cli.train import conduct, insist, summarise
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.extras import install_command
from skillopt.core.intake import CONFIG_BYTES, read_file
from skillopt.core.paths import not_a_folder
from skillopt.core.starting import module_command
from skillopt.errors import ConfigError, SkilloptError
from skillopt.model.weights import CATALOGUE, Weights, find
from skillopt.store.files import read_tree, write_new

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

CAPABLE = """# All other settings have defaults: `skillopt config FILE` shows them.
"""

_LENGTH = """
  num_epochs: 1                    # passes over the train items; raise it to train on
  batch_size: 24                   # items per step"""
"""For small models, which are slow."""

_FIRST_WORDS = b"# The configuration of your first run."
_SIZES = (80, 40, 60)
"""Simulated train, val and test items."""
_LATENCY = "15-45"
"""Milliseconds of a simulated call, so that there is something to watch."""


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
        return sys.stdin.isatty() and not self.yes


def quickstart(
    session: Session,
    out: Path | None,
    seed: int | None,
    model: str | None,
    *,
    yes: bool,
    spend: bool,
    sim: bool,
) -> None:
    """Make the folder if need be, train in it, and show what was learnt."""
    command = Command(session)
    if sim:
        warning = "SIMULATED models: the scores below say nothing about real models"
        command.screen.tell(warning, "bold yellow")
        _simulate(command, out or Path("skillopt-quickstart-simulated"), seed, sure=yes)
        return
    secrets, screen = command.unlock(), command.screen
    folder = out or Path("skillopt-quickstart")
    if not _is_made(folder, sure=yes, screen=screen):
        options = QuickstartOptions(model, yes=yes, spend=spend)
        means = choose(secrets, options, screen, outlook)
        screen.tell(f"training with {means.words}")
        make_folder(folder, means, seed or 0)
        screen.tell(f"created config.yaml, skill.md and data/ in {folder}")
    start = time.monotonic()
    config = folder / "config.yaml"
    _, result = conduct(command, load_config(config), CommandLine(config))
    _show_learnt(folder, screen, time.monotonic() - start)
    insist(result)


def _simulate(command: Command, out: Path, seed: int | None, *, sure: bool) -> None:
    screen, config = command.screen, out / "config.yaml"
    if _is_made(out, sure=sure, screen=screen):
        made_with = load_config(config).train.seed  # its simulator must have the same
        if seed not in (None, made_with):
            raise ConfigError(
                f"{out} was created with seed {made_with}; choose another --out for seed {seed}"
            )
        seed = made_with
    else:
        seed = seed or 0
        _make_simulated(out, seed)
        screen.tell(f"created config.yaml, skill.md and data/ in {out}")
    with _simulator(seed, command.unlock()) as url:
        values = {
            "model.base_url": url,
            "env.split_dir": str(out / "data"),
            "env.skill_init": str(out / "skill.md"),
            "env.out_root": str(out / "run"),
        }
        _, result = conduct(command, load_config(config, values=values), CommandLine(config))
    _show_learnt(out, screen)
    insist(result)


def _is_made(out: Path, *, sure: bool, screen: Screen) -> bool:
    """Whether the quickstart has made this folder; asks before files are put among others."""
    config = out / "config.yaml"
    if config.exists():
        _check_own(config)
        return True
    if why := not_a_folder(out):
        raise ConfigError(f"{why}; give a folder with --out")
    if not sure and out.exists() and any(out.iterdir()):
        if not sys.stdin.isatty():
            raise ConfigError(f"{out} contains other files; choose another --out, or add --yes")
        question = f"{out} contains other files. Create the quickstart there anyway?"
        screen.confirm(question, abort=True)
    return False


def _check_own(config: Path) -> None:
    """Refuse a configuration that the quickstart did not make: it is somebody's own work."""
    try:
        ours = read_file(config, CONFIG_BYTES).startswith(_FIRST_WORDS)
    except OSError as error:
        raise ConfigError(f"{config}: cannot be read: {error.strerror}") from None
    if not ours:
        raise ConfigError(
            f"{config} was not made by the quickstart, so it is not used and nothing was changed. "
            f"Choose a new folder with --out, or train with it: skillopt train {quoted(config)}"
        )


def outlook(means: Discovered) -> str:
    """What the quickstart would take with these means."""
    with TemporaryDirectory() as folder:
        make_folder(Path(folder), means, 0)
        return one_line(estimate(Path(folder) / "config.yaml"))


def make_folder(out: Path, means: Discovered, seed: int) -> None:
    """The job's data and first draft, and a configuration to train it with these means."""
    model = "\n".join(f"  {key}: {json.dumps(value)}" for key, value in means.settings.items())
    with as_file(files("skillopt.quickstart")) as job:
        skill = (job / "skill.md").read_text(encoding="utf-8")
        length = _LENGTH if means.recipe == SMALL else ""
        values = {
            "{model}": model,
            "{recipe}": means.recipe.rstrip(),
            "{seed}": f"{seed}{length}",
        }
        _write_folder(out, job / "data", skill, "quickstart.yaml", values)


def _make_simulated(out: Path, seed: int) -> None:
    from skillopt.testing.simulator import initial_skill, write_data

    with TemporaryDirectory() as data:
        write_data(Path(data), _SIZES, seed)
        _write_folder(out, Path(data), initial_skill(), "simulated.yaml", {"{seed}": str(seed)})


def _write_folder(
    out: Path, data: Path, skill: str, template: str, values: Mapping[str, str]
) -> None:
    """All files at once; `values` are what stands for the marks in the template."""
    config = out / "config.yaml"
    text = files("skillopt.cli").joinpath(template).read_text(encoding="utf-8")
    for mark, value in {
        **values,
        "{config}": quoted(config),
        "{data}": json.dumps(str(out / "data")),
        "{skill}": json.dumps(str(out / "skill.md")),
        "{run}": json.dumps(str(out / "run")),
    }.items():
        text = text.replace(mark, value)
    texts = {out / "skill.md": skill.encode(), config: text.encode()}
    write_new({**read_tree(data, out / "data"), **texts})


@contextmanager
def _simulator(seed: int, secrets: Secrets) -> Generator[str, None, None]:
    """The simulator in a process of its own, which ends when its standard input closes."""
    command = [*module_command("skillopt.testing.simulator"), "--watch-stdin"]
    command += ["--seed", str(seed), "--latency-ms", _LATENCY]
    with subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=secrets.harmless(),
        # Ctrl-C is for us: it must not take the server away from requests that are being cancelled.
        start_new_session=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            url = line.strip().rpartition(" ")[2]
            if not url.startswith("http"):
                raise SkilloptError("the simulator did not start; run the command again")
            yield url
        finally:
            if process.stdin:
                process.stdin.close()
            process.terminate()


def _show_learnt(out: Path, screen: Screen, seconds: float | None = None) -> None:
    """What was learnt and what to do next; without `seconds`, by simulated models."""
    simulated = seconds is None
    label = " (simulated)" if simulated else ""
    screen.show(Text(f"\nwhat was learnt{label}", style="bold"), coloured(diff_run(out / "run")))
    summarise(out / "run", screen, label=label)
    if seconds is not None:
        screen.show(f"\ntook {seconds / 60:.1f} minutes")
    job = "To train with real models and your own data" if simulated else "For your own job"
    config, mine = out / "config.yaml", out / ("real" if simulated else "mine")
    screen.show(
        Text("\nnext", style="bold"),
        next_commands(out / "run"),
        f"\n{job}, edit the places (1) to (3) in\n  {config}\nand run\n"
        f"  skillopt train {quoted(config)} env.out_root={quoted(mine)}",
    )
    if which("skillopt") is None:
        program = f"{quoted(Path(sys.executable))} -m skillopt"
        screen.show(f"\nskillopt is not on your PATH; write this instead:\n  {program}")


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
