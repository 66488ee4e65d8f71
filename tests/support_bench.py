"""Published data of benchmarks as their owners lay it out, made up by us; and a model on loopback.

Item 7 of any benchmark has `item-7` in its question, and images that no other item has.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support import analysis
from support_original import ROOT
from support_wire import completion, says

from skillopt.core.chat import Reply, Request

COUNT = 18
SIZES = {"train": 8, "val": 6, "test": 4}
RULE = "Look twice before you answer."


def sample(name: str) -> Path:
    """The folder of real samples of a benchmark; the test is skipped where there is none."""
    for above in ROOT.parents:
        if (above / "shared" / "samples" / name).is_dir():
            return above / "shared" / "samples" / name
    pytest.skip(f"the real sample of {name} is not on this machine")


def png(seed: int) -> bytes:
    """A picture of 4 by 4 pixels in a colour of its own."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    pixel = bytes((seed % 256, seed // 256 % 256, 77))
    lines = (b"\0" + pixel * 4) * 4
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(lines)),
            chunk(b"IEND", b""),
        ]
    )


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return path


def _docvqa(folder: Path) -> list[str]:
    rows = [
        {
            "questionId": 5000 + n,
            "question": f"What is the total of item-{n}?",
            "image": f"documents/doc{n}_1.png",
            "docId": n,
            "ucsf_document_id": f"doc{n}",
            "ucsf_document_page_no": "1",
            "answers": [f"gold-canary-{n}", f"{n}.00 dollars"],
            "data_split": "val",
        }
        for n in range(COUNT)
    ]
    for n in range(COUNT):
        write(folder / "documents" / f"doc{n}_1.png", png(n))
    told = {"dataset_name": "docvqa", "dataset_split": "val", "data": rows}
    write(folder / "val_v1.0.json", told)
    return [str(row["questionId"]) for row in rows]


def _livemath(folder: Path) -> list[str]:
    rows: list[dict[str, object]] = []
    for n in range(COUNT):
        right = "One of the remaining options is correct, but a stronger result can be proven."
        choices = [{"label": label, "text": f"{label} says {n}"} for label in "BCDE"]
        rows.append(
            {
                "no": n,
                "month": "203001",
                "paper_link": f"http://arxiv.org/abs/0000.{n:05d}",
                "theorem": f"gold-canary-{n}",
                "sketch": f"gold-canary-{n}",
                "theorem_type": ["Existence"],
                "mcq": {
                    "question": f"Which statement about item-{n} holds?",
                    "correct_choice": {"label": "A", "text": right if n % 2 else f"right {n}"},
                    "choices": choices,
                },
            }
        )
    write(folder / "data" / "203001" / "qa_203001_final.json", rows)
    return [f"203001:{n}" for n in range(COUNT)]


def _sealqa(folder: Path) -> list[str]:
    def page(title: str, text: str) -> dict[str, object]:
        return {"date": None, "title": title, "text": text, "url": f"https://example.org/{title}"}

    rows = [
        {
            "question": f"How many crews finished in item-{n}?",
            "answer": f"{n} crews",
            "urls": ["https://example.org"],
            "freshness": "never-changing",
            "question_types": ["advanced reasoning"],
            "effective_year": "2024",
            "search_results": "conflicting",
            "topic": "Sports",
            "canary": f"gold-canary-{n}",
            "12_docs": [
                page(f"preview-{n}", f"Before item-{n}, {n + 3} crews were expected to finish."),
                page(f"results-{n}", f"In item-{n}, exactly {n} crews finished."),
                page(f"weather-{n}", "It rained."),
            ],
        }
        for n in range(COUNT)
    ]
    write(folder / "longseal.jsonl", "\n".join(map(json.dumps, rows)))
    return [f"longseal-{n:04d}" for n in range(COUNT)]


def _babyvision(folder: Path) -> list[str]:
    rows: list[dict[str, object]] = []
    for n in range(COUNT):
        choice = n % 2 == 1
        rows.append(
            {
                "taskId": 900 + n,
                "type": "Visual Tracking" if n % 3 else "Spatial Perception",
                "subtype": "Maze",
                "image": f"images/{n}.png",
                "question": f"Where does the line of item-{n} end?",
                "ansType": "choice" if choice else "blank",
                "blankAns": None if choice else f"({n}, 4)",
                "choiceAns": 2 if choice else None,
                "options": ["left", "right", f"below {n}", "nowhere"] if choice else [],
                "hidden": f"gold-canary-{n}",
            }
        )
        write(folder / "images" / f"{n}.png", png(n))
    write(folder / "meta_data.jsonl", "\n".join(map(json.dumps, rows)))
    return [str(row["taskId"]) for row in rows]


def _mathverse(folder: Path) -> list[str]:
    rows: list[dict[str, object]] = []
    for n in range(COUNT):
        choice, version = n % 2 == 1, "Vision Only" if n % 3 == 0 else "Text Lite"
        asked = f"What is the angle of item-{n}?"
        said = f"{asked}\nChoices:\nA:1°\nB:{n + 100}°\nC:2°\nD:3°" if choice else asked
        rows.append(
            {
                "sample_index": str(n),
                "problem_index": str(n),
                "problem_version": version,
                "question": said,
                "image": f"images_version_1-4/image_{n}.png",
                "answer": "B" if choice else f"{n}\\sqrt{{3}}",
                "question_type": "multi-choice" if choice else "free-form",
                "metadata": {"subject": "Plane Geometry", "source": f"gold-canary-{n}"},
                "query_wo": f"Please directly answer the question.\nQuestion: {said}",
                "query_cot": f"Please first conduct reasoning.\nQuestion: {said}",
            }
        )
        write(folder / "images" / "images_version_1-4" / f"image_{n}.png", png(n))
    write(folder / "testmini.json", rows)
    return [str(row["sample_index"]) for row in rows]


def _mmrb(folder: Path) -> list[str]:
    rows: list[dict[str, object]] = []
    for n in range(COUNT):
        steps = [f"first {n}", f"gold-canary-{n}", f"and so {n + 7}", f"last {n}"]
        choice = n % 2 == 1
        options = ["A: 1", "B: 2", "C: 3", "D: 4"]
        listed = f" Options: {' '.join(options)}" if choice else ""
        rows.append(
            {
                "source": "own",
                "subtask": "Difference Spotting" if n % 3 else "Retrieval",
                "index": n,
                "question": f"{{image#1}} {{image#2}} What differs in item-{n}?{listed}",
                "options": options if choice else [],
                "question_type": "multi-choice" if choice else "free-form",
                "image_paths": [f"images/{n}_a.png", f"images/{n}_b.png"],
                "answer": "C" if choice else f"square {n}",
                "reasoning_steps": [[{"reasoning step": k, "rationale_fix": s}
                                     for k, s in enumerate(steps)]],
            }
        )  # fmt: skip
        write(folder / "images" / f"{n}_a.png", png(n))
        write(folder / "images" / f"{n}_b.png", png(1000 + n))
    write(folder / "mmrb.json", rows)
    return [f"own-{'Difference-Spotting' if n % 3 else 'Retrieval'}-{n}" for n in range(COUNT)]


WRITERS: Mapping[str, Callable[[Path], list[str]]] = {
    "docvqa": _docvqa,
    "livemathematicianbench": _livemath,
    "sealqa": _sealqa,
    "babyvision": _babyvision,
    "mathverse": _mathverse,
    "mmrb": _mmrb,
}
SEEING = ("docvqa", "babyvision", "mathverse", "mmrb")


def write_raw(name: str, folder: Path) -> Path:
    """Published data of a benchmark, and beside it a manifest of ids for all of it."""
    ids = WRITERS[name](folder / "raw")
    start = 0
    for split, size in SIZES.items():
        rows = [{"id": each} for each in ids[start : start + size]]
        write(folder / "ids" / split / "items.json", rows)
        start += size
    told = {"manifest_type": "id_split", "counts": SIZES, "source_url": "https://example.org"}
    write(folder / "ids" / "split_manifest.json", told)
    return folder / "raw"


def pictures(name: str, number: int) -> list[bytes]:
    """The images of an item."""
    if name not in SEEING:
        return []
    return [png(number), *([png(1000 + number)] if name == "mmrb" else [])]


@dataclass
class SeeingModel:
    """Answers a question rightly if the skill has the rule, and never without its images."""

    name: str
    right: Mapping[int, str]
    """A right reply, by the number of the item."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages: Sequence[Mapping[str, Any]] = body["messages"]
        text, images = _parts(messages)
        if "Reply with OK." in text:
            return await says(completion("OK"))(request)
        self.asked.append(body)
        found = re.search(r"item-(\d+)", text)
        assert found is not None, text
        number = int(found[1])
        assert images == pictures(self.name, number), "the images are not those of the question"
        if "tools" in body and len(messages) == 2:
            arguments = json.dumps({"query": f"item-{number} crews finished"})
            call = {"id": "c1", "type": "function"}
            calls = [{**call, "function": {"name": "search", "arguments": arguments}}]
            said = {"role": "assistant", "content": None, "tool_calls": calls}
            choices = [{"index": 0, "message": said, "finish_reason": "tool_calls"}]
            return await says(completion(choices=choices))(request)
        known = RULE in str(messages[0]["content"])
        return await says(completion(self.right[number] if known else "I do not know"))(request)


def _parts(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[bytes]]:
    user = next(message for message in messages if message["role"] == "user")["content"]
    if isinstance(user, str):
        return user, []
    text = "".join(part["text"] for part in user if part["type"] == "text")
    urls = [part["image_url"]["url"] for part in user if part["type"] == "image_url"]
    return text, [base64.b64decode(url.partition("base64,")[2]) for url in urls]


@dataclass
class Teacher:
    """An optimizer that proposes the rule."""

    asked: list[Request] = field(default_factory=list[Request])

    async def __call__(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=analysis(RULE) if request.stage == "analyst" else "{}")


def verdict_of(request: Request, right: str, wrong: str) -> str:
    """A judge that goes by whether the reference stands in the answer."""
    text = request.messages[-1].text
    blocks = dict(re.findall(r"<<([a-z ]+) \w{16}>>\n(.*?)\n<</", text, re.DOTALL))
    word = right if blocks["reference answer"] in blocks["answer to judge"] else wrong
    return json.dumps({"reason": "compared", "verdict": word})
