"""Google's generateContent API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from skillopt.core.chat import Message, Reply, Request, Stop, Tool, ToolCall, Usage
from skillopt.core.intake import Json, read_json
from skillopt.errors import AccessError, ConfigError, Refused
from skillopt.model.credentials import Credentials
from skillopt.model.provider import ModelSettings, Transport
from skillopt.model.remote import HttpBackend, address
from skillopt.model.wire import MalformedReply, Piece, assemble, count, recall

Part: TypeAlias = dict[str, object]

_API: Final = "gemini"
_STOPS: Final[dict[str, Stop]] = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "filter"),
}
_LEVELS: Final = ("minimal", "low", "medium", "high")


class GeminiChat(HttpBackend):
    """Gemini at Google, or at any server that speaks its API."""

    name = "gemini_chat"
    prefix = "GEMINI"
    key_required = True
    key_header = ("x-goog-api-key", "")
    default_url = "https://generativelanguage.googleapis.com/v1beta"

    @classmethod
    def wire(cls, settings: ModelSettings) -> GenerateContent:
        if settings.effort and settings.effort not in _LEVELS:
            raise ConfigError(
                f"the {settings.role} model's reasoning_effort is {settings.effort!r}; "
                f"gemini_chat knows {', '.join(_LEVELS)}"
            )
        return GenerateContent(settings)

    @classmethod
    def access(cls, settings: ModelSettings, http: Transport) -> tuple[str, Credentials, str]:
        """The address names the model."""
        if not settings.name.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise AccessError(f"{settings.name!r} is not the name of a model of Gemini")
        _, credentials, hint = super().access(settings, http)
        base = settings.base_url.strip() or cls.usual_url(settings)
        return address(base, f"/models/{settings.name}:generateContent"), credentials, hint


@dataclass(frozen=True, slots=True)
class GenerateContent:
    """One model's way of speaking it."""

    settings: ModelSettings

    def body(self, request: Request) -> dict[str, object]:
        settings = self.settings.for_request(request)
        system = [message.text for message in request.messages if message.role == "system"]
        wishes: dict[str, object] = {
            "maxOutputTokens": settings.max_tokens,
            "temperature": settings.temperature,
            "thinkingConfig": {"thinkingLevel": settings.effort} if settings.effort else None,
        }
        if request.schema is not None:
            wishes["responseMimeType"] = "application/json"
            wishes["responseJsonSchema"] = dict(request.schema)
        optional: dict[str, object] = {
            "systemInstruction": {"parts": [{"text": "\n\n".join(system)}]} if system else None,
            "generationConfig": {name: wish for name, wish in wishes.items() if wish is not None},
            "tools": [{"functionDeclarations": [*map(_tool, request.tools)]}]
            if request.tools
            else None,
            "toolConfig": _choice(request) if request.tools else None,
        }
        given = {name: value for name, value in optional.items() if value}
        return {"contents": _turns(request.messages), **given}

    def reply(self, data: Json) -> Reply:
        match data:
            case {"promptFeedback": {"blockReason": str(reason)}}:
                raise Refused(f"the model does not answer this request ({reason})")
            case {"candidates": [{**candidate}, *_], **rest}:
                reason = candidate.get("finishReason")
                stop = _STOPS.get(reason, "end") if isinstance(reason, str) else "end"
                match candidate.get("content"):
                    case {"parts": list(parts)}:
                        pieces = [*_pieces(parts)]
                    case _:
                        pieces = list[Piece]()
                return assemble(pieces, stop, usage_of_gemini(rest.get("usageMetadata")), _API)
            case _:
                raise MalformedReply("the answer has no candidates")


def usage_of_gemini(counts: Json) -> Usage:
    """Tokens as Google counts them: thoughts apart from the rest of the answer."""
    if not isinstance(counts, dict):
        return Usage(1)
    sent = count(counts.get("promptTokenCount"))
    made = count(counts.get("candidatesTokenCount")) + count(counts.get("thoughtsTokenCount"))
    return Usage(1, sent, made, min(sent, count(counts.get("cachedContentTokenCount"))))


def _turns(messages: Iterable[Message]) -> list[Part]:
    """The conversation; results of tools are the user's, and name the tool that they are from."""
    names: dict[str, str] = {}
    spoken = [message for message in messages if message.role != "system"]
    turns: list[Part] = []
    for own, turn in groupby(spoken, lambda message: message.role == "assistant"):
        parts = [part for message in turn for part in _parts(message, names)]
        turns.append({"role": "model" if own else "user", "parts": parts})
    return turns


def _parts(message: Message, names: dict[str, str]) -> list[Part]:
    text: list[Part] = [{"text": message.text}] if message.text else []
    match message.role:
        case "tool":
            name = names.get(message.answers, message.answers)
            return [{"functionResponse": {"name": name, "response": {"output": message.text}}}]
        case "assistant":
            names |= {call.id: call.name for call in message.calls}
            if kept := recall(_API, message.memo):
                return [{**part} for part in kept]
            return [*text, *(_called(call) for call in message.calls)]
        case _:
            images: list[Part] = [
                {"inlineData": {"mimeType": image.media_type, "data": image.data}}
                for image in message.images
            ]
            return [*images, *text]


def _called(call: ToolCall) -> Part:
    try:
        arguments = read_json(call.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise Refused(f"the arguments of the call {call.name!r} are no JSON object")
    return {"functionCall": {"name": call.name, "args": arguments}}


def _tool(tool: Tool) -> Part:
    schema: Mapping[str, object] = tool.parameters
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": dict(schema),
    }


def _choice(request: Request) -> Part | None:
    match request.tool_choice:
        case Tool(name):
            chosen: Part = {"mode": "ANY", "allowedFunctionNames": [name]}
        case "required":
            chosen = {"mode": "ANY"}
        case "none":
            chosen = {"mode": "NONE"}
        case _:
            return None
    return {"functionCallingConfig": chosen}


def _pieces(parts: Sequence[Json]) -> Iterator[Piece]:
    """What was said and called; if a part is signed, all of them go back with the message."""
    for number, part in enumerate(parts):
        yield _piece(number, part)
    known = [part for part in parts if isinstance(part, dict)]
    if any("thoughtSignature" in part for part in known):
        yield from known


def _piece(number: int, part: Json) -> Piece:
    match part:
        case {"functionCall": {"name": str(name), **rest}}:
            return ToolCall(f"call-{number}", name, json.dumps(rest.get("args") or {}))
        case {"thought": True}:
            return None
        case {"text": str(said)}:
            return said
        case _:
            return None
