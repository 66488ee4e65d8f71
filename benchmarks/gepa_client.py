"""Optimizes a skill with gepa, from within gepa's own virtual environment.

`python gepa_client.py URL DATA SKILL OUT CALLS SEED METRIC` writes the best candidate to OUT.
Besides the number of calls everything is as gepa has it by default.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

WORKERS = 8
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class Item(TypedDict):
    id: str
    question: str
    answers: list[str]


class Attempt(TypedDict):
    item: Item
    reply: str
    score: float


class Evaluated(Protocol):
    """A batch as gepa hands it back."""

    @property
    def trajectories(self) -> Sequence[Attempt]: ...


@dataclass(frozen=True)
class Endpoint:
    url: str

    def ask(self, model: str, messages: Sequence[Mapping[str, str]]) -> str:
        request = urllib.request.Request(
            f"{self.url}/chat/completions",
            json.dumps({"model": model, "messages": messages}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]["content"]

    def reflect(self, prompt: str) -> str:
        return self.ask("world-optimizer", [{"role": "user", "content": prompt}])


@dataclass(frozen=True)
class Adapter:
    """What gepa asks of a system that it optimizes; see its guide on adapters."""

    endpoint: Endpoint
    graded: bool
    propose_new_texts: None = None

    def evaluate(
        self,
        batch: list[Item],
        candidate: dict[str, str],
        capture_traces: bool = False,  # noqa: FBT001, FBT002 - as gepa calls it
    ) -> object:
        with ThreadPoolExecutor(WORKERS) as pool:
            attempts = list(pool.map(self._attempt, batch, [candidate["skill"]] * len(batch)))
        return importlib.import_module("gepa.core.adapter").EvaluationBatch(
            outputs=[attempt["reply"] for attempt in attempts],
            scores=[attempt["score"] for attempt in attempts],
            trajectories=attempts if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Evaluated, components_to_update: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        examples = [
            {
                "Inputs": attempt["item"]["question"],
                "Generated Outputs": attempt["reply"],
                "Feedback": f"score {attempt['score']:.2f}; expected {attempt['item']['answers']}",
            }
            for attempt in eval_batch.trajectories
        ]
        return dict.fromkeys(components_to_update, examples)

    def _attempt(self, item: Item, skill: str) -> Attempt:
        messages = [
            {"role": "system", "content": f"## Skill\n\n{skill}"},
            {"role": "user", "content": item["question"]},
        ]
        reply = self.endpoint.ask("world-target", messages)
        found = _ANSWER.search(reply)
        return Attempt(item=item, reply=reply, score=self._score(item, found[1] if found else ""))

    def _score(self, item: Item, answer: str) -> float:
        expected, given = item["answers"][0].split(), answer.split()
        if not self.graded:
            return float(expected == given)
        return sum(word in given for word in expected) / len(expected)


def main() -> None:
    url, data, skill, out, calls, seed, metric = sys.argv[1:]
    endpoint = Endpoint(url)
    train, val = (
        json.loads((Path(data) / split / "items.json").read_text("utf-8"))
        for split in ("train", "val")
    )
    result = importlib.import_module("gepa").optimize(
        seed_candidate={"skill": Path(skill).read_text("utf-8")},
        trainset=train,
        valset=val,
        adapter=Adapter(endpoint, graded=metric == "soft"),
        reflection_lm=endpoint.reflect,
        max_metric_calls=int(calls),
        seed=int(seed),
    )
    Path(out).write_text(result.best_candidate["skill"], encoding="utf-8")


if __name__ == "__main__":
    main()
