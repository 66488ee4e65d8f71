from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from skillopt.cli.main import model_group
from skillopt.errors import AccessError, ConfigError
from skillopt.model.weights import CATALOGUE

SMALL = CATALOGUE[-1]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


def run(cache: Path, *args: str) -> Result:
    """The command on a machine without a network."""
    nowhere = "http://127.0.0.1:9"
    variables = {
        "SKILLOPT_CACHE": str(cache.parent),
        "PIP_NO_INDEX": "1",
        "https_proxy": nowhere,
        "HTTPS_PROXY": nowhere,
        "no_proxy": "",
        "NO_PROXY": "",
    }
    return CliRunner(env=variables).invoke(model_group, args)


def test_the_list_tells_size_licence_and_what_is_here(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / SMALL.file).write_bytes(b"GGUF")
    done = run(cache, "list")
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows[SMALL.name][1:5] == ["0.49", "GB", "Apache-2.0", "yes"]
    assert rows[CATALOGUE[0].name][1:5] == ["1.12", "GB", "Apache-2.0", "no"]
    assert str(cache) in done.stdout


def test_a_fetch_without_a_network_tells_licence_and_what_was_tried(cache: Path) -> None:
    done = run(cache, "fetch", SMALL.name)
    assert "licence Apache-2.0" in done.stderr
    assert isinstance(done.exception, AccessError)
    told = str(done.exception)
    assert "the Hugging Face hub: " in told
    assert f"{SMALL.parcels.package}1=={SMALL.parcels.version}" in told
    assert not (cache / SMALL.file).exists()


def test_an_unknown_name_is_an_error_everywhere(cache: Path) -> None:
    for command in ("fetch", "path", "remove"):
        assert isinstance(run(cache, command, "gpt-9").exception, ConfigError)


def test_absent_weights_have_no_path(cache: Path) -> None:
    absent = run(cache, "path", SMALL.name)
    assert isinstance(absent.exception, AccessError)
    assert absent.stdout == ""


def test_removing_tells_what_was_freed(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / SMALL.file).write_bytes(bytes(2_000_000))
    assert "2.00 MB freed" in run(cache, "remove", SMALL.name).stderr
    assert not (cache / SMALL.file).exists()
    assert "is not on this machine" in run(cache, "remove", SMALL.name).stderr
