"""`attribution.json`: the effect of each rule of a run's best skill."""

from __future__ import annotations

import json

from skillopt.core.attribution import Attribution
from skillopt.errors import StoreError
from skillopt.store import codec
from skillopt.store.files import write_json
from skillopt.store.layout import Layout


def write_attribution(layout: Layout, found: Attribution) -> None:
    """Keep it for readers; it can be made again from finished work."""
    write_json(layout.attribution, json.loads(codec.attributions().encode(found)), durable=False)


def read_attribution(layout: Layout) -> Attribution | None:
    """What was found; None when nobody has asked yet."""
    path = layout.attribution
    try:
        return codec.attributions().decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read; `skillopt attribute {layout.root}` writes it again for free"
        ) from error
