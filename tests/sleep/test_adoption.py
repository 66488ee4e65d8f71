"""Adoption is all or nothing, and what was adopted can be taken back to the last byte."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sleep.support_adoption import EVENING, StoppingDisk, night, proposals, settings_in, tree

from skillopt.errors import SkilloptError, StoreError
from skillopt_sleep.adoption import Only, Outcome, adopt, pending, rollback
from skillopt_sleep.documents import Document
from skillopt_sleep.errors import NothingToAdopt, RefusedChange
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.staging import digest, make_known, read_night, stage
from skillopt_sleep.targets import check_allowed
from skillopt_sleep.transaction import (
    Receipt,
    Recovery,
    one_at_a_time,
    receipts,
    records_of,
    recover,
)
from skillopt_sleep.values import ProposedFile

SUPPORT = Path(__file__).parent / "support_adoption.py"
USER = b"# Rules of mine\r\n\r\n\r\nkeep   this\r\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = settings_in(tmp_path)
    memory = made.project / "CLAUDE.md"
    memory.write_bytes(USER)
    memory.chmod(0o640)
    return made


def recovered(settings: Settings) -> list[Recovery]:
    return recover(records_of(settings), lambda path: check_allowed(settings, path))


def receipt_of(outcome: Outcome) -> Receipt:
    assert outcome.receipt is not None
    return outcome.receipt


def rules(settings: Settings) -> list[str]:
    paths = [
        settings.project / ".claude" / "skills" / "skillopt-sleep-learned" / "SKILL.md",
        settings.project / "CLAUDE.md",
    ]
    there = [path for path in paths if path.exists()]
    return [rule for path in there for rule in Document.parse(path.read_bytes()).rules]


def test_a_night_is_adopted_and_taken_back_to_the_last_byte(settings: Settings) -> None:
    before = tree(settings.project)
    night(settings)
    done = adopt(settings)
    assert rules(settings) == ["Run the tests. (skill)", "Run the tests. (memory)"]
    memory = settings.project / "CLAUDE.md"
    assert memory.read_bytes().startswith(USER)
    assert stat.S_IMODE(memory.stat().st_mode) == 0o640
    assert done.waiting == ()
    adopted = tree(settings.project)
    memory.chmod(0o600)
    assert receipt_of(rollback(settings)).undoes == receipt_of(done).name
    assert tree(settings.project) == before
    assert adopted != before
    with pytest.raises(NothingToAdopt, match="nothing was adopted"):
        rollback(settings)
    with pytest.raises(NothingToAdopt, match="taken back already"):
        rollback(settings, receipt_of(done).name)
    assert pending(settings) == []


def test_why_an_adoption_of_an_earlier_version_is_not_taken_back_is_told_with_its_copies(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    copies = settings.project / ".skillopt-sleep/staging/20260101-031700/backup"
    copies.mkdir(parents=True)
    (copies / "SKILL.md").write_text("as it was\n")
    before = tree(settings.project)
    with pytest.raises(NothingToAdopt) as told:
        rollback(settings)
    assert str(told.value).endswith(f"copy back by hand what you want from {copies}")
    assert "\n" not in str(told.value)
    assert tree(settings.project) == before


def test_a_night_that_was_taken_back_can_be_adopted_again_by_name(settings: Settings) -> None:
    folder = night(settings)
    adopt(settings)
    after = tree(settings.project)
    rollback(settings)
    adopt(settings, staging=folder)
    assert tree(settings.project) == after


def test_adoptions_are_taken_back_in_turn(settings: Settings) -> None:
    states = [tree(settings.project)]
    for minute in (0, 1):
        night(settings, f"Rule {minute}.", minute=minute)
        adopt(settings, now=EVENING + timedelta(minutes=minute))
        states.append(tree(settings.project))
    first = receipts(records_of(settings))[-1]
    with pytest.raises(RefusedChange, match="take that back first"):
        rollback(settings, first.name)
    with pytest.raises(NothingToAdopt, match="there is no adoption x"):
        rollback(settings, "x")
    rollback(settings)
    assert tree(settings.project) == states[1]
    rollback(settings)
    assert tree(settings.project) == states[0]


def test_only_documents_that_changed_are_staged_and_adopted(settings: Settings) -> None:
    (skill, _) = proposals(settings)
    unchanged = ProposedFile(
        target="memory",
        path=settings.project / "CLAUDE.md",
        root=settings.project,
        before=USER,
        after=USER,
    )
    folder = stage(
        settings.project,
        [skill, unchanged],
        {},
        accepted=True,
        now=EVENING,
        state=home_of(settings),
    )
    assert [file.target for file in read_night(folder).files] == ["skill"]
    (settings.project / "CLAUDE.md").write_text("edited by hand", encoding="utf-8")
    adopt(settings)
    assert rules(settings) == ["Run the tests. (skill)"]
    assert (settings.project / "CLAUDE.md").read_text(encoding="utf-8") == "edited by hand"


def test_our_files_are_kept_out_of_git_and_away_from_others(settings: Settings) -> None:
    night(settings)
    own = settings.project / ".skillopt-sleep"
    assert (own / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    adopt(settings)
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", settings.project], check=True)
        told = subprocess.run(
            ["git", "-C", settings.project, "status", "--short", "-uall"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert ".skillopt-sleep" not in told.stdout


def test_a_rejected_night_hides_no_accepted_one(settings: Settings) -> None:
    accepted = night(settings)
    rejected = night(settings, "Worse.", minute=5, accepted=False)
    assert read_night(rejected).files == ()
    assert not list(rejected.glob("proposed*"))
    assert [waiting.night.folder for waiting in pending(settings)] == [accepted]
    assert receipt_of(adopt(settings)).night == accepted.name
    with pytest.raises(NothingToAdopt, match="no night waits"):
        adopt(settings)
    with pytest.raises(NothingToAdopt, match="proposes nothing"):
        adopt(settings, staging=rejected)


def test_a_newer_accepted_night_replaces_older_proposals_for_the_same_file(
    settings: Settings,
) -> None:
    older = night(settings, "Old.")
    (skill, _) = proposals(settings, "New.")
    stage(
        settings.project,
        [skill],
        {},
        accepted=True,
        now=EVENING + timedelta(minutes=1),
        state=home_of(settings),
    )
    newest, oldest = pending(settings)
    assert [file.target for file in newest.files] == ["skill"]
    assert (oldest.night.folder, [file.target for file in oldest.files]) == (older, ["memory"])
    assert adopt(settings).waiting == (oldest,)
    adopt(settings)
    assert rules(settings) == ["New. (skill)", "Old. (memory)"]
    assert pending(settings) == []


def test_nights_of_one_second_are_kept_apart_and_in_order(settings: Settings) -> None:
    names = [night(settings, f"Rule {number}.").name for number in range(12)]
    assert len(set(names)) == 12
    assert pending(settings)[0].night.name == names[-1]


def test_a_document_that_was_edited_since_the_night_is_not_overwritten(
    settings: Settings,
) -> None:
    night(settings)
    (settings.project / "CLAUDE.md").write_text("mine, newer", encoding="utf-8")
    before = tree(settings.project)
    with pytest.raises(RefusedChange, match="edited since the night"):
        adopt(settings)
    assert tree(settings.project) == before


def test_a_document_that_was_edited_since_the_adoption_is_not_rolled_back(
    settings: Settings,
) -> None:
    night(settings)
    adopt(settings)
    (settings.project / "CLAUDE.md").write_text("mine, newer", encoding="utf-8")
    before = tree(settings.project)
    with pytest.raises(RefusedChange, match="edited since the adoption"):
        rollback(settings)
    assert tree(settings.project) == before


def test_a_proposal_that_was_changed_after_the_night_is_refused(settings: Settings) -> None:
    folder = night(settings)
    (folder / "proposed_CLAUDE.md").write_text("never measured", encoding="utf-8")
    with pytest.raises(RefusedChange, match="changed after the night"):
        adopt(settings)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("path", "/etc/cron.d/evil", "outside of"),
        ("path", "{project}/.git/hooks/pre-commit", "not among the files"),
        ("path", "{project}/../other/CLAUDE.md", "no absolute path"),
        ("path", "CLAUDE.md", "no absolute path"),
        ("proposed_file", "../../../CLAUDE.md", "no file of this night"),
    ],
)
def test_a_manifest_cannot_lead_out_of_the_documents(
    settings: Settings, key: str, value: str, why: str
) -> None:
    folder = night(settings)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"][1][key] = value.format(project=settings.project)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    before = tree(settings.project)
    with pytest.raises(RefusedChange, match="changed after the night"):
        adopt(settings)
    make_known(folder, path.read_bytes(), settings.project, home_of(settings))
    with pytest.raises(RefusedChange, match=why):
        adopt(settings)
    manifest["files"][1]["root"] = "/"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    make_known(folder, path.read_bytes(), settings.project, home_of(settings))
    with pytest.raises(RefusedChange):
        adopt(settings)
    assert tree(settings.project) == before
    assert not (settings.project.parent / "other").exists()


def test_a_damaged_manifest_and_one_of_another_version_say_so(settings: Settings) -> None:
    folder = night(settings)
    (folder / "manifest.json").write_text('{"schema_version": 2}', encoding="utf-8")
    with pytest.raises(StoreError, match="written by another version"):
        adopt(settings, staging=folder)
    with pytest.raises(NothingToAdopt):
        adopt(settings)
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match="damaged"):
        adopt(settings)
    (folder / "manifest.json").unlink()
    assert pending(settings) == []
    with pytest.raises(StoreError, match="is no night"):
        adopt(settings, staging=folder)


def test_a_night_of_another_project_is_refused(settings: Settings, tmp_path: Path) -> None:
    folder = night(settings)
    other = settings_in(tmp_path / "other")
    with pytest.raises(RefusedChange, match="is a night of"):
        adopt(other, staging=folder)


def test_files_that_became_links_or_got_a_second_name_are_refused(settings: Settings) -> None:
    night(settings)
    memory = settings.project / "CLAUDE.md"
    os.link(memory, settings.project / "second.md")
    with pytest.raises(RefusedChange, match="hard links"):
        adopt(settings)
    memory.unlink()
    memory.symlink_to("second.md")
    with pytest.raises(RefusedChange, match="has become a link"):
        adopt(settings)
    own = settings.project / ".skillopt-sleep"
    own.rename(settings.project.parent / "moved")
    own.symlink_to("../moved")
    with pytest.raises(RefusedChange, match="symbolic link"):
        adopt(settings)


def fan_out(settings: Settings) -> Path:
    """A night that proposes skill, memory, and two skills of their own."""
    more: list[ProposedFile] = []
    for name in ("http", "lint"):
        path = settings.project / ".claude" / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"# old\n")
        more.append(
            ProposedFile(
                target=name, path=path, root=settings.project, before=b"# old\n", after=b"# new\n"
            )
        )
    files = [*proposals(settings), *more]
    return stage(settings.project, files, {}, accepted=True, now=EVENING, state=home_of(settings))


def test_a_night_of_several_skills_is_adopted_in_parts(settings: Settings) -> None:
    folder = fan_out(settings)
    assert (folder / "proposed_SKILL.http.md").read_bytes() == b"# new\n"
    with pytest.raises(RefusedChange, match="http, lint"):
        adopt(settings)
    with pytest.raises(RefusedChange, match="did you mean 'lint'"):
        adopt(settings, targets=["lnt"])
    assert [file.target for file in adopt(settings, targets=["lint"]).files] == ["lint"]
    (waiting,) = pending(settings)
    assert [file.target for file in waiting.files] == ["skill", "memory", "http"]
    assert [file.target for file in adopt(settings, targets=Only.SKILLS).files] == ["http"]
    with pytest.raises(NothingToAdopt, match="nothing for skills besides the managed one"):
        adopt(settings, targets=Only.SKILLS)
    adopt(settings, targets=Only.PAIR)
    assert pending(settings) == []
    with pytest.raises(NothingToAdopt, match="in place already"):
        adopt(settings, staging=folder, targets=["http"])


def test_two_names_of_one_file_are_refused(settings: Settings) -> None:
    same = proposals(settings)[1]
    twice = [same, replace(same, target="other")]
    stage(settings.project, twice, {}, accepted=True, now=EVENING, state=home_of(settings))
    with pytest.raises(RefusedChange, match="would be one file"):
        adopt(settings, targets=["memory", "other"])


def test_two_processes_do_not_adopt_at_once_and_a_dead_one_holds_nothing(
    settings: Settings,
) -> None:
    night(settings)
    assert settings.state_dir
    with one_at_a_time(settings.state_dir), pytest.raises(StoreError, match="another process"):
        adopt(settings)
    lock = settings.state_dir / "adopting" / ".lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "import os, sys; from pathlib import Path\n"
        "from skillopt_sleep.transaction import one_at_a_time\n"
        "with one_at_a_time(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", script, settings.state_dir], check=False)
    assert dead.returncode == -signal.SIGKILL
    adopt(settings)


def steps_of(action: str, settings: Settings) -> int:
    """How many steps the action takes on the disk."""
    disk = StoppingDisk(0, "", lambda: None)
    if action == "adopt":
        adopt(settings, disk=disk)
    else:
        rollback(settings, disk=disk)
    return disk.steps


@pytest.mark.parametrize("action", ["adopt", "rollback"])
@pytest.mark.parametrize("moment", ["half", "after"])
def test_an_error_at_any_step_leaves_everything_as_it_was(
    action: str, moment: str, tmp_path: Path
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    step = 0
    for step in range(1, 100):
        settings = prepared(tmp_path / str(step), action)
        before = tree(settings.project)
        disk = StoppingDisk(step, moment, full)
        try:
            (adopt if action == "adopt" else rollback)(settings, disk=disk)
        except SkilloptError:
            assert tree(settings.project) == before, step
            (adopt if action == "adopt" else rollback)(settings)
        assert rules(settings) == ([] if action == "rollback" else ["A. (skill)", "A. (memory)"])
        if disk.steps < step:
            break
    assert 9 < step < 99


def prepared(folder: Path, action: str) -> Settings:
    settings = settings_in(folder)
    (settings.project / "CLAUDE.md").write_bytes(USER)
    night(settings, "A.")
    if action == "rollback":
        adopt(settings, now=EVENING)
    return settings


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
@pytest.mark.parametrize("action", ["adopt", "rollback"])
def test_a_kill_at_any_step_is_recovered_from(action: str, tmp_path: Path) -> None:
    steps = steps_of(action, prepared(tmp_path / "count", action))
    assert steps >= 9
    before = tree(prepared(tmp_path / "before", action).project)
    for step in range(1, steps + 1):
        for moment in ("half", "after"):
            prepared(tmp_path / f"{step}-{moment}", action)
    done = subprocess.run(
        [sys.executable, SUPPORT, action, tmp_path, str(steps)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SUPPORT.parents[1:3]))},
    )
    outcomes = [line.split() for line in done.stdout.splitlines()]
    assert len(outcomes) == 2 * steps
    final = 0
    for step, moment, status in outcomes:
        assert int(status) == signal.SIGKILL, (step, moment)
        settings = settings_in(tmp_path / f"{step}-{moment}")
        done_before = len(receipts(records_of(settings)))
        recovered(settings)
        assert recovered(settings) == []
        if len(receipts(records_of(settings))) == (1 if action == "adopt" else 2):
            assert done_before == len(receipts(records_of(settings)))
            final += 1
        else:
            assert tree(settings.project) == before, (step, moment)
            (adopt if action == "adopt" else rollback)(settings)
        assert rules(settings) == ([] if action == "rollback" else ["A. (skill)", "A. (memory)"])
        assert not list(settings.project.rglob("*.skillopt-part")), (step, moment)
    assert final >= 2


def test_a_file_that_was_edited_after_the_kill_is_left_and_its_copy_is_kept(
    tmp_path: Path,
) -> None:
    settings = prepared(tmp_path / "1-after", "adopt")
    memory = settings.project / "CLAUDE.md"

    class Edited(StoppingDisk):
        def write(self, path: Path, data: bytes, mode: int | None = None) -> None:
            super().write(path, data, mode)
            if path == memory:
                memory.write_bytes(b"edited in between")

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RefusedChange):
        adopt(settings, disk=Edited(0, "", full))
    assert memory.read_bytes() == b"edited in between"
    (conflict,) = records_of(settings).iterdir()
    assert [path.read_bytes() for path in conflict.glob("before-*CLAUDE.md")] == [USER]
    assert rules(settings) == []


def test_what_comes_with_a_clone_is_neither_recovered_nor_taken_back(settings: Settings) -> None:
    hook = settings.project / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(parents=True)
    victim = settings.project / "notes.txt"
    victim.write_bytes(b"mine")
    script = b"#!/bin/sh\n"
    files = [
        {"path": str(hook), "sha256_before": digest(script), "backup": "x", "mode": 0o755},
        {"path": str(victim), "sha256_before": "", "sha256_after": digest(b"mine")},
    ]
    journal = {
        "kind": "adopt",
        "name": "X",
        "at": "2030-01-01T00:00:00Z",
        "process": 1,
        "files": [{"target": "memory", "sha256_after": "", **file} for file in files],
    }
    cloned = settings.project / ".skillopt-sleep" / "adoptions" / "X"
    ours = records_of(settings) / "X"
    for folder in (cloned, ours):
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(script)
        (folder / "journal.json").write_text(json.dumps(journal), encoding="utf-8")
    before = tree(settings.project)
    for action in (adopt, rollback):
        with pytest.raises(RefusedChange, match="not among the files"):
            action(settings)
    shutil.rmtree(ours)
    for action in (adopt, rollback):
        with pytest.raises(NothingToAdopt):
            action(settings)
    (cloned / "journal.json").rename(cloned / "receipt.json")
    with pytest.raises(NothingToAdopt):
        rollback(settings)
    assert tree(settings.project) == before


def test_a_journal_removes_no_folder_that_its_file_is_not_in(settings: Settings) -> None:
    folder = records_of(settings) / "X"
    folder.mkdir(parents=True)
    empty = settings.project / "empty"
    empty.mkdir()
    file = {
        "target": "memory",
        "path": str(settings.project / "CLAUDE.md"),
        "sha256_before": digest(USER),
        "sha256_after": "",
        "made_folders": [str(empty)],
    }
    journal = {"kind": "adopt", "name": "X", "at": "2030-01-01T00:00:00Z", "process": 1}
    text = json.dumps({**journal, "files": [file]})
    (folder / "journal.json").write_text(text, encoding="utf-8")
    with pytest.raises(RefusedChange, match="names folders"):
        adopt(settings)
    assert empty.is_dir()


def test_a_night_that_this_user_did_not_make_is_not_adopted(
    settings: Settings, tmp_path: Path
) -> None:
    folder = night(settings)
    stranger = settings.model_copy(update={"state_dir": tmp_path / "another"})
    before = tree(settings.project)
    assert pending(stranger) == []
    with pytest.raises(NothingToAdopt):
        adopt(stranger)
    with pytest.raises(RefusedChange, match="is not known in"):
        adopt(stranger, staging=folder)
    assert tree(settings.project) == before
    adopt(settings)


def test_memory_of_all_projects_is_written_only_where_the_settings_say_so(tmp_path: Path) -> None:
    settings, home = settings_in(tmp_path, place="home"), tmp_path / "home"
    night(settings)
    with pytest.raises(RefusedChange, match="--place home"):
        adopt(settings.model_copy(update={"place": "project"}), home=home)
    adopt(settings, home=home)
    assert (home / ".claude" / "CLAUDE.md").is_file()


def test_what_is_kept_of_the_user_is_closed_to_others(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, state_dir=tmp_path / "user" / ".skillopt-sleep")
    night(settings)
    own = (settings.project / ".skillopt-sleep", home_of(settings))
    for folder in own:
        folder.chmod(0o755)
    night(settings, minute=1)
    adopt(settings)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in own] == [0o700, 0o700]
    kept = [path for path in records_of(settings).rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
