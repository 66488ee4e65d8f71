"""A model file small enough for every test run: real for llama.cpp, and without any sense."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skillopt.core.chat import Message
from skillopt.model.local import Local

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WANTS_A_USER = (
    "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
    "{{ raise_exception('a user message is required') }}{% endif %}" + CHATML
)

_LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:{}"\n'
_WIDTH, _HIDDEN, _HEADS, _CONTEXT = 64, 128, 4, 4096
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


def write_model(file: Path, *, template: str = CHATML, seed: int = 0) -> Path:
    """One layer, random numbers; it says letters up to the limit."""
    tokens = [("<unk>", _UNKNOWN), ("<|im_start|>", _CONTROL), ("<|im_end|>", _CONTROL)]
    tokens += [(f"<0x{code:02X}>", _BYTE) for code in range(256)]
    tokens += [(letter.replace(" ", "\u2581"), _NORMAL) for letter in _LETTERS]
    tensors = _tensors(len(tokens), random.Random(seed))
    settings = _settings(tokens, template)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings)) + b"".join(settings)
    infos, data = b"", b""
    for name, shape, values in tensors:
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos += _text(name) + dims + struct.pack("<IQ", 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    head += infos
    file.write_bytes(head + bytes(-len(head) % 32) + data)
    return file


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _settings(tokens: list[tuple[str, int]], template: str) -> list[bytes]:
    count = len(tokens)
    numbers = {
        "llama.context_length": _CONTEXT,
        "llama.embedding_length": _WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": _HIDDEN,
        "llama.attention.head_count": _HEADS,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    texts = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.chat_template": template,
    }
    flags = ("tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix")
    array = struct.Struct("<IQ")
    names = b"".join(_text(name) for name, _ in tokens)
    kinds = struct.pack(f"<{count}i", *(kind for _, kind in tokens))
    return [
        *(_entry(key, _STRING, _text(value)) for key, value in texts.items()),
        *(_entry(key, _UINT32, struct.pack("<I", value)) for key, value in numbers.items()),
        *(_entry(key, _BOOL, b"\0") for key in flags),
        _entry("llama.attention.layer_norm_rms_epsilon", _FLOAT32, struct.pack("<f", 1e-5)),
        _entry("tokenizer.ggml.tokens", _ARRAY, array.pack(_STRING, count) + names),
        _entry("tokenizer.ggml.scores", _ARRAY, array.pack(_FLOAT32, count) + bytes(4 * count)),
        _entry("tokenizer.ggml.token_type", _ARRAY, array.pack(_INT32, count) + kinds),
    ]


def _tensors(vocabulary: int, chance: random.Random) -> list[tuple[str, list[int], list[float]]]:
    def matrix(name: str, inner: int, outer: int) -> tuple[str, list[int], list[float]]:
        values = [chance.gauss(0, 0.3) for _ in range(inner * outer)]
        return name, [inner, outer], values

    ones = [1.0] * _WIDTH
    name, shape, output = matrix("output.weight", _WIDTH, vocabulary)
    # Rows of zeros: it says letters, no broken characters, and ends only when it has to.
    for row in range(vocabulary - len(_LETTERS)):
        output[row * _WIDTH : (row + 1) * _WIDTH] = [0.0] * _WIDTH
    square = ("attn_q", "attn_k", "attn_v", "attn_output")
    return [
        matrix("token_embd.weight", _WIDTH, vocabulary),
        ("output_norm.weight", [_WIDTH], ones),
        (name, shape, output),
        ("blk.0.attn_norm.weight", [_WIDTH], ones),
        *(matrix(f"blk.0.{each}.weight", _WIDTH, _WIDTH) for each in square),
        ("blk.0.ffn_norm.weight", [_WIDTH], ones),
        matrix("blk.0.ffn_gate.weight", _WIDTH, _HIDDEN),
        matrix("blk.0.ffn_up.weight", _WIDTH, _HIDDEN),
        matrix("blk.0.ffn_down.weight", _HIDDEN, _WIDTH),
    ]


async def label_scores(
    model: Local, messages: tuple[Message, ...], labels: Sequence[str]
) -> dict[str, float]:
    """The log-probability that the answer is exactly this label, for each of them."""
    scores: dict[str, float] = {}
    for label in labels:
        options = {
            "temperature": 0.0,
            "max_tokens": 64,
            "grammar": f"root ::= {json.dumps(label, ensure_ascii=False)}",
            "logprobs": True,
            "top_logprobs": 1,
        }
        pieces: list[Any] = await model.engine.run(messages, options, 60.0)
        choices = [choice for piece in pieces for choice in piece.get("choices", ())]
        told: list[Any] = [choice["logprobs"] for choice in choices if choice.get("logprobs")]
        assert told
        scores[label] = sum(token["logprob"] for each in told for token in each["content"])
    return scores
