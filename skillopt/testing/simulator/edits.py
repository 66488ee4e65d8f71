"""How the simulated optimizer reads, merges, ranks and words edits, and works them into a skill."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, TypeAdapter, ValidationError

from skillopt.core.tokens import estimate
from skillopt.testing.simulator.reading import fields_named, read_rules

_FILE = re.compile(r"<!-- FILE (\S+) -->\n(.*?)<!-- END OF FILE \1 -->", re.DOTALL)
_AIMS = {"append": "add_rule", "insert_after": "add_rule", "replace": "clarify"}
_OPS = {("", "Add"): "append", ("After", "Add"): "insert_after", ("Replace", "By"): "replace"}
_OLD = r"(?:(?P<verb>Replace|Remove|After): (?P<target>.*?))?"
_NEW = r"(?:(?P<new>Add|By): (?P<content>.*))?"
_INSTRUCTION = re.compile(rf"{_OLD}\n?{_NEW}", re.DOTALL)


class ListedEdit(BaseModel):
    """An edit, a suggestion or a whole skill, as a question lists it."""

    index: int = 0
    op: str = ""
    file: str | None = None
    target: str | None = None
    content: str | None = None
    instruction: str | None = None
    new_skill: str | None = None
    tasks: list[str] = []
    why: str | None = None
    motivation: str | None = None
    support: int = 1
    source: str = "failure"
    merged: list[int] = []
    """Indices of the edits that it unites."""

    @property
    def subjects(self) -> dict[str, tuple[str, ...]]:
        """The forms that the edit states, by field; a deletion states nothing."""
        return {} if self.op == "delete" else read_rules(self.content or "").by_field

    @property
    def meaning(self) -> str:
        """Equal for edits that would teach the same, whatever their words."""
        if self.op == "delete":
            return f"delete {self.target}"
        if self.subjects:
            return repr(sorted(self.subjects.items()))
        return " ".join((self.content or "").lower().split())

    @property
    def summary(self) -> str:
        return f"{self.op}: {self.content or self.target}"


_EDITS = TypeAdapter(list[ListedEdit])


def read_edits(text: str) -> list[ListedEdit]:
    """The listed edits, suggestions as the edits they describe; none if the list is unreadable."""
    try:
        return [
            _understood(edit) if edit.instruction else edit for edit in _EDITS.validate_json(text)
        ]
    except ValidationError:
        return []


def _understood(suggestion: ListedEdit) -> ListedEdit:
    parts = _INSTRUCTION.fullmatch(suggestion.instruction or "")
    if parts is None:
        return suggestion.model_copy(update={"op": "append", "content": suggestion.instruction})
    return suggestion.model_copy(
        update={
            "op": _OPS.get((parts["verb"] or "", parts["new"] or ""), "delete"),
            "target": parts["target"],
            "content": parts["content"],
            "why": suggestion.why or suggestion.motivation,
        }
    )


def merge(edits: Sequence[ListedEdit]) -> list[ListedEdit]:
    """Unite edits that say the same, widest support first; of contradicting ones keep the first."""
    groups: dict[str, list[ListedEdit]] = {}
    for edit in edits:
        groups.setdefault(edit.meaning, []).append(edit)
    kept: list[ListedEdit] = []
    taken: set[str] = set()
    for group in sorted(groups.values(), key=lambda group: (-_support(group), group[0].index)):
        if taken.isdisjoint(group[0].subjects):
            taken.update(group[0].subjects)
            # A replacement says more than an addition: it also removes what stood there.
            best = next((edit for edit in group if edit.op == "replace"), group[0])
            kept.append(best.model_copy(update={"merged": [edit.index for edit in group]}))
    return kept


def _support(group: Iterable[ListedEdit]) -> int:
    return sum(edit.support for edit in group)


def rank(edits: Iterable[ListedEdit], budget: int) -> list[int]:
    """The indices worth keeping, by support, failures before successes."""
    order = sorted(edits, key=lambda edit: (-edit.support, edit.source != "failure", edit.index))
    return [edit.index for edit in order[:budget]]


def file_for(skill: str, target: str, rule: str) -> str | None:
    """The `file` of an edit: where its target stands; without one, what is about the rule's field.

    None for SKILL.md, and for a skill that is one document.
    """
    if target and target in _FILE.sub("", skill):
        return None
    labels = read_rules(rule).by_field
    for path, text in _FILE.findall(skill):
        if (
            (target in text)
            if target
            else any(field.label in labels for field in fields_named(text))
        ):
            return path
    return None


def as_edit(edit: ListedEdit) -> dict[str, object]:
    return {
        "op": edit.op,
        **({"file": edit.file} if edit.file else {}),
        "target": edit.target,
        "content": edit.content,
        "why": edit.why,
        **_origin(edit),
    }


def as_suggestion(edit: ListedEdit) -> dict[str, object]:
    """An edit as a suggestion to whoever rewrites the text."""
    instructions = {
        "append": f"Add: {edit.content}",
        "insert_after": f"After: {edit.target}\nAdd: {edit.content}",
        "replace": f"Replace: {edit.target}\nBy: {edit.content}",
        "delete": f"Remove: {edit.target}",
    }
    subjects = ", ".join(read_rules(str(edit.content) or str(edit.target)).by_field)
    return {
        "type": _AIMS.get(edit.op, "remove_rule"),
        "title": subjects or "general advice",
        "motivation": edit.why,
        "instruction": instructions[edit.op],
        "priority_hint": "high" if subjects else "low",
        **_origin(edit),
    }


def _origin(edit: ListedEdit) -> dict[str, object]:
    return {"from": edit.merged} if edit.merged else {"tasks": edit.tasks}


def as_candidate(skill: str, edits: Sequence[ListedEdit]) -> list[dict[str, object]]:
    """The whole text with the edits made; none when there is nothing to change."""
    if not edits:
        return []
    candidate: dict[str, object] = {
        "title": f"{len(edits)} rules revised",
        "change_summary": [edit.why for edit in edits],
        "new_skill": worked_in(f"{skill}\n", edits),
        "tasks": sorted({task for edit in edits for task in edit.tasks}),
    }
    return [candidate]


def one_of(skill: str, candidates: Sequence[ListedEdit]) -> list[dict[str, object]]:
    """One text with what several versions of it changed, line by line."""
    before = skill.splitlines()
    edits: list[ListedEdit] = []
    for version in candidates:
        after = (version.new_skill or "").splitlines()
        at, support = version.index, version.support
        gone = [line for line in before if line and line not in after]
        added = [line for line in after if line.strip() and line not in before]
        edits += [ListedEdit(index=at, op="delete", target=line) for line in gone]
        edits += [
            ListedEdit(index=at, op="append", content=line, support=support) for line in added
        ]
    merged = merge(edits)
    candidate: dict[str, object] = {
        "title": "what the versions agree on",
        "change_summary": [edit.summary for edit in merged],
        "new_skill": worked_in(f"{skill}\n", merged),
        "from": sorted(version.index for version in candidates),
    }
    return [candidate]


def worked_in(text: str, edits: Iterable[ListedEdit]) -> str:
    """The text after all of the edits."""
    for edit in edits:
        target, content = edit.target or "", edit.content or ""
        if edit.op == "delete":
            text = text.replace(f"{target}\n", "", 1)
        elif edit.op == "replace" and target in text:
            text = text.replace(target, content, 1)
        else:
            text = f"{text.rstrip()}\n{content}\n"
    return text


def shortened(text: str, limit: int) -> str:
    """The text without what states no rule, last lines first, until it fits."""
    lines = text.splitlines()
    for at in reversed(range(len(lines))):
        if estimate("\n".join(lines)) <= limit:
            break
        if not lines[at].startswith("#") and not read_rules(lines[at]).rules:
            del lines[at]
    return "\n".join(lines)
