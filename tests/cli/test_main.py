from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from support_cli import Call, make_project, skillopt

from skillopt.cli.arguments import Session
from skillopt.cli.errors import explain

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"aiohttp", "pydantic", "yaml", "rich", "rapidfuzz", "json_repair"}
WITHOUT_INSTALLATION = f"""
import runpy, sys
sys.path.append({next(path for path in sys.path if path.endswith("site-packages"))!r})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
IMPORTED = """
import sys
from skillopt.cli.main import main
sys.argv = ["skillopt", *sys.argv[1:]]
try:
    main()
finally:
    sys.stderr.write(",".join(name for name in sys.modules if "." not in name))
"""


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["train", "--help"], ["eval", "--help"], []]
)
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *args], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(("Usage:", "skillopt "))
    assert not HEAVY & set(done.stderr.split(","))


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train"], "quickstart"),
        (["train", "c.yaml", "--batchsize", "3"], "did you mean '--batch_size'"),
        (["eval", "c.yaml"], "--skill"),
        (["show"], "RUN"),
        (["show", "run", "--step", "1", "--rebuild"], "use only one of"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_a_hint(
    args: list[str], hint: str, call: Call, tmp_path: Path
) -> None:
    done = call(*args, cwd=tmp_path)
    assert done.code == 2
    assert hint in done.err
    assert "error: " in done.err
    assert done.out == ""


def test_a_key_on_the_command_line_is_not_repeated(call: Call, tmp_path: Path) -> None:
    done = call("train", "--openai_api_key", "sk-abcdefghijkl", cwd=tmp_path)
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert "sk-abc" not in done.err


@pytest.mark.parametrize("value", ["sk-abcdefghijkl", "hunter2hunter2", "sk-abcdefghijkl!hunter2"])
def test_the_refusal_of_a_key_as_a_setting_is_plain(value: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("", encoding="utf-8")
    done = call("train", "c.yaml", f"model.api_key={value}", cwd=tmp_path)
    assert (
        "model.api_key: unknown key; did you mean 'model.api_key_env'? "
        "[command line (model.api_key=[redacted])]" in done.err
    )
    assert "hunter2" not in done.err
    assert "sk-abc" not in done.err


def test_all_mistakes_of_a_configuration_are_listed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("train: {num_epoch: 2}\n", encoding="utf-8")
    done = call("train", "c.yaml", "modle.x=1", cwd=tmp_path)
    assert done.code == 1
    first, second = done.err.splitlines()
    assert "did you mean 'train.num_epochs'? [c.yaml:1]" in first
    assert "modle.x" in second


def test_config_prints_the_effective_settings(call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("train: {num_epochs: 2}\n", encoding="utf-8")
    done = call(
        "config", "c.yaml", "env.limit=5", "--use_gate", "false", "--batch-size=9", cwd=tmp_path
    )
    assert done.code == 0
    assert done.err == ""
    for line in ("  num_epochs: 2", "  limit: 5", "  use_gate: false", "  batch_size: 9"):
        assert line in done.out.splitlines()


def test_what_is_printed_by_config_is_a_configuration(call: Call, tmp_path: Path) -> None:
    first = call("config", "train.seed=7", cwd=tmp_path)
    (tmp_path / "all.yaml").write_text(first.out, encoding="utf-8")
    second = call("config", "all.yaml", cwd=tmp_path)
    assert second.out == first.out


BROKEN = """
from dataclasses import dataclass

@dataclass
class Settings:
    pass

class Env:
    Settings = Settings
    initial_skill = None
    prompts = None

    def __init__(self, settings, splits):
        raise RuntimeError("boom with sk-abc123def456")
"""


def test_an_error_of_a_part_is_short_and_its_traceback_is_for_debugging(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "broken_environment.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    command = ("train", "c.yaml", "--env", "broken_environment:Env")
    plain = call(*command, cwd=tmp_path)
    assert plain.code == 1
    named = "env.name broken_environment:Env"
    assert plain.err.startswith(f"error: {named}: RuntimeError: boom with [redacted]\n")
    assert "bug in skillopt" not in plain.err
    assert "--debug" in plain.err
    assert "Traceback" not in plain.err
    by_option = call(*command, "--debug", cwd=tmp_path)
    monkeypatch.setenv("SKILLOPT_DEBUG", "1")
    by_variable = call(*command, cwd=tmp_path)
    for debug in (by_option, by_variable):
        assert "Traceback" in debug.err
        assert "sk-abc" not in debug.err
    assert not (tmp_path / "run").exists()


def test_an_unexpected_error_is_a_bug_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(RuntimeError("boom with sk-abc123def456"), Session()) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: unexpected RuntimeError: boom with [redacted]\n")
    assert "This is a bug in skillopt; please report it." in told
    assert "--debug" in told
    assert "Traceback" not in told


def test_what_the_machine_refuses_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(OSError(errno.ENOSPC, "No space left on device", "run/x"), Session()) == 1
    assert capsys.readouterr().err.endswith("No space left on device: 'run/x'\n")


@pytest.mark.parametrize(
    "command",
    [
        ["train.py", "--config", "c.yaml"],
        ["eval_only.py", "--config", "c.yaml", "--skill", "s.md", "--split", "test"],
    ],
)
def test_scripts_find_the_package_by_themselves(command: list[str], tmp_path: Path) -> None:
    script, *args = command
    # -S leaves out site-packages' .pth files, and with them the editable installation.
    done = subprocess.run(
        [sys.executable, "-S", "-c", WITHOUT_INSTALLATION, str(ROOT / "scripts" / script), *args],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "c.yaml: no such file" in done.stderr


async def test_which_variables_come_from_which_env_file_is_told_without_their_values(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    for folder, name in ((tmp_path, "OPENAI_API_KEY"), (tmp_path / "project", "QWEN_CHAT_API_KEY")):
        (folder / ".env").write_text(f"{name}=value-of-a-key\n", encoding="utf-8")
    (tmp_path / "project" / "c.yaml").write_text("train: {num_epochs: 1}\n", encoding="utf-8")
    done = await skillopt("doctor", "project/c.yaml", "--offline", cwd=tmp_path)
    told = " ".join(done.err.split())
    assert f"read OPENAI_API_KEY from {tmp_path / '.env'}" in told
    assert f"read QWEN_CHAT_API_KEY from {tmp_path / 'project' / '.env'}" in told
    assert "value-of-a-key" not in done.out + done.err
