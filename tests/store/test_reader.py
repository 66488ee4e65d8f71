from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support_store import FIRST, GUIDED, INITIAL, REJECTED, fill, story

from skillopt.core.events import Begun, Fact
from skillopt.core.facts import Stepped
from skillopt.core.proposal import Candidate
from skillopt.core.skill import Skill
from skillopt.core.state import replay
from skillopt.errors import SkillError, StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout
from skillopt.store.reader import RunReader


async def a_run(root: Path, until: int | None = None) -> Path:
    log, cache = EventFile(Layout(root).events), SqliteCache(Layout(root).cache)
    for event in story()[:until]:
        log.append(event)
    await fill(cache)
    cache.close()
    return root


async def test_a_reader_shows_events_facts_steps_and_the_state(tmp_path: Path) -> None:
    with RunReader(await a_run(tmp_path)) as reader:
        assert [entry.event for entry in reader.events()] == story()
        assert reader.facts == [event for event in story() if isinstance(event, Fact)]
        assert list(reader.steps) == [event for event in story() if isinstance(event, Stepped)]
        assert reader.state == replay(story())
        second = reader.step(2)
        assert second.before.current.skill == INITIAL
        assert second.after.current.skill == FIRST
        assert second.seconds == {"evaluate": 3.0, "total": 4.0}
        with pytest.raises(StoreError, match=r"no step 9: it has steps 1 to 4"):
            reader.step(9)


@pytest.mark.parametrize(
    ("name", "skill"),
    [
        ("initial", INITIAL),
        ("best", FIRST),
        ("current", GUIDED),
        ("last", GUIDED),
        ("0", INITIAL),
        ("1", INITIAL),
        ("v0002", FIRST),
        ("4", GUIDED),
        (REJECTED.digest, REJECTED),
        (GUIDED.digest[:6], GUIDED),
    ],
)
async def test_skills_are_found_by_name_step_and_digest(
    tmp_path: Path, name: str, skill: Skill
) -> None:
    with RunReader(await a_run(tmp_path)) as reader:
        assert reader.skill(name) == skill


@pytest.mark.parametrize("content", [None, "{", "[]"])
async def test_settings_that_cannot_be_read_are_an_error_that_says_who_writes_them(
    tmp_path: Path, content: str | None
) -> None:
    with RunReader(await a_run(tmp_path)) as reader:
        if content is not None:
            reader.layout.config.write_text(content, encoding="utf-8")
        with pytest.raises(StoreError, match=r"config\.json cannot be read .*skillopt train"):
            _ = reader.config
        reader.layout.config.write_text('{"train.seed": 1}', encoding="utf-8")
        assert reader.config == {"train.seed": 1}


async def test_a_skill_may_be_a_file_and_must_be_utf8(tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    with RunReader(await a_run(tmp_path / "run")) as reader:
        file.write_bytes("é\r\n".encode())
        assert reader.skill(str(file)).render() == "é\r\n"
        file.write_bytes(b"\xff")
        with pytest.raises(SkillError, match="not UTF-8"):
            reader.skill(str(file))
        with pytest.raises(
            StoreError, match=r"'best'\? .* initial, best, last, a step from 0 to 4"
        ):
            reader.skill("bets")


async def test_a_digest_that_fits_two_skills_is_not_guessed(tmp_path: Path) -> None:
    by_start = dict[str, Skill]()
    for number in range(10_000):
        skill = Skill.parse(f"{number}")
        other = by_start.setdefault(skill.digest[:4], skill)
        if other != skill:
            break
    else:
        raise AssertionError("no two of them begin alike")
    log = EventFile(Layout(tmp_path).events)
    first = next(event for event in story() if isinstance(event, Begun)).initial
    begun = Begun(type(first)(other, first.evaluation, 0.5, "initial_skill", 0))
    log.append(begun)
    step = next(event for event in story() if isinstance(event, Stepped))
    draft = replace(step.draft, candidates=(Candidate(skill=skill),))
    log.append(
        Stepped(
            move="step_0001",
            step=1,
            epoch=1,
            in_epoch=1,
            batches=(),
            patterns=(),
            draft=draft,
            action="skip_no_change",
            decision=None,
        )
    )
    with RunReader(tmp_path) as reader:
        with pytest.raises(StoreError, match=f"{skill.digest}.*Give more"):
            reader.skill(skill.digest[:4])
        assert reader.skill(skill.digest) == skill


async def test_rollouts_of_an_item_and_costs_are_at_hand(tmp_path: Path) -> None:
    with RunReader(await a_run(tmp_path)) as reader:
        digests = [each.skill for each in reader.rollouts(task="a")]
        assert digests == [skill.digest for skill in (INITIAL, REJECTED, FIRST, GUIDED)]
        (one,) = reader.rollouts(task="a", skill=FIRST.digest)
        assert one.trajectory is not None
        assert reader.spent()["step_0001", "optimizer", "analyst"].calls == 1


async def test_a_run_under_way_can_be_read_and_is_not_touched(tmp_path: Path) -> None:
    layout = Layout(await a_run(tmp_path, until=7))
    whole = layout.events.read_bytes()
    layout.events.write_bytes(whole[:-9])
    writer = SqliteCache(layout.cache)
    with RunReader(tmp_path) as reader:
        assert [entry.event for entry in reader.events()] == story()[:6]
        assert reader.rollouts(task="v1")
        with pytest.raises(StoreError, match="no step yet"):
            reader.step(1)
    writer.close()
    assert layout.events.read_bytes() == whole[:-9]


def test_what_is_no_run_directory_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run that has begun"):
        RunReader(tmp_path)
    with pytest.raises(StoreError, match="is not a directory"):
        RunReader(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []
