"""A whole configuration: typed settings with their sources."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from skillopt.config import yaml12
from skillopt.config.given import GivenValue, Settings, read
from skillopt.config.keys import Key, described
from skillopt.config.model_section import Role, RoleModel, Section
from skillopt.config.names import IGNORED, NAMES, flat_name, suggestion
from skillopt.config.parts import PartKey, parts_in
from skillopt.config.problems import check, shown
from skillopt.config.redaction import HIDDEN, names_secret, redact
from skillopt.config.secrets import with_variables
from skillopt.config.sections import KEYS, SECTIONS, Sections
from skillopt.core.ports import Gate
from skillopt.errors import ConfigError

__all__ = ["Config", "Role", "RoleModel", "configure", "settings_for"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Sections):
    """Everything that a run is told. Two are equal when their settings are."""

    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What the user should be told although nothing is wrong."""
    given: Settings = field(default_factory=dict[str, GivenValue], compare=False, repr=False)

    def values(self) -> dict[str, object]:
        """Every setting by its dotted key, those of the environment and other parts included."""
        common: dict[str, object] = {}
        own: dict[str, object] = {}
        for name in SECTIONS:
            section: Section = getattr(self, name)
            common |= {f"{name}.{key}": value for key, value in section if key != "own"}
            own |= {f"{name}.{key}": value for key, value in self.own(name).items()}
        return common | own

    def own(self, section: str) -> Mapping[str, object]:
        """The settings in a section that only the part knows which the section names."""
        return getattr(getattr(self, section), "own", {})

    def path(self, key: str) -> Path | None:
        """The path that a key holds; None when it is blank.

        A relative path is looked for in the current directory first, then in the folder of the file
        that gave it. If neither has it, it is a path in the current directory.
        """
        text = self.values().get(key)
        return self.located(key, text) if isinstance(text, str) and text else None

    def located(self, key: str, text: str | Path) -> Path:
        """A path that a key holds, looked for as `path` does; `$NAME` in it is a variable."""
        path = Path(with_variables(str(text))).expanduser()
        given = self.given.get(key)
        beside = given.folder / path if given and given.folder else path
        return beside if beside.exists() and not path.exists() else path

    def complaint(self, key: str, what: str) -> ConfigError:
        """An error about the value of a key, naming where it was given."""
        return ConfigError(_line(key, what, self.given))

    def flat(self) -> dict[str, object]:
        """The settings under the flat names that users know, without secrets."""
        settings: dict[str, object] = {}
        for key, value in self.values().items():
            name = flat_name(key)
            is_taken = name in settings or NAMES.get(name, key) != key
            dotted = is_taken or (key not in KEYS and not key.startswith("env."))
            settings[key if dotted else name] = _plain(key, value)
        return settings

    def identity(self) -> dict[str, str]:
        """The settings that change what a run computes: dotted key -> value as JSON.

        Models, environment, data and documents are not here: each of them has a fingerprint.
        """
        values = self.values()
        if self.env.split_ratio == "auto":
            # What it comes to shows in the tasks of each split.
            values["env.split_ratio"] = "2:1:7"
        return {
            key: json.dumps(_plain(key, value), ensure_ascii=False, sort_keys=True)
            for key, value in values.items()
            if _changes_results(key)
        }

    def dump(self) -> str:
        """The effective configuration as YAML, without secrets."""
        document: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
        for key, value in self.shown().items():
            section, _, name = key.partition(".")
            document[section][name] = value
        return yaml12.write(document)

    def shown(self) -> dict[str, object]:
        """The effective value of every key in JSON's types, without secrets."""
        return {key: _plain(key, value) for key, value in self.values().items()}


def _changes_results(key: str) -> bool:
    about = described(KEYS[key]) if key in KEYS else Key()
    return about.asks if key.startswith("model.") else not about.may_change


def configure(given: Settings) -> Config:
    """Check settings against the schema; the error names every mistake."""
    sections: dict[str, Section] = {}
    wrong: list[str] = []
    for name, kind in SECTIONS.items():
        checked = check(TypeAdapter(kind), _section(name, kind, given))
        if isinstance(checked, Section):
            sections[name] = checked
        else:
            wrong += [_line(f"{name}.{key}", what, given) for key, what in checked.items()]
    unknown = [
        _line(key, _unknown(key), given)
        for key in given
        if key not in KEYS and key not in IGNORED and not _of_a_part(key, sections)
    ]
    if unknown or wrong:
        raise ConfigError("\n".join([*unknown, *wrong]))
    config = cast("Callable[..., Config]", Config)(**sections, given=given)
    return dataclasses.replace(config, warnings=tuple(_without_effect(config)))


def _of_a_part(key: str, sections: Mapping[str, Section]) -> bool:
    """Whether a key beyond the schema may be one of a part that its section names.

    A part named as `module:Name` is imported, and its keys are checked, when it is made.
    """
    section, dot, name = key.partition(".")
    if section == "env" or not dot:
        return bool(dot)
    keys = parts_in(section)
    if section not in sections:
        return bool(keys)
    settings = [key.settings(sections[section]) for key in keys]
    return any(names is None or name in names for names in settings)


def _without_effect(config: Config) -> Iterator[str]:
    """What was asked for and is not done; a value that is the default asks for nothing."""
    given = config.given
    for key, why in IGNORED.items():
        if key in given:
            yield _line(key, f"has no effect: {why}", given)


def settings_for(
    kind: type[S],
    config: Config,
    section: str = "env",
    *,
    part: PartKey | None = None,
    also: Collection[str] = (),
) -> S:
    """The settings of a part, checked against the dataclass that declares them.

    A field with the name of a key of the section has the value of that key. The others are keys
    that only the part knows. `also` are keys of the section that belong to another part. Paths
    are looked for as `Config.path` does; a blank one is None.
    """
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} should be a dataclass")
    names = [field.name for field in dataclasses.fields(kind)]
    here: Section = getattr(config, section)
    keys = parts_in(section)
    what = (part or keys[0]).told(here) if keys else f"environment {config.env.name!r}"
    allowed = [*names, *also, *(name for key in keys for name in key.all_settings(here))]
    hints = [f"{section}.{name}" for name in allowed]
    own = {
        key: _original(f"{section}.{key}", value, config)
        for key, value in config.own(section).items()
    }
    problems = {
        key: f"unknown key for {what}{suggestion(f'{section}.{key}', hints)}"
        for key in own
        if key not in allowed
    }
    values = {**dict(here), **own} if keys else own
    optional = {each.name for each in dataclasses.fields(kind) if each.default is None}
    given = {
        key: None if key in optional and read(value) == "" else value
        for key, value in values.items()
        if key in names
    }
    checked = check(TypeAdapter(kind), given)
    if isinstance(checked, kind):
        # For pydantic, true is the number 1.
        problems |= {
            key: f"should be a number, not {shown(read(value))}"
            for key, value in given.items()
            if isinstance(read(value), bool) and type(getattr(checked, key)) in {int, float}
        }
    if isinstance(checked, kind) and not problems:
        return _with_located_paths(checked, section, config)
    if isinstance(checked, dict):
        problems |= checked
    lines = [_line(f"{section}.{key}", problem, config.given) for key, problem in problems.items()]
    raise ConfigError("\n".join(lines))


def _with_located_paths(settings: S, section: str, config: Config) -> S:
    found: dict[str, object] = {}
    for each in dataclasses.fields(cast("Any", settings)):
        key, value = f"{section}.{each.name}", getattr(settings, each.name)
        match value:
            case Path():
                found[each.name] = config.located(key, value)
            case (Path(), *_):
                found[each.name] = tuple(config.located(key, path) for path in value)
            case _:
                pass
    return dataclasses.replace(cast("Any", settings), **found) if found else settings


def _original(key: str, value: object, config: Config) -> object:
    """The value with the text it was written as, if it is still the one that was given."""
    given = config.given.get(key)
    return given.value if given and read(given.value) == value else value


def _unknown(key: str) -> str:
    if key in SECTIONS:
        return f"is a section; write its keys below it, or {key}.KEY=VALUE"
    return f"unknown key{suggestion(key)}"


def _section(name: str, kind: type[Section], given: Settings) -> dict[str, object]:
    inside = {
        key.partition(".")[2]: setting.value
        for key, setting in given.items()
        if key.startswith(f"{name}.") and key not in IGNORED
    }
    if "own" not in kind.model_fields:
        return {key: value for key, value in inside.items() if key in kind.model_fields}
    common = {key: inside.pop(key) for key in list(inside) if f"{name}.{key}" in KEYS}
    return {**common, "own": {key: read(value) for key, value in inside.items()}}


def _line(key: str, what: str, given: Settings) -> str:
    origin = given.get(key.partition("[")[0])
    return f"{key}: {what}" + (f" [{origin.origin}]" if origin else "")


def _plain(key: str, value: object) -> object:
    """The value in JSON's types and without secrets; a function is named by module and name."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return HIDDEN if value and names_secret(key) else redact(value)
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(name): _plain(str(name), inner) for name, inner in items}
        case list() | tuple():
            return [_plain(key, item) for item in cast("list[object]", value)]
        case _ if callable(value) or isinstance(value, Gate):
            name = getattr(value, "__qualname__", type(value).__qualname__)
            return _plain(key, f"{getattr(value, '__module__', '')}:{name}")
        case _:
            return _plain(key, str(value))
