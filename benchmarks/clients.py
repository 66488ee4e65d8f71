"""What is compared: each client evaluates one skill on the items of a folder, and ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

HERE = Path(__file__).parent
PEER = "skillopt==0.2.0"
MODEL = "simulated-target"

# The wheel of 0.2.0 comes without its prompt files, and no rollout runs without this one.
_PEER_PROMPT = """\
You answer trivia clues. A clue describes a person, place, thing or phrase; name it. You are given
snippets from web searches, of which some help and some mislead.

{skill_section}

End your reply with the answer alone, in this form: <answer>your answer</answer>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One evaluation."""

    url: str
    split_dir: Path
    skill: Path
    workers: int
    out: Path
    """A folder that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    """What the process finds in its environment beyond the usual."""


class Client(Protocol):
    """A way to evaluate."""

    @property
    def name(self) -> str: ...

    def command(self, job: Job) -> Command:
        """The command that does the job."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """This package, by command line or from Python."""

    name: str
    start: tuple[str, ...]
    end: tuple[str, ...] = ()

    def command(self, job: Job) -> Command:
        config = job.out.with_suffix(".yaml")
        config.write_text(
            "model:\n"
            "  backend: openai_compatible\n"
            f"  target: {MODEL}\n"
            f"  base_url: {job.url}\n" + _env_section(job),
            encoding="utf-8",
        )
        return Command((sys.executable, *self.start, str(config), *self.end, str(job.skill)), {})


@dataclass(frozen=True, slots=True)
class Peer:
    """Version 0.2.0 from PyPI, in an environment of its own."""

    folder: Path
    name: str = PEER

    def command(self, job: Job) -> Command:
        config = job.out.with_suffix(".yaml")
        config.write_text(f"model:\n  target: {MODEL}\n" + _env_section(job), encoding="utf-8")
        argv = (str(self.folder / "bin" / "skillopt-eval"), "--config", str(config))
        return Command(
            (*argv, "--skill", str(job.skill), "--split", "valid_unseen"),
            {
                "AZURE_OPENAI_AUTH_MODE": "openai_compatible",
                "AZURE_OPENAI_ENDPOINT": job.url,
                "AZURE_OPENAI_API_KEY": "unused",
            },
        )


@dataclass(frozen=True, slots=True)
class Bare:
    """Nothing but the requests."""

    name: str = "bare aiohttp client"

    def command(self, job: Job) -> Command:
        items = job.split_dir / "test" / "items.json"
        script = str(HERE / "bare_client.py")
        argv = (sys.executable, script, job.url, str(items), str(job.skill), str(job.workers))
        return Command(argv, {})


def _env_section(job: Job) -> str:
    return (
        "env:\n"
        "  name: searchqa\n"
        "  split_mode: split_dir\n"
        f"  split_dir: {job.split_dir}\n"
        f"  workers: {job.workers}\n"
        "  max_turns: 1\n"
        f"  out_root: {job.out}\n"
    )


OURS: tuple[Client, ...] = (
    Ours("skillopt eval", ("-m", "skillopt", "eval"), ("--split", "test", "--skill")),
    Ours("skillopt.evaluate()", (str(HERE / "api_client.py"),)),
)


def install_peer(folder: Path) -> Peer:
    """The peer, installed into `folder` unless it is there already."""
    python = folder / "bin" / "python"
    if not (folder / "bin" / "skillopt-eval").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([str(python), "-c", ask], check=True, capture_output=True, text=True)
    packages = Path(found.stdout.strip())
    prompt = packages / "skillopt" / "envs" / "searchqa" / "prompts" / "rollout_system.md"
    if not prompt.exists():
        prompt.parent.mkdir(exist_ok=True)
        prompt.write_text(_PEER_PROMPT, encoding="utf-8")
    return Peer(folder)
