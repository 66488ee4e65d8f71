"""Backend `local`: a GGUF file answers, in this process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.errors import ConfigError, ModelError, Refused
from skillopt.model.abilities import check_abilities
from skillopt.model.local.engine import Engine, Speaking, Watch, shared_engine, version
from skillopt.model.local.tuning import Tuning
from skillopt.model.provider import Json, ModelSettings, Transport
from skillopt.model.weights.folder import Folder, default_root

_SEED = 1
_LONGEST_LABEL = 64
"""Tokens."""


@dataclass(frozen=True, slots=True)
class Local:
    """A model of this process; greedy unless a temperature is asked for.

    Roles with the same file and tuning share one engine, which goes when the last of them goes.
    """

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = False

    settings: ModelSettings
    engine: Engine
    fingerprint: str
    schema: Mapping[str, object] | None = None

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Local:
        """The model that the name means: one of the catalogue, or the path of a GGUF file.

        `settings.extra` may hold `folder`, where fetched weights are, and the fields of `Tuning`.
        """
        del http
        if settings.effort:
            raise ConfigError(
                f"backend local has no reasoning effort; remove it from the {settings.role} model"
            )
        tuning = Tuning.read(settings.extra)
        library = version()
        match settings.extra.get("folder"):
            case Path() as root:
                folder = Folder(root)
            case _:
                folder = Folder(default_root(lambda _: None))
        file = folder.locate(settings.name)
        digest = folder.digest(file)
        return cls(
            settings=settings,
            engine=shared_engine(file, digest, tuning),
            fingerprint=_fingerprint(settings, tuning, digest, library),
        )

    def shaped(self, schema: Mapping[str, object]) -> Local:
        """The same model, which can say nothing but JSON of this schema."""
        text = json.dumps(schema, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return replace(self, schema=schema, fingerprint=f"{self.fingerprint}/schema={digest}")

    async def complete(self, request: Request) -> Reply:
        """Answer; the same request has the same answer."""
        options = self._options(request)

        def work(speaking: Speaking, watch: Watch) -> list[Json]:
            return speaking.listen(request.messages, options, watch)

        return _reply(await self.engine.run(work, self.settings.timeout))

    async def score_labels(
        self, messages: tuple[Message, ...], labels: Sequence[str]
    ) -> dict[str, float]:
        """The log-probability that the answer is exactly this label, for each of them."""
        if not all(labels):
            raise ConfigError("a label is blank; give each answer that can be chosen a text")

        def work(label: str, speaking: Speaking, watch: Watch) -> float:
            return _log_probability(speaking.ask(messages, _forced(label), watch))

        return {
            label: await self.engine.run(partial(work, label), self.settings.timeout)
            for label in labels
        }

    def _options(self, request: Request) -> dict[str, object]:
        check_abilities(request, "backend local", "schema")
        if request.effort:
            raise Refused("backend local has no reasoning effort, and the request asks for one")
        settings = self.settings
        limit = settings.max_tokens if request.max_tokens is None else request.max_tokens
        warmth = settings.temperature if request.temperature is None else request.temperature
        options: dict[str, object] = {
            "temperature": 0.0 if warmth is None else warmth,
            "seed": _SEED + request.replicate,
        }
        if limit is not None:
            options["max_tokens"] = limit
        schema = self.schema if request.schema is None else request.schema
        if schema is not None:
            options["json_schema"] = dict(schema)
        return options


def _fingerprint(settings: ModelSettings, tuning: Tuning, digest: str, library: str) -> str:
    """Content and whatever else changes answers; where the file lies does not."""
    together = f"/parallel={tuning.parallel}" if tuning.parallel > 1 else ""
    return (
        f"local/{digest[:16]}/xllamacpp={library}/temperature={settings.temperature}"
        f"/max_tokens={settings.max_tokens}/context={tuning.context}/batch={tuning.batch}{together}"
    )


def _reply(pieces: Sequence[Json]) -> Reply:
    text: list[str] = []
    stop: Literal["end", "length"] | None = None
    usage = Usage(1)
    for piece in pieces:
        match piece:
            case {"choices": [{"delta": {"content": str(said)}}, *_]}:
                text.append(said)
            case {"choices": [{"finish_reason": str(reason)}, *_]}:
                stop = "length" if reason == "length" else "end"
            case {"usage": {"prompt_tokens": int(sent), "completion_tokens": int(made), **rest}}:
                usage = Usage(1, sent, made, _cached(rest.get("prompt_tokens_details")))
            case _:
                pass
    if stop is None:
        raise ModelError("llama.cpp broke off in the middle of an answer", retryable=True)
    return Reply(text="".join(text), usage=usage, stop=stop)


def _cached(details: Json) -> int:
    match details:
        case {"cached_tokens": int(cached)}:
            return cached
        case _:
            return 0


def _forced(label: str) -> dict[str, object]:
    """Options under which the model says this label and ends."""
    return {
        "temperature": 0.0,
        "max_tokens": _LONGEST_LABEL,
        "grammar": f"root ::= {json.dumps(label, ensure_ascii=False)}",
        "logprobs": True,
        "top_logprobs": 1,
    }


def _log_probability(answer: Json) -> float:
    match answer:
        case {"choices": [{"logprobs": {"content": [*tokens]}}, *_]}:
            return sum(map(_log, tokens))
        case _:
            raise ModelError("llama.cpp gave no probabilities")


def _log(token: Json) -> float:
    match token:
        case {"logprob": float(value) | int(value)}:
            return float(value)
        case _:
            raise ModelError("llama.cpp gave no probability for a token")
