"""The commands and their options. What they do is imported when they are called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from skillopt import __version__
from skillopt.cli.arguments import SettingsCommand, given
from skillopt.cli.model import model_group
from skillopt.cli.session import Session, debugging

F = TypeVar("F", bound=Callable[..., Any])

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_FILE = click.Path(path_type=Path)
_SETTINGS = """\b
Settings:
  Any setting may be given, in any of three spellings:
    train.num_epochs=2
    --cfg-options train.num_epochs=2 env.limit=50
    --num_epochs 2            a key without its section, with _ or -
\b
  Often used:
    --num_epochs  --batch_size  --edit_budget  --workers  --limit  --seed
    --optimizer_model  --target_model  --base_url
    --data_path  --split_dir  --skill_init  --out_root
\b
  `skillopt config [CONFIG]` prints every setting with its value.
  Keys of models are read from the environment or .env, such as OPENAI_API_KEY.
"""


def main() -> NoReturn:
    """`skillopt`."""
    _enter(app)


def train_main() -> NoReturn:
    """`skillopt-train`, `scripts/train.py`."""
    _enter(train)


def eval_main() -> NoReturn:
    """`skillopt-eval`, `scripts/eval_only.py`."""
    _enter(evaluate)


def _enter(command: click.Command) -> NoReturn:
    session = Session()
    try:
        code = command.main(standalone_mode=False, obj=session)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort
        from skillopt.cli.faults import explain

        code = explain(error, session)
    sys.exit(code)


def _settings(command: F) -> F:
    """The arguments of every command that takes a configuration."""
    for add in (
        debugging,
        click.option("--cfg-options", metavar="KEY=VALUE...", help="Settings, as many as wanted."),
        click.option("--config", "config_option", type=_FILE, help="The same as CONFIG."),
        click.argument("config", type=_FILE, required=False, metavar="[CONFIG] [KEY=VALUE]..."),
    ):
        command = add(command)
    return command


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.version_option(__version__, message="skillopt %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Train skill documents for frozen agents: scored tasks in, a better Markdown skill out.

    New here? `skillopt quickstart` trains a first skill with a model that you have, or offline.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@app.command(
    cls=SettingsCommand,
    context_settings=_CONTEXT,
    epilog=_SETTINGS,
    short_help="Train a skill, or continue to.",
)
@_settings
@click.pass_context
def train(ctx: click.Context, **_: object) -> None:
    """Train a skill. After an interruption, the same command continues the run.

    Progress goes to standard error, the result to standard output.
    """
    from skillopt.cli.train import train

    train(ctx.ensure_object(Session), given(ctx))


@app.command(
    "eval",
    cls=SettingsCommand,
    context_settings=_CONTEXT,
    epilog=_SETTINGS,
    short_help="Measure a skill.",
)
@_settings
@click.option(
    "--skill", type=_FILE, required=True, help="The document, or the folder of a package."
)
@click.option("--split", default="all", show_default=True, help="train, val, test or all.")
@click.pass_context
def evaluate(ctx: click.Context, skill: Path, split: str, **_: object) -> None:
    """Measure a skill: score, number of items, 95 % interval, failures, cost."""
    from skillopt.cli.eval import evaluate

    evaluate(ctx.ensure_object(Session), given(ctx), skill, split)


@app.command(
    cls=SettingsCommand,
    context_settings=_CONTEXT,
    epilog=_SETTINGS,
    short_help="Measure how noisy scores are.",
)
@_settings
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="The gain that should be seen.",
)
@click.option(
    "--power",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="How surely.",
)
@click.pass_context
def calibrate(ctx: click.Context, effect: float, power: float, **_: object) -> None:
    """Measure the current skill twice on val: how noisy scores are, and what val can see.

    The attempts are kept in the run directory; training does not pay for them again.
    """
    from skillopt.cli.calibrate import calibrate

    calibrate(ctx.ensure_object(Session), given(ctx), effect=effect, power=power)


@app.command(cls=SettingsCommand, context_settings=_CONTEXT, short_help="Print all settings.")
@_settings
@click.pass_context
def config(ctx: click.Context, **_: object) -> None:
    """Print every setting with its value, as YAML.

    Without CONFIG these are the defaults; given settings are applied.
    """
    from skillopt.cli.settings import show_config

    show_config(given(ctx))


@app.command(
    cls=SettingsCommand,
    context_settings=_CONTEXT,
    epilog=_SETTINGS,
    short_help="Tell what a training will take.",
)
@_settings
@click.pass_context
def estimate(ctx: click.Context, **_: object) -> None:
    """Calls, tokens and dollars of a training, phase by phase and from to. Asks no model."""
    from skillopt.cli.estimate import show_estimate

    show_estimate(given(ctx))


@app.command(
    cls=SettingsCommand, context_settings=_CONTEXT, short_help="Check keys, models and data."
)
@_settings
@click.option("--offline", is_flag=True, help="Ask no model: look at settings and data only.")
@click.pass_context
def doctor(ctx: click.Context, *, offline: bool, **_: object) -> int:
    """Check what a run needs before it costs anything: keys, servers, programs, data, disk.

    With CONFIG, each model is asked two tiny questions. Without, shows what is on this machine.
    Ends with 1 if something is in the way.
    """
    from skillopt.cli.doctor import doctor

    return doctor(ctx.ensure_object(Session), given(ctx), offline=offline)


@app.command(
    cls=SettingsCommand, context_settings=_CONTEXT, short_help="Check data, scorer and skill."
)
@_settings
@click.option("--skill", type=_FILE, help="Check this trained document instead of the data.")
@click.option("--spend", is_flag=True, help="Ask the target model, too: a bare-prompt baseline.")
@click.option("--sample", type=click.IntRange(1), default=20, help="Items for it. [default: 20]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def check(
    ctx: click.Context, *, skill: Path | None, spend: bool, sample: int, as_json: bool, **_: object
) -> int:
    """Check whether data and scorer can be trusted, before anything is spent.

    Duplicates, leaked answers, shortcuts, label balance, the scorer itself. In place of CONFIG, the
    directory of a run: whether its best skill copies items or has their answers in it. Ends with 1
    if something is bad.
    """
    from skillopt.cli.check import check

    session = ctx.ensure_object(Session)
    leave = sample if spend else None
    return check(session, given(ctx), skill=skill, sample=leave, as_json=as_json)


@app.command(context_settings=_CONTEXT, short_help="Show a run, a step or an item.")
@click.argument("run", type=_FILE)
@click.option("--step", type=int, metavar="N", help="One step: evidence, edits and verdict.")
@click.option("--item", metavar="ID", help="One item: every attempt at it, skill by skill.")
@click.option("--rebuild", is_flag=True, help="Write the readable files of RUN again.")
@debugging
def show(run: Path, *, step: int | None, item: str | None, rebuild: bool) -> None:
    """Show what happened in the run directory RUN, finished or under way."""
    if (step is not None) + (item is not None) + rebuild > 1:
        raise click.UsageError("--step, --item and --rebuild exclude each other; give one")
    from skillopt.cli.show import show

    show(run, step=step, item=item, rebuild=rebuild)


@app.command(context_settings=_CONTEXT, short_help="Show what a run has learnt.")
@click.argument("run", type=_FILE)
@click.argument("a", default="initial")
@click.argument("b", default="best")
@debugging
def diff(run: Path, a: str, b: str) -> None:
    """Compare two skills of the run directory RUN: what was learnt, by default.

    A and B: initial, best, last, a step's number, the first characters of a digest, a file, or
    the folder of a package.
    """
    from skillopt.cli.diff import diff

    diff(run, a, b)


@app.command(
    cls=SettingsCommand, context_settings=_CONTEXT, short_help="Measure what each rule is worth."
)
@click.argument("config", type=_FILE, metavar="RUN [KEY=VALUE]...")
@click.option(
    "--tasks",
    type=click.IntRange(2),
    default=16,
    show_default=True,
    help="Val tasks to try each rule on.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what it will cost.")
@debugging
@click.pass_context
def attribute(ctx: click.Context, config: Path, *, tasks: int, dry_run: bool) -> None:
    """Leave each rule of the best skill of RUN out in turn: what it is worth, and its lineage.

    A rule is a bullet, or a section without bullets. Attempts are kept in the run directory, so
    what is known is free. The settings are those of the run; given ones, such as a new address of
    the model, go before them.
    """
    from skillopt.cli.attribute import attribute

    attribute(ctx.ensure_object(Session), given(ctx), config, tasks=tasks, dry=dry_run)


@app.command(context_settings=_CONTEXT, short_help="Show where each line comes from.")
@click.argument("skill", type=_FILE)
@click.option("--run", type=_FILE, help="The run directory, if SKILL does not lie in it.")
@debugging
def blame(skill: Path, run: Path | None) -> None:
    """Show every line of SKILL with its step, the evidence for it and what it is worth.

    SKILL is a run directory (its best skill), a document or the folder of a package. Values are
    there once `skillopt attribute RUN` was called.
    """
    from skillopt.cli.blame import blame

    blame(skill, run)


@app.command(context_settings=_CONTEXT, short_help="Train a first skill.")
@click.option("--out", type=_FILE, help="Where. [default: skillopt-quickstart]")
@click.option("--seed", type=click.IntRange(0), help="Another order, another run. [default: 0]")
@click.option("--model", metavar="NAME", help="Weights to use: see `skillopt model list`.")
@click.option("--yes", is_flag=True, help="Say yes to every question but that about money.")
@click.option("--spend", is_flag=True, help="Allow a model that costs money.")
@click.option("--sim", is_flag=True, help="Simulated models: done in seconds, learns nothing real.")
@debugging
@click.pass_context
def quickstart(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401 - click's
    """Train a first skill with a model that you have: offline, without a key, if need be.

    Takes, in this order: a key in the environment (asks first), a server on this machine (Ollama,
    llama.cpp, vLLM), weights that were fetched; or offers to fetch some. Makes a folder with data,
    a skill and a commented configuration to copy from.
    """
    session = ctx.ensure_object(Session)
    if options.pop("sim"):
        from skillopt.cli.simulated import simulate

        out = options["out"] or Path("skillopt-quickstart-simulated")
        simulate(session, out, options["seed"], sure=options["yes"])
        return
    from skillopt.cli.quickstart import quickstart

    quickstart(session, **options)


app.add_command(model_group)
