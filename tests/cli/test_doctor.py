from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_cli import Done, make_project, skillopt
from support_programs import fails, make_program, prints
from support_wire import WireServer, completion, says

from skillopt.app.doctor import limited
from skillopt.config.load import load_config
from skillopt.testing.simulator import Simulator

USABLE = json.dumps({"edits": [{"op": "append", "content": "- Write dates as YYYY-MM-DD."}]})


def row(done: Done, what: str) -> str:
    return next(line for line in done.out.splitlines() if line.startswith(f"{what}  "))


async def test_a_configuration_that_works_passes_with_every_part_named(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("doctor", "c.yaml", cwd=tmp_path)
        asked = sim.stats().requests
    assert done.code == 0, done.out + done.err
    for role in ("target", "optimizer"):
        line = row(done, f"{role} model")
        assert f"simulated-{role} by openai_compatible at {sim.url}" in line
        assert "answered in" in line
        assert " ok " in line
    assert "16 train, 8 val, 8 test items" in row(done, "data")
    assert " ok " in row(done, "disk")
    assert " ok " in row(done, "clock")
    assert "judge" not in done.out
    assert "all checks passed" in done.err
    assert "did not call the tool" in row(done, "target, tools")
    assert asked == 6
    assert not (tmp_path / "run").exists()


async def test_a_server_that_calls_tools_is_told_apart_from_one_that_takes_none(
    tmp_path: Path,
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    fit = '{"ok": true, "edits": [{"op": "append", "content": "- Write dates as YYYY-MM-DD."}]}'
    message = {"role": "assistant", "content": fit, "tool_calls": [call]}
    able = completion(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])
    async with WireServer([says(able)]) as server:
        make_project(tmp_path, server.url)
        done = await skillopt("doctor", "c.yaml", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert "calls tools" in row(done, "optimizer, tools")
    offered = [each.body["tools"] for each in server.seen if "tools" in each.body]
    assert len(offered) == 2
    assert all(tools[0]["function"]["name"] == "clock" for tools in offered)


async def test_a_wrong_key_fails_with_what_to_do_and_is_not_shown(tmp_path: Path) -> None:
    async with Simulator(key="sk-right-right-right") as sim:
        make_project(tmp_path, sim.url)
        wrong = "very-wrong-and-secret"
        (tmp_path / ".env").write_text(f'export OPENAI_COMPATIBLE_API_KEY="{wrong}"  # mine\n')
        done = await skillopt("doctor", "c.yaml", "judge_model=simulated-judge", cwd=tmp_path)
    assert done.code == 1
    assert " failure " in row(done, "judge model")
    assert "key from OPENAI_COMPATIBLE_API_KEY" in row(done, "target model")
    assert "target model: target model" not in done.out
    assert "check the key for the target model in OPENAI_COMPATIBLE_API_KEY" in done.out
    assert "3 checks failed" in done.err
    assert wrong not in done.out + done.err


async def test_offline_nobody_is_asked(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("doctor", "c.yaml", "--offline", cwd=tmp_path)
        assert sim.stats().requests == 0
    assert done.code == 0, done.out
    assert "not called" in row(done, "target model")


async def test_every_thing_in_the_way_is_found_at_once(tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9")
    settings = ("env.split_dir=nowhere", "target_backend=openai_chat", "backend=openai")
    done = await skillopt("doctor", "c.yaml", *settings, "optimizer_backend=compat", cwd=tmp_path)
    assert done.code == 1
    assert " failure " in row(done, "data")
    assert " failure " in row(done, "target model")
    assert " failure " in row(done, "optimizer model")
    assert "nowhere" in done.out
    assert "set TARGET_OPENAI_API_KEY or OPENAI_API_KEY" in done.out
    assert "is it running?" in done.out


async def test_without_a_configuration_it_tells_what_the_machine_has(tmp_path: Path) -> None:
    make_program(tmp_path / "bin", "claude", "")
    key = "sk-a-key-that-nobody-sees"
    done = await skillopt(
        "doctor", cwd=tmp_path, PATH=str(tmp_path / "bin"), OPENAI_API_KEY=key, HOME=str(tmp_path)
    )
    assert done.code == 0, done.err
    assert "OPENAI_API_KEY" in row(done, "keys")
    assert "claude (backend claude_cli)" in row(done, "programs")
    assert "cannot be used" in row(done, "sandbox")
    assert "install bubblewrap and util-linux" in done.out
    assert key not in done.out + done.err
    assert "target" not in done.out


@pytest.mark.parametrize(
    ("behaviour", "code", "told"),
    [
        (prints({"type": "result", "result": USABLE}), 0, "got a usable reply"),
        (fails("Invalid API key · Please run /login"), 1, "run `claude` once and log in"),
    ],
)
async def test_a_program_that_serves_as_a_model_is_tried(
    behaviour: str, code: int, told: str, tmp_path: Path
) -> None:
    program = make_program(tmp_path / "bin", "claude", behaviour)
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt(
            "doctor", "c.yaml", "optimizer_backend=claude_cli", "optimizer=opus", cwd=tmp_path,
            CLAUDE_CLI_BIN=str(program.path),
        )  # fmt: skip
    assert done.code == code, done.out
    assert told in done.out
    assert "opus by claude_cli" in row(done, "optimizer model")


async def test_answers_by_hand_are_no_failure(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("doctor", "c.yaml", "optimizer_backend=handoff", cwd=tmp_path)
    assert done.code == 0, done.out
    assert " note " in row(done, "optimizer model")


@pytest.mark.parametrize(
    ("proposer", "reply", "code", "told"),
    [
        ("analyst", "I would rather talk about the weather.", 1, "got no usable reply"),
        ("instruct", "No.", 1, "got no usable reply"),
        ("instruct", "When asked for a date, write it as YYYY-MM-DD.", 0, "got a usable reply"),
        ("patterns", "whatever", 0, "calls no model"),
    ],
)
async def test_the_optimizer_is_asked_a_question_of_the_kind_that_the_run_will_ask(
    proposer: str, reply: str, code: int, told: str, tmp_path: Path
) -> None:
    message = {"role": "assistant", "content": reply}
    answer = completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])
    async with WireServer([says(answer)]) as server:
        make_project(tmp_path, server.url)
        done = await skillopt("doctor", "c.yaml", f"gradient.proposer={proposer}", cwd=tmp_path)
    assert done.code == code, done.out
    assert told in done.out
    if code:
        assert "gradient.proposer=instruct" in done.out


def test_only_servers_and_programs_have_the_short_time_limit_of_a_checkup() -> None:
    served = load_config(values={"model.backend": "openai_compatible"}).model.role("target")
    local = load_config(values={"model.backend": "local"}).model.role("target")
    assert limited(served).timeout_seconds == 60
    assert limited(local) == local


async def test_a_sandbox_that_is_switched_off_is_a_warning_that_says_what_it_means(
    tmp_path: Path,
) -> None:
    make_project(tmp_path, "http://127.0.0.1:9")
    done = await skillopt("doctor", "c.yaml", "--offline", "--unsafe-no-sandbox", cwd=tmp_path)
    assert "warning" in row(done, "sandbox")
    assert "code that models write runs as you" in done.out
    assert "escape:" not in done.out
