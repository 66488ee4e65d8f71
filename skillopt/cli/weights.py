"""The implementation of the commands of `skillopt model`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.config.secrets import Secrets
from skillopt.model.fetch import Fetcher, FetchProgress
from skillopt.model.weights import CATALOGUE, Folder, Weights, default_root, find

_STEP = 0.1
"""Share of a file between two lines where no bar can be drawn."""


def show_all() -> None:
    """A table of the catalogue."""
    screen, folder = Screen(), _folder()
    made = Table("name", "size", "licence", "here", "about", right=("size",), wrap=("about",))
    for each in CATALOGUE:
        here = "yes" if folder.has(each) else "no"
        made.add_row(each.name, _size(each.size), each.licence, here, each.about)
    screen.show(made, "", f"stored in {folder.root}")
    screen.show("To use any other GGUF file with backend local, give its path as the model name.")


def fetch(name: str) -> None:
    """Download, with a bar."""
    screen, folder, weights = Screen(), _folder(), find(name)
    if not folder.has(weights):
        screen.tell(
            f"{weights.name}: {weights.file}, {_size(weights.size)}, licence {weights.licence} "
            f"(see {weights.repository} on the Hugging Face hub)"
        )
    with _reporting(weights, screen) as progress:
        Fetcher(folder).fetch(weights, progress)
    screen.tell("verified: size and SHA-256 match the catalogue")


def show_path(name: str) -> None:
    """The path alone, for scripts."""
    Screen().show(str(_folder().path(find(name))))


def remove(name: str) -> None:
    """Delete, and tell how much that frees."""
    freed = _folder().remove(find(name))
    Screen().tell(f"{name}: {_size(freed)} freed" if freed else f"{name} is not on this machine")


def _folder() -> Folder:
    return Folder(default_root(Secrets.load().setting))


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


@contextmanager
def _reporting(weights: Weights, screen: Screen) -> Generator[FetchProgress, None, None]:
    if not screen.live:
        yield _Lines(weights, screen)
        return
    bars = RichProgress(
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


@dataclass(slots=True)
class _Lines:
    """A line for every tenth of the file."""

    weights: Weights
    screen: Screen
    told: float = 0.0

    def __call__(self, source: str, done: int) -> None:
        share = done / self.weights.size
        if share >= self.told + _STEP:
            self.told = share
            self.screen.tell(f"  {share:4.0%} of {_size(self.weights.size)}, from {source}")
