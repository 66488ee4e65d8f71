"""Backend `handoff`: a person or another agent answers by files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from skillopt.core.chat import Reply, Request, Usage
from skillopt.errors import ConfigError, Pending
from skillopt.model.provider import ModelSettings, Provider, Transport
from skillopt.model.wire import check_abilities
from skillopt.model.wrappers import call_key


@runtime_checkable
class HandoffQueue(Protocol):
    """Where questions are laid out and answers are found."""

    def answer(self, role: str, stage: str, key: str) -> str | None:
        """What was answered; None as long as nothing was."""
        ...

    def ask(self, role: str, model: str, request: Request, key: str) -> Pending:
        """Lay a question out, once; what to raise instead of an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Handoff(Provider):
    """A model that says `Pending` until somebody has answered. Its name is up to the user."""

    settings: ModelSettings
    queue: HandoffQueue
    fingerprint: str

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Handoff:
        del http
        queue = settings.extra.get("queue")
        if not isinstance(queue, HandoffQueue):
            raise ConfigError(
                f"backend handoff of the {settings.role} model needs a run directory; "
                "it works in train and eval only"
            )
        return cls(settings, queue, f"handoff/{settings.name}")

    async def complete(self, request: Request) -> Reply:
        if request.stage == "preflight":
            return Reply(text="OK")  # nobody needs to be asked whether they are there
        check_abilities(request, "backend handoff")
        role = self.settings.role
        key = call_key(role, self.fingerprint, request)
        text = self.queue.answer(role, request.stage, key)
        if text is None:
            raise self.queue.ask(role, self.settings.name, request, key)
        return Reply(text=text, usage=Usage(1))
