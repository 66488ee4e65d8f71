"""Fields of the office's rooms and hours: six of twelve."""

from __future__ import annotations

import re
from random import Random

from skillopt.testing.simulator.forms import Field, FieldForm, exact, words

_SIDES = ("North", "South", "East", "West")


def _feet(value: re.Match[str]) -> float:
    return int(value[1]) * 0.3048


def _minutes(value: re.Match[str]) -> int:
    return int(value[1]) * 60 + int(value[2])


def _hour(value: re.Match[str]) -> int:
    return int(value[1]) % 12 + (12 if value[3] == "pm" else 0)


def _draw_time_spent(rng: Random) -> str:
    odd = [minute for minute in range(1, 60) if minute % 15]
    return f"{rng.randint(1, 7)} h {rng.choice(odd)} min"


LENGTH = Field(
    "shelf length",
    words(r"\blengths?\b", r"\bmeasure", r"\bdistances?\b", r"\bfeet\b", r"\bunits?\b"),
    re.compile(r"\b(\d+) ft\b"),
    lambda v: v[0],
    lambda r: f"{r.randint(3, 95)} ft",
    ("The free wall is {} long.", "The tape shows {}.", "There is space for {} of boards."),
    (
        FieldForm(
            "centimetres",
            lambda v: f"{round(_feet(v) * 100)} cm",
            words(r"\bcm\b", "centimet"),
            ("Give lengths in whole centimetres, such as 366 cm.",),
        ),
        FieldForm(
            "one_decimal",
            lambda v: f"{_feet(v):.1f} m",
            words("(?:one|1|single) decimal", r"\b\d+\.\d m\b"),
            (
                "Give lengths in metres with one decimal, such as 3.7 m.",
                "A shelf length in feet is converted to metric and shown with one decimal (6.1 m).",
                "Lengths: multiply feet by 0.3048, round to one decimal, add m, as in 4.9 m.",
            ),
        ),
        FieldForm(
            "two_decimals",
            lambda v: f"{_feet(v):.2f} m",
            words("(?:two|2) decimals", r"\b\d+\.\d\d m\b", r"\bmetric\b", r"\bmet(?:er|re)s\b"),
            ("Give lengths in metres with two decimals, such as 3.66 m.",),
        ),
    ),
)
ROOM = Field(
    "room code",
    words(r"\brooms?\b", r"\bmeeting places?\b"),
    re.compile(rf"room (\d{{1,2}}) on floor (\d) of the ({'|'.join(_SIDES)}) building"),
    lambda v: f"{v[3]} building, floor {v[2]}, room {v[1]}",
    lambda r: f"room {r.randint(1, 40)} on floor {r.randint(1, 9)} of the {r.choice(_SIDES)}",
    ("We meet in {} building.", "It stands in {} building.", "The workshop is in {} building."),
    (
        FieldForm(
            "letter_first",
            lambda v: f"{v[3][0]}{v[2]}-{int(v[1]):02}",
            exact(r"\b[NSEW]\d-\d\d\b", r"(?i:building(?:'s)? (?:first )?letter)"),
            (
                "Room codes are building letter, floor, dash, two-digit room, such as N3-14.",
                "Write a room as the building's letter and floor, then the room: W2-07.",
                "Rooms: room 5 on floor 8 of the South building is S8-05.",
            ),
        ),
        FieldForm(
            "floor_first",
            lambda v: f"{v[2]}.{int(v[1]):02}.{v[3][0]}",
            exact(r"\b\d\.\d\d\.[NSEW]\b"),
            ("Write a room as floor, room and building with points, such as 3.14.N.",),
        ),
    ),
)
FLAG = Field(
    "approval flag",
    words(r"\bflags?\b", r"\bapprov", r"\byes[/ ](?:or )?no\b", r"\bbooleans?\b"),
    re.compile(r"has (already|not yet) signed"),
    lambda v: "yes" if v[1] == "already" else "no",
    lambda r: r.choice(("already", "not yet")),
    (
        "The manager has {} signed it.",
        "The head of the unit has {} signed.",
        "Finance has {} signed the sheet.",
    ),
    (
        FieldForm(
            "letters",
            lambda v: "Y" if v[1] == "already" else "N",
            exact(r"\bY\b"),
            (
                "An approval flag is Y or N.",
                "Write yes/no answers as the single letter Y or N.",
                "Flags: Y when signed, N when unsigned.",
            ),
        ),
        FieldForm(
            "digits",
            lambda v: "1" if v[1] == "already" else "0",
            exact(r"\b1\b.*\b0\b"),
            ("Write an approval flag as 1 or 0.",),
        ),
        FieldForm(
            "truth",
            lambda v: "TRUE" if v[1] == "already" else "FALSE",
            words(r"\btrue\b"),
            ("Write an approval flag as TRUE or FALSE.",),
        ),
    ),
)
WEEK = Field(
    "planning week",
    words(r"\bweeks?\b"),
    re.compile(r"week (\d{1,2}) of (20\d\d)"),
    lambda v: v[0],
    lambda r: f"week {r.randint(1, 52)} of {r.randint(2021, 2027)}",
    ("Work is planned for {}.", "They start in {}.", "The slot is {}."),
    (
        FieldForm(
            "short",
            lambda v: f"{v[2][2:]}W{int(v[1]):02}",
            exact(r"\b\d\dW\d\d\b", r"\bYYWww\b"),
            (
                "Write planning weeks as two-digit year, W, two-digit week, such as 24W07.",
                "A week looks like 25W31: year, W, week.",
                "Weeks: YYWww, so week 3 of 2026 becomes 26W03.",
            ),
        ),
        FieldForm(
            "iso_week",
            lambda v: f"{v[2]}-W{int(v[1]):02}",
            exact(r"\b20\d\d-W\d\d\b"),
            ("Write a planning week in the ISO way, such as 2024-W07.",),
        ),
        FieldForm(
            "calendar_week",
            lambda v: f"CW{int(v[1]):02}",
            exact(r"\bCW ?\d\d\b"),
            ("Write the week as a calendar week, such as CW07.",),
        ),
    ),
)
BILLABLE = Field(
    "billable time",
    words(r"\bbillable\b", r"\bdurations?\b", r"\bhours? worked\b", r"\btime spent\b"),
    re.compile(r"\b(\d) h (\d{1,2}) min\b"),
    lambda v: f"{_minutes(v) / 60:.2f}",
    _draw_time_spent,
    ("The repair took {}.", "They worked {} on it.", "The log shows {}."),
    (
        FieldForm(
            "quarters_up",
            lambda v: f"{-(-_minutes(v) // 15) / 4:.2f} h",
            words(r"\bquarter", r"\b0\.25\b", r"\b15[- ]min"),
            (
                "Round billable time up to the next quarter of an hour, such as 1.75 h.",
                "Billable time counts in steps of 0.25, always rounded up, with h: 2.50 h.",
                "Time spent: round up to full 15-minute steps and give decimal hours (3.25 h).",
            ),
        ),
        FieldForm(
            "halves_up",
            lambda v: f"{-(-_minutes(v) // 30) / 2:.1f} hrs",
            words(r"\bhalf\b"),
            ("Round billable time up to the next half hour, such as 2.5 hrs.",),
        ),
        FieldForm(
            "minutes",
            lambda v: f"{_minutes(v)} min",
            words(r"\bin (?:whole |total )?minutes\b"),
            ("Give billable time in minutes, such as 112 min.",),
        ),
    ),
)
CLOCK = Field(
    "start time",
    words(r"\bstart(?:ing)? times?\b", r"\bclock\b", r"\btimes? of (?:the )?day\b", r"\btimes\b"),
    re.compile(r"\b(\d{1,2}):(\d\d) (am|pm)\b"),
    lambda v: v[0],
    lambda r: f"{r.randint(1, 12)}:{r.choice(range(0, 60, 5)):02} {r.choice(('am', 'pm'))}",
    ("Doors open at {}.", "We begin at {}.", "The call is at {}."),
    (
        FieldForm(
            "h_between",
            lambda v: f"{_hour(v):02}h{v[2]}",
            exact(r"\b\d\dh\d\d\b", r"\bHHhMM\b"),
            (
                "Write start times on the 24-hour clock with an h between, such as 16h45.",
                "A start time looks like 09h05: HHhMM.",
                "Times of day: two-digit hour (0 to 23), h, minutes, as in 21h30.",
            ),
        ),
        FieldForm(
            "colon",
            lambda v: f"{_hour(v):02}:{v[2]} hrs",
            exact(r"(?i:24[- ]hour)", r"\b(?:1[3-9]|2[0-3]):\d\d\b"),
            ("Write start times on the 24-hour clock, such as 16:45 hrs.",),
        ),
        FieldForm(
            "military",
            lambda v: f"{_hour(v):02}{v[2]} hours",
            exact(r"(?i:military)", r"\b\d{4} hours\b"),
            ("Write start times in military form, such as 1645 hours.",),
        ),
    ),
)
