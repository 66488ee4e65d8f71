"""What a program may ask of a model: requests are checked, answers are counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from skillopt.core.chat import Usage
from skillopt.core.intake import Json, json_lines, read_json
from skillopt.model.gemini import usage_of_gemini
from skillopt.model.wire import usage_apart, usage_of

Asked: TypeAlias = Literal[
    "/chat/completions",
    "/responses",
    "/messages",
    "/messages/count_tokens",
    "/models",
    ":generateContent",
    ":streamGenerateContent",
    ":countTokens",
]
"""How the path of a request ends, which says what is asked and in which format."""

ENDS: Final[tuple[Asked, ...]] = (
    *("/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/models"),
    *(":generateContent", ":streamGenerateContent", ":countTokens"),
)
FREE: Final[frozenset[Asked]] = frozenset(("/models", "/messages/count_tokens", ":countTokens"))
"""What no answer of a model is asked with."""
BYTES_PER_TOKEN: Final = 4


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_MOST_ASKED: Final = 10**9
"""Tokens; whoever asks for more makes a mistake."""
_MOST_CHOICES: Final = 16
_PER_CALL: Final = 64
_PER_IMAGE: Final = 6000
_GEMINI: Final = _names(
    "contents systemInstruction system_instruction tools toolConfig generationConfig safetySettings"
)
_FIELDS: Final[Mapping[Asked, frozenset[str]]] = {
    "/chat/completions": _names(
        """chat_template_kwargs frequency_penalty function_call functions logit_bias logprobs
        messages metadata min_p n parallel_tool_calls presence_penalty prompt_cache_key
        reasoning_effort reasoning_split repetition_penalty response_format seed stop stream
        temperature thinking tool_choice tools top_k top_logprobs top_p user verbosity"""
    ),
    "/responses": _names(
        """include input instructions metadata parallel_tool_calls prompt_cache_key reasoning
        stream temperature text tool_choice tools top_logprobs top_p truncation user"""
    ),
    "/messages": _names(
        """messages metadata output_config stop_sequences stream system temperature thinking
        tool_choice tools top_k top_p"""
    ),
    "/messages/count_tokens": _names("messages system thinking tool_choice tools"),
    ":generateContent": _GEMINI,
    ":streamGenerateContent": _GEMINI,
    ":countTokens": _names("contents"),
}
"""Fields that ask for nothing but an answer of the model, from what is in the request.

Others name further models, dearer service, or what lies at the server or elsewhere.
"""
_LOCAL_TOOLS: Final = (
    *("function", "custom", "local_shell", "apply_patch"),
    *("bash_", "text_editor_", "memory_", "computer_"),
)
"""How the types of tools begin that the program runs itself; any other is run by the server."""
_SEARCHES: Final = ("web_search", "google_search", "googleSearch")
"""How tools begin with which the server searches the web."""
_PARTS: Final = _names(
    """message text input_text output_text refusal image image_url input_image summary_text
    reasoning reasoning_text thinking redacted_thinking function_call function_call_output
    custom_tool_call custom_tool_call_output local_shell_call local_shell_call_output
    apply_patch_call apply_patch_call_output tool_use tool_result"""
)
"""Types of what messages are made of; files, recordings and results of a server are not."""
_FOREIGN: Final = _names("image_url file_id file_url file source input_audio audio_url video_url")
"""What a part may hold instead of text."""
_SPOKEN: Final = ("messages", "input", "system", "instructions")
_GEMINI_SPOKEN: Final = ("contents", "systemInstruction", "system_instruction")
_GEMINI_PARTS: Final = _names("text thought thoughtSignature functionCall functionResponse")


class UnfitRequest(Exception):
    """A program asks for something that it cannot have."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request as it is sent."""

    body: bytes
    worst: Usage
    """The most that it can take, without its price."""


def check_request(
    asked: Asked,
    body: bytes,
    model: str,
    *,
    max_tokens: int,
    chat_limit: str,
    web_search: bool = False,
) -> CheckedRequest:
    """The request with our model and a limit on its answer; `UnfitRequest` says what is wrong.

    `chat_limit` is what the server calls that limit in chat completions. `web_search` leaves the
    tools in with which the server searches the web.
    """
    given = _object(body)
    fields = {name: value for name, value in given.items() if name in _FIELDS[asked]}
    _check_tools(fields, web_search=web_search)
    if asked.startswith(":"):
        images = sum(_gemini_images(fields.get(name)) for name in _GEMINI_SPOKEN)
        longest = _limit_gemini(fields, max_tokens) if asked != ":countTokens" else 0
    else:
        fields["model"] = model
        images = sum(_images(fields.get(name)) for name in _SPOKEN)
        longest = _limit(asked, given, fields, max_tokens, chat_limit)
    sent = json.dumps(fields).encode()
    return CheckedRequest(sent, Usage(1, len(sent) + _PER_CALL + _PER_IMAGE * images, longest))


def _limit(
    asked: Asked,
    given: Mapping[str, Json],
    fields: dict[str, Json],
    max_tokens: int,
    chat_limit: str,
) -> int:
    """Limit the answer; returns the tokens that it can have."""
    wanted = {name: _whole(given, name, _MOST_ASKED) for name in _LIMITS}
    choices = _whole(given, "n", _MOST_CHOICES)
    if not isinstance(given.get("stream", False), bool):
        raise UnfitRequest("stream should be true or false")
    longest = 0
    match asked:
        case "/chat/completions":
            limits = (wanted["max_tokens"], wanted["max_completion_tokens"])
            fields[chat_limit] = longest = _least(max_tokens, *limits)
            if fields.get("stream"):
                fields["stream_options"] = {"include_usage": True}
        case "/responses":
            fields["max_output_tokens"] = longest = _least(max_tokens, wanted["max_output_tokens"])
            fields["store"] = False
        case "/messages":
            fields["max_tokens"] = longest = _least(max_tokens, wanted["max_tokens"])
        case _:
            pass
    return longest * ((choices or 1) if "n" in fields else 1)


def _limit_gemini(fields: dict[str, Json], max_tokens: int) -> int:
    wishes = fields.get("generationConfig") or {}
    if not isinstance(wishes, dict):
        raise UnfitRequest("generationConfig should be an object")
    longest = _least(max_tokens, _whole(wishes, "maxOutputTokens", _MOST_ASKED))
    choices = _whole(wishes, "candidateCount", _MOST_CHOICES) or 1
    fields["generationConfig"] = {**wishes, "maxOutputTokens": longest}
    return longest * choices


def _object(body: bytes) -> dict[str, Json]:
    try:
        found = read_json(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnfitRequest("the request is not a JSON object")
    return found


def _whole(fields: Mapping[str, Json], name: str, most: int) -> int | None:
    """A whole number above 0; None: the request does not say."""
    number = fields.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= most:
        raise UnfitRequest(f"{name} should be a whole number from 1 to {most:,}")
    return number


def _least(most: int, *asked: int | None) -> int:
    return min([most, *(number for number in asked if number is not None)])


def _check_tools(fields: dict[str, Json], *, web_search: bool) -> None:
    """Leave out the tools that the server would run."""
    tools = fields.get("tools")
    if tools is None:
        return
    if not isinstance(tools, list):
        raise UnfitRequest("tools should be a list")
    kept: list[Json] = [
        tool for tool in tools if isinstance(tool, dict) and _is_allowed(tool, web_search)
    ]
    if kept:
        fields["tools"] = kept
    else:
        del fields["tools"]
        fields.pop("tool_choice", None)


def _is_allowed(tool: Mapping[str, Json], web_search: bool) -> bool:  # noqa: FBT001 - see above
    kind = tool.get("type")
    if kind is None and "name" not in tool and "function" not in tool:  # as Gemini writes them
        known = ("functionDeclarations", "function_declarations")
        return all(key in known or (web_search and key.startswith(_SEARCHES)) for key in tool)
    kind = "custom" if kind is None else kind
    allowed = (*_LOCAL_TOOLS, *_SEARCHES) if web_search else _LOCAL_TOOLS
    return isinstance(kind, str) and kind.startswith(allowed)


def _images(parts: Json) -> int:
    """How many pictures there are; `UnfitRequest` for what the server would have to fetch."""
    match parts:
        case list():
            return sum(map(_images, parts))
        case dict():
            kind = parts.get("type", "message" if "role" in parts else None)
            if not isinstance(kind, str) or kind not in _PARTS:
                raise UnfitRequest(
                    f"messages may not hold anything of type {json.dumps(kind)[:80]}"
                )
            inner = sum(_images(parts.get(name)) for name in ("content", "output"))
            return inner + (_image(parts) if "image" in kind or _FOREIGN & parts.keys() else 0)
        case _:
            return 0


def _image(part: Mapping[str, Json]) -> int:
    match part:
        case {"image_url": str(url)} | {"image_url": {"url": str(url)}} if "file_id" not in part:
            held = url.startswith("data:")
        case {"source": {"type": "base64"}}:
            held = True
        case _:
            held = False
    if not held:
        raise UnfitRequest("an image should be in the request itself, as a data: URL or base64")
    return 1


def _gemini_images(content: Json) -> int:
    match content:
        case list():
            return sum(map(_gemini_images, content))
        case {"parts": parts}:
            return _gemini_images(parts)
        case {"inlineData": {"data": str()}, **rest} if rest.keys() <= _GEMINI_PARTS:
            return 1
        case dict() if content.keys() <= _GEMINI_PARTS:
            return 0
        case dict():
            kind = json.dumps(sorted(content.keys() - _GEMINI_PARTS))[:80]
            raise UnfitRequest(f"parts may not hold {kind}")
        case _:
            return 0


def read_answer(answer: bytes) -> list[dict[str, Json]]:
    """The events of an answer; a whole answer is one. Empty: it is none that we understand."""
    if answer.lstrip().startswith((b"event:", b"data:", b"id:", b":")):
        text = answer.decode(errors="replace")
        lines = (line.removeprefix("data:") for line in text.splitlines())
        return list(json_lines("\n".join(lines)))
    try:
        found = read_json(answer)
    except ValueError:
        return []
    return [
        each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)
    ]


def broken_off(events: list[dict[str, Json]]) -> str:
    """What a server says that has begun to answer and could not go on; empty: it could."""
    for event in events:
        match event:
            case {"type": "error" | "response.failed"} | {"error": {"message": str()}}:
                return json.dumps(event)
            case _:
                pass
    return ""


def estimated_usage(sent: bytes, answer: bytes) -> Usage:
    given, made = len(sent) // BYTES_PER_TOKEN, len(answer) // BYTES_PER_TOKEN
    return Usage(1, given, made, estimated=1)


def counted_usage(asked: Asked, events: list[dict[str, Json]]) -> Usage | None:
    """What the server counted, in an answer or in the events of one; None: nothing."""
    counts: dict[str, Json] = {}
    for found in _counts(events):
        counts |= {name: number for name, number in found.items() if number is not None}
    match asked:
        case "/chat/completions":
            usage = usage_of(counts, "prompt_tokens", "completion_tokens")
        case "/responses":
            usage = usage_of(counts, "input_tokens", "output_tokens")
        case "/messages":
            usage = usage_apart(counts)
        case _:
            usage = usage_of_gemini(counts)
    return usage if usage is not None and (usage.input or usage.output) else None


def _counts(events: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    for event in events:
        for part in (event, event.get("response"), event.get("message")):
            for name in ("usage", "usageMetadata"):
                if isinstance(part, dict) and isinstance(found := part.get(name), dict):
                    yield found
