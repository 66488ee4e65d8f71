"""The simulated optimizer: sees the text of one request, and writes an answer in the asked form.

It knows ways of writing fields as a person would, and finds out which one is meant only from the
expected and actual answers in front of it. It is not always wise: some of its edits are useless, a
few are harmful, and some replies are broken JSON until it is asked to repair them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, cast

from skillopt.testing.simulator.chance import pick, unit
from skillopt.testing.simulator.evidence import (
    Attempt,
    Insight,
    fields_of,
    infer,
    read_attempts,
    section,
)
from skillopt.testing.simulator.forms import FieldForm, Reading, read_rules
from skillopt.testing.simulator.merging import Offer, merge, rank, read_offers
from skillopt.testing.simulator.probing import confirmed, next_look, probe
from skillopt.testing.simulator.reminders import compact, remind
from skillopt.testing.simulator.rethinking import read_directions, rethink
from skillopt.testing.simulator.tasks import FIELDS
from skillopt.testing.simulator.writing import (
    as_candidate,
    as_suggestion,
    file_for,
    one_of,
    shortened,
    understood,
    worked_in,
)

Stage: TypeAlias = Literal[
    "reflection",
    "exploration",
    "merge",
    "ranking",
    "learning_rate",
    "rewrite",
    "compress",
    "slow_update",
    "meta_skill",
    "meta_reflect",
    "consolidation",
    "probe",
]

_ASKED_FOR: tuple[tuple[str, Stage], ...] = (
    ('"calls"', "exploration"),
    ('"selected_indices"', "ranking"),
    ('"consolidated_notes"', "consolidation"),
    ('"probe"', "probe"),
    ('"meta_skill_content"', "meta_skill"),
    ('"slow_update_content"', "slow_update"),
    ('"directions"', "meta_reflect"),
    ('"from"', "merge"),
    ('"patterns"', "reflection"),
    ('"risk_notes"', "learning_rate"),
    ('"compressed_skill"', "compress"),
    ('"new_skill"', "rewrite"),
)
_USELESS = (
    "Be careful and double-check your work.",
    "Always think step by step before answering.",
    "Keep the tone professional and friendly.",
    "Make sure that the answer is correct.",
    "Pay attention to detail in every note.",
    "Consider the context of the request.",
)
_STEADY = "Apply each rule to the field it names, and leave the rest of the note alone."


def stage_of(system: str) -> Stage | None:
    """What a request asks the optimizer for, judged by the keys of the reply it wants."""
    return next((stage for key, stage in _ASKED_FOR if key in system), None)


@dataclass(frozen=True, slots=True)
class SimulatedOptimizer:
    """Answers the framework's questions; the same request always gets the same answer."""

    seed: int = 0
    useless: float = 0.25
    """How often a reflection holds an edit that changes nothing."""
    harmful: float = 0.10
    """How often a reflection holds an edit that states a wrong form."""
    broken: float = 0.03
    """How often a first reply is not valid JSON."""

    def answer(self, stage: Stage, system: str, user: str, *, repairing: bool = False) -> str:
        """Answer one question; a repair question gets what should have come at first."""
        answers: Mapping[Stage, Callable[[str], dict[str, object]]] = {
            "reflection": lambda user: _in_form(self._reflect(user), system, user),
            "exploration": self._explore,
            "merge": lambda user: _merge(system, user),
            "ranking": _rank,
            "learning_rate": _learning_rate,
            "rewrite": _rewrite,
            "compress": _compress,
            "slow_update": self._slow_update,
            "meta_skill": _meta_skill,
            "meta_reflect": self._meta_reflect,
            "consolidation": _consolidate,
            "probe": partial(probe, repairing=repairing),
        }
        reply = answers[stage](user)
        if '"appendix_notes"' in system:
            reply |= _notes(user)
        text = json.dumps(reply, ensure_ascii=False)
        if repairing or unit(self.seed, "broken", system, user) >= self.broken:
            return text
        return _break(text, pick(range(3), self.seed, "how", system, user))

    def _explore(self, user: str) -> dict[str, object]:
        look = next_look(user)
        return self._reflect(user) if look is None else look

    def _reflect(self, user: str) -> dict[str, object]:
        attempts = read_attempts(user)
        skill = section(user, "skill")
        reading = read_rules(skill, FIELDS)
        tested = confirmed(user)
        insights = sorted(
            infer(attempts), key=lambda each: (each.field.label, each.form.name) not in tested
        )
        edits = [
            edit
            for insight in insights
            if (edit := self._teach(insight, reading, user)) is not None
        ]
        budget = _budget(user)
        flawed = self._flawed(attempts, insights, reading, user)
        edits = [*edits[: max(0, budget - len(flawed))], *flawed][:budget]
        patterns = [
            {
                "name": f"{insight.field.label} in the wrong form",
                "count": len(insight.tasks),
                "description": f"The expected form of the {insight.field.label} was not used.",
            }
            for insight in insights
        ]
        reasoning = f"{len(attempts)} attempts read, {len(insights)} fields explained."
        return {"reasoning": reasoning, "patterns": patterns, "edits": edits}

    def _teach(self, insight: Insight, reading: Reading, user: str) -> dict[str, object] | None:
        """The edit that makes the skill say what the evidence shows; None when it says so."""
        label, form = insight.field.label, insight.form
        rule = self._phrase(insight, user)
        wrong = [
            claim.statement
            for claim in reading.claims
            if claim.field == label and claim.form != form.name
        ]
        known = form.name in reading.by_field.get(label, ())
        if known and not wrong:
            return None
        op, target, content = "append", "", rule
        if known:
            op, target, content = "delete", wrong[0], ""
        elif wrong:
            op, target = "replace", wrong[0]
            content = rule if target.startswith("-") else rule.removeprefix("- ")
        elif reading.claims and unit(self.seed, "place", label, user) < 0.2:
            op, target = "insert_after", reading.claims[-1].statement
        return {
            "op": op,
            **file_for(section(user, "skill"), target, rule),
            "target": target,
            "content": content,
            "why": f"{len(insight.tasks)} attempts needed this form of the {label}.",
            "tasks": list(insight.tasks),
        }

    def _phrase(self, insight: Insight, user: str) -> str:
        """A wording of the rule, if possible none that was rejected before."""
        history = section(user, "history")
        rules = [rule for rule in insight.form.rules if rule not in history]
        wording = pick(rules or insight.form.rules, self.seed, insight.field.label, user)
        return f"- {wording}"

    def _flawed(
        self, attempts: list[Attempt], insights: list[Insight], reading: Reading, user: str
    ) -> list[dict[str, object]]:
        history = section(user, "history")
        learned = 0.5 if section(user, "lessons").strip() else 1.0
        edits: list[str] = []
        if unit(self.seed, "useless", user) < self.useless * learned:
            edits.append(pick(_USELESS, self.seed, "which useless", user))
        if unit(self.seed, "harmful", user) < self.harmful * learned:
            edits += self._harmful(attempts, insights, reading, user)
        tasks = [attempt.id for attempt in attempts[:1]]
        return [
            {
                "op": "append",
                "target": "",
                "content": f"- {text}",
                "why": "It seems to help.",
                "tasks": tasks,
            }
            for text in edits
            if text not in history or unit(self.seed, "again", text, user) < 0.2
        ]

    def _harmful(
        self, attempts: list[Attempt], insights: list[Insight], reading: Reading, user: str
    ) -> list[str]:
        """A rule with a form that neither the evidence nor the skill supports."""
        fields = fields_of(attempts)
        if not fields:
            return []
        field = pick(fields, self.seed, "which field", user)
        good = {each.form.name for each in insights if each.field is field}
        good.update(reading.by_field.get(field.label, ()))
        wrong = [form for form in field.forms if form.name not in good]
        return [pick(wrong, self.seed, "which wrong", user).rules[0]] if good and wrong else []

    def _meta_reflect(self, user: str) -> dict[str, object]:
        directions = read_directions(section(user, "directions"))
        history = section(user, "history")

        def word(form: FieldForm, label: str) -> str:
            rules = [rule for rule in form.rules if rule not in history]
            return f"- {pick(rules or form.rules, self.seed, 'again', label, user)}"

        skill = section(user, "skill")
        found = rethink(skill, directions, _USELESS, word)[: _budget(user)]
        edits = [{**each, **file_for(skill, each["target"], each["content"])} for each in found]
        told = [f"{len(directions)} directions read, {len(edits)} things to put right."]
        return {"reasoning": told[0], "directions": told, "edits": edits}

    def _slow_update(self, user: str) -> dict[str, object]:
        pairs = [pair for pair in read_attempts(user) if pair.change != "improved"]
        known = read_rules(section(user, "skill"), FIELDS).by_field
        lines = [
            self._phrase(insight, user)
            for insight in infer(pairs)
            if insight.field.label not in known
        ]
        before = section(user, "guidance").strip()
        kept = [line for line in before.splitlines() if line.strip() and line not in lines]
        content = "\n".join([*kept, *lines]) if kept or lines else f"- {_STEADY}"
        reasoning = f"{len(lines)} rules are still missing after this epoch."
        return {"reasoning": reasoning, "slow_update_content": content}


def _notes(user: str) -> dict[str, object]:
    reading = read_rules(section(user, "skill"), FIELDS)
    return {"appendix_notes": remind(infer(read_attempts(user)), reading, user)}


def _consolidate(user: str) -> dict[str, object]:
    notes = section(user, "notes").splitlines()
    return {"reasoning": "Fields share reminders.", "consolidated_notes": compact(notes)}


def _in_form(reply: dict[str, object], system: str, user: str) -> dict[str, object]:
    """A reply with edits, in the form that the question asks for."""
    edits = cast("list[dict[str, object]]", reply["edits"])
    if '"revise_suggestions"' in system:
        del reply["edits"]
        return {**reply, "revise_suggestions": [as_suggestion(edit) for edit in edits]}
    if '"skill_candidates"' in system:
        del reply["edits"]
        return {**reply, "skill_candidates": as_candidate(section(user, "skill"), edits)}
    return reply


def _merge(system: str, user: str) -> dict[str, object]:
    reasoning = "Equal proposals are united, the best supported first."
    offers = read_offers(section(user, "proposals"))
    if '"skill_candidates"' in system:
        candidates = one_of(section(user, "skill"), offers)
        return {"reasoning": reasoning, "skill_candidates": candidates}
    merged = merge([understood(each) if each.instruction else each for each in offers])
    edits = [_edit(offer, sources) for offer, sources in merged]
    return _in_form({"reasoning": reasoning, "edits": edits}, system, user)


def _rewrite(user: str) -> dict[str, object]:
    offers = [understood(each) for each in read_offers(section(user, "proposals"))]
    return {
        "reasoning": "Every suggestion is worked in.",
        "change_summary": [f"{each.op}: {each.content or each.target}" for each in offers],
        "new_skill": worked_in(f"{section(user, 'skill')}\n", offers),
    }


def _compress(user: str) -> dict[str, object]:
    text = shortened(section(user, "skill"), _number(user, "limit", 0))
    return {"reasoning": "Only rules are kept.", "compressed_skill": text}


def _learning_rate(user: str) -> dict[str, object]:
    offers = read_offers(section(user, "proposals"))
    backed = sum(offer.support > 1 or offer.source == "failure" for offer in offers)
    return {
        "learning_rate": backed,
        "reasoning": f"{backed} of {len(offers)} proposals have evidence behind them.",
        "confidence": 0.8,
        "risk_notes": "None of them touches the same passage.",
    }


def _edit(offer: Offer, sources: list[int]) -> dict[str, object]:
    return {
        "op": offer.op,
        **({"file": offer.file} if offer.file else {}),
        "target": offer.target,
        "content": offer.content,
        "why": offer.why,
        "from": sources,
    }


def _rank(user: str) -> dict[str, object]:
    chosen = rank(read_offers(section(user, "proposals")), _budget(user))
    return {"reasoning": "Wider support comes first.", "selected_indices": chosen}


def _meta_skill(user: str) -> dict[str, object]:
    changes = [pair.change for pair in read_attempts(user)]
    content = (
        f"- In the last epoch {changes.count('improved')} tasks improved and "
        f"{changes.count('regressed')} regressed.\n"
        "- Rules that name a field and show its exact form helped; general advice did not.\n"
        "- Do not add a second form for a field that has one."
    )
    return {"reasoning": "Compared both skills on the same tasks.", "meta_skill_content": content}


def _budget(user: str) -> int:
    return _number(user, "budget", 99 if "<budget>" in user else 4)


def _number(user: str, tag: str, default: int) -> int:
    digits = re.search(r"\d+", section(user, tag))
    return int(digits[0]) if digits else default


def _break(text: str, how: int) -> str:
    match how:
        case 0:
            return f"Here is what I found:\n```json\n{text[:-1]},\n}}\n```\nI hope this helps!"
        case 1:
            return text[: len(text) * 3 // 5]
        case _:
            return f"Sure. {text.replace(']', ',]')}"
