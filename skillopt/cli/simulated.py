"""`skillopt quickstart --sim`: a first run in seconds, with simulated models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.text import Text

from skillopt.cli.arguments import CommandLine
from skillopt.cli.diff import changes
from skillopt.cli.formatting import quoted
from skillopt.cli.render import Screen
from skillopt.cli.report import next_commands
from skillopt.cli.session import Session
from skillopt.cli.settings import unlocked
from skillopt.cli.train import conduct, insist, summarise
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.intake import CONFIG_BYTES, read_file
from skillopt.core.paths import not_a_folder
from skillopt.errors import ConfigError, SkilloptError
from skillopt.store.files import read_tree, write_new
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import initial_skill, write_data

_SIZES = (80, 40, 60)
_LATENCY = "15-45"
"""Milliseconds, so that there is something to watch."""


def simulate(session: Session, out: Path, seed: int | None, *, sure: bool) -> None:
    """Make the folder if need be, train in it, and show what was learnt."""
    screen = Screen()
    screen.tell(
        "SIMULATED models: the scores below say nothing about real models",
        "bold yellow",
    )
    config = out / "config.yaml"
    if config.exists():
        check_made(config)
        seed = _seed_of(config, seed, out)
    else:
        seed = 0 if seed is None else seed
        _make(out, config, seed, sure=sure, screen=screen)
    secrets = unlocked(session)
    with _simulator(seed, secrets) as url:
        values = {
            "model.base_url": url,
            "env.split_dir": str(out / "data"),
            "env.skill_init": str(out / "skill.md"),
            "env.out_root": str(out / "run"),
        }
        trained = load_config(config, values=values)
        _, result = conduct(trained, screen, secrets, CommandLine(config, (), {}))
    _tell(out, config, screen)
    insist(result)


def _make(out: Path, config: Path, seed: int, *, sure: bool, screen: Screen) -> None:
    check_folder(out, sure=sure)
    with TemporaryDirectory() as place:
        write_data(Path(place), _SIZES, seed)
        data = read_tree(Path(place), out / "data")
    texts = {out / "skill.md": initial_skill(), config: _config_text(out, config, seed)}
    write_new({**data, **{path: text.encode() for path, text in texts.items()}})
    screen.tell(f"created config.yaml, skill.md and data/ in {out}")


_FIRST_WORDS = b"# The configuration of your first run."


def check_made(config: Path) -> None:
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


def check_folder(out: Path, *, sure: bool) -> None:
    """Ask before files are put among others."""
    if why := not_a_folder(out):
        raise ConfigError(f"{why}; give a folder with --out")
    if not sure and out.exists() and any(out.iterdir()):
        question = f"{out} contains other files. Create the quickstart there anyway?"
        if not sys.stdin.isatty():
            raise ConfigError(f"{out} contains other files; choose another --out, or add --yes")
        click.confirm(question, abort=True, err=True)


def _config_text(out: Path, config: Path, seed: int) -> str:
    text = files("skillopt.cli").joinpath("simulated.yaml").read_text(encoding="utf-8")
    for name, value in {
        "{seed}": str(seed),
        "{config}": quoted(config),
        "{data}": json.dumps(str(out / "data")),
        "{skill}": json.dumps(str(out / "skill.md")),
        "{run}": json.dumps(str(out / "run")),
    }.items():
        text = text.replace(name, value)
    return text


def _seed_of(config: Path, seed: int | None, out: Path) -> int:
    """The seed that the folder was made with; its simulator must have the same."""
    made_with = load_config(config).train.seed
    if seed not in (None, made_with):
        raise ConfigError(
            f"{out} was created with seed {made_with}; choose another --out for seed {seed}"
        )
    return made_with


@contextmanager
def _simulator(seed: int, secrets: Secrets) -> Generator[str, None, None]:
    """The simulator in a process of its own, which ends when its standard input closes."""
    command = [sys.executable, "-m", "skillopt.testing.simulator", "--watch-stdin"]
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


def _tell(out: Path, config: Path, screen: Screen) -> None:
    with RunReader(out / "run") as reader:
        learnt = changes(reader.skill("initial"), reader.skill("best"), "initial", "best")
    screen.show(Text("\nwhat was learnt (simulated)", style="bold"), learnt)
    summarise(out / "run", screen, label=" (simulated)")
    own = f"skillopt train {quoted(config)} env.out_root={quoted(out / 'real')}"
    screen.show(
        Text("\nnext", style="bold"),
        next_commands(out / "run"),
        "\nTo train with real models and your own data, edit the places (1) to (3) in\n"
        f"  {config}\nand run\n  {own}",
    )
