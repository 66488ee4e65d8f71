"""Our scorers beside public implementations of them, on 1,000 made-up answers each.

    python benchmarks/conformance.py            all of them (installs about 1 GB from PyPI)
    python benchmarks/conformance.py officeqa   some of them

Each package is installed in a virtual environment of its own and asked there. A difference is
explained if the package agrees with us on the same answer in the notation that the explanation
names, or if the explanation holds for the answer as it is. The exit code is 1 if one is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from skillopt.envs.babyvision.env import boxed
from skillopt.envs.docvqa.env import anls
from skillopt.envs.mathverse.env import found_answer, settle, settle_choice
from skillopt.envs.metrics import exact_match, f1
from skillopt.envs.officeqa.reward import figures, final_answer, is_right
from skillopt.envs.swebench.grading import graded

HERE = Path(__file__).parent
CASES = 1000
INSPECT = ("inspect", ("inspect-evals==0.26.0", "swebench==3.0.15", "jsonlines"), ())
LMMS = ("lmms", ("numpy", "loguru"), ("lmms-eval==0.7.3",))
EVALSCOPE = ("evalscope", ("pydantic", "math-verify==0.9.0"), ("evalscope==1.14.1",))
"""The name of a virtual environment, what is installed in it, and what without dependencies."""

Case = dict[str, Any]
Venv = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Comparison:
    venv: Venv
    oracle: str
    make: Callable[[Random], Case]
    ours: Callable[[Case], object]
    same: Callable[[object, object], bool] = lambda one, other: one == other
    rewritten: Mapping[str, Callable[[Case], Case]] = field(
        default_factory=dict[str, Callable[[Case], Case]]
    )
    """Explanations by another notation of the answer, on which both agree."""
    excused: Mapping[str, Callable[[Case, object, object], bool]] = field(
        default_factory=dict[str, Callable[[Case, object, object], bool]]
    )
    """Explanations that hold for a case with our value and theirs."""


def _near(one: object, other: object) -> bool:
    return abs(float(str(one)) - float(str(other))) < 1e-9


WORDS = ("Mars", "the Moon", "New York", "total", "1,204.50", "12 kg", "Dr. Lind", "a rose", "café")


def _mutated(random: Random, text: str) -> str:
    """The text, perhaps in another case, with other blanks, or with some letters changed."""
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        place = random.randrange(len(text) + 1)
        text = random.choice(
            (
                text.upper(),
                text.lower(),
                f" {text}",
                f"{text} ",
                text.replace(" ", "  ", 1),
                text[:place] + random.choice("xyz.,-'") + text[place:],
                text[:place] + text[place + 1 :],
                text[: len(text) // 2],
            )
        )
    return text


def _page(random: Random) -> Case:
    golds = [" ".join(random.sample(WORDS, random.randint(1, 2))) for _ in range(2)]
    answer = random.choice([*golds, random.choice(WORDS), ""])
    return {"golds": golds, "answer": _mutated(random, answer)}


def _single_blanks(case: Case) -> Case:
    golds = [" ".join(gold.split()) for gold in case["golds"]]
    return {"golds": golds, "answer": " ".join(case["answer"].split())}


def _squad(case: Case) -> object:
    answer, golds = case["answer"], case["golds"]
    return [float(exact_match(answer, golds, "official")), round(f1(answer, golds, "official"), 2)]


def _same_squad(one: object, other: object) -> bool:
    ours, theirs = list(map(float, one)), list(map(float, other))  # type: ignore[call-overload]
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) < 0.011


def _no_marks(text: str) -> str:
    return re.sub(r"[^\w\s]", "", text)


def _without_marks(case: Case) -> Case:
    """Punctuation and articles are gone before it splits words and looks for numbers."""
    tidied = {
        "golds": [re.sub(r"\b(?:a|an|the)\b", " ", _no_marks(g).lower()) for g in case["golds"]],
        "answer": re.sub(r"\b(?:a|an|the)\b", " ", _no_marks(case["answer"]).lower()),
    }
    return _single_blanks(tidied)


GOLDS = ("2,602", "36080 million", "6.1596", "-12.5", "($7.5)", "[8, 152260]", "[1.5, 2.5]", "0",
         "June 1950", "Mint", "1954", "12.5%", "4.2 billion", "3")  # fmt: skip


def _figure(random: Random) -> Case:
    gold = random.choice(GOLDS)
    number = (re.search(r"\d[\d,.]*\d|\d", gold) or [""])[0].replace(",", "")
    answer = random.choice(
        (
            gold,
            gold.replace(",", ""),
            number,
            f"${number}",
            f"({number})",
            f"-{number}",
            f"\u2212{number}",
            f"{number}%",
            f"{number} {random.choice(('million', 'billion', 'thousand', 'k', 'dollars'))}",
            f"It was {gold} in {random.randint(1930, 1999)}.",
            f"{gold} and {random.randint(1, 900)}",
            f"about {gold}",
            f"{gold}\nsee page 3",
            f"<b>{gold}</b>",
            gold.lower(),
            "unable to determine",
            "",
            random.choice(GOLDS),
            f"{float(number) * random.choice((1, 1.004, 0.98)):.4f}" if number else gold.upper(),
        )
    )
    if random.random() < 0.5:
        answer = f"I looked it up. <FINAL_ANSWER>{answer}</FINAL_ANSWER>"
    return {"gold": gold, "answer": answer, "tolerance": random.choice((0.0, 0.01, 0.05))}


def _accepts(holds: Callable[[str, str], bool]) -> Callable[[Case, object, object], bool]:
    """What it accepts and we do not, if this holds for the gold and the answer."""

    def excuse(case: Case, ours: object, theirs: object) -> bool:
        return (ours, theirs) == (0.0, 1.0) and holds(case["gold"], final_answer(case["answer"]))

    return excuse


def _letter(random: Random) -> Case:
    gold, other = random.sample("ABCD", 2)
    said = random.choice((gold, gold, other))
    form = random.choice(
        ("{0}", "({0})", "{0}.", "The answer is {0}", "Option {0}", "<answer>{0}</answer>",
         "{0}: 40°", "{0} or {1}", "not {0} but {1}", "\\boxed{{{0}}}", "Answer: {0}", "")
    )  # fmt: skip
    return {"gold": gold, "answer": form.format(said, other)}


OPTIONS = ("30°", "40°", "50°", "60°")


def _choice(case: Case) -> object:
    return asyncio.run(settle_choice(found_answer(case["answer"]), case["gold"], OPTIONS))


def _expression(random: Random) -> Case:
    """Numbers in several notations: what needs math-verify itself is the same program."""
    value = random.choice((random.randint(-50, 5000), round(random.uniform(-9, 99), 2)))
    other = value + random.choice((0, 0, 0, 1, 0.5))
    forms = (f"{other}", f"{other:.2f}", f"{other:,}", f"${other}$", f"{other}.", f" {other} ")
    return {"gold": f"{value}", "answer": random.choice(forms)}


def _without_stop(case: Case) -> Case:
    return {**case, "answer": case["answer"].rstrip(".")}


def _box(random: Random) -> Case:
    inside = random.choice(("A", "(10, 5)", "7", "\\frac{1}{2}", "left", " B ", "\\text{up}"))
    parts = [f"\\boxed{{{inside}}}", "\\boxed{C}", "no box", "<think>\\boxed{D}</think>",
             "the answer is 7", "\\boxed{unclosed", "{", "So: "]  # fmt: skip
    return {"answer": " ".join(random.sample(parts, random.randint(1, 4)))}


NAMES = tuple(f"tests/test_a.py::test_{n}" for n in range(6))


def _log(random: Random) -> Case:
    cut = random.randint(1, 3)
    words = ("PASSED", "PASSED", "PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "")
    lines = [f"{word} {name}" for name in NAMES if (word := random.choice(words))]
    marks = random.choice(((1, 1), (1, 1), (1, 1), (1, 1), (1, 0), (0, 0)))
    log = "\n".join(
        [
            "+ git apply -v -",
            *(["+ : '>>>>> Start Test Output'"] if marks[0] else []),
            *random.sample(lines, len(lines)),
            *(["+ : '>>>>> End Test Output'"] if marks[1] else []),
        ]
    )
    row = {
        "instance_id": "pytest-dev__pytest-7490",
        "repo": "pytest-dev/pytest",
        "version": "6.0",
        "base_commit": "7f7a36478abe7dd1fa993b115d22606aa0e35e88",
        "environment_setup_commit": "7f7a36478abe7dd1fa993b115d22606aa0e35e88",
        "FAIL_TO_PASS": json.dumps(NAMES[:cut]),
        "PASS_TO_PASS": json.dumps(NAMES[cut:]),
        "patch": "",
        "test_patch": "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-a\n+b\n",
        "problem_statement": "",
        "hints_text": "",
        "created_at": "2023-03-04",
        "image": "none",
        "eval_script": "",
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }
    return {"instance": row, "log": log}


def _to_fix(case: Case) -> list[str]:
    return json.loads(case["instance"]["FAIL_TO_PASS"])


def _graded(case: Case) -> object:
    grade = graded(case["instance"], case["log"])
    return float(grade.resolved) if grade.ran else None


COMPARISONS: Mapping[str, Comparison] = {
    "docvqa, official": Comparison(
        *(INSPECT, "inspect_docvqa", _page),
        lambda case: anls(case["answer"], tuple(case["golds"])),
        _near,
        {"it counts outer and repeated blanks": _single_blanks},
    ),
    "docvqa, script": Comparison(
        *(LMMS, "lmms_docvqa", _page),
        lambda case: anls(case["answer"], tuple(case["golds"]), "script"),
        _near,
    ),
    "searchqa, official": Comparison(
        *(INSPECT, "inspect_squad", _page, _squad, _same_squad),
        {
            "it takes hyphens for blanks and keeps the marks of numbers": _without_marks,
        },
    ),
    "officeqa": Comparison(
        *(EVALSCOPE, "evalscope_officeqa", _figure),
        lambda case: float(is_right(case["gold"], final_answer(case["answer"]), case["tolerance"])),
        _near,
        excused={
            "it has no guard: an answer of several lines": _accepts(lambda _, said: "\n" in said),
            "it has no guard: an answer with tags": _accepts(lambda _, said: "<" in said),
            "it has no guard: an answer with other numbers": _accepts(
                lambda gold, said: len(figures(said)) > len(figures(gold))
            ),
            "it looks for no words beside a number, or for a text within the answer": _accepts(
                lambda gold, _: any(map(str.isalpha, gold))
            ),
        },
    ),
    "mathverse, choices": Comparison(
        *(EVALSCOPE, "evalscope_choice", _letter, _choice),
        excused={
            "ours leaves it to the judge": lambda _, ours, __: ours is None,
        },
    ),
    "mathverse, numbers": Comparison(
        *(EVALSCOPE, "evalscope_expression", _expression),
        lambda case: asyncio.run(settle(case["answer"], case["gold"])),
        rewritten={"a full stop makes it another answer": _without_stop},
        excused={"ours leaves it to the judge": lambda _, ours, __: ours is None},
    ),
    "babyvision, box": Comparison(
        *(LMMS, "lmms_boxed", _box),
        lambda case: boxed(case["answer"]),
        excused={
            "without a box it takes what follows `answer is`": lambda case, ours, _: (
                ours is None and "answer is" in case["answer"]
            ),
        },
    ),
    "swebench": Comparison(
        *(INSPECT, "inspect_swebench", _log, _graded),
        excused={
            "the tests did not come to an end: it gives no score": lambda case, ours, theirs: (
                theirs is None and ours in (None, 0.0) and "End Test" not in case["log"]
            ),
            "swebench 3 takes a skipped test for fixed, 5 does not": lambda case, ours, _: (
                ours == 0.0 and any(f"SKIPPED {name}" in case["log"] for name in _to_fix(case))
            ),
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    agreed: int
    explained: Counter[str]
    unexplained: Sequence[tuple[Case, object, object]]


def compare(name: str, folder: Path, seed: int) -> Found:
    this = COMPARISONS[name]
    random = Random(f"{name} {seed}")
    cases = [this.make(random) for _ in range(CASES)]
    values = _asked(this, cases, folder)
    ours = [this.ours(case) for case in cases]
    differing = [n for n in range(CASES) if not this.same(ours[n], values[n])]
    explained: Counter[str] = Counter()
    left: list[int] = []
    for n in differing:
        reasons = (
            why for why, holds in this.excused.items() if holds(cases[n], ours[n], values[n])
        )
        reason = next(reasons, "")
        explained[reason] += bool(reason)
        left += [] if reason else [n]
    for why, rewrite in this.rewritten.items():
        again = _asked(this, [rewrite(cases[n]) for n in left], folder)
        agree = {n for n, value in zip(left, again, strict=True) if this.same(ours[n], value)}
        explained[why] += len(agree)
        left = [n for n in left if n not in agree]
    unexplained = [(cases[n], ours[n], values[n]) for n in left]
    return Found(name, CASES - len(differing), +explained, unexplained)


def _asked(this: Comparison, cases: Sequence[Case], folder: Path) -> list[object]:
    name, packages, alone = this.venv
    python = folder / name / "bin" / "python"
    ready = folder / name / ".ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        ready.touch()
    done = subprocess.run(
        [str(python), str(HERE / "conformance_oracles.py"), this.oracle],
        input=json.dumps(cases).encode(),
        stdout=subprocess.PIPE,
        cwd=folder,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="beginnings of names; none: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "skillopt-conformance",
        help="where the packages are installed",
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = tuple(options.names) or ("",)
    failed = False
    for name in (each for each in COMPARISONS if each.startswith(wanted)):
        found = compare(name, options.folder, options.seed)
        print(f"{name}: {found.agreed} of {CASES} agree", flush=True)
        for why, count in found.explained.items():
            print(f"  {count}: {why}")
        for case, ours, theirs in found.unexplained[:5]:
            print(f"  ours {ours!r}, theirs {theirs!r}: {json.dumps(case)[:300]}")
        if found.unexplained:
            failed = True
            print(f"  {len(found.unexplained)} without an explanation")
    sys.exit(failed)


if __name__ == "__main__":
    main()
