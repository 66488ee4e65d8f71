"""Optimizes a skill with gepa on the tasks of real.py, from within gepa's own environment.

`python real_gepa.py URL DATA SKILL OUT CALLS SEED METRIC`, as gepa_client.py; answers are compared
as SearchQA's are.
"""

from __future__ import annotations

import re
import string

import gepa_client
from gepa_client import Adapter, Attempt, Item

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words(text: str) -> list[str]:
    """Without case, punctuation and articles."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def answer_in(reply: str) -> str:
    """The last answer that is marked as one, or else the last line."""
    marked = _ANSWER.findall(reply)
    lines = [line for line in reply.splitlines() if line.strip()]
    return (marked or lines or [""])[-1]


class Notes(Adapter):
    """A note and a question, as every trainer of the comparison shows them."""

    def _attempt(self, item: Item, skill: str) -> Attempt:
        messages = [
            {"role": "system", "content": f"## Skill\n\n{skill}"},
            {"role": "user", "content": item["question"]},
        ]
        reply = self.endpoint.ask("world-target", messages)
        right = words(answer_in(reply)) in [words(gold) for gold in item["answers"]]
        return Attempt(item=item, reply=reply, score=float(right))


if __name__ == "__main__":
    gepa_client.Adapter = Notes
    gepa_client.main()
