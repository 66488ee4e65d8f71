"""Random attacks on real processes and servers.

`make test` runs a few rounds with a fixed seed; `make attack` runs more with a new seed, which it
prints. Each round draws its own values, so no round repeats the values of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import string
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from support_runs import Job, finished, make_data, until_quiet
from support_wire import WireServer, completion

import skillopt
from skillopt.testing.simulator import Simulator

SEED = int(os.environ.get("ATTACK_SEED", "20"))
ROUNDS = int(os.environ.get("ATTACK_ROUNDS", "2"))
EXPECTED_EXITS = {0, 1, 3, 4}
"""Done, an error that the user can mend, unmeasurable, a limit reached. Never a crash."""
rounds = pytest.mark.parametrize("number", range(ROUNDS))


def chance_of(test: str, number: int) -> random.Random:
    return random.Random(f"{SEED}/{test}/{number}")


def odd_text(chance: random.Random) -> str:
    """Text that breaks parsers: deep nesting, lone surrogates, markers, endless repetitions."""
    size = chance.choice([0, 1, 50, 3_000, 200_000])
    pieces = [
        "<" * size,
        "[" * size,
        '{"a":' * min(size, 20_000),
        "\ud800" * min(size, 5_000),
        "\x00" * min(size, 5_000),
        "```json\n" * min(size, 5_000),
        "<answer>" * min(size, 5_000),
        "-----BEGIN RSA PRIVATE KEY-----" * min(size, 1_000),
        "".join(chr(chance.randrange(1, 0xD7FF)) for _ in range(min(size, 5_000))),
        " " * size,
        "9" * size,
    ]
    return "".join(chance.sample(pieces, chance.randint(1, 3)))


def odd_body(chance: random.Random) -> bytes:
    """A body that a broken, hostile or strange server may send with status 200."""
    text = odd_text(chance)
    whole = json.dumps(completion(text)).encode()
    return chance.choice(
        [
            whole,
            whole[: chance.randrange(len(whole))],
            chance.randbytes(chance.choice([0, 10, 100_000])),
            json.dumps(completion(text, usage={"prompt_tokens": "many"})).encode(),
            json.dumps({"choices": text[:1000]}).encode(),
            b"[" * 100_000,
            b'{"choices": [{"message": {"content": 1e999}}]}',
            b"null",
        ]
    )


@rounds
async def test_whatever_a_server_sends_the_run_ends_in_order_and_a_sane_server_mends_it(
    number: int, tmp_path: Path
) -> None:
    chance = chance_of("bytes", number)
    data = make_data(tmp_path / "data", (12, 10, 6))
    share = chance.choice([0.05, 0.3, 1.0])
    async with Simulator(seed=1) as sim:

        async def serve(request: web.Request) -> web.StreamResponse:
            if chance.random() < share:
                status = chance.choice([200, 200, 200, 400, 404, 500, 503, 302, 204])
                return web.Response(status=status, body=odd_body(chance))
            return await _forward(request, sim.url)

        async with WireServer([serve]) as rough:
            more = {"model.retries": 1, "model.outage_seconds": 2}
            job = Job(
                url=f"{rough.url}/v1", data=data, out=tmp_path / "run", epochs=1, batch=6, more=more
            )
            process = await job.apart()
            _, errors = await process.communicate()
        said = errors.decode(errors="replace")
        assert process.returncode in EXPECTED_EXITS, said
        assert "bug in skillopt" not in said
        assert "Traceback" not in said
        await finished(replace(job, url=sim.url))


async def _forward(request: web.Request, base: str) -> web.Response:
    """The answer of the real simulator."""
    path = request.path.removeprefix("/v1")
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{base}{path}", data=await request.read(), headers=request.headers) as found,
    ):
        return web.Response(status=found.status, body=await found.read())


@rounds
async def test_a_key_that_a_server_repeats_is_kept_nowhere(number: int, tmp_path: Path) -> None:
    chance = chance_of("keys", number)
    length = chance.randint(20, 60)
    key = "".join(chance.choice(string.ascii_letters + string.digits) for _ in range(length))
    data = make_data(tmp_path / "data", (6, 6, 4))

    async def repeat(request: web.Request) -> web.StreamResponse:
        if chance.random() < 0.3:
            text = f"rejected: {request.headers.get('Authorization', '')}"
            return web.Response(status=chance.choice([400, 429, 500]), text=text)
        return web.json_response(completion(f"<answer>{key}</answer>"))

    async with WireServer([repeat]) as server:
        more = {"model.retries": 1, "model.outage_seconds": 1}
        job = Job(
            url=f"{server.url}/v1", data=data, out=tmp_path / "run", epochs=1, batch=6, more=more
        )
        process = await _apart(job, {"OPENAI_COMPATIBLE_API_KEY": key})
        out, errors = await process.communicate()
    assert key.encode() not in out + errors
    for path, content in _contents(tmp_path).items():
        assert key.encode() not in content, path


async def _apart(job: Job, variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return await job.apart()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@rounds
async def test_a_folder_of_the_user_is_refused_and_stays_as_it_was(
    number: int, tmp_path: Path
) -> None:
    chance = chance_of("folders", number)
    names = ["config.json", "best_skill.md", "skills/skill_v0000.md", ".notes.tmp", "summary.json"]
    names += ["history.json", "notes.txt", "steps/step_0001/step_record.json", ".x.skillopt"]
    out = tmp_path / "mine"
    for name in chance.sample(names, chance.randint(1, len(names))):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.randrange(200)))
    before = _contents(out)
    data = make_data(tmp_path / "data", (6, 6, 4))
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=out, epochs=1, batch=6)
        for _ in range(2):
            process = await job.apart()
            _, errors = await process.communicate()
            assert process.returncode == 1, errors.decode()
            assert _contents(out) == before
        assert sum(sim.stats().completed.values()) == 0


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _closure(answer: str) -> Callable[[str], str]:
    return lambda _prompt: answer


def _default(answer: str) -> Callable[[str], str]:
    def respond(_prompt: str, value: str = answer) -> str:
        return value

    return respond


class _Client:
    def __init__(self, answer: str) -> None:
        self._answer = {"text": [answer]}

    def __call__(self, _prompt: str) -> str:
        return self._answer["text"][0]


@rounds
def test_two_callables_never_share_a_score(number: int, tmp_path: Path) -> None:
    chance = chance_of("callables", number)
    right, wrong = (f"{word}-{chance.randrange(10**6)}" for word in ("yes", "no"))
    rows = [{"input": f"question {n} {chance.random()}", "answer": right} for n in range(6)]
    make = chance.choice([_closure, _default, _Client])
    scores = [
        skillopt.evaluate(
            "Answer.",
            rows=rows,
            target=make(answer),
            scorer="exact",
            out=tmp_path / "run",
            progress=False,
        ).whole.hard
        for answer in (right, wrong, right)
    ]
    assert scores == [1.0, 0.0, 1.0]


@rounds
async def test_a_server_never_serves_more_calls_than_the_limit_whatever_is_killed(
    number: int, tmp_path: Path
) -> None:
    chance = chance_of("limits", number)
    data = make_data(tmp_path / "data")
    limit = chance.randint(20, 150)
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", more={"limits.calls": limit})
        for _ in range(3):
            process = await job.apart()
            kill_at = sim.stats().requests + chance.randint(1, limit)
            while sim.stats().requests < kill_at and process.returncode is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
            assert await until_quiet(sim) <= limit
        process = await job.apart()
        _, errors = await process.communicate()
        assert process.returncode == 4, errors.decode()
        assert await until_quiet(sim) <= limit
