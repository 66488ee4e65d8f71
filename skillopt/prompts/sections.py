"""The tagged sections of which questions are made: stable parts first, for prefix caches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from skillopt.core.edits import Append, Delete, Edit, InsertAfter, Replace
from skillopt.core.memory import Entry, Memory
from skillopt.core.proposal import Proposal
from skillopt.core.rollout import Failure, Pair, Rollout, Score
from skillopt.core.skill import Skill


def skill_section(skill: Skill, tag: str = "skill") -> str:
    """The document, as it stands."""
    return f"<{tag}>\n{skill.render()}\n</{tag}>"


def budget_section(budget: int) -> str:
    """How many edits are allowed."""
    return f"<budget>{budget}</budget>"


def memory_sections(memory: Memory) -> list[str]:
    """What earlier steps and epochs taught; empty at the start."""
    sections: list[str] = []
    if memory.lessons:
        sections.append(f"<lessons>\n{memory.lessons}\n</lessons>")
    if memory.steps:
        told = "\n".join(_tell(entry) for entry in memory.steps)
        sections.append(f"<history>\n{told}\n</history>")
    return sections


def proposals_section(proposals: Sequence[Proposal]) -> str:
    """Numbered proposals, one JSON object per line."""
    rows = [
        json.dumps(
            {
                "index": index,
                **describe(each.edit),
                "why": each.why,
                "support": each.support,
                "source": each.source,
            },
            ensure_ascii=False,
        )
        for index, each in enumerate(proposals)
    ]
    return "<proposals>\n[\n" + ",\n".join(rows) + "\n]\n</proposals>"


def attempt_section(rollout: Rollout) -> str:
    """One attempt with its task, what was done, the answer and the grader's word."""
    score = rollout.outcome
    match score:
        case Score(hard, _, feedback):
            mark, word = f"{hard:.2f}", feedback
        case Failure(kind, message):
            mark, word = "none", f"{kind}: {message}"
    inner = [_conversation(rollout), f"<feedback>\n{word}\n</feedback>"]
    name = f'id={quoteattr(rollout.task)} kind={quoteattr(rollout.kind)} score="{mark}"'
    return f"<attempt {name}>\n" + "\n".join(inner) + "\n</attempt>"


def pair_section(pair: Pair) -> str:
    """One task under two skills; where nothing went wrong, the scores are enough."""
    name = f'id={quoteattr(pair.before.task)} change="{pair.change}"'
    if pair.change == "stable_success":
        return f"<pair {name}/>"
    return (
        f"<pair {name}>\n<before>\n{attempt_section(pair.before)}\n</before>\n"
        f"<after>\n{attempt_section(pair.after)}\n</after>\n</pair>"
    )


def describe(edit: Edit) -> dict[str, str]:
    """An edit as a model reads and writes it."""
    match edit:
        case Append(content):
            return {"op": "append", "target": "", "content": content}
        case InsertAfter(target, content):
            return {"op": "insert_after", "target": target, "content": content}
        case Replace(target, content):
            return {"op": "replace", "target": target, "content": content}
        case Delete(target):
            return {"op": "delete", "target": target, "content": ""}


def _conversation(rollout: Rollout) -> str:
    trajectory = rollout.trajectory
    if trajectory is None:
        return "<answer>\n</answer>"
    said = [message for message in trajectory.messages if message.role != "system"]
    task = said[0].text if said else ""
    between = said[1:-1]
    lines = [f"<task>\n{task}\n</task>"]
    if between:
        turns = "\n".join(f"[{message.role}] {message.text}" for message in between)
        lines.append(f"<conversation>\n{turns}\n</conversation>")
    lines.append(f"<answer>\n{trajectory.answer}\n</answer>")
    return "\n".join(lines)


def _tell(entry: Entry) -> str:
    lines = [
        f"Step {entry.step}: {entry.action}; {entry.n_fail} of {entry.n_total} attempts failed."
    ]
    lines += [f"  pattern ({each.count}x): {each.name}" for each in entry.patterns]
    if entry.score_before is not None and entry.score_after is not None:
        lines.append(f"  held-out score {entry.score_before:.4f} -> {entry.score_after:.4f}")
    lines += [
        f"  rejected edit: {json.dumps(describe(edit), ensure_ascii=False)}"
        for edit in entry.rejected
    ]
    return "\n".join(lines)
