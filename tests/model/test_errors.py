from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import AccessError, ModelError
from skillopt.model.errors import Caller, classify, place, retry_after
from skillopt.model.provider import HttpAnswer

CALLER = Caller("target model 'm' at http://h", "MY_KEY")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": " 0.25 "}, 0.25),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After-Ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:05 -0000",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            5.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT",
                "Date": "Wed, 21 Oct 2026 07:29:00 GMT",
            },
            0.0,
        ),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: Mapping[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_date_without_the_servers_clock_is_read_against_ours() -> None:
    asked = retry_after({"Retry-After": formatdate(time.time() + 60, usegmt=True)})
    assert asked is not None
    assert 50 < asked <= 60


@given(st.text(), st.text())
def test_no_header_is_too_strange_to_read(value: str, date: str) -> None:
    seconds = retry_after({"Retry-After": value, "Date": date})
    assert seconds is None or seconds >= 0


@given(st.integers(300, 599), st.binary(max_size=200))
def test_every_answer_that_is_not_200_is_an_error_on_one_line(status: int, body: bytes) -> None:
    error = classify(HttpAnswer(status, {}, body), CALLER)
    assert isinstance(error, ModelError | AccessError)
    assert len(str(error).splitlines()) == 1
    assert f"HTTP {status}" in str(error)


def test_an_address_in_a_message_has_no_password_and_no_query() -> None:
    assert place("https://me:secret@h:1/v1?sig=secret#x") == "https://h:1/v1"
