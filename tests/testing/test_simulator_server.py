from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from skillopt.testing.simulator import (
    Faults,
    SimulatedOptimizer,
    Simulator,
    make_items,
    stated_skill,
)

ITEMS = make_items(40, 1)
Json = dict[str, object]


def question(user: str, system: str = "", model: str = "simulated-target", **more: object) -> Json:
    said = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": model, "messages": said, **more}


async def post(
    session: aiohttp.ClientSession, sim: Simulator, body: Json, key: str = ""
) -> tuple[int, Json]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    address = f"{sim.url}/chat/completions"
    async with session.post(address, json=body, headers=headers) as response:
        assert "SIMULATION" in response.headers["Server"]
        return response.status, await response.json()


def text_of(reply: Json) -> str:
    choices = cast("list[dict[str, dict[str, str]]]", reply["choices"])
    return choices[0]["message"]["content"]


@asynccontextmanager
async def client(sim: Simulator) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with sim, aiohttp.ClientSession() as session:
        yield session


async def test_a_target_answers_by_the_skill_of_its_request() -> None:
    sim = Simulator(noise=0)
    system = f"Fill in forms.\n\n## Skill\n\n{stated_skill()}"
    async with client(sim) as session:
        for item in ITEMS[:8]:
            status, reply = await post(session, sim, question(item["input"], system))
            assert (status, text_of(reply)) == (200, item["answer"])
            assert reply["system_fingerprint"] == "simulation"
            usage = cast("dict[str, int]", reply["usage"])
            assert usage["prompt_tokens"] > usage["completion_tokens"] > 0


async def test_models_are_listed_under_names_that_say_simulated() -> None:
    sim = Simulator()
    async with client(sim) as session, session.get(f"{sim.url}/models") as response:
        listed = (await response.json())["data"]
        assert [model["id"].split("-")[0] for model in listed] == ["simulated", "simulated"]


async def test_a_ping_is_answered_with_ok() -> None:
    sim = Simulator()
    async with client(sim) as session:
        _, reply = await post(session, sim, question("Reply with OK."))
        assert text_of(reply) == "OK"


async def test_a_repair_question_gets_valid_json() -> None:
    sim = Simulator(optimizer=SimulatedOptimizer(broken=1))
    asked = question("<proposals>\n[]\n</proposals>", 'Reply {"selected_indices": []}')
    async with client(sim) as session:
        _, first = await post(session, sim, asked)
        with pytest.raises(json.JSONDecodeError):
            json.loads(text_of(first))
        said = cast("list[Json]", asked["messages"])
        said += [
            {"role": "assistant", "content": text_of(first)},
            {"role": "user", "content": "That is not valid JSON."},
        ]
        _, second = await post(session, sim, asked)
        assert json.loads(text_of(second))["selected_indices"] == []
        assert dict(sim.stats().replies) == {"ranking": 1, "repair": 1}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (question("hi", model="gpt-5"), 404),
        (question("hi", stream=True), 400),
        ({"model": "simulated-target", "messages": []}, 400),
        ({"messages": [{"role": "user", "content": "hi"}]}, 400),
    ],
)
async def test_what_a_real_server_refuses_is_refused(body: Json, status: int) -> None:
    sim = Simulator()
    async with client(sim) as session:
        found, reply = await post(session, sim, body)
        assert found == status
        assert "simulation" in json.dumps(reply["error"])
        assert dict(sim.stats().refused) == {str(status): 1}


async def test_an_unknown_path_is_not_found() -> None:
    sim = Simulator()
    async with client(sim) as session, session.get(f"{sim.root}/nothing") as response:
        assert response.status == 404


async def test_a_reply_beyond_the_token_limit_is_cut_and_says_so() -> None:
    sim = Simulator(noise=0)
    item = next(item for item in ITEMS if len(item["answer"]) > 8)
    async with client(sim) as session:
        body = question(item["input"], f"## Skill\n{stated_skill()}", max_tokens=1)
        _, reply = await post(session, sim, body)
        choices = cast("list[dict[str, object]]", reply["choices"])
        assert choices[0]["finish_reason"] == "length"
        assert text_of(reply) == item["answer"][:4]


async def test_content_in_parts_is_read_like_plain_text() -> None:
    sim = Simulator(noise=0)
    item = ITEMS[0]
    parts = [{"type": "text", "text": item["input"]}]
    said = [
        {"role": "system", "content": f"## Skill\n{stated_skill()}"},
        {"role": "user", "content": parts},
    ]
    async with client(sim) as session:
        _, reply = await post(session, sim, {"model": "simulated-target", "messages": said})
        assert text_of(reply) == item["answer"]


async def test_a_wrong_or_missing_key_is_refused() -> None:
    sim = Simulator(key="right")
    async with client(sim) as session:
        asked = question("Reply with OK.")
        assert [(await post(session, sim, asked, key))[0] for key in ("", "wrong", "right")] == [
            401,
            401,
            200,
        ]
        async with session.get(f"{sim.url}/models") as response:
            assert response.status == 401


async def stats_of(session: aiohttp.ClientSession, sim: Simulator) -> dict[str, Any]:
    async with session.get(f"{sim.root}/sim/stats") as response:
        return await response.json()


async def outcome(session: aiohttp.ClientSession, sim: Simulator, body: Json) -> str:
    try:
        status, _ = await post(session, sim, body)
    except aiohttp.ClientPayloadError:
        return "truncate"
    except aiohttp.ClientConnectionError:
        return "drop"
    return str(status)


async def test_faults_come_as_often_as_asked_and_do_not_depend_on_order() -> None:
    faults = Faults(
        rate_429=0.2, rate_500=0.1, rate_drop=0.1, rate_truncate=0.1, retry_after=0.25, seed=3
    )
    bodies = [question(item["input"]) for item in make_items(200, 2)]
    counted: list[dict[str, str]] = []
    for order in (bodies, bodies[::-1]):
        sim = Simulator(faults=faults)
        async with client(sim) as session:
            found = await asyncio.gather(*(outcome(session, sim, body) for body in order))
            refused = dict(sim.stats().refused)
            assert {kind: found.count(kind) for kind in refused} == refused
            assert sum(sim.stats().replies.values()) == found.count("200")
        counted.append({json.dumps(body): kind for body, kind in zip(order, found, strict=True)})
    assert counted[0] == counted[1]
    kinds = list(counted[0].values())
    assert 20 < kinds.count("429") < 60
    assert all(6 < kinds.count(kind) < 40 for kind in ("500", "drop", "truncate"))


async def test_a_request_that_met_a_fault_gets_through_when_repeated() -> None:
    sim = Simulator(faults=Faults(rate_429=0.4, rate_drop=0.3, retry_after=0))
    async with client(sim) as session:
        for item in ITEMS:
            tries = [await outcome(session, sim, question(item["input"])) for _ in range(30)]
            assert "200" in tries
        assert sim.stats().repeated


@pytest.mark.parametrize(("wait", "header"), [(0, "0"), (2.0, "2"), (0.05, "0.05")])
async def test_a_429_says_how_long_to_wait(wait: float, header: str) -> None:
    sim = Simulator(faults=Faults(rate_429=1, retry_after=wait))
    async with client(sim) as session:
        address = f"{sim.url}/chat/completions"
        async with session.post(address, json=question("hi")) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, header)


async def test_answers_do_not_depend_on_order_or_concurrency() -> None:
    bodies = [question(item["input"], f"## Skill\n{stated_skill()}") for item in ITEMS]
    told: list[list[str]] = []
    for together in (True, False):
        sim = Simulator(seed=7, noise=0.5, latency=(0.0, 0.01) if together else 0.0)
        async with client(sim) as session:
            if together:
                replies = await asyncio.gather(*(post(session, sim, body) for body in bodies))
                assert sim.stats().max_concurrency > 1
            else:
                replies = [await post(session, sim, body) for body in reversed(bodies)][::-1]
                assert sim.stats().max_concurrency == 1
        told.append([text_of(reply) for _, reply in replies])
    assert told[0] == told[1]


async def test_the_counters_tell_repeated_answers_and_requests_since_the_mark() -> None:
    sim = Simulator()
    async with client(sim) as session:
        for item in (ITEMS[0], ITEMS[1], ITEMS[0]):
            await post(session, sim, question(item["input"]))
        async with session.post(f"{sim.root}/sim/mark") as response:
            assert response.status == 200
        await post(session, sim, question(ITEMS[2]["input"]))
        stats = await stats_of(session, sim)
    assert stats["simulation"] is True
    assert (stats["requests"], stats["since_mark"], stats["in_flight"]) == (4, 1, 0)
    assert stats["replies"] == {"target": 4}
    assert sorted(stats["completed"].values()) == [1, 1, 2]
    assert list(stats["repeated"].values()) == [2]


async def test_an_answer_that_nobody_waits_for_is_not_counted_as_paid() -> None:
    sim = Simulator(latency=0.2)
    async with client(sim) as session:
        asked = asyncio.ensure_future(post(session, sim, question(ITEMS[0]["input"])))
        while not (await stats_of(session, sim))["in_flight"]:
            pass
        asked.cancel()
        while (await stats_of(session, sim))["in_flight"]:
            pass
        assert (sim.stats().abandoned, sum(sim.stats().completed.values())) == (1, 0)


async def test_a_port_can_be_taken_again_after_the_simulator_stopped() -> None:
    async with Simulator() as first:
        port = int(first.root.rsplit(":", 1)[1])
    sim = Simulator(port=port)
    async with client(sim) as session:
        assert (await post(session, sim, question("Reply with OK.")))[0] == 200


async def test_as_a_process_it_writes_data_tells_its_url_and_ends_with_its_parent(
    tmp_path: Path,
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "skillopt.testing.simulator", "--watch-stdin", "--latency-ms", "1-2"),
        *("--data", str(tmp_path), "--sizes", "6,4,2"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    line = (await process.stdout.readline()).decode()
    address = re.fullmatch(r"SIMULATION, no real model: (http://127\.0\.0\.1:\d+/v1)\n", line)
    assert address
    async with aiohttp.ClientSession() as session:
        body = question("Reply with OK.")
        async with session.post(f"{address[1]}/chat/completions", json=body) as response:
            assert response.status == 200
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert len((tmp_path / "train" / "items.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    assert (tmp_path / "initial_skill.md").read_text(encoding="utf-8").startswith("# Office")


async def test_as_a_process_it_ends_on_a_signal_and_refuses_bad_sizes() -> None:
    command = (sys.executable, "-m", "skillopt.testing.simulator")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    assert b"http://" in await process.stdout.readline()
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 60) == 0
    process = await asyncio.create_subprocess_exec(
        *command, "--sizes", "1,2", stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await process.communicate()
    assert (process.returncode, b"--sizes" in complaint) == (2, True)


async def test_as_a_process_it_says_in_one_line_that_its_port_is_taken() -> None:
    async with Simulator() as first:
        port = first.root.rsplit(":", 1)[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "skillopt.testing.simulator", "--port", port),
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaint = await process.communicate()
    assert process.returncode == 1
    (line,) = complaint.decode().splitlines()
    assert line.startswith(f"cannot listen on port {port}: ")
    assert line.endswith("; give another --port")
