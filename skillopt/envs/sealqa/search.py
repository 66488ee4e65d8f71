"""Search for an agent: over the documents of an item, or by a function of the user."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from skillopt.core.callables import identify
from skillopt.core.chat import Tool, ToolCall
from skillopt.core.episode import EpisodeLimits
from skillopt.core.rollout import Score, Trajectory
from skillopt.envs.dataset import Question
from skillopt.envs.functions import Function, call_function
from skillopt.errors import EnvironmentFault, attributed_to

RESULTS: Final = 5
_SNIPPET: Final = 400
_PAGE: Final = 20_000
_WORD: Final = re.compile(r"\w+")
SEARCH: Final = Tool(
    "search",
    "Search for pages. Returns the titles, addresses and beginnings of the best ones.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "words to look for"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
FETCH: Final = Tool(
    "fetch",
    "Read a page that a search has found.",
    {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "its address"}},
        "required": ["url"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    url: str
    text: str
    date: str = ""

    def shown(self, most: int) -> str:
        """Title, address and date, and so much of its text."""
        head = f"{self.title}\n{self.url}" + (f" ({self.date})" if self.date else "")
        cut = self.text if len(self.text) <= most else f"{self.text[:most].rstrip()} ..."
        return f"{head}\n{cut}"


class Search(Protocol):
    """Finds pages; knows nothing of the task but what the agent asks."""

    async def __call__(self, query: str) -> Sequence[Page]: ...


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """Searches documents that are here, by BM25."""

    pages: tuple[Page, ...]

    async def __call__(self, query: str) -> Sequence[Page]:
        counts = [Counter(_words(f"{page.title} {page.text}")) for page in self.pages]
        usual = sum(count.total() for count in counts) / max(1, len(counts)) or 1
        wanted = set(_words(query))
        holding = {word: sum(word in count for count in counts) for word in wanted}

        def rank(count: Counter[str]) -> float:
            length = 0.25 + 0.75 * count.total() / usual
            return sum(
                math.log(1 + (len(counts) - n + 0.5) / (n + 0.5))
                * (2.2 * count[word] / (count[word] + 1.2 * length))
                for word, n in holding.items()
            )

        ranked = sorted(zip(map(rank, counts), self.pages, strict=True), key=lambda each: -each[0])
        return [page for value, page in ranked if value > 0][:RESULTS]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@dataclass(frozen=True, slots=True)
class FunctionSearch:
    """Searches by a function: `(query)` in, a list of mappings with title, url and text out."""

    function: Function

    @property
    def identity(self) -> str:
        return identify(self.function).text

    async def __call__(self, query: str) -> Sequence[Page]:
        with attributed_to(EnvironmentFault, "env.search"):
            found = await call_function(self.function, query)
            if not isinstance(found, list | tuple):
                raise TypeError(f"it returned a {type(found).__name__}; return a list of mappings")
            return [_page(each) for each in cast("Sequence[object]", found)]


def _page(found: object) -> Page:
    if not isinstance(found, Mapping):
        raise TypeError(f"it returned a list with a {type(found).__name__}; return mappings")
    fields = cast("Mapping[str, object]", found)
    texts = {name: str(fields.get(name) or "") for name in ("title", "url", "text", "date")}
    if not texts["text"]:
        raise ValueError("it returned a result without 'text'")
    return Page(**texts)


class SearchedQuestion:
    """A question with the tools `search` and `fetch`."""

    def __init__(
        self, question: Question, search: Callable[[str], Awaitable[Sequence[Page]]], turns: int
    ) -> None:
        self._question, self._search = question, search
        self._seen: dict[str, Page] = {}
        self.limits = EpisodeLimits(turns=turns)
        self.tools = (SEARCH, FETCH)

    @property
    def instructions(self) -> str:
        return self._question.instructions

    @property
    def brief(self) -> str:
        return self._question.brief

    async def call(self, call: ToolCall) -> str:
        """A mistake of the agent is told to it; only what a search has found can be fetched."""
        arguments = cast("dict[str, object]", json.loads(call.arguments))
        if call.name == FETCH.name:
            page = self._seen.get(_text(arguments, "url"))
            if page is None:
                raise LookupError("no search has found this address; search first")
            return page.shown(_PAGE)
        pages = await self._search(_text(arguments, "query"))
        self._seen |= {page.url: page for page in pages}
        if not pages:
            return "nothing was found; try other words"
        return "\n\n".join(f"{n}. {page.shown(_SNIPPET)}" for n, page in enumerate(pages, start=1))

    async def score(self, trajectory: Trajectory) -> Score:
        return await self._question.score(trajectory)

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        return self._question.details(trajectory)


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name!r} must be a text that is not empty")
    return value.strip()
