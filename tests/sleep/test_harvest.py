from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from support_transcripts import NOW, START, Story, Turn, settings_in, write_as, write_claude

from skillopt.errors import ConfigError, PartError
from skillopt_sleep.harvest import harvest
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import SessionsRead


def story(number: int, project: str = "/w/app") -> Story:
    turns = (Turn(user=f"Please do the thing number {number}"), Turn(user="ok then"))
    return Story(
        id=f"s{number}", project=project, start=START + timedelta(hours=number), turns=turns
    )


def test_all_programs_that_left_something_are_harvested_together(tmp_path: Path) -> None:
    write_as("codex", tmp_path, story(1))
    write_as("claude", tmp_path, story(2))
    write_as("pi", tmp_path, story(0))
    found = harvest(settings_in(tmp_path), None, NOW)
    assert [session.id for session in found.sessions] == ["s0", "s1", "s2"]
    assert [(each.source, each.sessions) for each in found.sources] == [
        ("claude", 1), ("codex", 1), ("pi", 1),
    ]  # fmt: skip
    assert found.checkpoint == story(2).end


def test_only_the_sources_that_are_named_are_read(tmp_path: Path) -> None:
    write_as("codex", tmp_path, story(1))
    write_as("claude", tmp_path, story(2))
    write_as("pi", tmp_path, story(3))
    found = harvest(settings_in(tmp_path, source="pi, codex"), None, NOW)
    assert [session.source for session in found.sessions] == ["codex", "pi"]


def test_a_source_that_does_not_exist_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'claude'"):
        harvest(settings_in(tmp_path, source="claud"), None, NOW)


def test_sessions_past_the_cap_are_left_for_the_next_night_and_none_is_lost(tmp_path: Path) -> None:
    for number in range(7):
        write_claude(tmp_path / "claude", story(number))
    write_as("codex", tmp_path, story(3))  # ends at the same moment as another
    taken: list[str] = []
    checkpoint, lefts = None, list[int]()
    for _ in range(4):
        found = harvest(settings_in(tmp_path, max_sessions=2), checkpoint, NOW)
        taken += [f"{session.source}-{session.id}" for session in found.sessions]
        checkpoint = found.checkpoint or checkpoint
        lefts.append(found.left)
    assert sorted(taken) == sorted([*(f"claude-s{number}" for number in range(7)), "codex-s3"])
    assert taken[:2] == ["claude-s0", "claude-s1"]
    assert lefts == [6, 3, 1, 0]
    assert harvest(settings_in(tmp_path), checkpoint, NOW).sessions == ()


def test_the_checkpoint_does_not_depend_on_the_clock_of_the_harvest(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", story(1))
    first = harvest(settings_in(tmp_path), None, NOW)
    assert first.checkpoint == story(1).end
    # A session that ended after the first, but before the harvest was over.
    write_claude(tmp_path / "claude", story(2))
    later = harvest(settings_in(tmp_path), first.checkpoint, NOW)
    assert [session.id for session in later.sessions] == ["s2"]


def test_a_session_with_a_date_in_the_future_hides_no_others(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", story(1))
    write_claude(tmp_path / "claude", story(24 * 365 * 70))
    first = harvest(settings_in(tmp_path), None, NOW)
    assert [session.id for session in first.sessions] == ["s1"]
    assert first.skipped == {"of a time that has not come yet": 1}
    assert first.checkpoint == story(1).end


def test_the_checkpoint_is_never_beyond_now(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", story(1))
    a_little_ahead = story(1).end - timedelta(minutes=1)
    found = harvest(settings_in(tmp_path), None, a_little_ahead)
    assert [session.id for session in found.sessions] == ["s1"]
    assert found.checkpoint == a_little_ahead
    # Nor does one that is keep sessions out.
    beyond = NOW + timedelta(days=9999)
    assert harvest(settings_in(tmp_path), beyond, a_little_ahead).sessions == found.sessions


def test_a_checkpoint_survives_as_a_number(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    write_claude(tmp_path / "claude", story(1))
    checkpoint = harvest(settings_in(tmp_path), None, NOW).checkpoint
    assert checkpoint is not None
    stored = json.loads(json.dumps(checkpoint.timestamp()))
    again = datetime.fromtimestamp(stored, timezone.utc)
    assert harvest(settings_in(tmp_path), again, NOW).sessions == ()


def test_the_first_night_looks_back_some_hours(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", story(1))
    write_claude(tmp_path / "claude", story(20))
    recent = harvest(settings_in(tmp_path, lookback_hours=6), None, NOW)
    assert [session.id for session in recent.sessions] == ["s20"]
    assert len(harvest(settings_in(tmp_path, lookback_hours=0), None, NOW).sessions) == 2


def test_the_scope_is_the_project_and_what_is_below_it(tmp_path: Path) -> None:
    here = tmp_path / "app"
    (here / "part").mkdir(parents=True)
    (tmp_path / "link").symlink_to(here)
    places = [here, here / "part", tmp_path, tmp_path / "application", tmp_path / "link"]
    for number, place in enumerate(places):
        write_claude(tmp_path / "claude", story(number, str(place)))
    found = harvest(settings_in(tmp_path, project=here), None, NOW)
    assert [session.id for session in found.sessions] == ["s0", "s1", "s4"]
    assert found.skipped == {"another project": 2}
    assert len(harvest(settings_in(tmp_path, scope="all"), None, NOW).sessions) == 5


class Broken:
    name = "broken"

    def __init__(self, settings: Settings) -> None:
        del settings

    def found(self) -> bool:
        return True

    def sessions(self, since: object) -> SessionsRead:
        raise ZeroDivisionError(f"since {since}")


def test_a_source_of_somebody_else_that_fails_is_named(tmp_path: Path) -> None:
    own = f"{__name__}:Broken"
    with pytest.raises(PartError, match="the source 'broken' failed: since None"):
        harvest(settings_in(tmp_path, source=own), None, NOW)
