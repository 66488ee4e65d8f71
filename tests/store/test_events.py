from __future__ import annotations

import hashlib
import json
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_store import story

from skillopt.core import events, facts, proposal, rollout
from skillopt.core.chat import Reply
from skillopt.core.events import Event, Started, Timed
from skillopt.core.skill import Skill
from skillopt.core.state import replay
from skillopt.errors import StoreError
from skillopt.store import codec
from skillopt.store.events import EventFile, read_log

shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
marks = st.floats(0, 1)
st.register_type_strategy(float, numbers)
documents = st.text(st.sampled_from('ab \r\n-#é✓\0\\"')).filter(lambda text: "---" not in text)
skills = documents.map(Skill.parse) | documents.map(lambda t: Skill.parse(t).with_guidance("g"))
scores = st.builds(rollout.Score, marks, marks, st.text())
evaluations = st.builds(
    rollout.Evaluation,
    st.text(),
    st.sampled_from(["train", "val", "test"]),
    st.dictionaries(st.text(), scores, max_size=3),
    st.dictionaries(st.text(), st.builds(rollout.Failure, st.text(), st.text()), max_size=2),
)
rounds = st.builds(
    proposal.Round, gains=st.dictionaries(st.text(), numbers, max_size=3), kept=st.just(("a",))
)
st.register_type_strategy(Skill, skills)
st.register_type_strategy(proposal.Round, rounds)
st.register_type_strategy(rollout.Score, scores)
st.register_type_strategy(rollout.Evaluation, evaluations)
any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(events.Begun, identity=st.dictionaries(st.text(), st.text())),
    *(
        st.from_type(kind)
        for kind in (
            facts.Stepped,
            facts.MetaReflected,
            facts.Pruned,
            facts.EpochClosed,
            events.FinalTested,
            events.Started,
            events.Timed,
            events.Warned,
            events.Stopped,
            events.Finished,
        )
    ),
)


def written(path: Path, content: list[Event]) -> bytes:
    path.unlink(missing_ok=True)
    log = EventFile(path)
    for event in content:
        log.append(event)
    return path.read_bytes()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_event)
def test_any_event_survives_being_written_down(event: Event) -> None:
    line = codec.events().encode(event)
    assert codec.events().decode(line) == event
    assert b"\n" not in line


def test_a_log_gives_back_what_was_appended_in_this_process_and_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    log = EventFile(path)
    for event in story():
        log.append(event)
    assert list(log.events()) == story()
    again = EventFile(path)
    again.append(Started("now", "1"))
    assert list(EventFile(path).events()) == [*story(), Started("now", "1")]
    assert again.dropped == 0


def test_nothing_is_created_before_the_first_event(tmp_path: Path) -> None:
    log = EventFile(tmp_path / "run" / "events.jsonl")
    assert list(log.events()) == []
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_one_json_object_with_the_document_of_a_skill_as_text(
    tmp_path: Path,
) -> None:
    lines = [json.loads(line) for line in written(tmp_path / "e", story()).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[2]["type"] == "begun"
    assert lines[2]["initial"]["skill"].startswith("---\nname: s\n---\n# Übung\r\n")


@shared_folder
@given(st.data())
def test_a_cut_at_any_byte_keeps_a_valid_prefix_that_can_be_continued(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "events.jsonl"
    whole = written(path, story())
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert list(read_log(path)) == story()[:kept]
    assert path.read_bytes() == whole[:cut], "reading changes nothing"
    log = EventFile(path)
    assert log.dropped == cut - (whole[:cut].rfind(b"\n") + 1)
    for event in story()[kept:]:
        log.append(event)
    assert path.read_bytes() == whole


@shared_folder
@given(st.data())
def test_a_changed_byte_before_the_last_line_is_detected(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "events.jsonl"
    whole = bytearray(written(path, story()))
    last = whole.rfind(b"\n", 0, len(whole) - 1)
    place = data.draw(st.integers(0, last - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    path.write_bytes(whole)
    with pytest.raises(StoreError, match=r"events.jsonl, line \d+|(newer|earlier) version"):
        EventFile(path)
    assert path.read_bytes() == bytes(whole)


@shared_folder
@given(st.data())
def test_a_changed_byte_in_the_last_line_is_refused_or_the_line_is_done_again(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "events.jsonl"
    whole = bytearray(written(path, story()))
    last = whole.rfind(b"\n", 0, len(whole) - 1) + 1
    place = data.draw(st.integers(last, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    path.write_bytes(whole)
    try:
        found = list(EventFile(path).events())
    except StoreError:
        return
    assert found == story()[:-1]


@pytest.mark.parametrize("change", ["swap", "remove", "double"])
def test_lines_that_were_moved_removed_or_repeated_are_named(tmp_path: Path, change: str) -> None:
    path = tmp_path / "events.jsonl"
    lines = written(path, story()).splitlines(keepends=True)
    match change:
        case "swap":
            lines[3], lines[4] = lines[4], lines[3]
        case "remove":
            del lines[3]
        case _:
            lines.insert(3, lines[2])
    path.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match=r"line 4: .*Restore .* safe in cache.sqlite"):
        read_log(path)


@pytest.mark.parametrize("line", [b"\0\0\0\0\n", b"[" * 100_000 + b"]" * 100_000 + b"\n"])
def test_a_whole_last_line_that_is_no_json_is_dropped_when_writing_goes_on(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "events.jsonl"
    whole = written(path, story())
    path.write_bytes(whole + line)
    log = EventFile(path)
    assert log.dropped == len(line)
    assert path.read_bytes() == whole


def test_a_record_of_a_newer_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"v":3,"new":"form"}\n', encoding="utf-8")
    with pytest.raises(StoreError, match=r"newer version .*Upgrade"):
        EventFile(path)


def test_a_sound_line_with_unknown_content_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    payload = b'{"type":"timed","move":"m","phase":"p","seconds":null}'
    checksum = hashlib.sha256(b"/1/" + payload).hexdigest()[:16]
    path.write_bytes(b'{"v":2,"seq":1,"sum":"%b",%b\n' % (checksum.encode(), payload[1:]))
    with pytest.raises(StoreError, match="line 1"):
        read_log(path)


def test_two_writers_are_noticed_before_anything_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    one, two = EventFile(path), EventFile(path)
    one.append(Started("now", "1"))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        two.append(Started("later", "1"))
    assert path.read_bytes() == before


def test_a_record_that_cannot_be_written_or_read_is_an_error_with_its_path(tmp_path: Path) -> None:
    log = EventFile(tmp_path / "run" / "events.jsonl")
    (tmp_path / "run").touch()
    with pytest.raises(StoreError, match=r"cannot write .*events.jsonl"):
        log.append(Started("now", "1"))
    with pytest.raises(StoreError, match="cannot read"):
        read_log(tmp_path)


def test_a_full_disk_tears_no_line_and_writing_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventFile(path)
    log.append(Started("now", "1"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, hard))
    try:
        with pytest.raises(StoreError, match="cannot write"):
            log.append(Started("later", "2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append(Started("later", "2"))
    assert list(read_log(path)) == [Started("now", "1"), Started("later", "2")]


def test_the_state_after_reading_is_the_state_after_writing(tmp_path: Path) -> None:
    written(tmp_path / "e", story())
    assert replay(read_log(tmp_path / "e")) == replay(story())


def test_text_that_utf8_cannot_hold_is_replaced_not_lost_with_the_rest() -> None:
    data = codec.codec_of(Reply).encode(Reply(text="a\ud800b"))
    assert codec.codec_of(Reply).decode(data) == Reply(text="a?b")


def test_an_event_that_could_not_be_read_back_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    log = EventFile(path)
    log.append(Timed("step", "total", 1.0))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"Timed is not written.*seconds: should be a valid num"):
        log.append(Timed("step", "total", float("nan")))
    assert path.read_bytes() == before
    log.append(Timed("step", "total", 2.0))
    assert len(read_log(path)) == 2
