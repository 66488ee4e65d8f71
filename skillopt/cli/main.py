"""The commands and their options. Their implementation is imported when they are called."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from skillopt import __version__
from skillopt.cli.arguments import Session, SettingsCommand

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_FILE = click.Path(path_type=Path)
_SETTINGS = """\b
Settings:
  Every setting can be set on the command line, in one of three ways:
    train.num_epochs=2
    --cfg-options train.num_epochs=2 env.limit=50
    --num_epochs 2            the key without its section, with _ or -
\b
  Common settings:
    --num_epochs  --batch_size  --edit_budget  --workers  --limit  --seed
    --optimizer_model  --target_model  --base_url
    --data_path  --split_dir  --skill_init  --out_root
\b
  `skillopt config [CONFIG]` prints every setting with its value.
  API keys are read from the environment or from .env (as OPENAI_API_KEY).
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
    # Most objects stay until the process ends, and then need not be taken apart.
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)
    session = Session()
    try:
        code = command.main(standalone_mode=False, obj=session)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort
        from skillopt.cli.errors import explain

        code = explain(error, session)
    sys.exit(code)


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.version_option(__version__, message="skillopt %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Train Markdown skill documents for frozen agents on scored tasks.

    New here? Run `skillopt quickstart`. It trains a first skill and needs no API key.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _set_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    ctx.ensure_object(Session).debug = wanted


_debugging = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="Print the traceback of an error.",
)


def _settings_command(
    name: str, short_help: str, *, explained: bool = True
) -> Callable[[Callable[..., object]], click.Command]:
    """A command that takes a configuration and any setting; `explained`: its help says how."""
    command = app.command(
        name,
        cls=SettingsCommand,
        context_settings=_CONTEXT,
        epilog=_SETTINGS if explained else None,
        short_help=short_help,
        params=[
            click.Argument(
                ["config"], type=_FILE, required=False, metavar="[CONFIG] [KEY=VALUE]..."
            ),
            click.Option(
                ["--config", "config_option"],
                type=_FILE,
                help="Configuration file (same as CONFIG).",
            ),
            click.Option(["--cfg-options"], metavar="KEY=VALUE...", help="One or more settings."),
        ],
    )
    return lambda function: command(_debugging(function))


@_settings_command("train", "Train a skill, or resume a run.")
@click.pass_obj
def train(session: Session, **_: object) -> None:
    """Train a skill. To resume an interrupted run, run the same command again.

    Progress is written to standard error, the result to standard output.
    """
    from skillopt.cli.train import train

    train(session)


@_settings_command("eval", "Evaluate a skill on a data split.")
@click.option(
    "--skill", type=_FILE, required=True, help="Skill file or package folder; `blank`: none."
)
@click.option("--split", default="all", show_default=True, help="Split: train, val, test or all.")
@click.option(
    "--harness",
    "harnesses",
    multiple=True,
    metavar="NAME",
    help="Harness: chat, tools, code or an agent; give several to compare them.",
)
@click.option(
    "--target_model",
    "--target-model",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Target model; give several to compare them.",
)
@click.pass_obj
def evaluate(
    session: Session,
    skill: Path,
    split: str,
    harnesses: tuple[str, ...],
    targets: tuple[str, ...],
    **_: object,
) -> int:
    """Evaluate a skill: score with 95 % interval, number of items, failures, cost.

    With several --harness or --target_model, every combination is evaluated and shown in a table.
    The exit code is then 1 if one of them has no result.
    """
    from skillopt.cli.eval import compare, evaluate

    if len(harnesses) > 1 or len(targets) > 1:
        return compare(session, skill, split, harnesses, targets)
    evaluate(session, skill, split, harnesses, targets)
    return 0


@_settings_command("calibrate", "Measure the noise of val scores.")
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Smallest gain in score to detect, from 0 to 1.",
)
@click.option(
    "--power",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Statistical power: the probability of detecting that gain.",
)
@click.pass_obj
def calibrate(session: Session, effect: float, power: float, **_: object) -> None:
    """Evaluate the current skill twice on val; report the noise and the smallest detectable gain.

    The attempts are cached in the run directory, so training reuses them at no cost.
    """
    from skillopt.cli.calibrate import calibrate

    calibrate(session, effect=effect, power=power)


@_settings_command("config", "Print all settings as YAML.", explained=False)
@click.pass_obj
def config(session: Session, **_: object) -> None:
    """Print every setting with its value, as YAML.

    Without CONFIG, the defaults. Settings given on the command line are applied.
    """
    from skillopt.cli.running import show_config

    show_config(session)


@_settings_command("estimate", "Estimate the calls, tokens and cost of a run.")
@click.pass_obj
def estimate(session: Session, **_: object) -> None:
    """Estimate calls, tokens, dollars and time of a training run by phase. Calls no model."""
    from skillopt.cli.estimate import show_estimate

    show_estimate(session)


@_settings_command("doctor", "Check keys, models and data.", explained=False)
@click.option("--offline", is_flag=True, help="Call no model; check settings and data only.")
@click.pass_obj
def doctor(session: Session, *, offline: bool, **_: object) -> int:
    """Check what a run needs before it costs anything: keys, servers, programs, data, disk.

    With CONFIG, sends a few short test requests to each model. Without CONFIG, lists what this
    machine has. The exit code is 1 if a check failed.
    """
    from skillopt.cli.check import doctor

    return doctor(session, offline=offline)


@_settings_command("check", "Check data, scorer and skill.", explained=False)
@click.option("--skill", type=_FILE, help="Check this trained skill instead of the data.")
@click.option(
    "--spend", is_flag=True, help="Also call the target model, for a baseline without the skill."
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of items for the baseline of --spend.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def check(
    session: Session, *, skill: Path | None, spend: bool, sample: int, as_json: bool, **_: object
) -> int:
    """Check data and scorer for problems before training. Free, except with --spend.

    Looks for duplicates, leaked answers, shortcuts, label imbalance and scorer errors. With a run
    directory in place of CONFIG, checks whether its best skill copies items or their answers.
    The exit code is 1 if a finding is bad.
    """
    from skillopt.cli.check import check

    return check(session, skill=skill, sample=sample if spend else None, as_json=as_json)


@_settings_command("judge-check", "Measure how far the judge agrees with people.", explained=False)
@click.option(
    "--labels",
    type=_FILE,
    required=True,
    help="Answers that people have labelled: question, answer, label, references.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def judge_check(session: Session, labels: Path, *, as_json: bool, **_: object) -> None:
    """Ask the judge about answers that people have labelled, and compare.

    Prints the share of agreement with its 95 % interval, Cohen's kappa, and where they disagree.
    Needs the settings of the environment and the judge, but no data.
    """
    from skillopt.cli.judge_check import judge_check

    judge_check(session, labels, as_json=as_json)


@app.command(short_help="List runs.")
@click.argument("folder", type=_FILE, default=Path(), metavar="[DIR]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@_debugging
@click.pass_obj
def runs(session: Session, folder: Path, *, as_json: bool) -> None:
    """List the runs in DIR (default: the current directory) and up to two levels below it.

    Status, benchmark, models, scores before and after with 95 % intervals, and cost.
    """
    from skillopt.cli.show import runs

    runs(session, folder, as_json=as_json)


@app.command(short_help="Show a run, a step, an item or an evaluation.")
@click.argument("run", type=_FILE)
@click.option(
    "--step", type=int, metavar="N", help="Show step N: evidence, edits and gate decision."
)
@click.option("--item", metavar="ID", help="Show every attempt at item ID, grouped by skill.")
@click.option("--rebuild", is_flag=True, help="Rewrite the report files of RUN from its event log.")
@_debugging
def show(run: Path, *, step: int | None, item: str | None, rebuild: bool) -> None:
    """Show scores, steps and cost of the run directory RUN, finished or still running.

    RUN may also be a directory written by `skillopt eval`.
    """
    if (step is not None) + (item is not None) + rebuild > 1:
        raise click.UsageError("use only one of --step, --item and --rebuild")
    from skillopt.cli.show import show

    show(run, step=step, item=item, rebuild=rebuild)


@app.command(short_help="Compare two skills of a run.")
@click.argument("run", type=_FILE)
@click.argument("a", default="initial")
@click.argument("b", default="best")
@_debugging
def diff(run: Path, a: str, b: str) -> None:
    """Print a unified diff of two skills of the run directory RUN; by default initial and best.

    A and B: initial, best, last, a step number, the first characters of a digest, a file, or a
    skill package folder.
    """
    from skillopt.cli.show import diff

    diff(run, a, b)


@app.command(short_help="Write the report of a run as one HTML file.")
@click.argument("run", type=_FILE)
@click.option("--out", type=_FILE, metavar="FILE", help="File to write. [default: in RUN]")
@click.option("--markdown", is_flag=True, help="A summary in Markdown for a pull request instead.")
@_debugging
def report(run: Path, *, out: Path | None, markdown: bool) -> None:
    """Write report.html for the run directory RUN, finished or still running.

    Scores, decisions, the change of the skill with the origin of each line, items, cost, settings
    and findings in one file that opens offline and prints well. Calls no model. With --markdown,
    writes report.md; `--out -` prints it.
    """
    from skillopt.cli.report import report

    report(run, out, markdown=markdown)


@app.command(short_help="Write a skill to where an agent program reads it.")
@click.argument("source", type=_FILE, metavar="RUN|SKILL")
@click.option(
    "--for",
    "program",
    required=True,
    metavar="PROGRAM",
    help="claude, codex, copilot, cursor, devin, gemini, opencode, openclaw, pi or qwen.",
)
@click.option("--out", type=_FILE, default=Path(), metavar="DIR", help="Folder of the project.")
@click.option("--name", default="", help="Name of the skill. [default: as in its front matter]")
@click.option("--description", default="", help="What the skill is for; agents choose by it.")
@click.option("--home", is_flag=True, help="DIR is a home directory, not that of a project.")
@click.option("--force", is_flag=True, help="Replace a skill that somebody else wrote or changed.")
@_debugging
def export(
    source: Path,
    *,
    program: str,
    out: Path,
    name: str,
    description: str,
    home: bool,
    force: bool,
) -> None:
    """Write the best skill of RUN, or SKILL, to where PROGRAM looks for skills below DIR.

    Name and description are made valid for the program; agents read only these two before they
    open the file.
    """
    from skillopt.cli.export import export

    export(source, program, out, name=name, description=description, home=home, force=force)


@app.command(cls=SettingsCommand, short_help="Measure the effect of each rule.")
@click.argument("config", type=_FILE, metavar="RUN [KEY=VALUE]...")
@click.option(
    "--tasks",
    type=click.IntRange(2),
    default=16,
    show_default=True,
    help="Number of val tasks on which each rule is measured.",
)
@click.option("--dry-run", is_flag=True, help="Print the estimated cost and exit.")
@_debugging
@click.pass_obj
def attribute(session: Session, config: Path, *, tasks: int, dry_run: bool) -> None:
    """Measure the effect of each rule of the best skill of RUN by removing it, and show its origin.

    A rule is a bullet, or a section without bullets. Attempts that are already in the run
    directory are reused at no cost. Settings are those of the run; settings given here (for
    example a new base_url) override them.
    """
    from skillopt.cli.attribute import attribute

    attribute(session, config, tasks=tasks, dry=dry_run)


@app.command(short_help="Show the origin of each line of a skill.")
@click.argument("skill", type=_FILE)
@click.option("--run", type=_FILE, help="Run directory, if SKILL is not inside it.")
@_debugging
def blame(skill: Path, run: Path | None) -> None:
    """Show each line of SKILL with the step that added it, its evidence and its measured effect.

    SKILL is a run directory (its best skill), a skill file or a skill package folder. Effects are
    shown after `skillopt attribute RUN` has measured them.
    """
    from skillopt.cli.attribute import show_blame

    show_blame(skill, run)


@app.command(cls=SettingsCommand, short_help="Accept, reject or edit proposals by hand.")
@click.argument("config", type=_FILE, metavar="RUN [KEY=VALUE]...")
@click.option("--show", "shown", metavar="ID", help="Show a proposal: changes and evidence.")
@click.option("--accept", metavar="ID", help="Put a proposal into the current skill.")
@click.option("--reject", metavar="ID", help="Take a proposal out, or confirm its rejection.")
@click.option(
    "--edit", metavar="ID|current", help="Edit the skill, with or without a proposal in it."
)
@click.option("--file", type=_FILE, help="With --edit: the new skill, instead of opening $EDITOR.")
@click.option("--by", default="", metavar="NAME", help="Who decides; recorded.")
@click.option("--comment", default="", help="Why; recorded, and the optimizer reads it.")
@click.option("--if-better", is_flag=True, help="With --edit: let the gate of the run decide.")
@click.option("--best", is_flag=True, help="Make it the best skill whatever it scores.")
@click.option(
    "--base", default="", metavar="DIGEST", help="Refuse if another skill is current than this one."
)
@click.option("--dry-run", is_flag=True, help="Measure and show, but record nothing.")
@click.option("--test", is_flag=True, help="Repeat the final test with the skills as they are now.")
@click.option("--all", "every", is_flag=True, help="List all proposals, not the latest 20 only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_debugging
@click.pass_obj
def review(session: Session, config: Path, **options: Any) -> None:  # noqa: ANN401 - click's
    """List the proposals of RUN with their evidence; accept, reject or edit them by hand.

    The skill that a decision makes is measured on val before it becomes current, and the decision
    is recorded: a resumed training continues from it. Attempts that are already in the run
    directory cost nothing. Without an option, asks on a terminal. A run that is being trained must
    be stopped first. Settings are those of the run; settings given here override them.

    The final test of a finished run was of the skills before the decision: --test repeats it, after
    a decision or by itself.
    """
    if sum(options[name] is not None for name in ("shown", "accept", "reject", "edit")) > 1:
        raise click.UsageError("use only one of --show, --accept, --reject and --edit")
    from skillopt.cli.review import ReviewOptions, review

    review(session, config, ReviewOptions(**options))


@app.command(short_help="Show and steer runs in the browser.")
@click.option("--runs", type=_FILE, default=Path(), metavar="DIR", help="Folder with runs.")
@click.option(
    "--project", type=_FILE, default=Path(), metavar="DIR", help="Project whose nights are shown."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=7860, show_default=True, help="0: a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--share", is_flag=True, help="Public address through cloudflared, ngrok or ssh.")
@click.option("--read-only", is_flag=True, help="Show runs; start, stop and change nothing.")
@_debugging
def web(**options: Any) -> None:  # noqa: ANN401 - click's
    """Open a dashboard of the runs in a folder (default: the current directory).

    Shows scores, steps, skills and items, also while a run is going on; starts, stops and resumes
    runs. Only this machine can reach it, unless --host or --share is given: then the link that is
    printed holds a token that is needed. --project is the folder whose nights of Sleep are shown.
    """
    from skillopt_webui.app import WebOptions, web

    web(WebOptions(**options))


@app.command(short_help="Train a first skill on example data.")
@click.option("--out", type=_FILE, help="Output folder. [default: skillopt-quickstart]")
@click.option("--seed", type=click.IntRange(0), help="Random seed. [default: 0]")
@click.option(
    "--model",
    metavar="NAME",
    help="Local model: a name from `skillopt model list`, or a .gguf file.",
)
@click.option(
    "--yes", is_flag=True, help="Answer yes to every question, except the one about paid models."
)
@click.option("--spend", is_flag=True, help="Allow a model that costs money.")
@click.option(
    "--sim", is_flag=True, help="Use simulated models: takes seconds, scores are not real."
)
@_debugging
@click.pass_obj
def quickstart(session: Session, **options: Any) -> None:  # noqa: ANN401 - click's
    """Train a first skill on example data. No API key is needed.

    Uses the first model available: an API key in the environment (asks before spending money), a
    model server on this machine (Ollama, llama.cpp, vLLM), or a downloaded local model. If there
    is none, offers to download one. Creates a folder with data, a skill and a commented
    configuration to adapt.
    """
    from skillopt.cli.quickstart import quickstart

    quickstart(session, **options)


@app.command(short_help="Tell what data a benchmark needs, and check it.")
@click.argument("name")
@click.argument("folder", type=_FILE, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_debugging
def data(name: str, folder: Path | None, *, as_json: bool) -> int:
    """Tell what data the environment NAME needs: sources, licences, checksums, packages, programs.

    With FOLDER (published files, or a folder made by `skillopt materialize`), check what is there.
    The exit code is 1 if something is missing or different. Nothing is downloaded.
    """
    from skillopt.cli.data import show_data

    return show_data(name, folder, as_json=as_json)


@app.command(short_help="Make a split folder from the published data of a benchmark.")
@click.argument("name", metavar="BENCH")
@click.option("--raw", type=_FILE, required=True, help="The published data: a file or folder.")
@click.option("--out", type=_FILE, required=True, help="Folder to write train/ val/ test/ to.")
@click.option(
    "--manifest",
    type=_FILE,
    help="Folder with the ids of train, val and test. Without it, all items are split by --ratio.",
)
@click.option("--ratio", default="2:1:7", show_default=True, help="Shares of train:val:test.")
@click.option("--seed", type=int, default=42, show_default=True, help="Random seed of --ratio.")
@click.option(
    "--partial", is_flag=True, help="Leave out ids without an item, and items that cannot be used."
)
@click.option("--force", is_flag=True, help="Replace files that were changed since.")
@_debugging
def materialize(name: str, **options: Any) -> None:  # noqa: ANN401 - click's
    """Write the tasks of the benchmark BENCH from its published data on this machine.

    Files that belong to tasks, such as images, are linked or copied into the new folder. Nothing is
    downloaded: `skillopt data BENCH` says what to fetch.
    """
    from skillopt.cli.data import show_materialized

    show_materialized(name, **options)


@app.group("new")
def new_group() -> None:
    """Write the beginnings of a part of your own."""


@new_group.command("env")
@click.argument("name")
@click.option("--out", type=_FILE, help="New folder. [default: NAME]")
@_debugging
def new_env(name: str, out: Path | None) -> None:
    """Write an environment called NAME, with a test, example data, a skill and a configuration.

    It works as it is: replace its tasks and its scorer by your own, step by step.
    """
    from skillopt.cli.new import show_new_env

    show_new_env(name, out)


@app.command(
    "sleep",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Learn from sessions of coding agents, every night.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def sleep(words: tuple[str, ...]) -> int:
    """The same as `skillopt-sleep`: harvest, practise, propose, adopt."""
    from skillopt_sleep.cli.main import enter

    return enter(words)


@app.group("model")
def model_group() -> None:
    """Manage models for backend `local`, which run on this machine."""


@model_group.command("list")
@_debugging
def list_models() -> None:
    """List the models that can be downloaded, and which of them are on this machine."""
    from skillopt.cli.models import show_all

    show_all()


@model_group.command()
@click.argument("name")
@_debugging
def fetch(name: str) -> None:
    """Download the model NAME. Run the same command again to resume a download."""
    from skillopt.cli.models import fetch, show_path

    fetch(name)
    show_path(name)


@model_group.command()
@click.argument("name")
@_debugging
def path(name: str) -> None:
    """Print the path of the weights file of the model NAME."""
    from skillopt.cli.models import show_path

    show_path(name)


@model_group.command()
@click.argument("name")
@_debugging
def remove(name: str) -> None:
    """Delete the weights file of the model NAME from this machine."""
    from skillopt.cli.models import remove

    remove(name)
