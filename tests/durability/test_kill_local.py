"""Kill and resume hold with a real model as well."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from support_runs import ROOT, kept_calls, told

from skillopt.cli.quickstart import Discovered, make_folder
from skillopt.model.weights import Folder, default_root, find

pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
pytestmark = pytest.mark.weights


async def start(config: Path) -> asyncio.subprocess.Process:
    words = ("train", str(config), "env.limit=8", "gradient.samples=1")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skillopt", *words),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b"])
async def test_a_run_with_real_weights_killed_on_the_way_ends_as_the_uncut_one(
    name: str, tmp_path: Path
) -> None:
    if not Folder(default_root(os.environ.get)).has(find(name)):
        pytest.skip(f"not on this machine: skillopt model fetch {name}")
    means = Discovered(name, {"backend": "local", "target": name, "optimizer": name})
    for folder in ("uncut", "cut"):
        make_folder(tmp_path / folder, means, seed=0)
    uncut = await start(tmp_path / "uncut" / "config.yaml")
    _, errors = await uncut.communicate()
    assert uncut.returncode == 0, errors.decode()

    process = await start(tmp_path / "cut" / "config.yaml")
    while kept_calls(tmp_path / "cut" / "run") < 20 and process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    before = kept_calls(tmp_path / "cut" / "run")
    again = await start(tmp_path / "cut" / "config.yaml")
    _, errors = await again.communicate()
    assert again.returncode == 0, errors.decode()
    assert 20 <= before < kept_calls(tmp_path / "cut" / "run")
    assert kept_calls(tmp_path / "cut" / "run") == kept_calls(tmp_path / "uncut" / "run")
    assert told(tmp_path / "cut" / "run") == told(tmp_path / "uncut" / "run")
