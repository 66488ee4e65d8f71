from __future__ import annotations

import re
from pathlib import Path

from support_cli import Call, make_project

from skillopt.cli.means import Means
from skillopt.cli.quickstart import outlook
from skillopt.cli.recipes import CAPABLE


def test_the_command_lists_phases_roles_and_missing_prices(call: Call, tmp_path: Path) -> None:
    make_project(tmp_path, "http://127.0.0.1:9")
    done = call("estimate", "c.yaml", cwd=tmp_path)
    assert done.code == 0, done.err
    for word in ("rollout", "gate on val", "analysts", "final test", "Dollars unknown"):
        assert word in done.out
    priced = call(
        *("estimate", "c.yaml", "model.input_price=1", "model.output_price=4"), cwd=tmp_path
    )
    assert "$" in priced.out
    assert "unknown" not in priced.out
    assert re.search(r"^all +target +\d+ \(\d+-\d+\) ", priced.out, re.MULTILINE)
    assert re.search(r"^At least and at most: \d+-\d+ calls, ", priced.out, re.MULTILINE)
    assert re.search(r"^Time: about [\d.]+ (s|min) \(.* to .*\)", priced.out, re.MULTILINE)
    assert "8 attempts (env.workers) run at the same time" in priced.out


def test_the_quickstart_tells_what_its_own_job_would_take() -> None:
    settings = {"backend": "openai_chat", "target": "gpt-none", "optimizer": "gpt-none"}
    told = outlook(Means("OpenAI", settings, CAPABLE))
    assert " calls, " in told
    assert re.match(r"about [\d.]+ (s|min), \d+-\d+ calls, ", told)
    assert told.endswith(" tokens, dollars unknown")
