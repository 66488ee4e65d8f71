"""The responses API of OpenAI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skillopt.core.chat import Message, Reply, Request, Stop, Tool, ToolCall
from skillopt.core.intake import Json
from skillopt.model.completions import EVERYTHING, images_to_send, named_schema, tool_fields
from skillopt.model.provider import ModelSettings
from skillopt.model.wire import (
    ErrorReply,
    MalformedReply,
    Piece,
    assemble,
    check_abilities,
    recall,
    usage_of,
)

_STOPS: Final[dict[str, Stop]] = {"max_output_tokens": "length", "content_filter": "filter"}
_API: Final = "responses"


@dataclass(frozen=True, slots=True)
class Responses:
    """One model's way of speaking it. Nothing is kept at the server."""

    settings: ModelSettings

    def body(self, request: Request) -> dict[str, object]:
        check_abilities(request, f"model {self.settings.name!r}", *EVERYTHING)
        settings = self.settings.for_request(request)
        body: dict[str, object] = {
            "model": settings.name,
            "input": [item for message in request.messages for item in _items(message)],
            "store": False,
        }
        if settings.max_tokens is not None:
            body["max_output_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.effort:
            body["reasoning"] = {"effort": settings.effort}
        if request.tools:
            # Strict is this API's default, and refuses schemas with optional fields.
            body["tools"] = [
                {"type": "function", **tool_fields(tool), "strict": False} for tool in request.tools
            ]
            # What the model thought before a call is sent back to it with the result.
            body["include"] = ["reasoning.encrypted_content"]
        if request.tool_choice != "auto":
            choice = request.tool_choice
            named = isinstance(choice, Tool)
            body["tool_choice"] = {"type": "function", "name": choice.name} if named else choice
        if request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **named_schema(request.schema)}}
        return body

    def reply(self, data: Json) -> Reply:
        match data:
            case {"status": "failed", "error": {"code": str(code), "message": str(message)}}:
                raise ErrorReply(429 if code == "rate_limit_exceeded" else 500, message)
            case {"status": "completed" | "incomplete" as status, "output": [*output], **rest}:
                details = rest.get("incomplete_details") if status == "incomplete" else None
                usage = usage_of(rest.get("usage"), "input_tokens", "output_tokens")
                return assemble(_pieces(output), _stop(output, details), usage, _API)
            case _:
                raise MalformedReply("the answer has no output")


def _pieces(output: Iterable[Json]) -> Iterator[Piece]:
    for item in output:
        match item:
            case {"type": "message", "content": [*parts]}:
                for part in parts:
                    match part:
                        case {"type": "refusal", "refusal": str(text)} | {"text": str(text)}:
                            yield text
                        case _:
                            pass
            case {"type": "function_call", "call_id": str(id_), "name": str(name), **rest}:
                yield ToolCall(id_, name, str(rest.get("arguments")))
            case {"type": "reasoning", "encrypted_content": str()}:
                yield item
            case _:
                pass


def _stop(output: Iterable[Json], details: Json) -> Stop:
    for item in output:
        match item:
            case {"type": "message", "content": [*parts]} if any(map(_is_refusal, parts)):
                return "filter"
            case _:
                pass
    match details:
        case {"reason": str(reason)}:
            return _STOPS.get(reason, "end")
        case _:
            return "end"


def _is_refusal(part: Json) -> bool:
    return isinstance(part, dict) and part.get("type") == "refusal"


def _items(message: Message) -> list[Mapping[str, object]]:
    shown = images_to_send(message)
    match message.role:
        case "tool":
            output = {"call_id": message.answers, "output": message.text}
            return [{"type": "function_call_output", **output}]
        case "assistant":
            said = {"role": "assistant", "content": message.text}
            calls = [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
                for call in message.calls
            ]
            unsaid = calls and not message.text
            return [*recall(_API, message.memo), *([] if unsaid else [said]), *calls]
        case role if shown:
            parts: list[object] = [{"type": "input_text", "text": message.text}]
            images = [
                {"type": "input_image", "image_url": url, "detail": detail or "auto"}
                for url, detail in shown
            ]
            return [{"role": role, "content": parts[: bool(message.text)] + images}]
        case role:
            return [{"role": role, "content": message.text}]
