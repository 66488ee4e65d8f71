"""The responses API of OpenAI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skillopt.core.chat import Message, Reply, Request, Stop, Tool, ToolCall, Usage
from skillopt.errors import Refused
from skillopt.model.abilities import check_abilities
from skillopt.model.completions import EVERYTHING, cached_tokens, data_url, named_schema
from skillopt.model.provider import Json, ModelSettings
from skillopt.model.provider_state import recall, remember
from skillopt.model.remote import ErrorReply, MalformedReply

_STOPS: Final[dict[str, Stop]] = {"max_output_tokens": "length", "content_filter": "filter"}
_API: Final = "responses"


@dataclass(frozen=True, slots=True)
class Responses:
    """One model's way of speaking it. Nothing is kept at the server."""

    settings: ModelSettings

    def body(self, request: Request) -> dict[str, object]:
        """What is sent; the request's own wishes go before the settings."""
        check_abilities(request, f"model {self.settings.name!r}", *EVERYTHING)
        settings = self.settings
        body: dict[str, object] = {
            "model": settings.name,
            "input": [item for message in request.messages for item in _items(message)],
            "store": False,
        }
        wishes = {
            "max_output_tokens": (request.max_tokens, settings.max_tokens),
            "temperature": (request.temperature, settings.temperature),
        }
        for name, (asked, usual) in wishes.items():
            value = usual if asked is None else asked
            if value is not None:
                body[name] = value
        if effort := (settings.effort if request.effort is None else request.effort):
            body["reasoning"] = {"effort": effort}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            # What the model thought before a call is sent back to it with the result.
            body["include"] = ["reasoning.encrypted_content"]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **named_schema(request.schema)}}
        return body

    def reply(self, data: Json) -> Reply:
        """Take an answer apart."""
        match data:
            case {"status": "failed", "error": {"code": str(code), "message": str(message)}}:
                raise ErrorReply(429 if code == "rate_limit_exceeded" else 500, message)
            case {"status": "completed" | "incomplete" as status, "output": [*output], **rest}:
                reason = rest.get("incomplete_details") if status == "incomplete" else None
                return _reply(output, _stop(reason), _usage(rest.get("usage")))
            case _:
                raise MalformedReply("the answer has no output")


def _reply(output: Iterable[Json], stop: Stop, usage: Usage) -> Reply:
    text: list[str] = []
    refused = False
    calls: list[ToolCall] = []
    thoughts: list[Json] = []
    for item in output:
        match item:
            case {"type": "message", "content": [*parts]}:
                for part in parts:
                    said, refusal = _said(part)
                    text.append(said)
                    refused = refused or refusal
            case {"type": "function_call", "call_id": str(id_), "name": str(name), **rest}:
                calls.append(ToolCall(id_, name, str(rest.get("arguments"))))
            case {"type": "reasoning", "encrypted_content": str()}:
                thoughts.append(item)
            case _:
                pass
    if refused:
        stop = "filter"
    return Reply(
        text="".join(text),
        usage=usage,
        stop="tool" if calls else stop,
        calls=tuple(calls),
        memo=remember(_API, thoughts) if calls else "",
    )


def _said(part: Json) -> tuple[str, bool]:
    """The words of a part, and whether they are a refusal."""
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return text, True
        case {"text": str(text)}:
            return text, False
        case _:
            return "", False


def _stop(details: Json) -> Stop:
    match details:
        case {"reason": str(reason)}:
            return _STOPS.get(reason, "end")
        case _:
            return "end"


def _usage(counts: Json) -> Usage:
    match counts:
        case {"input_tokens": int(sent), "output_tokens": int(written)}:
            return Usage(1, sent, written, cached_tokens(counts.get("input_tokens_details")))
        case _:
            return Usage(1)


def _items(message: Message) -> list[Mapping[str, object]]:
    if message.images and message.role != "user":
        raise Refused(f"this API takes images in user messages only, not from {message.role!r}")
    match message:
        case Message("tool", text):
            output = {"call_id": message.answers, "output": text}
            return [{"type": "function_call_output", **output}]
        case Message("assistant", text):
            said = [{"role": "assistant", "content": text}] if text or not message.calls else []
            calls = [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
                for call in message.calls
            ]
            return [*recall(_API, message.memo), *said, *calls]
        case Message(role, text) if not message.images:
            return [{"role": role, "content": text}]
        case Message(role, text):
            parts: list[object] = [{"type": "input_text", "text": text}] if text else []
            parts += [
                {"type": "input_image", "image_url": data_url(each), "detail": "auto"}
                for each in message.images
            ]
            return [{"role": role, "content": parts}]


def _tool(tool: Tool) -> dict[str, object]:
    # Strict is this API's default, and refuses schemas with optional fields.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def _choice(choice: str | Tool) -> object:
    return {"type": "function", "name": choice.name} if isinstance(choice, Tool) else choice
