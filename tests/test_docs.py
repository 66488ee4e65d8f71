"""What the documentation shows works as it is shown."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt.config.load import load_config
from skillopt.config.sections import KEYS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(page: Path, language: str) -> list[str]:
    return [
        code for tag, code in BLOCK.findall(page.read_text(encoding="utf-8")) if tag == language
    ]


IN_SANDBOX = {"docs/sandbox.md", "docs/sleep/README.md", "docs/tools.md", "docs/transfer.md"}
"""Pages whose code runs code of a model."""


def in_its_place(page: Path) -> object:
    """The page, with what it needs."""
    needs = [pytest.mark.sandbox] if page.relative_to(ROOT).as_posix() in IN_SANDBOX else []
    return pytest.param(page, marks=needs, id=page.name)


@pytest.mark.parametrize("page", [in_its_place(page) for page in PAGES if blocks(page, "python")])
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    code = "\n\n".join(blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "yaml")], ids=lambda page: page.name
)
def test_the_yaml_of_a_page_is_a_configuration(page: Path, tmp_path: Path) -> None:
    for number, code in enumerate(blocks(page, "yaml")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(re.sub(r"^_base_:.*\n", "", code, flags=re.MULTILINE), encoding="utf-8")
        load_config(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for key in KEYS:
        name = key.partition(".")[2]
        shared = re.sub("^(optimizer|target|judge)_", "", name)
        assert f"`{name}`" in text or f"`{shared}`" in text, key


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_install_from_the_repository_and_not_by_name(page: Path) -> None:
    for code in blocks(page, "sh"):
        assert not re.search(r"pip install [^#\n]*['\" ]skillopt\b", code), code


def test_the_readme_says_why_it_is_not_installed_by_name() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install -e ." in text
    assert "on the public package index is the original" in text


def test_guides_are_where_users_of_the_original_look_for_them() -> None:
    for name in ("new-backend.md", "new-benchmark.md"):
        page = ROOT / "docs" / "guide" / name
        assert page in PAGES
        assert blocks(page, "python")


def test_every_extra_of_the_original_can_be_installed_and_all_has_what_each_extra_has() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = {
        name: set(re.findall(r'"([^"]+)"', listed))
        for name, listed in re.findall(r"^(\w+) = \[(.*?)\]$", section, re.DOTALL | re.MULTILINE)
    }
    assert {"alfworld", "claude", "qwen", "docs", "webui", "all"} <= extras.keys()
    others = [needs for name, needs in extras.items() if name not in {"all", "dev", "test"}]
    assert extras["all"] == set().union(*others)


def test_the_pictures_of_the_design_are_drawn_from_the_code_as_it_is() -> None:
    drawing = runpy.run_path(str(ROOT / "scripts" / "pictures.py"))
    text = drawing["PAGE"].read_text(encoding="utf-8")
    assert drawing["page"](text) == text, "run `make reference`"
