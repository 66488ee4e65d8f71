"""Who plays the roles of a night, and what it may spend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shutil import which
from typing import Final

from skillopt.app.costs import prices_of
from skillopt.app.harness import HARNESSES
from skillopt.app.inputs import Inputs, ModelLike, configured
from skillopt.app.models import PROVIDERS, with_backend_defaults
from skillopt.config.model_section import BACKENDS, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.extras import install_command
from skillopt.errors import ConfigError
from skillopt.model.prices import has_list
from skillopt_sleep.settings import Settings

_PROGRAMS: Final[Mapping[str, tuple[str, str, str]]] = {
    "claude": ("claude_cli", "claude_code_exec", "sonnet"),
    "codex": ("codex_cli", "codex_exec", "gpt-5.5"),
    "copilot": ("copilot_chat", "copilot_exec", ""),
    "cursor": ("", "cursor_exec", ""),
    "gemini": ("gemini_chat", "gemini_exec", ""),
    "opencode": ("", "opencode_exec", ""),
    "qwen": ("qwen_chat", "qwen_exec", ""),
}
"""Agent programs: as a text model, as an agent with tools, and the model if none is named."""
_CALLED: Final = {"cursor": "cursor-agent"}
"""Programs that are not called as their backend."""
_NAMED: Final = {"openai": "gpt-5.5", "openai_chat": "gpt-5.5", "handoff": "you"}
"""Models of backends, if none is named; `local` chooses its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightModels:
    """Models that are given in Python instead of being named in the settings."""

    target: ModelLike | None = None
    optimizer: ModelLike | None = None
    judge: ModelLike | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What may still be spent; none: no limit."""

    tokens: int | None = None
    minutes: float | None = None
    dollars: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> Allowance:
        return cls(
            tokens=settings.max_tokens_per_night or None,
            minutes=settings.max_minutes_per_night or None,
            dollars=settings.max_usd_per_night or None,
        )

    def less(self, spent: Usage, minutes: float) -> Allowance:
        tokens = None if self.tokens is None else self.tokens - spent.input - spent.output
        return Allowance(
            tokens=tokens,
            minutes=None if self.minutes is None else self.minutes - minutes,
            dollars=None if self.dollars is None else self.dollars - spent.dollars,
        )

    def share(self, among: int) -> Allowance:
        """An equal part of each; what one part does not use is left for the others."""
        return Allowance(
            tokens=None if self.tokens is None else max(1, self.tokens // among),
            minutes=None if self.minutes is None else self.minutes / among,
            dollars=None if self.dollars is None else self.dollars / among,
        )

    @property
    def gone(self) -> str:
        """The limit that is used up; empty if there is something left of each."""
        for name, left in (
            ("tokens", self.tokens),
            ("minutes", self.minutes),
            ("usd", self.dollars),
        ):
            if left is not None and left <= 0:
                return f"max_{name}_per_night"
        return ""

    def settings(self) -> dict[str, object]:
        limits = {"tokens": self.tokens, "minutes": self.minutes, "dollars": self.dollars}
        return {f"limits.{name}": left for name, left in limits.items() if left is not None}


def model_settings(settings: Settings, models: NightModels) -> dict[str, object]:
    """Who attempts, and who mines, judges and reflects.

    Raises:
        ConfigError: A backend cannot be used like this; it says what to do.
    """
    chosen: dict[str, object] = {}
    agent = settings.replay == "agent"
    if models.target is None:
        backend, model = _model(settings.backend, settings.model, agent=agent)
        chosen |= {"model.target_backend": backend} | ({"model.target": model} if model else {})
    if models.optimizer is None:
        named = settings.optimizer_backend or settings.backend
        own = settings.optimizer_model or ("" if settings.optimizer_backend else settings.model)
        backend, model = _model(named, own, agent=False, told="optimizer_")
        chosen |= {"model.optimizer_backend": backend}
        chosen |= {"model.optimizer": model} if model else {}
    if settings.program_path is not None and settings.backend in _PROGRAMS:
        key = "claude_code" if settings.backend == "claude" else settings.backend
        chosen[f"model.{key}_exec_path"] = str(settings.program_path)
    if settings.prompts is not None:
        chosen["env.prompts"] = str(settings.prompts)
    if settings.base_url:
        chosen[_addressed(settings)] = settings.base_url
    if agent and settings.backend not in _PROGRAMS and not settings.backend.endswith("_exec"):
        if settings.backend == "handoff":
            raise ConfigError("replay: agent cannot be combined with backend handoff")
        chosen["env.harness"] = "tools"
    return chosen


def _addressed(settings: Settings) -> str:
    """Whose address `base_url` is.

    That of the one role that is on such a server, so that no key of the other is sent there; else
    of both.
    """
    optimizer = settings.optimizer_backend or settings.backend
    roles = {"target": settings.backend, "optimizer": optimizer}
    served = [role for role, backend in roles.items() if backend == "openai_compatible"]
    return f"model.{served[0]}_base_url" if len(served) == 1 else "model.base_url"


def doubts(settings: Settings) -> list[str]:
    """Why nights with these settings would be in vain, as far as that can be seen now."""
    if not settings.backend:
        return ["no model is configured (--backend): nights look at sessions and practise nothing"]
    if settings.backend not in _PROGRAMS:
        return []
    program = str(settings.program_path or _CALLED.get(settings.backend, settings.backend))
    if which(program):
        return []
    return [f"the program {program} was not found; --program-path says where it is"]


def told_models(settings: Settings) -> str:
    """Who attempts and who reflects, in a few words; empty if nobody is named."""
    if not settings.backend:
        return ""
    target = f"{settings.backend} {settings.model}".strip()
    optimizer = f"{settings.optimizer_backend} {settings.optimizer_model}".strip()
    return f"{target}, reflecting: {optimizer}" if optimizer else target


def has_models(settings: Settings, models: NightModels) -> bool:
    """Whether anybody is there to attempt and to reflect."""
    return bool(settings.backend) or None not in (models.target, models.optimizer)


def check_prices(settings: Settings, models: NightModels, secrets: Secrets | None) -> None:
    """Refuse a limit in dollars where nobody knows what a model costs.

    Raises:
        ConfigError: It is so; what helps.
    """
    if not settings.max_usd_per_night or not has_models(settings, models):
        return
    config, _ = configured(None, Inputs(settings=model_settings(settings, models)))
    config = with_backend_defaults(config, secrets or Secrets.load())
    roles: tuple[Role, ...] = ("target", "optimizer")
    own: list[Role] = [role for role in roles if getattr(models, role) is not None]
    known = prices_of(config, roles, own)
    unknown = [f"{role} {config.model.role(role).model}" for role in roles if role not in known]
    if unknown:
        listing = "" if has_list() else f"; the prices of many models: {install_command('prices')}"
        raise ConfigError(
            f"max_usd_per_night cannot be kept: no price is known for {' and '.join(unknown)}"
            f"{listing}. Set max_tokens_per_night instead, and max_usd_per_night to 0"
        )


def check_backend(backend: str, told: str = "") -> None:
    """Refuse a name that is no backend and no program.

    Raises:
        ConfigError: It is none; the names that there are.
    """
    name = BACKENDS.get(backend, backend)
    problem = PROVIDERS.unknown(name) if HARNESSES.unknown(name) else ""
    if problem and backend not in _PROGRAMS:
        raise ConfigError(f"{told}backend: {problem}; programs: {', '.join(_PROGRAMS)}")


def _model(backend: str, model: str, *, agent: bool, told: str = "") -> tuple[str, str]:
    """The names of skillopt for a backend and its model."""
    check_backend(backend, told)
    if backend not in _PROGRAMS:
        known = model or _NAMED.get(backend, "")
        if not known and backend != "local" and not backend.endswith("_exec"):
            raise ConfigError(f"{told}model: name the model that backend {backend} should use")
        return ("openai" if backend == "openai_chat" else backend), known
    as_text, as_agent, usual = _PROGRAMS[backend]
    name = as_agent if agent else as_text
    if not name:
        raise ConfigError(
            f"{told}backend: {backend} works on tasks only as an agent with tools; add "
            "--replay agent and name another optimizer_backend"
        )
    if not (model or usual):
        raise ConfigError(f"{told}model: name the model that {backend} should use")
    return name, model or usual
