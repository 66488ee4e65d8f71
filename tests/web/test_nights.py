"""Nights of Sleep in the dashboard: shown from their folders, adopted by the command."""

from __future__ import annotations

import json
from pathlib import Path

from support_web import AFTER, BEFORE, NIGHT, dashboard, stage, until

from skillopt_sleep.demo import demo_night
from skillopt_sleep.night import run_night


def test_a_night_is_shown_with_its_report_and_its_proposal_as_a_difference(tmp_path: Path) -> None:
    stage(tmp_path)
    with dashboard(tmp_path) as site:
        (night,) = site.get("sleep")["nights"]
        assert (night["name"], night["verdict"]) == (NIGHT, "Something was learnt.")
        told = site.get(f"sleep/{NIGHT}")
        (file,) = told["files"]
        added = [line for line in file["diff"][0]["lines"] if line["kind"] == "added"]
        assert [piece["text"] for line in added for piece in line["pieces"]] == ["- Name the file."]
        for name in ("..", "x", "%2e%2e%2f", NIGHT[:-1]):
            assert site.ask(f"/api/sleep/{name}").status == 404
        assert site.post("sleep/adopt", {"night": "../../x"}).status == 404
        assert site.post("sleep/dance").status == 404
        assert site.post("sleep/schedule", {"hour": "3; rm", "minute": "0"}).status == 409


def test_the_nights_of_another_project_can_be_shown(tmp_path: Path) -> None:
    (runs := tmp_path / "runs").mkdir()
    (project := tmp_path / "project").mkdir()
    stage(project)
    with dashboard(runs, "--project", str(project)) as site:
        told = site.get("sleep")
        assert told["project"] == str(project)
        assert [night["name"] for night in told["nights"]] == [NIGHT]


def test_a_manifest_cannot_make_the_page_show_any_other_file(tmp_path: Path) -> None:
    folder = stage(tmp_path)
    secret = tmp_path / "id_rsa"
    secret.write_text("PRIVATE", encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["files"][0]["path"] = str(secret)
    manifest["files"].append({"target": "x", "proposed_file": "../../../id_rsa", "path": "x.md"})
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with dashboard(tmp_path) as site:
        assert "PRIVATE" not in json.dumps(site.get(f"sleep/{NIGHT}"))


def test_a_night_is_adopted_and_taken_back_from_the_page(tmp_path: Path) -> None:
    stage(tmp_path)
    document = tmp_path / "CLAUDE.md"
    with dashboard(tmp_path) as site:
        until(lambda: site.get("sleep")["nights"][0]["waiting"] == ["memory"] or None)
        told = site.post("sleep/adopt", {"night": NIGHT})
        assert told.status == 200, told.body
        assert document.read_bytes() == AFTER
        assert site.get("sleep")["nights"][0]["waiting"] == []
        assert site.post("sleep/rollback").status == 200
        assert document.read_bytes() == BEFORE
        refused = site.post("sleep/rollback")
        assert refused.status == 409
        assert refused.json["error"]


def test_the_tasks_that_a_night_has_mined_are_shown(tmp_path: Path) -> None:
    settings, bench = demo_night(tmp_path)
    night = run_night(settings, bench)
    assert night.staging is not None
    with dashboard(settings.project) as site:
        told = site.get(f"sleep/{night.staging.name}")
    assert len(told["tasks"]) == len(night.gathered.tasks)
    assert all(task["intent"] for task in told["tasks"])
