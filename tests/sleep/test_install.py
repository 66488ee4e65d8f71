"""Plugins are installed without a loss, and taken away without a trace."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from sleep.support_adoption import tree

from skillopt.errors import ConfigError
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.installing import install, uninstall
from skillopt_sleep.plugins import MARKETPLACE, plugins
from skillopt_sleep.staging import digest

ROOT = Path(__file__).parent.parent.parent
AGENTS = sorted(plugins())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("agent", AGENTS)
def test_a_plugin_is_installed_once_and_taken_away_without_a_trace(
    agent: str, home: Path, tmp_path: Path
) -> None:
    done = install(agent, home=home, state=tmp_path / "state")
    installed = tree(home)
    assert set(done.changed) == {
        home / name for name in [*plugins()[agent].files, *plugins()[agent].entries]
    }
    assert install(agent, home=home, state=tmp_path / "state").changed == ()
    assert tree(home) == installed
    uninstall(agent, home=home, state=tmp_path / "state")
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert uninstall(agent, home=home, state=tmp_path / "state").changed == ()


FOREIGN = {
    ".codex/config.toml": b'model = "o3"\r\n[mcp_servers.other]\r\ncommand = "x" # mine\r\n',
    ".copilot/mcp-config.json": b'{\n    "mcpServers": {"other": {"command": "x"}},\n    "z": 1}',
    ".config/devin/config.json": b'{"theme": "dark"}\n',
    ".openclaw/openclaw.json": b'{"mcp": {"servers": {}}, "a": "\xc3\xa9"}\n',
    ".config/opencode/opencode.json": b'{\n\t"theme": "x",\n\t"mcp": {"o": {"type": "local"}}\n}\n',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_configuration_keeps_what_it_has_and_is_restored_to_the_byte(
    name: str, home: Path, tmp_path: Path
) -> None:
    (agent,) = [agent for agent, plugin in plugins().items() if name in plugin.entries]
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_bytes(FOREIGN[name])
    path.chmod(0o600)
    for _ in range(2):
        install(agent, home=home, state=tmp_path / "state")
    if path.suffix == ".json":
        before, after = json.loads(FOREIGN[name]), json.loads(path.read_bytes())
        assert _without(after) == _without(before)
        assert "skillopt-sleep" in json.dumps(after)
    else:
        assert path.read_bytes().startswith(FOREIGN[name])
        assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    uninstall(agent, home=home, state=tmp_path / "state")
    assert path.read_bytes() == FOREIGN[name]


def _without(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Without our entry and what it left empty."""
    if not isinstance(value, dict):
        return value
    named = cast("dict[str, Any]", value)
    inner = {key: _without(each) for key, each in named.items() if key != "skillopt-sleep"}
    return {key: each for key, each in inner.items() if each != {}}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_was_changed_in_between_stays_when_the_entry_goes(
    name: str, home: Path, tmp_path: Path
) -> None:
    (agent,) = [agent for agent, plugin in plugins().items() if name in plugin.entries]
    path = home / name
    install(agent, home=home, state=tmp_path / "state")
    if path.suffix == ".json":
        document = json.loads(path.read_bytes())
        path.write_text(json.dumps({"new": 1, **document}), encoding="utf-8")
    else:
        path.write_text("new = 1\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    uninstall(agent, home=home, state=tmp_path / "state")
    left = path.read_text(encoding="utf-8")
    assert "new" in left
    assert "skillopt" not in left


def test_what_was_written_between_two_installations_stays_when_the_entry_goes(
    home: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    for agent in ("codex", "copilot"):
        install(agent, home=home, state=state)
    toml, servers = home / ".codex" / "config.toml", home / ".copilot" / "mcp-config.json"
    mine = b'[profiles.mine]\nmodel = "o3"\n'
    toml.write_bytes(mine)
    document = json.loads(servers.read_bytes())
    document["mcpServers"]["skillopt-sleep"]["command"] = "/another/skillopt-sleep"
    document["mcpServers"]["mine"] = {"command": "x"}
    servers.write_text(json.dumps(document), encoding="utf-8")
    for agent in ("codex", "copilot"):
        install(agent, home=home, state=state)
        uninstall(agent, home=home, state=state)
    assert toml.read_bytes() == mine
    assert json.loads(servers.read_bytes()) == {"mcpServers": {"mine": {"command": "x"}}}


def test_of_several_programs_all_or_none_are_installed(home: Path) -> None:
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text("[]", encoding="utf-8")
    before = tree(home)
    done = script(home, "claude", "opencode")
    assert done.returncode == 2
    assert "Nothing was changed" in done.stderr
    assert tree(home) == before


def test_a_configuration_without_an_entry_of_ours_keeps_no_other_plugin_installed(
    home: Path, tmp_path: Path
) -> None:
    foreign = {
        home / ".copilot/mcp-config.json": '{"n": 1.10}',
        home / ".config/opencode/opencode.json": "{} // mine",
    }
    for path, text in foreign.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    before = tree(home)
    install("claude", home=home, state=tmp_path / "state")
    for agent in ("claude", "copilot", "opencode"):
        uninstall(agent, home=home, state=tmp_path / "state")
    assert tree(home) == before


def test_an_entry_that_cannot_be_taken_out_without_loss_is_to_be_removed_by_hand(
    home: Path, tmp_path: Path
) -> None:
    install("copilot", home=home, state=tmp_path / "state")
    path = home / ".copilot" / "mcp-config.json"
    path.write_text(f"{path.read_text()} // mine")
    with pytest.raises(RefusedChange, match=r"remove the entry mcpServers\.skillopt-sleep by hand"):
        uninstall("copilot", home=home, state=tmp_path / "state")


def test_a_byte_order_mark_is_read_and_kept(home: Path, tmp_path: Path) -> None:
    path = home / ".copilot" / "mcp-config.json"
    path.parent.mkdir()
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    install("copilot", home=home, state=tmp_path / "state")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf{")
    assert json.loads(path.read_text(encoding="utf-8-sig"))["a"] == 1
    uninstall("copilot", home=home, state=tmp_path / "state")
    assert path.read_bytes() == b'\xef\xbb\xbf{"a": 1}\n'


@pytest.mark.parametrize(
    ("agent", "name", "text", "why"),
    [
        ("copilot", ".copilot/mcp-config.json", '{"a": 1} // mine', "add this by hand"),
        ("copilot", ".copilot/mcp-config.json", "[]", "holds no object"),
        ("copilot", ".copilot/mcp-config.json", '{"mcpServers": 1}', "holds no object"),
        (
            "copilot",
            ".copilot/mcp-config.json",
            '{"mcpServers": {"skillopt-sleep": {"command": "other"}}}',
            "not ours",
        ),
        ("copilot", ".copilot/mcp-config.json", '{"a": {"b": 1, "b": 2}}', "'b' twice"),
        *(
            ("copilot", ".copilot/mcp-config.json", f'{{"a": [{number}]}}', "add this by hand")
            for number in ("1.10", "1e400", "-0", "1E5", "0.1000000000000000055", "NaN")
        ),
        ("copilot", ".copilot/mcp-config.json", '{"a": "\\ud800"}', "not UTF-8"),
        ("copilot", ".copilot/mcp-config.json", '{"a": ' + "[" * 200_000, "nested too deeply"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "add this by hand"),
        ("codex", ".codex/config.toml", "[mcp_servers.skillopt-sleep]\n", "not ours"),
        ("claude", ".claude/skills/skillopt-sleep/.mcp.json", "{}", "other content"),
    ],
)
def test_what_cannot_be_changed_without_a_loss_is_refused_before_anything_is_written(
    agent: str, name: str, text: str, why: str, home: Path, tmp_path: Path
) -> None:
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    before = tree(home)
    with pytest.raises(RefusedChange, match=why) as error:
        install(agent, home=home, state=tmp_path / "state")
    assert str(path) in str(error.value)
    assert tree(home) == before


def test_a_configuration_that_is_a_link_stays_one(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "config.toml"
    real.parent.mkdir()
    real.write_text('model = "o3"\n', encoding="utf-8")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(real)
    install("codex", home=home, state=tmp_path / "state")
    assert (home / ".codex" / "config.toml").is_symlink()
    assert "skillopt" in real.read_text(encoding="utf-8")
    uninstall("codex", home=home, state=tmp_path / "state")
    assert real.read_text(encoding="utf-8") == 'model = "o3"\n'


def test_a_file_that_the_user_has_changed_is_left_and_told(home: Path, tmp_path: Path) -> None:
    install("codex", home=home, state=tmp_path / "state")
    skill = home / ".agents" / "skills" / "nightly-learning" / "SKILL.md"
    skill.write_text("mine now", encoding="utf-8")
    with pytest.raises(RefusedChange, match="other content"):
        install("codex", home=home, state=tmp_path / "state")
    assert uninstall("codex", home=home, state=tmp_path / "state").kept == (skill,)
    assert skill.read_text(encoding="utf-8") == "mine now"


def test_an_older_version_is_replaced(home: Path, tmp_path: Path) -> None:
    install("codex", home=home, state=tmp_path / "state")
    skill = home / ".agents" / "skills" / "nightly-learning" / "SKILL.md"
    new = skill.read_bytes()
    record = tmp_path / "state" / "installed" / "codex.json"
    known = json.loads(record.read_text(encoding="utf-8"))
    gone = home / ".agents" / "skills" / "old" / "SKILL.md"
    gone.parent.mkdir()
    for path in (skill, gone):
        path.write_bytes(b"older\n")
        known["files"][path.relative_to(home).as_posix()] = digest(b"older\n")
    known["folders"].append(str(gone.parent))
    record.write_text(json.dumps(known), encoding="utf-8")
    install("codex", home=home, state=tmp_path / "state")
    assert skill.read_bytes() == new
    assert not gone.parent.exists()


def test_an_unknown_program_is_told_with_the_nearest_name(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'claude'"):
        install("cluade", home=home, state=tmp_path / "state")


def test_no_plugin_depends_on_the_path_of_the_user() -> None:
    """Every command in what is installed is a whole path, so that a virtual environment works."""
    for agent, plugin in plugins(["/a b/python", "-m", "skillopt_sleep"]).items():
        text = "\n".join(plugin.files.values())
        assert "`skillopt-sleep status`" not in text, agent
        assert "'/a b/python' -m skillopt_sleep" in text, agent


def test_skills_and_commands_have_the_front_matter_that_programs_need() -> None:
    for plugin in plugins().values():
        skills = [text for name, text in plugin.files.items() if name.endswith("SKILL.md")]
        for text in skills:
            front = yaml.safe_load(text.split("---\n")[1])
            assert front.keys() == {"name", "description"}
            assert len(front["description"]) <= 1024
    manifest = json.loads((MARKETPLACE / ".claude-plugin" / "marketplace.json").read_bytes())
    (listed,) = manifest["plugins"]
    assert (MARKETPLACE / listed["source"] / ".claude-plugin" / "plugin.json").is_file()


def test_every_file_of_the_plugins_is_in_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = text.partition("\nskillopt_sleep = [")[2].partition("]")[0]
    patterns = re.findall(r'"([^"]+)"', listed)
    # As setuptools does it: `*` is no name that begins with a dot.
    found = {
        name
        for pattern in patterns
        for name in glob.glob(pattern, root_dir=MARKETPLACE.parent, recursive=True)  # noqa: PTH207 - as setuptools
    }
    files = [path for path in MARKETPLACE.rglob("*") if path.is_file() and ".py" not in path.suffix]
    assert files
    assert {path.relative_to(MARKETPLACE.parent).as_posix() for path in files} <= found


def script(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", MARKETPLACE / "install.sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHON": sys.executable},
    )


def test_the_script_installs_and_takes_away(home: Path) -> None:
    assert script(home, "claude", "codex").returncode == 0
    assert (home / ".claude" / "skills" / "skillopt-sleep" / ".mcp.json").is_file()
    assert "codex: nothing to do" in script(home, "claude", "codex").stdout
    assert script(home, "--uninstall", "claude", "codex").returncode == 0
    assert {path.parts[len(home.parts)] for path in home.rglob("*") if path.is_file()} == set()
    assert script(home).returncode == 2
    assert script(home, "nobody").returncode == 2
    if shutil.which("dash"):
        subprocess.run(["dash", "-n", MARKETPLACE / "install.sh"], check=True)


def test_uninstalling_says_which_files_went_and_which_lost_our_entry(home: Path) -> None:
    name = ".copilot/mcp-config.json"
    (home / name).parent.mkdir()
    (home / name).write_bytes(FOREIGN[name])
    assert f"copilot: wrote {home / name}" in script(home, "copilot").stdout.splitlines()
    told = script(home, "--uninstall", "copilot").stdout.splitlines()
    assert told[0] == f"copilot: removed our entry from {home / name}"
    assert {line.rpartition(" ")[0] for line in told[1:]} == {"copilot: removed"}
    assert (home / name).read_bytes() == FOREIGN[name]


def test_the_hook_begins_a_night_only_where_that_is_wished(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    def ended() -> None:
        subprocess.run(
            [sys.executable, "-m", "skillopt_sleep", "hook", "session-end"],
            input=json.dumps({"cwd": str(project), "hook_event_name": "SessionEnd"}),
            text=True,
            check=True,
            env={**os.environ, "HOME": str(home)},
        )

    ended()
    assert not any(project.iterdir())
    (home / ".skillopt-sleep").mkdir()
    config = home / ".skillopt-sleep" / "config.yaml"
    config.write_text("run_after_sessions: true\n", encoding="utf-8")
    ended()
    assert (project / ".skillopt-sleep" / "schedule.log").is_file()


def test_what_was_installed_is_written_down_for_the_user_alone(tmp_path: Path) -> None:
    state = tmp_path / ".skillopt-sleep"
    install("codex", home=tmp_path, state=state)
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "installed" / "codex.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("agent", AGENTS)
def test_folders_that_were_there_before_stay_also_if_they_are_empty(
    agent: str, home: Path, tmp_path: Path
) -> None:
    named = [*plugins()[agent].files, *plugins()[agent].entries]
    folders = {home / Path(name).parts[0] for name in named} | {home / ".config" / "devin"}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    before = tree(home)
    for _ in range(2):
        install(agent, home=home, state=tmp_path / "state")
    uninstall(agent, home=home, state=tmp_path / "state")
    assert tree(home) == before


def test_a_configuration_with_a_second_name_is_refused(home: Path, tmp_path: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "o3"\n', encoding="utf-8")
    os.link(path, home / "second")
    with pytest.raises(RefusedChange, match="hard links"):
        install("codex", home=home, state=tmp_path / "state")
    assert path.samefile(home / "second")
    (home / "second").unlink()
    install("codex", home=home, state=tmp_path / "state")
    os.link(path, home / "second")
    with pytest.raises(RefusedChange, match="hard links"):
        uninstall("codex", home=home, state=tmp_path / "state")


@pytest.mark.parametrize(
    ("agent", "variable", "usual", "name"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".claude", "skills/skillopt-sleep/.mcp.json"),
        ("codex", "CODEX_HOME", ".codex", "config.toml"),
        ("copilot", "COPILOT_HOME", ".copilot", "mcp-config.json"),
        ("openclaw", "OPENCLAW_STATE_DIR", ".openclaw", "openclaw.json"),
    ],
)
def test_a_plugin_is_installed_where_the_variable_of_its_program_says(
    agent: str,
    variable: str,
    usual: str,
    name: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    install(agent, state=tmp_path / "state")
    assert (tmp_path / "mine" / name).is_file()
    assert not (home / usual).exists()
    monkeypatch.delenv(variable)
    uninstall(agent, state=tmp_path / "state")
    assert not (tmp_path / "mine").exists()
    assert not any(home.iterdir())
