"""The minimum: a bare aiohttp client that sends the same requests, scores and stores nothing."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp

SYSTEM = """\
You answer trivia clues. A clue describes a person, place, thing or phrase; name it. You are given
snippets from web searches, of which some help and some mislead.

## Skill
{skill}

End your reply with the answer alone, in this form: <answer>your answer</answer>"""


async def ask_all(url: str, items: list[Mapping[str, str]], skill: str, workers: int) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        queue = iter(items)
        await asyncio.gather(*(_worker(session, url, queue, skill) for _ in range(workers)))


async def _worker(
    session: aiohttp.ClientSession, url: str, queue: Iterator[Mapping[str, str]], skill: str
) -> None:
    for item in queue:
        body = {
            "model": "simulated-target",
            "messages": [
                {"role": "system", "content": SYSTEM.format(skill=skill)},
                {
                    "role": "user",
                    "content": f"## Context\n{item['context']}\n\n## Question\n{item['question']}",
                },
            ],
        }
        async with session.post(f"{url}/chat/completions", json=body) as response:
            response.raise_for_status()
            reply = json.loads(await response.read())
            if not reply["choices"][0]["message"]["content"]:
                raise ValueError("an empty answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("items", type=Path)
    parser.add_argument("skill", type=Path)
    parser.add_argument("workers", type=int)
    options = parser.parse_args()
    items = json.loads(options.items.read_bytes())
    asyncio.run(ask_all(options.url, items, options.skill.read_text("utf-8"), options.workers))


if __name__ == "__main__":
    main()
