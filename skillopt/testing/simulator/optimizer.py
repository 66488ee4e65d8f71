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
from functools import cached_property

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

Answer = dict[str, object]

_USELESS = (
    "Be careful and double-check your work.",
    "Always think step by step before answering.",
    "Keep the tone professional and friendly.",
    "Make sure that the answer is correct.",
    "Pay attention to detail in every note.",
    "Consider the context of the request.",
)
_STEADY = "Apply each rule to the field it names, and leave the rest of the note alone."


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

    def answer(self, stage: str, system: str, user: str, *, repairing: bool = False) -> str:
        """Answer one question; a repair question gets what should have come at first."""
        _, answer = _STAGES[stage]
        reply = answer(OptimizerRequest(self, system, user, repairing))
        if '"appendix_notes"' in system:
            reply["appendix_notes"] = remind(user)
        text = json.dumps(reply, ensure_ascii=False)
        if repairing or unit(self.seed, "broken", system, user) >= self.broken:
            return text
        return _break(text, pick(range(3), self.seed, "how", system, user))


@dataclass(frozen=True)
class OptimizerRequest:
    """One request, with what the optimizer reads from it; a method for each kind of answer."""

    settings: SimulatedOptimizer
    system: str
    user: str
    repairing: bool

    def section(self, tag: str) -> str:
        return section(self.user, tag)

    @cached_property
    def skill(self) -> str:
        return self.section("skill")

    @cached_property
    def stated(self) -> Reading:
        """What the skill states."""
        return read_rules(self.skill)

    @cached_property
    def history(self) -> str:
        return self.section("history")

    @cached_property
    def attempts(self) -> list[Attempt]:
        return read_attempts(self.user)

    @cached_property
    def proposals(self) -> list[ListedEdit]:
        return read_edits(self.section("proposals"))

    @property
    def budget(self) -> int:
        return self._number("budget", 99 if "<budget>" in self.user else 4)

    def _number(self, tag: str, default: int) -> int:
        digits = re.search(r"\d+", self.section(tag))
        return int(digits[0]) if digits else default

    def _chance(self, *draw: str) -> float:
        return unit(self.settings.seed, *draw, self.user)

    def _phrase(self, form: FieldForm, *draw: str) -> str:
        """A wording of the rule, if possible none that was rejected before."""
        rules = [rule for rule in form.rules if rule not in self.history]
        return f"- {pick(rules or form.rules, self.settings.seed, *draw, self.user)}"

    def explore(self) -> Answer:
        return next_look(self.user) or self.reflect()

    def probe(self) -> Answer:
        return probe(self.user, repairing=self.repairing)

    def reflect(self) -> Answer:
        tested = confirmed(self.user)
        insights = sorted(
            infer(self.attempts),
            key=lambda insight: (insight.field.label, insight.form.name) not in tested,
        )
        edits = [edit for insight in insights for edit in self._teach(insight)]
        flawed = self._flawed(insights)
        edits = [*edits[: max(0, self.budget - len(flawed))], *flawed][: self.budget]
        patterns = [
            {
                "name": f"{insight.field.label} in the wrong form",
                "count": len(insight.tasks),
                "description": f"The expected form of the {insight.field.label} was not used.",
            }
            for insight in insights
        ]
        reasoning = f"{len(self.attempts)} attempts read, {len(insights)} fields explained."
        return {"reasoning": reasoning, "patterns": patterns, **self._in_form(edits)}

    def _teach(self, insight: Insight) -> Iterator[ListedEdit]:
        """The edit that makes the skill say what the evidence shows; none when it says so."""
        label = insight.field.label
        rule = self._phrase(insight.form, label)
        of_field = [stated for stated in self.stated.rules if stated.field == label]
        wrong = [stated.statement for stated in of_field if stated.form != insight.form.name]
        stated = len(wrong) < len(of_field)
        if stated and not wrong:
            return
        op, target, content = "append", "", rule
        if stated:
            op, target, content = "delete", wrong[0], ""
        elif wrong:
            op, target = "replace", wrong[0]
            content = rule if target.startswith("-") else rule.removeprefix("- ")
        elif self.stated.rules and self._chance("place", label) < 0.2:
            op, target = "insert_after", self.stated.rules[-1].statement
        yield ListedEdit(
            op=op,
            file=file_for(self.skill, target, rule),
            target=target,
            content=content,
            why=f"{len(insight.tasks)} attempts needed this form of the {label}.",
            tasks=list(insight.tasks),
        )

    def _flawed(self, insights: Sequence[Insight]) -> list[ListedEdit]:
        learned = 0.5 if self.section("lessons").strip() else 1.0
        rules: list[str] = []
        if self._chance("useless") < self.settings.useless * learned:
            rules.append(pick(_USELESS, self.settings.seed, "which useless", self.user))
        if self._chance("harmful") < self.settings.harmful * learned:
            rules += self._harmful(insights)
        tasks = [attempt.id for attempt in self.attempts[:1]]
        return [
            ListedEdit(
                op="append", target="", content=f"- {rule}", why="It seems to help.", tasks=tasks
            )
            for rule in rules
            if rule not in self.history or self._chance("again", rule) < 0.2
        ]

    def _harmful(self, insights: Sequence[Insight]) -> list[str]:
        """A rule with a form that neither the evidence nor the skill supports."""
        wanted = [field for attempt in self.attempts for field in read_request(attempt.task)]
        fields = list({field.field.label: field.field for field in wanted}.values())
        if not fields:
            return []
        seed, user = self.settings.seed, self.user
        field = pick(fields, seed, "which field", user)
        good = {insight.form.name for insight in insights if insight.field is field}
        good.update(self.stated.by_field.get(field.label, ()))
        wrong = [form for form in field.forms if form.name not in good]
        return [pick(wrong, seed, "which wrong", user).rules[0]] if good and wrong else []

    def _in_form(self, edits: Sequence[ListedEdit]) -> Answer:
        """The edits in the form that the question asks for."""
        if '"revise_suggestions"' in self.system:
            return {"revise_suggestions": [as_suggestion(edit) for edit in edits]}
        if '"skill_candidates"' in self.system:
            return {"skill_candidates": as_candidate(self.skill, edits)}
        return {"edits": [as_edit(edit) for edit in edits]}

    def merge(self) -> Answer:
        reasoning = "Equal proposals are united, the best supported first."
        if '"skill_candidates"' in self.system:
            candidates = one_of(self.skill, self.proposals)
            return {"reasoning": reasoning, "skill_candidates": candidates}
        return {"reasoning": reasoning, **self._in_form(merge(self.proposals))}

    def rank(self) -> Answer:
        chosen = rank(self.proposals, self.budget)
        return {"reasoning": "Wider support comes first.", "selected_indices": chosen}

    def learning_rate(self) -> Answer:
        backed = sum(edit.support > 1 or edit.source == "failure" for edit in self.proposals)
        return {
            "learning_rate": backed,
            "reasoning": f"{backed} of {len(self.proposals)} proposals have evidence behind them.",
            "confidence": 0.8,
            "risk_notes": "None of them touches the same passage.",
        }

    def rewrite(self) -> Answer:
        return {
            "reasoning": "Every suggestion is worked in.",
            "change_summary": [edit.summary for edit in self.proposals],
            "new_skill": worked_in(f"{self.skill}\n", self.proposals),
        }

    def compress(self) -> Answer:
        text = shortened(self.skill, self._number("limit", 0))
        return {"reasoning": "Only rules are kept.", "compressed_skill": text}

    def consolidate(self) -> Answer:
        notes = compact(self.section("notes").splitlines())
        return {"reasoning": "Fields share reminders.", "consolidated_notes": notes}

    def meta_skill(self) -> Answer:
        changes = [pair.change for pair in self.attempts]
        content = (
            f"- In the last epoch {changes.count('improved')} tasks improved and "
            f"{changes.count('regressed')} regressed.\n"
            "- Rules that name a field and show its exact form helped; general advice did not.\n"
            "- Do not add a second form for a field that has one."
        )
        return {
            "reasoning": "Compared both skills on the same tasks.",
            "meta_skill_content": content,
        }

    def slow_update(self) -> Answer:
        lines = [
            self._phrase(insight.form, insight.field.label)
            for insight in infer(pair for pair in self.attempts if pair.change != "improved")
            if insight.field.label not in self.stated.by_field
        ]
        before = self.section("guidance").strip().splitlines()
        kept = [line for line in before if line.strip() and line not in lines]
        content = "\n".join([*kept, *lines]) or f"- {_STEADY}"
        reasoning = f"{len(lines)} rules are still missing after this epoch."
        return {"reasoning": reasoning, "slow_update_content": content}

    def meta_reflect(self) -> Answer:
        """Settle contradictions by what was accepted, bring rejected rules back, drop ballast."""
        try:
            directions = _DIRECTIONS.validate_json(self.section("directions"))
        except ValidationError:
            directions = []
        edits: list[dict[str, str]] = []
        for op, target, rule, why in [*self._second_thoughts(directions)][: self.budget]:
            file = file_for(self.skill, target, rule)
            edit = {"op": op, "target": target, "content": rule, "why": why}
            edits.append({**edit, "file": file} if file else edit)
        summary = f"{len(directions)} directions read, {len(edits)} things to put right."
        return {"reasoning": summary, "directions": [summary], "edits": edits}

    def _second_thoughts(
        self, directions: Sequence[Direction]
    ) -> Iterator[tuple[str, str, str, str]]:
        taken = _forms_in(direction for direction in directions if "accept" in direction.outcome)
        refused = _forms_in(
            direction for direction in directions if "accept" not in direction.outcome
        )
        forms = self.stated.by_field
        for rule in self.stated.rules:
            label = rule.field
            if not taken[label, rule.form] and any(taken[label, form] for form in forms[label]):
                yield "delete", rule.statement, "", f"another form of the {label} helped"
        for (label, name), _ in sorted(refused.items(), key=lambda count: (-count[1], count[0])):
            if label not in forms:
                rule = self._phrase(BY_LABEL[label].form(name), "again", label)
                yield "append", "", rule, f"the {label} was only tried beside other edits"
        for text in _USELESS:
            if line := re.search(rf"^.*{re.escape(text)}.*$", self.skill, re.MULTILINE):
                yield "delete", line[0], "", "nobody can act on it"


def _forms_in(directions: Iterable[Direction]) -> Counter[tuple[str, str]]:
    """How often each field was given each form."""
    counts: Counter[tuple[str, str]] = Counter()
    for direction in directions:
        for edit in direction.edits:
            rules = read_rules(edit.content or "").rules
            counts.update({(rule.field, rule.form) for rule in rules})
    return counts


def _break(text: str, how: int) -> str:
    match how:
        case 0:
            return f"Here is what I found:\n```json\n{text[:-1]},\n}}\n```\nI hope this helps!"
        case 1:
            return text[: len(text) * 3 // 5]
        case _:
            return f"Sure. {text.replace(']', ',]')}"


_STAGES: Mapping[str, tuple[str, Callable[[OptimizerRequest], Answer]]] = {
    "exploration": ('"calls"', OptimizerRequest.explore),
    "ranking": ('"selected_indices"', OptimizerRequest.rank),
    "consolidation": ('"consolidated_notes"', OptimizerRequest.consolidate),
    "probe": ('"probe"', OptimizerRequest.probe),
    "meta_skill": ('"meta_skill_content"', OptimizerRequest.meta_skill),
    "slow_update": ('"slow_update_content"', OptimizerRequest.slow_update),
    "meta_reflect": ('"directions"', OptimizerRequest.meta_reflect),
    "merge": ('"from"', OptimizerRequest.merge),
    "reflection": ('"patterns"', OptimizerRequest.reflect),
    "learning_rate": ('"risk_notes"', OptimizerRequest.learning_rate),
    "compress": ('"compressed_skill"', OptimizerRequest.compress),
    "rewrite": ('"new_skill"', OptimizerRequest.rewrite),
}
"""What a question can ask for, the first that fits: the key of the reply it wants, the answer."""


def stage_of(system: str) -> str | None:
    """What a request asks the optimizer for."""
    return next((stage for stage, (key, _) in _STAGES.items() if key in system), None)
