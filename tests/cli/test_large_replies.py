"""Signals work while large texts are processed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support_runs import Job, make_data
from support_wire import WireServer, completion, says

from skillopt.core.intake import REPLY_CHARS


@pytest.mark.parametrize("piece", ["<", "<answer>", "{", "```\n"])
async def test_ctrl_c_ends_a_run_whose_server_answers_a_megabyte_that_patterns_stumble_over(
    tmp_path: Path, piece: str
) -> None:
    text = piece * (REPLY_CHARS // len(piece))
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with WireServer([says(completion(text))]) as server:
        job = Job(url=f"{server.url}/v1", data=data, out=tmp_path / "run", batch=4, workers=2)
        process = await job.apart()
        while len(server.seen) < 6:  # two first questions, then attempts that are scored
            server.arrived.clear()
            await server.arrived.wait()
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130, err.decode()
    assert b"interrupted. Finished work is saved" in err
