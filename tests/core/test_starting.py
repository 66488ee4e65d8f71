from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from skillopt.core.starting import module_command


def test_a_module_is_started_as_main_and_never_one_of_the_current_folder(tmp_path: Path) -> None:
    for name in ("this", "skillopt"):
        (tmp_path / f"{name}.py").write_text("print('of the folder')", encoding="utf-8")
    command = module_command("this")
    assert command[:2] == [sys.executable, "-c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("The Zen of Python")
    ours = module_command("skillopt")
    done = subprocess.run(
        [*ours, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("skillopt")
