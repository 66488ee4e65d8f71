"""Fields of the papers that pass through the office: six of twelve."""

from __future__ import annotations

import re

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
