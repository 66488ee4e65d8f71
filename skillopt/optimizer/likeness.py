"""How much texts have in common, by words that few of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import TypeVar

from skillopt.core.memory import words
from skillopt.core.rollout import Rollout

T = TypeVar("T")
_END = 2000
"""Characters at the start and at the end of a long text that are compared."""


def task_text(rollout: Rollout) -> str:
    """What the agent was asked; empty where it is not known."""
    said = rollout.trajectory.messages if rollout.trajectory else ()
    return next((message.text for message in said if message.role == "user"), "")


@dataclass(frozen=True, slots=True)
class Likeness:
    """Compares texts with those that it was made from: the rarer a common word, the more it counts.

    A word that all of them have counts nothing.
    """

    weights: Mapping[str, float]

    @classmethod
    def among(cls, texts: Iterable[str]) -> Likeness:
        bags = [_bag(text) for text in texts]
        counts = Counter(word for bag in bags for word in bag)
        return cls({word: log(len(bags) / count) for word, count in counts.items()})

    def __call__(self, one: str, other: str) -> float:
        return self._shared(_bag(one), _bag(other))

    def groups(self, texts: Mapping[T, str], size: int) -> list[list[T]]:
        """All keys, each group led by the first that is left and filled with what is most alike.

        The order of the keys decides who leads, so another order gives other groups.
        """
        bags = {key: _bag(text) for key, text in texts.items()}
        groups: list[list[T]] = []
        while bags:
            new = next(iter(bags))
            bag = bags.pop(new)
            group, alike = [new], dict.fromkeys(bags, 0.0)
            while bags and len(group) < size:
                for key, other in bags.items():
                    alike[key] = max(alike[key], self._shared(bag, other))
                new = max(bags, key=lambda key: alike[key])
                bag = bags.pop(new)
                group.append(new)
            groups.append(group)
        return groups

    def _shared(self, one: frozenset[str], other: frozenset[str]) -> float:
        return sum(sorted(self.weights.get(word, 0.0) for word in one & other))


def _bag(text: str) -> frozenset[str]:
    cut = text if len(text) <= 2 * _END else f"{text[:_END]} {text[-_END:]}"
    return _words_of(cut)


@lru_cache(maxsize=4096)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(words(text))
