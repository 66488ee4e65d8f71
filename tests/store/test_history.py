from __future__ import annotations

import json
from pathlib import Path

from support_store import FIRST, INITIAL, draft, measured, story

from skillopt.core.edits import Append
from skillopt.core.events import Begun, Decision
from skillopt.core.facts import EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.rules import Cut
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout
from skillopt.store.projector import Projector

BEGUN = next(event for event in story() if isinstance(event, Begun))
STEP = next(event for event in story() if isinstance(event, Stepped))


def test_every_kind_of_candidate_tells_how_it_met_the_gate_in_the_same_words(
    tmp_path: Path,
) -> None:
    met = Decision(
        measured(FIRST, "somewhere", 1, 0.0, 1.0),
        "reject",
        "0 of 2 better",
        inconclusive=True,
        level=0.01,
        saved=3,
    )
    layout = Layout(tmp_path)
    facts = [
        BEGUN,
        STEP,
        MetaReflected(
            move="meta_reflect_epoch_01",
            step=1,
            epoch=1,
            draft=draft(Append("- Answer in capitals."), FIRST),
            action="reject",
            decision=met,
        ),
        Pruned(move="prune_epoch_01", step=1, epoch=1, cut=Cut(), decision=met),
        EpochClosed(
            move="epoch_01", epoch=1, before=INITIAL.digest, after=FIRST.digest, decision=met
        ),
    ]
    cache = SqliteCache(layout.cache)
    Projector(layout, cache, {}).rebuild(facts)
    cache.close()
    step = json.loads((tmp_path / "steps/step_0001/step_record.json").read_bytes())
    files = (
        tmp_path / "meta_reflect/epoch_01/meta_reflect_result.json",
        tmp_path / "prune/epoch_01/prune_result.json",
        tmp_path / "slow_update/epoch_01/slow_result.json",
    )
    for path in files:
        told = json.loads(path.read_bytes())
        expected = {
            "selection_hard": 0.5,
            "selection_soft": 0.25,
            "selection_n": 2,
            "selection_failures": 0,
            "selection_saved": 3,
            "candidate_gate_score_is_upper_bound": True,
            "candidate_gate_score": 0.5,
            "inconclusive": True,
            "gate_level": 0.01,
            "reason": "0 of 2 better",
        }
        assert {key: told[key] for key in expected} == expected
        assert expected.keys() <= step.keys()
