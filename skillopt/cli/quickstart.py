"""`skillopt quickstart`: a first run with a real model on a small example task."""

from __future__ import annotations

import json
import time
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from skillopt.api import Inputs
from skillopt.cli.arguments import CommandLine
from skillopt.cli.diff import changes
from skillopt.cli.discovery import Discovered, QuickstartOptions, choose
from skillopt.cli.estimate import estimated, one_line
from skillopt.cli.formatting import quoted
from skillopt.cli.render import Screen
from skillopt.cli.report import next_commands
from skillopt.cli.session import Session
from skillopt.cli.settings import unlocked
from skillopt.cli.simulated import check_folder, check_made
from skillopt.cli.train import conduct, insist, summarise
from skillopt.config.load import load_config
from skillopt.store.files import read_tree, write_new
from skillopt.store.reader import RunReader


def quickstart(
    session: Session,
    out: Path | None,
    seed: int | None,
    model: str | None,
    *,
    yes: bool,
    spend: bool,
) -> None:
    """Make the folder if need be, train in it, and show what was learnt."""
    screen = Screen()
    secrets = unlocked(session)
    folder = out or Path("skillopt-quickstart")
    config = folder / "config.yaml"
    if config.exists():
        check_made(config)
    else:
        check_folder(folder, sure=yes)
        wishes = QuickstartOptions(model, yes=yes, spend=spend)
        means = choose(secrets, wishes, screen, outlook)
        screen.tell(f"training with {means.words}")
        make_folder(folder, means, 0 if seed is None else seed)
        screen.tell(f"created config.yaml, skill.md and data/ in {folder}")
    start = time.monotonic()
    _, result = conduct(load_config(config), screen, secrets, CommandLine(config, (), {}))
    _tell(folder, config, time.monotonic() - start, screen)
    insist(result)


def outlook(means: Discovered) -> str:
    """What the quickstart would take with these means."""
    with TemporaryDirectory() as folder:
        make_folder(Path(folder), means, 0)
        return one_line(estimated(Inputs(config=Path(folder) / "config.yaml").prepare()))


def make_folder(out: Path, means: Discovered, seed: int) -> None:
    """The job's data and first draft, and a configuration to train it with these means."""
    config = out / "config.yaml"
    with as_file(files("skillopt.quickstart")) as job:
        made = read_tree(job / "data", out / "data")
        made[out / "skill.md"] = (job / "skill.md").read_bytes()
    text = files("skillopt.cli").joinpath("quickstart.yaml").read_text(encoding="utf-8")
    model = "\n".join(f"  {key}: {json.dumps(value)}" for key, value in means.settings.items())
    for name, value in {
        "{model}": model,
        "{recipe}": means.recipe.rstrip(),
        "{seed}": str(seed),
        "{config}": quoted(config),
        "{data}": json.dumps(str(out / "data")),
        "{skill}": json.dumps(str(out / "skill.md")),
        "{run}": json.dumps(str(out / "run")),
    }.items():
        text = text.replace(name, value)
    write_new({**made, config: text.encode()})


def _tell(out: Path, config: Path, seconds: float, screen: Screen) -> None:
    with RunReader(out / "run") as reader:
        learnt = changes(reader.skill("initial"), reader.skill("best"), "initial", "best")
    screen.show(Text("\nwhat was learnt", style="bold"), learnt)
    summarise(out / "run", screen)
    own = f"skillopt train {quoted(config)} env.out_root={quoted(out / 'mine')}"
    screen.show(
        f"\ntook {seconds / 60:.1f} minutes",
        Text("\nnext", style="bold"),
        next_commands(out / "run"),
        f"\nFor your own job, edit the places (1) to (3) in\n  {config}\nand run\n  {own}",
    )
