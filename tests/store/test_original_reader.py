"""Scripts that read run directories of the original read ours."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support_cli import skillopt
from support_original import ROOT, samples, searchqa_items, write_splits
from support_reader import complaints, shape_of

import skillopt as api
from skillopt.config.load import load_config, load_kept
from skillopt.testing.simulator import Simulator

CONFIG = ROOT / "tests" / "config" / "original" / "searchqa.yaml"
OPEN = {"minimax_temperature", "minimax_max_tokens", "minimax_enable_thinking"}
"""Numbers and switches that the original keeps as text; ours are what they say."""
BY_RUN = {"tokens", "token_summary", "edits", "failure_summary", "ranking_details"}
"""What depends on what a run happened to do: stages that were needed, items that were found."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two epochs on SearchQA with the settings of the original, the forced slow update included."""
    folder = tmp_path_factory.mktemp("original")
    data = write_splits(folder / "split", (20, 12, 20))

    async def train() -> None:
        async with Simulator(seed=1) as sim:
            done = await skillopt(
                *("train", "--config", str(CONFIG), "--split_dir", str(data)),
                *("--num_epochs", "2", "--batch_size", "10", "--minibatch_size", "4"),
                *("--out_root", str(folder / "run")),
                *("--optimizer_backend", "openai_compatible"),
                *("--target_backend", "openai_compatible"),
                *("--optimizer_model", "simulated-optimizer"),
                *("--target_model", "simulated-target"),
                f"model.base_url={sim.url}",
                cwd=ROOT,
            )
            assert done.code == 0, done.err

    asyncio.run(train())
    yield folder / "run"
    shutil.rmtree(folder)


def read(path: Path) -> Any:  # noqa: ANN401 - JSON, as a reader of the file sees it
    return json.loads(path.read_text(encoding="utf-8"))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_file_and_key_is_there_with_its_type(run: Path) -> None:
    assert complaints(run) == []


def test_every_file_and_key_of_a_run_of_the_original_is_there(run: Path) -> None:
    shape = cast("dict[str, Any]", read(samples() / "run_shape.json"))
    files = {
        pattern: "text" if each == "text" else _shape(pattern, each)
        for pattern, each in shape.items()
    }
    assert complaints(run, files) == []


def _shape(pattern: str, sample: Any) -> object:  # noqa: ANN401 - JSON
    if pattern.startswith("test_eval") and pattern.endswith("summary.json"):
        return shape_of({"overall": sample["overall"]})  # kinds of tasks are the data's own
    if pattern.endswith(".jsonl"):
        return [sample[0], shape_of(sample[1])]
    return _without(shape_of(sample))


def _without(shape: object) -> object:
    match shape:
        case dict():
            kept = cast("dict[str, object]", shape).items()
            return {key: _without(each) for key, each in kept if key not in OPEN | BY_RUN}
        case list():
            return [_without(each) for each in cast("list[object]", shape)]
        case _:
            return shape


def test_paths_are_absolute_and_lead_to_the_skills(run: Path) -> None:
    state = read(run / "runtime_state.json")
    assert Path(state["best_skill_path"]).is_absolute()
    assert Path(state["best_skill_path"]).read_bytes() == (run / "best_skill.md").read_bytes()
    assert Path(state["current_skill_path"]).parent == (run / "skills").resolve()
    assert Path(read(run / "config.json")["out_root"]).samefile(run)


def test_steps_epochs_and_batches_are_numbered_as_there(run: Path) -> None:
    history = read(run / "history.json")
    assert [each["step_in_epoch"] for each in history] == [0, 1, 0, 1]
    seeds = [each["accumulation_batches"][0]["batch_seed"] for each in history]
    assert seeds == [1043, 1044, 2043, 2044]
    summary = read(run / "summary.json")
    assert [each["steps"] for each in summary["epoch_stats"]] == [[1, 2], [3, 4]]
    config = read(run / "config.json")
    assert (config["train_size"], config["steps_per_epoch"]) == (20, 2)
    assert read(run / "slow_update/epoch_01/slow_result.json")["action"] == "inject_placeholder"


def test_tokens_add_up_over_stages(run: Path) -> None:
    told = read(run / "summary.json")["token_summary"]
    total = told.pop("_total")
    for name in ("calls", "prompt_tokens", "completion_tokens", "total_tokens"):
        assert sum(each[name] for each in told.values()) == total[name]
    for step in read(run / "history.json"):
        assert "_total" not in step["tokens"]


def test_rows_hold_the_extracted_answer_and_what_it_was_compared_with(run: Path) -> None:
    golds = {str(item["id"]): item for item in searchqa_items(52)}
    for row in rows(run / "test_eval_baseline/results.jsonl"):
        item = golds[row["id"]]
        assert row["question"] == item["question"]
        assert row["gold_answers"] == item["answers"]
        assert row["response"] == f"<answer>{row['predicted_answer']}</answer>"
        assert (row["em"], row["f1"]) == (row["hard"], row["soft"])
        said = read(run / "test_eval_baseline/predictions" / row["id"] / "conversation.json")
        assert [each["content"] for each in said] == [row["response"]]


def test_the_final_selection_is_of_the_last_skill(run: Path) -> None:
    summary = read(run / "summary.json")
    marks = [row["hard"] for row in rows(run / "final_selection_eval/results.jsonl")]
    assert sum(marks) / len(marks) == pytest.approx(summary["final_selection_hard"])


def test_the_settings_that_a_run_leaves_load_again(run: Path) -> None:
    written, kept = load_config(run / "config.yaml"), load_kept(read(run / "config.json"))
    assert written == kept
    assert (written.train.train_size, written.env.name) == (20, "searchqa")


async def test_files_are_the_same_after_a_rebuild(run: Path) -> None:
    done = await skillopt("show", str(run), "--rebuild", cwd=ROOT)
    assert "nothing was missing or damaged" in done.err
    assert complaints(run) == []


def test_right_answers_are_in_the_result_files_and_in_no_prompt(tmp_path: Path) -> None:
    prompts: list[str] = []

    def target(prompt: str) -> str:
        prompts.append(prompt)
        return "<answer>no idea</answer>"

    def optimizer(prompt: str) -> str:
        prompts.append(prompt)
        return "{}"

    names = [f"secret{number}" for number in range(6)]
    items = [
        {"id": f"i{n}", "input": f"Say word {n}.", "answer": name} for n, name in enumerate(names)
    ]
    api.train(
        train=items[:2],
        val=items[2:4],
        test=items[4:],
        skill="Say it.",
        target=target,
        optimizer=optimizer,
        out=tmp_path / "run",
        settings={"num_epochs": 1, "batch_size": 2},
    )
    told = rows(tmp_path / "run" / "test_eval" / "results.jsonl")
    assert [row["gold_answers"] for row in told] == [["secret4"], ["secret5"]]
    held_out = "\n".join(prompts)
    assert not [name for name in names[2:] if name in held_out]
    assert "gold_answers" not in held_out
