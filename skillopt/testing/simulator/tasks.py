"""Fields of a made-up office, twelve of them, each with the ways to write it."""

from __future__ import annotations

import re
from random import Random

from skillopt.testing.simulator.forms import Field, FieldForm, exact, words

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_FIRST = (
    "Maria",
    "Jonas",
    "Aisha",
    "Peter",
    "Lucia",
    "Omar",
    "Helen",
    "Tomas",
    "Nadia",
    "Victor",
    "Ingrid",
    "Samuel",
)
_LAST = (
    "Lopez",
    "Keller",
    "Haddad",
    "Novak",
    "Rossi",
    "Farouk",
    "Meyer",
    "Silva",
    "Petrov",
    "Quinn",
    "Larsen",
    "Okafor",
)
_TEAMS = (
    "Payroll",
    "Printing",
    "Network",
    "Facilities",
    "Security",
    "Travel",
    "Reception",
    "Catering",
    "Archive",
    "Legal",
)
_LEVELS = ("urgent", "important", "routine", "minor")


def _month(value: re.Match[str]) -> int:
    return _MONTHS.index(value[1]) + 1


def _dollars(value: re.Match[str]) -> str:
    return value[1].replace(",", "")


def _level(value: re.Match[str]) -> int:
    return _LEVELS.index(value[1]) + 1


DATE = Field(
    "delivery date",
    words(r"\bdates?\b"),
    re.compile(rf"({'|'.join(_MONTHS)}) (\d{{1,2}}), (20\d\d)"),
    lambda v: v[0],
    lambda r: f"{r.choice(_MONTHS)} {r.randint(1, 28)}, {r.randint(2021, 2027)}",
    ("The parcel arrives on {}.", "The supplier promises {}.", "The goods are due {}."),
    (
        FieldForm(
            "iso",
            lambda v: f"{v[3]}-{_month(v):02}-{int(v[2]):02}",
            exact(r"\bISO\b", "(?i:yyyy-mm-dd)", "(?i:year-month-day)", r"\b20\d\d-\d\d-\d\d\b"),
            (
                "Write dates as year-month-day with digits only, such as 2024-03-05.",
                "A delivery date goes in ISO form: YYYY-MM-DD.",
                "Dates: use ISO 8601, for example 2023-11-09.",
            ),
        ),
        FieldForm(
            "day_first",
            lambda v: f"{int(v[2]):02}/{_month(v):02}/{v[3]}",
            exact("(?i:dd/mm/yyyy)", r"\b\d\d/\d\d/20\d\d\b", "(?i:day first)"),
            ("Write dates with the day first, such as 05/03/2024.", "Dates go in as DD/MM/YYYY."),
        ),
        FieldForm(
            "dotted",
            lambda v: f"{int(v[2])}.{_month(v)}.{v[3]}",
            exact(r"\b\d{1,2}\.\d{1,2}\.20\d\d\b", "(?i:with dots)"),
            ("Write dates with dots, such as 5.3.2024.",),
        ),
    ),
)
MONEY = Field(
    "invoice amount",
    words(r"\bamounts?\b", r"\bmoney\b", r"\bprices?\b", r"\binvoices?\b", r"\bsums?\b"),
    re.compile(r"\$([\d,]+)\.(\d\d)"),
    lambda v: v[0],
    lambda r: f"${r.randint(20, 9800):,}.{r.randint(0, 99):02}",
    ("The bill comes to {}.", "They charge {} for it.", "The total at the bottom says {}."),
    (
        FieldForm(
            "cents",
            lambda v: f"{_dollars(v)}{v[2]} ct",
            words(r"\bcents?\b", r"\bct\b"),
            (
                "Give amounts of money in cents with the unit ct and no symbol, such as 120450 ct.",
                "An invoice amount is a whole number of cents followed by ct: 8990 ct.",
                "Amounts: convert to cents, drop the dollar sign and commas, add ct (1999 ct).",
            ),
        ),
        FieldForm(
            "currency_code",
            lambda v: f"USD {_dollars(v)}.{v[2]}",
            exact(r"\bUSD\b"),
            ("Write amounts with the currency code in front, such as USD 1204.50.",),
        ),
        FieldForm(
            "whole",
            lambda v: f"{round(float(_dollars(v) + '.' + v[2]))} dollars",
            words("whole dollars", "nearest dollar"),
            ("Round invoice amounts to whole dollars, such as 1204 dollars.",),
        ),
    ),
)
QUEUE = Field(
    "ticket queue",
    words(r"\btickets?\b", r"\bqueues?\b", r"\brout(?:e|ing)\b"),
    re.compile(rf"\b({'|'.join(_TEAMS)}) team\b"),
    lambda v: v[1],
    lambda r: f"{r.choice(_TEAMS)} team",
    ("The {} has to look at it.", "This is for the {}.", "Only the {} can solve this."),
    (
        FieldForm(
            "code",
            lambda v: f"Q-{v[1][:3].upper()}",
            exact(r"\bQ-[A-Z]{3}\b", r"(?i:first three letters)", r"(?i:three-letter code)"),
            (
                "Route tickets to Q- plus the first three letters of the team in capitals (Q-PAY).",
                "A ticket queue is written as a code such as Q-NET for the Network team.",
                "Queues: prefix Q- and the team's first three letters, upper case, as in Q-LEG.",
            ),
        ),
        FieldForm(
            "desk",
            lambda v: f"{v[1].lower()}-desk",
            exact(r"-desk\b"),
            ("Name the ticket queue after its desk, such as payroll-desk.",),
        ),
    ),
)
NAME = Field(
    "contact name",
    words(r"\b(?:sur)?names?\b", r"\bcontacts?\b", r"\bpersons?\b", r"\bpeople\b"),
    re.compile(rf"\b({'|'.join(_FIRST)}) ({'|'.join(_LAST)})\b"),
    lambda v: v[0],
    lambda r: f"{r.choice(_FIRST)} {r.choice(_LAST)}",
    ("Please ask for {}.", "It was sent by {}.", "{} will answer questions."),
    (
        FieldForm(
            "surname_first",
            lambda v: f"{v[2].upper()}, {v[1]}",
            exact(
                r"\b[A-Z]{3,}, [A-Z][a-z]",
                r"(?i:(?:sur|last |family )names? (?:comes )?(?:first|in capitals|in upper))",
            ),
            (
                "Write names as LAST, First: the surname in capitals, a comma, the first name.",
                "A contact name starts with the surname in capital letters, such as LOPEZ, Maria.",
                "Names of people: surname first, in upper case, as in KELLER, Jonas.",
            ),
        ),
        FieldForm(
            "initial",
            lambda v: f"{v[1][0]}. {v[2]}",
            exact(r"(?i:\binitials?\b)", r"\b[A-Z]\. [A-Z][a-z]"),
            ("Shorten the first name of a contact to its initial, such as M. Lopez.",),
        ),
    ),
)
PHONE = Field(
    "phone number",
    words(r"\b(?:tele)?phones?\b", r"\bphone numbers?\b"),
    re.compile(r"\((\d{3})\) (\d{3})-(\d{4})"),
    lambda v: v[0],
    lambda r: f"({r.randint(201, 989)}) 555-01{r.randint(0, 99):02}",
    ("You can call back at {}.", "The card shows {}.", "Reach them under {}."),
    (
        FieldForm(
            "dots",
            lambda v: f"+1.{v[1]}.{v[2]}.{v[3]}",
            words(r"\+1\.\d", r"\+1\b.*\bdots?\b", r"\bdots?\b.*\+1\b"),
            (
                "Write phone numbers with +1 and dots, such as +1.212.555.0147.",
                "A phone number starts with +1 and its groups are joined by dots.",
                "Phone: country code first, dots between groups, as in +1.415.555.0102.",
            ),
        ),
        FieldForm(
            "dashes",
            lambda v: f"1-{v[1]}-{v[2]}-{v[3]}",
            words(r"\d{3}-\d{3}-\d{4}", "dashes", "hyphens"),
            ("Join the groups of a phone number with dashes, such as 1-212-555-0147.",),
        ),
    ),
)
PRIORITY = Field(
    "priority level",
    words(r"\bpriorit", r"\burgen", r"\bseverit"),
    re.compile(rf"marked (?:it )?(?:as )?({'|'.join(_LEVELS)})\b"),
    lambda v: v[1],
    lambda r: r.choice(_LEVELS),
    ("The request is marked as {}.", "Someone marked it as {}.", "It came in marked {}."),
    (
        FieldForm(
            "p_codes",
            lambda v: f"P{_level(v)}",
            exact(r"\bP[1-4]\b"),
            (
                "Write priorities as P1 (urgent), P2 (important), P3 (routine) or P4 (minor).",
                "The priority level is a code from P1 for urgent down to P4 for minor.",
                "Priority: urgent is P1, important P2, routine P3, minor P4.",
            ),
        ),
        FieldForm(
            "s_codes",
            lambda v: f"S{5 - _level(v)}",
            exact(r"\bS[1-4]\b"),
            ("Write the priority as a severity from S4 (urgent) down to S1 (minor).",),
        ),
    ),
)


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


FIELDS: tuple[Field, ...] = (
    DATE,
    MONEY,
    QUEUE,
    NAME,
    PHONE,
    PRIORITY,
    LENGTH,
    ROOM,
    FLAG,
    WEEK,
    BILLABLE,
    CLOCK,
)
BY_LABEL: dict[str, Field] = {each.label: each for each in FIELDS}
