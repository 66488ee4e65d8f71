"""How the simulated optimizer puts edits into words, and where in a skill it puts them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skillopt.core.tokens import estimate
from skillopt.testing.simulator.forms import read_rules
from skillopt.testing.simulator.merging import Offer, merge
from skillopt.testing.simulator.tasks import BY_LABEL, FIELDS

_FILE = re.compile(r"<!-- FILE (\S+) -->\n(.*?)<!-- END OF FILE \1 -->", re.DOTALL)


def file_for(skill: str, target: str, rule: str) -> dict[str, str]:
    """The `file` of an edit: where its target stands; without one, what is about the rule's field.

    Empty for SKILL.md, and for a skill that is one document.
    """
    if target and target in _FILE.sub("", skill):
        return {}
    subjects = [BY_LABEL[label].subject for label in read_rules(rule, FIELDS).by_field]
    for path, text in _FILE.findall(skill):
        if (target in text) if target else any(each.search(text) for each in subjects):
            return {"file": path}
    return {}


_AIMS = {"append": "add_rule", "insert_after": "add_rule", "replace": "clarify"}
_OPS = {("", "Add"): "append", ("After", "Add"): "insert_after", ("Replace", "By"): "replace"}
_OLD = r"(?:(?P<verb>Replace|Remove|After): (?P<target>.*?))?"
_NEW = r"(?:(?P<new>Add|By): (?P<content>.*))?"
_TOLD = re.compile(rf"{_OLD}\n?{_NEW}", re.DOTALL)


def as_suggestion(edit: dict[str, object]) -> dict[str, object]:
    """An edit as a suggestion to whoever rewrites the text."""
    op, target, content = (str(edit[key]) for key in ("op", "target", "content"))
    told = {
        "append": f"Add: {content}",
        "insert_after": f"After: {target}\nAdd: {content}",
        "replace": f"Replace: {target}\nBy: {content}",
        "delete": f"Remove: {target}",
    }
    subjects = ", ".join(read_rules(content or target, FIELDS).by_field)
    rest = {key: edit[key] for key in ("tasks", "from") if key in edit}
    return {
        "type": _AIMS.get(op, "remove_rule"),
        "title": subjects or "general advice",
        "motivation": edit["why"],
        "instruction": told[op],
        "priority_hint": "high" if subjects else "low",
        **rest,
    }


def understood(offer: Offer) -> Offer:
    """A suggestion as the edit that it describes."""
    found = _TOLD.fullmatch(offer.instruction or "")
    if found is None:
        return offer.model_copy(update={"op": "append", "content": offer.instruction})
    op = _OPS.get((found["verb"] or "", found["new"] or ""), "delete")
    return offer.model_copy(
        update={
            "op": op,
            "target": found["target"],
            "content": found["content"],
            "why": offer.why or offer.motivation,
        }
    )


def worked_in(body: str, offers: Sequence[Offer]) -> str:
    """The text after all of the edits."""
    for offer in offers:
        target, content = offer.target or "", offer.content or ""
        if offer.op == "delete":
            body = body.replace(f"{target}\n", "", 1) if f"{target}\n" in body else body
        elif offer.op == "replace" and target in body:
            body = body.replace(target, content, 1)
        else:
            body = f"{body.rstrip()}\n{content}\n"
    return body


def as_candidate(body: str, edits: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The whole text with the edits made; none when there is nothing to change."""
    if not edits:
        return []
    offers = [Offer.model_validate({"index": 0, **edit}) for edit in edits]
    tasks = {str(task) for offer in offers for task in offer.tasks}
    return [
        {
            "title": f"{len(edits)} rules revised",
            "change_summary": [str(edit["why"]) for edit in edits],
            "new_skill": worked_in(f"{body}\n", offers),
            "tasks": sorted(tasks),
        }
    ]


def one_of(body: str, candidates: Sequence[Offer]) -> list[dict[str, object]]:
    """One text with what several versions of it changed, line by line."""
    before = body.splitlines()
    offers: list[Offer] = []
    for each in candidates:
        after = (each.new_skill or "").splitlines()
        gone = [Offer(index=each.index, op="delete", target=line) for line in before if line]
        offers += [offer for offer in gone if offer.target not in after]
        offers += [
            Offer(index=each.index, op="append", content=line, support=each.support)
            for line in after
            if line.strip() and line not in before
        ]
    merged = merge(offers)
    return [
        {
            "title": "what the versions agree on",
            "change_summary": [
                f"{offer.op}: {offer.content or offer.target}" for offer, _ in merged
            ],
            "new_skill": worked_in(f"{body}\n", [offer for offer, _ in merged]),
            "from": sorted(each.index for each in candidates),
        }
    ]


def shortened(body: str, limit: int) -> str:
    """The text without what states no rule, last lines first, until it fits."""
    lines = body.splitlines()
    for at in reversed(range(len(lines))):
        if estimate("\n".join(lines)) <= limit:
            break
        if not lines[at].startswith("#") and not read_rules(lines[at], FIELDS).claims:
            del lines[at]
    return "\n".join(lines)
