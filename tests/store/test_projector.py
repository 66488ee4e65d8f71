from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support_store import CONFIG, FIRST, GUIDED, INITIAL, REJECTED, fill, keep_reply, story

from skillopt.core.chat import Reply, Usage
from skillopt.core.events import Begun, Event, Fact, FinalTested, Started, Ticked
from skillopt.core.facts import Stepped
from skillopt.core.state import State
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.projector import Projector


@contextmanager
def projecting(root: Path) -> Generator[Projector, None, None]:
    cache = SqliteCache(Layout(root).cache)
    yield Projector(Layout(root), cache, CONFIG)
    cache.close()


async def run(root: Path, events: Iterable[Event]) -> Layout:
    """Let a projector see a run as it happens."""
    cache = SqliteCache(Layout(root).cache)
    await fill(cache)
    projector = Projector(Layout(root), cache, CONFIG)
    for event in events:
        projector(event)
    cache.close()
    return Layout(root)


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "cache.sqlite" not in path.name
    }


def clear(layout: Layout) -> None:
    """Leave the finished work alone."""
    for path in layout.root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path != layout.cache:
            path.unlink()


def read(path: Path) -> Any:  # noqa: ANN401 - JSON, as a reader of the file sees it
    return json.loads(path.read_text(encoding="utf-8"))


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def test_after_every_fact_the_directory_is_as_a_rebuild_would_make_it(tmp_path: Path) -> None:
    events = story()
    for number, event in enumerate(events, start=1):
        if isinstance(event, Fact):
            live = await run(tmp_path / str(number), events[:number])
            with projecting(live.root) as projector:
                assert projector.rebuild(events[:number]) == []


async def test_a_rebuild_from_nothing_makes_every_file_byte_for_byte(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    before = files(tmp_path)
    clear(layout)
    with projecting(tmp_path) as projector:
        reported = projector.rebuild(story())
    assert files(tmp_path) == before
    assert sorted(map(str, reported)) == sorted(before)


async def test_each_file_cut_in_half_is_reported_and_repaired(tmp_path: Path) -> None:
    await run(tmp_path, story())
    before = files(tmp_path)
    assert len(before) > 60
    for name, data in before.items():
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with projecting(tmp_path) as projector:
            assert list(map(str, projector.rebuild(story()))) == [name]
        assert files(tmp_path) == before, name


async def test_two_runs_with_the_same_facts_leave_the_same_files(tmp_path: Path) -> None:
    one = await run(tmp_path / "one", story())
    two = await run(tmp_path / "two", story())
    place, other = (str(each.root.resolve()).encode() for each in (one, two))
    moved = {name: data.replace(other, place) for name, data in files(two.root).items()}
    assert files(one.root) == moved


async def test_a_directory_that_was_moved_is_not_damaged(tmp_path: Path) -> None:
    one = await run(tmp_path / "one", story())
    shutil.move(one.root, tmp_path / "two")
    with projecting(tmp_path / "two") as projector:
        assert projector.rebuild(story()) == []
    stands = read(Layout(tmp_path / "two").runtime_state)
    assert stands["best_skill_path"] == str((tmp_path / "two" / "best_skill.md").resolve())


async def test_a_run_that_has_not_begun_has_no_files(tmp_path: Path) -> None:
    with projecting(tmp_path) as projector:
        projector(story()[0])
        projector(Ticked("baseline", "evaluate"))
        assert projector.rebuild([]) == []
    assert files(tmp_path) == {}


async def test_changed_settings_and_later_calls_are_taken_in_without_a_report(
    tmp_path: Path,
) -> None:
    layout = await run(tmp_path, story())
    cache = SqliteCache(layout.cache)
    cache.enter("step_0005")
    await keep_reply(cache, "later", stage="rollout")
    changed = {**CONFIG, "num_epochs": 3}
    assert Projector(layout, cache, changed).rebuild(story()) == []
    cache.close()
    assert read(layout.config)["num_epochs"] == 3
    assert read(layout.summary)["token_summary"]["_total"]["calls"] == 4


async def test_the_best_skill_is_there_as_soon_as_the_baseline_is_measured(tmp_path: Path) -> None:
    begun = next(event for event in story() if isinstance(event, Begun))
    layout = await run(tmp_path, [begun])
    assert layout.best_skill.read_bytes() == INITIAL.render().encode()
    assert read(layout.runtime_state) == {
        "last_completed_step": 0,
        "current_skill_path": str((tmp_path / "skills" / "skill_v0000.md").resolve()),
        "current_score": 0.5,
        "current_origin": "initial_skill",
        "best_skill_path": str((tmp_path / "best_skill.md").resolve()),
        "best_score": 0.5,
        "best_step": 0,
        "best_origin": "initial_skill",
    }


async def test_skills_are_kept_by_step_and_the_end_of_an_epoch_updates_the_last(
    tmp_path: Path,
) -> None:
    layout = await run(tmp_path, story())
    kept = [layout.skill(step).read_bytes() for step in range(5)]
    skills = [INITIAL, INITIAL, FIRST, FIRST, GUIDED]
    assert kept == [skill.render().encode() for skill in skills]
    assert layout.best_skill.read_bytes() == FIRST.render().encode()
    assert layout.best_among.read_bytes() == FIRST.render().encode()
    assert (
        layout.root / "steps/step_0001/candidate_skill.md"
    ).read_bytes() == REJECTED.render().encode()


async def test_the_history_says_everything_about_each_step(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    history = read(layout.history)
    assert [entry["action"] for entry in history] == [
        "reject",
        "accept_new_best",
        "skip_no_patches",
        "skip_no_change",
    ]
    steps = layout.root / "steps"
    assert history == [read(steps / f"step_{n:04d}/step_record.json") for n in (1, 2, 3, 4)]
    paid = {"calls": 1, "prompt_tokens": 100, "completion_tokens": 20}
    paid |= {"total_tokens": 120, "cached_tokens": 10, "dollars": 0.25}
    timing = dict.fromkeys(("aggregate_s", "select_s", "update_s", "evaluate_s"), 0.0)
    assert history[0] == {
        "step": 1,
        "epoch": 1,
        "step_in_epoch": 0,
        "action": "reject",
        "timing": {"rollout_s": 2.0, "reflect_s": 0.5, **timing},
        "tokens": {"analyst": paid, "rollout": paid},
        "rollout_hard": 0.5,
        "rollout_soft": 0.25,
        "rollout_n": 2,
        "rollout_failures": 1,
        "accumulation_batches": [
            {
                "batch_idx": 0,
                "batch_seed": 1008,
                "n_envs": 3,
                "hard": 0.5,
                "soft": 0.25,
                "n_failure_patches": 1,
                "n_success_patches": 1,
            }
        ],
        "n_patches": 2,
        "n_failure_patches": 1,
        "n_success_patches": 1,
        "edit_budget": 1,
        "lr_control_mode": "fixed",
        "problems": ["no JSON came"],
        "n_dropped_repeats": 0,
        "n_edits_merged": 4,
        "n_edits_ranked": 1,
        "support_counts": [2],
        "edit_apply_summary": {"total": 2, "applied": 1, "skipped": 1, "errors": 0},
        "candidate_hash": REJECTED.digest,
        "candidate_skill_len": len(REJECTED.render()),
        "selection_hard": 0.0,
        "selection_soft": 0.0,
        "selection_n": 1,
        "selection_failures": 1,
        "selection_saved": 0,
        "candidate_gate_score_is_upper_bound": False,
        "gate_metric": "hard",
        "candidate_gate_score": 0.0,
        "inconclusive": False,
        "gate_level": 0.0,
        "reason": "0 of 1 better",
        "current_score": 0.5,
        "best_score": 0.5,
        "best_step": 0,
        "current_origin": "initial_skill",
        "best_origin": "initial_skill",
        "skill_len": len(INITIAL.render()),
        "wall_time_s": 2.5,
    }
    assert history[1]["wall_time_s"] == 4.0
    assert "n_edits_merged" not in history[2]
    assert "candidate_hash" not in history[3]


async def test_a_steps_folder_tells_how_its_candidate_came_about(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    folder = layout.root / "steps/step_0001"
    edit = {"op": "append", "target": "", "content": "- Shout."}
    evidence = {
        "support_count": 2,
        "source_type": "failure",
        "merge_level": 1,
        "proposer": "analyst",
    }
    told = {**edit, **evidence, "why": "capitals were missing", "task_ids": ["a", "b"]}
    assert read(folder / "ranked_edits.json") == {
        "reasoning": "merged",
        "edits": [told],
        "ranking_details": {"reasoning": "ranked", "selected_indices": [0]},
    }
    assert [each["op"] for each in read(folder / "merged_patch.json")["edits"]] == [
        "append",
        "insert_after",
        "replace",
        "delete",
    ]
    assert [each["status"] for each in read(folder / "edit_apply_report.json")] == [
        "applied_append",
        "skipped_delete_target_not_found",
    ]
    assert read(folder / "trajectory_digest.json") == {
        "step": 1,
        "action": "reject",
        "n_total": 2,
        "n_fail": 1,
        "failure_patterns": [{"pattern": "format", "count": 1, "task_ids": ["a"]}],
        "score_before": 0.5,
        "score_after": 0.0,
        "score_after_is_upper_bound": False,
        "rejected_edits": [edit],
    }
    patches = sorted(path.name for path in (folder / "patches").iterdir())
    assert patches == ["minibatch_fail_000.json", "minibatch_succ_000.json"]
    assert read(folder / "patches" / "minibatch_fail_000.json") == {
        "source_type": "failure",
        "batch_size": 2,
        "task_ids": ["a", "b"],
        "failure_summary": [{"failure_type": "format", "count": 2, "description": "no capitals"}],
        "patch": {"reasoning": "why", "edits": [told]},
    }


async def test_with_accumulation_every_batch_has_its_own_folder(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    root = layout.root / "steps/step_0002"
    assert (root / "batch_0" / "rollout" / "results.jsonl").is_file()
    assert (root / "batch_1" / "rollout" / "results.jsonl").is_file()
    assert (root / "batch_0" / "patches" / "minibatch_fail_000.json").is_file()


async def test_a_rollout_folder_has_a_row_per_task_and_a_failure_is_no_zero(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    folder = RolloutFolder(layout.root / "steps/step_0001/rollout")
    first, second, failed = rows(folder.results)
    assert first == {
        "id": "a",
        "hard": 0.0,
        "soft": 0.0,
        "agent_ok": True,
        "task_type": "even",
        "fail_reason": "format: not in capitals",
        "n_turns": 1,
        "predicted_answer": "answer a",
        "response": f"a by {INITIAL.digest} ✓",
    }
    assert (second["hard"], second["fail_reason"]) == (1.0, "")
    assert failed == {
        "id": "c",
        "hard": None,
        "soft": None,
        "agent_ok": False,
        "error": {"kind": "ModelError", "message": "timed out"},
    }
    (said,) = read(folder.conversation("a"))
    assert (said["type"], said["turn"], said["role"]) == ("message", 1, "assistant")
    assert folder.prompt("a", "user").read_text(encoding="utf-8") == "do a"
    assert not folder.conversation("c").exists()


async def test_scores_stay_readable_when_the_finished_work_was_moved_away(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    layout.cache.unlink()
    with projecting(tmp_path) as projector:
        projector.rebuild(story())
    assert rows(layout.root / "test_eval/results.jsonl")[0] == {
        "id": "t1",
        "hard": 1.0,
        "soft": 0.5,
        "agent_ok": True,
    }


async def test_the_end_of_an_epoch_leaves_its_comparison_and_conclusions(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    folder = layout.root / "slow_update/epoch_02"
    result = read(folder / "slow_result.json")
    assert (result["action"], result["update_target"]) == ("force_accept", "current")
    assert (result["prev_hard"], result["curr_hard"]) == (0.0, 1.0)
    assert result["slow_update_content"] == "Keep going."
    assert result["candidate_hash"] == GUIDED.digest
    pairs = read(folder / "comparison_pairs.json")
    assert pairs[0]["category"] == "improved"
    assert pairs[0]["prev"]["fail_reason"] == "format: not in capitals"
    assert pairs[0]["task"] == "do a"
    assert pairs[1]["prev"] is None
    assert read(folder / "comparison_pairs_all.json") == pairs
    assert (result["n_pairs"], result["n_pairs_all"]) == (2, 2)
    assert [row["id"] for row in rows(folder / "rollout_prev/results.jsonl")] == ["a"]
    assert [row["id"] for row in rows(folder / "rollout_curr/results.jsonl")] == ["a", "b"]
    assert (folder / "candidate_skill.md").read_bytes() == GUIDED.render().encode()
    meta = layout.root / "meta_skill"
    assert read(meta / "epoch_02/meta_skill_result.json")["action"] == "write_meta_skill"
    first = read(folder.with_name("epoch_01") / "slow_result.json")
    lessons = read(meta / "epoch_01/meta_skill_result.json")
    assert first["action"] == "inject_placeholder"
    assert first["epoch"] == lessons["epoch"] == 1
    assert lessons["action"] == "skip_first_epoch"
    assert not (folder.with_name("epoch_01") / "comparison_pairs.json").exists()


async def test_the_summary_gives_scores_with_their_number_of_items(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    told = read(layout.summary)
    assert told["version"] == "skillopt-9.9"
    assert told["baseline_selection_hard"] == 0.5
    assert (told["best_selection_hard"], told["best_selection_n"]) == (1.0, 2)
    assert (told["test_hard"], told["test_n"], told["test_failures"]) == (1.0, 2, 1)
    assert told["test_delta_hard"] == pytest.approx(2 / 3)
    counts = [told[f"total_{name}"] for name in ("steps", "accepts", "rejects", "skips")]
    assert counts == [4, 1, 1, 2]
    assert told["epoch_stats"][0] == {
        "epoch": 1,
        "steps": [1, 2],
        "accepts": 1,
        "rejects": 1,
        "skips": 0,
        "screened": 0,
        "best_score_at_epoch_end": 1.0,
        "current_score_at_epoch_end": 1.0,
    }
    assert told["total_wall_time_s"] == 7.0
    assert told["token_summary"]["_total"]["calls"] == 3
    assert read(layout.root / "test_eval_baseline/summary.json") == {
        "overall": {"total": 3, "hard_acc": 1 / 3},
        "odd": {"total": 1, "hard_acc": 0.0},
        "even": {"total": 2, "hard_acc": 0.5},
    }


async def test_the_receipt_tells_what_was_paid_and_what_was_free_by_role_and_stage(
    tmp_path: Path,
) -> None:
    cache = SqliteCache(Layout(tmp_path).cache)
    await fill(cache)
    await keep_reply(cache, "r2", stage="analyst")
    projector = Projector(Layout(tmp_path), cache, CONFIG)
    for event in story():
        projector(event)
    cache.close()
    told = read(Layout(tmp_path).summary)
    one = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    one |= {"cached_tokens": 10, "dollars": 0.25}
    assert told["receipt"]["optimizer"]["rollout"] == {"calls": 1, **one}
    assert told["receipt"]["_total"]["calls"] == 3
    assert told["receipt"]["_total"]["cached_tokens"] == 30
    assert told["reused"]["calls"] == 1
    assert told["reused"]["receipt"]["optimizer"]["analyst"] == {"calls": 1, **one}


async def test_the_summary_tells_what_was_tried_and_what_has_no_score(tmp_path: Path) -> None:
    layout = await run(tmp_path, story())
    told = read(layout.summary)
    found = [(each["move"], each["action"], each["gist"]) for each in told["tried"]]
    assert found == [
        ("step_0001", "reject", "- Shout."),
        ("step_0002", "accept_new_best", "- Answer in capitals."),
        ("slow_update_epoch_02", "force_accept", "Keep going."),
    ]
    assert told["failures"] == {"train": 3, "val": 1, "test": 1}


async def test_dollars_that_nobody_knows_are_null_and_never_zero(tmp_path: Path) -> None:
    cache = SqliteCache(Layout(tmp_path).cache)
    await keep_reply(cache, "r1")

    async def free() -> Reply:
        return Reply(text="ok", usage=Usage(1, 100, 20))

    await cache.reply("r2", role="target", stage="rollout", make=free)
    projector = Projector(Layout(tmp_path), cache, CONFIG)
    prices = {"target": None, "optimizer": "your configuration"}
    for event in (Started("now", "9.9", prices), *story()[1:3]):
        projector(event)
    cache.close()
    told = read(Layout(tmp_path).summary)
    assert told["prices"] == prices
    receipt = told["receipt"]
    assert (receipt["target"]["rollout"]["dollars"], receipt["unpriced"]) == (None, ["target"])
    assert receipt["optimizer"]["_total"]["dollars"] == 0.25
    assert receipt["_total"]["dollars"] is None


async def test_others_may_add_to_the_summary(tmp_path: Path) -> None:
    def extra(state: State) -> dict[str, object]:
        return {"interval": [0.1, state.best.value]}

    layout = await run(tmp_path, story())
    cache = SqliteCache(layout.cache)
    assert list(map(str, Projector(layout, cache, CONFIG, extra=extra).rebuild(story()))) == [
        "summary.json"
    ]
    cache.close()
    assert read(layout.summary)["interval"] == [0.1, 1.0]


async def test_a_later_exam_replaces_the_earlier_one(tmp_path: Path) -> None:
    events = story()
    final_test = next(event for event in events if isinstance(event, FinalTested))
    second = FinalTested(
        move="final_test",
        tasks="e" * 16,
        initial=final_test.initial,
        best=final_test.last,
        last=final_test.last,
    )
    layout = await run(tmp_path, [*events, second])
    assert read(layout.summary)["test_n"] == 3
    with projecting(tmp_path) as projector:
        assert projector.rebuild([*events, second]) == []


async def test_a_fact_without_a_beginning_is_not_shown(tmp_path: Path) -> None:
    await run(tmp_path, [event for event in story() if isinstance(event, Stepped)])
    assert files(tmp_path) == {}


class CountedSettings(Mapping[str, object]):
    """Settings that count how often one is looked up."""

    reads = 0

    def __getitem__(self, key: str) -> object:
        self.reads += 1
        return CONFIG[key]

    def __iter__(self) -> Iterator[str]:
        return iter(CONFIG)

    def __len__(self) -> int:
        return len(CONFIG)


async def test_a_record_is_made_once_however_many_steps_follow(tmp_path: Path) -> None:
    layout, config = Layout(tmp_path), CountedSettings()
    cache = SqliteCache(layout.cache)
    projector = Projector(layout, cache, config)
    begun = next(event for event in story() if isinstance(event, Begun))
    step = next(event for event in story() if isinstance(event, Stepped))
    projector(begun)
    reads: list[int] = []
    for number in range(1, 9):
        before = config.reads
        projector(replace(step, step=number, in_epoch=number, move=f"step_{number:04d}"))
        reads.append(config.reads - before)
    cache.close()
    assert len(set(reads)) == 1
    assert len(read(layout.history)) == 8


async def test_what_an_earlier_step_costs_later_is_told_in_the_history(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    cache = SqliteCache(layout.cache)
    projector = Projector(layout, cache, CONFIG)
    events = [event for event in story() if isinstance(event, Begun | Stepped)]
    for number, event in enumerate(events[:3]):
        projector(event)
        cache.enter("step_0001")
        await keep_reply(cache, f"late {number}")
    projector(events[3])
    cache.close()
    stages = [record["tokens"] for record in read(layout.history)]
    assert stages[0]["analyst"]["calls"] == 3
    assert stages[1:] == [{}, {}]
