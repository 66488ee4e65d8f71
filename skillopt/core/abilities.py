"""What a part has, whichever of the optional protocols it implements: episodes and gates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skillopt.core.chat import Image, Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, NextTurn, ToolResult, Workspace
from skillopt.core.events import GateVerdict, Measured
from skillopt.core.ports import (
    CompleteGate,
    Curtails,
    Episode,
    Forces,
    Gate,
    Harness,
    LimitsFalseAccepts,
    OffersTools,
    RanksSkills,
)
from skillopt.core.rollout import Evaluation, Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import ConfigError

Responder: TypeAlias = Callable[[str], Coroutine[object, object, NextTurn | None]]

# Attributes are looked up by name: `isinstance` with a protocol takes many times as long before
# Python 3.12, and these functions are called in every attempt.


def images_of(episode: Episode) -> Sequence[Image]:
    images: Sequence[Image] = getattr(episode, "images", ())
    return images


def tools_of(episode: Episode) -> Sequence[Tool]:
    tools: Sequence[Tool] = getattr(episode, "tools", ())
    return tools


async def call_tool(episode: Episode, call: ToolCall) -> ToolResult:
    """The result of a call of one of the episode's tools."""
    if not isinstance(episode, OffersTools):
        raise TypeError("the episode has no tools")
    result = await episode.call(call)
    return ToolResult(result) if isinstance(result, str) else result


def responder_of(episode: Episode) -> Responder | None:
    """What answers the replies of an agent, where the episode is a conversation."""
    respond: Responder | None = getattr(episode, "respond", None)
    return respond


def takes_empty(episode: Episode) -> bool:
    """Whether no text at all is an answer."""
    return bool(getattr(episode, "empty_ok", False))


def details_of(episode: Episode, trajectory: Trajectory) -> Mapping[str, object]:
    details: Callable[[Trajectory], Mapping[str, object]] | None
    details = getattr(episode, "details", None)
    return {} if details is None else details(trajectory)


def workspace_of(episode: Episode) -> Workspace | None:
    workspace: Workspace | None = getattr(episode, "workspace", None)
    return workspace


def limits_of(episode: Episode) -> EpisodeLimits:
    limits: EpisodeLimits = getattr(episode, "limits", EpisodeLimits())
    return limits


def needs_of(episode: Episode) -> list[EpisodeNeed]:
    needs: dict[EpisodeNeed, bool] = {
        "images": bool(images_of(episode)),
        "tools": bool(tools_of(episode)),
        "turns": responder_of(episode) is not None,
        "workspace": workspace_of(episode) is not None,
    }
    return [need for need, wanted in needs.items() if wanted]


def check_served(environment: str, needs: Collection[EpisodeNeed], harness: Harness) -> None:
    """Raise `ConfigError` where tasks need more than the harness can serve."""
    serves: Collection[EpisodeNeed] = getattr(harness, "serves", ())
    refuse_unserved(environment, needs, type(harness).__name__, serves)


def refuse_unserved(
    environment: str,
    needs: Collection[EpisodeNeed],
    harness: str,
    serves: Collection[EpisodeNeed],
    others: Callable[[], Collection[str]] = tuple,
) -> None:
    """The same for a harness that is not made yet: its name, and what it serves.

    `others` names harnesses that serve all of it.
    """
    missing = [need for need in needs if need not in serves]
    if missing:
        able = f"text and {', '.join(sorted(serves))}" if serves else "text only"
        which = f" ({', '.join(names)})" if (names := sorted(others())) else ""
        raise ConfigError(
            f"env.harness: tasks of environment {environment!r} need {' and '.join(missing)}, but "
            f"the harness {harness!r} serves {able}; choose another harness{which}"
        )


def complete_gate(gate: Gate, value: Callable[[Skill, Evaluation], float]) -> CompleteGate:
    """The gate with all abilities; `value` ranks skills if the gate has no number of its own."""
    return gate if isinstance(gate, CompleteGate) else _CompletedGate(gate, value)


@dataclass(frozen=True, slots=True)
class _CompletedGate:
    gate: Gate
    default_value: Callable[[Skill, Evaluation], float]

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        return self.gate.judge(candidate, incumbent, level=level)

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        ranks = self.gate.value if isinstance(self.gate, RanksSkills) else self.default_value
        return ranks(skill, evaluation)

    @property
    def alpha(self) -> float:
        return self.gate.alpha if isinstance(self.gate, LimitsFalseAccepts) else 0.0

    def fewest_wins(self, level: float) -> int | None:
        return self.gate.fewest_wins(level) if isinstance(self.gate, LimitsFalseAccepts) else 0

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> Sequence[str]:
        gate = self.gate
        return gate.order(tasks, skill, incumbent) if isinstance(gate, Curtails) else tasks

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        if not isinstance(self.gate, Curtails):
            return None
        return self.gate.foresee(candidate, incumbent, left, level=level)

    @property
    def forced(self) -> bool:
        return self.gate.forced if isinstance(self.gate, Forces) else False
