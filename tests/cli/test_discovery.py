from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skillopt.app.machine import first_model
from skillopt.cli.quickstart import CAPABLE, SMALL, Discovered, QuickstartOptions, choose
from skillopt.cli.render import Screen
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.errors import ConfigError
from skillopt.model.weights import CATALOGUE

QUIET = QuickstartOptions(None, yes=False, spend=False)


def little(_: Discovered) -> str:
    return "little"


class Models(BaseHTTPRequestHandler):
    offered: object = {"data": [{"id": "tiny"}, {"id": "other"}]}

    def do_GET(self) -> None:
        body = json.dumps(self.offered).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Nobody reads it."""


class NoModels(Models):
    offered: object = {"models": []}


@pytest.fixture(params=[(Models, "tiny"), (NoModels, None)])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, str | None]]:
    handler, model = request.param
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/v1", model
        made.shutdown()
        thread.join()


def test_the_first_model_of_a_server_is_found(server: tuple[str, str | None]) -> None:
    url, model = server
    assert first_model(url) == model


def test_no_server_is_no_model() -> None:
    assert first_model("http://127.0.0.1:9/v1") is None


def test_a_key_is_used_only_if_the_user_allows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = Secrets({"OPENAI_API_KEY": "sk-not-a-real-key", "SKILLOPT_CACHE": str(tmp_path)})
    allowed = choose(secrets, QuickstartOptions(None, yes=False, spend=True), Screen(), little)
    assert (allowed.settings["backend"], allowed.recipe) == ("openai_chat", CAPABLE)
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    with pytest.raises(ConfigError, match="model fetch"):
        choose(secrets, QUIET, Screen(), little)
    assert "add --spend to use it" in capsys.readouterr().err


def test_weights_that_are_here_are_used_and_without_any_the_way_to_them_is_told(
    tmp_path: Path,
) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    secrets = Secrets({"SKILLOPT_CACHE": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"skillopt model fetch qwen2\.5-coder-1\.5b.*--sim"):
        choose(secrets, QUIET, Screen(), little)
    smaller = CATALOGUE[1]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / smaller.file).write_bytes(b"GGUF")
    means = choose(secrets, QUIET, Screen(), little)
    assert dict(means.settings) == {
        "backend": "local",
        "target": smaller.name,
        "optimizer": smaller.name,
    }
    own = choose(
        secrets, QuickstartOptions("./mine.gguf", yes=False, spend=False), Screen(), little
    )
    assert own.settings["target"] == "./mine.gguf"


@pytest.mark.parametrize("recipe", [SMALL, CAPABLE])
def test_a_recipe_is_a_configuration(recipe: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(recipe, encoding="utf-8")
    config = load_config(path)
    assert config.optimizer.learning_rate >= 4
