"""Grades one patch in the container image of its task; reads and writes JSON.

It is a program of its own: swebench writes logs into the current folder and cannot be interrupted.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import uuid
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # swebench prints
    docker: Any = importlib.import_module("docker")
    run: Any = importlib.import_module("swebench.harness.run_evaluation")
    utils: Any = importlib.import_module("swebench.harness.utils")
    name = asked["instance"]["instance_id"]
    prediction = {
        "instance_id": name,
        "model_name_or_path": "skillopt",
        "model_patch": asked["patch"],
    }
    found = run.run_instance(
        utils.make_test_spec(asked["instance"]),
        prediction,
        docker.from_env(),
        f"skillopt-{uuid.uuid4().hex}",
        int(asked["seconds"]),
    )
    if not found:
        sys.exit("swebench has no report; the logs say why")
    out.write(json.dumps(found[1][name]) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
