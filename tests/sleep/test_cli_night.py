"""The commands of a night, as a shell calls them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support_sleep import office, places, simulated, tree

from skillopt.aio import in_thread
from skillopt.errors import ConfigError
from skillopt.testing.simulator import Simulator
from skillopt_sleep.cli.main import enter
from skillopt_sleep.likeness import grouped
from skillopt_sleep.models import NightModels, model_settings
from skillopt_sleep.settings import Settings, load
from skillopt_sleep.state import only_night
from skillopt_sleep.task_file import TaskFile, write_tasks


class Shell:
    """Runs commands in this process, with a home and a current folder of their own."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.patch = patch
        self.capture = capture

    def __call__(self, home: Path, *words: str, code: int = 0, where: Path | None = None) -> str:
        """What a command prints: the result, or what is wrong."""
        self.patch.setenv("HOME", str(home))
        self.patch.setenv("OPENAI_COMPATIBLE_API_KEY", "none")
        self.patch.chdir(where or home)
        self.capture.readouterr()
        ended = enter(words)
        said = self.capture.readouterr()
        assert ended == code, said.out + said.err
        assert "Traceback" not in said.err
        return said.out if code == 0 or "--json" in words else said.err


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def task_file(folder: Path, project: Path, *, reviewed: bool = True) -> Path:
    path = folder / "tasks.json"
    every = office(40, 3, project)
    # Those that are alike would have to be on one side.
    tasks = tuple(every[alike[0]] for alike in grouped([task.intent for task in every]))[:30]
    write_tasks(path, TaskFile(project=project, tasks=tasks, reviewed=reviewed))
    return path


def test_the_hint_to_see_a_traceback_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    missing = ("status", "--project", str(tmp_path / "none"))
    assert enter(missing) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert enter((*missing, "--debug")) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.sandbox
async def test_a_night_from_the_command_line_to_adoption(sleep: Shell, tmp_path: Path) -> None:
    project, home = places(tmp_path)
    path = task_file(tmp_path, project)
    async with Simulator(seed=1) as simulator:
        settings = simulated(project, home, simulator.url)
        words = (
            *("--project", str(project), "--tasks-file", str(path), "--json"),
            *("--backend", settings.backend, "--base-url", settings.base_url),
            *("--model", settings.model, "--optimizer-model", settings.optimizer_model),
            "--no-evolve-memory",
        )
        before = tree(tmp_path)
        looked = json.loads(await in_thread(lambda: sleep(home, "dry-run", *words)))
        assert looked["n_tasks"] == 30
        assert "calls" in looked["estimate"]
        assert tree(tmp_path) == before
        told = json.loads(await in_thread(lambda: sleep(home, "run", *words)))
    assert told["ok"] is True
    assert told["night"] == 1
    assert told["n_replayed"] == 30
    assert "manifest.json" in tree(Path(told["staging_dir"]))
    again = json.loads(await in_thread(lambda: sleep(home, "run", "--if-due", *words)))
    assert again["due"] is False
    status = json.loads(sleep(home, "status", "--project", str(project), "--json"))
    assert status["nights"][0]["night"] == 1
    assert [each["targets"] for each in status["waiting"]] == (
        [["skill"]] if told["accepted"] else []
    )


def test_a_night_without_a_model_and_sessions_is_done_at_once(sleep: Shell, tmp_path: Path) -> None:
    project, home = places(tmp_path)
    told = sleep(home, "run", where=project)
    assert "no model is configured" in told
    assert "0 sessions" in told
    # The current folder is the project.
    assert (project / ".skillopt-sleep/staging").is_dir()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("max_taks: 3", "unknown setting 'max_taks'; did you mean 'max_tasks'?"),
        ("val_fraction: 0.7\ntest_fraction: 0.4", "together must be below 1"),
        ("max_tasks: many", "max_tasks"),
        ("- a list", "settings are names with values"),
        ("1: 2", "unknown setting '1'"),
        ("on: 2", "unknown setting 'True'"),
        ("max_tasks: true", "max_tasks: should be a number, not true"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_configuration_file_is_refused_with_what_is_wrong(
    sleep: Shell, tmp_path: Path, config: str, told: str
) -> None:
    project, home = places(tmp_path)
    (home / ".skillopt-sleep").mkdir()
    (home / ".skillopt-sleep/config.yaml").write_text(config)
    said = sleep(home, "run", where=project, code=2)
    assert told in said
    assert "config.yaml" in said
    failed = json.loads(sleep(home, "run", "--json", where=project, code=2))
    assert failed["ok"] is False


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        ("schedule", "--backend", "claud"),
        ("run", "--backend", "claud"),
        ("run", "--optimizer-backend", "claud"),
        ("run", "--gate", "nope"),
        ("status", "--source", "x"),
        ("dry-run", "--agent", "claud"),
    ],
)
def test_a_name_of_nothing_is_refused_at_once(
    sleep: Shell, tmp_path: Path, command: str, option: str, name: str
) -> None:
    project, home = places(tmp_path)
    before = tree(tmp_path)
    said = sleep(home, command, option, name, where=project, code=2)
    assert repr(name) in said
    assert tree(tmp_path) == before


def test_a_planned_night_waits_for_that_of_another_project(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    with only_night(Settings(state_dir=home / ".skillopt-sleep")):
        waiting = subprocess.Popen(
            [sys.executable, "-m", "skillopt_sleep", "run", "--if-due", "--project", str(project)],
            env={**os.environ, "HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting: another night is under way")
    told, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert "night 1" in told.lower()


def test_a_configuration_file_counts_and_a_flag_counts_more(sleep: Shell, tmp_path: Path) -> None:
    project, home = places(tmp_path)
    (home / ".skillopt-sleep").mkdir()
    (home / ".skillopt-sleep/config.json").write_text('{"backend": "gemini", "max_tasks": 5}')
    tasks = str(task_file(tmp_path, project))
    said = sleep(home, "run", "--tasks-file", tasks, where=project, code=2)
    assert "name the model that gemini should use" in said
    assert "no model" in sleep(home, "run", "--backend", "", "--tasks-file", tasks, where=project)


def test_a_tilde_in_any_path_is_the_home_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "state").mkdir()
    config = {"memory_path": "~/notes.md", "skill_root": ["~/skills"]}
    (tmp_path / "state/config.json").write_text(json.dumps(config, indent="\t"))
    settings = load({"state_dir": "~/state", "project": "~"})
    assert (settings.state_dir, settings.project) == (tmp_path / "state", tmp_path)
    assert settings.memory_path == tmp_path / "notes.md"
    assert settings.skill_root == (tmp_path / "skills",)


def test_a_task_file_that_nobody_reviewed_is_refused_before_a_model_is_asked(
    sleep: Shell,
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    path = task_file(tmp_path, project, reviewed=False)
    words = ("run", "--tasks-file", str(path), "--backend", "openai", "--json")
    failed = json.loads(sleep(home, *words, where=project, code=2))
    assert "reviewed" in failed["message"]


def test_a_damaged_state_ends_every_command_with_one_line(sleep: Shell, tmp_path: Path) -> None:
    project, home = places(tmp_path)
    (home / ".skillopt-sleep").mkdir()
    (home / ".skillopt-sleep/state.json").write_text("{")
    for command in ("run", "status", "dry-run"):
        assert "is damaged" in sleep(home, command, where=project, code=1)


@pytest.mark.parametrize("time", ["25:00", "3", "noon"])
def test_a_time_that_is_none_is_refused(sleep: Shell, tmp_path: Path, time: str) -> None:
    project, home = places(tmp_path)
    assert "03:17" in sleep(home, "run", "--if-due", time, where=project, code=2)


@pytest.mark.sandbox
def test_handoff_ends_with_its_own_exit_code_and_says_where_the_questions_are(
    sleep: Shell,
    tmp_path: Path,
) -> None:
    project, home = places(tmp_path)
    path = task_file(tmp_path, project)
    words = ("run", "--backend", "handoff", "--tasks-file", str(path), "--json")
    told = json.loads(sleep(home, *words, where=project, code=3))
    assert told["status"] == "handoff_pending"
    assert all((Path(told["folder"]) / name).exists() for name in told["questions"])
    assert len(told["questions"]) == 18


def test_sleep_is_a_command_of_skillopt(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "skillopt", "sleep", "status", "--json"],
        cwd=project,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["nights"] == []


def test_a_flag_counts_more_than_a_variable_and_a_variable_more_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"workers": 2, "backend": "codex", "model": "filed", "agent_markers": ["m"]})
    )
    given = {"state_dir": tmp_path}
    assert (load(given).workers, load(given).model) == (2, "filed")
    for name, value in {
        "WORKERS": "3",
        "CODEX_MODEL": "said",
        "CLAUDE_MODEL": "of another backend",
        "CODEX_PATH": "/bin/my-codex",
        "NEG_FEEDBACK": "nope, try again\nbah",
        "POS_FEEDBACK": " ",
        "PROMPTS_PATH": "~/prompts",
    }.items():
        monkeypatch.setenv(f"SKILLOPT_SLEEP_{name}", value)
    said = load(given)
    assert (said.workers, said.model, said.program_path) == (3, "said", Path("/bin/my-codex"))
    assert said.negative_phrases == ("nope", "try again", "bah")
    assert (said.positive_phrases, said.agent_markers) == ((), ("m",))
    assert said.prompts == Path("~/prompts").expanduser()
    chosen = model_settings(said, NightModels())
    assert chosen["model.codex_exec_path"] == "/bin/my-codex"
    assert chosen["env.prompts"] == str(said.prompts)
    flags = load({**given, "workers": 4, "backend": "claude", "model": "given"})
    assert (flags.workers, flags.model, flags.program_path) == (4, "given", None)
    monkeypatch.setenv("SKILLOPT_SLEEP_WORKERS", "many")
    with pytest.raises(ConfigError, match=r"^SKILLOPT_SLEEP_WORKERS: workers: should be"):
        load(given)


@pytest.mark.sandbox
def test_status_shows_a_night_that_waits_for_answers_and_what_to_run_next(
    sleep: Shell, tmp_path: Path
) -> None:
    project, home = places(tmp_path)
    path = task_file(tmp_path, project)
    words = ("--project", str(project), "--tasks-file", str(path), "--backend", "handoff")
    sleep(home, "run", *words, "--no-evolve-memory", "--workers", "2", code=3)
    told = sleep(home, "status", "--project", str(project))
    found = json.loads(sleep(home, "status", "--project", str(project), "--json"))["questions"]
    count = len(found["files"])
    assert count > 0
    assert f"night 1 waits for answers: {count} open questions in " in told
    assert f"when they are answered:\n  {found['command']}\n" in told
    first = Path(found["files"][0])
    first.with_name(first.name.replace(".question.", ".answer.")).write_text("An answer")
    program, *again = shlex.split(found["command"])
    assert program == "skillopt-sleep"
    sleep(home, *again, code=3)  # the same night goes on, and does not begin anew
    after = json.loads(sleep(home, "status", "--project", str(project), "--json"))["questions"]
    assert after["night"] == 1
    assert str(first) not in after["files"]
    assert after["command"] == found["command"]


@pytest.mark.sandbox
def test_every_night_that_waits_is_shown_with_a_command_that_goes_on_with_it_from_anywhere(
    sleep: Shell, tmp_path: Path
) -> None:
    project, home = places(tmp_path)
    path = task_file(tmp_path, project)
    words = ("run", "--backend", "handoff", "--state-dir", "../state")
    sleep(home, *words, "--tasks-file", "../tasks.json", where=project, code=3)
    sleep(home, *words, "--tasks-file", str(path), where=project, code=3)  # the same file
    sleep(home, *words, "--tasks-file", str(path), "--seed", "7", where=project, code=3)
    look = ("status", "--project", str(project), "--state-dir", str(tmp_path / "state"))
    found = json.loads(sleep(home, *look, "--json"))
    every = [found["questions"], *found["earlier_questions"]]
    assert [each["night"] for each in every] == [2, 1]
    assert all(f"\n  {each['command']}\n" in sleep(home, *look) for each in every)
    for each in every:
        sleep(home, *shlex.split(each["command"])[1:], code=3)
    after = json.loads(sleep(home, *look, "--json"))
    assert [after["questions"], *after["earlier_questions"]] == every
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert f"{path} was changed since" in sleep(home, *look).replace("/project/..", "")


def test_wrong_usage_is_told_as_data_with_the_option_and_the_nearest_name(
    sleep: Shell, tmp_path: Path
) -> None:
    wrong = json.loads(sleep(tmp_path, "run", "--json", "--max-tasks", "abc", code=2))
    assert "--max-tasks" in wrong["message"]
    unknown = json.loads(sleep(tmp_path, "run", "--json", "--max-task", "3", code=2))
    assert "--max-tasks" in unknown["message"]
    before = json.loads(sleep(tmp_path, "--json", "status", code=2))
    assert "skillopt-sleep COMMAND --json" in before["message"]


def test_without_a_command_the_help_is_shown_once(sleep: Shell, tmp_path: Path) -> None:
    assert sleep(tmp_path).count("Usage:") == 1


@pytest.mark.parametrize("hours", ["1e400", "nan", "99999999999"])
def test_hours_that_no_calendar_has_are_refused(sleep: Shell, tmp_path: Path, hours: str) -> None:
    assert "lookback_hours" in sleep(tmp_path, "harvest", "--lookback-hours", hours, code=2)


def test_a_current_folder_that_was_deleted_is_told_in_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); sys.argv[0] = 'skillopt-sleep'; "
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            leave + "from skillopt_sleep.cli.main import main; main()",
            *("status", "--json"),
        ],
        cwd=gone,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "--project" in json.loads(done.stdout)["message"]
    assert "Traceback" not in done.stderr
