"""The simulated optimizer: sees the text of one request, and writes an answer in the asked form.

It knows ways of writing fields as a person would, and finds out which one is meant only from the
expected and actual answers in front of it. It is not always wise: some of its edits are useless, a
few are harmful, and some replies are broken JSON until it is asked to repair them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError

from skillopt.testing.simulator.chance import pick, unit
from skillopt.testing.simulator.edits import (
    ListedEdit,
    as_candidate,
    as_edit,
    as_suggestion,
    file_for,
    merge,
    one_of,
    rank,
    read_edits,
    shortened,
    worked_in,
)
from skillopt.testing.simulator.office import BY_LABEL, FieldForm
from skillopt.testing.simulator.probing import confirmed, next_look, probe
from skillopt.testing.simulator.reading import (
    Attempt,
    Insight,
    Reading,
    infer,
    read_attempts,
    read_request,
    read_rules,
    section,
)
from skillopt.testing.simulator.reminders import compact, remind

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
Answer: TypeAlias = dict[str, object]

_ASKED_FOR: Mapping[str, Stage] = {
    '"calls"': "exploration",
    '"selected_indices"': "ranking",
    '"consolidated_notes"': "consolidation",
    '"probe"': "probe",
    '"meta_skill_content"': "meta_skill",
    '"slow_update_content"': "slow_update",
    '"directions"': "meta_reflect",
    '"from"': "merge",
    '"patterns"': "reflection",
    '"risk_notes"': "learning_rate",
    '"compressed_skill"': "compress",
    '"new_skill"': "rewrite",
}
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
    return next((stage for key, stage in _ASKED_FOR.items() if key in system), None)


class Direction(BaseModel):
    """What a step tried, as a meta reflection lists it."""

    outcome: str
    edits: list[ListedEdit] = []


_DIRECTIONS = TypeAdapter(list[Direction])


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
        answers: Mapping[Stage, Callable[[str], Answer]] = {
            "reflection": partial(self._reflect, system),
            "exploration": lambda user: next_look(user) or self._reflect("", user),
            "merge": partial(_merge, system),
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
            reply["appendix_notes"] = remind(user)
        text = json.dumps(reply, ensure_ascii=False)
        if repairing or unit(self.seed, "broken", system, user) >= self.broken:
            return text
        return _break(text, pick(range(3), self.seed, "how", system, user))

    def _reflect(self, system: str, user: str) -> Answer:
        attempts, reading = read_attempts(user), read_rules(section(user, "skill"))
        tested = confirmed(user)
        insights = sorted(
            infer(attempts), key=lambda each: (each.field.label, each.form.name) not in tested
        )
        taught = [self._teach(insight, reading, user) for insight in insights]
        edits = [edit for edit in taught if edit is not None]
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
        return {"reasoning": reasoning, "patterns": patterns, **_in_form(edits, system, user)}

    def _teach(self, insight: Insight, reading: Reading, user: str) -> ListedEdit | None:
        """The edit that makes the skill say what the evidence shows; None when it says so."""
        label, form = insight.field.label, insight.form.name
        rule = self._phrase(insight.form, user, label)
        of_field = [stated for stated in reading.rules if stated.field == label]
        wrong = [stated.statement for stated in of_field if stated.form != form]
        stated = len(wrong) < len(of_field)
        if stated and not wrong:
            return None
        op, target, content = "append", "", rule
        if stated:
            op, target, content = "delete", wrong[0], ""
        elif wrong:
            op, target = "replace", wrong[0]
            content = rule if target.startswith("-") else rule.removeprefix("- ")
        elif reading.rules and unit(self.seed, "place", label, user) < 0.2:
            op, target = "insert_after", reading.rules[-1].statement
        return ListedEdit(
            op=op,
            target=target,
            content=content,
            why=f"{len(insight.tasks)} attempts needed this form of the {label}.",
            tasks=list(insight.tasks),
            file=file_for(section(user, "skill"), target, rule),
        )

    def _phrase(self, form: FieldForm, user: str, *draw: str) -> str:
        """A wording of the rule, if possible none that was rejected before."""
        history = section(user, "history")
        rules = [rule for rule in form.rules if rule not in history]
        return f"- {pick(rules or form.rules, self.seed, *draw, user)}"

    def _flawed(
        self, attempts: list[Attempt], insights: list[Insight], reading: Reading, user: str
    ) -> list[ListedEdit]:
        history = section(user, "history")
        learned = 0.5 if section(user, "lessons").strip() else 1.0
        rules: list[str] = []
        if unit(self.seed, "useless", user) < self.useless * learned:
            rules.append(pick(_USELESS, self.seed, "which useless", user))
        if unit(self.seed, "harmful", user) < self.harmful * learned:
            rules += self._harmful(attempts, insights, reading, user)
        tasks = [attempt.id for attempt in attempts[:1]]
        return [
            ListedEdit(
                op="append", target="", content=f"- {rule}", why="It seems to help.", tasks=tasks
            )
            for rule in rules
            if rule not in history or unit(self.seed, "again", rule, user) < 0.2
        ]

    def _harmful(
        self, attempts: list[Attempt], insights: list[Insight], reading: Reading, user: str
    ) -> list[str]:
        """A rule with a form that neither the evidence nor the skill supports."""
        wanted = [each for attempt in attempts for each in read_request(attempt.task)]
        fields = list({each.field.label: each.field for each in wanted}.values())
        if not fields:
            return []
        field = pick(fields, self.seed, "which field", user)
        good = {insight.form.name for insight in insights if insight.field is field}
        good.update(reading.by_field.get(field.label, ()))
        wrong = [form for form in field.forms if form.name not in good]
        return [pick(wrong, self.seed, "which wrong", user).rules[0]] if good and wrong else []

    def _meta_reflect(self, user: str) -> Answer:
        """Settle contradictions by what was accepted, bring rejected rules back, drop ballast."""
        skill = section(user, "skill")
        try:
            directions = _DIRECTIONS.validate_json(section(user, "directions"))
        except ValidationError:
            directions = []
        changes = [*self._settled(skill, directions, user), *_unloaded(skill)][: _budget(user)]
        edits: list[dict[str, str]] = []
        for op, target, rule, why in changes:
            file = file_for(skill, target, rule)
            edit = {"op": op, "target": target, "content": rule, "why": why}
            edits.append({**edit, "file": file} if file else edit)
        summary = f"{len(directions)} directions read, {len(edits)} things to put right."
        return {"reasoning": summary, "directions": [summary], "edits": edits}

    def _settled(
        self, skill: str, directions: Sequence[Direction], user: str
    ) -> Iterator[tuple[str, str, str, str]]:
        reading = read_rules(skill)
        taken = _stated(each for each in directions if "accept" in each.outcome)
        refused = _stated(each for each in directions if "accept" not in each.outcome)
        for rule in reading.rules:
            others = [
                form
                for form in reading.by_field[rule.field]
                if form != rule.form and taken[rule.field, form]
            ]
            if others and not taken[rule.field, rule.form]:
                yield "delete", rule.statement, "", f"another form of the {rule.field} helped"
        for (label, name), _ in sorted(refused.items(), key=lambda each: (-each[1], each[0])):
            if label not in reading.by_field:
                rule = self._phrase(BY_LABEL[label].form(name), user, "again", label)
                yield "append", "", rule, f"the {label} was only tried beside other edits"

    def _slow_update(self, user: str) -> Answer:
        pairs = [pair for pair in read_attempts(user) if pair.change != "improved"]
        stated = read_rules(section(user, "skill")).by_field
        lines = [
            self._phrase(insight.form, user, insight.field.label)
            for insight in infer(pairs)
            if insight.field.label not in stated
        ]
        before = section(user, "guidance").strip()
        kept = [line for line in before.splitlines() if line.strip() and line not in lines]
        content = "\n".join([*kept, *lines]) or f"- {_STEADY}"
        reasoning = f"{len(lines)} rules are still missing after this epoch."
        return {"reasoning": reasoning, "slow_update_content": content}


def _stated(directions: Iterable[Direction]) -> Counter[tuple[str, str]]:
    """How often each field was given each form."""
    counts: Counter[tuple[str, str]] = Counter()
    for direction in directions:
        for edit in direction.edits:
            rules = read_rules(edit.content or "").rules
            counts.update({(rule.field, rule.form) for rule in rules})
    return counts


def _unloaded(skill: str) -> Iterator[tuple[str, str, str, str]]:
    for text in _USELESS:
        if line := re.search(rf"^.*{re.escape(text)}.*$", skill, re.MULTILINE):
            yield "delete", line[0], "", "nobody can act on it"


def _in_form(edits: Sequence[ListedEdit], system: str, user: str) -> Answer:
    """The edits in the form that the question asks for."""
    if '"revise_suggestions"' in system:
        return {"revise_suggestions": [as_suggestion(edit) for edit in edits]}
    if '"skill_candidates"' in system:
        return {"skill_candidates": as_candidate(section(user, "skill"), edits)}
    return {"edits": [as_edit(edit) for edit in edits]}


def _merge(system: str, user: str) -> Answer:
    reasoning = "Equal proposals are united, the best supported first."
    edits = read_edits(section(user, "proposals"))
    if '"skill_candidates"' in system:
        candidates = one_of(section(user, "skill"), edits)
        return {"reasoning": reasoning, "skill_candidates": candidates}
    return {"reasoning": reasoning, **_in_form(merge(edits), system, user)}


def _rank(user: str) -> Answer:
    chosen = rank(read_edits(section(user, "proposals")), _budget(user))
    return {"reasoning": "Wider support comes first.", "selected_indices": chosen}


def _learning_rate(user: str) -> Answer:
    edits = read_edits(section(user, "proposals"))
    backed = sum(edit.support > 1 or edit.source == "failure" for edit in edits)
    return {
        "learning_rate": backed,
        "reasoning": f"{backed} of {len(edits)} proposals have evidence behind them.",
        "confidence": 0.8,
        "risk_notes": "None of them touches the same passage.",
    }


def _rewrite(user: str) -> Answer:
    edits = read_edits(section(user, "proposals"))
    return {
        "reasoning": "Every suggestion is worked in.",
        "change_summary": [edit.summary for edit in edits],
        "new_skill": worked_in(f"{section(user, 'skill')}\n", edits),
    }


def _compress(user: str) -> Answer:
    text = shortened(section(user, "skill"), _number(user, "limit", 0))
    return {"reasoning": "Only rules are kept.", "compressed_skill": text}


def _consolidate(user: str) -> Answer:
    notes = section(user, "notes").splitlines()
    return {"reasoning": "Fields share reminders.", "consolidated_notes": compact(notes)}


def _meta_skill(user: str) -> Answer:
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
