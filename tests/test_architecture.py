"""The layers, as a test: who may import whom."""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from skillopt import api
from skillopt.cli.main import app, model_group, new_group
from skillopt.config.parts import PARTS

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


FUNCTIONS = {
    "train": "run_training",
    "eval": "evaluate_async",
    "calibrate": "calibrate_async",
    "config": "effective_config",
    "estimate": "estimate",
    "doctor": "doctor_async",
    "check": "check_async",
    "runs": "list_runs",
    "show": "open_run",
    "diff": "diff_run",
    "report": "write_report",
    "review": "review_async",
    "export": "export_skill",
    "attribute": "attribute_async",
    "blame": "blame",
    "data": "benchmark_data",
    "judge-check": "judge_check_async",
    "materialize": "materialize",
    "quickstart": "diff_run",  # asks the user; then it is `train` and `diff`
    "new env": "new_env",
    "model list": "local_models",
    "model fetch": "fetch_model",
    "model path": "model_path",
    "model remove": "remove_model",
}
"""For each command, the function of `skillopt.api` that does its work."""
SERVICES = {
    "skillopt.app.attributing": {"attribute", "blame", "plan_attribution"},
    "skillopt.app.calibrating": {"calibrate"},
    "skillopt.app.data": {"benchmark_data", "materialize_data"},
    "skillopt.app.doctor": {"doctor", "check_data", "check_models"},
    "skillopt.app.estimate": {"estimate"},
    "skillopt.app.exporting": {"write_for_program"},
    "skillopt.app.evaluation": {"evaluate"},
    "skillopt.app.integrity": {"check", "check_run"},
    "skillopt.app.judging": {"check_judge"},
    "skillopt.app.machine": {"check_machine", "check_sandbox"},
    "skillopt.app.models": {"with_backend_defaults"},
    "skillopt.app.report": {"report_html"},
    "skillopt.app.result": {"describe", "read_result", "rebuild", "skill_diff"},
    "skillopt.app.reviewing": {"repeat_final_test", "review", "review_items", "starting_text"},
    "skillopt.app.run_spec": {"prepare"},
    "skillopt.app.scaffold": {"new_environment"},
    "skillopt.app.summaries": {"run_markdown"},
    "skillopt.app.training": {"open_training", "run_training"},
    "skillopt.app.transfer": {"measure_transfer"},
    "skillopt.model.fetch": {"Fetcher"},
    "skillopt.model.weights": {"Folder"},
    "skillopt.store.projector": {"Projector"},
}
"""What `skillopt.api` has a function for, so that commands do not call it."""


def imports_in(tree: ast.AST) -> list[tuple[str, str]]:
    """Modules with the names that are imported from them."""
    return [
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def test_commands_do_their_work_through_the_python_api() -> None:
    for path in (SOURCE / "cli").glob("*.py"):
        for module, name in imports_in(ast.parse(path.read_text(encoding="utf-8"))):
            assert name not in SERVICES.get(module, set()), path


def test_every_command_has_a_function_in_the_python_api_and_uses_it() -> None:
    commands = {**app.commands}
    del commands["web"]  # a server of its own package
    for group in (model_group, new_group):
        commands |= {f"{group.name} {name}": each for name, each in group.commands.items()}
        del commands[str(group.name)]
    del commands["sleep"]  # a program of its own, which uses the Python API
    assert FUNCTIONS.keys() == commands.keys()
    assert set(FUNCTIONS.values()) <= set(api.__all__)
    for name, command in commands.items():
        assert command.callback is not None
        code = textwrap.dedent(inspect.getsource(inspect.unwrap(command.callback)))
        modules = [module for module, _ in imports_in(ast.parse(code))]
        used = {
            name
            for module in modules
            for home, name in imports_in(ast.parse(inspect.getsource(import_module(module))))
            if home == "skillopt.api"
        }
        assert FUNCTIONS[name] in used, name


def test_nobody_needs_sleep_but_its_own_command_when_it_is_called() -> None:
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {module for module, _ in imports_in(tree)}
        names |= {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        used = {name for name in names if name.split(".")[0] == "skillopt_sleep"}
        allowed = {"skillopt_sleep.cli.main"} if path == SOURCE / "cli" / "main.py" else set[str]()
        assert used <= allowed, path
        at_once = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        assert not at_once & allowed, path


def test_nobody_but_the_registry_knows_which_harnesses_there_are() -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] != "harness":
            assert "skillopt.harness.chat" not in path.read_text(encoding="utf-8"), path


def _sections(node: ast.Attribute) -> str:
    """What an attribute is taken of: `optimizer` in `config.optimizer.memory`."""
    value = node.value
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


def test_nobody_looks_at_the_name_of_a_mode() -> None:
    """A key that names a part is read by its `PartKey` alone, which makes the part."""
    keys = {(key.section, key.key) for key in PARTS}
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] == "config":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert (_sections(node), node.attr) not in keys, f"{path}:{node.lineno}"


def test_no_two_classes_have_the_same_name() -> None:
    modules: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


ONE_IMPORTER = {
    "config.legacy": "keys of the original without a meaning here, apart from those with one",
    "envs.alfworld.game": "a process and its end, apart from what is said about a game",
    "envs.custom.scorers": "ways to score are a thought of their own, as long as the environment",
    "envs.inspect_task.bridge": "a solver that waits for an agent, apart from how a task is found",
    "envs.mmrb.score": "which answer a reply gives is a thought of its own",
    "envs.officeqa.documents": "tools over a folder, which another benchmark may use",
    "envs.officeqa.reward": "the official reward is a thought of its own",
    "envs.spreadsheetbench.workbooks": "files, previews and scripts, apart from the conversation",
    "envs.swebench.grading": "the rules of swebench, apart from what the agent does",
    "envs.sealqa.search": "a search engine and its tools, which another benchmark may use",
    "harness.agents.launch": "given as text to an interpreter in a sandbox",
    "harness.agents.programs": "how programs are installed, whoever runs them",
    "harness.seccomp": "numbers of the kernel, which have nothing to do with bubblewrap",
    "model.proxied": "what programs may ask in each wire format, apart from who serves them",
    "model.responses": "one file for each wire format",
    "testing.contracts.models": "a check for people who write models",
    "testing.model_server": "a server that speaks several wire formats, for any test",
    "testing.simulator.edits": "what the simulated optimizer proposes",
    "testing.simulator.server": "the simulator as a server",
    "testing.simulator.world": "the tasks and rules of the simulator",
}
"""Modules that a single other one of their package needs, and why they are apart."""


def importers() -> tuple[dict[str, list[str]], set[str]]:
    """By module, who always imports it; and the modules that are imported only when needed."""
    always: dict[str, list[str]] = {}
    when_needed = set[str]()
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = set[str]()
        for node in ast.walk(tree):
            names = set[str]()
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            (at_once if node in tree.body else when_needed).update(names)
        for name in at_once:
            always.setdefault(name, []).append(path.relative_to(SOURCE).parts[0])
    return always, when_needed


def test_a_module_that_only_one_other_of_its_package_needs_is_a_part_of_that() -> None:
    """Optional parts stand alone: entry points, commands, what is imported when it is needed."""
    entry_points = (SOURCE.parent / "pyproject.toml").read_text(encoding="utf-8")
    always, when_needed = importers()
    alone: set[str] = set()
    for path in MODULES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(["skillopt", *parts])
        optional = f"{module}:" in entry_points or module in when_needed or parts[0] == "cli"
        if always.get(module) == [parts[0]] and not optional:
            alone.add(module.removeprefix("skillopt."))
    assert alone <= ONE_IMPORTER.keys()
