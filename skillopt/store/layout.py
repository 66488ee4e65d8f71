"""The names of all files in a run directory; no other module knows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RolloutFolder:
    """Attempts at a set of tasks under one skill."""

    root: Path

    @property
    def results(self) -> Path:
        """One row per task."""
        return self.root / "results.jsonl"

    @property
    def summary(self) -> Path:
        """Means by task type; written for exams."""
        return self.root / "summary.json"

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

    @property
    def record(self) -> Path:
        """The step's entry of the history."""
        return self.root / "step_record.json"

    @property
    def merged(self) -> Path:
        """Proposals after aggregation."""
        return self.root / "merged_patch.json"

    @property
    def ranked(self) -> Path:
        """Proposals kept within the budget."""
        return self.root / "ranked_edits.json"

    @property
    def report(self) -> Path:
        """What became of each edit."""
        return self.root / "edit_apply_report.json"

    @property
    def rate(self) -> Path:
        """How the learning rate was decided."""
        return self.root / "lr_decision.json"

    @property
    def rewrite(self) -> Path:
        """The body that was written from suggestions."""
        return self.root / "rewrite_result.json"

    @property
    def full_rewrite(self) -> Path:
        """The body that was taken over whole."""
        return self.root / "full_rewrite_result.json"

    @property
    def digest(self) -> Path:
        """The step as later steps remember it."""
        return self.root / "trajectory_digest.json"

    def probe(self, task: str) -> Path:
        """How an attempt was looked into."""
        return self.root / "deep_reflect" / f"{task}.json"

    @property
    def notes(self) -> Path:
        """Reminders of the step, and what became of them."""
        return self.root / "appendix_notes.json"

    @property
    def candidate(self) -> Path:
        """The skill that was tried."""
        return self.root / "candidate_skill.md"

    @property
    def race(self) -> Path:
        """How the candidate was chosen among several."""
        return self.root / "race.json"

    def rival(self, name: str) -> Path:
        """A candidate that was not put to the gate."""
        return self.root / "rivals" / f"{name.replace(' ', '_')}.md"

    @property
    def selection(self) -> RolloutFolder:
        """The candidate on the validation tasks."""
        return RolloutFolder(self.root / "selection_eval")

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

    slow: Path
    meta: Path

    @property
    def slow_result(self) -> Path:
        """The guidance and what became of it."""
        return self.slow / "slow_result.json"

    @property
    def pairs(self) -> Path:
        """Each task that the optimizer was shown, under both skills."""
        return self.slow / "comparison_pairs.json"

    @property
    def all_pairs(self) -> Path:
        """Each task that was attempted under both skills, shown or not."""
        return self.slow / "comparison_pairs_all.json"

    @property
    def candidate(self) -> Path:
        """The skill with its new guidance."""
        return self.slow / "candidate_skill.md"

    @property
    def before(self) -> RolloutFolder:
        """The skill that the epoch started from, on the sample."""
        return RolloutFolder(self.slow / "rollout_prev")

    @property
    def after(self) -> RolloutFolder:
        """The skill that the epoch ended with, on the sample."""
        return RolloutFolder(self.slow / "rollout_curr")

    @property
    def selection(self) -> RolloutFolder:
        """The candidate on the validation tasks."""
        return RolloutFolder(self.slow / "selection_eval")

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

    @property
    def candidate(self) -> Path:
        """The skill that was tried."""
        return self.root / "candidate_skill.md"

    @property
    def selection(self) -> RolloutFolder:
        """The candidate on the validation tasks."""
        return RolloutFolder(self.root / "selection_eval")


def run_folders(folder: Path) -> list[Path]:
    """The folder itself or those up to two levels below it that hold a run, in order of name."""
    found = [path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}events.jsonl")]
    return sorted(path.parent for path in found)


@dataclass(frozen=True, slots=True)
class Layout:
    """A run directory."""

    root: Path

    @property
    def events(self) -> Path:
        """The record: the truth about the run."""
        return self.root / "events.jsonl"

    @property
    def cache(self) -> Path:
        """Finished work."""
        return self.root / "cache.sqlite"

    @property
    def handoff(self) -> Path:
        """Questions for people or other agents, and their answers."""
        return self.root / "handoff"

    @property
    def mark(self) -> Path:
        """Says that the folder is ours to write in."""
        return self.root / ".skillopt"

    @property
    def lock(self) -> Path:
        """Held by the process that trains here."""
        return self.root / ".lock"

    @property
    def progress(self) -> Path:
        """How far the process is that trains here; gone when it has ended."""
        return self.root / "progress.json"

    @property
    def config(self) -> Path:
        """The settings of the latest start, flat and without secrets."""
        return self.root / "config.json"

    @property
    def settings(self) -> Path:
        """The same settings in sections, ready to be used again."""
        return self.root / "config.yaml"

    @property
    def best_among(self) -> Path:
        """The best skill so far, beside the others."""
        return self.root / "skills" / "best_skill.md"

    @property
    def history(self) -> Path:
        """All step records."""
        return self.root / "history.json"

    @property
    def rates(self) -> Path:
        """Every learning rate that was decided, one per line."""
        return self.root / "lr_history.jsonl"

    @property
    def runtime_state(self) -> Path:
        """Where the run stands."""
        return self.root / "runtime_state.json"

    @property
    def summary(self) -> Path:
        """What came out so far."""
        return self.root / "summary.json"

    @property
    def best_skill(self) -> Path:
        """The best skill so far."""
        return self.root / "best_skill.md"

    @property
    def attribution(self) -> Path:
        """What each rule of the best skill is worth, once that was asked for."""
        return self.root / "attribution.json"

    @property
    def evaluation(self) -> Path:
        """What a skill scored that was evaluated here, without training."""
        return self.root / "eval_summary.json"

    @property
    def places(self) -> Path:
        """Where items without an id of the user's stand: id -> file and line."""
        return self.root / "item_places.json"

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

    @property
    def baseline(self) -> RolloutFolder:
        """The initial skill on the validation tasks."""
        return RolloutFolder(self.root / "selection_eval_baseline")

    @property
    def final_selection(self) -> RolloutFolder:
        """The last skill on the validation tasks, once the exam is over."""
        return RolloutFolder(self.root / "final_selection_eval")

    @property
    def exam_initial(self) -> RolloutFolder:
        """The initial skill on the test tasks."""
        return RolloutFolder(self.root / "test_eval_baseline")

    @property
    def exam_best(self) -> RolloutFolder:
        """The best skill on the test tasks."""
        return RolloutFolder(self.root / "test_eval")

    @property
    def exam_last(self) -> RolloutFolder:
        """The last skill on the test tasks."""
        return RolloutFolder(self.root / "test_eval_final")
