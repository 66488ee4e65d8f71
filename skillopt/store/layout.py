"""The names of all files in a run directory; no other module knows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class _Folder(Protocol):
    @property
    def root(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class _File:
    """A path within a folder, as an attribute of it."""

    name: str

    def __get__(self, folder: _Folder, kind: type | None = None) -> Path:
        return folder.root / self.name


@dataclass(frozen=True, slots=True)
class _Rollouts:
    """A folder of attempts within a folder, as an attribute of it."""

    name: str

    def __get__(self, folder: _Folder, kind: type | None = None) -> RolloutFolder:
        return RolloutFolder(folder.root / self.name)


@dataclass(frozen=True, slots=True)
class RolloutFolder:
    """Attempts at a set of tasks under one skill."""

    root: Path

    results = _File("results.jsonl")
    """One row per task."""
    summary = _File("summary.json")
    """Means by task type; written for exams."""

    def conversation(self, task: str) -> Path:
        """What was said in the attempt at a task."""
        return self.root / "predictions" / task / "conversation.json"

    def prompt(self, task: str, role: str) -> Path:
        """What the target was told first: as `system`, as `user`."""
        return self.root / "predictions" / task / f"target_{role}_prompt.txt"


@dataclass(frozen=True, slots=True)
class StepFolder:
    """What one step left."""

    root: Path

    record = _File("step_record.json")
    """The step's entry of the history."""
    merged = _File("merged_patch.json")
    """Proposals after aggregation."""
    ranked = _File("ranked_edits.json")
    """Proposals kept within the budget."""
    report = _File("edit_apply_report.json")
    """What became of each edit."""
    rate = _File("lr_decision.json")
    """How the learning rate was decided."""
    rewrite = _File("rewrite_result.json")
    """The body that was written from suggestions."""
    full_rewrite = _File("full_rewrite_result.json")
    """The body that was taken over whole."""
    digest = _File("trajectory_digest.json")
    """The step as later steps remember it."""

    def probe(self, task: str) -> Path:
        """How an attempt was looked into."""
        return self.root / "deep_reflect" / f"{task}.json"

    notes = _File("appendix_notes.json")
    """Reminders of the step, and what became of them."""
    candidate = _File("candidate_skill.md")
    """The skill that was tried."""
    race = _File("race.json")
    """How the candidate was chosen among several."""

    def rival(self, name: str) -> Path:
        """A candidate that was not put to the gate."""
        return self.root / "rivals" / f"{name.replace(' ', '_')}.md"

    selection = _Rollouts("selection_eval")
    """The candidate on the validation tasks."""

    def batch(self, index: int, of: int) -> Path:
        """Where a micro-batch has its files: the step's own folder when it is the only one."""
        return self.root / f"batch_{index}" if of > 1 else self.root

    def rollout(self, index: int, of: int) -> RolloutFolder:
        """The current skill on a micro-batch."""
        return RolloutFolder(self.batch(index, of) / "rollout")

    def patch(self, index: int, of: int, source: str, number: int) -> Path:
        """What one reflection concluded."""
        kind = "fail" if source == "failure" else "succ"
        return self.batch(index, of) / "patches" / f"minibatch_{kind}_{number:03d}.json"


@dataclass(frozen=True, slots=True)
class EpochFolder:
    """What the end of an epoch left: the slow update and the meta skill."""

    root: Path
    meta: Path

    slow_result = _File("slow_result.json")
    """The guidance and what became of it."""
    pairs = _File("comparison_pairs.json")
    """Each task that the optimizer was shown, under both skills."""
    all_pairs = _File("comparison_pairs_all.json")
    """Each task that was attempted under both skills, shown or not."""
    candidate = _File("candidate_skill.md")
    """The skill with its new guidance."""
    before = _Rollouts("rollout_prev")
    """The skill that the epoch started from, on the sample."""
    after = _Rollouts("rollout_curr")
    """The skill that the epoch ended with, on the sample."""
    selection = _Rollouts("selection_eval")
    """The candidate on the validation tasks."""

    @property
    def meta_result(self) -> Path:
        """The optimizer's lessons."""
        return self.meta / "meta_skill_result.json"


@dataclass(frozen=True, slots=True)
class CandidateFolder:
    """What a candidate left that came from no step: from meta reflection or pruning."""

    root: Path
    kind: str

    @property
    def result(self) -> Path:
        """How it came about and what became of it."""
        return self.root / f"{self.kind}_result.json"

    candidate = _File("candidate_skill.md")
    """The skill that was tried."""
    selection = _Rollouts("selection_eval")
    """The candidate on the validation tasks."""


def run_folders(folder: Path) -> list[Path]:
    """The folder itself or those up to two levels below it that hold a run, in order of name."""
    found = [path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}events.jsonl")]
    return sorted(path.parent for path in found)


@dataclass(frozen=True, slots=True)
class Layout:
    """A run directory."""

    root: Path

    events = _File("events.jsonl")
    """The record: the truth about the run."""
    cache = _File("cache.sqlite")
    """Finished work."""
    handoff = _File("handoff")
    """Questions for people or other agents, and their answers."""
    mark = _File(".skillopt")
    """Says that the folder is ours to write in."""
    lock = _File(".lock")
    """Held by the process that trains here."""
    progress = _File("progress.json")
    """How far the process is that trains here; gone when it has ended."""
    config = _File("config.json")
    """The settings of the latest start, flat and without secrets."""
    settings = _File("config.yaml")
    """The same settings in sections, ready to be used again."""
    best_among = _File("skills/best_skill.md")
    """The best skill so far, beside the others."""
    history = _File("history.json")
    """All step records."""
    rates = _File("lr_history.jsonl")
    """Every learning rate that was decided, one per line."""
    runtime_state = _File("runtime_state.json")
    """Where the run stands."""
    summary = _File("summary.json")
    """What came out so far."""
    best_skill = _File("best_skill.md")
    """The best skill so far."""
    attribution = _File("attribution.json")
    """What each rule of the best skill is worth, once that was asked for."""
    evaluation = _File("eval_summary.json")
    """What a skill scored that was evaluated here, without training."""
    places = _File("item_places.json")
    """Where items without an id of the user's stand: id -> file and line."""

    def skill(self, step: int) -> Path:
        """The current skill after a step; step 0 is the initial skill."""
        return self.root / "skills" / f"skill_v{step:04d}.md"

    def step(self, number: int) -> StepFolder:
        """The folder of a step."""
        return StepFolder(self.root / "steps" / f"step_{number:04d}")

    def epoch(self, number: int) -> EpochFolder:
        """The folders of an epoch's end."""
        name = f"epoch_{number:02d}"
        return EpochFolder(self.root / "slow_update" / name, self.root / "meta_skill" / name)

    def meta_reflect(self, epoch: int) -> CandidateFolder:
        """The folder of an epoch's meta reflection."""
        return CandidateFolder(self.root / "meta_reflect" / f"epoch_{epoch:02d}", "meta_reflect")

    def prune(self, epoch: int) -> CandidateFolder:
        """The folder of an epoch's pruning."""
        return CandidateFolder(self.root / "prune" / f"epoch_{epoch:02d}", "prune")

    baseline = _Rollouts("selection_eval_baseline")
    """The initial skill on the validation tasks."""
    final_selection = _Rollouts("final_selection_eval")
    """The last skill on the validation tasks, once the final test is over."""
    final_test_initial = _Rollouts("test_eval_baseline")
    """The initial skill on the test tasks."""
    final_test_best = _Rollouts("test_eval")
    """The best skill on the test tasks."""
    final_test_last = _Rollouts("test_eval_final")
    """The last skill on the test tasks."""
