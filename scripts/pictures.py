"""Draws the pictures in docs/design.md from the code: the packages, and one training step.

`make reference` runs this; a test fails if it was forgotten.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_type_hints

from skillopt.engine import loop, run
from skillopt.optimizer.pipeline import Pipeline

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "skillopt"
PAGE = ROOT / "docs" / "design.md"
EVERYWHERE = {"errors", "aio"}
"""Imported by nearly all packages: their arrows would say nothing."""


def imports() -> dict[str, set[str]]:
    """By package: the packages that its modules import."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillopt."):
                found.setdefault(package, set()).add(str(node.module).split(".")[1])
    return {
        package: names - EVERYWHERE - {package}
        for package, names in found.items()
        if package not in EVERYWHERE and not package.startswith("__")
    }


def direct(graph: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """The arrows that do not follow from others."""

    def reached(package: str) -> set[str]:
        return {name for near in graph.get(package, set[str]()) for name in (near, *reached(near))}

    for package, names in sorted(graph.items()):
        behind = {far for name in names for far in reached(name)}
        yield from ((package, name) for name in sorted(names - behind))


def packages() -> str:
    """Who imports whom, as a chart."""
    arrows = [f"  {package} --> {name}" for package, name in direct(imports())]
    return "\n".join(("```mermaid", "flowchart TD", *arrows, "```"))


def calls(function: Callable[..., object], owner: str) -> list[str]:
    """The methods of an object that a function calls, in their order, each once."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [
        (node.lineno, node.col_offset, ast.unparse(node.func).removeprefix(f"{owner}."))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(f"{owner}.")
    ]
    # Of a call within another one, the inner one comes first.
    found.sort(key=lambda call: (call[0], -call[1]))
    return list(dict.fromkeys(name for _, _, name in found if not name.startswith("_")))


def meaning(method: str) -> str:
    """The first sentence of what a method of the run, or of one of its parts, promises."""
    *parts, name = method.split(".")
    kind: object = run.TrainingRun
    for part in parts:
        kind = get_type_hints(kind)[part]
    text = (inspect.getdoc(getattr(kind, name)) or inspect.getdoc(kind) or "").partition("\n")[0]
    return text.rstrip(".").replace('"', "'")


def one_step() -> str:
    """What `engine.loop.step` calls, with the stages of the optimizer in their place."""
    stages = [field.name for field in dataclasses.fields(Pipeline)]
    nodes: list[str] = []
    for method in calls(loop.step, "run"):
        nodes.append(f"run.{method}<br/>{meaning(method)}")
        if method == "optimizer.propose":
            nodes += [f"optimizer: {stage}" for stage in stages]
    lines = [f'  n{number}["{text}"]' for number, text in enumerate(nodes)]
    arrows = "  " + " --> ".join(f"n{number}" for number in range(len(nodes)))
    return "\n".join(("```mermaid", "flowchart TD", *lines, arrows, "```"))


def page(text: str) -> str:
    """The page with the pictures as they are now."""
    for name, picture in (("packages", packages()), ("step", one_step())):
        pattern = rf"(<!-- picture: {name} -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(
            pattern, lambda mark, new=picture: mark[1] + new + mark[2], text, flags=re.DOTALL
        )
        if not found:
            raise SystemExit(f"{PAGE.name} has no place for the picture {name!r}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
