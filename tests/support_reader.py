"""A script as users of the original have them: reads a run directory with nothing but `json`.

It knows the original's files and keys (tables below), nothing of ours, and complains about each
file that is absent and each key that is absent or of another type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

NUMBER, TEXT, LIST, OBJECT, SWITCH = "number", "text", "list", "object", "switch"
ANY = "any"
Fields: TypeAlias = dict[str, object]

TIMING = dict.fromkeys(
    ["rollout_s", "reflect_s", "aggregate_s", "select_s", "update_s", "evaluate_s"], NUMBER
)
USAGE = dict.fromkeys(["calls", "prompt_tokens", "completion_tokens"], NUMBER)
STEP: dict[str, Any] = {
    "step": NUMBER,
    "epoch": NUMBER,
    "step_in_epoch": NUMBER,
    "timing": TIMING,
    "tokens": {"analyst": USAGE, "rollout": USAGE},
    "rollout_hard": NUMBER,
    "rollout_soft": NUMBER,
    "rollout_n": NUMBER,
    "accumulation_batches": [
        {
            "batch_idx": NUMBER,
            "batch_seed": NUMBER,
            "n_envs": NUMBER,
            "hard": NUMBER,
            "soft": NUMBER,
            "n_failure_patches": NUMBER,
            "n_success_patches": NUMBER,
        }
    ],
    "n_patches": NUMBER,
    "n_failure_patches": NUMBER,
    "n_success_patches": NUMBER,
    "n_edits_merged": NUMBER,
    "n_edits_ranked": NUMBER,
    "edit_budget": NUMBER,
    "lr_control_mode": TEXT,
    "support_counts": [NUMBER],
    "candidate_hash": TEXT,
    "candidate_skill_len": NUMBER,
    "edit_apply_summary": dict.fromkeys(["total", "applied", "skipped", "errors"], NUMBER),
    "selection_hard": NUMBER,
    "selection_soft": NUMBER,
    "gate_metric": TEXT,
    "candidate_gate_score": NUMBER,
    "action": TEXT,
    "current_score": NUMBER,
    "best_score": NUMBER,
    "best_step": NUMBER,
    "current_origin": TEXT,
    "best_origin": TEXT,
    "skill_len": NUMBER,
    "wall_time_s": NUMBER,
}
CONFIG: dict[str, Any] = {
    **dict.fromkeys(
        [
            "model_backend",
            "optimizer_model",
            "target_model",
            "optimizer_backend",
            "target_backend",
            "reasoning_effort",
            "codex_exec_path",
            "codex_exec_sandbox",
            "claude_code_exec_path",
            "cursor_exec_path",
            "azure_openai_endpoint",
            "azure_openai_api_version",
            "azure_openai_api_key",
            "lr_scheduler",
            "lr_control_mode",
            "skill_update_mode",
            "longitudinal_pair_policy",
            "env",
            "skill_init",
            "out_root",
            "split_mode",
            "split_dir",
        ],
        TEXT,
    ),
    **dict.fromkeys(
        [
            "num_epochs",
            "train_size",
            "batch_size",
            "accumulation",
            "seed",
            "minibatch_size",
            "merge_batch_size",
            "analyst_workers",
            "edit_budget",
            "min_edit_budget",
            "slow_update_samples",
            "sel_env_num",
            "test_env_num",
            "max_turns",
            "workers",
            "steps_per_epoch",
            "batches_per_epoch",
            "samples_per_epoch",
        ],
        NUMBER,
    ),
    **dict.fromkeys(
        [
            "failure_only",
            "use_slow_update",
            "slow_update_gate_with_selection",
            "use_meta_skill",
            "use_gate",
            "eval_test",
            "codex_trace_to_optimizer",
        ],
        SWITCH,
    ),
}
ROW = {
    **dict.fromkeys(["id", "question", "predicted_answer", "response", "fail_reason"], TEXT),
    **dict.fromkeys(["em", "f1", "sub_em", "hard", "soft", "n_turns"], NUMBER),
    "gold_answers": [TEXT],
    "agent_ok": SWITCH,
}
SIDE = {"hard": NUMBER, "soft": NUMBER, "predicted_answer": TEXT, "fail_reason": TEXT}
EDIT = {
    "op": TEXT,
    "content": TEXT,
    "source_type": TEXT,
    "support_count": NUMBER,
    "merge_level": NUMBER,
}
PATCH = {"batch_size": NUMBER, "source_type": TEXT, "patch": {"reasoning": TEXT, "edits": LIST}}
TALK = [{"type": TEXT, "turn": NUMBER, "content": TEXT}]
SUMMARY: dict[str, Any] = {
    "version": TEXT,
    "config": CONFIG,
    **dict.fromkeys(
        [
            "baseline_selection_hard",
            "best_selection_hard",
            "final_selection_hard",
            "final_selection_soft",
            "best_step",
            "total_steps",
            "total_accepts",
            "total_rejects",
            "total_skips",
            "baseline_test_hard",
            "baseline_test_soft",
            "test_hard",
            "test_soft",
            "final_test_hard",
            "final_test_soft",
            "test_delta_hard",
            "final_test_delta_hard",
            "total_wall_time_s",
        ],
        NUMBER,
    ),
    "current_origin": TEXT,
    "best_origin": TEXT,
    "epoch_stats": [
        {
            "epoch": NUMBER,
            "steps": [NUMBER],
            "accepts": NUMBER,
            "rejects": NUMBER,
            "skips": NUMBER,
            "best_score_at_epoch_end": NUMBER,
            "current_score_at_epoch_end": NUMBER,
        }
    ],
    "token_summary": {
        stage: {**USAGE, "total_tokens": NUMBER}
        for stage in ("analyst", "rollout", "slow_update", "_total")
    },
}
ROLLOUTS = (
    "selection_eval_baseline",
    "final_selection_eval",
    "steps/step_N/rollout",
    "steps/step_N/selection_eval",
    "slow_update/epoch_N/rollout_prev",
    "slow_update/epoch_N/rollout_curr",
    "test_eval_baseline",
    "test_eval",
    "test_eval_final",
)
FILES: dict[str, Any] = {
    "best_skill.md": TEXT,
    "config.yaml": TEXT,
    "skills/best_skill.md": TEXT,
    "skills/skill_v_N.md": TEXT,
    "config.json": CONFIG,
    "summary.json": SUMMARY,
    "history.json": [STEP],
    "runtime_state.json": {
        "last_completed_step": NUMBER,
        "current_skill_path": TEXT,
        "current_score": NUMBER,
        "current_origin": TEXT,
        "best_skill_path": TEXT,
        "best_score": NUMBER,
        "best_step": NUMBER,
        "best_origin": TEXT,
    },
    "steps/step_N/step_record.json": STEP,
    "steps/step_N/candidate_skill.md": TEXT,
    "steps/step_N/edit_apply_report.json": [
        {"index": NUMBER, "op": TEXT, "target": TEXT, "content_preview": TEXT, "status": TEXT}
    ],
    "steps/step_N/merged_patch.json": {"reasoning": TEXT, "edits": [EDIT]},
    "steps/step_N/ranked_edits.json": {"reasoning": TEXT, "edits": [EDIT]},
    "steps/step_N/patches/minibatch_fail_N.json": {**PATCH, "failure_summary": LIST},
    "steps/step_N/patches/minibatch_succ_N.json": {**PATCH, "success_patterns": LIST},
    "steps/step_N/trajectory_digest.json": {
        "step": NUMBER,
        "action": TEXT,
        "n_total": NUMBER,
        "n_fail": NUMBER,
        "failure_patterns": [{"pattern": TEXT, "count": NUMBER, "task_ids": [TEXT]}],
    },
    "slow_update/epoch_N/slow_result.json": {"action": TEXT, "epoch": NUMBER},
    "slow_update/epoch_N/candidate_skill.md": TEXT,
    "slow_update/epoch_N/comparison_pairs.json": [
        {"id": TEXT, "task": TEXT, "category": TEXT, "prev": SIDE, "curr": SIDE}
    ],
    "meta_skill/epoch_N/meta_skill_result.json": {"action": TEXT, "epoch": NUMBER},
    "test_eval/summary.json": {"overall": {"total": NUMBER, "hard_acc": NUMBER}},
    **{f"{folder}/results.jsonl": ["one JSON object a line", ROW] for folder in ROLLOUTS},
    **{
        f"{folder}/predictions/<item>/{name}": kind
        for folder in ROLLOUTS
        for name, kind in (
            ("conversation.json", TALK),
            ("target_system_prompt.txt", TEXT),
            ("target_user_prompt.txt", TEXT),
        )
    },
}
"""Every file with what is in it: N is a number, <item> an id."""


def complaints(run: Path, files: Mapping[str, Any] = FILES) -> list[str]:
    """What a script that knows these files would trip over in a run directory."""
    return [each for pattern, shape in files.items() for each in _file(run, pattern, shape)]


def shape_of(value: object) -> object:
    """What a sample says of a value: its kind, and what it holds."""
    match value:
        case dict():
            return {key: shape_of(each) for key, each in cast("Fields", value).items()}
        case list():
            return [shape_of(each) for each in cast("list[object]", value)[:1]]
        case _:
            return _kind(value) if value is not None else ANY


def found(run: Path, pattern: str) -> list[Path]:
    """The files of a run that a pattern names."""
    words = re.escape(pattern).replace(re.escape("<item>"), "[^/]+")
    name = re.compile(words.replace("skill_v_N", r"skill_v\d{4}").replace("_N", r"_\d+"))
    return sorted(
        path
        for path in run.rglob("*")
        if path.is_file() and name.fullmatch(path.relative_to(run).as_posix())
    )


def _file(run: Path, pattern: str, shape: object) -> Iterator[str]:
    paths = found(run, pattern)
    if not paths:
        yield f"{pattern}: no such file"
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if shape in (TEXT, "text"):
            continue
        name = path.relative_to(run).as_posix()
        if path.suffix == ".jsonl":
            _, row = cast("list[object]", shape)
            for number, line in enumerate(text.splitlines(), start=1):
                yield from _value(f"{name}:{number}", json.loads(line), row)
        else:
            yield from _value(name, json.loads(text), shape)


def _value(place: str, value: object, shape: object) -> Iterator[str]:
    match shape, value:
        case dict(), dict():
            yield from _fields(place, cast("Fields", value), cast("Fields", shape))
        case list(), list():
            for each in cast("list[object]", value):
                for inner in cast("list[object]", shape):
                    yield from _value(place, each, inner)
        case ((dict() | list()), _):
            yield f"{place}: expected {_kind(cast('object', shape))}, found {_kind(value)}"
        case _:
            if shape not in (ANY, _kind(value)):
                yield f"{place}: expected {shape}, found {_kind(value)}"


def _fields(place: str, value: Fields, shape: Fields) -> Iterator[str]:
    for key, inner in shape.items():
        if key in value:
            yield from _value(f"{place} {key}", value[key], inner)
        else:
            yield f"{place}: no {key!r}"


def _kind(value: object) -> str:
    match value:
        case bool():
            return SWITCH
        case int() | float():
            return NUMBER
        case str():
            return TEXT
        case list():
            return LIST
        case dict():
            return OBJECT
        case _:
            return "null"
