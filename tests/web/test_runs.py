"""What the page is told of runs: listed, opened, damaged, large, many."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest
from support_runs import Job, make_data
from support_store import INITIAL, measured
from support_web import Site, dashboard, until, write_story

from skillopt.core.events import Begun
from skillopt.store.events import EventFile
from skillopt.testing.records import LargeRecord
from skillopt.testing.simulator import Simulator
from skillopt_webui.runs import Catalogue, summary_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, one written by hand, and damaged ones."""
    root = tmp_path_factory.mktemp("runs")

    async def train() -> None:
        async with Simulator(seed=1) as sim:
            data = make_data(root / "data")
            await Job(url=sim.url, data=data, out=root / "trained", epochs=1).here()

    asyncio.run(train())
    write_story(root / "story")
    torn = write_story(root / "torn") / "events.jsonl"
    torn.write_bytes(torn.read_bytes()[:-40])
    changed = write_story(root / "changed") / "events.jsonl"
    changed.write_bytes(changed.read_bytes().replace(b"Shout", b"Whisp", 1))
    old = root / "old"
    old.mkdir()
    (old / "events.jsonl").write_text('{"v":1,"seq":1}\n', encoding="utf-8")
    (root / "empty").mkdir()
    (root / "empty" / "events.jsonl").touch()
    huge = root / "huge"
    huge.mkdir()
    (huge / "events.jsonl").write_bytes(b"{" + b"x" * (8 << 20))
    return root


@pytest.fixture(scope="module")
def site(root: Path) -> Generator[Site, None, None]:
    with dashboard(root) as site:
        until(lambda: all(run["status"] != "reading" for run in site.get("runs")["runs"]) or None)
        yield site


def cards(site: Site) -> dict[str, dict[str, object]]:
    """All runs of the list, once each of them was read."""

    def read() -> dict[str, dict[str, object]] | None:
        found = {run["name"]: run for run in site.get("runs")["runs"]}
        return None if any(run["status"] == "reading" for run in found.values()) else found or None

    return until(read)


def test_every_run_is_listed_with_how_it_stands(site: Site) -> None:
    status = {name: card["status"] for name, card in cards(site).items()}
    assert status == {
        "trained": "finished",
        "story": "crashed",
        "torn": "crashed",
        "changed": "unreadable",
        "old": "old format",
        "empty": "not begun",
        "huge": "unreadable",
    }
    assert "line 7" in str(cards(site)["changed"]["why"])


def test_a_run_in_the_list_tells_models_scores_with_intervals_and_cost(site: Site) -> None:
    card = cards(site)["trained"]
    assert (card["benchmark"], card["target"], card["simulated"]) == (
        "custom",
        "simulated-target",
        True,
    )
    claim, after = card["claim"], card["after"]
    assert isinstance(claim, dict)
    assert isinstance(after, dict)
    assert claim["low"] < claim["mean"] < claim["high"]
    assert 0 <= after["low"] <= after["mean"] <= after["high"] <= 1
    assert card["calls"]
    assert card["dollars"] is None  # nobody knows the price: unknown, not 0


def test_what_cannot_be_read_says_why_when_it_is_opened(site: Site) -> None:
    for name in ("changed", "old", "empty", "huge"):
        told = site.get(f"runs/{site.run(name)}")
        status = "not begun" if name == "empty" else "unreadable"
        assert (told["begun"], told["status"]) == (False, status)
        assert told["why"]


def test_a_run_without_a_candidate_has_a_score_and_no_lift(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    EventFile(folder / "events.jsonl").append(Begun(measured(INITIAL, "initial_skill", 0, 1.0)))
    told = summary_of(folder)
    assert (told["claim"], told["after"] is None) == (None, False)


def test_a_torn_last_line_is_left_out(site: Site) -> None:
    whole, torn = (site.get(f"runs/{site.run(name)}") for name in ("story", "torn"))
    assert [step["move"] for step in torn["steps"]] == [
        step["move"] for step in whole["steps"][:-1]
    ]


def test_the_first_screen_has_claim_scores_decisions_cost_and_the_last_change(site: Site) -> None:
    told = site.get(f"runs/{site.run('trained')}")
    assert told["head"]["claim"]["sentence"].startswith("+")
    assert told["steps"][0]["kind"] == "baseline"
    assert {"accepted", "rejected", "skipped"} & {step["outcome"] for step in told["steps"]}
    accepted = [step for step in told["steps"] if step["outcome"] == "accepted"]
    assert told["change"]["position"] == accepted[-1]["position"]
    assert told["change"]["detail"]["diff"][0]["lines"]
    assert {role["name"] for role in told["cost"]["roles"]} == {"target", "optimizer"}
    assert told["progress"] is None


def test_any_step_can_be_opened_with_its_evidence_and_proposals(site: Site) -> None:
    run = site.run("story")
    told = site.get(f"runs/{run}/steps/2")
    assert told["view"]["move"] == "step_0002"
    assert told["view"]["evidence"]["reason"] == "1 of 2 better"
    assert [each["fate"] for each in told["proposals"]][:1] == ["applied"]
    refused = site.ask(f"/api/runs/{run}/steps/99")
    assert refused.status == 422
    assert "no move 99" in refused.json["error"]


def test_a_skill_is_told_with_origins_versions_and_word_level_changes(site: Site) -> None:
    run = site.run("story")
    told = site.get(f"runs/{run}/skill", name="step_0002", against="initial")
    assert "Answer in capitals" in told["text"]
    origins = {line["text"].strip(): line["origin"] for line in told["blame"]["lines"]}
    assert origins["- Answer in capitals."]["move"] == "step_0002"
    assert [version["name"] for version in told["versions"]][:2] == ["initial_skill", "step_0002"]
    added = [line for file in told["diff"] for line in file["lines"] if line["kind"] == "added"]
    assert "".join(piece["text"] for piece in added[-1]["pieces"]) == "- Answer in capitals."


def test_a_skill_is_exported_as_a_package_that_agents_can_find(site: Site) -> None:
    run = site.run("trained")
    packed = site.ask(f"/api/runs/{run}/skill.zip?name=best")
    with zipfile.ZipFile(io.BytesIO(packed.body)) as archive:
        (name,) = archive.namelist()
        text = archive.read(name).decode()
    assert name.endswith("/SKILL.md")
    assert text.startswith("---\nname: ")
    loaded = site.ask(f"/api/runs/{run}/skill.md?name=best").body.decode()
    assert text.endswith(loaded)


def test_items_tell_each_outcome_and_an_attempt_all_that_was_said(site: Site) -> None:
    run = site.run("story")
    table = site.get(f"runs/{run}/items")
    names = [column["name"] for column in table["columns"]]
    row = next(row for row in table["rows"] if row["task"] == "v1")
    assert dict(zip(names, row["cells"], strict=True))["step_0002"] == "1"
    assert {row["course"] for row in table["rows"]} >= {"fixed"}
    every = site.get(f"runs/{run}/items", all="1")
    assert len(every["columns"]) > len(names)
    told = site.get(f"runs/{run}/attempts", task="a", skill=["initial", "step_0002"])
    first = told["sides"][0]["attempts"]
    assert [message["role"] for message in first[0]["messages"]] == ["user", "assistant"]
    assert first[-1]["files"] == [{"path": "out/x.txt", "size": 4, "text": "left"}]
    assert first[-1]["feedback"] == "format: no"


def test_runs_are_compared_and_one_that_cannot_be_read_does_not_hide_the_others(site: Site) -> None:
    runs = [*(site.run(name) for name in ("trained", "story", "changed")), "gone"]
    told = site.get("compare", run=runs)["runs"]
    assert [bool(each.get("problem")) for each in told] == [False, False, True, True]
    assert told[0]["steps"][0]["best"]["n"] == 30
    files = site.get("compare/diff", run=runs[:2])["files"]
    assert files[0]["path"] == "SKILL.md"


def test_settings_are_told_without_secrets(root: Path, site: Site) -> None:
    told = site.get(f"runs/{site.run('trained')}/settings")
    assert told["values"]["model.target"] == "simulated-target"
    assert "model.target" in told["changed"]
    assert "train.use_meta_skill" not in told["changed"]
    config = root / "story" / "config.json"
    config.write_text(
        json.dumps(
            {"env.name": "custom", "env.note": "sk-abcdefgh12345678", "env.token": "hidden!"}
        ),
        encoding="utf-8",
    )
    shown = json.dumps(site.get(f"runs/{site.run('story')}/settings"))
    assert "sk-abcdefgh12345678" not in shown
    assert "hidden!" not in shown


def test_the_record_is_told_line_by_line(site: Site) -> None:
    lines = site.get(f"runs/{site.run('story')}/log")["lines"]
    assert lines[0]["kind"] == "started"
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)


def test_a_folder_whose_name_is_no_text_is_a_run_like_others(tmp_path: Path) -> None:
    write_story(tmp_path / "story")
    write_story(tmp_path / os.fsdecode(b"not \xff utf-8"))
    with dashboard(tmp_path) as site:
        assert site.run("story")
        run = site.run("not \ufffd utf-8")
        told = site.get(f"runs/{run}")
        assert (told["begun"], told["name"]) == (True, "not \ufffd utf-8")
        assert site.post(f"runs/{run}/resume").status == 409  # its settings were not kept
        with site.stream(run=run, after="0") as events:
            assert any(kind == "record" for kind, _, _ in events)


def test_a_run_that_fails_in_an_unexpected_way_is_a_row_that_says_so(tmp_path: Path) -> None:
    write_story(tmp_path / "good")
    write_story(tmp_path / "odd")

    def read(folder: Path) -> dict[str, object]:
        if folder.name == "odd":
            raise LookupError("nobody has thought of this")
        return summary_of(folder)

    catalogue = Catalogue(tmp_path, read)
    catalogue.scan()
    while catalogue.read_some():
        pass
    shown = {card.name: card.shown() for card in catalogue.cards()}
    assert shown["good"]["status"] == "crashed"
    assert shown["odd"]["status"] == "unreadable"
    assert "nobody has thought of this" in str(shown["odd"]["why"])


def test_unknown_addresses_are_told_and_pages_of_views_are_the_page(site: Site) -> None:
    assert site.ask("/api/nothing").status == 404
    for path in ("/", "/run/x/steps/3", "/launch", "/compare?run=a"):
        assert b"<!doctype html>" in site.ask(path).body
    assert (
        site.ask("/plotly.js", headers={"Accept-Encoding": "gzip"}).headers["content-encoding"]
        == "gzip"
    )


def test_a_long_record_is_opened_whole(tmp_path: Path) -> None:
    LargeRecord(tmp_path / "long", steps=200, train=4, val=6).write()
    with dashboard(tmp_path) as site:
        run = site.run("long")
        told = site.get(f"runs/{run}")
        assert len(told["steps"]) == 202
        assert len(site.get(f"runs/{run}/items")["columns"]) == 9
        assert site.get(f"runs/{run}/items", all="1")["left_out"] == 41
        assert told["change"]["position"] == 200


def test_ten_thousand_runs_are_listed_at_once_and_read_from_the_newest_on(tmp_path: Path) -> None:
    source = write_story(tmp_path / "aa" / "r0") / "events.jsonl"
    for group in range(20):
        for number in range(500):
            folder = tmp_path / f"g{group}" / f"r{number}"
            folder.mkdir(parents=True)
            (folder / "events.jsonl").hardlink_to(source)
    newest = tmp_path / "g7" / "newest"
    shutil.copytree(source.parent, newest)
    (newest / "events.jsonl").touch()
    with dashboard(tmp_path) as site:
        listed = until(lambda: list(site.get("runs")["runs"]) or None)
        assert len(listed) == 10_002
        assert until(lambda: card_of(site, "g7/newest"))["status"] == "crashed"
        assert site.get(f"runs/{site.run('g7/newest')}")["begun"]


def card_of(site: Site, name: str) -> dict[str, object] | None:
    found = next(run for run in site.get("runs")["runs"] if run["name"] == name)
    return None if found["status"] == "reading" else found
