from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sys
from pathlib import Path

import pytest
from support_cli import Trained, finish, make_project, skillopt, started, until
from support_wire import WireServer, completion, says

from skillopt.testing.simulator import Simulator

ESCAPE = "\x1b"


def test_a_run_tells_every_step_and_ends_with_scores_cost_and_paths(trained: Trained) -> None:
    done = trained.done
    assert done.code == 0, done.err
    assert ESCAPE not in done.out + done.err
    steps = [line for line in done.err.splitlines() if line.startswith("step ")]
    assert [line[:19] for line in steps] == ["step 1/2  epoch 1  ", "step 2/2  epoch 1  "]
    assert re.search(
        r"train 0\.\d{3}  edits \d  tokens \d+ -> \d+ \(\+\d+\)  "
        r"val 0\.\d{4} > 0\.\d{4} on \d+ tasks  accepted",
        steps[0],
    )
    assert "on 8 tasks" in steps[0]
    assert re.search(r"^  rollout +8/8, mean 0\.\d\d", done.err, re.MULTILINE)
    tally = re.search(r"^2 steps: (\d (accepted|rejected|skipped)(, |$))+", done.out, re.MULTILINE)
    assert tally
    assert sum(map(int, re.findall(r" (\d) ", tally[0].partition(":")[2]))) == 2
    assert re.search(r"^total +\d+ ", done.out, re.MULTILINE)
    assert re.search(r"^  rollout +\d+ ", done.out, re.MULTILINE)
    estimate = r"^estimate for the whole run: about .+, [\d,]+-[\d,]+ calls"
    assert re.search(estimate, done.err, re.MULTILINE)
    assert "$" not in done.out
    assert "dollars unknown: no price for optimizer and target" in done.out
    for text in ("run/best_skill.md", "skillopt show run", "skillopt diff run"):
        assert text in done.out


def test_scores_come_with_interval_number_and_failures(trained: Trained) -> None:
    summary = json.loads((trained.folder / "run" / "summary.json").read_text(encoding="utf-8"))
    for name, found in (("val", summary["selection"]), ("test", summary["test"])):
        first, best = found["initial"], found["best"]
        low, high = best["hard_interval_95"]
        line = next(line for line in trained.done.out.splitlines() if line.startswith(f"{name} "))
        assert f"{first['hard']:.3f} [" in line
        assert f"{best['hard']:.3f} [{low:.2f}, {high:.2f}]" in line
        assert f"{best['hard'] - first['hard']:+.3f} [" in line
        assert line.split()[-2:] == ["8", "0"]


def test_a_result_says_whether_it_is_sure_and_what_was_turned_away(trained: Trained) -> None:
    summary = json.loads((trained.folder / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["claim"]["words"] in trained.done.out
    assert summary["claim"]["split"] == "test"
    assert summary["claim"]["n"] == 8
    rejected = [each for each in summary["tried"] if each["action"] == "reject"]
    assert len(summary["tried"]) == summary["total_accepts"] + summary["total_rejects"]
    listed = str(len(rejected) or "none")
    assert f"rejected candidates: {listed}" in trained.done.out
    assert all(each["reason"] in trained.done.out for each in rejected)
    assert all(each["gist"] in trained.done.out for each in rejected)
    assert summary["failures"] == {"train": 0, "val": 0, "test": 0}
    assert "failed attempts (no score): none" in trained.done.out


async def test_a_finished_run_says_so_and_needs_no_server(trained: Trained) -> None:
    again = await skillopt("train", "c.yaml", cwd=trained.folder)
    assert again.code == 0, again.err
    assert "this run is already finished" in again.err
    assert again.out == trained.done.out


async def test_a_lost_file_is_written_anew_and_told(own_copy: Path) -> None:
    best = own_copy / "run" / "best_skill.md"
    whole = best.read_bytes()
    best.write_bytes(whole[: len(whole) // 2])
    done = await skillopt("train", "c.yaml", cwd=own_copy)
    assert "warning: missing or damaged files in the run directory" in done.err
    assert "best_skill.md" in done.err
    assert best.read_bytes() == whole


async def test_a_longer_run_continues_and_says_where_with_prices_and_warnings(
    own_copy: Path,
) -> None:
    async with Simulator() as simulator:
        done = await skillopt(
            *("train", "c.yaml", "--num_epochs", "2", "--base_url", simulator.url),
            *("--steps_per_epoch", "3", "model.input_price=1", "model.output_price=2"),
            cwd=own_copy,
        )
    assert done.code == 0, done.err
    assert done.err.startswith("warning: train.steps_per_epoch: has no effect")
    assert re.search(r"^resuming at step 3 of 4; \d+ calls already paid$", done.err, re.MULTILINE)
    assert re.search(r"^cost .*dollars$", done.out, re.MULTILINE)
    assert re.search(r"^target .*\$0\.\d{4}$", done.out, re.MULTILINE)


async def test_another_run_in_the_same_directory_is_refused(own_copy: Path) -> None:
    done = await skillopt("train", "c.yaml", "--batch_size", "4", cwd=own_copy)
    assert done.code == 1
    assert "train.batch_size: 8 there, 4 now" in done.err


async def test_ctrl_c_ends_at_once_without_a_new_request_and_the_run_goes_on_later(
    tmp_path: Path,
) -> None:
    async with Simulator(latency=0.8) as simulator:
        make_project(tmp_path, simulator.url)
        stats = simulator.stats()
        # Under a limit, nothing is begun early.
        async with started("train", "c.yaml", "limits.calls=500", cwd=tmp_path) as process:
            # One step's rollout: past two pings and the eight attempts of the baseline.
            await until(lambda: stats.requests == 18 and stats.in_flight == 8)
            simulator.mark()
            process.send_signal(signal.SIGINT)
            cut = await finish(process)
        assert stats.since_mark == 0
    assert cut.code == 130
    assert cut.out == ""
    last = cut.err.splitlines()[-1]
    assert last.startswith("interrupted. Finished work is saved; run the same command to resume.")
    assert last.endswith("run/best_skill.md")
    assert (tmp_path / "run" / "best_skill.md").read_bytes() == (tmp_path / "skill.md").read_bytes()
    async with Simulator() as simulator:
        done = await skillopt("train", "c.yaml", "model.base_url=" + simulator.url, cwd=tmp_path)
        assert simulator.stats().repeated == {}
    assert done.code == 0, done.err
    assert "resuming at step 1 of 2; 10 calls already paid" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_before_the_first_result_leaves_nothing_in_the_way(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with Simulator(latency=30.0) as simulator:
        make_project(tmp_path, simulator.url)
        async with started("train", "c.yaml", cwd=tmp_path) as process:
            await until(lambda: simulator.stats().in_flight == 2)
            process.send_signal(number)
            cut = await finish(process)
    assert cut.code == 130
    assert cut.err.splitlines()[-1].endswith("run the same command to resume.")
    assert not (tmp_path / "run").exists()


async def test_a_terminal_that_is_closed_stops_a_run_in_order(tmp_path: Path) -> None:
    async with Simulator(latency=30.0) as simulator:
        make_project(tmp_path, simulator.url)
        master, slave = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "skillopt", "train", "c.yaml"),
            cwd=tmp_path,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        await until(lambda: simulator.stats().in_flight == 2)
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert await process.wait() == 130


HANGING = """
import time

def judge(answer, row):
    open("judging", "w").close()
    time.sleep(600)
"""


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_scorer_that_hangs_holds_up_neither_one_ctrl_c_nor_two(
    signals: int, tmp_path: Path
) -> None:
    (tmp_path / "scorer.py").write_text(HANGING, encoding="utf-8")
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        command = ("train", "c.yaml", "env.scorer=scorer:judge")
        async with started(*command, cwd=tmp_path) as process:
            await until((tmp_path / "judging").exists)
            process.send_signal(signal.SIGINT)
            if signals == 2:
                assert process.stderr is not None
                while b"stopping" not in await process.stderr.readline():
                    pass
                process.send_signal(signal.SIGINT)
            # Long before the scorer would be done.
            cut = await finish(process)
    assert cut.code == 130
    assert "interrupted" in cut.err


async def test_a_wrong_key_ends_with_code_1_and_the_right_one_then_works(tmp_path: Path) -> None:
    async with Simulator(key="right-key-0123") as simulator:
        make_project(tmp_path, simulator.url)
        wrong = await skillopt(
            "train", "c.yaml", cwd=tmp_path, OPENAI_COMPATIBLE_API_KEY="wrong-key-0123"
        )
        assert wrong.code == 1
        error = wrong.err.splitlines()[-1]
        assert error.startswith("error: ")
        assert "OPENAI_COMPATIBLE_API_KEY" in error
        assert "wrong-key" not in wrong.err
        assert not (tmp_path / "run").exists()
        right = await skillopt(
            "train", "c.yaml", cwd=tmp_path, OPENAI_COMPATIBLE_API_KEY="right-key-0123"
        )
    assert right.code == 0, right.err


async def test_a_dead_server_ends_with_code_1_before_anything_is_written(tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9/v1")
    done = await skillopt("train", "c.yaml", "--retries", "5", cwd=tmp_path)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "run").exists()


async def test_a_run_that_cannot_be_measured_ends_with_code_3(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        (tmp_path / "scorer.py").write_text("def judge(answer, row): raise OSError", "utf-8")
        done = await skillopt("train", "c.yaml", "env.scorer=scorer:judge", cwd=tmp_path)
    assert done.code == 3, done.err
    assert "max_failure_share" in done.err.splitlines()[-1]


async def watched_on_a_terminal(folder: Path, **env: str) -> str:
    """What a terminal receives while a run goes on."""
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "skillopt", "train", "c.yaml"),
        cwd=folder,
        env={**os.environ, **env},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    loop = asyncio.get_running_loop()
    received = bytearray()
    ended = loop.create_future()

    def read() -> None:
        try:
            data = os.read(master, 65536)
        except OSError:
            data = b""
        received.extend(data)
        if not data:
            loop.remove_reader(master)
            ended.set_result(None)

    loop.add_reader(master, read)
    await asyncio.wait_for(ended, 60)
    os.close(master)
    assert await process.wait() == 0
    return received.decode()


async def test_a_terminal_gets_bars_and_colours_and_its_cursor_back(tmp_path: Path) -> None:
    async with Simulator(latency=0.02) as simulator:
        make_project(tmp_path, simulator.url)
        seen = await watched_on_a_terminal(tmp_path, TERM="xterm-256color", COLUMNS="140")
    assert "whole run" in seen
    assert "rollout" in seen
    assert "\x1b[32m" in seen
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l") >= 0
    assert "step 2/2" in seen


async def test_no_color_is_respected_and_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        plain = await watched_on_a_terminal(tmp_path, TERM="dumb")
        uncoloured = await watched_on_a_terminal(tmp_path, TERM="xterm", NO_COLOR="1")
    assert ESCAPE not in plain
    assert "step 2/2" in plain
    assert not re.search(r"\x1b\[3\dm", uncoloured)


async def test_questions_that_wait_for_people_have_an_exit_code_of_their_own(
    tmp_path: Path,
) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url, (8, 4, 4))
        done = await skillopt("train", "c.yaml", "target_backend=handoff", cwd=tmp_path)
    assert done.code == 5
    assert "4 questions wait in run/handoff." in done.err
    assert "error" not in done.err
    assert len(list((tmp_path / "run" / "handoff" / "target-rollout").iterdir())) == 4


async def test_a_model_named_by_a_variable_is_told_and_recorded_wherever_one_looks(
    tmp_path: Path,
) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        written = (tmp_path / "c.yaml").read_text(encoding="utf-8")
        kept = [line for line in written.splitlines() if "simulated-" not in line]
        (tmp_path / "c.yaml").write_text("\n".join(kept), encoding="utf-8")
        done = await skillopt(
            "train",
            "c.yaml",
            "model.backend=qwen_chat",
            cwd=tmp_path,
            TARGET_QWEN_CHAT_MODEL="simulated-target",
            OPTIMIZER_QWEN_CHAT_MODEL="simulated-optimizer",
        )
    assert done.code == 0, done.err
    assert "target simulated-target, optimizer simulated-optimizer" in done.err
    told = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert told["target_model"] == "simulated-target"
    assert told["optimizer_model"] == "simulated-optimizer"
    texts = [path for path in (tmp_path / "run").rglob("*") if path.suffix in {".json", ".jsonl"}]
    assert not [path for path in texts if "gpt-5.5" in path.read_text(encoding="utf-8")]
    assert "simulated-target" in (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8")


async def test_an_optimizer_whose_every_reply_is_unusable_ends_with_code_3_and_what_to_do(
    tmp_path: Path,
) -> None:
    chat = completion(
        choices=[
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Let us talk about the weather."},
                "finish_reason": "stop",
            }
        ]
    )
    async with WireServer([says(chat)]) as server:
        make_project(tmp_path, server.url)
        done = await skillopt("train", "c.yaml", cwd=tmp_path)
        again = await skillopt("train", "c.yaml", cwd=tmp_path)
    for each in (done, again):
        assert each.code == 3, each.err
        assert "no reply of the optimizer was usable" in each.err
        assert "skillopt doctor" in each.err
        assert "unusable replies of the optimizer: 2 of 2" in each.out
    told = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert told["optimizer_replies"]["asked"] == told["optimizer_replies"]["unusable"] == 2


def test_a_result_tells_who_proposed_what_and_how_much_of_it_was_accepted(trained: Trained) -> None:
    assert "analyst (uses the optimizer model): " in trained.done.out
    told = json.loads((trained.folder / "run" / "summary.json").read_text("utf-8"))
    share = told["proposers"]["analyst"]
    assert share["proposed"] >= share["tried"] >= share["accepted"] > 0
    assert share["asks_model"] is True
