"""The morning report: short, with evidence, and safe to look at in every format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from support_sleep import MORNING, mined

from skillopt.cli.render import Screen
from skillopt.core.chat import Usage
from skillopt.gates.statistics import Interval
from skillopt_sleep.cli.showing import for_terminal
from skillopt_sleep.evidence import as_json, diagnostics, evidence
from skillopt_sleep.gathering import Gathered
from skillopt_sleep.learning import Lesson, TaskChange, Trial
from skillopt_sleep.models import Allowance
from skillopt_sleep.rendering import as_markdown, render_html, render_markdown
from skillopt_sleep.report import Night

EVIL = "<script>alert(1)</script> \x1b[31m\x9b2J | [link](javascript:x) `tick` # head \u202e ``` "


def lesson(*, accepted: bool = True, text: str = "Name the ticket.") -> Lesson:
    return Lesson(
        target="skill",
        path=Path("/p/.claude/skills/skillopt-sleep-learned/SKILL.md"),
        before="- Be kind.",
        after=f"- Be kind.\n- {text}" if accepted else "- Be kind.",
        split="val",
        score_before=Interval(0.25, 0.1, 0.5),
        score_after=Interval(0.75, 0.5, 0.9),
        gain=Interval(0.5, 0.2, 0.7),
        trials=(
            Trial(
                move="step_0001",
                action="accept_new_best" if accepted else "reject",
                accepted=accepted,
                reason="9 better, 0 worse of 12, p 0.002 <= 0.025",
                before=0.25,
                after=0.75,
                bounded=False,
                edits=(f"- {text}",),
                unmatched=("- Nothing like it",),
            ),
        ),
        tasks=(TaskChange(id="a", intent=text, before=0.0, after=None, answer=text, why=text),),
        n_train=20,
        n_val=12,
        failures=1,
        spent=Usage(10, 900, 100),
    )


def night(*lessons: Lesson, text: str = "Write a mail.") -> Night:
    return Night(
        adopt_command="skillopt-sleep adopt --project here",
        night=7,
        project=Path("/p/it's here"),
        agent="claude",
        started=MORNING,
        ended=MORNING,
        gathered=Gathered(
            sessions=3, sources={"claude": 3}, skipped={"headless": 2}, tasks=(mined("a", text),)
        ),
        practised=(mined("a", text),),
        left_out={"nothing says what a right answer is": 4},
        lessons=lessons,
        spent=Usage(10, 900, 100),
        allowance=Allowance(tokens=5000),
        notes=(text,),
        staging=Path("/p/.skillopt-sleep/staging/20260302-060000"),
    )


def render_text(night: Night) -> str:
    with redirect_stdout(StringIO()) as said:
        Screen().show(*for_terminal(night))
    return said.getvalue()


@pytest.mark.parametrize("render", [render_text, render_markdown, render_html])
def test_a_report_says_what_was_seen_learnt_and_shown_and_how_to_adopt_it(
    render: Callable[[Night], str],
) -> None:
    page = render(night(lesson()))
    for told in ("3 sessions", "2 headless", "0.750", "Name the ticket", "1,000 tokens of 5,000"):
        assert told in page
    assert "skillopt-sleep adopt --project" in page
    assert "9 better, 0 worse of 12" in page.replace("\\", "")
    assert "missing, not wrong" in page
    assert "4: nothing says what a right answer is" in page


def test_a_night_that_changed_nothing_says_so_and_offers_nothing() -> None:
    page = render_text(night(lesson(accepted=False)))
    assert "Nothing changed: no candidate was surely better" in page
    assert "skillopt-sleep adopt" not in page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.found.add(tag)


def test_nothing_from_a_session_becomes_html() -> None:
    page = render_html(night(lesson(text=EVIL), text=EVIL))
    tags = Tags()
    tags.feed(page)
    assert tags.found <= {
        *("html", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ul", "li"),
        *("table", "tr", "th", "td", "pre", "span"),
    }
    assert "<script" not in page
    assert "\x1b" not in page


def test_nothing_from_a_session_becomes_markdown() -> None:
    page = render_markdown(night(lesson(text=EVIL), text=EVIL))
    assert "\x1b" not in page
    assert "\u202e" not in page
    outside = page.split("````diff")[0] + page.split("````")[-1]
    assert not re.search(r"(?<!\\)<script", outside)
    assert not re.search(r"(?<!\\)\]\(javascript", outside)
    for line in outside.splitlines():
        if line.startswith("| "):
            assert line.replace("\\|", "").count("|") in {4, 5}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# head", "\\# head"),
        ("1. item", "1\\. item"),
        ("a\n\n- b", "a \\- b"),
        ("[x](y) <b> `c` |", "\\[x\\]\\(y\\) \\<b\\> \\`c\\` \\|"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text: str, shown: str) -> None:
    assert as_markdown(text) == shown


def test_nothing_from_a_session_drives_the_terminal() -> None:
    page = render_text(night(lesson(text=EVIL), text=EVIL))
    assert "\x1b" not in page
    assert "\x9b" not in page
    assert "\u202e" not in page


def test_the_report_as_data_has_what_users_of_the_original_read() -> None:
    told = as_json(night(lesson()))
    assert {
        *("night", "accepted", "gate_action", "baseline", "candidate", "n_sessions", "n_tasks"),
        *("n_replayed", "edits", "rejected_edits", "gate_trials", "skill_groups", "notes"),
        *("staging_dir", "staged_skills", "adopted"),
    } <= told.keys()
    assert told["edits"] == ["- Name the ticket."]
    assert told["unmatched_edits"] == ["- Nothing like it"]
    assert (told["baseline"], told["candidate"]) == (0.25, 0.75)
    assert as_json(night(lesson(accepted=False)))["rejected_edits"] == ["- Name the ticket."]
    assert as_json(night(replace(lesson(accepted=False), failed="no answer")))["ok"] is False


def test_evidence_is_one_numbered_event_a_line() -> None:
    rows = [json.loads(line) for line in evidence(night(lesson())).splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["event"] for row in rows if row["stage"] == "gate"] == ["trial", "decision"]
    assert rows[0]["event"] == "start"
    assert rows[-1]["event"] == "end"


def test_diagnostics_tell_each_held_out_task() -> None:
    (told,) = json.loads(diagnostics(night(lesson())))["documents"]
    assert told["holdout_detail"][0]["after"] is None
    assert told["unmatched"] == ["- Nothing like it"]


_SHOW = """
import sys
sys.path.insert(0, {tests!r})
from skillopt.cli.render import Screen
from skillopt_sleep.cli.showing import for_terminal
from sleep.test_report import lesson, long_night
Screen().show(*for_terminal(long_night()))
"""


def long_night() -> Night:
    words = "Write a commit message for the new search field of the shop, with the ticket in it"
    command = f"skillopt-sleep adopt --project /home/me/{'a-long-name/' * 8}shop"
    return replace(night(lesson(text=words), text=words), adopt_command=command)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such terminals")
def test_on_a_narrow_terminal_tables_fit_and_commands_stay_whole() -> None:
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    tests = str(Path(__file__).parents[1])
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", _SHOW.format(tests=tests)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=variables,
    ):
        os.close(theirs)
        said = b""
        while part := _read(ours):
            said += part
    os.close(ours)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()
    command = f"  {long_night().adopt_command}"
    assert command in lines
    assert [line for line in lines if len(line) > 80] == [command]
    assert any(line.split() == ["task", "times", "pain", "checked", "by"] for line in lines)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
