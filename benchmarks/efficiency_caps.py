"""Whether limits hold: runs that are stopped at about half of what they would take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simulated import settings

from skillopt.api import train_async
from skillopt.core.chat import Usage
from skillopt.errors import BudgetSpent
from skillopt.store.cache import SqliteCache
from skillopt.testing.simulator import Simulator, initial_skill, write_data

WORKERS = 16


@dataclass(frozen=True, slots=True)
class Taken:
    """What a run took: by its own receipt, by the clock, and as the server saw it."""

    receipt: Usage
    minutes: float
    served: int

    def of(self, kind: str) -> float:
        match kind:
            case "calls":
                return self.receipt.calls
            case "tokens":
                return self.receipt.input + self.receipt.output
            case "dollars":
                return self.receipt.dollars
            case _:
                return self.minutes


async def trained(seed: int, data: Path, out: Path, limits: Mapping[str, object]) -> Taken:
    """A run of two epochs, or as far as its limits let it come."""
    async with Simulator(seed=seed, latency=(0.0, 0.02)) as simulator:
        start = time.monotonic()
        with suppress(BudgetSpent):
            await train_async(
                skill=initial_skill(),
                out=out,
                settings={
                    **settings(simulator.url, data, WORKERS),
                    "model.max_tokens": 400,
                    "model.input_price": 1.0,
                    "model.output_price": 4.0,
                    "model.cached_input_price": 0.1,
                    "num_epochs": 2,
                    "batch_size": 20,
                    "seed": seed,
                    **limits,
                },
            )
        minutes = (time.monotonic() - start) / 60
        cache = SqliteCache(out / "cache.sqlite", read_only=True)
        receipt = sum(cache.spent().values(), Usage())
        cache.close()
        return Taken(receipt, minutes, sum(simulator.stats().completed.values()))


def told(kind: str, amount: float) -> str:
    match kind:
        case "dollars":
            return f"${amount:.4f}"
        case "minutes":
            return f"{60 * amount:.2f} s"
        case _:
            return f"{amount:,.0f}"


async def caps(seeds: int) -> list[tuple[str, ...]]:
    """A row for each seed and limit; `overrun` is what was taken above the limit."""
    rows: list[tuple[str, ...]] = [
        ("seed", "limit", "free run", "cap", "spent", "overrun", "calls not in the receipt")
    ]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            data = Path(folder) / f"data-{seed}"
            write_data(data, (40, 30, 20), seed)
            free = await trained(seed, data, Path(folder) / f"{seed}-free", {})
            for kind in ("calls", "tokens", "dollars", "minutes"):
                half = free.of(kind) / 2
                cap = int(half) if kind in {"calls", "tokens"} else half
                out = Path(folder) / f"{seed}-{kind}"
                taken = await trained(seed, data, out, {f"limits.{kind}": cap})
                over = max(0.0, taken.of(kind) - cap)
                rows.append(
                    (
                        str(seed),
                        kind,
                        told(kind, free.of(kind)),
                        told(kind, cap),
                        told(kind, taken.of(kind)),
                        told(kind, over) if over else "none",
                        str(taken.served - taken.receipt.calls),
                    )
                )
    return rows
