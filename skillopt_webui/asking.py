"""Answers one question about a configuration, in a process of its own, as JSON.

A configuration may name code of the user, which has no place in the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from skillopt.api import check_async, doctor_async, estimate_async
from skillopt.app.costs import CALLS_FACTOR, TOKENS_FACTOR, Estimate
from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.costs import Range
from skillopt.errors import SkilloptError


def main() -> None:
    """Read the question from standard input, write the answer to standard output."""
    question = cast("Mapping[str, object]", json.load(sys.stdin))
    given = question.get("config")
    path = Path(str(given)) if given else None
    secrets = Secrets.load(project=path.parent if path else None)
    try:
        overrides = cast("Sequence[str]", question.get("overrides", ()))
        config = load_config(path, overrides=overrides)
        answer = asyncio.run(_answer(str(question["what"]), config, secrets))
    except SkilloptError as error:
        answer = {"error": str(error)}
    sys.stdout.write(secrets.redact(json.dumps(answer, ensure_ascii=False)))


async def _answer(what: str, config: Config, secrets: Secrets) -> dict[str, object]:
    match what:
        case "estimate":
            return _estimated(await estimate_async(config, secrets=secrets))
        case "check":
            checks = await check_async(config, secrets=secrets)
            return {
                "findings": [
                    {
                        "name": each.check,
                        "verdict": each.verdict,
                        "found": each.found,
                        "advice": each.advice,
                        "examples": each.examples,
                    }
                    for each in checks
                ]
            }
        case _:
            found = await doctor_async(config, secrets=secrets)
            return {
                "findings": [
                    {
                        "name": each.what,
                        "verdict": each.state,
                        "found": each.found,
                        "advice": each.advice,
                        "examples": (),
                    }
                    for each in found
                ]
            }


def _estimated(costs: Estimate) -> dict[str, object]:
    dollars = costs.dollars
    return {
        "calls": _range(costs.calls.likely(CALLS_FACTOR)),
        "tokens": _range(costs.tokens.likely(TOKENS_FACTOR)),
        "seconds": _range(costs.seconds.likely(TOKENS_FACTOR)),
        "dollars": None if dollars is None else _range(dollars.likely(TOKENS_FACTOR)),
        "unpriced": costs.unpriced,
        "warnings": costs.warnings,
        "roles": [
            {
                "role": line.role,
                "calls": _range(line.calls.likely(CALLS_FACTOR)),
                "input": _range(line.input.likely(TOKENS_FACTOR)),
                "output": _range(line.output.likely(TOKENS_FACTOR)),
                "dollars": None
                if (paid := costs.cost(line)) is None
                else _range(paid.likely(TOKENS_FACTOR)),
            }
            for line in costs.roles
        ],
    }


def _range(found: Range) -> dict[str, float]:
    return {"low": found.low, "high": found.high, "expected": found.expected}


if __name__ == "__main__":
    main()
