"""Generates the data of the quickstart; the generated files are in the repository."""

from __future__ import annotations

import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "skillopt" / "quickstart" / "data"
SIZES = {"train": 24, "val": 24, "test": 48}
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
MOODS = {
    "POS": (
        "The {item} is lovely, thank you so much!",
        "I am delighted, it looks even better than in the picture.",
        "Great service, everything came a day early.",
        "My daughter adores her new {item}. We will order again.",
        "What a beautiful thing! It was worth every cent.",
        "{name} here, just to say that all works perfectly.",
        "Quick help on the phone yesterday, I am very happy with your team.",
        "Best {item} I have ever owned. Five stars!",
        "Wow, your driver even carried the {item} upstairs. Wonderful people.",
        "I will recommend your shop to all my friends.",
        "The repair took ten minutes and cost nothing, fantastic!",
        "We love how quiet the new {item} is.",
    ),
    "NEG": (
        "The {item} is terrible, I want my money back.",
        "I am very disappointed, it broke after one day.",
        "Awful hotline, nobody ever answers my calls.",
        "My son hates the {item} you sent. Never again.",
        "How ugly! A complete waste of money.",
        "{name} writing, and I am angry: nothing works at all.",
        "Three weeks of waiting, this is unacceptable.",
        "Worst {item} in years. One star!",
        "Your driver was rude and threw my {item} over the fence.",
        "I will warn everybody I know about this shop.",
        "You charged me twice and refuse to apologise, outrageous!",
        "The new {item} rattles all night and drives us mad.",
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
    "mood": "What is the mood of the customer?",
    "weight": "What does it weigh?",
    "order number": "What is the order number?",
}


def note(kind: str, rng: random.Random, moods: list[tuple[str, str]]) -> tuple[str, str]:
    item, name = rng.choice(ITEMS), rng.choice(NAMES)
    if kind == "delivery date":
        year, month, day = rng.choice((2026, 2027)), rng.randint(1, 12), rng.randint(1, 28)
        word = MONTHS[month - 1]
        when = rng.choice(
            (f"{word} {day}, {year}", f"{day} {word} {year}", f"the {day}th of {word} {year}")
        )
        text = rng.choice(DATES).format(item=item, name=name, when=when)
        return text, f"{year}-{month:02d}-{day:02d}"
    if kind == "mood":
        # Each once: the same words about another item would be known from training.
        text, code = moods.pop()
        return text.format(item=item, name=name), code
    if kind == "weight":
        n = rng.choice((f"{rng.randint(2, 60)}", f"{rng.randint(1, 29)}.{rng.randint(1, 9)}"))
        return rng.choice(WEIGHTS).format(item=item, name=name, n=n), f"{n} kg"
    code = f"{rng.randint(10000, 99999)}-{rng.choice('ABCDEFGH')}"
    return rng.choice(ORDERS).format(item=item, name=name, code=code), code


def rows() -> dict[str, list[dict[str, str]]]:
    rng = random.Random(7)  # noqa: S311 - for reproducible rows
    kinds = list(ASKED)
    mixed = [
        rng.sample([(text, code) for text in texts], len(texts)) for code, texts in MOODS.items()
    ]
    moods = [each for pair in zip(*mixed, strict=True) for each in pair]
    seen: set[str] = set()
    made: dict[str, list[dict[str, str]]] = {}
    for split, size in SIZES.items():
        made[split] = []
        while len(made[split]) < size:
            kind = kinds[len(made[split]) % len(kinds)]
            text, answer = note(kind, rng, moods)
            if text in seen:
                continue
            seen.add(text)
            asked = f"Note: {text}\n{ASKED[kind]}"
            name = f"{split}-{len(made[split]) + 1:02d}"
            made[split].append({"id": name, "input": asked, "answer": answer})
    return made


def main() -> None:
    for split, items in rows().items():
        path = FOLDER / split / "items.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in items]
        path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
