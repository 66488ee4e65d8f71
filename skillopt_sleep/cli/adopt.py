"""`adopt` and `rollback`: what is written to the documents, and what is taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from skillopt.cli.render import Screen
from skillopt.store.files import json_bytes
from skillopt_sleep import adoption
from skillopt_sleep.cli.options import settings_of, with_settings
from skillopt_sleep.settings import Settings, told_command
from skillopt_sleep.transaction import ChangedFile, Recovery

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.command(short_help="Write what a night proposes to its files.")
@click.option(
    "--staging",
    type=click.Path(path_type=Path),
    help="Folder of the night (default: the newest that waits).",
)
@click.option("--skill", "skills", multiple=True, metavar="NAME", help="Only this skill.")
@click.option("--all-skills", is_flag=True, help="All skills besides the managed one.")
@click.option("--legacy", is_flag=True, help="Only the managed skill and the memory file.")
@_JSON
@with_settings
def adopt(
    staging: Path | None,
    skills: tuple[str, ...],
    all_skills: bool,  # noqa: FBT001 - click calls it by name
    legacy: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
    **given: Any,  # noqa: ANN401 - settings
) -> None:
    """Write what a night proposes to its files: all of them, or none."""
    if sum((bool(skills), all_skills, legacy)) > 1:
        raise click.UsageError("give one of --skill, --all-skills and --legacy")
    targets = adoption.Only.SKILLS if all_skills else adoption.Only.PAIR if legacy else skills
    settings = settings_of(given)
    outcome = adoption.adopt(settings, staging=staging, targets=targets or None)
    _tell(settings, outcome, "adopted", as_json=as_json)


@click.command(short_help="Put the files of an adoption back as they were.")
@click.argument("name", required=False, default="")
@_JSON
@with_settings
def rollback(name: str, as_json: bool, **given: Any) -> None:  # noqa: FBT001, ANN401 - as above
    """Put every file of an adoption (NAME; default: the last one) back as it was."""
    settings = settings_of(given)
    outcome = adoption.rollback(settings, name)
    _tell(settings, outcome, "restored", as_json=as_json)


def _tell(settings: Settings, outcome: adoption.Outcome, verb: str, *, as_json: bool) -> None:
    screen, receipt = Screen(), outcome.receipt
    for recovery in outcome.recovered:
        screen.warn(recovery.words)
    if as_json:
        made = receipt and receipt.model_dump(mode="json", exclude={"process"})
        document = {
            "ok": True,
            **(made or {"kind": "recovery", "files": []}),
            "recovered": [_recovery(each) for each in outcome.recovered],
            "waiting": [waiting.night.name for waiting in outcome.waiting],
        }
        screen.show(json_bytes(document).decode().rstrip())
        return
    if receipt is None:
        screen.show("The adoption that was stopped half-way is undone; no other was taken back.")
        return
    for file in receipt.files:
        screen.show(f"{_done(file, verb)} {file.path}")
    if receipt.kind == "adopt":
        screen.tell(f"To take it back:\n  {told_command(settings, 'rollback', receipt.name)}")
    for waiting in outcome.waiting:
        names = ", ".join(file.target for file in waiting.files)
        screen.tell(f"{waiting.night.folder} still waits for adoption ({names})")


def _recovery(recovery: Recovery) -> dict[str, object]:
    return {
        "kind": recovery.kind,
        "name": recovery.name,
        "restored": [str(path) for path in recovery.restored],
        "conflicts": [str(path) for path in recovery.conflicts],
        "copies": None if recovery.kept is None else str(recovery.kept),
    }


def _done(file: ChangedFile, verb: str) -> str:
    return "removed" if not file.sha256_after else verb
