"""The values of the run's own secrets are removed, whatever they look like."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from aiohttp import web
from support_runs import Job, make_data
from support_wire import WireServer, completion

from skillopt.config.load import load_config
from skillopt.errors import ConfigError
from skillopt.model.credentials import ApiKey
from skillopt.testing.simulator import Simulator

KEY = "7f3a9c1e5b2d8f4a6c0e1d3b"


@pytest.mark.parametrize("key", [KEY, KEY.upper(), "A" + KEY.upper(), "AKIAIOSFODNN7EXAMPLE"])
@pytest.mark.parametrize("name", ["model.api_key_env", "model.target_api_key_env"])
def test_a_key_given_as_the_name_of_its_variable_is_refused_without_repeating_it(
    name: str, key: str
) -> None:
    with pytest.raises(ConfigError, match="name of an environment variable") as caught:
        load_config(overrides=[f"{name}={key}"])
    assert key not in str(caught.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KEY2", "MY_SERVER_2024_KEY", "_X"])
def test_usual_names_of_variables_are_taken(name: str) -> None:
    assert load_config(overrides=[f"model.api_key_env={name}"]).model.api_key_env == name


@pytest.mark.parametrize("part", [KEY, KEY[:8], KEY[-12:], KEY[4:20]])
def test_a_part_of_a_key_that_a_server_echoes_is_hidden(part: str) -> None:
    said = ApiKey(KEY).hide(f"Incorrect key {part}*** for project 7f3a")
    assert said == "Incorrect key [key]*** for project 7f3a"


def test_a_word_that_shares_little_with_a_key_stays() -> None:
    assert ApiKey("short-key").hide("a short key") == "a short key"
    assert ApiKey(KEY).hide("error 7f3a9c1") == "error 7f3a9c1"


async def test_a_key_within_a_setting_is_not_kept_in_the_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    data = make_data(tmp_path / KEY, (8, 6, 4))
    async with Simulator(seed=1) as sim:
        more = {"model.api_key_env": "OUR_KEY"}
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4, more=more)
        await job.here()
    for name in ("config.json", "config.yaml", "events.jsonl", "summary.json"):
        assert KEY not in (tmp_path / "run" / name).read_text(encoding="utf-8"), name


async def test_what_an_address_lets_in_with_is_kept_nowhere(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    token = b64encode(b"me:Pa55w0rdLong").decode()

    async def echo(request: web.Request) -> web.StreamResponse:
        said = f"{request.headers.get('Authorization')} {request.path_qs}"
        return web.json_response(completion(f"<answer>{said}</answer>"))

    async with WireServer([echo]) as server:
        address = server.url.replace("//", "//me:Pa55w0rdLong@")
        job = Job(
            url=f"{address}/v1?key=Qu3rySecretLong",
            data=data,
            out=tmp_path / "run",
            epochs=1,
            batch=4,
        )
        process = await job.apart()
        out, errors = await process.communicate()
    found = [path.read_bytes() for path in _files(tmp_path / "run")]
    assert any(b"hard" in each for each in found)
    for secret in (token, "Pa55w0rdLong", "Qu3rySecretLong"):
        assert not any(secret.encode() in each for each in (out, errors, *found)), secret


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
