"""A world behind an OpenAI-compatible endpoint on loopback; ends when standard input is closed.

`python world_server.py WORLD SEED [BUDGET]` prints its address, and `spent` when it has answered
BUDGET calls about train and val tasks; calls beyond that wait for ever. The names of the models
say who is asked: one with "optimizer" in it, or the target.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections import Counter
from typing import TypedDict

from aiohttp import web
from world_optimizer import SimulatedOptimizer
from worlds import CASE, WORLDS, Case, Scene


class _Message(TypedDict):
    role: str
    content: str


class _Request(TypedDict):
    model: str
    messages: list[_Message]


class Server:
    def __init__(self, scene: Scene, budget: int) -> None:
        self._scene = scene
        self._optimizer = SimulatedOptimizer(scene)
        self._budget = budget
        self._asked: Counter[tuple[int, str]] = Counter()
        self._served: Counter[str] = Counter()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/served", self._tell)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    async def _tell(self, _: web.Request) -> web.Response:
        return web.json_response(self._served)

    async def _complete(self, request: web.Request) -> web.Response:
        asked: _Request = await request.json()
        system = _said(asked, "system")
        user = _said(asked, "user")
        if "optimizer" in asked["model"]:
            return self._advise(system, user)
        found = CASE.search(user)
        if found is None:
            return _reply("OK")
        return _reply(await self._answer(self._scene.cases[int(found[1])], system))

    def _advise(self, system: str, user: str) -> web.Response:
        if not system and len(user) < 100:
            return _reply("OK")
        self._served["optimizer"] += 1
        try:
            return _reply(self._optimizer.reply(system, user))
        except Exception:  # noqa: BLE001 - whatever it is, a trainer must not take it for an outage
            traceback.print_exc()
            os._exit(1)

    async def _answer(self, case: Case, skill: str) -> str:
        split = case.id.partition("-")[0]
        if split != "test" and self._budget:
            left = self._budget - self._served["train"] - self._served["val"]
            if left == 0:
                print("spent", flush=True)
                self._budget = -1
            if left <= 0 or self._budget < 0:
                await asyncio.Event().wait()
        self._served[split] += 1
        key = (case.number, " ".join(skill.split()))
        self._asked[key] += 1
        given = self._scene.answer(case, skill, self._asked[key])
        return f"The papers are clear.\n<answer>{given}</answer>"


def _said(asked: _Request, role: str) -> str:
    return "\n\n".join(part["content"] for part in asked["messages"] if part["role"] == role)


def _reply(text: str) -> web.Response:
    return web.json_response(
        {
            "id": "world",
            "object": "chat.completion",
            "created": 0,
            "model": "world",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


async def _serve(server: Server) -> None:
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    # No cleanup: it would wait for the calls that are held.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    _, name, seed, *budget = sys.argv
    scene = Scene(WORLDS[name], int(seed))
    asyncio.run(_serve(Server(scene, int(budget[0]) if budget else 0)))
