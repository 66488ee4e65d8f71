from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support_wire import WireServer, completion, says

from skillopt.aio import map_all
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Request
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.credentials import BearerTokens, Token
from skillopt.model.http import Http
from skillopt.model.openai import Azure, OpenAIChat
from skillopt.model.provider import ModelSettings, Role

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
SECRET = "az-token-0123456789"


def settings(variables: Mapping[str, str], role: Role = "target", **extra: object) -> ModelSettings:
    return ModelSettings(role=role, name="gpt", extra=extra, variables=Secrets(variables))


def read(variables: Mapping[str, str], role: Role = "target", **extra: object) -> Azure:
    found = Azure.read(settings(variables, role, **extra))
    assert found is not None
    return found


@dataclass
class Source:
    """Hands out tokens that live an hour; the clock is moved by hand."""

    now: float = 0.0
    life: float = 3600.0
    fetched: int = 0
    error: Exception | None = None
    seen: list[float] = field(default_factory=list[float])

    async def fetch(self) -> Token:
        self.fetched += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return Token(f"token-number-{self.fetched}", self.now + self.life)

    def tokens(self) -> BearerTokens:
        return BearerTokens(self.fetch, lambda: self.now)


async def test_a_token_is_fetched_once_and_renewed_before_it_ends() -> None:
    source = Source()
    tokens = source.tokens()
    many = await map_all(lambda _: tokens.headers(), list(range(20)))
    assert {each["Authorization"] for each in many} == {"Bearer token-number-1"}
    source.now = 3299.0
    assert await tokens.headers() == {"Authorization": "Bearer token-number-1"}
    source.now = 3300.0
    assert await tokens.headers() == {"Authorization": "Bearer token-number-2"}
    assert source.fetched == 2


async def test_a_token_of_a_short_life_is_used_for_half_of_it() -> None:
    source = Source(life=60.0)
    tokens = source.tokens()
    await tokens.headers()
    source.now = 29.0
    await tokens.headers()
    assert source.fetched == 1
    source.now = 31.0
    await tokens.headers()
    assert source.fetched == 2


async def test_a_token_is_used_to_its_end_while_no_new_one_can_be_had() -> None:
    source = Source()
    tokens = source.tokens()
    await tokens.headers()
    source.now, source.error = 3400.0, ModelError("busy", retryable=True)
    assert await tokens.headers() == {"Authorization": "Bearer token-number-1"}
    source.now = 3600.0
    with pytest.raises(ModelError, match="busy"):
        await tokens.headers()


async def test_a_token_is_shown_by_nothing() -> None:
    tokens = Source().tokens()
    await tokens.headers()
    assert "token-number-1" not in repr(tokens)
    assert tokens.hide("bad token-number-1!") == "bad [key]!"


@pytest.mark.parametrize("role", ["target", "optimizer"])
def test_a_roles_own_variables_go_first_and_settings_before_all(role: Role) -> None:
    upper = role.upper()
    shared = {"AZURE_OPENAI_ENDPOINT": "https://shared", "AZURE_OPENAI_API_VERSION": "2025-01-01"}
    infix = {**shared, f"AZURE_OPENAI_{upper}_ENDPOINT": "https://infix"}
    prefix = {**infix, f"{upper}_AZURE_OPENAI_ENDPOINT": "https://prefix"}
    assert read(shared, role).endpoint == "https://shared"
    assert read(infix, role).endpoint == "https://infix"
    assert read(prefix, role).endpoint == "https://prefix"
    assert read(prefix, role, endpoint="https://yaml/").endpoint == "https://yaml"
    assert read(prefix, role).api_version == "2025-01-01"
    assert read({}, role, endpoint="https://x").api_version == "2024-12-01-preview"


def test_without_an_auth_mode_a_key_is_used_if_there_is_one() -> None:
    place = {"AZURE_OPENAI_ENDPOINT": "https://x"}
    assert read(place).auth_mode == "azure_cli"
    assert read({**place, "AZURE_OPENAI_API_KEY": "k"}).auth_mode == "api_key"
    assert read({**place, "AZURE_OPENAI_AUTH_MODE": "aad"}).auth_mode == "managed_identity"
    with pytest.raises(ConfigError, match="auth mode of Azure OpenAI is 'magic'"):
        read({**place, "AZURE_OPENAI_AUTH_MODE": "magic"})


def test_a_named_variable_holds_the_key() -> None:
    place = {"AZURE_OPENAI_ENDPOINT": "https://x", "AZURE_OPENAI_API_KEY": "a", "MINE": "b"}
    assert read(place, api_key="MINE").key == "b"
    with pytest.raises(AccessError, match="needs a key for the target model; set OTHER"):
        read(place, api_key="OTHER", auth_mode="key").credentials(settings(place), Http())


def test_a_base_url_goes_before_an_endpoint_of_the_environment() -> None:
    variables = Secrets({"AZURE_OPENAI_ENDPOINT": "https://x"})
    base = ModelSettings(role="target", name="m", base_url="https://h", variables=variables)
    assert Azure.read(base) is None


@pytest.mark.parametrize(
    ("endpoint", "path", "url"),
    [
        (
            "https://x.openai.azure.com",
            "/chat/completions",
            "https://x.openai.azure.com/openai/deployments/gpt%2F5/chat/completions"
            "?api-version=2024-12-01-preview",
        ),
        (
            "https://x.openai.azure.com",
            "/responses",
            "https://x.openai.azure.com/openai/v1/responses",
        ),
        ("https://x/openai/v1/", "/chat/completions", "https://x/openai/v1/chat/completions"),
    ],
)
def test_addresses_are_those_of_azure(endpoint: str, path: str, url: str) -> None:
    assert read({"AZURE_OPENAI_ENDPOINT": endpoint}).url("gpt/5", path) == url


def write_az(folder: Path, code: str) -> str:
    """A program `az` that runs this Python; the PATH on which it is found."""
    script = folder / "az"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys\n{code}\n", encoding="utf-8")
    script.chmod(0o755)
    return str(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a script as a program")
async def test_azure_cli_is_asked_for_a_token_without_our_secrets(tmp_path: Path) -> None:
    code = f"""
with open(os.path.join({str(tmp_path)!r}, "seen.json"), "a") as seen:
    seen.write(json.dumps([sys.argv[1:], sorted(os.environ)]) + "\\n")
print(json.dumps({{"accessToken": {SECRET!r}, "expires_on": 4102444800}}))
"""
    async with WireServer([says(completion())]) as server, Http() as http:
        variables = {
            "PATH": write_az(tmp_path, code),
            "AZURE_OPENAI_ENDPOINT": server.url,
            "OPENAI_API_KEY": "sk-0123456789",
        }
        model = OpenAIChat.create(settings(variables), http)
        for _ in range(3):
            await model.complete(ASK)
    assert [seen.headers["Authorization"] for seen in server.seen] == [f"Bearer {SECRET}"] * 3
    [line] = (tmp_path / "seen.json").read_text("utf-8").splitlines()
    assert "account" in line
    assert "https://cognitiveservices.azure.com/.default" in line
    assert "OPENAI_API_KEY" not in line
    assert model.fingerprint.endswith("/azure")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a script as a program")
async def test_a_failing_azure_cli_says_what_to_do(tmp_path: Path) -> None:
    path = write_az(tmp_path, 'sys.exit("ERROR: Please run az login to setup account.")')
    for variables, words in (
        ({"PATH": path}, "Please run az login to setup account"),
        ({"PATH": ""}, "needs the program az, which is not installed"),
    ):
        place = {"AZURE_OPENAI_ENDPOINT": "https://x", **variables}
        async with Http() as http:
            model = OpenAIChat.create(settings(place), http)
            with pytest.raises(AccessError, match=words):
                await model.complete(ASK)


TOKEN = says({"access_token": SECRET, "expires_on": "4102444800", "token_type": "Bearer"})


async def identity(variables: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
    """What the token service and then the model see."""
    async with (
        WireServer([TOKEN]) as service,
        WireServer([says(completion())]) as server,
        Http() as http,
    ):
        filled = {name: value.replace("HERE", service.url) for name, value in variables.items()}
        place = {
            "AZURE_OPENAI_ENDPOINT": server.url,
            "AZURE_OPENAI_AUTH_MODE": "managed_identity",
            **filled,
        }
        model = OpenAIChat.create(settings(place), http)
        await model.complete(ASK)
        await model.complete(ASK)
    assert {seen.headers["Authorization"] for seen in server.seen} == {f"Bearer {SECRET}"}
    return [(seen.path, seen.headers) for seen in service.seen]


async def test_the_identity_of_a_machine_is_asked_once_for_a_token() -> None:
    [(path, headers)] = await identity(
        {
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": "HERE",
            "AZURE_OPENAI_MANAGED_IDENTITY_CLIENT_ID": "id-1",
        }
    )
    assert path == (
        "/metadata/identity/oauth2/token?api-version=2018-02-01"
        "&resource=https://cognitiveservices.azure.com&client_id=id-1"
    )
    assert headers["Metadata"] == "true"


async def test_the_identity_of_an_app_service_is_asked_in_its_own_way() -> None:
    [(path, headers)] = await identity(
        {"IDENTITY_ENDPOINT": "HERE/msi/token", "IDENTITY_HEADER": "header-secret-1"}
    )
    assert path == (
        "/msi/token?api-version=2019-08-01&resource=https://cognitiveservices.azure.com"
    )
    assert headers["X-IDENTITY-HEADER"] == "header-secret-1"


@pytest.mark.parametrize(("status", "kind"), [(400, AccessError), (503, ModelError)])
async def test_a_machine_without_an_identity_is_told_from_a_busy_one(
    status: int, kind: type[Exception]
) -> None:
    async with WireServer([says({"error": "invalid_request"}, status)]) as service, Http() as http:
        place = {
            "AZURE_OPENAI_ENDPOINT": "https://x",
            "AZURE_OPENAI_AUTH_MODE": "managed_identity",
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": service.url,
        }
        with pytest.raises(kind, match=f"HTTP {status}"):
            await OpenAIChat.create(settings(place), http).complete(ASK)


async def test_openai_compatible_mode_speaks_plainly_to_the_endpoint() -> None:
    async with WireServer([says(completion())]) as server, Http() as http:
        place = {
            "AZURE_OPENAI_ENDPOINT": server.url,
            "AZURE_OPENAI_AUTH_MODE": "compat",
            "AZURE_OPENAI_API_KEY": "azure-key-1",
        }
        await OpenAIChat.create(settings(place), http).complete(ASK)
    [seen] = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["Authorization"] == "Bearer azure-key-1"
