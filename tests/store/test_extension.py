"""A kind of fact that skillopt does not know: a part, its projection, and this test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from extension.review import Remark, Reviewed, review
from extension.review_files import KIND
from support_store import FIRST, INITIAL, RULE, VAL, fill, measured, story

from skillopt.cli.formatting import became
from skillopt.cli.progress import line_for
from skillopt.core.events import Begun, Decision
from skillopt.core.state import replay
from skillopt.gates.compared import Metric
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.kinds import register
from skillopt.store.layout import Layout
from skillopt.store.projector import Projector
from skillopt.store.reader import RunReader

BEGUN = next(event for event in story() if isinstance(event, Begun))
ACCEPTED = Decision(
    measured(FIRST, "review_epoch_01", 2, 1.0, 1.0), "accept_new_best", "better", new_best=True
)
FACT = review((Remark("- Be brief.", "How brief?"),), RULE, ACCEPTED)
TESTS = Path(__file__).parent.parent
READ = """
import sys
from pathlib import Path
from skillopt.store.reader import RunReader
with RunReader(Path(sys.argv[1])) as reader:
    print(type(reader.facts[-1]).__name__, reader.state.current.origin)
"""

register(KIND)


def record(folder: Path) -> Layout:
    layout = Layout(folder)
    log = EventFile(layout.events)
    log.append(BEGUN)
    log.append(FACT)
    return layout


def test_it_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    record(tmp_path)
    with RunReader(tmp_path) as reader:
        assert reader.facts == [BEGUN, FACT]
        assert isinstance(reader.facts[1], Reviewed)
        assert reader.skill(FIRST.digest[:8]) == FIRST
    line = json.loads((tmp_path / "events.jsonl").read_bytes().splitlines()[-1])
    assert (line["v"], line["type"], line["reviewer"]) == (2, "reviewed", "Ann")


def test_it_changes_the_state_as_every_fact_does() -> None:
    state = replay([BEGUN, FACT])
    assert state is not None
    assert (state.initial.skill, state.current.skill, state.best.skill) == (INITIAL, FIRST, FIRST)
    assert state.closed == {"review_epoch_01"}
    (entry,) = state.memory.steps
    assert (entry.kind, entry.accepted, entry.score_before) == ("review", (RULE,), 0.5)
    assert (FACT.edits, FACT.gist) == (1, "- Answer in capitals.")


def test_the_command_line_names_it_by_its_operation() -> None:
    assert line_for(FACT, 4, Metric()).plain == "review epoch 1"
    assert became(FACT)[0] == "accepted, new best"


async def test_its_files_are_written_when_it_happens_and_again_when_they_are_lost(
    tmp_path: Path,
) -> None:
    layout = record(tmp_path)
    cache = SqliteCache(layout.cache)
    await fill(cache)
    projector = Projector(layout, cache, {})
    projector(BEGUN)
    projector(FACT)
    folder = tmp_path / "reviews/epoch_01"
    written = json.loads((folder / "review.json").read_bytes())
    assert written == {
        "reviewer": "Ann",
        "remarks": {"- Be brief.": "How brief?"},
        "score_before": 0.5,
        "score_after": 1.0,
        "calls": 0,
    }
    rows = (folder / "selection_eval/results.jsonl").read_bytes().splitlines()
    assert [json.loads(row)["id"] for row in rows] == list(VAL)
    assert layout.best_skill.read_bytes() == FIRST.render().encode()
    (folder / "skill.md").unlink()
    assert projector.rebuild(EventFile(layout.events).events()) == [
        Path("reviews/epoch_01/skill.md")
    ]
    assert (folder / "skill.md").read_bytes() == FIRST.render().encode()
    cache.close()


def test_another_process_finds_it_by_its_entry_point_and_says_so_without(tmp_path: Path) -> None:
    record(tmp_path / "run")
    told = tmp_path / "site/review-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Name: review\nVersion: 1.0\n", encoding="utf-8")
    (told / "entry_points.txt").write_text(
        "[skillopt.facts]\nreviewed = extension.review_files:KIND\n", encoding="utf-8"
    )

    def read(*path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", READ, str(tmp_path / "run")],
            env={"PYTHONPATH": ":".join(map(str, path))},
            capture_output=True,
            text=True,
            check=False,
        )

    assert read(told.parent, TESTS).stdout == "Reviewed review_epoch_01\n"
    assert "line 2: 'reviewed' is no kind of event that is installed here" in read().stderr
