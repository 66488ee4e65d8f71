from __future__ import annotations

from pathlib import Path

import pytest
from support_cli import Call, Trained

_ROWS = "\n".join(f'{{"id": "i{n}", "input": "say {n}", "answer": "{n}"}}' for n in range(60))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "d.jsonl").write_text(f"{_ROWS}\n", encoding="utf-8")
    (tmp_path / "s.md").write_text("Answer.\n", encoding="utf-8")
    (tmp_path / "c.yaml").write_text(
        "env: {name: custom, data_path: d.jsonl, skill_init: s.md}\n", encoding="utf-8"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["estimate", "c.yaml", "evaluation.gate=pared"], "paired"),
        (["estimate", "c.yaml", "optimizer.select_mode=trail"], "trial"),
        (["eval", "c.yaml", "--skill", "s.md", "--split", "tset"], "test"),
        (["model", "fetch", "qwen2.5-coder-1.5"], "qwen2.5-coder-1.5b"),
        (["model", "fetch", "1.5b"], "qwen2.5-coder-1.5b"),
        (["estimate", "c.yaml", "model.backend=opnai_chat"], "openai_chat"),
        (["train", "c.yaml", "model.target_backend=Locl"], "local"),
        (["estimate", "c.yaml", "model.backend=antropic"], "anthropic"),
        (["estimate", "c.yaml", "env.name=custm"], "custom"),
        (["estimate", "c.yaml", "env.scorer=exct"], "exact"),
    ],
)
def test_a_misspelt_name_is_told_with_the_nearest_one(
    args: list[str], near: str, call: Call, project: Path
) -> None:
    done = call(*args, cwd=project)
    assert done.code == 1
    assert f"did you mean {near!r}?" in done.err


def test_an_unknown_backend_is_refused_first_with_the_place_where_it_was_given(
    call: Call, project: Path
) -> None:
    done = call("train", "c.yaml", "model.target_backend=locl", cwd=project)
    assert done.err.startswith("error: model.target_backend: no model backend is named 'locl'")
    assert "command line (model.target_backend=locl)" in done.err
    checked = call("check", "c.yaml", "model.backend=gemini", cwd=project)
    assert checked.code == 1
    told = checked.out.partition("model.backend: no model backend is named 'gemini'; ")[2]
    assert "known: claude_chat, " in told


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("inital", "did you mean 'initial'?"),
        ("bets", "did you mean 'best'?"),
        ("lst", "did you mean 'last'?"),
        ("skil.md", "did you mean skill.md?"),
        ("99", "a step from 0 to 2"),
    ],
)
def test_a_misspelt_skill_of_a_run_is_told_with_the_nearest_one(
    name: str, hint: str, call: Call, trained: Trained
) -> None:
    done = call("diff", "run", name, "best", cwd=trained.folder)
    assert done.code == 1
    assert hint in done.err
    assert "initial, best, last, " in done.err
    assert "current" not in done.err


@pytest.mark.parametrize("name", ["last", "current"])
def test_the_last_skill_may_also_be_called_current(name: str, call: Call, trained: Trained) -> None:
    done = call("diff", "run", "last", name, cwd=trained.folder)
    assert done.code == 0
    assert "are the same skill" in done.out + done.err
