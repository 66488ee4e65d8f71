"""Train a skill: `python scripts/train.py --config configs/searchqa/default.yaml`."""

from __future__ import annotations

import sys
from pathlib import Path

# So that it works without installation.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from skillopt.cli.main import train_main

if __name__ == "__main__":
    train_main()
