"""Who may ask the dashboard, and what can come through to its page."""

from __future__ import annotations

import json
import stat
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support_web import Site, dashboard, write_story

from skillopt_webui.security import Access, is_loopback

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site, None, None]:
    root = tmp_path_factory.mktemp("runs")
    write_story(root / "story")
    with dashboard(root) as site:
        site.run("story")
        yield site


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site, None, None]:
    root = tmp_path_factory.mktemp("runs")
    with dashboard(root, "--host", "0.0.0.0") as site:
        yield site


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "", "[::1", "10.0.0.5"]
)
def test_a_request_for_another_host_is_refused(site: Site, host: str) -> None:
    for path in ("/", "/api/runs", "/static/main.js"):
        assert site.ask(path, headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_the_names_of_this_machine_are_answered(site: Site, host: str) -> None:
    assert site.ask("/api/runs", headers={"Host": f"{host}:{site.port}"}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_another_site_can_neither_read_nor_change_anything(
    site: Site, headers: dict[str, str]
) -> None:
    csrf = site.get("session")["csrf"]
    assert site.ask("/api/runs", headers=headers).status == 403
    sent = {**headers, "x-skillopt": csrf, "Content-Type": "application/json"}
    assert site.ask("/api/launch", "POST", b"{}", sent).status == 403


def test_a_link_on_another_site_may_open_the_page_but_not_its_data(site: Site) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert site.ask("/run/story", headers=link).status == 200
    assert site.ask("/api/runs", headers=link).status == 403


@pytest.mark.parametrize("token", [None, "", "wrong"])
def test_nothing_is_changed_without_the_header_that_only_the_page_can_send(
    site: Site, token: str | None
) -> None:
    headers = {"Content-Type": "application/json"} | (
        {} if token is None else {"x-skillopt": token}
    )
    body = json.dumps({"kind": "simulated", "name": "intruder"}).encode()
    assert site.ask("/api/launch", "POST", body, headers).status == 403
    assert all(run["name"] != "intruder" for run in site.get("runs")["runs"])


def test_on_another_address_nothing_is_told_without_the_token(locked: Site) -> None:
    for path in (
        "/",
        "/api/runs",
        "/api/session",
        "/static/main.js",
        "/plotly.js",
        "/?token=wrong",
    ):
        refused = locked.ask(path)
        assert refused.status == 401, path
        assert b"link that was printed" in refused.body
    assert locked.ask("/api/launch", "POST", b"{}").status == 401
    assert locked.ask("/", headers={"Cookie": f"skillopt_{locked.port}=wrong"}).status == 401


def test_the_printed_link_is_taken_once_and_then_a_cookie_is_enough(locked: Site) -> None:
    query = locked.link.rpartition("?")[2]
    assert {line.rpartition("?")[2] for line in locked.said if "token=" in line} == {query}
    entered = locked.ask(f"/run/x?tab=1&{query}")
    assert (entered.status, entered.headers["location"]) == (303, "/run/x?tab=1")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    token = query.removeprefix("token=")
    assert token not in cookie
    assert locked.ask("/api/runs", headers={"Cookie": cookie.partition(";")[0]}).status == 200


def test_a_server_for_other_machines_prints_the_link_that_they_need(locked: Site) -> None:
    query = locked.link.rpartition("?")[2]
    (line,) = (line for line in locked.said if line.startswith("from other machines: "))
    address = urlsplit(line.rpartition(" ")[2])
    assert (address.port, address.query) == (locked.port, query)
    assert not is_loopback(address.hostname or "")
    host = {"Host": address.netloc}
    assert locked.ask(f"/?{query}", headers=host).status == 303


def test_the_link_cannot_be_made_to_lead_to_another_host(locked: Site) -> None:
    query = locked.link.rpartition("?")[2]
    assert locked.ask(f"//evil.example/?{query}").headers["location"] == "/evil.example/"


def test_every_answer_forbids_scripts_of_others_and_frames(site: Site) -> None:
    for path in ("/", "/api/runs", "/static/app.css", "/api/nothing"):
        headers = site.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_inline_script_and_fetches_from_nowhere_else() -> None:
    static = Path(__file__).parents[2] / "skillopt_webui" / "static"
    for path in static.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "innerHTML" not in text, path
        assert "insertAdjacentHTML" not in text, path
        assert "http://www.w3.org" in text or "http" not in text.replace("http://127.0.0.1", ""), (
            path
        )
    page = (static / "index.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "onclick" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/static/../security.py",
        "/static/..%2fsecurity.py",
        "/static/%2e%2e/security.py",
        "/static//etc/passwd",
        "/static/..\\security.py",
    ],
)
def test_static_files_are_those_of_the_page_alone(site: Site, path: str) -> None:
    answer = site.ask(path)
    assert b"Guard" not in answer.body
    assert b"root:" not in answer.body
    assert answer.status in {404, 200}
    assert answer.status == 404 or b"<!doctype html>" in answer.body


@pytest.mark.parametrize(
    "name", ["..", "../story", "/etc", "..%2f..", "story/../../etc", "%2e%2e", "story"]
)
def test_a_run_is_found_by_its_id_and_never_by_a_path(site: Site, name: str) -> None:
    answer = site.ask(f"/api/runs/{name}")
    assert answer.status == 404


@pytest.mark.parametrize("name", ["/etc/passwd", "../../secret.md", "~/.bashrc", "a.md", "..\\x"])
def test_a_skill_is_one_of_the_run_and_never_a_file(site: Site, name: str, tmp_path: Path) -> None:
    run = site.run("story")
    for path in (f"skill?name={name}", f"skill.md?name={name}", f"attempts?task=a&skill={name}"):
        assert site.ask(f"/api/runs/{run}/{path}").status == 404


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "", ".hidden", "x" * 65, "a b"])
def test_a_new_run_stays_below_the_root(site: Site, name: str) -> None:
    for told in (
        site.post("launch", {"kind": "simulated", "name": name, "seed": "0"}),
        site.post("launch", {"kind": "config", "name": name, "settings": {}}),
        site.post(
            f"data?name={name.replace(' ', '%20')}&filename=x.csv", raw=b"input,answer\n1,2\n"
        ),
    ):
        assert told.status == 409, told.body
        assert "name" in told.json["error"]


def test_a_setting_is_named_with_its_section(site: Site) -> None:
    told = site.post("launch", {"kind": "config", "name": "bare", "settings": {"seed": "1"}})
    assert told.status == 409
    assert told.json["error"] == "'seed' has no section; write it as in train.num_epochs"


def test_a_config_must_be_one_that_was_listed(site: Site) -> None:
    told = site.post("resolve", {"config": "../../etc/passwd", "settings": {}})
    assert told.status == 404


def test_script_in_names_and_values_stays_data(tmp_path: Path) -> None:
    folder = tmp_path / EVIL.replace("/", "")
    write_story(folder, evil=EVIL)
    with dashboard(tmp_path) as site:
        run = site.run(folder.name)
        for path in (
            "",
            "/skill",
            "/items",
            "/log",
            "/settings",
            "/cost",
            "/proposals",
            "/steps/1",
        ):
            answer = site.ask(f"/api/runs/{run}{path}")
            assert answer.headers["content-type"].startswith("application/json"), path
        assert EVIL in site.get(f"runs/{run}/skill", name="best")["text"]
        side = site.get(f"runs/{run}/attempts", task="v1", skill="initial")["sides"][0]
        assert EVIL in json.dumps(side, ensure_ascii=False).replace("\\\\", "\\")
        loaded = site.ask(f"/api/runs/{run}/skill.md?name=best")
        assert loaded.headers["content-disposition"].startswith("attachment")
        assert loaded.headers["content-type"].startswith("text/markdown")


def test_a_read_only_dashboard_changes_nothing(tmp_path: Path) -> None:
    write_story(tmp_path / "story")
    with dashboard(tmp_path, "--read-only") as site:
        run = site.run("story")
        for path in ("launch", "resolve", "data", f"runs/{run}/stop", f"runs/{run}/review"):
            refused = site.post(path, {"kind": "simulated", "name": "x"})
            assert refused.status == 403
            assert "read-only" in refused.json["error"]
        assert site.get(f"runs/{run}")["begun"]
    assert [path.name for path in tmp_path.iterdir()] == ["story"]


def test_the_link_to_a_read_only_dashboard_is_not_said_to_start_runs(tmp_path: Path) -> None:
    with dashboard(tmp_path, "--read-only", "--host", "0.0.0.0") as site:
        said = "\n".join(site.said)
    assert "can look at the runs here" in said
    assert "start and stop" not in said


def test_a_body_that_is_too_large_or_no_json_is_refused(site: Site) -> None:
    assert site.post("resolve", raw=b"x").status == 422
    session = site.get("session")["csrf"]
    headers = {"x-skillopt": session, "Content-Type": "application/json"}
    told = site.ask("/api/resolve", "POST", b"[1]", headers)
    assert (told.status, told.json["error"]) == (422, "send a JSON object")
    deep = b'{"config": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    told = site.ask("/api/resolve", "POST", deep, headers)
    assert (told.status, told.json["error"]) == (422, "this is nested too deeply")
    large = json.dumps({"config": "x" * (3 << 20)}).encode()
    assert site.ask("/api/resolve", "POST", large, headers).status == 409


def test_a_value_of_another_kind_is_refused_by_its_name(site: Site) -> None:
    run = site.run("story")
    edit = {"verdict": "edit", "base": "x"}
    for path, body, field in (
        (f"runs/{run}/review", {**edit, "text": 5}, "text"),
        (f"runs/{run}/review", {**edit, "text": "a\ud800b"}, "text"),
        (f"runs/{run}/review", {**edit, "text": "b", "comment": ["x"]}, "comment"),
        ("resolve", {"config": None}, "config"),
        ("resolve", {"settings": {"train.seed": 5}}, "train.seed"),
    ):
        told = site.post(path, body)
        assert (told.status, told.json["error"].split()[0]) == (422, field)


@pytest.mark.parametrize("seed", ["abc", "0x10", "-1", "1.5", True, 1.5, "9" * 23, 10**23])
def test_a_seed_that_is_no_number_is_refused(site: Site, seed: object) -> None:
    told = site.post("launch", {"kind": "simulated", "name": "seeded", "seed": seed})
    assert (told.status, told.json["error"].split()[0]) == (422, "seed")


def test_hosts_that_only_this_machine_reaches_are_known() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org", "")))
    public = Access("0.0.0.0", 7860, "t")
    assert public.answers_for("192.168.1.2")
    assert not public.answers_for("evil.example")
    public.names.add("made-up.trycloudflare.com")
    assert public.answers_for("made-up.trycloudflare.com")


def fake(folder: Path, name: str, said: str) -> str:
    """A tunnel program that says something and waits; the PATH on which it is alone."""
    folder.mkdir()
    path = folder / name
    path.write_text(f"#!/bin/sh\n{said}\nexec /bin/sleep 60\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "cloudflared",
            'echo "see https://developers.cloudflare.com, https://a-b.trycloudflare.com |" >&2',
        ),
        ("ngrok", 'echo "lvl=info msg=started url=https://a-b.trycloudflare.com"'),
        ("ssh", 'echo "x.lhr.life tunneled, https://a-b.trycloudflare.com"'),
    ],
)
def test_sharing_goes_through_the_tunnel_program_that_is_installed_and_needs_the_token(
    tmp_path: Path, name: str, said: str
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    path = fake(tmp_path / "bin", name, said)
    with dashboard(runs, "--share", "--host", "127.0.0.1", path=path) as site:
        assert site.link.startswith("https://a-b.trycloudflare.com/?token=")
        through = {"Host": "a-b.trycloudflare.com", "X-Forwarded-Proto": "https"}
        assert site.ask("/api/runs", headers=through).status == 401
        entered = site.ask(f"/?{site.link.rpartition('?')[2]}", headers=through)
        assert entered.status == 303
        assert "Secure" in entered.headers["set-cookie"]


def test_sharing_without_a_tunnel_program_says_which_would_do(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    with (
        pytest.raises(AssertionError, match=r"none is installed.*cloudflared or ngrok"),
        dashboard(tmp_path, "--share", path=str(empty)),
    ):
        pass
