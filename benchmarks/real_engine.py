"""A model file behind an OpenAI-compatible endpoint on loopback, many calls at a time, by OpenVINO.

    python -m venv engine && engine/bin/pip install openvino-genai==2026.4.1.0
    engine/bin/python benchmarks/real_engine.py FILE.gguf --port 18081
    python benchmarks/real.py --engine http://127.0.0.1:18081/v1 --jobs 6

Computes calls together and keeps the beginnings of prompts: on two cores, eight calls together take
less than half of the time that they take one by one. Where two words are almost equally likely, an
answer can depend on the calls beside it; `real.py` keeps all replies, so that all trainers get the
same one to the same question.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import itertools
import json
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

genai: Any = importlib.import_module("openvino_genai")


@dataclass(frozen=True, slots=True)
class Call:
    prompt: str
    config: Any
    tokens: Future[list[int]] = field(default_factory=Future[list[int]])


class Engine:
    """One thread computes; calls come to it by a queue."""

    def __init__(self, file: str, threads: int, cache_gb: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = cache_gb
        scheduler.enable_prefix_caching = True
        scheduler.max_num_batched_tokens = 512
        options = {"INFERENCE_NUM_THREADS": threads} if threads else {}
        self._pipeline = genai.ContinuousBatchingPipeline(file, scheduler, "CPU", options, {}, {})
        self._tokenizer = self._pipeline.get_tokenizer()
        self._waiting = Queue[Call]()
        self._times: Counter[str] = Counter()
        threading.Thread(target=self._compute, daemon=True).start()

    def answer(self, body: dict[str, Any]) -> tuple[str, int, int]:
        """The text, and the tokens that were read and written for it."""
        config = genai.GenerationConfig()
        config.apply_chat_template = False
        config.max_new_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 700
        if temperature := body.get("temperature"):
            config.do_sample = True
            config.temperature = temperature
            config.rng_seed = self._seed(json.dumps(body, sort_keys=True))
        prompt = self._tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True)
        call = Call(prompt, config)
        self._waiting.put(call)
        written = call.tokens.result()
        read = self._tokenizer.encode(prompt).input_ids.shape[1]
        return self._tokenizer.decode(written), read, len(written)

    def _seed(self, text: str) -> int:
        """From the request and how often it was made: samples differ and can be repeated."""
        self._times[text] += 1
        digest = hashlib.sha256(f"{self._times[text]} {text}".encode()).digest()
        return int.from_bytes(digest[:4], "big")

    def _compute(self) -> None:
        running: list[tuple[Call, Any]] = []
        numbers = itertools.count()
        while True:
            while not running or not self._waiting.empty():
                call = self._waiting.get()
                handle = self._pipeline.add_request(next(numbers), call.prompt, call.config)
                running.append((call, handle))
            self._pipeline.step()
            for call, handle in running:
                if handle.get_status() == genai.GenerationStatus.FINISHED:
                    (output,) = handle.read_all()
                    call.tokens.set_result(list(output.generated_ids))
            running = [(call, handle) for call, handle in running if not call.tokens.done()]


def serve(engine: Engine, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            text, read, written = engine.answer(json.loads(self.rfile.read(length)))
            reply = json.dumps(
                {
                    "id": "engine",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "engine",
                    "choices": [
                        {
                            "index": 0,
                            "message": {"role": "assistant", "content": text},
                            "finish_reason": "stop",
                        }
                    ],
                    "usage": {
                        "prompt_tokens": read,
                        "completion_tokens": written,
                        "total_tokens": read + written,
                    },
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with Server(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="a GGUF file")
    parser.add_argument("--port", type=int, default=18081)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--cache", type=int, default=4, help="GB for what prompts begin with")
    options = parser.parse_args()
    serve(Engine(options.file, options.threads, options.cache), options.port)


if __name__ == "__main__":
    main()
