"""`skillopt model`: models for backend `local`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from skillopt.api import fetch_model, local_models, model_path, remove_model
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.model.fetch import FetchProgress
from skillopt.model.weights import Weights, find

_STEP = 0.1
"""Share of a file between two lines where no bar can be drawn."""


def show_all() -> None:
    models = local_models()
    rows = (
        (
            model.weights.name,
            _size(model.weights.size),
            model.weights.licence,
            "yes" if model.is_here else "no",
            model.weights.about,
        )
        for model in models
    )
    Screen().show(
        Table(
            "name", "size", "licence", "here", "about", right=["size"], wrap=["about"], rows=rows
        ),
        "",
        f"stored in {models[0].file.parent}",
        "To use any other GGUF file with backend local, give its path as the model name.",
    )


def fetch(name: str) -> None:
    screen, weights = Screen(), find(name)
    if not any(model.is_here for model in local_models() if model.weights == weights):
        screen.tell(
            f"{weights.name}: {weights.file}, {_size(weights.size)}, licence {weights.licence} "
            f"(see {weights.repository} on the Hugging Face hub)"
        )
    with _reporting(weights, screen) as progress:
        fetch_model(name, progress)
    screen.tell("verified: size and SHA-256 match the catalogue")


def show_path(name: str) -> None:
    """The path alone, for scripts."""
    Screen().show(str(model_path(name)))


def remove(name: str) -> None:
    """Delete, and tell how much that frees."""
    freed = remove_model(name)
    Screen().tell(f"{name}: {_size(freed)} freed" if freed else f"{name} is not on this machine")


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


@contextmanager
def _reporting(weights: Weights, screen: Screen) -> Generator[FetchProgress, None, None]:
    if not screen.live:
        yield _lines(weights, screen)
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=screen.err,
        transient=True,
    )
    with bars:
        task = bars.add_task("looking for the file", total=weights.size)

        def draw(source: str, done: int) -> None:
            bars.update(task, description=f"from {source}", completed=done)

        yield draw


def _lines(weights: Weights, screen: Screen) -> FetchProgress:
    """A line for every tenth of the file."""
    last = 0.0

    def tell(source: str, done: int) -> None:
        nonlocal last
        share = done / weights.size
        if share >= last + _STEP:
            last = share
            screen.tell(f"  {share:4.0%} of {_size(weights.size)}, from {source}")

    return tell
