"""The layers, as a test: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "skillopt"
BASE = {"core", "errors"}
PART = BASE | {"aio", "prompts"}
MAY_IMPORT = {
    "errors": set[str](),
    "core": {"errors"},
    "aio": {"errors"},
    "progress": BASE,
    "engine": BASE | {"aio"},
    "store": BASE,
    "config": BASE,
    "prompts": BASE,
    "model": PART,
    "harness": PART,
    "datasets": PART,
    "envs": PART | {"datasets"},
    "optimizer": PART,
    "gates": PART,
    "analysis": PART | {"gates"},
    "app": {
        *PART,
        "config",
        "datasets",
        "engine",
        "analysis",
        "envs",
        "gates",
        "harness",
        "model",
        "optimizer",
        "store",
    },
    "api": {
        *BASE,
        "aio",
        "progress",
        "analysis",
        "app",
        "config",
        "datasets",
        "engine",
        "gates",
        "model",
        "store",
    },
}
TOP = {"cli", "testing", "quickstart", "__init__", "__main__"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("skillopt.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if layer not in TOP:
        assert imported(path) <= MAY_IMPORT[layer] | {layer}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_below_the_command_line_imports_it(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if layer not in {"cli", "__main__"}:
        assert "cli" not in imported(path)


def test_the_core_needs_the_standard_library_only() -> None:
    foreign = {"aiohttp", "pydantic", "yaml", "click", "rich", "rapidfuzz", "json_repair"}
    for path in (SOURCE / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in foreign, path
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & foreign, path


WORK = {
    "skillopt.app.attributing": {"attribute"},
    "skillopt.app.run_spec": {"prepare"},
    "skillopt.app.doctor": {"doctor", "check_data", "check_models"},
    "skillopt.app.estimate": {"estimate"},
    "skillopt.app.evaluation": {"evaluate"},
    "skillopt.app.integrity": {"check", "check_run"},
    "skillopt.app.training": {"open_training"},
}
"""What `skillopt.api` has a function for."""


def test_commands_do_their_work_through_the_python_api() -> None:
    for path in (SOURCE / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert not names & WORK.get(node.module or "", set()), path


def test_nobody_but_the_registry_knows_which_harnesses_there_are() -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] != "harness":
            assert "skillopt.harness.chat" not in path.read_text(encoding="utf-8"), path
