from __future__ import annotations

from pathlib import Path

from support_cli import Call, skillopt


async def test_quickstart_trains_offline_labels_it_simulated_and_is_done_at_once_again(
    tmp_path: Path,
) -> None:
    command = ("quickstart", "--sim", "--out", "my first: run", "--seed", "3")
    first = await skillopt(*command, cwd=tmp_path)
    assert first.code == 0, first.err
    assert first.err.startswith("SIMULATED models")
    for text in ("what was learnt (simulated)", "result (simulated)", "\n+- "):
        assert text in first.out
    made = tmp_path / "my first: run"
    for name in ("config.yaml", "skill.md", "data/test/items.jsonl", "run/best_skill.md"):
        assert (made / name).is_file()
    second = await skillopt(*command[:-2], cwd=tmp_path)
    assert second.code == 0
    assert "this run is finished" in second.err
    assert second.out == first.out
    by_hand = await skillopt("train", "my first: run/config.yaml", cwd=tmp_path)
    assert by_hand.code == 0, by_hand.err
    assert "this run is finished" in by_hand.err
    other = await skillopt(*command[:-1], "5", cwd=tmp_path)
    assert other.code == 1
    assert "made with seed 3" in other.err


def test_a_folder_with_other_files_is_left_alone_unless_the_user_is_sure(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    done = call("quickstart", "--sim", "--out", ".", cwd=tmp_path)
    assert done.code == 1
    assert "--yes" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
