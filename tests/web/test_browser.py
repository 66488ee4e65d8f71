"""The page in a real browser: what a person does with it, at three widths, light and dark."""

# playwright is there only where `make test-browser` has installed it, so its types are not known.
# ruff: noqa: ANN401, PLR0915

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support_web import Site, dashboard, stage, until, write_story

from skillopt.api import write_report
from skillopt.store.lock import RunLock

sync_api = pytest.importorskip("playwright.sync_api", reason="`make test-browser` installs it")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = os.environ.get("SKILLOPT_AXE", "")
SHOTS = os.environ.get("SKILLOPT_SHOTS", "")
EVIL = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
SIZES = {"wide": (1440, 900), "medium": (1024, 768), "phone": (390, 844)}
LOOKS = (
    [(size, dark) for size in SIZES for dark in (False, True)]
    if os.environ.get("SKILLOPT_ALL_LOOKS")
    else [("wide", False), ("medium", True), ("phone", False)]
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_story(root / "story")
    write_story(root / "typed")
    write_story(root / "evil", evil=EVIL)
    return root


@pytest.fixture(scope="module")
def site(root: Path) -> Generator[Site, None, None]:
    with dashboard(root) as site:
        yield site


@pytest.fixture(scope="module")
def chromium() -> Generator[Any, None, None]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visitor:
    """A page that remembers what went wrong, and which hosts were asked."""

    def __init__(self, site: Site, browser: Any, *, size: str = "wide", dark: bool = False) -> None:
        width, height = SIZES[size]
        self.size, self.dark = size, dark
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.base = f"http://127.0.0.1:{site.port}"
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._said)
        self.page.on("pageerror", self._failed)
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _failed(self, error: Any) -> None:
        self.problems.append(str(error))

    def _asked(self, request: Any) -> None:
        self.hosts.add(str(request.url).split("/")[2])

    def open(self, path: str) -> Any:
        self.page.goto(self.base + path)
        return self.page

    def shot(self, name: str) -> None:
        if SHOTS:
            look = "dark" if self.dark else "light"
            self.page.screenshot(path=f"{SHOTS}/{name}-{self.size}-{look}.png")

    def faults(self) -> list[str]:
        """What axe finds on the page that is serious for assistive technology."""
        if not AXE:
            return []
        self.page.evaluate(Path(AXE).read_text("utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['html'][:120]}"
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"][:3]
        ]

    @property
    def too_wide(self) -> int:
        """Pixels by which the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def leave(self) -> None:
        """Nothing went wrong on the way, and nothing was asked of another host."""
        self.context.close()
        assert self.problems == []
        assert self.hosts <= {self.base.removeprefix("http://"), ""}


def drawn(page: Any) -> None:
    page.wait_for_selector(".score-chart.drawn .main-svg")


def test_a_simulated_run_is_launched_watched_stopped_resumed_and_looked_at(
    site: Site, chromium: Any
) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/launch?as=simulated")
    page.fill("#run-name", "from-page")
    page.fill("#seed", "5")
    page.click(".launch-form .button.primary")
    page.wait_for_url("**/run/from-page-run-*")
    page.wait_for_selector(".pill:has-text('running')")
    drawn(page)  # the initial skill is measured
    visitor.shot("live")
    page.click("button:has-text('Stop in order')")
    page.wait_for_selector(".pill:has-text('interrupted')")
    page.click("button:has-text('Resume')")
    page.wait_for_selector(".pill:has-text('finished')")
    page.wait_for_selector(".claim .figure")
    page.wait_for_selector(".change .dl.added")
    visitor.shot("finished")

    page.click(".tabs a:has-text('Steps')")
    page.wait_for_selector(".step-detail h3:has-text('Evidence')")
    page.keyboard.press("k")
    page.wait_for_selector(".step-row.here")
    visitor.shot("steps")
    page.click(".tabs a:has-text('Skill')")
    page.click("button:has-text('Changes')")
    page.wait_for_selector(".skill-shown .dl.added")
    page.click("button:has-text('Where from')")
    page.wait_for_selector(".bl.learnt")
    visitor.shot("skill")
    every_line_tells_its_own_evidence(site, page)
    page.click(".tabs a:has-text('Items')")
    page.click(".chip:has-text('fixed')")
    page.click(".heat .cell.pass >> nth=0")
    page.wait_for_selector(".attempt .message.assistant")
    assert "skill=" in page.url
    visitor.shot("items")
    for tab, wanted in (
        ("Cost", ".cost-chart .main-svg"),
        ("Log", ".log-line"),
        ("Settings", "dt"),
    ):
        page.click(f".tabs a:has-text('{tab}')")
        page.wait_for_selector(wanted)
        visitor.shot(tab.lower())
    page.go_back()
    page.wait_for_selector(".tabs a.here:has-text('Log')")

    page.click(".tabs a:has-text('Review')")
    page.wait_for_selector(".step-detail .decide")
    page.click("button:has-text('Edit by hand')")
    text = page.input_value(".raw-edit")
    page.fill(".raw-edit", f"{text}\n- Read it twice.\n")
    visitor.shot("review")
    page.click("button:has-text('Measure and take over')")
    page.wait_for_selector(".step-row:has-text('review')")
    page.wait_for_selector(".strip >> text=the final test was of the skills before")
    page.wait_for_selector(".toast:has-text('Recorded.')")
    page.click(".tabs a:has-text('Overview')")
    drawn(page)
    assert page.locator(".toast").count() == 0
    page.wait_for_selector(".score-chart .annotation-text:has-text('current')")
    tested = page.locator(".score-chart .annotation-text:has-text('test')")
    assert tested.count() == 0  # what stands there is of val
    visitor.shot("untested")
    page.click("button:has-text('Test on 60 items')")
    page.wait_for_selector(".claim:has-text('60 test items')")
    tested.wait_for()
    page.click(".tabs a:has-text('Skill')")
    page.select_option(".bar select", "last")
    page.wait_for_selector("text=Read it twice.")
    visitor.leave()


def every_line_tells_its_own_evidence(site: Site, page: Any) -> None:
    """What stands beside a line, or above it, is the evidence of that line, and opens by a key."""
    lines = site.get(f"runs/{site.run('from-page')}/skill", name="best")["blame"]["lines"]
    shown = page.locator(".bl .by").all_inner_texts()
    said, several = "", 0
    for line, text in zip(lines, shown, strict=True):
        if (origin := line["origin"]) is None or not (origin["failures"] + origin["successes"]):
            assert not text
            continue
        tasks = len(origin["failures"] + origin["successes"])
        said = text or said
        several += bool(text)
        assert said == f"{', '.join(origin['by'])} {tasks} task{'s' * (tasks != 1)}"
    assert several > 1
    page.focus(".bl .link >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_selector(".bl-more .task")


def test_what_a_record_says_is_shown_as_text_and_never_run(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    run = site.run("evil")
    shown = {
        "": ".fact >> text=<script>",
        "/steps/1": ".step-detail h2",
        "/skill?v=initial": ".document >> text=<script>",
        "/skill?v=initial&as=blame": ".blame >> text=<script>",
        "/items/v1": ".attempt .feedback >> text=<script>",
        "/log": ".log >> text=<script>",
        "/settings": ".settings-list >> text=<script>",
    }
    for path, wanted in shown.items():
        page = visitor.open(f"/run/{run}{path}")
        page.wait_for_selector(wanted)
        assert page.evaluate("window.hacked") is None
    visitor.leave()


def test_settings_are_validated_while_they_are_typed_and_estimated(
    site: Site, chromium: Any
) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/launch?as=config")
    page.fill("#find", "epochs")
    page.fill("[id='key-train.num_epochs']", "0")
    page.wait_for_selector(".key.wrong .fault:has-text('1')")
    assert page.is_disabled(".launch-form .button.primary")
    page.fill("[id='key-train.num_epochs']", "3")
    page.wait_for_selector(".key:not(.wrong).mine")
    visitor.shot("launch")
    page.click(".launch-form button:has-text('Estimate')")
    page.wait_for_selector(".asked .problem, .asked .estimate")
    visitor.leave()


def test_rows_are_pasted_and_their_columns_offered(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/launch?as=data")
    page.fill("#run-name", "pasted")
    page.fill("#paste", "question,answer\nOne and one?,2\nTwo and two?,4\n")
    page.click("button:has-text('Read the rows')")
    page.wait_for_selector("text=2 rows")
    assert page.input_value("#input-column") == "question"
    visitor.shot("data")
    visitor.leave()


def test_runs_are_filtered_sorted_and_compared(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    site.run("story")
    page = visitor.open("/")
    page.wait_for_selector(".run-row:has-text('story')")
    page.check("[aria-label='Compare story']")
    page.check("[aria-label='Compare evil']")
    page.click("a:has-text('Compare 2')")
    page.wait_for_selector(".compare-chart .main-svg")
    page.wait_for_selector(".diff .dl")
    visitor.shot("compare")
    page.go_back()
    page.fill(".page-head input[type=search]", "stor")
    page.wait_for_selector(".run-row:has-text('evil')", state="detached")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/story-*")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] kbd")
    visitor.leave()


@pytest.mark.parametrize(("size", "dark"), LOOKS)
def test_every_view_fits_and_has_no_serious_fault_for_assistive_technology(
    site: Site, chromium: Any, size: str, dark: bool
) -> None:
    run = site.run("story")
    visitor = Visitor(site, chromium, size=size, dark=dark)
    faults: list[str] = []
    views = {
        "home": ("/", ".run-row"),
        "overview": (f"/run/{run}", ".score-chart.drawn"),
        "steps": (f"/run/{run}/steps/2", ".step-detail h3"),
        "skill": (f"/run/{run}/skill?as=blame", ".bl"),
        "items": (f"/run/{run}/items/v1", ".attempt h3"),
        "cost": (f"/run/{run}/cost", "table"),
        "log": (f"/run/{run}/log", ".log-line"),
        "settings": (f"/run/{run}/settings", "dt"),
        "review": (f"/run/{run}/review", ".decide"),
        "launch": ("/launch?as=config", ".key"),
        "sleep": ("/sleep", "button:has-text('Run a night now')"),
    }
    for name, (path, wanted) in views.items():
        page = visitor.open(path)
        page.wait_for_selector(wanted)
        assert visitor.too_wide <= 0, name
        visitor.shot(name)
        faults += [f"{name}: {fault}" for fault in visitor.faults()]
    assert faults == []
    visitor.leave()


@pytest.mark.parametrize(("size", "dark"), LOOKS)
def test_the_report_fits_and_has_no_serious_fault_for_assistive_technology(
    root: Path, site: Site, chromium: Any, tmp_path: Path, size: str, dark: bool
) -> None:
    report = write_report(root / "story", out=tmp_path / "report.html")
    visitor = Visitor(site, chromium, size=size, dark=dark)
    page = visitor.page
    page.goto(report.as_uri())
    for closed in page.query_selector_all("details:not([open]) > summary"):
        closed.click()
    assert visitor.too_wide <= 0
    assert visitor.faults() == []
    if SHOTS:
        look = "dark" if dark else "light"
        page.screenshot(path=f"{SHOTS}/report-{size}-{look}.png", full_page=True)
        page.pdf(path=f"{SHOTS}/report.pdf", format="A4")
    visitor.leave()


def test_what_was_typed_stays_in_the_page_until_it_is_taken_over(
    root: Path, site: Site, chromium: Any
) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{site.run('typed')}/review")
    page.click("button:has-text('Edit by hand')")
    page.wait_for_selector(".raw-edit")
    page.fill(".raw-edit", "# Mine\n")
    with RunLock(root / "typed"):
        page.click("button:has-text('Measure and take over')")
        page.wait_for_selector(".toast.bad:has-text('a process is at work on this run')")
        assert page.input_value(".raw-edit") == "# Mine\n"
        assert "409" in visitor.problems.pop()
    page.click("button:has-text('Measure and take over')")
    page.wait_for_selector(".strip:has-text('Your text is kept in')")  # no model answers
    assert page.input_value(".raw-edit") == "# Mine\n"
    visitor.leave()


def test_more_epochs_than_there_can_be_are_not_sent(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{site.run('story')}")
    page.click("button:has-text('More epochs')")
    page.fill("dialog input[name=epochs]", "10001")
    page.click("dialog button:has-text('Train on')")
    assert page.evaluate("document.querySelector('dialog input').validity.rangeOverflow")
    assert page.is_visible("dialog")
    page.click("dialog button:has-text('Cancel')")
    page.wait_for_selector("dialog", state="detached")
    visitor.leave()


def test_what_is_in_the_skill_is_not_offered_to_be_accepted(site: Site, chromium: Any) -> None:
    run = site.run("story")
    listed = site.get(f"runs/{run}/proposals")["proposals"]
    taken = next(each for each in listed if each["stands"] == "in")
    other = next(each for each in listed if each["stands"] == "out")
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{run}/review/{taken['id']}")
    page.wait_for_selector(".decide >> text=It is in the skill already")
    assert page.locator(".decide button:has-text('Accept')").count() == 0
    page = visitor.open(f"/run/{run}/review/{other['id']}")
    page.wait_for_selector(".decide button:has-text('Accept')")
    visitor.leave()


@pytest.mark.skipif(find_spec("skillopt_sleep.adoption") is None, reason="Sleep is not there yet")
def test_a_staged_night_is_read_and_adopted(tmp_path: Path, chromium: Any) -> None:
    stage(tmp_path)
    with dashboard(tmp_path) as site:
        visitor = Visitor(site, chromium)
        page = visitor.open("/sleep")
        page.wait_for_selector(".step-detail .dl.added:has-text('Name the file')")
        visitor.shot("night")
        page.click(".step-detail .button.primary")
        page.wait_for_selector(".toast:has-text('Adopted')")
        assert b"Name the file" in (tmp_path / "CLAUDE.md").read_bytes()
        visitor.leave()


def test_the_list_is_a_drawer_on_a_phone(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium, size="phone")
    page = visitor.open("/")
    page.wait_for_selector(".run-row")
    assert not page.is_visible("#rail .brand")
    assert page.inner_text(".run-row:has-text('story') .c-status") == "crashed"
    page.click(".menu")
    page.wait_for_selector("#rail .rail-run:has-text('story')")
    visitor.shot("drawer")
    page.click("#rail .rail-run:has-text('story')")
    page.wait_for_selector(".run-head h1:has-text('story')")
    assert not page.is_visible("#rail .brand")
    visitor.leave()


def test_a_page_goes_on_with_a_server_that_was_started_again(tmp_path: Path, chromium: Any) -> None:
    with dashboard(tmp_path) as site:
        visitor = Visitor(site, chromium)
        page = visitor.open("/launch?as=data")
        page.wait_for_selector("#paste")
        port = str(site.port)
    with dashboard(tmp_path, "--port", port):
        page.fill("#paste", "question,answer\nWhat is 1 + 1?,2\n")
        page.click("text=Read the rows")
        page.wait_for_selector("#answer-column")
        visitor.context.close()


def test_what_is_typed_stays_when_something_is_decided_elsewhere(
    root: Path, tmp_path: Path, chromium: Any
) -> None:
    record = Path(shutil.copytree(root / "story", tmp_path / "typed")) / "events.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    later = next(at for at, line in enumerate(lines) if "step_0003" in line)
    record.write_text("".join(lines[:later]), encoding="utf-8")
    with dashboard(tmp_path) as site:
        visitor = Visitor(site, chromium)
        page = visitor.open(f"/run/{site.run('typed')}/review")
        page.fill(".decide textarea", "because of the third item")
        before = page.locator(".step-row").count()
        with record.open("a", encoding="utf-8") as file:
            file.write("".join(lines[later:]))
        page.wait_for_selector(f".step-row >> nth={before}")
        assert page.input_value(".decide textarea") == "because of the third item"
        visitor.leave()


def test_the_tab_that_is_open_is_in_view_on_a_phone(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium, size="phone")
    page = visitor.open(f"/run/{site.run('story')}/review")
    page.wait_for_selector(".tabs .here")
    assert (
        page.evaluate("document.querySelector('.tabs .here').getBoundingClientRect().right") <= 390
    )
    visitor.leave()


def test_a_setting_that_is_taken_back_is_shown_as_the_configuration_has_it(
    root: Path, site: Site, chromium: Any
) -> None:
    base = root / "own.yaml"
    base.write_text("train: {num_epochs: 7}\nenv: {name: custom}\n", encoding="utf-8")
    config = next(each for each in site.get("configs")["configs"] if "own.yaml" in each["path"])
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/launch?as=config&config={config['id']}")
    field = "[id='key-train.num_epochs']"
    page.wait_for_selector(field)
    assert page.input_value(field) == "7"
    page.fill(field, "9")
    page.wait_for_selector("text=Changed here: train.num_epochs=9")
    page.click("[aria-label='Undo train.num_epochs']")
    page.wait_for_selector("text=Nothing is changed here yet.")
    assert page.input_value(field) == "7"
    visitor.leave()


def test_numbers_are_rounded_as_in_a_report(site: Site, chromium: Any) -> None:
    numbers = [number / 1000 for number in range(1001)]
    visitor = Visitor(site, chromium)
    page = visitor.open("/")
    shown = page.evaluate(
        "async (numbers) => { const { score } = await import('/static/dom.js');"
        " return numbers.map(score); }",
        numbers,
    )
    assert shown == [f"{number:.2f}" for number in numbers]
    visitor.leave()


def test_a_run_that_is_removed_leaves_no_promise_on_its_page(
    root: Path, site: Site, chromium: Any
) -> None:
    folder = Path(shutil.copytree(root / "story", root / "removed"))
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{site.run('removed')}")
    drawn(page)
    shutil.rmtree(folder)
    page.wait_for_selector("h2:has-text('This run is no longer there')")
    assert "Resume" not in page.inner_text("main")
    page.click("main a:has-text('All runs')")
    page.wait_for_selector(".run-row:has-text('story')")
    visitor.leave()


def test_a_run_that_did_not_begin_says_why_once_and_is_tried_again_or_changed(
    site: Site, chromium: Any
) -> None:
    settings = {"env.name": "custom", "env.data_path": "nowhere.csv", "model.backend": "local"}
    told = site.post("launch", {"kind": "config", "name": "lost", "settings": settings})
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{told.json['id']}")
    page.wait_for_selector(".strip:has-text('nowhere.csv')")
    assert page.inner_text(".run-head").count("nowhere.csv") == 1
    visitor.shot("lost")
    page.click("button:has-text('Try again')")
    page.wait_for_selector(".output:has-text('nowhere.csv')")
    page.click("a:has-text('Change settings')")
    page.wait_for_selector("[id='key-env.data_path']")
    assert page.input_value("[id='key-env.data_path']") == "nowhere.csv"
    visitor.leave()


def test_a_comparison_of_nothing_says_how_to_choose(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/compare")
    page.wait_for_selector("text=Mark two or more in the list of runs")
    visitor.leave()


def test_simulated_runs_are_marked_at_every_width(
    root: Path, tmp_path: Path, chromium: Any
) -> None:
    folder = Path(shutil.copytree(root / "story", tmp_path / "made-up"))
    settings = {"env.name": "custom", "target_model": "simulated-target", "optimizer_model": "o"}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with dashboard(tmp_path) as site:
        site.run("made-up")
        for size in SIZES:
            visitor = Visitor(site, chromium, size=size)
            page = visitor.open("/")
            mark = page.locator(".run-row:has-text('made-up') .c-status small")
            mark.wait_for()
            assert mark.inner_text() == "simulated"
            assert mark.evaluate("node => node.scrollWidth <= node.clientWidth"), size
            visitor.leave()


def in_view(page: Any, wanted: str) -> bool:
    """Asked in one call: between two, the page may have drawn it anew."""
    return page.evaluate(
        """wanted => {
          const place = document.querySelector(wanted)?.getBoundingClientRect();
          return Boolean(place && place.height && place.top >= 0 && place.bottom <= innerHeight);
        }""",
        wanted,
    )


def test_what_is_opened_on_a_phone_comes_into_view(site: Site, chromium: Any) -> None:
    run = site.run("story")
    visitor = Visitor(site, chromium, size="phone")
    for path, click, wanted in (
        (f"/run/{run}/steps", ".step-row >> nth=1", ".step-detail h2"),
        (f"/run/{run}/steps/2", "", ".step-detail h2"),
        (f"/run/{run}/items/v1", "", ".attempt h2"),
    ):
        page = visitor.open(path)
        if click:
            page.click(click)
        until(partial(in_view, page, wanted))
    visitor.leave()


def test_tabs_stay_where_they_are_when_another_one_is_opened(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{site.run('story')}")
    places = "[...document.querySelectorAll('.tabs a')].map(tab => tab.getBoundingClientRect().x)"
    page.wait_for_selector(".tabs a.here")
    before = page.evaluate(places)
    page.click(".tabs a:has-text('Review')")
    page.wait_for_selector(".tabs a.here:has-text('Review')")
    assert page.evaluate(places) == before
    visitor.leave()


def test_a_message_goes_when_something_else_is_opened(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/launch?as=simulated")
    page.fill("#run-name", "story")
    page.click(".launch-form .button.primary")
    page.wait_for_selector(".toast.bad:has-text('exists already')")
    assert "409" in visitor.problems.pop()
    page.click("a.brand")
    page.wait_for_selector(".run-row")
    assert page.locator(".toast").count() == 0
    visitor.leave()


def test_a_new_run_begins_alike_from_a_link_and_from_its_address(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/launch")
    first = page.inner_text(".way.on strong")
    page.click("a.brand")
    page.wait_for_selector(".run-row")
    page.click("a:has-text('New run')")
    assert page.inner_text(".way.on strong") == first
    visitor.leave()


def test_settings_that_are_no_defaults_come_first(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{site.run('story')}/settings")
    page.wait_for_selector(".settings-list")
    first = page.locator(".settings-section >> nth=0")
    assert "model.target" in first.inner_text()
    assert not page.is_visible("text=train.num_epochs")
    page.fill(".tab-body input[type=search]", "num_epochs")
    page.wait_for_selector("dt:has-text('train.num_epochs')")
    visitor.leave()


def test_the_name_of_a_reviewer_is_kept_in_the_browser(site: Site, chromium: Any) -> None:
    run = site.run("story")
    visitor = Visitor(site, chromium)
    page = visitor.open(f"/run/{run}/review")
    page.fill(".decide input[autocomplete=name]", "Ann")
    page.keyboard.press("Tab")
    page.reload()
    page.wait_for_selector(".decide")
    assert page.input_value(".decide input[autocomplete=name]") == "Ann"
    visitor.leave()


def test_items_whose_names_begin_alike_are_told_apart(site: Site, chromium: Any) -> None:
    visitor = Visitor(site, chromium)
    page = visitor.open("/")
    names = [f"{'a-long-beginning-' * 4}{number}" for number in range(3)]
    shown = page.evaluate(
        "async (names) => { const { middle } = await import('/static/dom.js');"
        " return names.map((name) => middle(name, 24)); }",
        names,
    )
    assert len({*shown}) == len(names)
    assert max(map(len, shown)) <= 24
    visitor.leave()
