"""The part of the chat completions API that the simulator supports."""

from __future__ import annotations

import json

from pydantic import BaseModel, Field

MODELS = ("simulated-target", "simulated-optimizer")


class Part(BaseModel):
    """A piece of a message; only text is read."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: str
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """The words of the message."""
        match self.content:
            case None:
                return ""
            case str(text):
                return text
            case parts:
                return "\n".join(part.text for part in parts)


class ChatRequest(BaseModel):
    """A question; fields that a simulation has no use for are accepted and ignored."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False

    @property
    def limit(self) -> int | None:
        """The most tokens that the answer may have."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens


def completion(request: ChatRequest, digest: str, text: str) -> bytes:
    """The body of a successful reply; a text beyond the limit is cut and says so."""
    cut = request.limit is not None and tokens(text) > request.limit
    if request.limit is not None and cut:
        text = text[: request.limit * 4]
    asked = sum(tokens(message.text) for message in request.messages)
    answered = tokens(text)
    reply = {
        "id": f"chatcmpl-simulated-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "system_fingerprint": "simulation",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "length" if cut else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
        },
    }
    return json.dumps(reply, ensure_ascii=False).encode()


def failure(message: str, code: str) -> bytes:
    """The body of a refusal."""
    error = {"message": f"[simulation] {message}", "type": code, "code": code}
    return json.dumps({"error": error}).encode()


def model_list() -> bytes:
    """The body of `GET /v1/models`."""
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": "skillopt-simulator"}
        for name in MODELS
    ]
    return json.dumps({"object": "list", "data": listed}).encode()


def tokens(text: str) -> int:
    """An estimate of the tokens of a text."""
    return (len(text) + 3) // 4
