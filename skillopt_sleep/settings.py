"""The settings of a night: one closed schema, from which flags and the MCP tools are made too."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, cast

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from skillopt.config.secrets import with_variables
from skillopt.core.intake import clean_text
from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError
from skillopt_sleep.strict import RepeatedKey, StrictLoader, different_keys

MANAGED_SKILL: Final = "skillopt-sleep-learned"
_DOCUMENTS: Final = (
    *("state_dir", "place", "managed_skill_name", "target_skill_path", "memory_path"),
    *("skill_root", "claude_home"),
)
"""Settings that say where documents are, and where it is known what was done with them."""
_FILES: Final = ("config.json", "config.yaml", "config.yml")
_ALIASES: Final = {
    "holdout_fraction": "val_fraction",
    "multi_skill_report": "multi_skill_fanout",
    "transcript_source": "source",
    "max_tasks_per_night": "max_tasks",
    "max_sessions_per_night": "max_sessions",
    "skill_roots": "skill_root",
    "redact_secrets": "redact",
}
"""Names that configuration files of the original use."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment that says the same as a setting.

    `{BACKEND}` in its name stands for the backend, in capitals. Several values of one setting are
    separated by commas or newlines.
    """

    name: str


class Settings(BaseModel):
    """Every setting with its default and what it means."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    # Where sessions come from.
    project: Path = Path()
    """The project whose sessions are looked at and for which something is learnt."""
    scope: Literal["invoked", "all"] = "invoked"
    """Sessions of this project and the folders below it, or of all projects."""
    source: str = "auto"
    """Agent programs whose sessions are read, separated by commas; `auto`: all that are found."""
    claude_home: Path | None = None
    """Folder of Claude Code (~/.claude)."""
    codex_home: Path | None = None
    """Folder of Codex (~/.codex)."""
    copilot_home: Path | None = None
    """Folder of Copilot CLI (~/.copilot)."""
    cursor_home: Path | None = None
    """Folder of Cursor (~/.cursor)."""
    gemini_home: Path | None = None
    """Folder of Gemini CLI (~/.gemini)."""
    qwen_home: Path | None = None
    """Folder of Qwen Code (~/.qwen)."""
    pi_home: Path | None = None
    """Folder of Pi (~/.pi)."""
    devin_home: Path | None = None
    """Folder of Devin's CLI (~/.local/share/devin)."""
    openclaw_home: Path | None = None
    """Folder of OpenClaw (~/.openclaw)."""
    opencode_db: Path | None = None
    """Database of OpenCode (opencode.db in its data folder)."""
    vscode_workspace_storage: Path | None = None
    """Folder workspaceStorage of VS Code."""
    copilot_cli_session_store: Path | None = None
    """Database session-store.db of Copilot CLI."""
    sessions_file: Path | None = None
    """A JSONL file with one session a line (see docs/sleep/sources.md)."""
    headless: bool = False
    """Also take sessions in which nobody took part, such as those of `claude -p` in a script."""
    agent_markers: Annotated[tuple[str, ...], Variable("SKILLOPT_SLEEP_AGENT_MARKERS")] = ()
    """Texts in a first prompt by which sessions of other automated tools are known."""
    negative_phrases: Annotated[tuple[str, ...], Variable("SKILLOPT_SLEEP_NEG_FEEDBACK")] = ()
    """Further words and phrases that say that an answer was wrong."""
    positive_phrases: Annotated[tuple[str, ...], Variable("SKILLOPT_SLEEP_POS_FEEDBACK")] = ()
    """Further words and phrases that say that an answer was right."""
    lookback_hours: Annotated[float, Field(ge=0, le=1_000_000)] = 72
    """How far the first night looks back; 0: everything there is."""
    max_sessions: Annotated[int, Field(ge=0)] = 0
    """Sessions of a night at most, the oldest first; 0: three times max_tasks."""

    # What is made of them.
    max_tasks: Annotated[int, Field(ge=1)] = 40
    """Tasks that a night mines at most; a task file is taken as it is."""
    llm_mine: bool = True
    """Let the optimizer model generalise tasks, where one is configured."""
    tasks_file: Path | None = None
    """A reviewed task file instead of harvesting and mining."""
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.34
    """Share of the tasks on which candidates are decided."""
    test_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the tasks that nothing is chosen by."""
    target_skill_path: Path | None = None
    """The skill to improve, instead of the managed one."""
    skill_root: tuple[Path, ...] = ()
    """Further folders in which skills are looked for."""
    agent: str = "auto"
    """The agent program whose skill and memory files are written; `auto`: by the sessions."""
    place: Literal["project", "home"] = "project"
    """Whether what is learnt is for this project or for all projects of the user."""
    memory_path: Path | None = None
    """The memory file to write, instead of the agent's own."""
    managed_skill_name: str = MANAGED_SKILL
    """The skill that is created for what is learnt."""
    multi_skill_fanout: bool = False
    """Also improve every skill that sessions used, each on its own tasks."""
    evolve_skill: bool = True
    """Learn a skill."""
    evolve_memory: bool = True
    """Learn for the memory file (CLAUDE.md, AGENTS.md, ...)."""
    preferences: str = ""
    """Wishes of the user, shown to the optimizer."""

    # Who attempts and who reflects.
    backend: str = ""
    """Model backend or agent that attempts tasks; empty: nothing is replayed, only mined."""
    model: Annotated[str, Variable("SKILLOPT_SLEEP_{BACKEND}_MODEL")] = ""
    """Its model."""
    program_path: Annotated[Path | None, Variable("SKILLOPT_SLEEP_{BACKEND}_PATH")] = None
    """Its program, where the backend is one (claude, codex, ...) and PATH does not lead to it."""
    optimizer_backend: str = ""
    """Backend that mines, judges and reflects; empty: the same."""
    optimizer_model: str = ""
    """Its model."""
    base_url: str = ""
    """Address of an OpenAI-compatible server."""
    replay: Literal["model", "agent"] = "model"
    """How tasks are attempted: as text by a plain model, or by an agent with tools in a sandboxed
    copy of the project."""
    workers: Annotated[int, Field(ge=1), Variable("SKILLOPT_SLEEP_WORKERS")] = 4
    """Attempts at once."""
    prompts: Annotated[Path | None, Variable("SKILLOPT_SLEEP_PROMPTS_PATH")] = None
    """Folder whose *.md files replace the built-in prompts of the same name."""

    # How it learns.
    edit_budget: Annotated[int, Field(ge=1)] = 8
    """Edits of a step at most."""
    replicates: Annotated[int, Field(ge=1)] = 2
    """Paired attempts at each validation task."""
    gate: str = "paired"
    """The gate of the training run."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Chance that a night changes anything although nothing is better, over all its documents."""
    min_val: Annotated[int, Field(ge=0)] = 20
    """Validation tasks at least: those of earlier nights fill up, as far as there are any."""
    gate_metric: Literal["hard", "soft", "mixed", "reward"] = "mixed"
    """What is compared; `reward` weighs accuracy, tokens and latency."""
    gate_no_regression: bool = False
    """Also refuse a candidate that makes any single task worse."""
    weight_accuracy: Annotated[float, Field(ge=0)] = 1.0
    """Weight of accuracy in `reward`."""
    weight_tokens: Annotated[float, Field(ge=0)] = 0.0
    """Weight of tokens in `reward`."""
    weight_latency: Annotated[float, Field(ge=0)] = 0.0
    """Weight of latency in `reward`."""
    dream_rollouts: Annotated[int, Field(ge=1)] = 1
    """Attempts at each training task, so that good and bad ones can be compared."""
    dream_factor: Annotated[int, Field(ge=0)] = 0
    """Variants of each training task."""
    recall_k: Annotated[int, Field(ge=0)] = 0
    """Archived tasks that resemble tonight's and join the training tasks."""
    slow_update: bool = True
    """Keep long-term guidance from night to night."""
    epochs: Annotated[int, Field(ge=1)] = 1
    """Passes over the training tasks."""
    seed: int = 42
    """Seed of all choices."""

    # Limits of a night.
    max_tokens_per_night: Annotated[int, Field(ge=0)] = 400_000
    """Tokens at most; 0: no limit."""
    max_minutes_per_night: Annotated[float, Field(ge=0)] = 0
    """Minutes after which no attempt starts; 0: no limit."""
    max_usd_per_night: Annotated[float, Field(ge=0)] = 0
    """Dollars at most; 0: no limit."""

    # What is kept and done.
    state_dir: Path | None = None
    """Folder of state, archive and configuration (~/.skillopt-sleep)."""
    auto_adopt: bool = False
    """Adopt an accepted night at once."""
    run_after_sessions: bool = False
    """Run a night, if none ran for 20 hours, when a session of an agent with our plugin ends."""
    redact: bool = True
    """Take secrets, e-mail addresses, telephone and card numbers out of all that is read."""
    keep_nights: Annotated[int, Field(ge=1)] = 14
    """Nights of a project whose run directories are kept."""
    progress: bool = False
    """Print what is being done."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_switch(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and (kind is int or kind is float):
            raise ValueError(f"should be a number, not {str(value).lower()}")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _from_home(cls, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(_expanded, cast(tuple[object, ...], value)))
        return _expanded(value)

    @model_validator(mode="after")
    def _leaves_training_tasks(self) -> Self:
        if self.val_fraction + self.test_fraction >= 1:
            raise ValueError(
                f"val_fraction ({self.val_fraction:g}) and test_fraction "
                f"({self.test_fraction:g}) together must be below 1: training needs tasks too"
            )
        return self


def _expanded(value: object) -> object:
    try:
        return value.expanduser() if isinstance(value, Path) else value
    except RuntimeError as error:  # ~somebody who is not known here
        raise ValueError(f"{value}: {error}") from error


def located(settings: Settings) -> Settings:
    """The same with the project's real path, and all paths as they are from any folder.

    Raises:
        ConfigError: It is not a folder, or its name cannot be written down.
    """
    project = settings.project.expanduser().resolve()
    if (shown := clean_text(str(project))) != str(project):
        raise ConfigError(f"project: the name of {shown} is not UTF-8; rename the folder")
    if not project.is_dir():
        raise ConfigError(f"project: {project} is not a folder; give one with --project")
    settings = settings.model_copy(update={"project": project})
    paths: dict[str, object] = {
        name: _from_anywhere(settings, name, getattr(settings, name))
        for name in Settings.model_fields
        if name != "project"
    }
    return settings.model_copy(update=paths)


def _from_anywhere(settings: Settings, name: str, value: object) -> object:
    if isinstance(value, tuple):
        several = cast("tuple[object, ...]", value)
        return tuple(_from_anywhere(settings, name, each) for each in several)
    return Path(_absolute(settings, name, value)) if isinstance(value, Path) else value


def home_of(settings: Settings) -> Path:
    """The folder of state, archive and configuration."""
    return settings.state_dir or Path.home() / ".skillopt-sleep"


def told_command(settings: Settings, *words: str) -> str:
    """A command of Sleep on the same project, state and documents, to be typed anywhere."""
    told = ["skillopt-sleep", *words, "--project", str(settings.project.expanduser().resolve())]
    for name in _DOCUMENTS:
        value: object = getattr(settings, name)
        if value == Settings.model_fields[name].default:
            continue
        several = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
        for each in several:
            told += ["--" + name.replace("_", "-"), _absolute(settings, name, each)]
    return shlex.join(told)


def _absolute(settings: Settings, name: str, value: object) -> str:
    if not isinstance(value, Path):
        return str(value)
    base = settings.project if name in ("target_skill_path", "memory_path") else Path()
    return str((base.expanduser() / value.expanduser()).absolute())


def load(given: Mapping[str, object]) -> Settings:
    """Defaults, then the configuration file, then variables of the environment, then `given`.

    Raises:
        ConfigError: The file cannot be read, or a key or value is wrong; it names it.
    """
    state = given.get("state_dir")
    folder = Path(str(state)).expanduser() if state else Path.home() / ".skillopt-sleep"
    files = [path for name in _FILES if (path := folder / name).is_file()]
    if len(files) > 1:
        raise ConfigError(f"{files[0]} and {files[1]} are both there; keep one of them")
    path = files[0] if files else None
    known = {**(_read(path) if path else {}), **given}
    said = from_variables(str(known.get("backend", "")))
    where = {name: variable for name, (variable, _) in said.items() if name not in given}
    values = {**known, **{name: said[name][1] for name in where}}
    return _checked(values, str(path or "the command line"), where)


def from_variables(backend: str) -> dict[str, tuple[str, str | list[str]]]:
    """Settings that variables of the environment give: which variable, and what it says."""
    found: dict[str, tuple[str, str | list[str]]] = {}
    for name, info in Settings.model_fields.items():
        for each in info.metadata:
            if not isinstance(each, Variable) or ("{" in each.name and not backend):
                continue
            variable = each.name.format(BACKEND=re.sub(r"\W", "_", backend.upper()))
            said = with_variables(f"${{{variable}}}").strip()
            if not said or said.startswith("${"):
                continue
            many = info.default == ()
            parts = [part.strip() for part in re.split(r"[,\n]", said) if part.strip()]
            found[name] = (variable, parts if many else said)
    return found


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        data: object = (
            json.loads(text, object_pairs_hook=different_keys)
            if path.suffix == ".json"
            else yaml.load(text, StrictLoader)  # noqa: S506 - a safe loader
        )
    except (OSError, ValueError, yaml.YAMLError) as error:
        told = "it is not UTF-8; save it as UTF-8" if isinstance(error, UnicodeError) else error
        raise ConfigError(f"{path} cannot be read: {told}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(
            f"{path} holds {kind}; settings are names with values, as in max_tasks: 20"
        )
    # YAML reads `1:` and `on:` as a number and a truth value.
    named = {str(key): value for key, value in cast(dict[object, object], data).items()}
    try:
        return different_keys([(_ALIASES.get(key, key), value) for key, value in named.items()])
    except RepeatedKey as error:  # by two of its names
        raise ConfigError(f"{path}: {error}") from None


def _checked(values: Mapping[str, object], where: str, variables: Mapping[str, str]) -> Settings:
    unknown = next((key for key in values if key not in Settings.model_fields), None)
    if unknown is not None:
        hint = did_you_mean(unknown, [*Settings.model_fields])
        raise ConfigError(f"{where}: unknown setting {unknown!r}{f'; {hint}' if hint else ''}")
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        where = variables.get(key, where)
        told = first["msg"].removeprefix("Value error, ").replace("Input should", "should")
        raise ConfigError(": ".join(part for part in (where, key, told) if part)) from None
