"""Which files are written for which agent, and which are refused before anything is spent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skillopt.errors import ConfigError
from skillopt.harness.places import PLACES
from skillopt_sleep.documents import END, START
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.settings import Settings
from skillopt_sleep.targets import Targets, find_skill, resolve_targets


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def resolved(project: Path, *sources: str, **given: object) -> Targets:
    settings = Settings.model_validate({"project": project, **given})
    return resolve_targets(settings, sources, home=project.parent / "home")


def refused(project: Path, **given: object) -> str:
    with pytest.raises(RefusedChange) as error:
        resolved(project, **given)
    assert error.value.exit_code == 2
    return str(error.value)


def write(path: Path, text: str = "mine\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


MEMORY = {
    "claude": ("CLAUDE.md", ".claude/CLAUDE.md"),
    "codex": ("AGENTS.md", ".codex/AGENTS.md"),
    "copilot": (".github/copilot-instructions.md", ".copilot/copilot-instructions.md"),
    "cursor": (".cursor/rules/skillopt-sleep-learned.mdc", ""),
    "devin": ("AGENTS.md", ".config/devin/AGENTS.md"),
    "gemini": ("GEMINI.md", ".gemini/GEMINI.md"),
    "openclaw": ("AGENTS.md", ".openclaw/workspace/AGENTS.md"),
    "opencode": ("AGENTS.md", ".config/opencode/AGENTS.md"),
    "pi": ("AGENTS.md", ".pi/agent/AGENTS.md"),
    "qwen": ("QWEN.md", ".qwen/QWEN.md"),
}


@pytest.mark.parametrize("agent", PLACES)
def test_every_agent_has_its_own_skill_and_memory_file(agent: str, project: Path) -> None:
    here, everywhere = MEMORY[agent]
    found = resolved(project, agent=agent)
    assert found.skill
    assert found.memory
    folder = f"{PLACES[agent].workspace}/skillopt-sleep-learned"
    assert found.skill.path == project / folder / "SKILL.md"
    assert found.memory.path == project / here
    assert (found.skill.before, found.memory.before) == (None, None)
    assert found.skill.document.before.startswith("---\nname: skillopt-sleep-learned\n")
    if everywhere:
        home = resolved(project, agent=agent, place="home")
        assert home.memory
        assert home.memory.path == project.parent / "home" / everywhere
    else:
        assert "--memory-path" in refused(project, agent=agent, place="home")
    assert not any(project.iterdir())


def test_the_agent_is_the_one_whose_sessions_were_seen(project: Path) -> None:
    assert resolved(project, "copilot_cli", "codex").agent == "copilot"
    assert resolved(project).agent == "claude"
    with pytest.raises(ConfigError, match="did you mean 'gemini'"):
        resolved(project, agent="gemni")


def test_the_memory_file_that_is_there_is_the_one_that_is_written(project: Path) -> None:
    theirs = write(project / ".claude" / "CLAUDE.md")
    memory = resolved(project).memory
    assert memory
    assert (memory.path, memory.before) == (theirs, b"mine\n")


def test_nothing_is_proposed_for_a_document_that_did_not_change(project: Path) -> None:
    found = resolved(project)
    assert found.skill
    assert found.memory
    assert found.memory.proposed(found.memory.document) is None
    proposed = found.skill.proposed(found.skill.document.with_rules(["Test first."]))
    assert proposed
    assert (proposed.before, proposed.target) == (None, "skill")


def test_a_link_within_the_project_is_followed_to_its_file(project: Path) -> None:
    real = write(project / "AGENTS.md")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    memory = resolved(project).memory
    assert memory
    assert memory.path == real


def test_a_link_out_of_the_project_is_refused_before_anything_is_spent(project: Path) -> None:
    write(project.parent / "elsewhere" / "CLAUDE.md")
    (project / "CLAUDE.md").symlink_to("../elsewhere/CLAUDE.md")
    assert "outside of" in refused(project)
    (project / "CLAUDE.md").unlink()
    (project / ".claude").symlink_to("../elsewhere")
    assert "outside of" in refused(project)


def test_links_to_nothing_folders_and_second_names_are_refused(project: Path) -> None:
    (project / "CLAUDE.md").symlink_to("nothing.md")
    assert "where nothing is" in refused(project)
    (project / "CLAUDE.md").unlink()
    (project / "CLAUDE.md").mkdir()
    assert "not a regular file" in refused(project)
    (project / "CLAUDE.md").rmdir()
    os.link(write(project / "a.md"), project / "CLAUDE.md")
    assert "2 names (hard links)" in refused(project)


def test_a_name_that_differs_only_by_capitals_is_refused(project: Path) -> None:
    write(project / "Claude.md")
    if (project / "CLAUDE.md").exists():
        pytest.skip("capitals make no difference on this file system")
    assert "where capitals make no difference" in refused(project)


def test_a_file_that_is_no_text_or_has_two_blocks_is_refused(project: Path) -> None:
    (project / "CLAUDE.md").write_bytes(b"\xff")
    assert "not UTF-8" in refused(project)
    write(project / "CLAUDE.md", f"{START}a{END}{START}b{END}")
    assert "2 blocks" in refused(project)
    write(project / "CLAUDE.md", f"{START}<!-- SLOW_UPDATE_START -->{END}")
    assert "stray region mark" in refused(project)


def test_skill_and_memory_must_be_two_files(project: Path) -> None:
    told = refused(project, target_skill_path="x/SKILL.md", memory_path="x/SKILL.md")
    assert "would be one file" in told


def test_a_skill_that_is_not_called_so_is_refused(project: Path) -> None:
    assert "a file called SKILL.md" in refused(project, target_skill_path="notes.md")
    assert "no name of a skill" in refused(project, managed_skill_name="../x")


def test_a_skill_of_ones_own_may_be_anywhere_but_not_a_link(project: Path) -> None:
    own = write(project.parent / "mine" / "SKILL.md")
    skill = resolved(project, target_skill_path=own).skill
    assert skill
    assert (skill.path, skill.root) == (own, own.parent)
    linked = project.parent / "linked" / "SKILL.md"
    linked.parent.mkdir()
    linked.symlink_to(own)
    assert "outside of" in refused(project, target_skill_path=linked)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(project: Path) -> None:
    project.chmod(0o500)
    assert "does not allow it" in refused(project)


def test_a_folder_that_would_have_to_be_made_of_a_file_is_refused(project: Path) -> None:
    write(project / ".claude")
    assert ".claude is a file" in refused(project)


def looked_up(project: Path, name: str, **given: object) -> tuple[str, Path | None]:
    settings = Settings.model_validate({"project": project, **given})
    found = find_skill(settings, name, home=project.parent / "home")
    assert bool(found.why) == (found.outcome != "found")
    return found.outcome, found.target and found.target.path


def test_a_skill_is_found_in_exactly_one_place(project: Path) -> None:
    assert looked_up(project, "http") == ("missing", None)
    one = write(project / ".claude" / "skills" / "http" / "SKILL.md")
    assert looked_up(project, "http") == ("found", one)
    (project / ".agents").symlink_to(".claude")
    assert looked_up(project, "http") == ("found", one)
    write(project.parent / "home" / ".codex" / "skills" / "http" / "SKILL.md")
    assert looked_up(project, "http") == ("ambiguous", None)


def test_further_roots_and_the_newest_version_of_a_plugin_are_searched(project: Path) -> None:
    own = write(project.parent / "team" / "lint" / "SKILL.md")
    assert looked_up(project, "lint", skill_root=[own.parent.parent]) == ("found", own)
    cache = project.parent / "home" / ".claude" / "plugins" / "cache" / "market" / "tools"
    for version in ("1.9.0", "1.10.0"):
        newest = write(cache / version / "skills" / "pdf" / "SKILL.md")
    assert looked_up(project, "pdf") == ("found", newest)
    assert looked_up(project, "tools:pdf") == ("found", newest)
    assert looked_up(project, "other:pdf") == ("missing", None)


@pytest.mark.parametrize("name", ["", "..", "../http", "a/b", "/etc", "a\\b", "x.", "a\nb"])
def test_a_name_from_a_session_never_becomes_a_path(name: str, project: Path) -> None:
    write(project / ".claude" / "skills" / "SKILL.md")
    assert looked_up(project, name) == ("rejected", None)


def test_a_skill_behind_a_link_out_of_its_root_is_rejected(project: Path) -> None:
    elsewhere = write(project.parent / "elsewhere" / "SKILL.md")
    (project / ".claude" / "skills").mkdir(parents=True)
    (project / ".claude" / "skills" / "http").symlink_to(elsewhere.parent)
    assert looked_up(project, "http") == ("rejected", None)
