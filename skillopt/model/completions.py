"""The chat completions API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast

from skillopt.core.chat import Image, Message, Reply, Request, Stop, Tool, ToolCall, Usage
from skillopt.errors import Refused
from skillopt.model.abilities import Ability, check_abilities
from skillopt.model.provider import Json, ModelSettings
from skillopt.model.remote import MalformedReply

LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
EVERYTHING: Final[tuple[Ability, ...]] = ("tools", "images", "schema")
_STOPS: Final[dict[str, Stop]] = {
    "length": "length",
    "content_filter": "filter",
    "tool_calls": "tool",
    "function_call": "tool",
}
_THOUGHT: Final = "</think>"


@dataclass(frozen=True, slots=True)
class Completions:
    """One model's way of speaking it."""

    settings: ModelSettings
    limit_field: LimitField = "max_tokens"
    able: tuple[Ability, ...] = EVERYTHING
    effort_with_tools: bool = True
    """Whether the effort of the settings may be sent along with tools."""
    thinks_aloud: bool = False
    """Whether the text may begin with the model's thoughts, which are no part of the answer."""
    additions: Mapping[str, object] = field(default_factory=dict[str, object])
    """Fields that go with every request."""

    def body(self, request: Request) -> dict[str, object]:
        """What is sent; the request's own wishes go before the settings."""
        check_abilities(request, f"model {self.settings.name!r}", *self.able)
        body: dict[str, object] = {
            "model": self.settings.name,
            "messages": [_message(message) for message in request.messages],
        }
        settings = self.settings
        effort = settings.effort if self.effort_with_tools or not request.tools else None
        wishes = {
            self.limit_field: (request.max_tokens, settings.max_tokens),
            "temperature": (request.temperature, settings.temperature),
            "reasoning_effort": (request.effort, effort),
        }
        for name, (asked, usual) in wishes.items():
            value = usual if asked is None else asked
            if value is not None and value != "":
                body[name] = value
        if request.tools:
            body["tools"] = [
                {"type": "function", "function": _tool(tool)} for tool in request.tools
            ]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": named_schema(request.schema),
            }
        return {**body, **self.additions} if self.additions else body

    def reply(self, data: Json) -> Reply:
        """Take an answer apart; one that is cut, empty or of another shape is worth a retry."""
        match data:
            case {"choices": [{"finish_reason": "error" | "abort"}, *_]}:
                raise MalformedReply("the answer is incomplete")
            case {"choices": [{"message": {**message}, **choice}, *_], **rest}:
                usage = _usage(rest.get("usage"))
                return self._reply(message, choice.get("finish_reason"), usage)
            case {"error": _}:
                raise MalformedReply("the server reports an error")
            case _:
                raise MalformedReply("the answer has no choices")

    def _reply(self, message: Mapping[str, Json], finish: Json, usage: Usage) -> Reply:
        text = joined_text(message.get("content"))
        if self.thinks_aloud:
            text = _without_thoughts(text)
        calls = _calls(message.get("tool_calls"))
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal and not text:
            return Reply(text=refusal, usage=usage, stop="filter")
        stop = _STOPS.get(finish, "end") if isinstance(finish, str) else "end"
        return Reply(text=text, usage=usage, stop="tool" if calls else stop, calls=calls)


def named_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """A schema with the name it goes by, strict where its form allows it."""
    title = schema.get("title")
    name = title if isinstance(title, str) and title.isidentifier() else "reply"
    return {"name": name, "schema": schema, "strict": _closed(cast("Json", schema))}


def data_url(image: Image) -> str:
    """A picture as an address that holds it."""
    return f"data:{image.media_type};base64,{image.data}"


def joined_text(content: Json) -> str:
    """The text of a message whose content is a string, a list of parts, or absent."""
    match content:
        case str(text) | {"text": str(text)}:
            return text
        case [*parts]:
            return "".join(map(joined_text, parts))
        case _:
            return ""


def _message(message: Message) -> dict[str, object]:
    if message.images:
        return {"role": message.role, "content": _parts(message)}
    said: dict[str, object] = {"role": message.role, "content": message.text}
    if message.calls:
        said["content"] = message.text or None
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.answers:
        said["tool_call_id"] = message.answers
    return said


def _parts(message: Message) -> list[dict[str, object]]:
    if message.role != "user":
        raise Refused(f"this API takes images in user messages only, not from {message.role!r}")
    parts: list[dict[str, object]] = []
    if message.text:
        parts.append({"type": "text", "text": message.text})
    shown = [data_url(image) for image in message.images]
    return parts + [{"type": "image_url", "image_url": {"url": url}} for url in shown]


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def _choice(choice: str | Tool) -> object:
    if isinstance(choice, Tool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _closed(schema: Json) -> bool:
    """Whether a schema has the form that strict mode wants: every object closed and complete."""
    match schema:
        case {"type": "object", **rest}:
            match rest:
                case {"additionalProperties": False, "properties": {**parts}, "required": [*names]}:
                    return set(parts) == set(names) and all(map(_closed, schema.values()))
                case _:
                    return False
        case dict():
            return all(map(_closed, schema.values()))
        case list():
            return all(map(_closed, schema))
        case _:
            return True


def _calls(listed: Json) -> tuple[ToolCall, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(call for n, each in enumerate(listed) if (call := _call(each, n)))


def _call(listed: Json, number: int) -> ToolCall | None:
    match listed:
        case {"function": {"name": str(name), **function}, **rest}:
            arguments = function.get("arguments")
            # Some servers send the object itself, and some no id.
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            given = rest.get("id")
            return ToolCall(given if isinstance(given, str) else f"call_{number}", name, text)
        case _:
            return None


def _without_thoughts(text: str) -> str:
    """What follows the thoughts; nothing when the model was cut off while thinking."""
    _, closed, said = text.rpartition(_THOUGHT)
    if closed:
        return said.lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def _usage(counts: Json) -> Usage:
    """Tokens as far as the server counts them."""
    match counts:
        case {"prompt_tokens": int(sent), "completion_tokens": int(written)}:
            return Usage(1, sent, written, cached_tokens(counts.get("prompt_tokens_details")))
        case _:
            return Usage(1)


def cached_tokens(details: Json) -> int:
    """Tokens from the prompt cache."""
    match details:
        case {"cached_tokens": int(cached)}:
            return cached
        case _:
            return 0
