"""`skillopt review` and `skillopt report`, as users have them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support_cli import Call, Trained, skillopt

from skillopt.api import open_run, proposals
from skillopt.core.facts import HumanReviewed
from skillopt.store.lock import RunLock
from skillopt.testing.simulator import Simulator


def accepted(folder: Path) -> str:
    """The last proposal that the gate accepted."""
    return next(item.id for item in proposals(folder / "run") if item.accepted)


def test_proposals_are_listed_the_latest_first_with_what_became_of_them(
    trained: Trained, call: Call
) -> None:
    items = proposals(trained.folder / "run")
    done = call("review", "run", cwd=trained.folder)
    assert done.code == 0
    places = [done.out.index(item.id) for item in items]
    assert places == sorted(places)
    assert "accepted" in done.out
    listed = json.loads(call("review", "run", "--json", cwd=trained.folder).out)
    assert [item["id"] for item in listed] == [item.id for item in items]


def test_one_proposal_is_shown_with_evidence_and_changes(trained: Trained, call: Call) -> None:
    about = accepted(trained.folder)
    done = call("review", "run", "--show", about, cwd=trained.folder)
    assert "evidence   " in done.out
    assert "better on  " in done.out
    assert "\n+ - " in done.out
    typo = call("review", "run", "--show", about.replace("0", "O"), cwd=trained.folder)
    assert (typo.code, f"did you mean '{about}'?" in typo.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--accept", "a", "--reject", "b"), "use only one of"),
        (("--file", "new.md"), "--file gives the new skill for --edit"),
        (("--edit", "current"), "there is no terminal to edit on"),
    ],
)
def test_wrong_usage_is_told_and_changes_nothing(
    trained: Trained, call: Call, words: tuple[str, ...], told: str
) -> None:
    before = (trained.folder / "run" / "events.jsonl").read_bytes()
    done = call("review", "run", *words, cwd=trained.folder)
    assert (done.code, told in done.err) == (2, True)
    assert (trained.folder / "run" / "events.jsonl").read_bytes() == before


def test_a_run_that_is_being_trained_is_left_alone(own_copy: Path, call: Call) -> None:
    with RunLock(own_copy / "run"):
        done = call("review", "run", "--reject", accepted(own_copy), cwd=own_copy)
    assert done.code == 1
    assert "is being trained" in done.err
    assert "Stop it first" in done.err


async def test_a_decision_is_measured_recorded_and_told(own_copy: Path) -> None:
    about = accepted(own_copy)
    (own_copy / "new.md").write_text("# Forms\n\n- Fill in the form.\n", encoding="utf-8")
    async with Simulator() as simulator:
        url = f"model.base_url={simulator.url}"
        dry = await skillopt("review", "run", "--reject", about, "--dry-run", url, cwd=own_copy)
        assert dry.code == 0, dry.err
        assert "nothing was recorded" in dry.err
        said = ("--by", "Ann", "--comment", "too special")
        done = await skillopt("review", "run", "--reject", about, *said, url, cwd=own_copy)
        assert "recorded as review 1; current skill: review 1" in done.out
        assert "the test score was that of the skills before" in done.err
        assert "skillopt review run --test" in done.err
        edit = ("--edit", "current", "--file", "new.md", "--if-better", "--json")
        edited = await skillopt("review", "run", *edit, url, cwd=own_copy)
        assert edited.code == 0, edited.err
        told = json.loads(edited.out)
        assert (told["review"], told["verdict"]) == ("review_0002", "edit")
        shown = await skillopt("show", "run", cwd=own_copy)
        assert "taken out by Ann" in shown.out
        tested = await skillopt("review", "run", "--test", "--json", url, cwd=own_copy)
        assert "test" in json.loads(tested.out)["claim"], tested.err
        again = await skillopt("review", "run", "--test", url, cwd=own_copy)
        assert (again.code, "nothing to test again" in again.err) == (1, True)
    with open_run(own_copy / "run") as reader:
        fact = reader.facts[-3]
        assert isinstance(fact, HumanReviewed)
        assert (fact.reviewer, fact.comment, fact.about) == ("Ann", "too special", about)


async def test_skills_that_were_tested_before_are_tested_again_from_the_cache(
    own_copy: Path,
) -> None:
    with open_run(own_copy / "run") as reader:
        initial = reader.skill("initial").render()
    (own_copy / "initial.md").write_text(initial, encoding="utf-8")
    async with Simulator() as simulator:
        url = f"model.base_url={simulator.url}"
        edit = ("--edit", "current", "--file", "initial.md")
        done = await skillopt("review", "run", *edit, url, cwd=own_copy)
    assert done.code == 0, done.err
    assert "test items, all cached: skillopt review run --test" in " ".join(done.err.split())


EDITOR = """\
import sys
from pathlib import Path
path = Path(sys.argv[1])
path.write_text(path.read_text() + "- Always check the form twice.\\n")
"""


async def test_on_a_terminal_a_person_looks_edits_and_confirms(own_copy: Path) -> None:
    (own_copy / "editor.py").write_text(EDITOR, encoding="utf-8")
    async with Simulator() as simulator:
        words = ["-m", "skillopt", "review", "run", f"model.base_url={simulator.url}"]
        screen = await asyncio.to_thread(
            typed,
            [sys.executable, *words],
            # Look at the first proposal and go back; edit the current skill, record it, do not
            # test it; leave.
            "1\rb\r0\ry\rn\r\r",
            own_copy,
            f"{sys.executable} editor.py",
        )
    assert "number of a proposal" in screen
    assert "record this decision?" in screen
    assert "recorded as review 1" in screen
    assert re.search(r"at most \d+ attempts. Do it now", " ".join(screen.split()))
    with open_run(own_copy / "run") as reader:
        assert reader.state.current.skill.render().endswith("- Always check the form twice.\n")


MEANWHILE = """\
import subprocess, sys
from pathlib import Path
path = Path(sys.argv[-1])
path.write_text(path.read_text() + "- Always check the form twice.\\n")
subprocess.run([sys.executable, "-m", "skillopt", "review", "run", *sys.argv[1:-1]], check=True)
"""


async def test_on_a_terminal_an_edit_undoes_nothing_that_was_decided_meanwhile_and_its_text_is_kept(
    own_copy: Path,
) -> None:
    (own_copy / "editor.py").write_text(MEANWHILE, encoding="utf-8")
    about = accepted(own_copy)
    async with Simulator() as simulator:
        url = f"model.base_url={simulator.url}"
        screen = await asyncio.to_thread(
            typed,
            [sys.executable, "-m", "skillopt", "review", "run", url],
            "0\r\r",
            own_copy,
            f"{sys.executable} editor.py --reject {about} {url}",
        )
    said = " ".join(screen.split())
    assert "review 1 is current now" in said
    kept = re.search(r"--edit current --file (\S+\.md)", said)
    assert kept, screen
    text = taken(Path(kept[1]))
    assert text.endswith("- Always check the form twice.\n")
    with open_run(own_copy / "run") as reader:
        assert reader.state.current.origin == "review_0001"
        assert reader.state.current.skill.render() != text


def taken(file: Path) -> str:
    """What is in a file, which is then removed."""
    text = file.read_text(encoding="utf-8")
    file.unlink()
    return text


def typed(command: list[str], keys: str, folder: Path, editor: str) -> str:
    """What a terminal shows of a program when these keys are pressed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "EDITOR": editor, "VISUAL": "", "TERM": "dumb"}
    process = subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    os.write(ours, keys.encode())
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side was closed
            break
        if not piece:
            break
        shown += piece
    assert process.wait() == 0, shown.decode(errors="replace")
    os.close(ours)
    return shown.decode(errors="replace")


def test_the_report_is_written_into_the_run_or_where_it_is_wanted(
    own_copy: Path, call: Call
) -> None:
    done = call("report", "run", cwd=own_copy)
    assert (done.code, done.out) == (0, f"{Path('run/report.html')}\n")
    page = (own_copy / "run" / "report.html").read_text(encoding="utf-8")
    assert "gold in the skill" in page  # it was checked whether it copies items
    assert call("report", "run", "--out", "a/b.html", cwd=own_copy).code == 0
    assert (own_copy / "a" / "b.html").is_file()
    summary = call("report", "run", "--markdown", "--out", "-", cwd=own_copy)
    assert summary.out.startswith(f"### {own_copy.name}: ")
    assert call("report", "run", "--markdown", cwd=own_copy).out == f"{Path('run/report.md')}\n"
    # The run is as it was: the report is not among its files.
    rebuilt = call("show", "run", "--rebuild", cwd=own_copy)
    assert "nothing was missing or damaged" in rebuilt.err


def test_the_report_is_written_without_the_data_and_says_what_it_could_not_check(
    own_copy: Path, call: Call
) -> None:
    (own_copy / "data").rename(own_copy / "elsewhere")
    config = own_copy / "run" / "config.json"
    kept = json.loads(config.read_bytes())
    config.write_text(json.dumps(kept | {"started_in": str(own_copy)}), encoding="utf-8")
    assert call("report", "run", cwd=own_copy).code == 0
    page = (own_copy / "run" / "report.html").read_text(encoding="utf-8")
    assert "was not checked" in page


def test_what_cannot_be_reported_is_told(trained: Trained, call: Call) -> None:
    assert "did you mean run?" in call("report", "rum", cwd=trained.folder).err
    wrong = call("report", "run", "--out", "-", cwd=trained.folder)
    assert (wrong.code, "add --markdown" in wrong.err) == (2, True)
