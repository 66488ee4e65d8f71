from __future__ import annotations

import json
from pathlib import Path

from support_store import FIRST, draft, measured, story

from skillopt.core.edits import Append
from skillopt.core.events import Begun, Decision
from skillopt.core.facts import MetaReflected
from skillopt.core.proposal import Draft
from skillopt.store.cache import SqliteCache
from skillopt.store.codec import events
from skillopt.store.layout import Layout
from skillopt.store.projector import Projector

BEGUN = next(event for event in story() if isinstance(event, Begun))
TAKEN = Decision(
    measured(FIRST, "meta_reflect_epoch_01", 2, 1.0, 1.0), "accept_new_best", "why", new_best=True
)
THOUGHT = MetaReflected(
    move="meta_reflect_epoch_01",
    step=2,
    epoch=1,
    draft=draft(Append("- Answer in capitals."), FIRST),
    action="accept_new_best",
    decision=TAKEN,
)


def test_a_meta_reflection_is_read_back_as_it_was_written() -> None:
    codec = events()
    assert codec.decode(codec.encode(THOUGHT)) == THOUGHT


def test_a_meta_reflection_leaves_its_result_its_candidate_and_its_evaluation(
    tmp_path: Path,
) -> None:
    nothing = MetaReflected(
        move="meta_reflect_epoch_02",
        step=4,
        epoch=2,
        draft=Draft(budget=2),
        action="skip_no_patches",
        decision=None,
    )
    layout = Layout(tmp_path)
    cache = SqliteCache(layout.cache)
    Projector(layout, cache, {}).rebuild([BEGUN, THOUGHT, nothing])
    cache.close()
    folder = tmp_path / "meta_reflect/epoch_01"
    result = json.loads((folder / "meta_reflect_result.json").read_bytes())
    assert (result["action"], result["epoch"], result["reason"]) == ("accept_new_best", 1, "why")
    assert result["edits"][0]["content"] == "- Answer in capitals."
    assert result["edit_apply_report"][0]["status"] == "applied_append"
    assert result["candidate_hash"] == FIRST.digest
    assert (result["selection_hard"], result["update_origin"]) == (1.0, "meta_reflect_epoch_01")
    assert (folder / "candidate_skill.md").read_bytes() == FIRST.render().encode()
    results = folder / "selection_eval/results.jsonl"
    assert len(results.read_bytes().splitlines()) == 2
    assert layout.best_skill.read_bytes() == FIRST.render().encode()
    second = tmp_path / "meta_reflect/epoch_02"
    assert json.loads((second / "meta_reflect_result.json").read_bytes())["candidate_hash"] is None
    assert not (second / "candidate_skill.md").exists()
