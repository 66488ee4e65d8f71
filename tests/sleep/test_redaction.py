"""No secret that was planted in a session is in anything that we make of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_transcripts import PROGRAMS, Story, Turn, settings_in, write_as

from skillopt.config.redaction import redact_personal
from skillopt.core.chat import Request
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.model.scripted import Scripted
from skillopt_sleep.harvest import harvest_tasks
from skillopt_sleep.model_mining import mine_with_model

WORD = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=24, max_size=40
)
HEX = st.text("0123456789abcdef", min_size=32, max_size=40)
NAME = st.text("abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=12)
DIGITS = st.text("123456789", min_size=7, max_size=7)
"""Planted secrets as (what stands in the text, what must not be left of it)."""
SECRETS = st.one_of(
    *(
        WORD.map(lambda word, head=head: (f"{head}{word}", word))
        for head in (
            "sk-", "sk-ant-api03-", "sk_live_", "rk_test_", "ghp_", "gho_", "github_pat_11A_",
            "glpat-", "hf_", "npm_", "pypi-", "ya29.", "AIza", "GOCSPX-", "xoxb-12-", "xapp-1-",
            "whsec_", "gsk_", "lin_api_", "eyJhbGciOiJIUzI1NiJ9.", "Authorization: Bearer ",
            "Bearer ", "api_key=", 'password: "', "export DB_PASSWORD=", "client_secret = ",
            "my password is ", "AccountKey=", "https://x.blob.example/c?sig=",
            "https://hooks.slack.com/services/T00/B00/",
        )
    ),
    WORD.map(lambda word: (f"https://me:{word}@host.example/x", word)),
    WORD.map(lambda word: (f"https://{word}@host.example/x.git", word)),
    WORD.map(lambda word: (f"postgres://me:p@{word}@db:5432/x", word)),
    WORD.map(lambda word: (f'{{"token": "{word} {word}"}}', word)),
    WORD.map(lambda word: (f"AKIA{word.upper()[:16]}", word.upper()[:16])),
    HEX.map(lambda word: (f"dop_v1_{word}", word)),
    HEX.map(lambda word: (f"-----BEGIN RSA PRIVATE KEY-----\n{word}\n{word}", word)),
    HEX.map(lambda w: (f"-----BEGIN PRIVATE KEY-----\n{w}\n-----END PRIVATE KEY-----", w)),
    NAME.map(lambda name: (f"{name}@{name}.example.org", name)),
    NAME.map(lambda name: (f"First.{name}+tag@corp.co.uk", name)),
    DIGITS.map(lambda digits: (f"+49 30 {digits}", digits)),
    DIGITS.map(lambda n: (f"+1 (555) {n[:3]}-{n[3:]}", f"{n[:3]}-{n[3:]}")),
    DIGITS.map(lambda digits: (f"call me at 0171 {digits}", digits)),
)  # fmt: skip
PROSE = st.sampled_from(
    ["Fix the login, ", "see\n", "(", "it was: ", "日本語 ", "x = '", "No, that is wrong: "]
)


@settings(max_examples=250)
@given(SECRETS, PROSE, st.sampled_from(["", " and go on", "\nthen stop", "; ok"]))
def test_no_secret_of_a_known_form_is_left_in_a_text(
    secret: tuple[str, str], before: str, after: str
) -> None:
    text, planted = secret
    assert planted in text
    assert planted not in redact_personal(f"{before}{text}{after}")


SECRET = "Hunter2Zq9xV7pLm"
CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    "form",
    [
        "mysql --password X", "tool --token X", "tool --api-key=X", "tool --api-key X",
        "curl -u admin:X https://x", "mysql -u root -pX db", "sshpass -p 'X' ssh host",
        "DB_PASS=X", "PASS=X", "pw: X", "SECRET_KEY_BASE=X", "SIGNING_KEY=X",
        "Passwort: X", "Kennwort: X", "contraseña: X", "密码: X", "密码\uff1aX",
        "**Password:** X", "**Password**: X", '{\\"password\\": \\"X\\"}', "password == 'X'",
        'password = """X"""', 'password: str = "X"', "password: |\n  X", "<password>X</password>",
        "password: $X", "password: %X", "password: <X>", "password: {X}", 'password = "$ecretX"',
        "password: string-X", "api key: X", "the token is X", "set the password to X",
        "Cookie: session=X; a=X", "Set-Cookie: sid=X; Path=/", "Authorization: ApiKey X",
        'Authorization: Digest username="x", response="X"', "postgres://u:pa/X@h/db",
        "dckr_pat_XX", "nvapi-XX", "glsa_XX", "ATATT3xFfGF0XX", "PMAK-XX", "tskey-auth-X",
        "sntrys_XX", "LTAIX", "1//0X12345", "hvb.X12345", "glc_XX", "tvly-X", "pcsk_X12345",
        "fw_X12345", "lsv2_pt_X12345", "e2b_X12345", "nfp_X12345", "sb_secret_X12345",
        "pscale_tkn_X12345", "dckr_oat_XX", "dp.pt.X12345", "abc8Q~XXX", "ATCTT3XX", "HRKU-X",
        "KEY=X", "AUTH=X", "export APP_KEY='X'", "AUTH=admin:X", "x-auth: X", '{"x-auth": "X"}',
        "x-auth-user: X", "key=XaX", "auth: XaX",
        "session_id=X", "session id: X", "JSESSIONID=X", "PHPSESSID: X", '"sid": "X"',
        "connect.sid=X", "document.cookie = 'a=X'", "curl -b 'a=X' https://x", "curl --cookie a=X",
        "pass: X", '"pass": "X"', "DB_PASS: X",
        "密码是X", "パスワードはX", "password -> X", "passwd X", "passphrase X",
        "CREATE USER bob IDENTIFIED BY 'X'", "db.example.org:5432:shop:bob:X", "login bob / X",
        "AKIAABCDEFGHIJKLMNOP X123456789012345678901234",
        "| token | X |", "| Password | `X` |", "| **api key** | X | yes |",
        "| user | password |\n|---|---|\n| bob | X |", "  | id | Token |\n  | 1 | **X** |",
        "-----BEGIN RSA PRIVATE KEY-----\n> MIIEpAIBAAKCAQEA7\n> XX",
        "-----BEGIN RSA PRIVATE KEY-----\n| MIIEpAIBAAKCAQEA7 |\n| XX |",
        "-----BEGIN PRIVATE KEY-----\n# MIIEabc\n# X",
        "> XXXX\n> XXX\n> -----END PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_a_secret_is_hidden_however_people_and_programs_write_it(form: str) -> None:
    assert SECRET not in redact_personal(form.replace("X", SECRET))


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("DB_PASSWORD=Tr0ub4dor&3xyz", "DB_PASSWORD=[redacted]"),
        ("password: abc,def9;ghi", "password: [redacted]"),
        ("password=abc(def)9xx", "password=[redacted]"),
        ('PASSWORD=a!b"c', "PASSWORD=[redacted]"),
        ("connect(user=me, password=abc)", "connect(user=me, password=[redacted])"),
        ("set `token=abc`, then go", "set `token=[redacted]`, then go"),
        ('{"env":"PASSWORD=abc","user":"me"}', '{"env":"PASSWORD=[redacted]","user":"me"}'),
        ("see https://x/?token=abc&page=2", "see https://x/?token=[redacted]&page=2"),
        ("The API key for prod is 9f8e7d6c5b4a", "The API key for prod is [redacted]"),
        ("Password for root: Wint3r!2024", "Password for root: [redacted]"),
        ('passphrase "purple monkey dishwasher"', 'passphrase "[redacted]"'),
        ("密码是 abc12345", "密码是 [redacted]"),
        ("パスワードは hunter22", "パスワードは [redacted]"),
        ("ssh bob:Secret1@host", "ssh bob:[redacted]@host"),
        ("net use Z: \\\\srv\\x /user:bob P4ssw0rd", "net use Z: \\\\srv\\x /user:bob [redacted]"),
        ("net use Z: \\\\srv\\x P4ssw0rd /user:bob", "net use Z: \\\\srv\\x [redacted] /user:bob"),
        ("key-3ax6xnjp29jd6fds4gc373sgvjxteol0", "[redacted]"),
        (f"EAAC{'Zd8' * 15}", "[redacted]"),
        ("me\uff20example.org", "[redacted]"),
    ],
)
def test_a_secret_is_hidden_whole_and_what_it_stands_in_stays(text: str, hidden: str) -> None:
    assert redact_personal(text) == hidden


@pytest.mark.parametrize(
    "between",
    [
        "\u200b",
        "\u200d",
        "\ufeff",
        "\xad",
        "\u2060",
        "\x00",
        "\x1b[0m",
        "\x1b[1;32m",
        "\x1b]0;t\x07",
    ],
)
@pytest.mark.parametrize("form", [f"ghp_{SECRET}{SECRET}", f"password: {SECRET}", f"KEY={SECRET}"])
def test_invisible_characters_within_a_secret_do_not_save_it(form: str, between: str) -> None:
    for at in range(len(form) + 1):
        hidden = redact_personal(f"{form[:at]}{between}{form[at:]} ok")
        assert "[redacted]" in hidden
        assert SECRET[:6] not in hidden
        assert SECRET[6:] not in hidden
    coloured = "".join(f"{letter}{between}" for letter in form)
    assert "[redacted]" in redact_personal(coloured)


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧 are here", "\x1b[32mPASSED\x1b[0m test_x", "co\xadoperate"]
)
def test_invisible_characters_stay_where_there_is_nothing_to_hide(text: str) -> None:
    assert redact_personal(text) == text


@pytest.mark.parametrize(
    "text",
    ["on 078-05-4711", "DE19 4711 0000 0532 0130 00", "carol471%40example.com",
     "pin: 4711", "PIN=471100", "my PIN is 4711", "PIN-Code: 4711", "OTP: 471147",
     "verification code: 471147", "CVV: 471", "| pin | 4711 |"],
)  # fmt: skip
def test_a_number_that_lets_somebody_in_is_hidden(text: str) -> None:
    assert "471" not in redact_personal(text)


@pytest.mark.parametrize(
    "number",
    [CARD, CARD.replace(" ", ""), CARD.replace(" ", "-"), "378282246310005", "5555555555554444"],
)
def test_a_card_number_is_hidden_and_a_number_with_another_check_digit_is_not(number: str) -> None:
    other = f"{number[:-1]}{(int(number[-1]) + 1) % 10}"
    assert redact_personal(f"pay with {number}.") == "pay with [redacted]."
    assert redact_personal(f"order {other}.") == f"order {other}."


@pytest.mark.parametrize("head", ["sbp_", "rubygems_", "SK"])
def test_a_token_of_hexadecimal_digits_is_known_by_how_it_begins(head: str) -> None:
    assert redact_personal(f"use {head}{'0123456789abcdef' * 2}") == "use [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "Run pytest -q tests/a_test.py::test_b in 3.11.4 on 2026-03-02 09:00:00",
        "git@github.com:me/repo.git at 0123456789abcdef0123456789abcdef01234567",
        "react@18.2.0 needs 192.168.0.12:8080 and port 1794814510921",
        "max_tokens: 100, tokens=5, the token is counted",
        "password = $PASSWORD or ${SECRET} or <password>",
        "def f(token: str) -> None: ...",
        "the token is sent, the secret is out, and the --token and --password options",
        "docker run -u 1000:1000 -p 8080:80 image, then bypass: it",
        "http://localhost:4873/@scope/package",
        "password = %s, {password}, {{ password }}, $password or %PASSWORD%",
        "pytest tests/token tests/test_2fa.py -k password",
        "10.1000/182 and ISBN 978-3-16-148410-0 and 1,234,567.89",
        "PASS: test_login2\nFAIL: test_logout\n--- PASS: TestToken2 (0.01s)\n# PASS:  12",
        "PASS=12 FAIL=0, Pass: 12, pass: tests/test_2fa.py, {'pass': 12, 'fail': 0}",
        "sorted(rows, key=lambda row: row[1]), key=operator.itemgetter(1), KEY=value, AUTH=basic",
        "cache key: v1-linux-3.11-requirements, primary_key=user_id, Press KEY = F12",
        "the pin is pulled high, pin: 13, session id: 12, side=left1234, cookie = None",
        "| Token | Meaning |\n|---|---|\n| token | a word |\n| max_tokens | 4096 |",
        "| password | string | required |\n| api_key_env | OPENAI |",
        "cat token | grep abc123 | base64 | head",
        "1794814510921 4096 4294967296 0.4111111111111111 20261118055206",
        "the token for the parser is counted, パスワードは 必須です, scp a:b host:/x@y",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact_personal(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a." * 50_000 + "@",
        "_." * 30_000 + "=",
        "0 " * 50_000,
        "://" * 30_000,
        "://a:" * 20_000,
        "| a " * 30_000,
        "\x1b[" * 30_000,
        "KEY=" * 30_000,
        "sid=" * 30_000,
        "pass:" * 20_000,
        "token for " * 10_000,
        "ssh a:" * 10_000,
        "net use " * 10_000,
    ],
)
def test_redaction_comes_to_an_end_whatever_the_text(text: str) -> None:
    assert redact_personal(text) == text


@settings(max_examples=25)
@given(st.data())
def test_no_planted_secret_reaches_session_task_file_prompt_or_log(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("sessions")
    project = folder / "app"
    project.mkdir()
    planted: list[str] = []

    def secret(kind: st.SearchStrategy[tuple[str, str]] = SECRETS) -> str:
        text, hidden = data.draw(kind)
        planted.append(hidden)
        return f"{data.draw(PROSE)}{text}\nthen"

    name = data.draw(st.sampled_from(sorted(PROGRAMS)))
    path = secret(SECRETS.filter(lambda drawn: "/" not in drawn[0]))
    turns = (
        Turn(
            user=f"Deploy the thing {secret()}",
            agent=f"Done {secret()}",
            shell=f"echo {secret()}",
            writes=f"{project}/{path}.txt",
        ),
        Turn(user=f"No, that is wrong, always use `{secret()}`", agent=f"ok {secret()}"),
    )
    write_as(name, folder, Story(project=str(project), turns=turns, branch=secret()))
    config = settings_in(folder, source=name, project=project)
    output = folder / "out" / "tasks.json"
    mined = harvest_tasks(config, output)
    assert mined.harvest.sessions
    heard: list[Request] = []

    def model(request: Request) -> str:
        heard.append(request)
        return json.dumps({"tasks": [{"asks": [1], "intent": secret(), "rubric": secret()}]})

    log = MemoryLog()
    work = mine_with_model(
        mined.harvest.sessions, config, Scripted(model), EventSink(log, lambda _: None)
    )
    tasks = asyncio.run(work).tasks
    assert heard
    seen = {
        "session": repr(mined),
        "task file": output.read_text("utf-8"),
        "prompt": repr(heard),
        "tasks": repr(tasks),
        "log": repr(log.events()),
    }
    for text in planted:
        assert [where for where, made in seen.items() if text in made] == []
