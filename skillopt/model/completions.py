"""The chat completions API, and the backends that speak it with fields of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias, cast

from skillopt.core.chat import Detail, Image, Message, Reply, Request, Stop, Tool, ToolCall
from skillopt.core.intake import Json
from skillopt.errors import ConfigError, Refused
from skillopt.model.provider import ModelSettings, one_of, variable, yes_or_no
from skillopt.model.remote import HttpBackend
from skillopt.model.wire import (
    Ability,
    ErrorReply,
    MalformedReply,
    assemble,
    check_abilities,
    usage_of,
)

LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
EVERYTHING: Final[tuple[Ability, ...]] = ("tools", "images", "schema")
_STOPS: Final[dict[str, Stop]] = {
    "length": "length",
    "content_filter": "filter",
    "tool_calls": "tool",
    "function_call": "tool",
}


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
        check_abilities(request, f"model {self.settings.name!r}", *self.able)
        settings = self.settings.for_request(request)
        without_effort = request.tools and not self.effort_with_tools and request.effort is None
        body: dict[str, object] = {
            "model": settings.name,
            "messages": [_message(message) for message in request.messages],
            **self.additions,
        }
        if settings.max_tokens is not None:
            body[self.limit_field] = settings.max_tokens
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.effort and not without_effort:
            body["reasoning_effort"] = settings.effort
        if request.tools:
            body["tools"] = [
                {"type": "function", "function": tool_fields(tool)} for tool in request.tools
            ]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if request.schema is not None:
            named = named_schema(request.schema)
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def reply(self, data: Json) -> Reply:
        """Take an answer apart; one that is cut, empty or of another shape is worth a retry."""
        match data:
            case {"choices": [{"finish_reason": "error" | "abort"}, *_]}:
                raise MalformedReply("the answer is incomplete")
            case {"choices": [{"message": {**message}, **choice}, *_], **rest}:
                return self._reply(message, choice.get("finish_reason"), rest.get("usage"))
            case {"error": _}:
                raise MalformedReply("the server reports an error")
            case _:
                raise MalformedReply("the answer has no choices")

    def _reply(self, message: Mapping[str, Json], finish: Json, counts: Json) -> Reply:
        text = _joined_text(message.get("content"))
        if self.thinks_aloud:
            text = _without_thoughts(text)
        usage = usage_of(counts, "prompt_tokens", "completion_tokens")
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal and not text:
            return Reply(text=refusal, usage=usage, stop="filter")
        listed = message.get("tool_calls")
        calls = map(_call, listed, range(len(listed))) if isinstance(listed, list) else ()
        stop = _STOPS.get(finish, "end") if isinstance(finish, str) else "end"
        return assemble([text, *calls], stop, usage)


def named_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """A schema with the name it goes by, strict where its form allows it."""
    title = schema.get("title")
    name = title if isinstance(title, str) and title.isidentifier() else "reply"
    return {"name": name, "schema": schema, "strict": _closed(cast("Json", schema))}


def tool_fields(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def images_to_send(message: Message) -> list[tuple[str, Detail]]:
    """The pictures of a message as addresses that hold them, each with its detail."""
    if message.images and message.role != "user":
        raise Refused(f"this API takes images in user messages only, not from {message.role!r}")
    return [(_data_url(image), image.detail) for image in message.images]


def _data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def _shown(url: str, detail: Detail) -> dict[str, object]:
    # Servers other than the provider's own need not know the field.
    chosen = {"detail": detail} if detail else {}
    return {"type": "image_url", "image_url": {"url": url, **chosen}}


def _message(message: Message) -> dict[str, object]:
    sent: dict[str, object] = {"role": message.role, "content": message.text}
    if message.images:
        shown = [_shown(*image) for image in images_to_send(message)]
        sent["content"] = [{"type": "text", "text": message.text}] * bool(message.text) + shown
    if message.calls:
        sent["content"] = message.text or None
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.answers:
        sent["tool_call_id"] = message.answers
    return sent


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


def _joined_text(content: Json) -> str:
    """The text of a message whose content is a string, a list of parts, or absent."""
    match content:
        case str(text) | {"text": str(text)}:
            return text
        case [*parts]:
            return "".join(map(_joined_text, parts))
        case _:
            return ""


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
    _, closed, said = text.rpartition("</think>")
    if closed:
        return said.lstrip()
    return "" if text.lstrip().startswith("<think>") else text


class QwenChat(HttpBackend):
    """A Qwen model on a server of the user's own (vLLM or SGLang); the key is optional."""

    name = "qwen_chat"
    prefix = "QWEN_CHAT"
    default_url = "http://localhost:8000/v1"
    defaults: ClassVar[Mapping[str, object]] = {"temperature": 0.7, "max_tokens": 8000}

    @classmethod
    def wire(cls, settings: ModelSettings) -> Completions:
        mode = _qwen_thinking(settings)
        switch = {"chat_template_kwargs": {"enable_thinking": mode == "enabled"}}
        newer_name = _switch(settings, "QWEN_CHAT", "use_max_completion_tokens")
        return Completions(
            settings,
            "max_completion_tokens" if newer_name else "max_tokens",
            thinks_aloud=True,
            additions={} if mode == "server_default" else switch,
        )

    @classmethod
    def quirk(cls, settings: ModelSettings) -> str:
        return f"thinking={_qwen_thinking(settings)}"


def _qwen_thinking(settings: ModelSettings) -> str:
    """`server_default`, `enabled` or `disabled`; the older switch counts where no mode is set."""
    modes = one_of("server_default", "enabled", "disabled")
    mode = settings.extra.get("thinking_mode")
    mode = mode or variable(settings, "QWEN_CHAT_THINKING_MODE", modes)
    if isinstance(mode, str):
        return mode
    enabled = _switch(settings, "QWEN_CHAT", "enable_thinking")
    return "server_default" if enabled is None else "enabled" if enabled else "disabled"


def _switch(settings: ModelSettings, prefix: str, name: str) -> bool | None:
    given = settings.extra.get(name)
    if isinstance(given, bool):
        return given
    return variable(settings, f"{prefix}_{name.upper()}", yes_or_no)


_REGIONS: Final = {
    "global_en": "https://api.minimax.io/v1",
    "cn_zh": "https://api.minimaxi.com/v1",
}
_MINIMAX_STATUSES: Final = {
    **dict.fromkeys((1002, 1041), 429),
    **dict.fromkeys((1004, 2049), 401),
    **dict.fromkeys((1008, 2056), 402),
    **dict.fromkeys((1000, 1001, 1013, 1024, 1033), 503),
}
"""MiniMax's own error codes and the HTTP status that means the same."""
_HAS_SWITCH: Final = re.compile(r"minimax-m(?:[3-9]|\d\d)")
"""Models whose thinking can be turned on and off; MiniMax-M2 always thinks."""


class MiniMaxChat(HttpBackend):
    """A model of MiniMax."""

    name = "minimax_chat"
    prefix = "MINIMAX"
    key_required = True
    defaults: ClassVar[Mapping[str, object]] = {
        "name": "MiniMax-M3",
        "temperature": 0.7,
        "max_tokens": 8000,
    }

    @classmethod
    def usual_url(cls, settings: ModelSettings) -> str:
        region = settings.extra.get("region")
        region = region or variable(settings, "MINIMAX_REGION", one_of(*_REGIONS))
        return _REGIONS[region if isinstance(region, str) else "global_en"]

    @classmethod
    def wire(cls, settings: ModelSettings) -> MiniMax:
        if settings.effort:
            raise ConfigError(
                f"minimax_chat has no reasoning effort; remove it from the {settings.role} model "
                "and see model.minimax_enable_thinking"
            )
        thinking = _minimax_thinking(settings)
        sent = {} if thinking == "default" else {"thinking": {"type": thinking}}
        return MiniMax(
            settings,
            "max_completion_tokens",
            able=("tools", "images"),
            thinks_aloud=True,
            additions={**sent, "reasoning_split": True},
        )

    @classmethod
    def quirk(cls, settings: ModelSettings) -> str:
        return f"thinking={_minimax_thinking(settings)}"


class MiniMax(Completions):
    """Chat completions as MiniMax speaks it."""

    def body(self, request: Request) -> dict[str, object]:
        if request.effort or request.tool_choice != "auto":
            what = "a reasoning effort" if request.effort else "a choice of tools"
            raise Refused(f"MiniMax does not support {what}")
        return super().body(request)

    def reply(self, data: Json) -> Reply:
        """Take an answer apart; an error may come with the status of a good answer."""
        match data:
            case {"base_resp": {"status_code": int(code), **details}} if code != 0:
                reason = details.get("status_msg", "no reason given")
                raise ErrorReply(_MINIMAX_STATUSES.get(code, 400), f"{reason} (code {code})")
            case _:
                return super().reply(data)


def _minimax_thinking(settings: ModelSettings) -> str:
    """What is sent of it: what was asked for; unasked, M3 is told not to and others nothing."""
    model = settings.name.lower()
    asked = _switch(settings, "MINIMAX", "enable_thinking")
    if asked is None or model.startswith("minimax-m2"):
        return "disabled" if _HAS_SWITCH.match(model) else "default"
    return "adaptive" if asked else "disabled"
