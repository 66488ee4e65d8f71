"""`skillopt data` and `materialize`: the data of benchmarks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from skillopt.api import benchmark_data, materialize
from skillopt.app.data import DataReport
from skillopt.cli.formatting import count
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table

_SHOWN = 20
"""Files that are listed one by one."""


def show_data(name: str, place: Path | None, *, as_json: bool) -> int:
    """Tell what a benchmark needs; the exit code is 1 if something is not as it should be."""
    report = benchmark_data(name, place)
    screen = Screen()
    if as_json:
        document = {**asdict(report), "complete": report.complete}
        screen.show(json.dumps(document, indent=2, default=str, ensure_ascii=False))
    else:
        _show(report, screen)
    return 0 if place is None or report.complete else 1


def _show(report: DataReport, screen: Screen) -> None:
    needs = report.needs
    screen.show(needs.title)
    if needs.items:
        screen.show("items: " + ", ".join(f"{n:,} {part}" for part, n in needs.items.items()))
    for source in needs.sources:
        screen.show("", source.what, f"  from {source.url}")
        if source.revision:
            screen.show(f"  revision {source.revision}")
        screen.show(f"  licence: {source.licence}; access: {source.access}")
        for file, sha256 in source.files.items():
            screen.show(f"  {file}  sha256 {sha256 or 'not known'}")
    screen.show("", *needs.notes)
    for missing in report.missing:
        screen.show(f"to install: {missing}")
    if report.place is None:
        screen.show(f"To check what is here: skillopt data {report.name} FOLDER")
        return
    rows = [(file.name, file.state, file.sha256) for file in report.files[:_SHOWN]]
    if rows:
        screen.show(Table("file", "state", "sha256", rows=rows, wrap=["sha256"]), "")
    if report.items is not None:
        screen.show(f"{report.place}: {count(report.items, 'item')}")
    if report.problem:
        screen.show(f"problem: {report.problem}")


def show_materialized(  # one for each option of the command
    name: str,
    *,
    raw: Path,
    out: Path,
    manifest: Path | None,
    ratio: str,
    seed: int,
    partial: bool,
    force: bool,
) -> None:
    made = materialize(
        name,
        raw=raw,
        out=out,
        manifest=manifest,
        ratio=ratio,
        seed=seed,
        partial=partial,
        force=force,
    )
    screen = Screen()
    told = ", ".join(f"{number} {split}" for split, number in made.counts.items())
    files = f", {count(made.files, 'file')}" if made.files else ""
    screen.show(f"{made.folder}: {told}{files}")
    if made.missing:
        screen.warn(
            f"{count(len(made.missing), 'id')} had no item, or one that cannot be used (--partial)"
        )
