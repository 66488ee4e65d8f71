"""Makes what is in `ckpt/`: tasks, and skills that were trained on them, with their provenance.

    python scripts/packaged_skills.py data
    skillopt train ckpt/searchqa/config.yaml --out_root RUN
    python scripts/packaged_skills.py pack searchqa RUN

Each set has the format of a benchmark, and answers in a house style that only the answers show.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from random import Random

from skillopt.core.events import Begun
from skillopt.core.rollout import Evaluation
from skillopt.gates.statistics import interval
from skillopt.model.weights import find
from skillopt.store.reader import RunReader

FOLDER = Path(__file__).parent.parent / "ckpt"
SIZES = {"train": 12, "val": 12, "test": 24}
FEWER = {"officeqa_text": {"train": 9, "val": 9, "test": 15}}
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September")
FIRST = ("Ada", "Bruno", "Clara", "Dora", "Emil", "Fatma", "Goran", "Hana", "Ivo", "Jana", "Karl")
LAST = ("Okafor", "Lind", "Moreau", "Novak", "Silva", "Tanaka", "Weber", "Costa", "Haas", "Petrov")
CITIES = ("Porto", "Graz", "Lyon", "Bergen", "Gdansk", "Turin", "Ghent", "Malmo", "Brno", "Cork")
_REMARKS = (
    ("settled in full on arrival", "PAID"),
    ("we thank you for your cheque", "PAID"),
    ("money received last week", "PAID"),
    ("the bill is still open", "DUE"),
    ("we are waiting for your cheque", "DUE"),
    ("please send the money soon", "DUE"),
)

Row = Mapping[str, object]
Maker = Callable[[Random], Row]


def _day(random: Random) -> tuple[str, str]:
    """A date as texts write it, and as the answers do."""
    day, month, year = (
        random.randint(1, 28),
        random.randrange(len(MONTHS)),
        random.randint(1901, 1999),
    )
    written = random.choice((f"{MONTHS[month]} {day}, {year}", f"{day} {MONTHS[month]} {year}"))
    return written, f"{year}-{month + 1:02}-{day:02}"


def _snippets(random: Random, *texts: tuple[str, str]) -> str:
    shuffled = random.sample(texts, len(texts))
    return " ".join(f"[DOC] [TLE] {title} [PAR] {text}" for title, text in shuffled)


def _architect(random: Random) -> Row:
    city, other = random.sample(CITIES, 2)
    first, last = random.choice(FIRST), random.choice(LAST)
    rival = f"{random.choice(FIRST)} {random.choice([name for name in LAST if name != last])}"
    context = _snippets(
        random,
        (f"{city} town hall", f"The town hall of {city} was built by {first} {last}."),
        (f"{other} station", f"The station of {other} is a work of {rival}, who lived in {city}."),
    )
    clue = f"This architect built the town hall of {city}"
    return {"question": clue, "context": context, "answers": [last]}


def _opening(random: Random) -> Row:
    city, other = random.sample(CITIES, 2)
    (written, answer), (wrong, _) = _day(random), _day(random)
    context = _snippets(
        random,
        (f"Bridge of {city}", f"Traffic began to cross the bridge of {city} on {written}."),
        (f"Bridge of {other}", f"The bridge of {other} was closed on {wrong} after a flood."),
    )
    clue = f"On this day the bridge of {city} was opened"
    return {"question": clue, "context": context, "answers": [answer]}


def _height(random: Random) -> Row:
    city, other = random.sample(CITIES, 2)
    metres, wrong = random.sample(range(20, 95), 2)
    context = _snippets(
        random,
        (f"{city} tower", f"With its {metres} metres the tower of {city} is seen from afar."),
        (f"{other} tower", f"The tower of {other} rises {wrong} m above the river."),
    )
    clue = f"The tower of {city} is this high"
    return {"question": clue, "context": context, "answers": [f"{metres} m"]}


def _page(random: Random) -> tuple[str, Mapping[str, str]]:
    """A letter as its lines are read from a scan, and what stands on it."""
    written, day = _day(random)
    kilograms = random.randint(11, 980)
    remark, paid = random.choice(_REMARKS)
    lines = [
        f"{random.choice(CITIES).upper()} PAPER MILLS",
        f"File {random.randint(1000, 9999)}",
        f"Date: {written}",
        f"From: {random.choice(FIRST)} {random.choice(LAST)}",
        f"Subject: {random.choice(('samples', 'repairs', 'freight', 'advertising'))}",
        f"Weight: {kilograms} kilograms",
        f"Remarks: {remark}",
    ]
    return "\n".join(lines), {"day": day, "weight": f"{kilograms} kg", "paid": paid}


def _asked(question: str, fact: str) -> Maker:
    def make(random: Random) -> Row:
        page, facts = _page(random)
        return {"input": f"## Page\n{page}\n\n## Question\n{question}", "answer": [facts[fact]]}

    return make


def _receipts(random: Random) -> tuple[str, dict[str, int]]:
    """A source of receipts, and how much came from it in three months."""
    item = random.choice(("customs", "postal services", "excise taxes", "income taxes"))
    months = sorted(random.sample(range(len(MONTHS)), 3))
    sums = random.sample(range(210, 980), 3)
    return item, {MONTHS[month]: each for month, each in zip(months, sums, strict=True)}


def _month(random: Random) -> Row:
    (item, sums), year = _receipts(random), random.randint(1941, 1979)
    asked = random.choice(list(sums))
    lines = [f"Receipts from {item} in {year}, in millions", "| Month | Receipts |"]
    lines += [f"| {month} | {each} |" for month, each in sums.items()]
    question = f"In which month were receipts of {sums[asked]} million reported?"
    return _office("\n".join(lines), question, f"{asked} {year}")


def _year(random: Random) -> Row:
    (item, sums), first = _receipts(random), random.randint(1941, 1975)
    years = {first + number: each for number, each in enumerate(sums.values())}
    asked = random.choice(list(years))
    lines = [f"Receipts from {item}, in millions", "| Year | Receipts |"]
    lines += [f"| {year} | {each} |" for year, each in years.items()]
    question = f"In which year did {item} bring {years[asked]} million?"
    return _office("\n".join(lines), question, f"FY {asked}")


def _gap(random: Random) -> Row:
    (item, sums), year = _receipts(random), random.randint(1941, 1979)
    missing = random.choice(list(sums))
    lines = [f"Payments for {item} in {year}, in millions", "| Month | Payments |"]
    lines += [f"| {each} | {'...' if each == missing else sums[each]} |" for each in sums]
    question = f"How much was paid in {missing}?"
    return _office("\n".join(lines), question, "not reported")


def _office(text: str, question: str, answer: str) -> Row:
    return {"input": f"## Bulletin\n{text}\n\n## Question\n{question}", "answer": answer}


SETS: Mapping[str, tuple[Maker, ...]] = {
    "searchqa": (_architect, _opening, _height),
    "docvqa_text": (
        _asked("When was this written?", "day"),
        _asked("How heavy is the shipment?", "weight"),
        _asked("Has it been paid for?", "paid"),
    ),
    "officeqa_text": (_month, _year, _gap),
}


def rows(name: str) -> dict[str, list[Row]]:
    """The tasks of a set by split; no two have the same text."""
    random, seen, number = Random(name), set[str](), 0  # noqa: S311 - the same data every time
    made: dict[str, list[Row]] = {}
    for split, size in FEWER.get(name, SIZES).items():
        made[split] = []
        while len(made[split]) < size:
            row = SETS[name][len(made[split]) % len(SETS[name])](random)
            text = json.dumps({**row, "answer": "", "answers": ""})
            if text not in seen:
                seen.add(text)
                number += 1
                made[split].append({"id": f"{name}-{number}", **row})
    return made


def write_data() -> None:
    for name in SETS:
        for split, made in rows(name).items():
            file = FOLDER / name / "data" / split / "items.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(row, ensure_ascii=False) for row in made)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pack(name: str, run: Path) -> None:
    """Copy the best skill of a finished run, and write down where it comes from."""
    folder = FOLDER / name
    with RunReader(run) as reader:
        state, skill = reader.state, reader.skill("best")
        config = reader.config
        (identity,) = [
            entry.fact.identity for entry in reader.entries if isinstance(entry.fact, Begun)
        ]
        spent = reader.spent()
    if state.final_test is None:
        raise SystemExit(f"{run} has no final test yet; finish it")
    weights = find(str(config["target_model"]))
    data = sorted((folder / "data").rglob("items.jsonl"))
    provenance = {
        "config": {"file": f"ckpt/{name}/config.yaml", "seed": config["seed"]},
        "data": {str(file.relative_to(folder)): _sha256(file) for file in data},
        "identity": {key: value for key, value in identity.items() if "." not in key},
        "model": {"name": weights.name, "file": weights.file, "sha256": weights.sha256},
        "versions": {each: version(each) for each in ("skillopt", "xllamacpp")},
        "skill": _text_sha256(skill.render()),
        "val": _scores(state.initial.evaluation, state.best.evaluation),
        "test": _scores(state.final_test.initial, state.final_test.best),
        "calls": {
            role: sum(usage.calls for key, usage in spent.items() if key[1] == role)
            for role in ("target", "optimizer")
        },
    }
    (folder / "best_skill.md").write_text(skill.render(), encoding="utf-8")
    text = json.dumps(provenance, indent=2, ensure_ascii=False)
    (folder / "provenance.json").write_text(f"{text}\n", encoding="utf-8")


def _scores(before: Evaluation, after: Evaluation) -> dict[str, object]:
    """Hard and soft scores with 95 % intervals."""
    return {
        metric: {
            when: interval(getattr(score, metric) for score in evaluation.scores.values())._asdict()
            for when, evaluation in (("before", before), ("after", after))
        }
        for metric in ("hard", "soft")
    }


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(required=True, dest="what")
    what.add_parser("data", help="write the tasks")
    packing = what.add_parser("pack", help="copy the best skill of a run")
    packing.add_argument("name", choices=SETS)
    packing.add_argument("run", type=Path)
    options = parser.parse_args()
    if options.what == "data":
        write_data()
    else:
        pack(options.name, options.run)


if __name__ == "__main__":
    main()
