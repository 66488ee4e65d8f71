from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest
from support_cli import Call, Done, Trained, make_project, skillopt

from skillopt.cli.main import main
from skillopt.testing.simulator import Simulator


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")

    async def train() -> Done:
        async with Simulator() as simulator:
            make_project(folder, simulator.url)
            return await skillopt("train", "c.yaml", cwd=folder, LC_ALL="C", PYTHONUTF8="0")

    return Trained(folder, asyncio.run(train()))


@pytest.fixture
def own_copy(trained: Trained, tmp_path: Path) -> Path:
    """The project, to be changed."""
    return Path(shutil.copytree(trained.folder, tmp_path / "copy"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The program inside this process, for commands that need no signals and no server."""

    def run(*args: str, cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["skillopt", *args])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Done(int(left.value.code or 0), out, err)

    return run
