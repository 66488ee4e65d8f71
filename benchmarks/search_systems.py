"""The trainers that search.py compares: how each is installed, started, and where its skill is."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from worlds import World

HERE = Path(__file__).parent
ORIGINAL = "skillopt==0.2.0"
GEPA = "gepa==0.1.4"
BATCH, EPOCHS, SLOW_SAMPLES = 40, 4, 20
"""The defaults of the published protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training run."""

    world: World
    url: str
    data: Path
    skill: Path
    folder: Path
    """A new folder for everything that the run writes."""
    seed: int
    budget: int
    """Target calls on train and val tasks; 0: as many as the trainer makes by default."""
    workers: int = 8

    @property
    def metric(self) -> str:
        return "soft" if self.world.graded else "hard"

    @property
    def epochs(self) -> int:
        """Epochs of the published protocol that use up the budget."""
        train, val, _ = self.world.sizes
        epoch = train + math.ceil(train / BATCH) * val
        return max(1, math.ceil((self.budget - val) / epoch))


def protocol_calls(world: World) -> int:
    """What the published protocol costs on train and val with its defaults."""
    train, val, _ = world.sizes
    steps = EPOCHS * math.ceil(train / BATCH)
    return val * (steps + 2) + train * EPOCHS + 2 * SLOW_SAMPLES * (EPOCHS - 1)


class System(Protocol):
    """A trainer."""

    @property
    def name(self) -> str: ...

    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        """What to start, and what it finds in its environment."""
        ...

    def result(self, job: Job) -> Path:
        """Where the best skill is, once there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """This package by its command line, with settings as a user would give them."""

    name: str = "ours"
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        config: dict[str, dict[str, object]] = {
            "model": {
                "backend": "openai_compatible",
                "base_url": job.url,
                "target": "world-target",
                "optimizer": "world-optimizer",
            },
            "train": {"seed": job.seed},
            "evaluation": {},
            "env": {
                "name": "custom",
                "split_mode": "split_dir",
                "split_dir": str(job.data),
                "skill_init": str(job.skill),
                "input": "question",
                "answer": "answers",
                "workers": job.workers,
                "out_root": str(job.folder / "out"),
            },
        }
        if job.world.graded:
            config["env"]["scorer"] = "f1"
            config["evaluation"]["gate_metric"] = "soft"
        if job.budget:
            config["limits"] = {"calls": job.budget}
            config["evaluation"]["eval_test"] = False
        path = job.folder / "config.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        changes = [f"{key}={value}" for key, value in self.settings.items()]
        argv = [sys.executable, "-m", "skillopt", "train", str(path), *changes]
        return argv, {"PYTHONPATH": str(HERE.parent)}

    def result(self, job: Job) -> Path:
        return job.folder / "out" / "best_skill.md"


@dataclass(frozen=True, slots=True)
class Original:
    """Version 0.2.0 from PyPI, in an environment of its own, with the defaults of its protocol."""

    venv: Path
    name: str = "original"

    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        config = {
            "model": {
                "backend": "azure_openai",
                "optimizer_backend": "openai_chat",
                "target_backend": "openai_chat",
                "target": "world-target",
                "optimizer": "world-optimizer",
                "reasoning_effort": "medium",
            },
            "train": {
                "num_epochs": job.epochs if job.budget else EPOCHS,
                "train_size": 0,
                "batch_size": BATCH,
                "accumulation": 1,
                "seed": job.seed,
            },
            "gradient": {
                "minibatch_size": 8,
                "merge_batch_size": 8,
                "analyst_workers": 16,
                "failure_only": False,
            },
            "optimizer": {
                "learning_rate": 4,
                "min_learning_rate": 2,
                "lr_scheduler": "cosine",
                "lr_control_mode": "fixed",
                "skill_update_mode": "patch",
                "use_slow_update": True,
                "slow_update_samples": SLOW_SAMPLES,
                "longitudinal_pair_policy": "mixed",
                "use_meta_skill": True,
            },
            "evaluation": {
                "use_gate": True,
                "sel_env_num": 0,
                "test_env_num": 0,
                "eval_test": not job.budget,
                "gate_metric": job.metric,
            },
            "env": {
                "name": "searchqa",
                "split_mode": "split_dir",
                "split_dir": str(job.data),
                "skill_init": str(job.skill),
                "workers": job.workers,
                "max_turns": 1,
                "limit": 0,
                "exec_timeout": 120,
                "out_root": str(job.folder / "out"),
            },
        }
        path = job.folder / "config.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        variables = {
            "AZURE_OPENAI_AUTH_MODE": "openai_compatible",
            "AZURE_OPENAI_ENDPOINT": job.url,
            "AZURE_OPENAI_API_KEY": "unused",
        }
        return [str(self.venv / "bin" / "skillopt-train"), "--config", str(path)], variables

    def result(self, job: Job) -> Path:
        return job.folder / "out" / "best_skill.md"


@dataclass(frozen=True, slots=True)
class Gepa:
    """gepa with its defaults; it has none for the number of calls, so it gets the protocol's."""

    venv: Path
    name: str = "gepa"

    def command(self, job: Job) -> tuple[list[str], Mapping[str, str]]:
        calls = job.budget or protocol_calls(job.world)
        argv = [job.url, job.data, job.skill, self.result(job), calls, job.seed, job.metric]
        python = self.venv / "bin" / "python"
        return [str(python), str(HERE / "gepa_client.py"), *map(str, argv)], {}

    def result(self, job: Job) -> Path:
        return job.folder / "best_skill.md"


def install_original(venvs: Path) -> Original:
    """The wheel lacks its prompts; ours name the form of each reply, which is all that is read."""
    venv = _install(ORIGINAL, venvs)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = str(venv / "bin" / "python")
    found = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True)
    package = Path(found.stdout.strip()) / "skillopt"
    rollout = package / "envs" / "searchqa" / "prompts" / "rollout_system.md"
    rollout.parent.mkdir(exist_ok=True)
    rollout.write_text("{skill_section}\n", encoding="utf-8")
    for name, form in _PROMPTS.items():
        (package / "prompts" / f"{name}.md").write_text(f"Reply with JSON: {form}\n", "utf-8")
    return Original(venv)


def install_gepa(venvs: Path) -> Gepa:
    return Gepa(_install(GEPA, venvs))


_EDITS = '{"reasoning": "", "edits": [{"op": "", "target": "", "content": ""}]}'
_PATCH = '{"batch_size": 0, "failure_summary": [], "patch": ' + _EDITS + "}"
_PROMPTS = {
    "analyst_error": _PATCH,
    "analyst_success": _PATCH,
    "merge_failure": _EDITS,
    "merge_success": _EDITS,
    "merge_final": _EDITS,
    "ranking": '{"reasoning": "", "selected_indices": []}',
    "slow_update": '{"reasoning": "", "slow_update_content": ""}',
    "meta_skill": '{"reasoning": "", "meta_skill_content": ""}',
}


def _install(requirement: str, venvs: Path) -> Path:
    venv = venvs / f"search-{requirement.replace('==', '-')}"
    if not (venv / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-qq", requirement]
        subprocess.run(pip, check=True)
        (venv / "installed").touch()
    return venv
