"""Tools for models that know only text: how calls are described, found and answered in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skillopt.core.chat import Message, Model, Reply, Request, Tool, ToolCall
from skillopt.prompts.jsonish import read_object, without_thoughts

_CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FENCED: Final = re.compile(r"^```(?:json|tool_call)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^```(bash|sh|shell|python|py|python3)[ \t]*\r?\n(.*?)(?:^```|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_FINAL: Final = re.compile(r"^[ \t#*]*FINAL ANSWER[ \t*]*:?[ \t*]*", re.MULTILINE)
_NO_MORE: Final = "You cannot call anything any more. Give your final answer now."


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How calls of tools look in a text."""

    describe: Callable[[Sequence[Tool]], str]
    """The instructions for the model."""
    find: Callable[[str, Sequence[Tool]], list[tuple[str, str]]]
    """The calls in a reply: each the name of a tool and its arguments as JSON."""
    result: Callable[[str], str]
    """How the model is told the result of a call."""


@dataclass(frozen=True, slots=True)
class TextTools:
    """A model that knows only text, as one that calls tools."""

    inner: Model
    form: CallFormat

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    async def complete(self, request: Request) -> Reply:
        reply = await self.inner.complete(self._in_words(request))
        if request.tool_choice == "none":
            return reply
        turn = sum(message.role == "assistant" for message in request.messages)
        found = self.form.find(without_thoughts(reply.text), request.tools)
        calls = tuple(
            ToolCall(f"call-{turn}-{number}", name, arguments)
            for number, (name, arguments) in enumerate(found)
        )
        return replace(reply, calls=calls, stop="tool") if calls else reply

    def _in_words(self, request: Request) -> Request:
        """The same conversation with calls and results as text."""
        messages = list(self._spoken(request.messages))
        if request.tool_choice == "none" and messages[-1].role == "user":
            messages[-1] = replace(messages[-1], text=f"{messages[-1].text}\n\n{_NO_MORE}")
        told = self.form.describe(request.tools)
        if messages[0].role == "system":
            messages[0] = replace(messages[0], text=f"{messages[0].text}\n\n{told}")
        else:
            messages.insert(0, Message("system", told))
        return replace(request, messages=tuple(messages), tools=(), tool_choice="auto")

    def _spoken(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Results are the user's, and what one side says in a row is one message."""
        waiting: Message | None = None
        for message in messages:
            said = message
            if message.role == "tool":
                said = Message("user", self.form.result(message.text))
            elif message.role == "assistant":
                said = Message("assistant", message.text)
            if waiting and waiting.role == said.role == "user":
                images = (*waiting.images, *said.images)
                waiting = replace(waiting, text=f"{waiting.text}\n{said.text}", images=images)
                continue
            if waiting:
                yield waiting
            waiting = said
        if waiting:
            yield waiting


def _describe_json(tools: Sequence[Tool]) -> str:
    listed = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            ensure_ascii=False,
        )
        for tool in tools
    )
    return (
        "## Tools\n\n"
        "You may call these tools, each a line with its JSON schema:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "To call one, write its name and arguments as a JSON object in tags, and stop:\n"
        '<tool_call>\n{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}\n</tool_call>\n'
        "You may write several calls. Their results follow in <tool_response> tags. When you need "
        "no further call, write your final answer without any tag."
    )


def _find_json(text: str, tools: Sequence[Tool]) -> list[tuple[str, str]]:
    """Calls in tags; without any, fenced objects that can be nothing else than calls."""
    tagged = [match[1] for match in _CALL.finditer(text)]
    found = [read_object(piece, {"name"}) for piece in tagged]
    if not tagged:
        names = {tool.name for tool in tools}
        fenced = (read_object(match[1], {"name"}) for match in _FENCED.finditer(text))
        found = [call for call in fenced if call and call["name"] in names and _given(call)]
    return [_json_call(call) for call in found]


def _json_call(call: Mapping[str, object] | None) -> tuple[str, str]:
    if call is None:
        return "", ""  # told to the model as an error, like every other mistake
    given = _given(call)
    if isinstance(given, str):
        return str(call["name"]), given
    return str(call["name"]), json.dumps({} if given is None else given, ensure_ascii=False)


def _given(call: Mapping[str, object]) -> object:
    """The arguments; small models copy the word `parameters` from the schema."""
    return call.get("arguments", call.get("parameters"))


JSON_CALLS: Final = CallFormat(
    _describe_json,
    _find_json,
    lambda result: f"<tool_response>\n{result}\n</tool_response>",
)
"""The tags on which many open models were trained."""


def _describe_blocks(tools: Sequence[Tool]) -> str:
    listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
    return (
        "## Running code\n\n"
        "Code that you write in a fenced block with one of these names is run, and you are shown "
        "what it prints:\n"
        f"{listed}\n\n"
        "For example:\n```bash\nls\n```\n"
        "Write one step at a time, and wait for its output. Nothing is kept between two blocks "
        "except the files. When you are done, write a line with FINAL ANSWER and below it your "
        "answer; nothing after this line is run."
    )


def _find_blocks(text: str, tools: Sequence[Tool]) -> list[tuple[str, str]]:
    if _FINAL.search(text):
        return []
    names = [tool.name for tool in tools]
    calls: list[tuple[str, str]] = []
    for block in _BLOCK.finditer(text):
        name = "python" if block[1].lower().startswith("py") else "bash"
        if name in names and block[2].strip():
            calls.append((name, json.dumps({"code": block[2]})))
    return calls


def final_answer(text: str) -> str:
    """What follows the line FINAL ANSWER, or else the whole text."""
    found = list(_FINAL.finditer(text))
    return text[found[-1].end() :].strip() if found else text


CODE_BLOCKS: Final = CallFormat(
    _describe_blocks,
    _find_blocks,
    lambda result: f"Output:\n```\n{result}\n```",
)
"""Code in fenced blocks, which every model writes."""
