"""One step of a run, and all rollouts of one item, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from skillopt.analysis.report import metric_of
from skillopt.cli.formatting import (
    count,
    growth,
    outcome,
    rated,
    repeats,
    sample,
    scored,
    some,
    spelt,
    train_score,
)
from skillopt.cli.render import indented
from skillopt.core.chat import Message
from skillopt.core.edits import (
    Append,
    Change,
    Delete,
    InsertAfter,
    Placement,
    Replace,
    Rewrite,
    Suggestion,
)
from skillopt.core.facts import Stepped
from skillopt.core.nearest import did_you_mean
from skillopt.core.proposal import Draft, Finding, Proposal, ReminderUpdate, Rewritten
from skillopt.core.rollout import FULL_MARKS, Failure, Rollout, Score
from skillopt.core.skill import MAIN
from skillopt.errors import StoreError
from skillopt.gates.compared import EQUAL
from skillopt.store.reader import RunReader
from skillopt.store.run_history import HistoryEntry, skills_in

_SHOWN = 2000
"""Characters of a message; the whole is in the run directory's predictions."""


def attempts_at(reader: RunReader, item: str) -> Iterator[RenderableType]:
    """Each kept attempt with its conversation and feedback, and each failed one with its reason."""
    measured = [(fact, evaluation) for fact in reader.facts for evaluation in fact.evaluations]
    items = {
        task for _, evaluation in measured for task in (*evaluation.scores, *evaluation.failures)
    }
    rollouts = reader.rollouts(task=item)
    if item not in items and not rollouts:
        example = f"items are called like {min(items, default='')!r}"
        hint = did_you_mean(item, sorted(items)) or example
        raise StoreError(f"{reader.layout.root} has no attempt at an item {item!r}; {hint}")
    place = f" ({reader.places[item]})" if item in reader.places else ""
    yield Text(f"item {item}{place}", style="bold")
    names = _names(reader)
    for rollout in rollouts:
        yield from _attempt(
            rollout, names.get(rollout.skill, "a skill that is not in the event log")
        )
    for fact, evaluation in measured:
        for failures in (evaluation.failures, evaluation.own_failures):
            if failure := failures.get(item):
                told = f"{failure.kind}: {failure.message}"
                where = f"{spelt(fact.move)}, on {evaluation.split}"
                yield Text(f"\nfailed in {where}: {told}", style="yellow")


def _names(reader: RunReader) -> dict[str, str]:
    """Every skill's digest with what to call it."""
    names: dict[str, str] = {}
    for skill, name in skills_in(reader.facts):
        names.setdefault(skill.digest, spelt(name))
    best = reader.state.best.skill.digest
    return names | {best: f"{names.get(best, '')}, the best skill".lstrip(", ")}


def _attempt(rollout: Rollout, skill: str) -> Iterator[RenderableType]:
    outcome = rollout.outcome
    line = Text(f"\nunder {skill}", style="cyan")
    match outcome:
        case Score(hard, soft):
            line.append(f"  hard {hard:g}, soft {soft:g}", style="green" if hard else "red")
        case Failure(kind, message):
            line.append(f"  {kind}: {message}", style="yellow")
    yield line
    if rollout.trajectory is not None:
        for message in rollout.trajectory.messages:
            yield _said(message)
    if isinstance(outcome, Score) and outcome.feedback:
        yield indented(f"feedback   {outcome.feedback}")


def _said(message: Message) -> Text:
    if message.role == "system":
        length = f"{len(message.text):,} characters"
        return indented(f"system     instructions and the skill, {length}", "dim")
    calls = [f"calls {call.name} {call.arguments}" for call in message.calls]
    images = [f"[image {image.media_type}]" for image in message.images]
    text = "\n".join(filter(None, [message.text, *images, *calls]))
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]} ... ({len(text) - _SHOWN:,} more characters)"
    return indented(f"{message.role:<10} {text}")


def step_story(entry: HistoryEntry) -> Iterator[RenderableType]:
    """Evidence, findings, edits, verdict."""
    fact = entry.fact
    if not isinstance(fact, Stepped):
        return
    yield _title(f"step {fact.step}, epoch {fact.epoch}")
    if fact.parent:
        yield f"set out from the skill of {fact.parent}, not from the current one"
    yield from _evidence(fact)
    yield _title("\nfindings")
    for finding in fact.draft.findings:
        yield from _finding(finding)
    yield from _edits(fact)
    yield from _reminders(fact.draft.reminders)
    yield from _race(fact)
    yield from _verdict(fact, entry)


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _evidence(fact: Stepped) -> Iterator[RenderableType]:
    score = train_score(fact)
    evaluations = [batch.evaluation for batch in fact.batches]
    scores = [mark for evaluation in evaluations for mark in evaluation.scores.items()]
    wrong = [task for task, mark in scores if mark.hard < FULL_MARKS]
    yield f"attempts  {len(scores)} scored, mean {'n/a' if score is None else f'{score:.3f}'}"
    if wrong:
        yield f"wrong     {', '.join(wrong)}"
    for evaluation in evaluations:
        for task, failure in evaluation.failures.items():
            yield Text(f"failed    {task}: {failure.message}", style="yellow")


def _finding(finding: Finding) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"from {finding.source}", "cyan"),
        f"  {count(len(finding.tasks), 'item')}: {some(finding.tasks, 8)}",
    )
    if finding.trail:
        yield indented(f"read: {', '.join(_trail(finding.trail))}", "dim")
    if finding.problem:
        yield indented(f"unusable: {finding.problem}", "yellow")
    for pattern in finding.patterns:
        told = f": {pattern.description}" if pattern.description else ""
        yield indented(f"seen {pattern.count}x  {pattern.name}{told}")
    for probe in finding.probes:
        turns = count(len(probe.turns), "turn")
        ended = probe.conclusion or f"no conclusion: {probe.problem}"
        yield indented(f"probed {probe.task}, {turns}: {ended}")
    if finding.reasoning:
        yield indented(finding.reasoning, "dim")
    if not finding.problem:
        reminders = f", {count(len(finding.notes), 'reminder')}" if finding.notes else ""
        yield indented(f"{count(len(finding.proposals), 'proposal')}{reminders}")


def _trail(trail: Sequence[str]) -> Iterator[str]:
    """What was looked at, several files in a row as a number."""
    for reading, calls in groupby(trail, lambda call: call.startswith("read ")):
        several = list(calls)
        yield from [f"read {len(several)} files"] if reading and len(several) > 1 else several


def _edits(fact: Stepped) -> Iterator[RenderableType]:
    draft, leading = fact.draft, fact.draft.leading
    merged, chosen = len(draft.merged.proposals), leading.chosen
    bound = "no limit" if draft.budget is None else f"budget {draft.budget}"
    sizes = f"{merged} after merging, {len(chosen.proposals)} chosen ({bound})"
    yield _title(f"\n{_named(draft)}: {sizes}")
    if draft.rate is not None and not draft.rate.problem:
        yield indented(f"learning rate {draft.rate.value}: {draft.rate.reasoning}", "dim")
    if dropped := repeats(fact):
        yield Text(f"{dropped}, before merging and ranking:", style="dim")
        for proposal in draft.repeats:
            yield indented(_in_one_line(proposal.edit), "dim")
    undecided = draft.rate.problem if draft.rate else ""
    for problem in filter(None, (*draft.merged.problems, undecided, chosen.problem)):
        yield _unusable(problem)
    if leading.rewritten is None:
        for proposal, placement in zip(chosen.proposals, leading.report, strict=False):
            yield from _edit(proposal, placement)
    else:
        for proposal in chosen.proposals:
            yield Text(f"{_kind(proposal.edit)}  {_evidence_for(proposal)}")
            yield from _content(proposal)
    for left_out in chosen.dropped:
        proposal = left_out.proposal
        yield Text(f"left out  {_evidence_for(proposal)}: {left_out.reason}", style="yellow")
        yield indented(_in_one_line(proposal.edit), "dim")
    if leading.rewritten is not None:
        yield from _rewritten(leading.rewritten)


def _unusable(problem: str) -> Text:
    return Text(f"unusable: {problem}", style="yellow")


def _named(draft: Draft) -> str:
    """What the proposals of a step are called."""
    match draft.merged.proposals:
        case [Proposal(edit=Suggestion()), *_]:
            return "suggestions"
        case [Proposal(edit=Rewrite()), *_]:
            return "rewrites"
        case _:
            return "edits"


def _edit(proposal: Proposal, placement: Placement) -> Iterator[RenderableType]:
    colour = "green" if placement.applied else "yellow"
    approximate = "" if placement.how == "exact" else f" ({placement.how} match)"
    yield Text.assemble((placement.status, colour), f"{approximate}  {_evidence_for(proposal)}")
    if placement.edit.file != MAIN:
        yield indented(f"in {placement.edit.file}", "dim")
    yield from _content(proposal)


def _evidence_for(proposal: Proposal) -> str:
    return f"by {proposal.by} from {proposal.source}, {count(proposal.support, 'item')}"


def _content(proposal: Proposal) -> Iterator[RenderableType]:
    old, new = _texts(proposal.edit)
    if old:
        yield indented(f"{_VERB[proposal.edit.op]} {old}", "dim")
    if new:
        yield indented(new)
    if proposal.why:
        yield indented(f"because {proposal.why}", "dim")


def _reminders(reminders: ReminderUpdate | None) -> Iterator[RenderableType]:
    if reminders is None:
        return
    shorter = (
        f", {reminders.consolidated} removed by consolidation" if reminders.consolidated else ""
    )
    yield _title(
        f"\nreminders: {len(reminders.added)} new, {len(reminders.after)} in the candidate{shorter}"
    )
    if reminders.problem:
        yield _unusable(reminders.problem)
    for note in reminders.added:
        yield indented(note)


def _race(fact: Stepped) -> Iterator[RenderableType]:
    if not fact.rounds:
        return
    attempts = sum(round_.attempts for round_ in fact.rounds)
    compared = f"compared by {count(attempts, 'attempt')}"
    yield _title(f"\ncandidates: {len(fact.draft.candidates)}, {compared}")
    for round_ in fact.rounds:
        yield count(round_.tasks, f"{round_.split} task")
        for name, gain in round_.gains.items():
            out = "" if name in round_.kept else ", dropped"
            yield indented(f"{gain:+.3f}  {name}{out}", "dim" if out else "")


def _rewritten(rewritten: Rewritten) -> Iterator[RenderableType]:
    if rewritten.problem:
        yield _unusable(rewritten.problem)
        return
    yield Text("the body was rewritten", style="green")
    for line in rewritten.summary:
        yield indented(f"- {line}")


_VERB = {"insert_after": "after", "replace": "instead of", "delete": "without"}


def _kind(change: Change) -> str:
    return change.aim if isinstance(change, Suggestion) else change.op


def _texts(change: Change) -> tuple[str, str]:
    """What the change refers to, and what it brings."""
    match change:
        case Append(content):
            return "", content
        case InsertAfter(target, content) | Replace(target, content):
            return target, content
        case Delete(target):
            return target, ""
        case Suggestion(title=title, instruction=instruction):
            return "", f"{title}: {instruction}" if title else instruction
        case Rewrite(title=title):
            return "", title


def _in_one_line(change: Change) -> str:
    return ": ".join(filter(None, _texts(change)))


def _verdict(fact: Stepped, entry: HistoryEntry) -> Iterator[RenderableType]:
    words, colour = outcome(fact.action, fact.decision)
    yield Text.assemble(("\nverdict: ", "bold"), (words, colour))
    size, decision = fact.draft.leading.size, fact.decision
    if size is not None:
        limit = f", at most {size.limit:,}" if size.limit else ""
        yield f"tokens     {growth(size)}{limit}"
        if size.problem:
            yield _unusable(size.problem)
    if decision is None:
        return
    old, new = entry.before.current.evaluation, decision.candidate.evaluation
    metric = metric_of(entry.before)
    yield f"current    val {scored(old, metric)}"
    if decision.bounded:
        score = f"{metric.name} {rated(decision)} (upper bound), {sample(new)}"
    else:
        score = scored(new, metric)
    yield f"candidate  val {score}  (digest {new.skill})"
    yield f"reason     {decision.reason}"
    both = [task for task in new.scores if task in old.scores]
    changes = {task: metric.difference(new.scores[task], old.scores[task]) for task in both}
    gained = [task for task, change in changes.items() if change > EQUAL]
    lost = [task for task, change in changes.items() if change < -EQUAL]
    if gained:
        yield Text(f"better on  {', '.join(gained)}", style="green")
    if lost:
        yield Text(f"worse on   {', '.join(lost)}", style="red")
