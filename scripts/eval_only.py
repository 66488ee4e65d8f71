"""Evaluate a skill: `python scripts/eval_only.py --config C.yaml --skill S.md --split test`."""

from __future__ import annotations

import sys
from pathlib import Path

# So that it works without installation.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from skillopt.cli.main import eval_main

if __name__ == "__main__":
    eval_main()
