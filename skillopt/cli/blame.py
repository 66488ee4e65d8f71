"""`skillopt blame`: the origin and the effect of each line of a skill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.text import Text

from skillopt.analysis.lineage import Origins, lineage
from skillopt.cli.attribute import came_from, evidence
from skillopt.cli.formatting import gain, quoted
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.core.rules import Rule, Worth, rules_in
from skillopt.core.skill import MAIN, Skill
from skillopt.errors import StoreError
from skillopt.store.layout import Layout
from skillopt.store.packages import read_skill
from skillopt.store.reader import RunReader
from skillopt.store.results import read_attribution


def blame(path: Path, run: Path | None) -> None:
    """Show every line."""
    screen = Screen()
    if run is None and Layout(path).events.exists():
        path, run = Layout(path).best_skill, path
    skill = read_skill(path)
    with RunReader(_run_of(path) if run is None else run) as reader:
        known = lineage(reader.facts)
        origins = known.get(skill.digest, known[reader.state.best.skill.digest])
        kept = read_attribution(reader.layout)
        root, best = reader.layout.root, reader.state.best.skill.digest
    measured = kept is not None and kept.skill == skill.digest
    worths = {each.worth.rule: each.worth for each in kept.rules} if kept and measured else {}
    for file, text in _files(skill).items():
        if file != MAIN:
            screen.show(Text(f"\n{file}", style="bold"))
        rules = {each.line: each for each in rules_in(skill) if each.file == file}
        screen.show(_annotated(text, rules, origins, worths))
    if not measured and skill.digest == best:
        screen.tell(f"to measure effects: skillopt attribute {quoted(root)}", "dim")
    elif not measured:
        screen.tell("no effects shown: they are measured for the best skill of a run only")


def _annotated(
    text: str, rules: Mapping[int, Rule], origins: Origins, worths: Mapping[Rule, Worth]
) -> Table:
    """The lines, each behind what is known of it."""
    made = Table(
        *("line", "from", "evidence", "value", "text"),
        wrap=("from", "evidence", "text"),
        title="text",
        header=False,
    )
    for number, line in enumerate(text.splitlines(), start=1):
        origin, rule = origins.get(line.strip()), rules.get(number)
        known = ("", "") if origin is None else (came_from([origin]), evidence([origin]))
        told = known if origin or not line.strip() else ("not from this run", "")
        value = "" if rule is None else gain(worths[rule]) if rule in worths else "not measured"
        cells = (Text(each, style="dim") for each in (str(number), *told, value))
        made.add_row(*cells, Text.assemble(("| ", "dim"), line))
    return made


def _files(skill: Skill) -> dict[str, str]:
    references = {each.path: each.text for each in skill.references}
    return {MAIN: skill.main.render(), **references}


def _run_of(path: Path) -> Path:
    """The run directory that a file lies in."""
    for folder in (*path.parents, *path.resolve().parents):
        if Layout(folder).events.exists():
            return folder
    raise StoreError(f"{path} is not inside a run directory; give the run directory with --run RUN")
