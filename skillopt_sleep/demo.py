"""`skillopt-sleep demo`: a first night on sample sessions, in a home of its own, offline.

The simulated model knows nothing of the shop: it writes what the sessions' agent wrote, and heeds
the rules that it is shown, nearly always. The simulated optimizer writes down as rules what failed
attempts were told. Neither says anything about a real model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from skillopt.core.chat import Reply, Request, Usage
from skillopt.errors import StoreError
from skillopt.store.files import write_atomic
from skillopt_sleep.models import NightModels
from skillopt_sleep.planning import Bench
from skillopt_sleep.settings import Settings

SMALLEST: Final = "qwen2.5-coder-0.5b"
"""The embedded model with which the demo is over soonest."""
TIME: Final = "That takes minutes on idle cores, and much longer on a busy machine."
_SHORT: Final[Mapping[str, Any]] = {
    "backend": "local",
    "max_tasks": 12,
    "val_fraction": 0.45,
    "edit_budget": 2,
    "replicates": 1,
    "evolve_memory": False,
    "progress": True,
}
"""As little as can still be decided: seven held-out tasks that get better prove something."""
_FORGETS: Final = 0.04
"""How often the simulated model overlooks a rule."""
_CHECKS: Final = re.compile(r"(does not contain|contains) '([^'\n]+)'")
_SAID: Final = re.compile(r"^- (Include|Never write) `([^`\n]+)`", re.MULTILINE)
_GIVEN: Final = re.compile(r"^<feedback>.*$|^\[feedback\].*$|not met: .*$", re.MULTILINE)


@contextmanager
def demo_place(out: Path | None) -> Generator[Path, None, None]:
    """A new folder; without a name, one that is gone in the end.

    Raises:
        StoreError: There is something in it, or it cannot be made.
    """
    if out is None:
        # Its name must not be one by which sessions of our own are known.
        with TemporaryDirectory(prefix="sleep-demo-") as folder:
            yield Path(folder)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise StoreError(f"{out} contains other files; choose a new folder with --out")
    except OSError as error:
        raise StoreError(
            f"{out} cannot be used: {error.strerror}; choose a new folder with --out"
        ) from None
    yield out.resolve()


def demo_night(
    place: Path, *, real: bool = False, model: str = "", now: datetime | None = None
) -> tuple[Settings, Bench]:
    """The settings of the demo, with its sessions written as Claude Code writes them."""
    project, home = place / "bakery", place / "home"
    project.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    now = now or datetime.now(timezone.utc)
    _write_sessions(project, home / ".claude", now)
    settings = Settings(
        project=project,
        source="claude",
        claude_home=home / ".claude",
        state_dir=home / ".skillopt-sleep",
        agent="claude",
        llm_mine=False,
        lookback_hours=0,
        slow_update=False,
        backend="simulated",
        max_tokens_per_night=0,
    )
    if real:
        short = {**_SHORT, "model": model or SMALLEST}
        return settings.model_copy(update=short), Bench(home=home)
    models = NightModels(target=simulated_target, optimizer=simulated_optimizer)
    return settings, Bench(home=home, models=models, simulated=True)


def _write_sessions(project: Path, claude: Path, now: datetime) -> None:
    """One file for each session, all of them of the last day."""
    text = files("skillopt_sleep.samples").joinpath("sessions.jsonl").read_text(encoding="utf-8")
    sessions: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        record: dict[str, Any] = json.loads(line)
        sessions.setdefault(record["sessionId"], []).append(record)
    last = max(record["timestamp"] for records in sessions.values() for record in records)
    # Claude Code names the folder of a project after its path.
    folder = claude / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(project))
    for name, records in sessions.items():
        lines: list[str] = []
        for record in records:
            at = now - timedelta(minutes=last - record["timestamp"] + 10)
            moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            lines.append(json.dumps({**record, "cwd": str(project), "timestamp": moment}))
        write_atomic(folder / f"{name}.jsonl", "\n".join(lines) + "\n", durable=False)


def simulated_target(request: Request) -> Reply:
    """Writes what the sessions' agent wrote, and heeds the rules in its instructions."""
    told = "\n".join(message.text for message in request.messages if message.role == "system")
    asked = request.messages[-1].text
    text = _first_answers().get(_request_in(asked), "Here is the text.")
    for verb, literal in _SAID.findall(told):
        if _draw(told, asked, literal, request.replicate) < _FORGETS:
            continue
        if verb == "Include":
            text = text if literal in text else f"{text}\n{literal}"
        else:
            text = re.sub(rf"\s*{re.escape(literal)}", "", text, flags=re.IGNORECASE)
    return _reply(request, text)


def simulated_optimizer(request: Request) -> Reply:
    """Makes a rule of everything that failed attempts were told, the most frequent first."""
    asked = request.messages[-1].text
    counts: dict[tuple[str, str], int] = {}
    for verb, literal in _CHECKS.findall("\n".join(_GIVEN.findall(asked))):
        rule = ("Include" if verb == "contains" else "Never write", literal)
        counts[rule] = counts.get(rule, 0) + 1
    known = set(_SAID.findall(asked))
    new = sorted((rule for rule in counts if rule not in known), key=lambda rule: -counts[rule])
    edits: list[dict[str, object]] = [
        {
            "op": "append",
            "target": "",
            "content": f"- {verb} `{literal}` in texts for this shop.",
            "why": f"{counts[verb, literal]} attempts were told so",
            "tasks": [],
        }
        for verb, literal in new
    ]
    answer: dict[str, object] = {
        "reasoning": "what attempts were told",
        "patterns": [],
        "edits": edits,
    }
    return _reply(request, json.dumps(answer, ensure_ascii=False))


def _first_answers() -> dict[str, str]:
    """What the agent of the sample sessions answered first, by request."""
    text = files("skillopt_sleep.samples").joinpath("sessions.jsonl").read_text(encoding="utf-8")
    answers: dict[str, str] = {}
    asked: dict[str, str] = {}
    for line in text.splitlines():
        record: dict[str, Any] = json.loads(line)
        session, content = record["sessionId"], record["message"]["content"]
        if isinstance(content, str):
            asked.setdefault(session, content)
        else:
            answers.setdefault(asked[session], content[0]["text"])
    return answers


def _request_in(text: str) -> str:
    return text.rpartition("## Request\n\n")[2].strip()


def _draw(*parts: object) -> float:
    """A number from 0 to 1 that depends on these alone."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _reply(request: Request, text: str) -> Reply:
    given = sum(len(message.text) for message in request.messages)
    return Reply(text=text, usage=Usage(1, given // 4 + 1, len(text) // 4 + 1))
