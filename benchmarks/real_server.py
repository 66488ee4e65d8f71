"""A model behind an OpenAI-compatible endpoint on loopback; ends when standard input closes.

`python real_server.py MODEL DATA REPLIES BUDGET THREADS [URL]` prints its address, and `spent` when
it has answered BUDGET calls about train and val tasks; calls beyond that wait for ever. The names
of the models say who is asked: one with "optimizer" in it, or the target. MODEL is computed in this
process, or asked from the endpoint at URL. Answers are kept in the file REPLIES: what was asked
before is not computed again, but counts as a call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import TypedDict

from aiohttp import web
from typing_extensions import NotRequired

from skillopt.core.chat import Message, Model, Request, Speaker
from skillopt.errors import Refused
from skillopt.model.http import Http
from skillopt.model.local import Local
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings
from skillopt.model.weights import default_root

LONGEST = {"target": 64, "optimizer": 700}
"""Tokens of an answer: a small model that babbles is cut off."""
SAMPLED = 0.7
"""Temperature of an optimizer's request that names none; a target's is greedy."""


class _Message(TypedDict):
    role: Speaker
    content: str


class _Body(TypedDict):
    model: str
    messages: list[_Message]
    temperature: NotRequired[float | None]
    max_tokens: NotRequired[int | None]
    max_completion_tokens: NotRequired[int | None]


class Server:
    def __init__(self, model: Model, splits: dict[str, str], replies: Path, budget: int) -> None:
        self._model = model
        self._splits = splits
        self._kept = sqlite3.connect(replies, timeout=60, isolation_level=None)
        self._kept.execute("create table if not exists replies (key primary key, text, fed, said)")
        self._budget = budget
        self._times: Counter[str] = Counter()
        self._served: Counter[str] = Counter()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/served", self._tell)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    async def _tell(self, _: web.Request) -> web.Response:
        return web.json_response(self._served)

    async def _complete(self, request: web.Request) -> web.Response:
        body: _Body = await request.json()
        said = "\n".join(each["content"] for each in body["messages"] if each["role"] != "system")
        if "optimizer" in body["model"]:
            if len(body["messages"]) == 1 and len(said) < 100:
                return _reply("OK")
            self._served["optimizer"] += 1
            return await self._answer(body, "optimizer")
        split = next((name for text, name in self._splits.items() if text in said), "")
        if not split:
            return _reply("OK")
        await self._spend(split)
        return await self._answer(body, "target")

    async def _spend(self, split: str) -> None:
        if split != "test" and self._budget:
            left = self._budget - self._served["train"] - self._served["val"]
            if left == 0:
                print("spent", flush=True)
                self._budget = -1
            if left <= 0 or self._budget < 0:
                await asyncio.Event().wait()
        self._served[split] += 1

    async def _answer(self, body: _Body, role: str) -> web.Response:
        asked = body.get("temperature")
        temperature = (SAMPLED if role == "optimizer" else 0.0) if asked is None else asked
        wanted = body.get("max_completion_tokens") or body.get("max_tokens") or LONGEST[role]
        longest = min(wanted, LONGEST[role])
        text = json.dumps([body["messages"], temperature, longest, self._model.fingerprint])
        again = self._times[text] if temperature else 0
        self._times[text] += 1
        key = hashlib.sha256(f"{text} {again}".encode()).hexdigest()
        kept = self._kept.execute("select * from replies where key = ?", (key,)).fetchone()
        if kept is None:
            question = Request(
                stage=role,
                messages=tuple(Message(each["role"], each["content"]) for each in body["messages"]),
                temperature=temperature,
                max_tokens=longest,
                replicate=again,
            )
            try:
                reply = await self._model.complete(question)
            except Refused as error:
                return web.json_response({"error": {"message": str(error)}}, status=400)
            kept = (key, reply.text, reply.usage.input, reply.usage.output)
            self._kept.execute("insert or ignore into replies values (?, ?, ?, ?)", kept)
        _, text, fed, said = kept
        self._served["fed"] += fed
        self._served["said"] += said
        return _reply(text, fed, said)


def _reply(text: str, fed: int = 1, said: int = 1) -> web.Response:
    return web.json_response(
        {
            "id": "real",
            "object": "chat.completion",
            "created": 0,
            "model": "real",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": fed, "completion_tokens": said, "total_tokens": fed + said},
        }
    )


def read_splits(data: Path) -> dict[str, str]:
    """The split of each task, by the part of its text that no other has."""
    return {
        max(item["context"], item["question"], key=len): split
        for split in ("train", "val", "test")
        for item in json.loads((data / split / "items.json").read_text("utf-8"))
    }


async def _serve(server: Server) -> None:
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    # No cleanup: it would wait for the calls that are held.
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


def _local(name: str, threads: int) -> Model:
    extra: dict[str, object] = {"folder": default_root(os.environ.get), "context": 8192}
    if threads:
        extra["threads"] = threads
    return Local.create(ModelSettings(role="target", name=name, timeout=3600, extra=extra), Http())


def _remote(name: str, url: str) -> Model:
    settings = ModelSettings(role="target", name=name, base_url=url, timeout=3600)
    return OpenAICompatible.create(settings, Http())


async def main() -> None:
    _, name, data, replies, budget, threads, *url = sys.argv
    model = _remote(name, url[0]) if url else _local(name, int(threads))
    await _serve(Server(model, read_splits(Path(data)), Path(replies), int(budget)))


if __name__ == "__main__":
    asyncio.run(main())
