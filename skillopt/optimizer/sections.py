"""The tagged sections of prompts: stable parts come first, for prefix caches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import quoteattr

from skillopt.core.edits import Append, Change, Delete, Rewrite, Suggestion
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Probe, Proposal, Turn
from skillopt.core.reminders import new_reminders
from skillopt.core.rollout import Failure, Pair, Rollout, Score
from skillopt.core.skill import MAIN, Skill
from skillopt.core.tokens import estimate
from skillopt.prompts.digest import Digest, Excerpt, Story, cut


def skill_section(skill: Skill, tag: str = "skill") -> str:
    """The whole skill; for a package, also how edits name its files."""
    document = f"<{tag}>\n{skill.render()}\n</{tag}>"
    told = skill.references and tag == "skill"
    return f"{document}\n\n{_files_note(skill)}" if told else document


def body_section(skill: Skill) -> str:
    """The body alone, for a question whose answer is a body."""
    return f"<skill>\n{skill.body.strip()}\n</skill>"


def budget_section(budget: int | None) -> str:
    return f"<budget>{'no limit' if budget is None else budget}</budget>"


def memory_sections(memory: Memory) -> list[str]:
    """Lessons and history of earlier steps and epochs; empty at the start."""
    sections: list[str] = []
    if memory.lessons:
        sections.append(f"<lessons>\n{memory.lessons}\n</lessons>")
    if memory.steps:
        sections.append(f"<history>\n{_history(memory)}\n</history>")
    return sections


def directions_section(memory: Memory) -> str:
    """What was tried and the result, one JSON object per step with a candidate."""
    return _json_section(
        "directions",
        [
            {
                "step": entry.step,
                "outcome": entry.action,
                "score_before": entry.score_before,
                "score_after": _after(entry),
                "edits": [_cut(edit) for edit in _edits(entry)],
            }
            for entry in memory.steps
            if _edits(entry)
        ],
    )


def _json_section(tag: str, rows: Sequence[dict[str, object]]) -> str:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"<{tag}>\n[\n{lines}\n]\n</{tag}>"


def _after(entry: MemoryEntry) -> str | float | None:
    if entry.undecided:
        return "not surely better"
    return "not better" if entry.action == "reject" else entry.score_after


def _edits(entry: MemoryEntry) -> tuple[Change, ...]:
    return entry.accepted or entry.rejected or entry.undecided


def proposals_section(proposals: Sequence[Proposal]) -> str:
    """Numbered proposals, one JSON object per line."""
    return _json_section(
        "proposals",
        [
            {
                "index": index,
                **describe(proposal.edit),
                "why": proposal.why,
                "support": proposal.support,
                "source": proposal.source,
            }
            for index, proposal in enumerate(proposals)
        ],
    )


def notes_section(notes: Sequence[str]) -> str:
    return "<notes>\n" + "\n".join(f"- {note}" for note in notes) + "\n</notes>"


def turns_section(turns: Sequence[Turn]) -> str:
    return "<turns>\n" + "\n".join(map(_turn, turns)) + "\n</turns>"


def probe_section(probe: Probe) -> str:
    told = "\n".join([*map(_turn, probe.turns), f"[concluded] {probe.conclusion}"])
    return f"<probe id={quoteattr(probe.task)}>\n{told}\n</probe>"


def attempt_sections(rollouts: Sequence[Rollout], digest: Digest) -> list[str]:
    """The attempts of a prompt, each shortened to its share of the space."""
    rooms = digest.rooms([estimate(attempt_section(rollout)) for rollout in rollouts])
    return [attempt_section(rollout, room) for rollout, room in zip(rollouts, rooms, strict=True)]


def attempt_section(rollout: Rollout, room: int | None = None) -> str:
    """One attempt with its task, what was done, the answer and the grader's word.

    In at most `room` tokens, unless its tags alone take more.
    """
    story = _story(rollout)
    whole = _attempt(rollout, story.whole)
    if room is None or estimate(whole) <= room:
        return whole
    frame = estimate(_attempt(rollout, Excerpt(turns="-")))
    return _attempt(rollout, cut(story, max(0, room - frame)))


def pair_sections(pairs: Sequence[Pair], digest: Digest) -> list[str]:
    """The same tasks with two skills; tasks without a failure are shown by their scores only."""
    told = [pair for pair in pairs if pair.change != "stable_success"]
    both = [rollout for pair in told for rollout in (pair.before, pair.after)]
    shown = iter(attempt_sections(both, digest))
    return [_pair(pair, shown) for pair in pairs]


def describe(change: Change) -> dict[str, object]:
    """A proposal in the format that a model reads and writes."""
    match change:
        case Suggestion(aim, title, instruction, priority):
            hint = {"priority_hint": priority} if priority else {}
            return {"type": aim, "title": title, "instruction": instruction, **hint}
        case Rewrite(title, summary, body):
            return {"title": title, "change_summary": list(summary), "new_skill": body}
        case edit:
            target = "" if isinstance(edit, Append) else edit.target
            content = "" if isinstance(edit, Delete) else edit.content
            file = {} if edit.file == MAIN else {"file": edit.file}
            return {"op": edit.op, **file, "target": target, "content": content}


_NOUNS = {"suggest": "suggestion", "rewrite": "rewrite"}
"""What a change is called, by its `op`; the others are edits."""


def _files_note(skill: Skill) -> str:
    """What a model must know about a skill of several files."""
    listed = "\n".join(
        f"- {path}" for path in (MAIN, *(reference.path for reference in skill.references))
    )
    return (
        f"<files>\n{listed}\n\nThis skill has several files. {MAIN} comes first; each other file "
        "stands between two `<!-- ... FILE ... -->` marks, which belong to no file. Give each edit "
        f'a key "file" with the path of the file that it changes; without one, {MAIN} is meant. A '
        "target is looked for in that file only. Put a rule where a reader would look for it. An "
        "`append` may start a new file `references/NAME.md` when no file has room for a subject; "
        f"then another edit should mention it in {MAIN}.\n</files>"
    )


def _pair(pair: Pair, shown: Iterator[str]) -> str:
    name = f'id={quoteattr(pair.before.task)} change="{pair.change}"'
    if pair.change == "stable_success":
        return f"<pair {name}/>"
    before, after = next(shown), next(shown)
    return f"<pair {name}>\n<before>\n{before}\n</before>\n<after>\n{after}\n</after>\n</pair>"


def _story(rollout: Rollout) -> Story:
    outcome = rollout.outcome
    is_failure = isinstance(outcome, Failure)
    word = f"{outcome.kind}: {outcome.message}" if is_failure else outcome.feedback
    if rollout.trajectory is None:
        return Story(feedback=word)
    # The skill, which is the system's word, is shown once and not with every attempt.
    said = [message for message in rollout.trajectory.messages if message.role != "system"]
    task = said[0].text if said else ""
    # The last word is the answer, unless a limit ended the attempt after a call of a tool.
    unfinished = said and (said[-1].role == "tool" or said[-1].calls)
    turns = said[1:] if unfinished else said[1:-1]
    return Story(task, tuple(turns), rollout.trajectory.answer, word)


def _turn(turn: Turn) -> str:
    if turn.kind == "ask":
        return f"[asked] {turn.sent}\n[the agent said] {turn.came}"
    mark = "" if turn.score is None else f"{turn.score.hard:.2f}"
    word = "" if turn.score is None else turn.score.feedback
    return f"[re-run with] {turn.sent}\n[score {mark}] {turn.came}\n[feedback] {word}"


def _attempt(rollout: Rollout, excerpt: Excerpt) -> str:
    score = rollout.outcome
    mark = f"{score.hard:.2f}" if isinstance(score, Score) else "none"
    turns = [f"<conversation>\n{excerpt.turns}\n</conversation>"] if excerpt.turns else []
    inner = [
        f"<task>\n{excerpt.task}\n</task>",
        *turns,
        # Not <answer>: a reply may hold a section of that name, or talk about one.
        f"<agent_reply>\n{excerpt.answer}\n</agent_reply>",
        f"<feedback>\n{excerpt.feedback}\n</feedback>",
    ]
    name = f'id={quoteattr(rollout.task)} kind={quoteattr(rollout.kind)} score="{mark}"'
    return f"<attempt {name}>\n" + "\n".join(inner) + "\n</attempt>"


RECENT = 12
"""Number of steps that the history lists one by one."""
ROOM = 6000
"""Maximum characters of the failures and of the rejected edits in the history."""


def _history(memory: Memory) -> str:
    """The history within its limits; entries left out are counted."""
    older = len(memory.steps) - RECENT
    told = [f"({older} earlier steps are not listed.)"] if older > 0 else []
    told += [_step(entry) for entry in memory.steps[-RECENT:]]
    patterns = [
        f"  pattern ({seen.pattern.count}x, last in step {seen.last}): {seen.pattern.name}"
        for seen in memory.patterns
    ]
    told += _fitting("Failures seen, the latest first:", patterns, "older or rarer ones")
    edits = [
        f"  rejected {_NOUNS.get(one.edit.op, 'edit')} ({one.times}x, last in step {one.last}"
        f"{', alone' if one.alone else ''}): {json.dumps(_cut(one.edit), ensure_ascii=False)}"
        for one in memory.rejections
    ]
    told += _fitting("Rejected, most often rejected first:", edits, "others")
    open_ended = dict.fromkeys(edit for entry in memory.steps for edit in entry.undecided)
    unsure = [
        f"  unsure {_NOUNS.get(edit.op, 'edit')}: {json.dumps(_cut(edit), ensure_ascii=False)}"
        for edit in reversed(open_ended)
    ]
    told += _fitting("Tried without a clear result, worth another try:", unsure, "older ones")
    notes = [note for entry in reversed(memory.steps) for note in entry.rejected_notes]
    listed = [f"  rejected reminder: {note}" for note in new_reminders(notes, ())]
    told += _fitting("Rejected reminders, the latest first:", listed, "older ones")
    return "\n".join(told)


def _step(entry: MemoryEntry) -> str:
    match entry.kind:
        case "step":
            failed = f"{entry.n_fail} of {entry.n_total} attempts failed"
            line = f"Step {entry.step}: {entry.action}; {failed}."
        case "pruning":
            line = f"Pruning after step {entry.step}: {entry.action}.{_spared(entry)}"
        case kind:
            line = f"{kind.capitalize()} after step {entry.step}: {entry.action}."
    if entry.score_before is None or entry.score_after is None:
        return line
    # How far a rejected candidate was measured, and so its score, must not change what is asked.
    after = "was not beaten" if entry.action == "reject" else f"-> {entry.score_after:.4f}"
    return f"{line} Held-out score {entry.score_before:.4f} {after}."


def _spared(entry: MemoryEntry) -> str:
    """The rules that were removed, so that they are not proposed again."""
    texts = [edit.target[:100] for edit in entry.accepted if isinstance(edit, Delete)]
    if not texts:
        return ""
    return f" Nothing was missed without: {json.dumps(texts[:10], ensure_ascii=False)}."


def _fitting(title: str, lines: Sequence[str], rest: str) -> list[str]:
    """The first lines that fit, below a title, and the number of lines left out."""
    kept: list[str] = []
    for line in lines:
        if sum(map(len, kept)) + len(line) > ROOM:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return [title, *kept, *([f"  ({left} {rest} are left out.)"] if left else [])] if lines else []


def _cut(change: Change) -> dict[str, object]:
    """With shortened texts; a whole body by its summary of changes."""
    return {
        key: f"{text[:600]} [...]" if isinstance(text, str) and len(text) > 600 else text
        for key, text in describe(change).items()
        if key != "new_skill"
    }
