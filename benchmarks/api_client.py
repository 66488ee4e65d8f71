"""`skillopt.evaluate` as a program would call it: configuration and skill as arguments."""

from __future__ import annotations

import sys
from pathlib import Path

from skillopt.api import evaluate

if __name__ == "__main__":
    verdict = evaluate(Path(sys.argv[2]), Path(sys.argv[1]), split="test")
    print(verdict.whole.n)
