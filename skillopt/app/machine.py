"""What this machine has to train with: keys, model servers, programs, local models."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from skillopt import __version__
from skillopt.app.doctor import DoctorFinding
from skillopt.app.harness import NO_SANDBOX, harness_kind, make_sandbox
from skillopt.app.models import PROVIDERS
from skillopt.config.load import load_config
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.extras import install_command
from skillopt.core.intake import Json
from skillopt.errors import ConfigError
from skillopt.harness.escapes import try_escapes
from skillopt.model.provider import names_for
from skillopt.model.weights import CATALOGUE, Folder, default_root

_SERVERS = (("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000))
"""Servers that may run on this machine, with their usual ports."""
_PATIENCE = 0.5
"""Seconds; a server on this machine answers at once, or is not there."""
_PROGRAMS = {"claude": "claude_cli", "codex": "codex_cli", "copilot": "copilot_chat"}
"""Programs that serve as models, with their backends."""
_ROLES: tuple[Role, ...] = ("target", "optimizer", "judge")


def check_machine(secrets: Secrets) -> list[DoctorFinding]:
    """Everything that needs no configuration; nothing leaves the machine."""
    path = secrets.setting("PATH")
    keys = sorted(name for name in key_variables() if secrets.get(name) is not None)
    servers = (f"{model} by {name} on port {port}" for name, port, model in served_models())
    programs = (
        f"{program} (backend {backend})"
        for program, backend in _PROGRAMS.items()
        if shutil.which(program, path=path)
    )
    return [
        DoctorFinding("skillopt", "ok", f"{__version__}, Python {platform.python_version()}"),
        _listed("keys", keys, "none set"),
        _listed("servers", servers, "none on the usual ports of this machine"),
        _listed("programs", programs, "none on PATH"),
        _weights(secrets),
    ]


async def check_sandbox(config: Config | None) -> list[DoctorFinding]:
    """Prove the sandbox by trying to get out of it; one finding for each attempt."""
    config = config or load_config(None)
    if config.env.unsafe_no_sandbox:
        return [DoctorFinding("sandbox", "warning", "switched off", NO_SANDBOX)]
    try:
        attempts = await try_escapes(make_sandbox(config), _run_folder(config))
    except ConfigError as error:
        needed: object = getattr(harness_kind(config), "uses_sandbox", False)
        state: Literal["failure", "note"] = "failure" if needed else "note"
        return [DoctorFinding("sandbox", state, "cannot be used", str(error))]
    open_ways = [attempt for attempt in attempts if not attempt.refused]
    held = (
        f"{config.env.sandbox}: {len(attempts) - len(open_ways)} of {len(attempts)} escapes refused"
    )
    advice = "do not run code of models here; please report it" if open_ways else ""
    return [
        DoctorFinding("sandbox", "failure" if open_ways else "ok", held, advice),
        *(
            DoctorFinding(
                f"escape: {attempt.what}",
                "ok" if attempt.refused else "failure",
                f"refused ({attempt.found})" if attempt.refused else f"done: {attempt.found}",
            )
            for attempt in attempts
        ),
    ]


def _run_folder(config: Config) -> Path | None:
    folder = Path(config.env.out_root or "outputs").expanduser().absolute()
    try:
        return folder if folder.exists() else None
    except OSError:  # no folder can have such a name
        return None


def _listed(what: str, names: Iterable[str], otherwise: str) -> DoctorFinding:
    listed = ", ".join(names)
    return DoctorFinding(what, "ok" if listed else "note", listed or otherwise)


def _weights(secrets: Secrets) -> DoctorFinding:
    folder = Folder(default_root(secrets.setting))
    names = ", ".join(weights.name for weights in CATALOGUE if folder.has(weights))
    if names and importlib.util.find_spec("xllamacpp") is None:
        found = f"{names}; llama.cpp is not installed"
        return DoctorFinding("weights", "warning", found, install_command("local"))
    otherwise = "none; `skillopt model list` shows what can be downloaded"
    return _listed("weights", filter(None, [names]), otherwise)


def key_variables() -> set[str]:
    """The environment variables that backends read their keys from, for every role."""
    names: set[str] = set()
    for backend in PROVIDERS.names:
        try:
            provider = PROVIDERS.load(backend)
        except ConfigError:  # an extra that is not installed
            continue
        for role in _ROLES:
            names |= set(names_for(role, provider.key_variables))
    return names


def served_models() -> Iterator[tuple[str, int, str]]:
    """Each server on this machine: its name, its port and its first model."""
    for name, port in _SERVERS:
        if model := first_model(local_url(port)):
            yield name, port, model


def local_url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


def first_model(url: str) -> str | None:
    """The first model that a server offers; None when there is no such server."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{url}/models", timeout=_PATIENCE) as answer:  # noqa: S310
            listed: Json = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    match listed:
        case {"data": [{"id": str(model)}, *_]}:
            return model
        case _:
            return None
