"""The command line: its settings as `a.b=c`, `--cfg-options a.b=c ...` and flat flags.

The configuration's own names are imported only when a flag is not one of the command's, so that
`--help` stays light.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import click

from skillopt.core.nearest import nearest

_OVERRIDES = ("--cfg-options", "--cfg_options")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What the command line says about the configuration."""

    config: Path | None = None
    overrides: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def blank(self) -> bool:
        return self.config is None and not self.overrides and not self.flags

    def command(self, name: str, settings: Mapping[str, str]) -> str:
        """The same command with these settings (dotted keys) changed, as a shell takes it."""
        replaced = {*settings, *(key.partition(".")[2] for key in settings)}
        words = ["skillopt", name, *([] if self.config is None else [str(self.config)])]
        words += [word for word in self.overrides if word.partition("=")[0] not in replaced]
        words += [f"--{key}={value}" for key, value in self.flags.items() if key not in replaced]
        words += [f"{key}={value}" for key, value in settings.items()]
        return shlex.join(words)


@dataclass(slots=True)
class Session:
    """One call of the program. Light, because `--help` makes one too."""

    given: CommandLine = field(default_factory=CommandLine)
    debug: bool = False
    hide: Callable[[str], str] = str
    """Takes secrets out of a text, once there are any to know of."""


class SettingsCommand(click.Command):
    """A command that takes any setting; what is not a setting goes to click as usual."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        walk = _Walk(deque(args), _own_options(self, ctx), ctx)
        walk.all()
        rest = super().parse_args(ctx, walk.rest)
        given = CommandLine(_config(ctx), tuple(walk.overrides), walk.flags)
        ctx.ensure_object(Session).given = given
        return rest


def _config(ctx: click.Context) -> Path | None:
    named, option = ctx.params.get("config"), ctx.params.get("config_option")
    if named is not None and option is not None and named != option:
        raise click.UsageError(
            f"two configuration files given, {named} and {option}; give one", ctx
        )
    return option if named is None else named


def _own_options(command: click.Command, ctx: click.Context) -> dict[str, bool]:
    """The command's own options, each with whether a value follows it."""
    options: dict[str, bool] = {}
    for param in command.get_params(ctx):
        if isinstance(param, click.Option):
            takes = not (param.is_flag or param.count)
            options |= dict.fromkeys([*param.opts, *param.secondary_opts], takes)
    return options


@dataclass(slots=True)
class _Walk:
    """Arguments from left to right."""

    left: deque[str]
    own: Mapping[str, bool]
    ctx: click.Context
    rest: list[str] = field(default_factory=list[str])
    overrides: list[str] = field(default_factory=list[str])
    flags: dict[str, str] = field(default_factory=dict[str, str])

    def all(self) -> None:
        while self.left:
            word = self.left.popleft()
            name, equals, value = word.partition("=")
            if word == "--":
                self.rest += [word, *self.left]
                self.left.clear()
            elif name in _OVERRIDES:
                self._take_overrides(name, value if equals else None)
            elif name in self.own:
                self._pass_on(word, takes=self.own[name] and not equals)
            elif name.startswith("--"):
                self._take_flag(name, value if equals else None)
            elif equals and not word.startswith("-"):
                self._override(word)
            else:
                self.rest.append(word)

    def _pass_on(self, word: str, *, takes: bool) -> None:
        self.rest.append(word)
        if takes and self.left:
            self.rest.append(self.left.popleft())

    def _take_overrides(self, option: str, first: str | None) -> None:
        words = [] if first is None else [first]
        while self.left and "=" in self.left[0] and not self.left[0].startswith("-"):
            words.append(self.left.popleft())
        if not words:
            raise click.BadOptionUsage(
                option, f"Option '{option}' needs at least one KEY=VALUE.", self.ctx
            )
        for word in words:
            self._override(word)

    def _override(self, word: str) -> None:
        """Take a `key=value`, which goes before a flag for the same setting that came earlier."""
        from skillopt.config.names import NAMES, resolve

        self.overrides.append(word)
        parts = word.partition("=")[0].strip().split(".")
        key = resolve(parts) if len(parts) <= 2 else None
        for name in [flag for flag in self.flags if NAMES[flag] == key]:
            del self.flags[name]

    def _take_flag(self, written: str, value: str | None) -> None:
        from skillopt.config.names import NAMES
        from skillopt.config.redaction import names_secret

        name = written[2:].replace("-", "_")
        key = NAMES.get(name)
        if key is None or names_secret(name):
            options = [*NAMES, *(option[2:] for option in self.own)]
            raise _unknown(written, name, options, self.ctx)
        if value is None:
            value = self._next_value(written, key)
        self.flags[name] = value

    def _next_value(self, written: str, key: str) -> str:
        if self.left and not self.left[0].startswith("--") and not self._is_switch_alone(key):
            return self.left.popleft()
        if _is_switch(key):
            return "true"
        raise click.BadOptionUsage(written, f"Option '{written}' requires a value.", self.ctx)

    def _is_switch_alone(self, key: str) -> bool:
        """`--use_gate config.yaml` does not mean a gate called config.yaml."""
        return _is_switch(key) and self.left[0].lower() not in _SWITCH_WORDS


_SWITCH_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "1", "0"])
"""What may follow a switch as its value; 1 and 0 are then refused with the right words."""


def _is_switch(key: str) -> bool:
    from skillopt.config.sections import SECTIONS

    section, _, name = key.partition(".")
    setting = SECTIONS[section].model_fields.get(name)
    if setting is None:
        return False
    return set(get_args(setting.annotation) or [setting.annotation]) <= {bool, type(None)}


def _variable_for(flag: str) -> str:
    """The environment variable that holds what a refused flag was meant for."""
    from skillopt.app.machine import key_variables
    from skillopt.config.names import NAMES

    # A key of one backend is read from the variable of the same name, for a role as well.
    setting = NAMES.get(flag, flag).rpartition(".")[2].upper()
    if setting in key_variables() or "AZURE_OPENAI" in setting:
        return setting
    return (
        "the variable of your backend, such as OPENAI_API_KEY (docs/backends.md lists them), or "
        "into the variable named by model.api_key_env=NAME,"
    )


def _unknown(
    written: str, name: str, options: Sequence[str], ctx: click.Context
) -> click.NoSuchOption:
    from skillopt.config.redaction import names_secret

    if names_secret(name):
        return click.NoSuchOption(
            written,
            f"No such option '{written}'; other users can see a command line, so keys are not "
            f"accepted there. Put the key into {_variable_for(name)} in the environment or .env.",
            ctx=ctx,
        )
    if "." in name:
        return click.NoSuchOption(
            written,
            f"No such option '{written}'; write a dotted key without dashes: {name}=VALUE.",
            ctx=ctx,
        )
    near = nearest(name, [option.replace("-", "_") for option in options])
    hint = f"; did you mean '--{near}'?" if near else "; `skillopt config` lists all settings."
    return click.NoSuchOption(written, f"No such option '{written}'{hint}", ctx=ctx)
