"""Data of benchmarks: what is needed, what is here, and split folders made from it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

from skillopt.app.environment import ENVIRONMENTS, EnvironmentKind, make_environment
from skillopt.app.wording import count
from skillopt.config.load import load_config
from skillopt.core.extras import install_command, packages_of
from skillopt.datasets.manifests import Materialized, damaged, materialize
from skillopt.datasets.raw import BenchmarkData, NeedsData, ReadsRaw, sha256_of
from skillopt.datasets.splits import Splits, from_directory
from skillopt.errors import ConfigError, DataError

FileState: TypeAlias = Literal["verified", "here", "different", "missing"]
"""`here`: its checksum is not known, so it was not compared."""


@dataclass(frozen=True, slots=True)
class DataFile:
    name: str
    state: FileState
    sha256: str = ""
    """Of the file that is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReport:
    """What an environment needs from outside, and what of it is here."""

    name: str
    needs: BenchmarkData
    install: str = ""
    """The command that installs the packages that are missing; empty: none is."""
    programs: Mapping[str, bool]
    """Programs that it needs, and whether they are here."""
    place: Path | None = None
    """The folder or file that was looked at."""
    files: tuple[DataFile, ...] = ()
    """The published files, where their names are known."""
    items: int | None = None
    """Items that could be read there."""
    problem: str = ""
    """Why they could not be read, or what is wrong with them."""

    @property
    def complete(self) -> bool:
        """Whether everything was looked at and nothing is missing or different."""
        bad = any(file.state in {"different", "missing"} for file in self.files)
        return bool(self.items) and not (self.problem or bad or self.missing)

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages and programs to install."""
        programs = (name for name, here in self.programs.items() if not here)
        return (*((self.install,) if self.install else ()), *programs)


def benchmark_data(name: str, place: Path | None = None) -> DataReport:
    """Say what an environment needs; with a place, look at what is there."""
    kind = ENVIRONMENTS.load(name)
    if not isinstance(kind, NeedsData):
        raise ConfigError(f"environment {name!r} does not say what data it needs")
    needs = kind.data
    report = DataReport(
        name=name,
        needs=needs,
        install=_install(needs.extra),
        programs={program: shutil.which(program) is not None for program in needs.programs},
    )
    return report if place is None else _looked(report, kind, place)


def _install(extra: str) -> str:
    missing = [package for package in packages_of(extra) if not _is_installed(package)]
    return install_command(extra) if extra and missing else ""


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _looked(report: DataReport, kind: EnvironmentKind, place: Path) -> DataReport:
    if not place.exists():
        raise DataError(f"{place}: no such file or folder; name where the data lies")
    found, problem = None, ""
    changed = damaged(place) if place.is_dir() else None
    if changed:
        problem = f"{count(len(changed), 'file')} not as first written: {changed[0]}"
    try:
        if changed is not None:
            found = len(from_directory(place, ()))
        elif isinstance(kind, ReadsRaw):
            found = sum(1 for _ in kind.read_raw(place))
    except DataError as error:
        problem = problem or str(error)
    return DataReport(
        name=report.name,
        needs=report.needs,
        install=report.install,
        programs=report.programs,
        place=place,
        files=() if changed is not None else _files(report.needs, place),
        items=found,
        problem=problem,
    )


def _files(needs: BenchmarkData, place: Path) -> tuple[DataFile, ...]:
    """The published files with known names; of several sources, those that have a file here."""
    here = {
        str(file.relative_to(place)) if place.is_dir() else file.name: file
        for file in (sorted(place.rglob("*")) if place.is_dir() else [place])
        if file.is_file()
    }
    states: list[DataFile] = []
    for source in needs.sources:
        of_source = [
            state
            for pattern, sha256 in source.files.items()
            for state in _state(pattern, sha256, here)
        ]
        if any(file.state != "missing" for file in of_source) or len(needs.sources) == 1:
            states += of_source
    return tuple(states)


def _state(pattern: str, sha256: str, here: Mapping[str, Path]) -> list[DataFile]:
    # The folder that was named may be the one above, or the one below.
    names = [name for name in here if fnmatch(name, pattern) or fnmatch(name, f"*/{pattern}")]
    if not names:
        names = [name for name in here if pattern.endswith(f"/{name}")]
    if not names:
        return [DataFile(pattern, "missing")]
    found: list[DataFile] = []
    for name in names:
        actual = sha256_of(here[name])
        state: FileState = "here" if not sha256 else "verified" if actual == sha256 else "different"
        found.append(DataFile(name, state, actual))
    return found


def materialize_data(
    name: str,
    raw: Path,
    out: Path,
    *,
    manifest: Path | None = None,
    ratio: str = "2:1:7",
    seed: int = 42,
    partial: bool = False,
    force: bool = False,
) -> Materialized:
    """Make a split folder from the published data of a benchmark."""
    kind = ENVIRONMENTS.load(name)
    if not isinstance(kind, ReadsRaw):
        raise ConfigError(f"environment {name!r} reads no published data; nothing to materialize")

    def check(rows: Splits) -> None:
        # What this machine lacks, such as a program, is no fault of the rows.
        with suppress(ConfigError):
            make_environment(load_config(values={"env.name": name}), rows)

    return materialize(
        kind.read_raw(raw),
        raw,
        out,
        manifest=manifest,
        ratio=ratio,
        seed=seed,
        partial=partial,
        force=force,
        check=check,
    )
