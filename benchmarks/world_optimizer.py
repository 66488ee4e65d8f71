"""The simulated optimizer of a world: reads what a prompt shows and answers as the prompt asks.

Everybody who shows it the same failures gets the same insight. Who asks matters only for the form
of the reply, which it takes from the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict, cast

from worlds import Case, Reading, Scene, Sentence

Record: TypeAlias = Mapping[str, object]

_SKILLS = (
    re.compile(r"<skill>\n(.*?)</skill>", re.DOTALL),
    re.compile(r"^## Current Skill\n(.*?)\n\n## ", re.DOTALL | re.MULTILINE),
    re.compile(r"^## Current Epoch's Skill\n(.*?)\n\n## ", re.DOTALL | re.MULTILINE),
    re.compile(r"```\n(.*?)\n```", re.DOTALL),
)
_GUIDANCE = (
    re.compile(r"<guidance>\n(.*?)</guidance>", re.DOTALL),
    re.compile(r"^## Previous Slow Update Guidance\n(.*?)\n## ", re.DOTALL | re.MULTILINE),
)
_LIMIT = re.compile(r"<budget>(\d+)</budget>|at most L=(\d+) edits|budget=(\d+)\)")
_LISTED = re.compile(r"^\[(\d+)\] op=(\w+)(.*)$", re.MULTILINE)


class UnknownForm(Exception):
    """A prompt asks for something that the simulated optimizer cannot write."""


class Item(TypedDict):
    """An edit as both trainers write it."""

    op: str
    target: str
    content: str


@dataclass(frozen=True, slots=True)
class Edit:
    sentence: Sentence | None
    """What is added."""
    target: Sentence | None
    """What it takes the place of."""
    cases: tuple[Case, ...]
    """The tasks that it names."""

    @property
    def item(self) -> Item:
        added = "" if self.sentence is None else self.sentence.text
        if self.target is None:
            return {"op": "append", "target": "", "content": added}
        op = "replace" if added else "delete"
        return {"op": op, "target": self.target.text, "content": added}

    def applied(self, skill: str) -> str:
        if self.target is None:
            return f"{skill.rstrip()}\n\n{self.item['content']}\n"
        return skill.replace(self.target.text, self.item["content"])


@dataclass(frozen=True, slots=True)
class Cause:
    """Why tasks failed: a rule that is missing, a sentence that spoils them, or nothing visible."""

    rule: int = -1
    spoiler: Sentence | None = None


@dataclass(frozen=True, slots=True)
class SimulatedOptimizer:
    scene: Scene

    def reply(self, system: str, user: str) -> str:
        """The reply in the form that the prompt asks for."""
        asked = system or user
        forms: Mapping[str, Callable[[str, str], str]] = {
            '"calls"': _refuse,
            '"probe"': _refuse,
            '"selected_indices"': self._rank,
            '"slow_update_content"': self._guide,
            '"meta_skill_content"': _take_notes,
            '"new_skill"': self._rewrite,
            '"patch"': self._reflect,
            '"edits"': self._reflect,
            "ONE instruction": self._instruct,
            "within ``` blocks": self._instruct_anew,
        }
        return next((write for mark, write in forms.items() if mark in asked), _refuse)(asked, user)

    def edits(self, prompt: str) -> list[Edit]:
        """What it would change, the best supported first, no more than the prompt allows."""
        reading = self.scene.read(_skill(prompt))
        shown = self.scene.answered(prompt)
        causes: dict[Cause, list[Case]] = {}
        for number, wrong in sorted(shown.items()):
            case = self.scene.cases[number]
            for cause in self._causes(case, wrong, reading):
                causes.setdefault(cause, []).append(case)
        known = {sentence.text for sentence in reading.sentences}
        tried = {sentence.text for sentence in self.scene.read(prompt).sentences} - known
        reflection = _Reflection(self.scene, reading, frozenset(tried), tuple(sorted(shown)))
        ordered = sorted(causes.items(), key=lambda item: -len(item[1]))
        edits = [
            edit for cause, cases in ordered for edit in reflection.explain(cause, tuple(cases))
        ]
        return _distinct([*edits, *reflection.chatter()])[: _limit(prompt)]

    def _causes(self, case: Case, wrong: Sequence[int], reading: Reading) -> Iterator[Cause]:
        if not wrong:
            return
        lacking = [place for place in self.scene.missing(case, reading) if place in wrong]
        for place in lacking:
            if place:
                yield Cause(rule=case.rules[place - 1])
            else:
                yield Cause(spoiler=self.scene.spoiler(case, reading))
        if not lacking:
            yield Cause()

    def _reflect(self, asked: str, prompt: str) -> str:
        proposals = _proposals(prompt)
        if proposals is not None:
            return json.dumps({"reasoning": "united", "edits": self._merge(proposals)})
        return json.dumps(_reflection(self.edits(prompt), len(self.scene.answered(prompt)), asked))

    def _rewrite(self, _: str, prompt: str) -> str:
        new = {"title": "rules", "change_summary": ["rules"], "new_skill": self._applied(prompt)}
        versions = [new] if self.edits(prompt) else []
        return json.dumps({"reasoning": "what failed", "skill_candidates": versions})

    def _instruct(self, _: str, prompt: str) -> str:
        return next((edit.sentence.text for edit in self.edits(prompt) if edit.sentence), "Go on.")

    def _instruct_anew(self, _: str, prompt: str) -> str:
        return f"```\n{self._applied(prompt)}\n```"

    def _applied(self, prompt: str) -> str:
        skill = _skill(prompt)
        for edit in self.edits(prompt):
            skill = edit.applied(skill)
        return skill

    def _merge(self, proposals: Sequence[Record]) -> list[Record]:
        """Unites proposals of one meaning, and sometimes loses one."""
        groups: dict[object, list[int]] = {}
        for index, proposal in enumerate(proposals):
            groups.setdefault(self._meaning(proposal), []).append(index)
        context = sorted(map(self._stated, proposals))
        merged: list[tuple[int, Record]] = []
        for meaning, members in groups.items():
            if self.scene.chance("lost", meaning, context) < self.scene.world.advice.loses:
                continue
            support = sum(_support(proposals[index]) for index in members)
            best = max(members, key=lambda index: _support(proposals[index]))
            merged.append((support, _united(proposals[best], members, support)))
        merged.sort(key=lambda item: -item[0])
        return [record for _, record in merged]

    def _meaning(self, proposal: Record) -> object:
        content, target = str(proposal.get("content", "")), str(proposal.get("target", ""))
        stated = self.scene.read(content).sentences
        rules = tuple(sentence.rule for sentence in stated if sentence.kind == "exact")
        return (proposal.get("op"), target, rules or content)

    def _rank(self, _: str, prompt: str) -> str:
        """By merit as far as its taste goes, else by luck."""
        proposals = _proposals(prompt) or [
            {"op": op, "content": rest} for _, op, rest in _LISTED.findall(prompt)
        ]
        texts = [self._stated(proposal) for proposal in proposals]
        merits = {
            index: self.scene.chance("rank", text, sorted(texts)) + self._merit(proposals[index])
            for index, text in enumerate(texts)
        }
        chosen = sorted(merits, key=lambda index: -merits[index])[: _limit(prompt)]
        return json.dumps({"reasoning": "by likely use", "selected_indices": chosen})

    def _merit(self, proposal: Record) -> float:
        kinds = {part.kind for part in self.scene.read(str(proposal.get("content", ""))).sentences}
        right = bool(kinds & {"exact", "settled"}) or proposal.get("op") == "delete"
        return self.scene.world.advice.taste * right

    def _stated(self, proposal: Record) -> str:
        """What a proposal is about, in whatever form it is listed."""
        content = f"{proposal.get('target', '')} {proposal.get('content', '')}"
        return " ".join(sentence.text for sentence in self.scene.read(content).sentences)

    def _guide(self, _: str, prompt: str) -> str:
        """Up to two rules for what still fails, after those that the guidance had."""
        before = "\n".join(found[1] for form in _GUIDANCE if (found := form.search(prompt)))
        old = [sentence.text for sentence in self.scene.read(before).sentences]
        new = [edit.item["content"] for edit in self.edits(prompt) if edit.sentence][:2]
        lines = "\n".join(f"- {text}" for text in dict.fromkeys([*old, *new]))
        return json.dumps({"reasoning": "what still fails", "slow_update_content": lines})


@dataclass(frozen=True, slots=True)
class _Reflection:
    """One look at some attempts."""

    scene: Scene
    reading: Reading
    tried: frozenset[str]
    """Sentences in the prompt that are not in the skill: they were proposed before."""
    shown: tuple[int, ...]

    def chance(self, *parts: object) -> float:
        stated = [sentence.text for sentence in self.reading.sentences]
        return self.scene.chance(*parts, self.shown, stated, sorted(self.tried))

    def explain(self, cause: Cause, cases: tuple[Case, ...]) -> list[Edit]:
        """An edit for a cause that it finds; for one that it does not find, sometimes a guess."""
        advice = self.scene.world.advice
        found = 1 - (1 - advice.insight) ** len(cases)
        if cause == Cause() or self.chance("insight", cause) >= found:
            guesses = self.chance("guess", cause) < advice.useless
            return [Edit(self._any(self.scene.useless, cause), None, cases)] if guesses else []
        named = self._named(cause, cases)
        match cause.spoiler:
            case None:
                return [Edit(self._worded(cause.rule), None, named)]
            case Sentence(kind="general", rule=rule) as general:
                return [Edit(self._exact(rule), general, named)]
            case harmful:
                return [Edit(None, harmful, named)]

    def chatter(self) -> list[Edit]:
        """Rules that nothing speaks for."""
        advice = self.scene.world.advice
        rates = ((self.scene.useless, advice.useless), (self.scene.harms, advice.harmful))
        return [
            Edit(self._any(pool, "chatter"), None, self._others())
            for pool, rate in rates
            if self.chance("chatter", pool[0].kind) < rate
        ]

    def _worded(self, rule: int) -> Sentence:
        advice, kinds = (
            self.scene.world.advice,
            {sentence.kind: sentence for sentence in self.scene.wordings[rule]},
        )
        rivals = [pair[1 - pair.index(rule)] for pair in self.scene.world.conflicts if rule in pair]
        if any(self.reading.kinds(rival) for rival in rivals) and self._likely(
            "settled", rule, 0.6
        ):
            return kinds["settled"]
        if "general" in kinds and self._likely("general", rule, advice.overgeneral):
            return kinds["general"]
        if self._likely("vague", rule, advice.vague):
            return kinds["vague"]
        return self._exact(rule)

    def _likely(self, kind: str, rule: int, rate: float) -> bool:
        return self.chance(kind, rule) < rate

    def _exact(self, rule: int) -> Sentence:
        exact = [sentence for sentence in self.scene.wordings[rule] if sentence.kind == "exact"]
        return self._any(exact, rule)

    def _any(self, pool: Sequence[Sentence], what: object) -> Sentence:
        """One of them, if possible one that was not tried before."""
        fresh = [sentence for sentence in pool if sentence.text not in self.tried] or list(pool)
        return fresh[int(self.chance("which", what) * len(fresh))]

    def _named(self, cause: Cause, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        misnamed = self.chance("misnamed", cause) < self.scene.world.advice.misnamed
        return self._others() if misnamed else cases

    def _others(self) -> tuple[Case, ...]:
        shown = self.shown
        start = int(self.chance("others") * len(shown)) if shown else 0
        return tuple(self.scene.cases[number] for number in (*shown[start:], *shown[:start])[:2])


def _take_notes(_: str, __: str) -> str:
    return json.dumps({"reasoning": "an epoch", "meta_skill_content": "Write short rules."})


def _refuse(asked: str, _: str) -> str:
    raise UnknownForm(asked[:300])


def _distinct(edits: Iterable[Edit]) -> list[Edit]:
    kept: dict[tuple[str, str], Edit] = {}
    for edit in edits:
        kept.setdefault((edit.item["target"], edit.item["content"]), edit)
    return list(kept.values())


def _reflection(edits: Sequence[Edit], attempts: int, asked: str) -> Record:
    """The reply of an analyst, in the form of either trainer."""
    items: list[Record] = [
        {**edit.item, "support_count": max(len(edit.cases), 1), "tasks": [c.id for c in edit.cases]}
        for edit in edits
    ]
    if '"patch"' not in asked:
        return {"reasoning": "what failed", "patterns": [], "edits": items}
    kept = [{key: item[key] for key in item if key != "tasks"} for item in items]
    return {
        "batch_size": attempts,
        "failure_summary": [],
        "patch": {"reasoning": "what failed", "edits": kept},
    }


def _united(best: Record, members: Sequence[int], support: int) -> Record:
    kept = {key: best[key] for key in ("op", "target", "content", "source_type") if key in best}
    return {**kept, "from": list(members), "support_count": support}


def _support(proposal: Record) -> int:
    value = proposal.get("support", proposal.get("support_count", 1))
    return value if isinstance(value, int) else 1


def _skill(prompt: str) -> str:
    for form in _SKILLS:
        if found := form.search(prompt):
            return found[1]
    return ""


def _limit(prompt: str) -> int | None:
    found = _LIMIT.search(prompt)
    return None if found is None else int(next(filter(None, found.groups())))


def _proposals(prompt: str) -> list[Record] | None:
    """The edits that a prompt lists as JSON, alone or within patches; None if it lists none."""
    for start in re.finditer(r"^\[$", prompt, re.MULTILINE):
        try:
            listed, _ = json.JSONDecoder().raw_decode(prompt, start.start())
        except ValueError:
            continue
        return list(_edits_in(listed))
    return None


def _edits_in(value: object) -> Iterator[Record]:
    if isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _edits_in(part)
    elif isinstance(value, dict):
        record = cast("dict[str, object]", value)
        if "op" in record:
            yield record
        else:
            yield from _edits_in(record.get("edits"))
