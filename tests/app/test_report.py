"""The report of a run: one file that is whole, safe and says what the record says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support_store import INITIAL, VAL, evaluation, story

from skillopt.analysis.items import PASSED, WRONG, ItemColumn, ItemRow, ItemTable
from skillopt.api import load_run, report_markdown, view_run, write_report
from skillopt.app.charts import cost_chart, item_map, score_chart, size_chart
from skillopt.app.report import ReportParts, report_html
from skillopt.app.summaries import run_html
from skillopt.app.views import RunViews
from skillopt.app.wording import count
from skillopt.core.edits import Append, apply_edits
from skillopt.core.events import Begun, Decision, Event, Fact, Measured, Started, Stopped
from skillopt.core.facts import HumanReviewed
from skillopt.core.rollout import Evaluation, Failure
from skillopt.errors import StoreError
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.reader import RunReader

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> & \u202e \x1b[31m `|"
VOID = {"meta", "br", "img", "circle", "line", "path", "rect"}


class Reader(HTMLParser):
    """Reads a page as a browser does; remembers tags, attributes and whether they are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag


def recorded(folder: Path, *events: Event) -> Path:
    log = EventFile(Layout(folder).events)
    for event in events:
        log.append(event)
    return folder


def evil_run(folder: Path) -> Path:
    """A run in which every text that others wrote tries to break out."""
    skill = apply_edits(INITIAL, [Append(f"- {EVIL}")]).skill
    scores = evaluation(skill, "val", VAL, 1.0, 1.0)
    first = Evaluation(INITIAL.digest, "val", scores.scores, {EVIL: Failure(EVIL, EVIL)})
    found = Measured(skill, scores, 1.0, "review_0001", 0)
    fact = HumanReviewed(
        move="review_0001",
        verdict="edit",
        about=EVIL,
        reviewer=EVIL,
        comment=EVIL,
        tried=(Append(EVIL),),
        decision=Decision(found, "accept_new_best", EVIL, new_best=True),
    )
    begun = Begun(Measured(INITIAL, first, 0.5, "initial_skill", 0))
    return recorded(folder, begun, fact, Stopped(EVIL, "2026-01-01T00:00:00+00:00"))


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def test_the_report_needs_nothing_else_and_runs_nothing(tmp_path: Path) -> None:
    page = page_of(recorded(tmp_path, *story()))
    found = Reader(page)
    assert found.open == []
    names = {tag for tag, _ in found.tags}
    assert names.isdisjoint({"script", "link", "iframe", "img", "object", "form"})
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "href", "srcset", "action"} & attributes.keys(), tag
    (policy,) = [
        attributes["content"]
        for tag, attributes in found.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy
    assert not re.search(r"@import|url\(", page)


def test_the_report_says_what_the_record_says(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *story())
    page = page_of(folder)
    with view_run(folder) as views:
        assert views.head.claim.sentence.split(" ", 1)[1] in page
        for step in views.steps:
            assert step.title in page or step.outcome == "measured"
    for heading in ("Scores", "Steps", "Skill", "Items", "Cost", "Integrity", "Configuration"):
        assert f"<h2>{heading}</h2>" in page
    assert "no JSON came" in page


def test_no_text_of_others_becomes_a_tag_or_hides_its_direction(tmp_path: Path) -> None:
    folder = evil_run(tmp_path)
    with view_run(folder) as views:
        for page in (page_of(folder), run_html(views)):
            found = Reader(page)
            assert found.open == []
            assert {"script", "img"}.isdisjoint(tag for tag, _ in found.tags)
            assert "&lt;script&gt;alert(1)" in page
            assert "\u202e" not in page
            assert "\x1b" not in page
    summary = report_markdown(folder).removesuffix("<!-- skillopt report -->\n")
    outside = re.sub(r"(?s)^(`{3,})diff\n.*?^\1$", "", summary, flags=re.MULTILINE)
    outside = re.sub(r"`[^`]*`", "", outside.replace("\\`", ""))
    assert not re.search(r"(?<!\\)<(?!/?(?:details|summary)>)", outside)


def test_every_chart_is_well_formed(tmp_path: Path) -> None:
    with view_run(recorded(tmp_path, *story())) as views:
        items = views.items()
        drawn = [
            score_chart(views.steps, "hard", width)
            + size_chart(views.steps, width)
            + cost_chart(views.steps, views.cost(), width)
            + item_map(items, items.rows, width)
            for width in (920, 358)
        ]
    for page in drawn:
        charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        assert len(charts) >= 3
        for chart in charts:
            root = ET.fromstring(chart)
            assert root.get("aria-label")
            assert "nan" not in chart.lower().replace("tenancy", "")


def table_of(items: int, skills: int) -> ItemTable:
    """A table of items, each wrong with the first skill and passed with the others."""
    columns = [ItemColumn(f"{at:016x}", f"step_{at:04d}", at, kept=True) for at in range(skills)]
    cells = WRONG + PASSED * (skills - 1)
    rows = [
        ItemRow(f"task-{at:04d}", "val", cells, "fixed", 1, failed=False) for at in range(items)
    ]
    return ItemTable(tuple(columns), tuple(rows), {"fixed": items})


@pytest.mark.parametrize(("items", "skills"), [(120, 2), (40, 12), (3, 12), (1, 1), (12, 48)])
@pytest.mark.parametrize("width", [920, 358])
def test_the_map_of_items_has_every_outcome_within_the_width_of_the_page(
    items: int, skills: int, width: int
) -> None:
    table = table_of(items, skills)
    chart = ET.fromstring(item_map(table, table.rows, width))[-1]
    boxes = [each for each in chart.iter() if each.tag.endswith("rect")]
    assert len(boxes) == items * skills
    assert int(chart.get("width", "")) <= width
    assert all(float(box.get("x", "")) + float(box.get("width", "")) <= width for box in boxes)
    places = {(box.get("x"), box.get("y")) for box in boxes}
    assert len(places) == len(boxes)


def test_where_there_are_more_items_than_skills_all_of_them_are_seen_at_once() -> None:
    table = table_of(120, 2)
    chart = item_map(table, table.rows)
    (height,) = re.findall(r'<svg[^>]* height="(\d+)"', chart)
    assert int(height) < 500
    assert "task-0119" in chart


def test_a_band_covers_the_interval_of_the_score_that_holds(tmp_path: Path) -> None:
    with view_run(recorded(tmp_path, *story())) as views:
        chart = score_chart(views.steps, "hard")
    (band,) = re.findall(r'<path d="([^"]+)" style="fill:[^"]+fill-opacity:.12', chart)
    assert re.fullmatch(r"M[\d.]+ [\d.]+(?:H[\d.]+V[\d.]+)*(?:V[\d.]+H[\d.]+)*Z", band)
    first, last = re.findall(r"^M([\d.]+)|H([\d.]+)Z$", band)
    assert first[0] == last[1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_run_is_reported_at_any_time(tmp_path: Path, count: int) -> None:
    events = [event for event in story() if isinstance(event, Fact)]
    folder = recorded(tmp_path, *events[:count])
    assert "crashed" in page_of(folder)
    assert "crashed" in report_markdown(folder)


def test_a_run_that_is_being_measured_first_says_so(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        recorded(tmp_path, Started("2026-01-01T00:00:00+00:00", "1"))
        assert "is being measured" in page_of(tmp_path)
        assert "is being measured" in report_markdown(tmp_path)
        with RunViews(RunReader(tmp_path)) as views:
            assert "running" in run_html(views)


def test_settings_are_shown_without_what_looks_like_a_secret(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *story())
    secret = "sk-" + "a1B2" * 8
    Layout(folder).config.write_text(
        f'{{"env": "custom", "skill_init": "x {secret}", "num_epochs": 7}}', encoding="utf-8"
    )
    page = page_of(folder)
    assert secret not in page
    assert "train.num_epochs" in page


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", *story())
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="report"):
        write_report(folder, tmp_path / "file" / "report.html")


@pytest.mark.parametrize(
    "name",
    [
        *("run/events.jsonl", "run/new.html", "run/a/b.html"),
        *("notes.md", "run/report.html", "run/report.md"),
    ],
)
def test_nothing_but_a_report_is_overwritten(tmp_path: Path, name: str) -> None:
    folder = recorded(tmp_path / "run", *story())
    for own in ("notes.md", "run/report.html", "run/report.md"):
        (tmp_path / own).write_text("mine", encoding="utf-8")
    place = tmp_path / name
    before = place.read_bytes() if place.exists() else None
    for markdown in (False, True):
        with pytest.raises(StoreError, match="another --out"):
            write_report(folder, place, markdown=markdown)
    assert (place.read_bytes() if place.exists() else None) == before


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_a_device_is_not_read_to_see_whether_it_is_a_report(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", *story())
    with pytest.raises(StoreError, match="another --out"):
        write_report(folder, "/dev/zero")


def test_a_report_is_overwritten_by_the_next_one(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", *story())
    for place in (folder / "report.md", tmp_path / "mine.md"):
        write_report(folder, place, markdown=True)
        assert write_report(folder, place) == place
        assert write_report(folder, place, markdown=True) == place


def test_a_folder_called_run_has_the_name_of_the_one_around_it(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "letters" / "run", *story())
    assert "<h1>letters<" in page_of(folder)
    assert report_markdown(folder).startswith("### letters: ")


def test_a_summary_for_a_pull_request_is_short_and_complete(tmp_path: Path) -> None:
    summary = report_markdown(recorded(tmp_path, *story()))
    with view_run(tmp_path) as views:
        assert summary.startswith("### ")
        assert "| val |" in summary
        assert "```diff" in summary
        assert count(views.cost().total.calls, "call") in summary
    assert len(summary.splitlines()) < 60


def test_a_fence_is_longer_than_any_in_the_skill(tmp_path: Path) -> None:
    skill = apply_edits(INITIAL, [Append("````\ncode\n````")]).skill
    found = Measured(skill, evaluation(skill, "val", VAL, 1.0, 1.0), 1.0, "review_0001", 0)
    fact = HumanReviewed(
        move="review_0001",
        verdict="edit",
        decision=Decision(found, "accept_new_best", "better", new_best=True),
    )
    first = Measured(INITIAL, evaluation(INITIAL, "val", VAL, 0.0, 0.0), 0.0, "initial_skill", 0)
    assert "\n`````diff\n" in report_markdown(recorded(tmp_path, Begun(first), fact))


def test_a_result_shows_itself_in_a_notebook_even_if_its_folder_is_gone(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", *story())
    result = load_run(folder)
    assert "<svg" in result._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert result._repr_markdown_() == report_markdown(folder)  # pyright: ignore[reportPrivateUsage]
    folder.rename(tmp_path / "moved")
    assert result._repr_html_().startswith("<pre>Result(")  # pyright: ignore[reportPrivateUsage]


def test_moves_of_a_long_run_that_changed_nothing_are_folded(tmp_path: Path) -> None:
    first = Measured(INITIAL, evaluation(INITIAL, "val", VAL, 0.0, 1.0), 0.5, "initial_skill", 0)
    rejected = [
        HumanReviewed(move=f"review_{number:04d}", verdict="reject", comment="no")
        for number in range(1, 161)
    ]
    with view_run(recorded(tmp_path, Begun(first), *rejected)) as views:
        page = report_html(views, ReportParts())
    assert "review 1 to review 120: 120 rejected" in page
    assert Reader(page).open == []
