from __future__ import annotations

import re
from pathlib import Path

from support_cli import Call, make_project

from skillopt.cli.quickstart import CAPABLE, Discovered, make_folder, outlook


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
    told = outlook(Discovered("OpenAI", settings, CAPABLE))
    assert " calls, " in told
    assert re.match(r"about [\d.]+ (s|min), [\d,]+-[\d,]+ calls, ", told)
    assert told.endswith(" tokens, dollars unknown")


LOCAL = {"backend": "local", "target": "qwen2.5-coder-1.5b", "optimizer": "qwen2.5-coder-1.5b"}


def minutes(told: str) -> float:
    found = re.search(r"bout ([\d.]+) min", told)
    assert found is not None, told
    return float(found[1])


def test_the_quickstart_with_a_local_model_is_estimated_near_what_it_takes(
    call: Call, tmp_path: Path
) -> None:
    """Measured on two cores: 5.9 and 9.3 minutes, depending on what else ran there."""
    make_folder(tmp_path / "q", Discovered("local", LOCAL), 0)
    done = call("estimate", "q/config.yaml", "model.local_threads=2", cwd=tmp_path)
    assert done.code == 0, done.err
    assert 4 < minutes(done.out) < 12
    time = " ".join(done.out.partition("\nTime: ")[2].split())
    assert "a rough figure" in time
    assert "47 tokens of a request and 23 tokens of an answer per second" in time
    assert "2 cores" in time
    assert "1 call at a time (model.local_parallel)" in time


def test_what_costs_nothing_is_told_as_free(call: Call, tmp_path: Path) -> None:
    make_folder(tmp_path / "q", Discovered("local", LOCAL), 0)
    done = call("estimate", "q/config.yaml", cwd=tmp_path)
    assert "$" not in done.out
    assert "dollars  " not in done.out
    assert "Free: target, optimizer." in done.out
    paid = ("model.optimizer_input_price=1", "model.optimizer_output_price=4")
    done = call("estimate", "q/config.yaml", *paid, cwd=tmp_path)
    assert re.search(r"^all +target .* free$", done.out, re.MULTILINE), done.out
    assert re.search(r"^all +optimizer .*\$", done.out, re.MULTILINE), done.out
    assert "Free: target." in done.out
    assert "Price sources: optimizer: your configuration." in done.out
    mixed = ("model.optimizer_backend=openai_compatible", "model.optimizer_base_url=http://x/v1")
    done = call("estimate", "q/config.yaml", *mixed, cwd=tmp_path)
    assert re.search(r"^all +target .* free$", done.out, re.MULTILINE), done.out
    assert re.search(r"^all +optimizer .* unknown$", done.out, re.MULTILINE), done.out
