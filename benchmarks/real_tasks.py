"""Families of tasks for a real model: short texts, a question, and answers in a house style.

What the style is stands nowhere but in the answers, so a first draft solves few of them. Answers
are compared as SearchQA's are: case, punctuation and articles do not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

SIZES = (24, 16, 32)
"""Train, val and test tasks."""
DRAFT = "# Questions about notes\n\nYou get a note and a question about it. Answer the question.\n"


@dataclass(frozen=True, slots=True)
class Item:
    context: str
    question: str
    answer: str


Maker: TypeAlias = Callable[[Random], Item]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    about: str
    makers: tuple[Maker, ...]
    """Sorts of tasks, which take turns."""
    sizes: tuple[int, int, int] = SIZES
    graded: bool = False

    def write(self, folder: Path, seed: int) -> Path:
        """A folder with train, val and test; no text stands in it twice."""
        random, seen, number = Random(f"{self.name} {seed}"), set[str](), 0
        for split, size in zip(("train", "val", "test"), self.sizes, strict=True):
            items: list[dict[str, object]] = []
            while len(items) < size:
                made = self.makers[len(items) % len(self.makers)](random)
                if made.context in seen:
                    continue
                seen.add(made.context)
                number += 1
                items.append(
                    {
                        "id": f"{split}-{number}",
                        "context": "The note is in the question.",
                        "question": f"{made.context}\n{made.question}",
                        "answers": [made.answer],
                    }
                )
            place = folder / split
            place.mkdir(parents=True, exist_ok=True)
            (place / "items.json").write_text(json.dumps(items), encoding="utf-8")
        return folder


PEOPLE = ("Ada", "Bruno", "Chen", "Dora", "Emil", "Fatma", "Goran", "Hana", "Ivo", "Jana")
SURNAMES = ("Okafor", "Lind", "Moreau", "Novak", "Silva", "Tanaka", "Weber", "Costa", "Haas")
CITIES = ("Porto", "Graz", "Lyon", "Bergen", "Gdansk", "Turin", "Ghent", "Malmo", "Brno")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
THINGS = ("apples", "bread", "candles", "dates", "eggs", "flour", "grapes", "honey", "juice")


def _pick(random: Random, texts: Sequence[str]) -> str:
    return random.choice(texts).format(
        who=random.choice(PEOPLE), room=random.randint(100, 499), city=random.choice(CITIES)
    )


_TICKETS = {
    "K1": (
        "{who} has lost the key to room {room}.",
        "The lock of room {room} is stuck and nobody gets in.",
        "The door of room {room} does not close any more, says {who}.",
        "{who} needs a second key for room {room}.",
    ),
    "H2": (
        "It is freezing in room {room}, the radiator stays cold.",
        "Water drips from the tap in room {room}, writes {who}.",
        "{who} says that the heating in room {room} cannot be turned down.",
        "The sink of room {room} is blocked.",
    ),
    "N3": (
        "The laptop of {who} in room {room} finds no network.",
        "{who} cannot log in to the mail program in room {room}.",
        "The screen in room {room} stays black.",
        "{who} asks for a new password for the computer in room {room}.",
    ),
    "P4": (
        "{who} was charged twice for room {room}.",
        "The invoice for room {room} never came, says {who}.",
        "{who} would like the deposit for room {room} back.",
        "The rent of room {room} is lower than what {who} had to pay.",
    ),
}


def _ticket(random: Random) -> Item:
    code = random.choice(sorted(_TICKETS))
    return Item(_pick(random, _TICKETS[code]), "Which desk gets this ticket?", code)


def _date(random: Random) -> Item:
    day, month = random.randint(1, 28), random.randrange(len(MONTHS))
    year = random.randint(2024, 2029)
    written = random.choice(
        (
            f"{day} {MONTHS[month]} {year}",
            f"{MONTHS[month]} {day}, {year}",
            f"the {day}. {MONTHS[month]} {year}",
        )
    )
    text = random.choice(("The course in {} begins on {}.", "In {} the fair opens on {}."))
    asked = "On which day does it begin?"
    return Item(
        text.format(random.choice(CITIES), written), asked, f"{year}-{month + 1:02}-{day:02}"
    )


def _length(random: Random) -> Item:
    metres = random.randint(1, 9) + random.choice((0, 0.5))
    written = random.choice((f"{metres:g} metres", f"{metres:g}m", f"{metres:g} meters"))
    text = random.choice(("{} needs a cable of {}.", "The shelf that {} ordered is {} long."))
    asked = "How long is it?"
    return Item(text.format(random.choice(PEOPLE), written), asked, f"{metres * 100:g} cm")


def _price(random: Random) -> Item:
    euros, cents = random.randint(2, 99), random.choice((10, 20, 50, 75))
    written = random.choice(
        (f"{euros} euros {cents}", f"{euros}.{cents} euros", f"€{euros}.{cents}")
    )
    text = random.choice(("{} paid {} for the book.", "The ticket of {} was {}."))
    asked = "What did it cost?"
    return Item(text.format(random.choice(PEOPLE), written), asked, f"EUR {euros}.{cents}")


def _signer(random: Random) -> Item:
    first, last, other = random.choice(PEOPLE), random.choice(SURNAMES), random.choice(SURNAMES)
    text = random.choice(
        (
            "The lease for the house in {city} was drawn up by the office {other}. It was signed "
            "by {first} {last} on a Monday.",
            "{first} {last} signed the delivery note. The driver of {other} left for {city}.",
            "After a call from {city}, the offer of {other} & Sons was signed by {first} {last}.",
        )
    )
    city = random.choice(CITIES)
    said = text.format(city=city, other=other, first=first, last=last)
    return Item(said, "Who signed it?", f"{last}, {first}")


def _phone(random: Random) -> Item:
    first, second = random.randint(100, 999), random.randint(1000, 9999)
    text = random.choice(
        (
            "{} can be reached in {} under {} {}, but not before nine.",
            "Please call {} about the order from {}: {}-{}.",
        )
    )
    said = text.format(random.choice(PEOPLE), random.choice(CITIES), first, second)
    return Item(said, "Which extension is it?", f"x{second}")


def _route(random: Random) -> Item:
    start, end, over = random.sample(CITIES, 3)
    text = random.choice(
        (
            "{} takes the parcel to {end}. The van leaves {start} at six and stops in {over}.",
            "{}'s parcel was sent from {start}. It goes over {over} and ends up in {end}.",
        )
    )
    said = text.format(random.choice(PEOPLE), start=start, end=end, over=over)
    return Item(said, "Which way does it go?", f"{start} > {over} > {end}")


def _list(random: Random) -> Item:
    things = random.sample(THINGS, 3)
    listed = f"{things[0]}, {things[1]} and {things[2]}"
    urgent = random.random() < 0.5
    hurry = random.choice((" It is urgent.", " As fast as you can, please.")) if urgent else ""
    text = random.choice(("Please bring {} to {}.{}", "We need {}, says {}.{}"))
    answer = " + ".join(sorted(things))
    said = text.format(listed, random.choice(PEOPLE), hurry)
    return Item(said, "What is on the list?", f"RUSH {answer}" if urgent else answer)


def _guests(random: Random) -> Item:
    names = random.sample(PEOPLE, random.randint(2, 4))
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    text = random.choice(("{} come on {}.", "On {1} we expect {0}."))
    day = random.choice(("Monday", "Tuesday", "Friday", "Sunday"))
    return Item(text.format(listed, day), "Who comes?", f"{len(names)}: {' '.join(sorted(names))}")


FAMILIES = {
    family.name: family
    for family in (
        Family("labels", "codes of a house, whose meaning only cases show", (_ticket,)),
        Family("units", "dates, lengths and prices in one form", (_date, _length, _price)),
        Family("extraction", "a part of a short text, in a form", (_signer, _phone, _route)),
        Family("conditions", "an order, and a mark under a condition", (_list, _guests)),
    )
}
