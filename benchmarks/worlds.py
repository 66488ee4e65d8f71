"""Made-up jobs with hidden rules, for judging how well a trainer searches.

A task is right if the skill states every rule that the task needs and nothing that spoils it. The
answer has one word per needed rule, so that a wrong answer shows what was missing. Everything is
drawn by hashing (world, seed, what is drawn): the same whatever the order of the calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import Literal

Split = Literal["train", "val", "test"]
Kind = Literal["exact", "vague", "general", "settled", "useless", "harmful"]

INITIAL_SKILL = "# Front desk\n\nAnswer every case with the words of its entry, in order.\n"
CASE = re.compile(r"Case (\d{4})")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)

_NOUNS = """\
bill,parcel,refund,ticket,lease,permit,voucher,receipt,badge,ledger,passport,contract,waybill,\
deposit,quote,licence,roster,sample,coupon,mandate,survey,booking,claim,transfer"""
_MARKS = ("urgent", "overseas", "repeated", "disputed", "sealed", "partial", "undated", "shared")
_HARMS = """\
Give only the first word of the entry.
Answer with the number of the case.
Translate the entry into the language of the sender.
Put the words in alphabetical order.
Leave out every word that was used before.
Add the name of the desk to the answer.
Answer none where two forms could apply.
Spell the entry letter by letter.
Write a full sentence instead of the entry.
Repeat the case before the answer.
Replace long words by shorter ones.
Round the entry to the nearest form.
Ask for confirmation before you answer.
Answer for the sender and not for the desk.
Use the plural of every word.
Name the two most likely entries.
""".splitlines()
_EMPTY = """\
{} the case before you answer.
{} all items that the case lists.
{} the entry once more.
{} what the sender wants.
{} the wording of the question.
{} that nothing is forgotten.
""".splitlines()
_VERBS = ("Read", "Check", "Consider", "Weigh", "Note", "Review", "Understand", "Examine")


def share_of(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but the parts."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big") / 2**56


@dataclass(frozen=True, slots=True)
class Advice:
    """What the simulated optimizer is like."""

    insight: float = 0.4
    """Chance to find the rule behind one failure; more failures of one cause raise it."""
    useless: float = 0.5
    """Chance that a reflection adds a rule without effect."""
    harmful: float = 0.25
    """Chance that a reflection adds a rule that spoils answers."""
    vague: float = 0.2
    """Chance that a rule is worded so that only half of its tasks profit."""
    overgeneral: float = 0.0
    """Chance that a rule is stated without the condition under which it holds."""
    misnamed: float = 0.2
    """Chance that an edit names tasks that it has nothing to do with."""
    loses: float = 0.08
    """Chance that merging loses a proposal."""
    taste: float = 0.3
    """How far right rules are ahead of others when proposals are ranked, against luck of 0 to 1."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that need the same rules."""

    share: float
    rules: tuple[int, ...]
    counter: bool = False
    """They look as if they needed the rules, but the condition of the rules does not hold."""


@dataclass(frozen=True, slots=True)
class World:
    name: str
    about: str
    groups: tuple[Group, ...]
    sizes: tuple[int, int, int] = (80, 40, 200)
    budgets: tuple[int, ...] = (400, 800)
    """Target calls on train and val tasks."""
    advice: Advice = Advice()
    aside: bool = False
    """Not for tuning: whoever changes the search must not look at it before the end."""
    hopeless: float = 0.03
    conflicts: tuple[tuple[int, int], ...] = ()
    """Of two rules in conflict, the one stated last holds, unless a wording settles it."""
    conditional: frozenset[int] = frozenset()
    graded: bool = False
    harm: float = 0.15
    """Share of the tasks that a harmful rule spoils: on average; each has a share of its own."""
    noise: float = 0.0
    """Share of the answers that change from call to call."""
    shift: float = 0.05
    """Share of the answers that change with every new text of the skill."""

    @property
    def rules(self) -> int:
        return 1 + max(rule for group in self.groups for rule in group.rules)


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    kind: Kind
    rule: int = -1


@dataclass(frozen=True, slots=True)
class Case:
    """One task."""

    id: str
    number: int
    rules: tuple[int, ...]
    counter: bool
    question: str
    right: tuple[str, ...]
    """The words of the expected answer: one that needs no rule, then one per rule."""
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a skill states, in the order of the text."""

    digest: str
    sentences: tuple[Sentence, ...]

    def kinds(self, rule: int) -> set[Kind]:
        return {sentence.kind for sentence in self.sentences if sentence.rule == rule}

    def last(self, rules: tuple[int, int]) -> int:
        """Which of two rules is stated last."""
        return [sentence.rule for sentence in self.sentences if sentence.rule in rules][-1]

    @property
    def harmful(self) -> list[Sentence]:
        return [sentence for sentence in self.sentences if sentence.kind == "harmful"]


class Scene:
    """A world with a seed: its tasks, its sentences, and a target that answers by the skill."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self._key = f"{world.name}/{seed}"
        draw = Random(self._key)
        self._nouns = draw.sample(_NOUNS.split(","), world.rules)
        self._codes = [self._word("code", rule) for rule in range(world.rules)]
        self.wordings = {rule: list(self._wordings(rule)) for rule in range(world.rules)}
        self.harms = [Sentence(text, "harmful") for text in _HARMS]
        self.useless = [
            Sentence(form.format(verb), "useless") for form in _EMPTY for verb in _VERBS
        ]
        rules = [sentence for some in self.wordings.values() for sentence in some]
        self.sentences = [*rules, *self.harms, *self.useless]
        self.cases = {case.number: case for case in self._cases(draw)}
        self._read = lru_cache(maxsize=4096)(self._read_uncached)

    def chance(self, *parts: object) -> float:
        return share_of(self._key, *parts)

    def split(self, split: Split) -> list[Case]:
        return [case for case in self.cases.values() if case.id.startswith(split)]

    def read(self, skill: str) -> Reading:
        return self._read(" ".join(skill.split()))

    def missing(self, case: Case, reading: Reading) -> list[int]:
        """Which words of the answer a target without luck gets wrong; 0 is the one without rule."""
        lacking = [
            1 + place
            for place, rule in enumerate(case.rules)
            if not case.counter and not self.holds(case, rule, reading)
        ]
        return lacking + [0] * (self.spoiler(case, reading) is not None)

    def holds(self, case: Case, rule: int, reading: Reading) -> bool:
        """Whether the target applies a rule in a case."""
        kinds = reading.kinds(rule)
        if "settled" in kinds:
            return True
        for pair in self.world.conflicts:
            if rule in pair and all(map(reading.kinds, pair)):
                rival = pair[1 - pair.index(rule)]
                return "settled" in reading.kinds(rival) or reading.last(pair) == rule
        if kinds & {"exact", "general"}:
            return True
        return "vague" in kinds and self.chance("vague", rule, case.number) < 0.5

    def spoiler(self, case: Case, reading: Reading) -> Sentence | None:
        """The first sentence that makes the target fail in a case whatever else it knows."""
        for sentence in reading.sentences:
            match sentence.kind:
                case "harmful" if self._harms(sentence, case):
                    return sentence
                case "general" if case.counter and sentence.rule in case.rules:
                    return sentence
                case _:
                    pass
        return None

    def _harms(self, sentence: Sentence, case: Case) -> bool:
        share = self.world.harm * (0.25 + 1.5 * self.chance("harm", sentence.text))
        return self.chance("harm", sentence.text, case.number) < share

    def answer(self, case: Case, skill: str, call: int) -> str:
        """What the target says when it is asked for the n-th time with this skill."""
        reading = self.read(skill)
        wrong = self.missing(case, reading)
        if self._hopeless(case):
            wrong = [*wrong, 0]
        changes = (
            (self.world.shift, ("shift", case.number, reading.digest)),
            (self.world.noise, ("noise", case.number, reading.digest, call)),
        )
        for rate, drawn in changes:
            # Luck is rarer than a slip: few wrong answers become right by chance.
            if self.chance(*drawn) < (rate / 3 if wrong else rate):
                wrong = wrong[1:] if wrong else [len(case.right) - 1]
        return " ".join(
            bad if place in wrong else good
            for place, (good, bad) in enumerate(zip(case.right, case.wrong, strict=True))
        )

    def score(self, case: Case, answer: str) -> float:
        """Exact match; in graded worlds the share of right words (the F1 of the words)."""
        given = answer.split()
        hits = sum(word in given for word in case.right)
        if self.world.graded:
            return hits / len(case.right)
        return float(hits == len(case.right) == len(given))

    def truth(self, skill: str) -> float:
        """The score on test tasks by a target without noise."""
        reading = self.read(skill)
        scores = [self._truth(case, reading) for case in self.split("test")]
        return sum(scores) / len(scores)

    def _truth(self, case: Case, reading: Reading) -> float:
        wrong = set(self.missing(case, reading))
        if self._hopeless(case):
            wrong.add(0)
        return 1 - len(wrong) / len(case.right) if self.world.graded else float(not wrong)

    def perfect_skill(self) -> str:
        """All rules in their best wording."""
        in_conflict = {rule for pair in self.world.conflicts for rule in pair}
        best = [
            next(
                sentence.text
                for sentence in self.wordings[rule]
                if sentence.kind == ("settled" if rule in in_conflict else "exact")
            )
            for rule in range(self.world.rules)
        ]
        return "\n\n".join([INITIAL_SKILL.strip(), *best]) + "\n"

    def write(self, folder: Path) -> Path:
        """The tasks as a folder with train, val and test; the questions need no other context."""
        for split in ("train", "val", "test"):
            place = folder / split
            place.mkdir(parents=True, exist_ok=True)
            items = [
                {
                    "id": case.id,
                    "question": case.question,
                    "context": "The front desk keeps one entry per case.",
                    "answers": [" ".join(case.right)],
                }
                for case in self.split(split)
            ]
            (place / "items.json").write_text(json.dumps(items), encoding="utf-8")
        return folder

    def answered(self, prompt: str) -> dict[int, list[int]]:
        """The tasks that a prompt shows with answers, and which words of each were wrong.

        Where a task is shown more than once, its last answer counts.
        """
        marks = [*CASE.finditer(prompt)]
        ends = [*(mark.start() for mark in marks), len(prompt)][1:]
        seen: dict[int, list[int]] = {}
        for mark, end in zip(marks, ends, strict=True):
            case = self.cases.get(int(mark[1]))
            passage = prompt[mark.end() : end]
            if case is None:
                continue
            if found := _ANSWER.findall(passage):
                passage = found[-1]
            elif case.number in seen or not any(word in passage for word in case.right):
                continue
            seen[case.number] = [
                place for place, word in enumerate(case.wrong) if word in passage.split()
            ]
        return seen

    def _read_uncached(self, skill: str) -> Reading:
        found = [
            (skill.index(sentence.text), sentence)
            for sentence in self.sentences
            if sentence.text in skill
        ]
        digest = hashlib.blake2b(skill.encode(), digest_size=8).hexdigest()
        return Reading(digest, tuple(sentence for _, sentence in sorted(found, key=_place)))

    def _hopeless(self, case: Case) -> bool:
        return not case.rules and self.chance("hopeless", case.number) < self._hopeless_share

    @cached_property
    def _hopeless_share(self) -> float:
        """Among the tasks that need no rule."""
        return self.world.hopeless / (1 - sum(group.share for group in self.world.groups))

    def _word(self, *parts: object) -> str:
        draw = Random(f"{self._key}/{parts}")
        return "".join(draw.choice("bdfgklmnprst") + draw.choice("aeiou") for _ in range(4))

    def _wordings(self, rule: int) -> Iterator[Sentence]:
        noun, code = self._nouns[rule], self._codes[rule]
        when = f" marked {self._mark(rule)}" if rule in self.world.conditional else ""
        for form in (
            "For cases with a {noun}{when}, use the {code} form.",
            "Whenever a case lists a {noun}{when}, the {code} form is required.",
            "{Noun}{when}: always answer in the {code} form.",
        ):
            text = form.format(noun=noun, Noun=noun.title(), when=when, code=code)
            yield Sentence(text, "exact", rule)
        yield Sentence(f"A {noun}{when} may need the {code} form.", "vague", rule)
        if when:
            yield Sentence(f"For every {noun}, use the {code} form.", "general", rule)
        for pair in self.world.conflicts:
            if rule in pair:
                rival = self._nouns[pair[1 - pair.index(rule)]]
                text = f"Use the {code} form for a {noun} even where a {rival} has its own form."
                yield Sentence(text, "settled", rule)

    def _mark(self, rule: int) -> str:
        return _MARKS[rule % len(_MARKS)]

    def _cases(self, draw: Random) -> Iterator[Case]:
        numbers = draw.sample(range(1000, 9999), sum(self.world.sizes))
        for split, size in zip(("train", "val", "test"), self.world.sizes, strict=True):
            groups = self._spread(size, draw)
            for place, group in enumerate(groups):
                yield self._case(f"{split}-{place:03}", numbers.pop(), group, draw)

    def _spread(self, size: int, draw: Random) -> list[Group]:
        """As many tasks of each group as its share says, in random order."""
        groups: list[Group] = []
        for group in self.world.groups:
            count = int(group.share * size + draw.random() * 0.999)
            groups += [group] * max(count, 1)
        groups = groups[:size] + [Group(0, ())] * (size - len(groups))
        draw.shuffle(groups)
        return groups

    def _case(self, name: str, number: int, group: Group, draw: Random) -> Case:
        items = [
            f"a {self._nouns[rule]}"
            + (f" ({self._mark(rule)})" * (rule in self.world.conditional and not group.counter))
            for rule in group.rules
        ] or ["no papers"]
        question = f"Case {number}. Papers: {' and '.join(items)}. What is its entry?"
        parts = ("",) if group.counter else ("", *group.rules)
        right, wrong = (
            tuple(self._word(side, number, part) for part in parts) for side in ("right", "wrong")
        )
        return Case(name, number, group.rules, group.counter, question, right, wrong)


def _place(found: tuple[int, Sentence]) -> int:
    return found[0]


def _singles(shares: Sequence[float]) -> tuple[Group, ...]:
    return tuple(Group(share, (rule,)) for rule, share in enumerate(shares))


_LONG_TAIL = (0.12, 0.1, 0.09, 0.08, 0.07, 0.06, *[0.0375] * 6)
_EVEN = (0.08,) * 9
_PAIRS = tuple(Group(0.14, (2 * pair, 2 * pair + 1)) for pair in range(4))
_CONDITIONS = tuple(
    group
    for rule in range(5)
    for group in (Group(0.09, (rule,)), Group(0.06, (rule,), counter=True))
)
_EXCEPTIONS = tuple(
    group
    for rule in range(4)
    for group in (Group(0.1, (rule,)), Group(0.08, (rule,), counter=True))
)
_GRADED = tuple(
    Group(0.1, rules) for rules in ((0, 1, 2), (3,), (4, 5, 6), (7, 8), (0, 4, 7), (2, 5), (9, 1))
)
_COMPOUND = (
    *(Group(0.1, (rule, (rule + 1) % 5)) for rule in range(5)),
    *(
        group
        for rule in (5, 6)
        for group in (Group(0.07, (rule,)), Group(0.05, (rule,), counter=True))
    ),
)
_MIXTURE = (
    Group(0.1, (0, 1)),
    *(
        group
        for rule in (2, 3)
        for group in (Group(0.09, (rule,)), Group(0.05, (rule,), counter=True))
    ),
    Group(0.09, (4,)),
    Group(0.07, (5,)),
    *(Group(0.035, (rule,)) for rule in range(6, 11)),
)

WORLDS = {
    world.name: world
    for world in (
        World("long-tail", "12 rules, half of them in 3 of 80 tasks", _singles(_LONG_TAIL)),
        World(
            "pairs",
            "rules that help only together; a steady target",
            (*_PAIRS, Group(0.08, (8,)), Group(0.08, (9,))),
            shift=0,
        ),
        World(
            "noisy", "8 % of answers change from call to call", _singles(_EVEN), noise=0.08, shift=0
        ),
        World("shifting", "15 % of answers change with the text", _singles(_EVEN), shift=0.15),
        World(
            "small",
            "8 rules, 32 train and 20 val tasks",
            _singles((0.16, 0.12, 0.12, 0.09, 0.09, 0.06, 0.06, 0.06)),
            sizes=(32, 20, 200),
            budgets=(200, 400),
        ),
        World(
            "weak",
            "an optimizer that seldom finds the rule and names wrong tasks",
            _singles((0.16, 0.14, 0.12, 0.1, 0.08, 0.06, 0.05)),
            budgets=(800, 2000),
            advice=Advice(0.12, useless=0.7, vague=0.3, misnamed=0.5, loses=0.15, taste=0.1),
        ),
        World(
            "wide",
            "20 rules with a long tail, 160 train and 80 val tasks",
            _singles([0.075 * 0.88**rule for rule in range(20)]),
            sizes=(160, 80, 300),
            budgets=(800, 2000),
            aside=True,
        ),
        World(
            "conflicts",
            "of two rules the last one wins, unless a wording settles it; steady",
            _singles((0.13, 0.1, 0.12, 0.11, 0.09, 0.08, 0.07, 0.05)),
            conflicts=((0, 1), (2, 3)),
            shift=0,
        ),
        World(
            "conditions",
            "rules that spoil other tasks if stated without their condition",
            (*_CONDITIONS, Group(0.05, (5,)), Group(0.05, (6,))),
            conditional=frozenset(range(5)),
            advice=Advice(overgeneral=0.6),
        ),
        World(
            "exceptions",
            "few rules without a condition, an optimizer that mostly leaves it out, and noise",
            (*_EXCEPTIONS, Group(0.08, (4,)), Group(0.04, (5,))),
            conditional=frozenset(range(4)),
            noise=0.03,
            advice=Advice(overgeneral=0.8, harmful=0.3),
        ),
        World(
            "contradictions",
            "three pairs of rules of which the last one wins, a long tail, answers that shift",
            _singles((0.11, 0.07, 0.1, 0.08, 0.06, 0.05, 0.09, 0.05, 0.04, 0.04)),
            conflicts=((0, 1), (2, 3), (4, 5)),
        ),
        World(
            "compound",
            "most tasks need two rules, each in two pairs; two more hold under a condition",
            _COMPOUND,
            conditional=frozenset((5, 6)),
            advice=Advice(overgeneral=0.5),
        ),
        World(
            "hazy",
            "half of the wordings are vague, answers slip in both ways, 60 train and 30 val tasks",
            _singles((0.14, 0.12, 0.1, 0.09, 0.08, 0.07, 0.05, 0.05)),
            sizes=(60, 30, 200),
            budgets=(300, 600),
            noise=0.04,
            shift=0.08,
            advice=Advice(0.35, useless=0.6, vague=0.5, misnamed=0.3),
        ),
        World(
            "rare",
            "three frequent rules, and twelve in 2 or 3 of 80 train tasks each",
            _singles((0.12, 0.1, 0.08, *[0.032] * 12)),
            shift=0.06,
            advice=Advice(0.45, vague=0.25, misnamed=0.25),
            aside=True,
        ),
        World(
            "mixture",
            "a pair, conditions, a conflict, a long tail, vague wordings, noise",
            _MIXTURE,
            conflicts=((4, 5),),
            conditional=frozenset((2, 3)),
            noise=0.03,
            advice=Advice(harmful=0.35, vague=0.35, overgeneral=0.6, misnamed=0.3),
            aside=True,
        ),
        World(
            "graded", "up to three rules per task, partial credit", _GRADED, graded=True, aside=True
        ),
        World(
            "harmful",
            "most reflections add a rule that does some harm",
            _singles(_LONG_TAIL),
            harm=0.1,
            advice=Advice(harmful=0.7),
            aside=True,
        ),
        World(
            "strong",
            "a strong optimizer, but noise of both kinds and misnamed tasks",
            _singles(_LONG_TAIL),
            budgets=(200, 800),
            noise=0.05,
            shift=0.1,
            advice=Advice(0.95, useless=0.1, harmful=0.05, vague=0.05, misnamed=0.5, taste=1.0),
            aside=True,
        ),
    )
}
