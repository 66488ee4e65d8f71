"""Writes the rows of the quickstart job; they are checked in, this shows where they are from."""

from __future__ import annotations

import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "skillopt" / "quickstart" / "data"
SIZES = {"train": 32, "val": 32, "test": 60}
MONTHS = [
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
]
NAMES = [
    "Amira",
    "Ben",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Keiko",
    "Liam",
    "Mona",
    "Nils",
]
ITEMS = [
    "lamp",
    "desk",
    "kettle",
    "chair",
    "printer",
    "camera",
    "rug",
    "mirror",
    "heater",
    "bicycle",
    "shelf",
    "fan",
]

DATES = (
    "Please have the {item} here by {when}, we are moving the day after.",
    "We need the {item} no later than {when}. Thanks, {name}",
    "Hi, it's {name}. The {item} has to arrive before the party on {when}.",
    "{name} here. Could the {item} be delivered on {when}? I am home all day.",
    "The {item} I ordered should come on {when}, please leave it with the porter.",
)
TEAMS = {
    "FIN-01": (
        "I was charged twice for the same {item}.",
        "The invoice for the {item} shows the wrong amount.",
        "My card was debited but the shop says I still owe money for the {item}.",
        "Please send me a receipt for what I paid for the {item}.",
        "The discount was not taken off my bill for the {item}.",
        "Why is there an extra fee on my bill for the {item}?",
        "I paid for the {item} by bank transfer and the payment is not shown.",
    ),
    "LOG-02": (
        "The {item} should have been delivered three days ago and is not here.",
        "The courier left the {item} at the wrong house.",
        "Tracking says my {item} has been in the same depot for a week.",
        "Can the {item} be delivered in the evening instead?",
        "The driver did not ring, so the {item} went back to the depot.",
        "Where is the parcel with my {item}? The tracking page is stuck.",
        "Please ship the {item} to my office and not to my home.",
    ),
    "RMA-03": (
        "I do not like the {item} and want to send it back.",
        "The {item} arrived broken, I want to return it.",
        "How do I return the {item}? I have changed my mind.",
        "I would like to exchange the {item} for a larger one.",
        "The {item} is the wrong colour, please take it back.",
        "I sent the {item} back but the return is still not confirmed.",
        "Please send me a return label for the {item}.",
    ),
    "SYS-04": (
        "I cannot log in to your website to order the {item}.",
        "The app crashes whenever I open the page of the {item}.",
        "My password reset link for the shop does not work.",
        "The website shows an error when I put the {item} in the basket.",
        "The search on your website does not load any more.",
        "Your app does not start since the last update.",
        "I get error 500 when I open my account page.",
    ),
}
WEIGHTS = (
    "The parcel with the {item} weighs {n} kilograms.",
    "For the freight papers: the {item} is {n} kilos.",
    "{name} weighed the {item}: {n}kg with the box.",
    "The label on the {item} says {n} kilograms gross.",
    "The {item} comes to {n} kilogrammes packed.",
)
ORDERS = (
    "Where is my {item}? The order number is {code}.",
    "This is {name}, I am writing about order {code}, a {item}.",
    "Order no. {code}: please cancel the {item}.",
    "I have a question on my {item}, ordered under {code}.",
    "Ref. {code} - the {item} was a present, please do not add an invoice.",
)
ASKED = {
    "delivery date": "Which delivery date does the customer ask for?",
    "team": "Which team takes care of this?",
    "weight": "What does it weigh?",
    "order number": "What is the order number?",
}


def note(kind: str, rng: random.Random) -> tuple[str, str]:
    item, name = rng.choice(ITEMS), rng.choice(NAMES)
    if kind == "delivery date":
        year, month, day = rng.choice((2026, 2027)), rng.randint(1, 12), rng.randint(1, 28)
        word = MONTHS[month - 1]
        when = rng.choice(
            (f"{word} {day}, {year}", f"{day} {word} {year}", f"the {day}th of {word} {year}")
        )
        text = rng.choice(DATES).format(item=item, name=name, when=when)
        return text, f"{year}-{month:02d}-{day:02d}"
    if kind == "team":
        code = rng.choice(sorted(TEAMS))
        return rng.choice(TEAMS[code]).format(item=item), code
    if kind == "weight":
        n = rng.choice((f"{rng.randint(2, 60)}", f"{rng.randint(1, 29)}.{rng.randint(1, 9)}"))
        return rng.choice(WEIGHTS).format(item=item, name=name, n=n), f"{n} kg"
    code = f"{rng.randint(10000, 99999)}-{rng.choice('ABCDEFGH')}"
    return rng.choice(ORDERS).format(item=item, name=name, code=code), code


def rows() -> dict[str, list[dict[str, str]]]:
    rng = random.Random(7)  # noqa: S311 - for reproducible rows
    kinds = list(ASKED)
    seen: set[str] = set()
    made: dict[str, list[dict[str, str]]] = {}
    for split, size in SIZES.items():
        made[split] = []
        while len(made[split]) < size:
            kind = kinds[len(made[split]) % len(kinds)]
            text, answer = note(kind, rng)
            if text in seen:
                continue
            seen.add(text)
            asked = f"Note: {text}\n{ASKED[kind]}"
            name = f"{split}-{len(made[split]) + 1:02d}"
            made[split].append({"id": name, "kind": kind, "input": asked, "answer": answer})
    return made


def main() -> None:
    for split, items in rows().items():
        path = FOLDER / split / "items.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in items]
        path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
