from __future__ import annotations

import base64
import json
import os
import re
import shlex
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.config.redaction import names_secret, redact
from skillopt.config.secrets import Secrets, parse_env
from skillopt.errors import ConfigError

LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "x" * 12] * 3)
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{LONG}"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"sk-{LONG}", LONG),
        (f"key_sk-proj-{LONG}", LONG),
        (f"sk_live_{LONG}", LONG),
        (f"ghp_{LONG}", LONG),
        (f"gho_{LONG}", LONG),
        (f"github_pat_11AB_{LONG}", LONG),
        (f"glpat-{LONG}", LONG),
        (f"hf_{LONG}", LONG),
        (f"npm_{LONG}", LONG),
        (f"ya29.{LONG}", LONG),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
        (f"xoxb-123-{LONG}", LONG),
        (JWT, LONG),
        (f"{BEGIN}\n{BODY}\n{END}", BODY[-40:]),
        (f"{BEGIN}\n{BODY[:100]}", BODY[60:100]),
        (f"{BEGIN}\nProc-Type: 4,ENCRYPTED\n\n{BODY[:100]}", BODY[60:100]),
        (json.dumps(f"{BEGIN}\n{BODY}")[1:-1], BODY[:40]),
        (f"{BODY}\n{END}", BODY[:40]),
        ("https://me:hunter2@host/path", "hunter2"),
        ("postgres://me:p@ss:w@host:5432/db", "ss:w"),
        (f"Authorization: Bearer {LONG}", LONG),
        ("authorization=hunter2", "hunter2"),
        ('{"Authorization": "Basic aHVudGVyOmh1bnRlcg=="}', "aHVudGVyOmh1bnRlcg"),
        ("Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("bearer secrettoken", "secrettoken"),
        ("https://x.blob.core.windows.net/c?sv=1&sig=ab%2Bcd%3D123&se=2", "ab%2Bcd"),
        ("AccountName=a;AccountKey=aGVsbG8=;EndpointSuffix=x", "aGVsbG8"),
        ("api-key: hunter2", "hunter2"),
        ('"azure_api_key": "hunter2"', "hunter2"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret in text
    hidden = redact(f"before {text}\nafter.")
    assert secret not in hidden
    assert "[redacted]" in hidden
    assert hidden.startswith("before ")
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "Read the task-oriented basic understanding of risk-management first.",
        "https://host:8000/v1/chat?a=b@c",
        "api_key_env: OPENAI_API_KEY",
        "model.azure_openai_api_key: should be the name of an environment variable",
        "model.api_key: unknown key; did you mean 'model.api_key_env'?",
        "[command line (model.api_key=[redacted])]",
        "npm_config_registry, hf_hub, sk-learn",
        "in sk-learn-tutorial, sk-website-2026 and pypi-mirror-server-setup-scripts",
        "glide-animation-test-project, xai-research-notebook-experiments",
        "a basic arithmetic error; basic 12",
        "mail me@host.org at 10:30",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("env.api_key", True),
        ("model.azure_openai_api_key", True),
        ("password", True),
        ("access_token", True),
        ("model.api_key_env", False),
        ("model.max_tokens", False),
        ("model.tokens_per_minute", False),
        ("env.answer_key", False),
    ],
)
def test_a_key_that_holds_a_secret_is_known_by_its_name(key: str, secret: bool) -> None:
    assert names_secret(key) is secret


def test_a_fetched_secret_is_hidden_by_value_in_every_spelling() -> None:
    value = 'pass"wörd/with spaces+'
    secrets = Secrets({"KEY": value, "SHORT": "abc", "OTHER": "unfetched-value"})
    assert secrets.get("KEY") == value
    assert secrets.get("SHORT") == "abc"
    text = f"{value} | {json.dumps(value)} | pass%22w%C3%B6rd%2Fwith%20spaces%2B | abc | unfetched"
    assert secrets.redact(text) == '[redacted] | "[redacted]" | [redacted] | abc | unfetched'


@settings(deadline=None)
@given(st.text(string.printable, min_size=8).filter(lambda text: len(text.strip()) >= 8))
def test_no_fetched_secret_survives_redaction(value: str) -> None:
    secrets = Secrets({"KEY": value})
    secret = secrets.get("KEY")
    assert secret is not None
    # A value that is itself part of the mark cannot be told from it.
    if secret not in "[redacted]":
        for text in (secret, f"x{secret}x", json.dumps({"k": secret})):
            assert secret not in secrets.redact(text)


def test_a_secret_within_a_longer_one_does_not_uncover_it() -> None:
    secrets = Secrets({"A": "abcdefgh", "B": "abcdefgh-ijklmnop"})
    secrets.get("A")
    secrets.get("B")
    assert secrets.redact("abcdefgh-ijklmnop") == "[redacted]"


def test_the_first_variable_that_is_set_and_not_blank_counts() -> None:
    secrets = Secrets({"A": " ", "B": "value-of-b", "C": "value-of-c"})
    assert secrets.get("GONE", "A", "B", "C") == "value-of-b"
    assert secrets.get("GONE", "A") is None
    assert secrets.get() is None


def test_a_setting_is_read_but_not_hidden() -> None:
    secrets = Secrets({"URL": "http://localhost:8000"})
    assert secrets.setting("URL") == "http://localhost:8000"
    assert secrets.redact("http://localhost:8000") == "http://localhost:8000"


def test_secrets_do_not_show_themselves() -> None:
    secrets = Secrets({"KEY": "a-secret-value"})
    secrets.get("KEY")
    assert "a-secret" not in repr(secrets)


def test_an_env_file_is_read_as_shells_and_people_write_it() -> None:
    text = (
        "# a comment\n"
        "A=plain\r\n"
        "export B = spaced value   # comment\n"
        "C='single $x \\n # kept'\n"
        'D="double \\"quoted\\" \\n # kept" # gone\n'
        "E=\n"
        "F=a#b=c\n"
        "  G=  indented\n"
        'H="two\nlines"\n'
        "this line sets nothing\n"
        "export\n"
        "9X=no\n"
        "I=last"
    )
    assert parse_env(text) == {
        "A": "plain",
        "B": "spaced value",
        "C": "single $x \\n # kept",
        "D": 'double "quoted" \n # kept',
        "E": "",
        "F": "a#b=c",
        "G": "indented",
        "H": "two\nlines",
        "I": "last",
    }


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text()))
def test_any_quoted_value_of_an_env_file_survives(values: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    lines = [f'export {name}="{quoted(value)}"' for name, value in values.items()]
    assert parse_env("\n".join(lines)) == values


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\x00\r", exclude_categories=("Cs",))),
        min_size=1,
        max_size=20,
    )
)
def test_a_shell_that_sources_an_env_file_sees_the_same_values(values: list[str]) -> None:
    lines = [f"export K{n}={shlex.quote(value)}  # mine" for n, value in enumerate(values)]
    names = " ".join(f'"$K{n}"' for n in range(len(values)))
    script = "\n".join([*lines, f"printf '%s\\0' {names}"])
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == values
    assert list(parse_env(script).values()) == values


def test_the_example_of_an_env_file_can_be_sourced() -> None:
    example = Path(__file__).parents[2] / ".env.example"
    text = example.read_text("utf-8").replace("# export ", "export ")
    names = list(parse_env(text))
    done = subprocess.run(["sh", "-c", f"{text}\nenv"], capture_output=True, text=True, check=True)
    assert set(names) <= {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "OPENAI_API_KEY" in names


def test_a_child_that_needs_no_secret_gets_none() -> None:
    secrets = Secrets(
        {
            "PATH": "/bin",
            "OPENAI_API_KEY": "short",
            "GH_TOKEN": "x",
            "PROXY": "http://me:hunter2@proxy",
            "ODD_NAME": "a-secret-by-any-name",
            "HOME": "/home/me",
        }
    )
    secrets.get("ODD_NAME")
    assert secrets.harmless() == {"PATH": "/bin", "HOME": "/home/me"}


def env_file(folder: Path, **variables: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    (folder / ".env").write_text("\ufeff" + lines, encoding="utf-8")
    return folder / ".env"


def test_env_files_are_read_here_and_beside_the_configuration_and_never_beat_a_real_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = env_file(tmp_path / "here", SKILLOPT_T1="here", SKILLOPT_T2="here")
    there = env_file(tmp_path / "there", SKILLOPT_T1="there", SKILLOPT_T3="there")
    monkeypatch.setenv("SKILLOPT_T2", "real")
    monkeypatch.chdir(here.parent)
    secrets = Secrets.load(project=there.parent)
    found = [secrets.get(f"SKILLOPT_T{number}") for number in (1, 2, 3)]
    assert found == ["here", "real", "there"]
    assert secrets.notices == (
        f"read SKILLOPT_T1 from {here}",
        f"read SKILLOPT_T3 from {there}",
    )


def test_an_env_file_of_a_folder_above_is_not_read(tmp_path: Path) -> None:
    env_file(tmp_path, SKILLOPT_T3="outside")
    inside = tmp_path / "project" / "folder"
    inside.mkdir(parents=True)
    secrets = Secrets.load(inside, inside.parent)
    assert secrets.get("SKILLOPT_T3") is None
    assert secrets.notices == ()


def test_an_env_file_that_others_may_write_is_not_read_and_this_is_told(tmp_path: Path) -> None:
    file = env_file(tmp_path, SKILLOPT_T3="planted")
    file.chmod(0o666)
    secrets = Secrets.load(tmp_path)
    assert secrets.get("SKILLOPT_T3") is None
    assert "was not read: everybody may write" in secrets.notices[0]
    file.chmod(0o664)
    assert Secrets.load(tmp_path).get("SKILLOPT_T3") == "planted"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_an_env_file_of_another_user_is_not_read_and_this_is_told(tmp_path: Path) -> None:
    file = env_file(tmp_path, SKILLOPT_T3="planted")
    os.chown(file, 12345, 12345)
    secrets = Secrets.load(tmp_path)
    assert secrets.get("SKILLOPT_T3") is None
    assert secrets.notices == (f"{file} was not read: it belongs to another user",)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("TARGET_OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
        ("AZURE_OPENAI_OPTIMIZER_ENDPOINT", "AZURE_OPENAI_API_KEY"),
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
    ],
)
def test_an_address_from_an_env_file_is_refused_for_a_key_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, key: str
) -> None:
    monkeypatch.setenv(key, "a-key-of-the-shell")
    env_file(tmp_path, **{address: "https://elsewhere.example/v1", "OTHER_API_KEY": "x" * 9})
    with pytest.raises(ConfigError, match=rf"{key} comes from the environment, but {address} from"):
        Secrets.load(tmp_path).setting(address)
    env_file(tmp_path, **{address: "http://127.0.0.1:8000/v1"})
    assert Secrets.load(tmp_path).setting(address) == "http://127.0.0.1:8000/v1"
    monkeypatch.delenv(key)
    env_file(tmp_path, **{address: "https://elsewhere.example/v1", key: "a-key-of-the-file"})
    assert Secrets.load(tmp_path).setting(address) == "https://elsewhere.example/v1"
    monkeypatch.setenv(address, "https://of-the-shell.example")
    assert Secrets.load(tmp_path).setting(address) == "https://of-the-shell.example"


@pytest.mark.parametrize("kind", ["large", "pipe"])
def test_an_env_file_without_end_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "large":
        env_file(tmp_path, KEY="x" * 100_000)
        with pytest.raises(ConfigError, match=r"\.env: cannot be read: it is larger than 64 kB"):
            Secrets.load(tmp_path)
    else:
        os.mkfifo(tmp_path / ".env")
        assert Secrets.load(tmp_path).notices == ()


def test_a_folder_called_env_is_no_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    (tmp_path / ".git").mkdir()
    assert Secrets.load(tmp_path).get("SKILLOPT_T4") is None


def test_an_env_file_that_is_not_utf8_is_an_error_without_its_content(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"KEY=" + base64.b16encode(b"secret") + b"\xff")
    with pytest.raises(ConfigError) as caught:
        Secrets.load(tmp_path)
    assert str(caught.value) == f"{tmp_path / '.env'}: not UTF-8; save the file as UTF-8"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:[redacted]@host:9/v1", "the password for 'host:9/v1' was hidden"),
        ("http://[host/v1", "is not an address"),
    ],
)
def test_an_address_that_cannot_be_read_is_told(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Secrets({}).hide_address(url)
