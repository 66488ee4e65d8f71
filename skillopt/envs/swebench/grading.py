"""Whether a patch resolves an issue, by the tests of the task and the rules of swebench."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from skillopt.aio import in_thread, within
from skillopt.envs.processes import running
from skillopt.envs.swebench.repository import PLACE, Checkout
from skillopt.errors import EnvironmentFault

_IN_CONTAINER: Final = """\
import importlib, json, os, sys, uuid
asked = json.load(sys.stdin)
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # swebench prints
docker = importlib.import_module("docker")
run = importlib.import_module("swebench.harness.run_evaluation")
utils = importlib.import_module("swebench.harness.utils")
name = asked["instance"]["instance_id"]
prediction = {
    "instance_id": name, "model_name_or_path": "skillopt", "model_patch": asked["patch"],
}
found = run.run_instance(
    utils.make_test_spec(asked["instance"]), prediction, docker.from_env(),
    f"skillopt-{uuid.uuid4().hex}", int(asked["seconds"]),
)
if not found:
    sys.exit("swebench has no report; the logs say why")
out.write(json.dumps(found[1][name]) + "\\n")
out.flush()
"""
"""Grades one patch in the image of its task: swebench writes logs into the current folder and
cannot be interrupted."""
_OFFICIAL_PLACE: Final = "/testbed"
_LEFT_OUT: Final = re.compile(
    r"\s*(?:source\s+\S*activate\b|conda\s|cd /testbed\s*$|git config --global\b|git status\s*$"
    r"|git show\s*$|git (?:-c \S+ )?diff \w+\s*$)"
)
"""Lines about containers, and those that only print what is known."""
_INSTALL: Final = re.compile(r"^\s*(?:python\d?(?:\.\d+)? -m )?pip3? install\b")
_OUR_INSTALL: Final = (
    "python -m pip install -q --no-index --no-deps --no-build-isolation --prefix /tmp/installed "
    "-e . || true"
)
"""What the sandbox allows: the project itself, with what is in the environment already."""
_STARTED: Final = ">>>>> Start Test Output"
_NOT_APPLIED, _TIMED_OUT = ">>>>> Patch Apply Failed", ">>>>> Tests Timed Out"


@dataclass(frozen=True, slots=True)
class Grade:
    """What came of the tests."""

    resolved: bool
    ran: bool
    """Whether any test result could be read."""
    still_failing: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    fixed: int = 0
    log: str = field(default="", repr=False)


def eval_script(instance: Mapping[str, object]) -> str:
    """The official script for a sandbox without conda and network, at another place."""
    base = str(instance["base_commit"])
    utils: Any = importlib.import_module("swebench.harness.utils")
    lines = cast("list[str]", utils.make_test_spec(dict(instance)).eval_script_list)
    kept: list[str] = []
    patching = ""
    for line in lines:
        # What stands between << 'EOF' and EOF is a patch, and stays as it is.
        if patching:
            patching = "" if line.strip() == patching else patching
        elif marker := re.search(r"<<\s*'?(\w+)'?", line):
            patching = marker[1]
        elif _LEFT_OUT.match(line):
            continue
        elif _INSTALL.match(line):
            line = _OUR_INSTALL  # noqa: PLW2901 - in its place
        else:
            line = line.replace(base, "HEAD").replace(_OFFICIAL_PLACE, PLACE)  # noqa: PLW2901
        kept.append(line)
    return "\n".join(["set -uxo pipefail", f"cd {PLACE}", *kept, ""])


async def grade_in_sandbox(
    instance: Mapping[str, object], checkout: Checkout, patch: bytes, seconds: float
) -> Grade:
    """Run the tests with a patch, and grade what they print."""
    script = await in_thread(eval_script, instance)
    result = await checkout.tested(patch, script, seconds)
    log = result.stdout
    if result.status == 125:
        log += f"\n{_NOT_APPLIED}\n"
    elif result.ended_by == "seconds":
        log += f"\n{_TIMED_OUT}\n"
    elif _STARTED not in log:
        raise EnvironmentFault(f"the tests did not start: {log.strip()[-500:] or 'no output'}")
    return await in_thread(graded, instance, log)


def graded(instance: Mapping[str, object], log: str) -> Grade:
    """What swebench makes of a log."""
    grading: Any = importlib.import_module("swebench.harness.grading")
    utils: Any = importlib.import_module("swebench.harness.utils")
    name = str(instance["instance_id"])
    with TemporaryDirectory(prefix="skillopt-swebench-log-") as folder:
        file = Path(folder) / "test_output.txt"
        file.write_text(log, encoding="utf-8", errors="replace")
        report = grading.get_eval_report(
            test_spec=utils.make_test_spec(dict(instance)),
            prediction={"instance_id": name, "model_name_or_path": "", "model_patch": ""},
            test_log_path=str(file),
            include_tests_status=True,
        )
    return read_report(cast("Mapping[str, Any]", report[name]), log)


def read_report(report: Mapping[str, Any], log: str = "") -> Grade:
    tests = cast("Mapping[str, Mapping[str, list[str]]]", report.get("tests_status", {}))
    to_fix, to_keep = tests.get("FAIL_TO_PASS", {}), tests.get("PASS_TO_PASS", {})
    return Grade(
        resolved=bool(report["resolved"]),
        ran=bool(tests),
        still_failing=tuple(to_fix.get("failure", ())),
        broken=tuple(to_keep.get("failure", ())),
        fixed=len(to_fix.get("success", ())),
        log=log,
    )


async def grade_in_container(instance: Mapping[str, object], patch: str, seconds: float) -> Grade:
    """Have swebench run the tests in the image of the task; needs Docker."""
    with TemporaryDirectory(prefix="skillopt-swebench-log-") as folder:
        starting = asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _IN_CONTAINER),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder},
        )
        question = json.dumps({"instance": dict(instance), "patch": patch, "seconds": seconds})
        async with running(starting) as process:
            answer = process.communicate(question.encode())
            try:
                # The image may have to be fetched first.
                told, errors = await within(2 * seconds + 1800, answer)
            except TimeoutError:
                raise EnvironmentFault("the container of the task did not end") from None
    try:
        report = cast("Mapping[str, Any]", json.loads(told.splitlines()[-1]))
        return read_report(report)
    except (ValueError, LookupError, TypeError) as error:
        reason = errors.decode(errors="replace").strip().splitlines()
        said = reason[-1] if reason else "it said nothing"
        raise EnvironmentFault(f"swebench could not run the container: {said}") from error


def has_container_engine() -> bool:
    return shutil.which("docker") is not None
