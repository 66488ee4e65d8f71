"""Launching a run, watching it, stopping, resuming, reviewing: as the page does it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from support_runs import ROOT
from support_web import Site, dashboard, until, write_story

from skillopt.core.events import Started
from skillopt.core.facts import HumanReviewed
from skillopt.store.events import EventFile, read_log
from skillopt.store.lock import RunLock, at_work


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def site(root: Path) -> Generator[Site, None, None]:
    with dashboard(root) as site:
        yield site


def finished(site: Site, name: str) -> str:
    """A run with simulated models that was launched from the page and is finished."""
    run = str(site.post("launch", {"kind": "simulated", "name": name, "seed": "3"}).json["id"])
    until(lambda: site.get(f"runs/{run}").get("begun") or None)
    ended(site, run)
    return run


def ended(site: Site, run: str) -> None:
    until(lambda: not site.get(f"runs/{run}")["job"]["running"] or None)


def test_a_launched_run_is_watched_stopped_resumed_and_extended(root: Path, site: Site) -> None:
    told = site.post("launch", {"kind": "simulated", "name": "first", "seed": "3"})
    assert told.status == 200, told.body
    run, folder = told.json["id"], root / "first" / "run"

    # Watched from its start: every event of the record comes once, with its position as id.
    seen: list[str] = []
    with site.stream(run=run, after="0") as events:
        for kind, number, data in events:
            if kind == "record":
                seen.append(number)
                if data.get("step"):
                    break
            if kind == "state" and data["status"] == "running" and data["progress"]:
                assert data["progress"]["pid"] != os.getpid()
        assert site.post(f"runs/{run}/stop").status == 200
        for kind, number, data in events:
            if kind == "record":
                seen.append(number)
            if kind == "state" and data["status"] not in {"running", "starting"}:
                break
    head = site.get(f"runs/{run}")["head"]
    assert (head["status"], head["why"]) == ("interrupted", "stopped on request")
    said = [line for line in site.get(f"runs/{run}/log")["lines"] if line["kind"] == "stopped"]
    assert [line["text"].rpartition(": ")[2] for line in said] == ["stopped on request"]
    assert len(seen) == len(set(seen))
    assert len(seen) == len(read_log(folder / "events.jsonl"))
    until(lambda: not site.get(f"runs/{run}")["job"]["running"] or None)
    assert site.post(f"runs/{run}/stop").status == 409

    # Taken up again, by a page that comes back with the last position that it has seen.
    assert site.post(f"runs/{run}/resume").status == 200
    later: list[str] = []
    with site.stream(run=run, after="0", last_event_id=seen[-1]) as events:
        for kind, number, data in events:
            if kind == "record":
                later.append(number)
            if kind == "state" and data["status"] == "finished" and not data["job"]["running"]:
                break
    assert not set(later) & set(seen)
    assert len(seen) + len(later) == len(read_log(folder / "events.jsonl"))

    # More epochs: the run goes on after its last step, also where it had ended early.
    now = site.get(f"runs/{run}")
    before, epochs = now["head"]["steps"], max(step["epoch"] for step in now["steps"])
    tired = now["patience"]["fruitless"] + now["patience"]["most"]
    more = {"epochs": str(epochs + 4), "patience": str(tired)}
    assert site.post(f"runs/{run}/resume", more).status == 200
    until(lambda: not site.get(f"runs/{run}")["job"]["running"] or None)
    assert f"num_epochs: {epochs + 4}" in (root / "first" / "config.yaml").read_text("utf-8")
    assert site.get(f"runs/{run}")["head"]["steps"] >= before


def test_a_decision_is_measured_by_a_process_of_its_own_and_the_final_test_offered(
    site: Site,
) -> None:
    run = finished(site, "decided")
    proposals = site.get(f"runs/{run}/proposals")["proposals"]
    taken = next(each for each in proposals if each["outcome"] == "accepted")
    edit = edited(site, run, "- Take your time.", about=taken["id"])
    assert site.post(f"runs/{run}/review", edit).status == 200
    ended(site, run)
    head = site.get(f"runs/{run}")["head"]
    assert head["current"].startswith("review_"), site.get(f"runs/{run}/log")["lines"][-3:]
    assert "Take your time." in site.get(f"runs/{run}/skill", name="last")["text"]

    # The final test was of the skills before: what it takes is told, and it is repeated.
    lacking = site.get(f"runs/{run}")["untested"]
    assert (lacking["items"], lacking["attempts"] % 60) == (60, 0)
    assert head["claim"]["split"] == "val"
    assert site.post(f"runs/{run}/test").status == 200
    ended(site, run)
    now = site.get(f"runs/{run}")
    assert (now["head"]["claim"]["split"], now["untested"]) == ("test", None)


def edited(site: Site, run: str, line: str, about: str = "") -> dict[str, str]:
    """An edit of the current skill as the page sends it; the line is also its comment."""
    told = site.get(f"runs/{run}/proposals/text", about=about)
    text = f"{told['text']}\n{line}\n"
    return {
        "verdict": "edit",
        "about": about,
        "text": text,
        "base": told["base"],
        "comment": line,
    }


def test_of_two_decisions_at_once_one_is_recorded_and_the_other_refused_or_kept(
    root: Path, site: Site
) -> None:
    with dashboard(root) as second:
        run = finished(site, "contested")
        assert second.run("contested") == run
        places = [site, site, second]
        edits = [edited(site, run, f"- Line of {name}.") for name in ("Ann", "Bob", "Cy")]

        def send(place: Site, edit: dict[str, str]) -> int:
            return place.post(f"runs/{run}/review", edit).status

        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(send, places, edits))
        # One server begins one of them; of two processes, the lock of the run stops one.
        assert sorted(answers) in ([200, 200, 409], [200, 409, 409])
        jobs = [
            (place, edit)
            for place, edit, status in zip(places, edits, answers, strict=True)
            if status == 200
        ]
        for place, _ in jobs:
            ended(place, run)
        record = read_log(root / "contested" / "run" / "events.jsonl")
        (fact,) = (event for event in record if isinstance(event, HumanReviewed))
        assert fact.decision is not None
        assert fact.decision.candidate.skill.render().endswith(f"{fact.comment}\n")
        for place, edit in jobs:
            if edit["comment"] != fact.comment:
                assert kept_text(place, run) == edit["text"]


def kept_text(site: Site, run: str) -> str:
    """What is in the file that a process which failed is said to have left."""
    said = str(site.get(f"runs/{run}")["job"]["said"])
    return Path(said.partition("kept in ")[2].removesuffix(".")).read_bytes().decode()


def test_a_text_that_could_not_be_taken_over_is_kept_and_told(root: Path, site: Site) -> None:
    write_story(root / "nothing-answers")
    run = site.run("nothing-answers")
    edit = edited(site, run, "- Mine.")
    assert site.post(f"runs/{run}/review", edit).status == 200
    ended(site, run)
    assert kept_text(site, run) == edit["text"]


def test_an_edit_that_was_begun_before_another_decision_is_refused(site: Site) -> None:
    run = finished(site, "outrun")
    mine, other = (edited(site, run, line) for line in ("- Mine.", "- Theirs."))
    assert site.post(f"runs/{run}/review", other).status == 200
    ended(site, run)
    told = site.post(f"runs/{run}/review", mine)
    assert told.status == 409
    assert "the skill was changed meanwhile: review 1 is current now" in told.json["error"]
    without = {key: value for key, value in mine.items() if key != "base"}
    assert site.post(f"runs/{run}/review", without).status == 422
    assert "Theirs." in site.get(f"runs/{run}/skill", name="last")["text"]


def test_more_epochs_than_there_can_be_are_refused_before_anything_is_written(
    root: Path, site: Site
) -> None:
    run = finished(site, "longer")
    config = root / "longer" / "config.yaml"
    before, now = config.read_bytes(), site.get(f"runs/{run}")
    done = max(step["epoch"] for step in now["steps"])
    most = now["most_epochs"]
    for wrong in ("-1", "0", "abc", str(done), str(most + 1), "999999999999", True):
        told = site.post(f"runs/{run}/resume", {"epochs": wrong})
        assert (told.status, "epochs" in told.json["error"]) == (422, True), wrong
    assert site.post(f"runs/{run}/resume", {"patience": "-1"}).status == 422
    assert config.read_bytes() == before


def test_a_run_that_ended_for_want_of_patience_trains_on_with_more_of_it(
    site: Site,
) -> None:
    run = finished(site, "tired")
    epochs = max(step["epoch"] for step in site.get(f"runs/{run}")["steps"])

    def go_on(epochs: int, patience: int) -> int:
        more = {"epochs": str(epochs), "patience": str(patience)}
        assert site.post(f"runs/{run}/resume", more).status == 200
        ended(site, run)
        return int(site.get(f"runs/{run}")["head"]["steps"])

    steps = go_on(epochs + 8, 1)
    patience = site.get(f"runs/{run}")["patience"]
    assert patience["fruitless"] >= patience["most"] == 1  # so the page asks for more of it
    assert go_on(epochs + 9, 1) == steps
    assert go_on(epochs + 9, patience["fruitless"] + 1) > steps


def test_what_cannot_be_launched_is_told_before_anything_is_written(root: Path, site: Site) -> None:
    bad = {"kind": "config", "name": "bad", "settings": {"train.num_epochs": "0"}}
    told = site.post("launch", bad)
    assert told.status == 422
    assert "train.num_epochs" in told.json["error"]
    assert not (root / "bad").exists()
    write_story(root / "taken")
    told = site.post("launch", {"kind": "simulated", "name": "taken", "seed": "0"})
    assert told.status == 409
    assert "exists already" in told.json["error"]


def test_a_process_that_fails_at_once_shows_what_it_said(root: Path, site: Site) -> None:
    settings = {"env.name": "custom", "env.data_path": "nowhere.csv", "model.backend": "local"}
    told = site.post("launch", {"kind": "config", "name": "lost", "settings": settings})
    run = told.json["id"]
    lines: list[str] = []
    with site.stream(run=run) as events:
        for kind, _, data in events:
            if kind == "output":
                lines += data["lines"]
            if kind == "state" and data["job"] and not data["job"]["running"]:
                assert data["job"]["code"] == 1
                break
    assert lines[0].startswith("$ skillopt train ")
    until(lambda: "nowhere.csv" in json.dumps(site_output(site, run)) or None)
    told = site.get(f"runs/{run}")
    assert told["status"] == "stopped by an error"
    assert "nowhere.csv" in told["why"]
    assert told["job"]["said"] == told["why"]
    listed = until(
        lambda: next(
            (
                each
                for each in site.get("runs")["runs"]
                if each["id"] == run and each["status"] != "reading"
            ),
            None,
        )
    )
    assert listed["status"] == "stopped by an error"
    assert "nowhere.csv" in listed["why"]


def test_a_run_that_failed_before_its_first_score_is_kept_explained_and_tried_again(
    tmp_path: Path,
) -> None:
    write_story(tmp_path / "story")
    with dashboard(tmp_path) as site:
        site.run("story")
        settings = {"env.name": "custom", "env.data_path": "nowhere.csv", "model.backend": "local"}
        told = site.post("launch", {"kind": "config", "name": "lost", "settings": settings})
        ended(site, str(told.json["id"]))
    with dashboard(tmp_path) as site:  # a later one, which has not started it
        run = site.run("lost")
        card = next(each for each in site.get("runs")["runs"] if each["id"] == run)
        assert card["status"] == "stopped by an error"
        assert card["modified"] >= (tmp_path / "story" / "events.jsonl").stat().st_mtime
        told = site.get(f"runs/{run}")
        assert "nowhere.csv" in told["why"]
        assert site.get(f"runs/{run}/settings")["values"]["env.data_path"] == "nowhere.csv"
        listed = {each["id"]: each["path"] for each in site.get("configs")["configs"]}
        assert listed[told["config"]] == "lost/config.yaml"
        assert told["again"]
        again = site.post(f"runs/{run}/resume")
        assert again.status == 200, again.body
        assert "lost/config.yaml" in again.json["job"]["command"]
        ended(site, run)


def test_while_the_first_skill_is_measured_the_head_has_the_settings_it_was_launched_with(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "new" / "run"
    folder.mkdir(parents=True)
    config = {
        "env": {"name": "custom", "data_path": "rows.csv", "out_root": str(folder)},
        "model": {"target": "simulated-target", "optimizer": "o", "backend": "openai_compatible"},
    }
    (folder.parent / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    with RunLock(folder), dashboard(tmp_path) as site:
        EventFile(folder / "events.jsonl").append(Started("2026-01-01T00:00:00Z", "1"))
        run = site.run("new")
        told = site.get(f"runs/{run}")
        head = told["head"]
        assert not told["begun"]
        assert (head["target"], head["data"], head["simulated"]) == (
            "simulated-target",
            "rows.csv",
            True,
        )
        assert told["since"]
        card = next(each for each in site.get("runs")["runs"] if each["id"] == run)
        assert (card["status"], card["simulated"]) == ("running", True)


def test_more_epochs_are_not_forgotten_when_the_process_ends_before_it_has_kept_them(
    root: Path, site: Site
) -> None:
    folder = write_story(root / "forgetful")
    kept = "env: {name: custom}\ntrain: {num_epochs: 6}\n"
    (folder / "config.yaml").write_text(kept, encoding="utf-8")
    run = site.run("forgetful")
    assert site.post(f"runs/{run}/resume", {"epochs": "12"}).status == 200
    ended(site, run)  # no model answers
    told = site.post(f"runs/{run}/resume").json
    assert told["job"]["command"].endswith(" train.num_epochs=12")
    ended(site, run)
    (folder / "config.json").write_text("{}", encoding="utf-8")  # as by a process that got further
    assert "num_epochs" not in site.post(f"runs/{run}/resume").json["job"]["command"]
    ended(site, run)


def test_a_run_that_is_removed_is_said_to_be_gone(root: Path, site: Site) -> None:
    folder = write_story(root / "removed")
    with site.stream(run=site.run("removed")) as events:
        next(data for kind, _, data in events if kind == "state")
        shutil.rmtree(folder)
        told = next(data for kind, _, data in events if kind == "state")
    assert told["status"] == "no longer there"
    assert str(folder) in told["why"]


def test_a_process_that_was_killed_is_not_said_to_have_given_a_reason(site: Site) -> None:
    told = site.post("launch", {"kind": "simulated", "name": "killed", "seed": "3"}).json
    os.kill(told["job"]["pid"], signal.SIGKILL)
    ended(site, told["id"])
    job = site.get(f"runs/{told['id']}")["job"]
    assert (job["code"], job["said"]) == (-9, "it was killed (signal 9)")


def test_a_decision_is_recorded_with_the_name_of_who_made_it(root: Path, site: Site) -> None:
    run = finished(site, "named")
    edit = edited(site, run, "- Mine.")
    assert site.post(f"runs/{run}/review", {**edit, "by": "x" * 81}).status == 422
    assert site.post(f"runs/{run}/review", {**edit, "by": " Ann "}).status == 200
    ended(site, run)
    record = read_log(root / "named" / "run" / "events.jsonl")
    (fact,) = (event for event in record if isinstance(event, HumanReviewed))
    assert fact.reviewer == "Ann"


def test_a_run_with_a_hidden_password_goes_on_with_what_it_was_started_with(
    root: Path, site: Site
) -> None:
    run, alone = write_story(root / "hidden" / "run"), write_story(root / "alone")
    kept = "train: {num_epochs: 6}\nmodel: {base_url: 'http://me:[redacted]@127.0.0.1:9/v1'}\n"
    for folder in (run, alone):
        (folder / "config.yaml").write_text(kept, encoding="utf-8")
    made = run.parent / "config.yaml"
    made.write_text(f"env: {{name: custom, out_root: {json.dumps(str(run))}}}\n", encoding="utf-8")
    told = site.post(f"runs/{site.run('hidden')}/resume").json
    assert f"train {made} " in told["job"]["command"]
    assert told["job"]["command"].endswith("train.num_epochs=6 train.patience=0")
    told = site.post(f"runs/{site.run('alone')}/resume").json
    assert f"train {alone / 'config.yaml'} " in told["job"]["command"]


def site_output(site: Site, run: str) -> list[str]:
    with site.stream(run=run) as events:
        for kind, _, data in events:
            if kind == "output":
                return list(data["lines"])
    return []


def test_settings_are_checked_as_they_are_typed_and_shown_resolved(site: Site) -> None:
    base = Path(site_root(site)) / "configs" / "mine.yaml"
    base.parent.mkdir()
    base.write_text("# Mine.\ntrain: {num_epochs: 7}\nenv: {name: custom}\n", encoding="utf-8")
    listed = site.get("configs")["configs"]
    config = next(each for each in listed if each["path"].endswith("configs/mine.yaml"))
    assert config["about"] == "Mine."
    told = site.post("resolve", {"config": config["id"], "settings": {}}).json
    assert told["values"]["train.num_epochs"] == 7
    assert "num_epochs: 7" in told["yaml"]
    wrong = {"train.batch_size": "many", "evaluation.gate": "pared", "nonsense": "1"}
    told = site.post("resolve", {"config": config["id"], "settings": wrong}).json
    assert "number" in told["problems"]["train.batch_size"]
    assert "paired" in told["problems"]["evaluation.gate"]
    assert "unknown key" in told["problems"]["nonsense"]


def site_root(site: Site) -> str:
    return str(site.get("session")["root"])


def test_the_extra_of_the_dashboard_brings_what_reads_every_file_that_it_offers() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extra = next(line for line in text.splitlines() if line.startswith("webui = "))
    assert "openpyxl" in extra  # for .xlsx


def test_every_setting_is_offered_with_type_range_and_meaning(site: Site) -> None:
    keys = {each["key"]: each for each in site.get("keys", env="custom")["keys"]}
    epochs = keys["train.num_epochs"]
    assert (epochs["kind"], epochs["least"], epochs["may_change"]) == ("integer", 1, True)
    assert epochs["meaning"].startswith("passes over the train split")
    assert "paired" in keys["evaluation.gate"]["choices"]
    assert keys["env.scorer"]["meaning"]


def test_rows_are_uploaded_estimated_and_checked(root: Path, site: Site) -> None:
    rows = "question,answer\n" + "".join(f"What is {n} + 1?,{n + 1}\n" for n in range(12))
    told = site.post("data?name=mine&filename=rows.csv", raw=rows.encode())
    assert told.status == 200, told.body
    assert (told.json["rows"], told.json["columns"]) == (12, ["question", "answer"])
    settings = {
        "env.name": "custom",
        "env.data_path": json.dumps(told.json["path"]),
        "env.input": "question",
        "env.skill_init": "blank",
        "model.backend": "openai_compatible",
        "model.base_url": "http://127.0.0.1:9/v1",
        "model.target": "m",
        "model.optimizer": "m",
    }
    estimate = site.post("ask/estimate", {"config": "", "settings": settings}).json
    assert estimate["calls"]["low"] <= estimate["calls"]["expected"] <= estimate["calls"]["high"]
    assert estimate["dollars"] is None
    assert set(estimate["unpriced"]) == {"target", "optimizer"}
    check = site.post("ask/check", {"config": "", "settings": settings}).json
    assert {each["verdict"] for each in check["findings"]} <= {"ok", "look", "bad", "left out"}
    assert check["findings"]
    del settings["env.skill_init"]
    with_skill = {"config": "", "settings": settings, "skill": "# Rules\n\n- Be brief.\n"}
    assert site.post("ask/estimate", with_skill).json["calls"] == estimate["calls"]
    assert site.post("ask/check", with_skill).json["findings"]
    refused = site.post("data?name=other&filename=rows.exe", raw=b"MZ")
    assert refused.status == 409
    broken = site.post("data?name=other&filename=rows.json", raw=b"{")
    assert broken.status == 422
    for name, nothing in (("rows.csv", b"question,answer\n"), ("rows.json", b"[]")):
        empty = site.post(f"data?name=other&filename={name}", raw=nothing)
        assert (empty.status, "no rows" in empty.json["error"]) == (422, True)
    assert not (root / "other").exists()


ROWS = b"question,answer\nWhat is 1 + 1?,2\nWhat is 1 + 2?,3\n"


def test_rows_that_are_sent_never_touch_what_is_there(root: Path, site: Site) -> None:
    own, away = root / "own" / "data.csv", root / "away.csv"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    away.write_text("far", encoding="utf-8")
    (root / "linked").mkdir()
    (root / "linked" / "data.csv").symlink_to(away)
    (root / "link").symlink_to(root / "own")
    for name in ("own", "linked", "link"):
        assert site.post(f"data?name={name}&filename=z.csv", raw=ROWS).status == 409
        assert site.post(f"data?name={name}&filename=z.json", raw=b"{").status == 422
    assert own.read_text(encoding="utf-8") == "mine"
    assert away.read_text(encoding="utf-8") == "far"


def test_a_folder_of_rows_belongs_to_the_page_that_sent_them(root: Path, site: Site) -> None:
    first = site.post("data?name=shared&filename=z.csv", raw=ROWS).json["path"]
    assert site.post("data?name=shared&filename=z.csv", raw=ROWS).status == 409
    again = site.post(f"data?name=shared&filename=z.csv&earlier={quote(first)}", raw=ROWS)
    assert again.status == 200, again.body
    second = again.json["path"]
    assert second != first
    other = {"kind": "simulated", "name": "shared", "seed": "0"}
    assert site.post("launch", other).status == 409
    settings = {"env.name": "custom", "env.data_path": json.dumps(second), "train.num_epochs": "0"}
    launch = {"kind": "config", "name": "shared", "settings": settings}
    assert site.post("launch", launch).status == 422
    del settings["train.num_epochs"]
    settings["model.backend"] = "openai_compatible"
    settings["model.base_url"] = "http://127.0.0.1:9/v1"
    assert site.post("launch", launch).status == 200
    assert site.post("launch", launch).status == 409
    assert (root / "shared" / "config.yaml").is_file()


def test_a_password_in_an_address_is_not_shown(site: Site) -> None:
    settings = {"model.base_url": "http://me:hunter22@127.0.0.1:9/v1"}
    told = site.post("resolve", {"config": "", "settings": settings})
    assert told.json["values"]["model.base_url"] == "http://me:[redacted]@127.0.0.1:9/v1"
    assert b"hunter22" not in told.body


def test_a_page_that_is_behind_a_rewritten_record_loads_everything_again(
    root: Path, site: Site
) -> None:
    folder = write_story(root / "rewritten")
    run = site.run("rewritten")
    position = site.get(f"runs/{run}")["position"]
    log = folder / "events.jsonl"
    with site.stream(run=run, after=str(position)) as events:
        first = next(events)
        assert first[0] in {"state", "runs"}
        whole = log.read_bytes()
        log.write_bytes(whole[: whole.index(b"\n") + 1])
        assert any(kind == "reset" for kind, _, _ in events)
    log.write_bytes(whole)
    with site.stream(run=run, after="17") as events:
        assert any(kind == "reset" for kind, _, _ in events)


def test_all_pages_get_what_is_recorded_while_they_look(root: Path, site: Site) -> None:
    folder = write_story(root / "watched")
    run = site.run("watched")
    position = str(site.get(f"runs/{run}")["position"])
    with (
        site.stream(run=run, after=position) as one,
        site.stream(run=run, after=position) as other,
        RunLock(folder),
    ):
        for events in (one, other):
            assert any(kind == "state" for kind, _, _ in events)
        log = EventFile(folder / "events.jsonl")
        log.append(log.events()[0])
        ids = [
            next(number for kind, number, _ in events if kind == "record")
            for events in (one, other)
        ]
    assert ids[0] == ids[1] == str((folder / "events.jsonl").stat().st_size)


def test_runs_go_on_when_the_dashboard_ends_and_the_next_one_can_stop_them(tmp_path: Path) -> None:
    with dashboard(tmp_path) as site:
        told = site.post("launch", {"kind": "simulated", "name": "on", "seed": "1"})
        run = told.json["id"]
        folder = tmp_path / "on" / "run"
        until(lambda: at_work(folder) or None)
    assert at_work(folder)
    with dashboard(tmp_path) as site:
        status = site.get(f"runs/{site.run('on')}")["head"]["status"]
        answer = site.post(f"runs/{run}/stop")
        if status == "running" and answer.status == 409:
            assert not at_work(folder)  # it was finished in the meantime
        until(lambda: not at_work(folder) or None)
        until(lambda: (site.get(f"runs/{run}")["head"]["status"] != "running") or None)


def test_ctrl_c_ends_the_dashboard_also_while_pages_are_open(tmp_path: Path) -> None:
    write_story(tmp_path / "story")
    with dashboard(tmp_path) as site, site.stream(run=site.run("story")) as events:
        next(events)
        site.process.send_signal(signal.SIGINT)
        assert site.process.wait(10) == 0
        assert site.process.stderr is not None
        assert site.process.stderr.read() == ""
