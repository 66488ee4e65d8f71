"""Anthropic's messages API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, cast

from skillopt.core.chat import Image, Message, Model, Reply, Request, Stop, Tool, ToolCall, Usage
from skillopt.core.intake import read_json
from skillopt.errors import AccessError, ConfigError, Refused
from skillopt.model.credentials import Key
from skillopt.model.provider import Json, ModelSettings, Transport, filled, names_for, variable
from skillopt.model.provider_state import recall, remember
from skillopt.model.remote import (
    JSON_HEADERS,
    Connection,
    MalformedReply,
    Remote,
    address,
    checked,
    key_hint,
)

Block: TypeAlias = dict[str, object]

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
DEFAULT_LIMIT: Final = 16384
"""Tokens of a reply where the settings name no limit: this API insists on one."""
LEAST_BUDGET: Final = 1024
_API: Final = "anthropic"
_VERSION: Final = "2023-06-01"
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
"""All that comes before this mark, and it, is kept by the provider for a few minutes."""
_STOPS: Final[dict[str, Stop]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "refusal": "filter",
}


class ClaudeChat:
    """Claude at Anthropic, or at any server that speaks its API."""

    key_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("{ROLE}_ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL")
    key_required: ClassVar[bool] = True
    default_url: ClassVar[str] = "https://api.anthropic.com"
    takes_shared_effort: ClassVar[bool] = False

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """What was left open, as `ANTHROPIC_*` variables say."""
        return filled(settings, "ANTHROPIC")

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        settings = cls.settle(settings)
        thinking = thinking_of(settings)
        if settings.effort and settings.effort not in EFFORTS:
            raise ConfigError(
                f"the {settings.role} model's reasoning_effort is {settings.effort!r}; "
                f"claude_chat knows {', '.join(EFFORTS)}"
            )
        url = address(settings.base_url.strip() or cls.default_url, "/messages")
        hint = key_hint(settings, names_for(settings.role, cls.key_variables))
        if settings.api_key is None:
            raise AccessError(f"backend claude_chat needs a key; set {hint}")
        key = checked(Key(settings.api_key, "x-api-key", ""), url, hint)
        quirk = f"thinking={json.dumps(thinking)}" if thinking else ""
        return Remote.of(
            "claude_chat",
            settings,
            Messages(settings, thinking),
            Connection(http, url, key, hint),
            quirk,
            headers={**JSON_HEADERS, "anthropic-version": _VERSION},
        )


def thinking_of(settings: ModelSettings) -> Block | None:
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
        settings = self.settings
        limit = settings.max_tokens if request.max_tokens is None else request.max_tokens
        warmth = settings.temperature if request.temperature is None else request.temperature
        system, rest = _parted(request.messages)
        tools = [_tool(tool) for tool in request.tools]
        _mark_last(system or tools)
        turns = _turns(rest)
        if _grows(rest):
            # Its next request begins with all of this one.
            _mark_last(cast("list[Block]", turns[-1]["content"]))
        body: dict[str, object] = {
            "model": settings.name,
            "max_tokens": DEFAULT_LIMIT if limit is None else limit,
        }
        choice = _choice(request.tool_choice) if tools else None
        optional = {
            "system": system,
            "messages": turns,
            "temperature": warmth,
            "tools": tools,
            "tool_choice": choice,
            "thinking": self.thinking,
            "output_config": self._output(request),
        }
        return body | {name: each for name, each in optional.items() if each not in (None, [], {})}

    def _output(self, request: Request) -> dict[str, object]:
        output: dict[str, object] = {}
        if effort := (self.settings.effort if request.effort is None else request.effort):
            output["effort"] = effort
        if request.schema is not None:
            output["format"] = {"type": "json_schema", "schema": dict(request.schema)}
        return output

    def reply(self, data: Json) -> Reply:
        """Take an answer apart."""
        match data:
            case {"type": "message", "content": [*blocks], **rest}:
                reason = rest.get("stop_reason")
                stop = _STOPS.get(reason, "end") if isinstance(reason, str) else "end"
                return _reply(blocks, stop, _usage(rest.get("usage")))
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
    turns: list[Block] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            cast("list[Block]", turns[-1]["content"]).extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[Block]:
    text: list[Block] = [{"type": "text", "text": message.text}] if message.text else []
    images = [_image(image) for image in message.images]
    match message.role:
        case "tool":
            result = {"tool_use_id": message.answers, "content": [*text, *images]}
            return [{"type": "tool_result", **result}]
        case "assistant":
            kept = [dict(block) for block in recall(_API, message.memo)]
            return [*kept, *text, *(_use(call) for call in message.calls)]
        case _:
            return [*images, *text]


def _image(image: Image) -> Block:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


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


def _reply(blocks: Iterable[Json], stop: Stop, usage: Usage) -> Reply:
    text: list[str] = []
    calls: list[ToolCall] = []
    thoughts: list[Json] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(said)}:
                text.append(said)
            case {"type": "tool_use", "id": str(id_), "name": str(name), "input": arguments}:
                calls.append(ToolCall(id_, name, json.dumps(arguments)))
            case {"type": "thinking" | "redacted_thinking"}:
                thoughts.append(block)
            case _:
                pass
    return Reply(
        text="".join(text),
        usage=usage,
        stop="tool" if calls else stop,
        calls=tuple(calls),
        memo=remember(_API, thoughts) if calls else "",
    )


def _usage(counts: Json) -> Usage:
    """Tokens; what was read from the cache or written to it is counted apart by this API."""
    match counts:
        case {"input_tokens": int(fresh), "output_tokens": int(written), **rest}:
            cached = _count(rest, "cache_read_input_tokens")
            kept = _count(rest, "cache_creation_input_tokens")
            return Usage(1, fresh + cached + kept, written, cached, stored=kept)
        case _:
            return Usage(1)


def _count(counts: Mapping[str, Json], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0
