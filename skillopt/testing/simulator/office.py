"""A made-up office: twelve fields of its forms, each with the ways to write it.

Nothing here says which form the house wants: that is known to `world` alone, and reaches the
optimizer only through the expected answers that it is shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

Value: TypeAlias = re.Match[str]


@dataclass(frozen=True, slots=True)
class FieldForm:
    """One way to write a field."""

    name: str
    template: str
    shown: str
    """What a rule must say or show for this form to be understood (an expression)."""

    @property
    def rules(self) -> Sequence[str]:
        """Ways in which a person would state it."""
        return _RULES[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Something that a request asks for."""

    label: str
    subject: str
    """How a rule names the field (an expression)."""
    raw: str
    """How a request gives the value (an expression)."""
    values: Callable[[Value], Mapping[str, object]]
    """What the templates of the forms are filled with."""
    forms: tuple[FieldForm, ...]
    """The more specific first: a rule counts for the first form that it shows."""
    plain: Callable[[Value], str] = lambda v: v[0]
    """What one answers without knowing the house's form."""
    draw: Callable[[Random], str]
    notes: tuple[str, ...]
    """Sentences around a drawn value, each with one `{}`."""

    def form(self, name: str) -> FieldForm:
        return next(form for form in self.forms if form.name == name)

    def write(self, form: str, value: Value) -> str:
        return self.form(form).template.format_map(self.values(value))


_STATED = """
iso: Write dates as year-month-day with digits only, such as 2024-03-05.
iso: A delivery date goes in ISO form: YYYY-MM-DD.
iso: Dates: use ISO 8601, for example 2023-11-09.
day_first: Write dates with the day first, such as 05/03/2024.
day_first: Dates go in as DD/MM/YYYY.
dotted: Write dates with dots, such as 5.3.2024.
cents: Give amounts of money in cents with the unit ct and no symbol, such as 120450 ct.
cents: An invoice amount is a whole number of cents followed by ct: 8990 ct.
cents: Amounts: convert to cents, drop the dollar sign and commas, add ct (1999 ct).
currency_code: Write amounts with the currency code in front, such as USD 1204.50.
whole: Round invoice amounts to whole dollars, such as 1204 dollars.
code: Route tickets to Q- plus the first three letters of the team in capitals (Q-PAY).
code: A ticket queue is written as a code such as Q-NET for the Network team.
code: Queues: prefix Q- and the team's first three letters, upper case, as in Q-LEG.
desk: Name the ticket queue after its desk, such as payroll-desk.
surname_first: Write names as LAST, First: the surname in capitals, a comma, the first name.
surname_first: A contact name starts with the surname in capital letters, such as LOPEZ, Maria.
surname_first: Names of people: surname first, in upper case, as in KELLER, Jonas.
initial: Shorten the first name of a contact to its initial, such as M. Lopez.
dots: Write phone numbers with +1 and dots, such as +1.212.555.0147.
dots: A phone number starts with +1 and its groups are joined by dots.
dots: Phone: country code first, dots between groups, as in +1.415.555.0102.
dashes: Join the groups of a phone number with dashes, such as 1-212-555-0147.
p_codes: Write priorities as P1 (urgent), P2 (important), P3 (routine) or P4 (minor).
p_codes: The priority level is a code from P1 for urgent down to P4 for minor.
p_codes: Priority: urgent is P1, important P2, routine P3, minor P4.
s_codes: Write the priority as a severity from S4 (urgent) down to S1 (minor).
centimetres: Give lengths in whole centimetres, such as 366 cm.
one_decimal: Give lengths in metres with one decimal, such as 3.7 m.
one_decimal: A shelf length in feet is converted to metric and shown with one decimal (6.1 m).
one_decimal: Lengths: multiply feet by 0.3048, round to one decimal, add m, as in 4.9 m.
two_decimals: Give lengths in metres with two decimals, such as 3.66 m.
letter_first: Room codes are building letter, floor, dash, two-digit room, such as N3-14.
letter_first: Write a room as the building's letter and floor, then the room: W2-07.
letter_first: Rooms: room 5 on floor 8 of the South building is S8-05.
floor_first: Write a room as floor, room and building with points, such as 3.14.N.
letters: An approval flag is Y or N.
letters: Write yes/no answers as the single letter Y or N.
letters: Flags: Y when signed, N when unsigned.
digits: Write an approval flag as 1 or 0.
truth: Write an approval flag as TRUE or FALSE.
short: Write planning weeks as two-digit year, W, two-digit week, such as 24W07.
short: A week looks like 25W31: year, W, week.
short: Weeks: YYWww, so week 3 of 2026 becomes 26W03.
iso_week: Write a planning week in the ISO way, such as 2024-W07.
calendar_week: Write the week as a calendar week, such as CW07.
quarters_up: Round billable time up to the next quarter of an hour, such as 1.75 h.
quarters_up: Billable time counts in steps of 0.25, always rounded up, with h: 2.50 h.
quarters_up: Time spent: round up to full 15-minute steps and give decimal hours (3.25 h).
halves_up: Round billable time up to the next half hour, such as 2.5 hrs.
minutes: Give billable time in minutes, such as 112 min.
h_between: Write start times on the 24-hour clock with an h between, such as 16h45.
h_between: A start time looks like 09h05: HHhMM.
h_between: Times of day: two-digit hour (0 to 23), h, minutes, as in 21h30.
colon: Write start times on the 24-hour clock, such as 16:45 hrs.
military: Write start times in military form, such as 1645 hours.
"""
"""Rules as a person would state them, each after the name of its form."""


_RULES: defaultdict[str, list[str]] = defaultdict(list)
for _line in _STATED.strip().splitlines():
    _name, _, _rule = _line.partition(": ")
    _RULES[_name].append(_rule)

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_FIRST = "Maria|Jonas|Aisha|Peter|Lucia|Omar|Helen|Tomas|Nadia|Victor|Ingrid|Samuel"
_LAST = "Lopez|Keller|Haddad|Novak|Rossi|Farouk|Meyer|Silva|Petrov|Quinn|Larsen|Okafor"
_TEAMS = "Payroll|Printing|Network|Facilities|Security|Travel|Reception|Catering|Archive|Legal"
_LEVELS = "urgent|important|routine|minor"
_SIDES = "North|South|East|West"


def _position(name: str, names: str) -> int:
    return names.split("|").index(name) + 1


def _one(names: str, rng: Random) -> str:
    return rng.choice(names.split("|"))


def _amount(value: Value) -> Mapping[str, object]:
    dollars, cents = value[1].replace(",", ""), value[2]
    return {"dollars": dollars, "cents": cents, "rounded": round(float(f"{dollars}.{cents}"))}


def _minutes(value: Value) -> int:
    return int(value[1]) * 60 + int(value[2])


def _time_spent(value: Value) -> Mapping[str, object]:
    minutes = _minutes(value)
    return {"quarters": -(-minutes // 15) / 4, "halves": -(-minutes // 30) / 2, "minutes": minutes}


def _signed(value: Value) -> Mapping[str, object]:
    letter, digit, truth = ("Y", 1, "TRUE") if value[1] == "already" else ("N", 0, "FALSE")
    return {"letter": letter, "digit": digit, "truth": truth}


_ODD_MINUTES = [minute for minute in range(1, 60) if minute % 15]

FIELDS: tuple[Field, ...] = (
    Field(
        label="delivery date",
        values=lambda v: {"month": _position(v[1], _MONTHS), "day": int(v[2]), "year": v[3]},
        forms=(
            FieldForm(
                "iso",
                "{year}-{month:02}-{day:02}",
                r"\bISO\b|(?i:yyyy-mm-dd)|(?i:year-month-day)|\b20\d\d-\d\d-\d\d\b",
            ),
            FieldForm(
                "day_first",
                "{day:02}/{month:02}/{year}",
                r"(?i:dd/mm/yyyy)|\b\d\d/\d\d/20\d\d\b|(?i:day first)",
            ),
            FieldForm(
                "dotted", "{day}.{month}.{year}", r"\b\d{1,2}\.\d{1,2}\.20\d\d\b|(?i:with dots)"
            ),
        ),
        subject=r"\bdates?\b",
        raw=rf"({_MONTHS}) (\d{{1,2}}), (20\d\d)",
        draw=lambda r: f"{_one(_MONTHS, r)} {r.randint(1, 28)}, {r.randint(2021, 2027)}",
        notes=("The parcel arrives on {}.", "The supplier promises {}.", "The goods are due {}."),
    ),
    Field(
        label="invoice amount",
        values=_amount,
        forms=(
            FieldForm("cents", "{dollars}{cents} ct", r"(?i)\bcents?\b|\bct\b"),
            FieldForm("currency_code", "USD {dollars}.{cents}", r"\bUSD\b"),
            FieldForm("whole", "{rounded} dollars", r"(?i)whole dollars|nearest dollar"),
        ),
        subject=r"\bamounts?\b|\bmoney\b|\bprices?\b|\binvoices?\b|\bsums?\b",
        raw=r"\$([\d,]+)\.(\d\d)",
        draw=lambda r: f"${r.randint(20, 9800):,}.{r.randint(0, 99):02}",
        notes=(
            "The bill comes to {}.",
            "They charge {} for it.",
            "The total at the bottom says {}.",
        ),
    ),
    Field(
        label="ticket queue",
        values=lambda v: {"code": v[1][:3].upper(), "team": v[1].lower()},
        forms=(
            FieldForm(
                "code",
                "Q-{code}",
                r"\bQ-[A-Z]{3}\b|(?i:first three letters)|(?i:three-letter code)",
            ),
            FieldForm("desk", "{team}-desk", r"-desk\b"),
        ),
        subject=r"\btickets?\b|\bqueues?\b|\brout(?:e|ing)\b",
        raw=rf"\b({_TEAMS}) team\b",
        plain=lambda v: v[1],
        draw=lambda r: f"{_one(_TEAMS, r)} team",
        notes=("The {} has to look at it.", "This is for the {}.", "Only the {} can solve this."),
    ),
    Field(
        label="contact name",
        values=lambda v: {"first": v[1], "last": v[2], "initial": v[1][0], "LAST": v[2].upper()},
        forms=(
            FieldForm(
                "surname_first",
                "{LAST}, {first}",
                r"\b[A-Z]{3,}, [A-Z][a-z]"
                r"|(?i:(?:sur|last |family )names? (?:comes )?(?:first|in capitals|in upper))",
            ),
            FieldForm("initial", "{initial}. {last}", r"(?i:\binitials?\b)|\b[A-Z]\. [A-Z][a-z]"),
        ),
        subject=r"\b(?:sur)?names?\b|\bcontacts?\b|\bpersons?\b|\bpeople\b",
        raw=rf"\b({_FIRST}) ({_LAST})\b",
        draw=lambda r: f"{_one(_FIRST, r)} {_one(_LAST, r)}",
        notes=("Please ask for {}.", "It was sent by {}.", "{} will answer questions."),
    ),
    Field(
        label="phone number",
        values=lambda v: {"area": v[1], "exchange": v[2], "line": v[3]},
        forms=(
            FieldForm(
                "dots",
                "+1.{area}.{exchange}.{line}",
                r"(?i)\+1\.\d|\+1\b.*\bdots?\b|\bdots?\b.*\+1\b",
            ),
            FieldForm(
                "dashes", "1-{area}-{exchange}-{line}", r"(?i)\d{3}-\d{3}-\d{4}|dashes|hyphens"
            ),
        ),
        subject=r"\b(?:tele)?phones?\b|\bphone numbers?\b",
        raw=r"\((\d{3})\) (\d{3})-(\d{4})",
        draw=lambda r: f"({r.randint(201, 989)}) 555-01{r.randint(0, 99):02}",
        notes=("You can call back at {}.", "The card shows {}.", "Reach them under {}."),
    ),
    Field(
        label="priority level",
        values=lambda v: {"rank": (rank := _position(v[1], _LEVELS)), "severity": 5 - rank},
        forms=(
            FieldForm("p_codes", "P{rank}", r"\bP[1-4]\b"),
            FieldForm("s_codes", "S{severity}", r"\bS[1-4]\b"),
        ),
        subject=r"\bpriorit|\burgen|\bseverit",
        raw=rf"marked (?:it )?(?:as )?({_LEVELS})\b",
        plain=lambda v: v[1],
        draw=lambda r: _one(_LEVELS, r),
        notes=("The request is marked as {}.", "Someone marked it as {}.", "It came in marked {}."),
    ),
    Field(
        label="shelf length",
        values=lambda v: {"m": (metres := int(v[1]) * 0.3048), "cm": round(metres * 100)},
        forms=(
            FieldForm("centimetres", "{cm} cm", r"(?i)\bcm\b|centimet"),
            FieldForm("one_decimal", "{m:.1f} m", r"(?i)(?:one|1|single) decimal|\b\d+\.\d m\b"),
            FieldForm(
                "two_decimals",
                "{m:.2f} m",
                r"(?i)(?:two|2) decimals|\b\d+\.\d\d m\b|\bmetric\b|\bmet(?:er|re)s\b",
            ),
        ),
        subject=r"\blengths?\b|\bmeasure|\bdistances?\b|\bfeet\b|\bunits?\b",
        raw=r"\b(\d+) ft\b",
        draw=lambda r: f"{r.randint(3, 95)} ft",
        notes=(
            "The free wall is {} long.",
            "The tape shows {}.",
            "There is space for {} of boards.",
        ),
    ),
    Field(
        label="room code",
        values=lambda v: {"room": int(v[1]), "floor": v[2], "letter": v[3][0]},
        forms=(
            FieldForm(
                "letter_first",
                "{letter}{floor}-{room:02}",
                r"\b[NSEW]\d-\d\d\b|(?i:building(?:'s)? (?:first )?letter)",
            ),
            FieldForm("floor_first", "{floor}.{room:02}.{letter}", r"\b\d\.\d\d\.[NSEW]\b"),
        ),
        subject=r"\brooms?\b|\bmeeting places?\b",
        raw=rf"room (\d{{1,2}}) on floor (\d) of the ({_SIDES}) building",
        plain=lambda v: f"{v[3]} building, floor {v[2]}, room {v[1]}",
        draw=lambda r: (
            f"room {r.randint(1, 40)} on floor {r.randint(1, 9)} of the {_one(_SIDES, r)}"
        ),
        notes=(
            "We meet in {} building.",
            "It stands in {} building.",
            "The workshop is in {} building.",
        ),
    ),
    Field(
        label="approval flag",
        values=_signed,
        forms=(
            FieldForm("letters", "{letter}", r"\bY\b"),
            FieldForm("digits", "{digit}", r"\b1\b.*\b0\b"),
            FieldForm("truth", "{truth}", r"(?i)\btrue\b"),
        ),
        subject=r"\bflags?\b|\bapprov|\byes[/ ](?:or )?no\b|\bbooleans?\b",
        raw=r"has (already|not yet) signed",
        plain=lambda v: "yes" if v[1] == "already" else "no",
        draw=lambda r: r.choice(("already", "not yet")),
        notes=(
            "The manager has {} signed it.",
            "The head of the unit has {} signed.",
            "Finance has {} signed the sheet.",
        ),
    ),
    Field(
        label="planning week",
        values=lambda v: {"week": int(v[1]), "year": v[2], "yy": v[2][2:]},
        forms=(
            FieldForm("short", "{yy}W{week:02}", r"\b\d\dW\d\d\b|\bYYWww\b"),
            FieldForm("iso_week", "{year}-W{week:02}", r"\b20\d\d-W\d\d\b"),
            FieldForm("calendar_week", "CW{week:02}", r"\bCW ?\d\d\b"),
        ),
        subject=r"\bweeks?\b",
        raw=r"week (\d{1,2}) of (20\d\d)",
        draw=lambda r: f"week {r.randint(1, 52)} of {r.randint(2021, 2027)}",
        notes=("Work is planned for {}.", "They start in {}.", "The slot is {}."),
    ),
    Field(
        label="billable time",
        values=_time_spent,
        forms=(
            FieldForm("quarters_up", "{quarters:.2f} h", r"(?i)\bquarter|\b0\.25\b|\b15[- ]min"),
            FieldForm("halves_up", "{halves:.1f} hrs", r"(?i)\bhalf\b"),
            FieldForm("minutes", "{minutes} min", r"(?i)\bin (?:whole |total )?minutes\b"),
        ),
        subject=r"\bbillable\b|\bdurations?\b|\bhours? worked\b|\btime spent\b",
        raw=r"\b(\d) h (\d{1,2}) min\b",
        plain=lambda v: f"{_minutes(v) / 60:.2f}",
        draw=lambda r: f"{r.randint(1, 7)} h {r.choice(_ODD_MINUTES)} min",
        notes=("The repair took {}.", "They worked {} on it.", "The log shows {}."),
    ),
    Field(
        label="start time",
        values=lambda v: {"hour": int(v[1]) % 12 + (12 if v[3] == "pm" else 0), "minute": v[2]},
        forms=(
            FieldForm("h_between", "{hour:02}h{minute}", r"\b\d\dh\d\d\b|\bHHhMM\b"),
            FieldForm(
                "colon", "{hour:02}:{minute} hrs", r"(?i:24[- ]hour)|\b(?:1[3-9]|2[0-3]):\d\d\b"
            ),
            FieldForm("military", "{hour:02}{minute} hours", r"(?i:military)|\b\d{4} hours\b"),
        ),
        subject=r"\bstart(?:ing)? times?\b|\bclock\b|\btimes? of (?:the )?day\b|\btimes\b",
        raw=r"\b(\d{1,2}):(\d\d) (am|pm)\b",
        draw=lambda r: (
            f"{r.randint(1, 12)}:{r.choice(range(0, 60, 5)):02} {r.choice(('am', 'pm'))}"
        ),
        notes=("Doors open at {}.", "We begin at {}.", "The call is at {}."),
    ),
)
BY_LABEL: dict[str, Field] = {field.label: field for field in FIELDS}
