"""The settings that runs against the simulator have in common."""

from __future__ import annotations

from pathlib import Path


def settings(url: str, data: Path, workers: int) -> dict[str, object]:
    return {
        "backend": "openai_compatible",
        "base_url": url,
        "model.target": "simulated-target",
        "model.optimizer": "simulated-optimizer",
        "env.name": "custom",
        "split_mode": "split_dir",
        "split_dir": str(data),
        "workers": workers,
    }
