"""Settings as options of a command, made from the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from skillopt.errors import ConfigError
from skillopt_sleep.settings import Settings, load

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(function: F) -> F:
    """Adds an option for every setting; `settings_of` reads them back."""
    for name, info in reversed(Settings.model_fields.items()):
        function = _option(name, info)(function)
    return function


def settings_of(given: dict[str, Any]) -> Settings:
    """Defaults, then the configuration file, then what was given on the command line.

    Raises:
        ConfigError: The file or a value is wrong; it names the key.
    """
    named = {key: value for key, value in given.items() if value not in (None, ())}
    settings = load(named)
    _check_folder(settings)
    _check_names(settings)
    return settings


def _check_folder(settings: Settings) -> None:
    try:
        settings.project.absolute()
    except FileNotFoundError:
        raise ConfigError(
            "project: the current folder was deleted; change to another one, or name the project "
            "with its whole path (--project)"
        ) from None


def _check_names(settings: Settings) -> None:
    """Refuse names of parts that do not exist now, and not in the middle of a night."""
    usual = Settings()
    if settings.source != usual.source:
        from skillopt_sleep.harvest import source_names

        source_names(settings)
    if settings.agent != usual.agent:
        from skillopt_sleep.targets import agent_of

        agent_of(settings)
    if settings.gate != usual.gate:
        from skillopt.config.parts import GATE

        if problem := GATE.registry.unknown(settings.gate):
            raise ConfigError(f"gate: {problem}")
    for told, backend in (("", settings.backend), ("optimizer_", settings.optimizer_backend)):
        if backend:
            from skillopt_sleep.models import check_backend

            check_backend(backend, told)


def as_arguments(given: Mapping[str, object]) -> list[str]:
    """Settings as a command line that says the same wherever it is called."""
    told: list[str] = []
    for name, value in given.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            told.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple | list):
            told += [f"--{flag}={_plain(each)}" for each in cast("Sequence[object]", value)]
        else:
            told.append(f"--{flag}={_plain(value)}")
    return told


def _plain(value: object) -> str:
    return str(value.expanduser().absolute()) if isinstance(value, Path) else str(value)


def _option(name: str, info: FieldInfo) -> Callable[[F], F]:
    flag = "--" + name.replace("_", "-")
    kind, many = _type(info.annotation)
    if kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=info.description)
    return click.option(
        flag,
        name,
        type=kind,
        default=None,
        multiple=many,
        help=info.description,
        metavar=None if isinstance(kind, click.Choice) else "VALUE",
    )


def _type(annotation: Any) -> tuple[Any, bool]:  # noqa: ANN401 - annotations are of any type
    """The type that click knows, and whether it may be given several times."""
    if get_origin(annotation) is Literal:
        return click.Choice(get_args(annotation)), False
    if get_origin(annotation) is tuple:
        return _type(get_args(annotation)[0])[0], True
    if get_origin(annotation) in (Union, UnionType):
        return _type(next(arg for arg in get_args(annotation) if arg is not type(None)))
    return (click.Path(path_type=Path) if annotation is Path else annotation), False
