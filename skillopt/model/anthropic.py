"""Anthropic's messages API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final, TypeAlias, cast

from skillopt.core.chat import Message, Reply, Request, Stop, Tool, ToolCall, Usage
from skillopt.core.intake import Json, read_json
from skillopt.errors import ConfigError, Refused
from skillopt.model.provider import ModelSettings, variable
from skillopt.model.remote import HttpBackend
from skillopt.model.wire import MalformedReply, Piece, assemble, recall, usage_apart

Block: TypeAlias = dict[str, object]

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
DEFAULT_LIMIT: Final = 16384
"""Tokens of a reply where the settings name no limit: this API insists on one."""
LEAST_BUDGET: Final = 1024
_API: Final = "anthropic"
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
"""All that comes before this mark, and it, is kept by the provider for a few minutes."""
_STOPS: Final[dict[str, Stop]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "refusal": "filter",
}


class ClaudeChat(HttpBackend):
    """Claude at Anthropic, or at any server that speaks its API."""

    name = "claude_chat"
    prefix = "ANTHROPIC"
    path = "/messages"
    key_required = True
    key_header = ("x-api-key", "")
    default_url = "https://api.anthropic.com"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    @classmethod
    def wire(cls, settings: ModelSettings) -> Messages:
        if settings.effort and settings.effort not in EFFORTS:
            raise ConfigError(
                f"the {settings.role} model's reasoning_effort is {settings.effort!r}; "
                f"claude_chat knows {', '.join(EFFORTS)}"
            )
        return Messages(settings, _thinking(settings))

    @classmethod
    def quirk(cls, settings: ModelSettings) -> str:
        thinking = _thinking(settings)
        return f"thinking={json.dumps(thinking)}" if thinking else ""


def _thinking(settings: ModelSettings) -> Block | None:
    """What is sent as `thinking`; None leaves it to the model."""
    wish = settings.extra.get("thinking", "")
    if wish == "":
        wish = variable(settings, "CLAUDE_CHAT_THINKING", str)
    match wish:
        case None | "":
            return None
        case "adaptive" | "disabled":
            return {"type": wish}
        case int(budget) if budget >= LEAST_BUDGET:
            return {"type": "enabled", "budget_tokens": budget}
        case str(digits) if digits.isdigit() and int(digits) >= LEAST_BUDGET:
            return {"type": "enabled", "budget_tokens": int(digits)}
        case _:
            raise ConfigError(
                f"model.claude_chat_thinking is {wish!r}; write adaptive, disabled, or a number "
                f"of tokens from {LEAST_BUDGET} up"
            )


@dataclass(frozen=True, slots=True)
class Messages:
    """One model's way of speaking it."""

    settings: ModelSettings
    thinking: Block | None = None

    def body(self, request: Request) -> dict[str, object]:
        """What is sent; what all requests share comes first and is marked for the cache."""
        settings = self.settings.for_request(request)
        system, rest = _parted(request.messages)
        tools = [_tool(tool) for tool in request.tools]
        _mark_last(system or tools)
        turns = _turns(rest)
        if _grows(rest):
            # Its next request begins with all of this one.
            _mark_last(cast("list[Block]", turns[-1]["content"]))
        output: Block = {"effort": settings.effort} if settings.effort else {}
        if request.schema is not None:
            output["format"] = {"type": "json_schema", "schema": dict(request.schema)}
        limit = DEFAULT_LIMIT if settings.max_tokens is None else settings.max_tokens
        optional = {
            "system": system,
            "messages": turns,
            "temperature": settings.temperature,
            "tools": tools,
            "tool_choice": _choice(request.tool_choice) if tools else None,
            "thinking": self.thinking,
            "output_config": output,
        }
        given = {name: value for name, value in optional.items() if value not in (None, [], {})}
        return {"model": settings.name, "max_tokens": limit, **given}

    def reply(self, data: Json) -> Reply:
        match data:
            case {"type": "message", "content": [*blocks], **rest}:
                reason = rest.get("stop_reason")
                stop = _STOPS.get(reason, "end") if isinstance(reason, str) else "end"
                usage = usage_apart(rest.get("usage")) or Usage(1)
                return assemble(map(_piece, blocks), stop, usage, _API)
            case {"type": "error"} | {"error": _}:
                raise MalformedReply("the server reports an error")
            case _:
                raise MalformedReply("the answer has no content")


def _parted(messages: Sequence[Message]) -> tuple[list[Block], list[Message]]:
    """System messages as blocks, and the conversation."""
    system: list[Block] = []
    rest: list[Message] = []
    for message in messages:
        if message.role != "system":
            rest.append(message)
        elif rest:
            raise Refused("this API takes system messages at the beginning only")
        elif message.text:
            system.append({"type": "text", "text": message.text})
    return system, rest


def _grows(messages: Sequence[Message]) -> bool:
    """Whether a conversation will go on, as far as one can tell: tools are used, or it has.

    Writing to the cache costs more than not doing so. A single second chance is not worth it.
    """
    roles = [message.role for message in messages]
    return "tool" in roles or roles.count("assistant") > 1


def _turns(messages: Iterable[Message]) -> list[Block]:
    """The conversation with results of tools as the user's, and turns of one side as one."""
    turns = groupby(messages, lambda message: message.role == "assistant")
    return [
        {
            "role": "assistant" if own else "user",
            "content": [block for message in turn for block in _blocks(message)],
        }
        for own, turn in turns
    ]


def _blocks(message: Message) -> list[Block]:
    text: list[Block] = [{"type": "text", "text": message.text}] if message.text else []
    if any(image.detail for image in message.images):
        raise Refused("this API has no detail of images to choose; set env.image_detail to auto")
    images: list[Block] = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
        }
        for image in message.images
    ]
    match message.role:
        case "tool":
            result = {"tool_use_id": message.answers, "content": [*text, *images]}
            return [{"type": "tool_result", **result}]
        case "assistant":
            thoughts: list[Block] = [{**thought} for thought in recall(_API, message.memo)]
            return [*thoughts, *text, *(_use(call) for call in message.calls)]
        case _:
            return [*images, *text]


def _use(call: ToolCall) -> Block:
    try:
        arguments: object = read_json(call.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise Refused(f"the arguments of the call {call.name!r} are no JSON object")
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _tool(tool: Tool) -> Block:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _choice(choice: str | Tool) -> Block | None:
    match choice:
        case Tool(name):
            return {"type": "tool", "name": name}
        case "required":
            return {"type": "any"}
        case "none":
            return {"type": "none"}
        case _:
            return None


def _mark_last(blocks: list[Block]) -> None:
    if blocks:
        blocks[-1] |= _MARK


def _piece(block: Json) -> Piece:
    match block:
        case {"type": "text", "text": str(said)}:
            return said
        case {"type": "tool_use", "id": str(id_), "name": str(name), "input": arguments}:
            return ToolCall(id_, name, json.dumps(arguments))
        case {"type": "thinking" | "redacted_thinking"}:
            return block
        case _:
            return None
