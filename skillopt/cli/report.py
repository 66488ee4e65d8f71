"""`skillopt report`; and scores, steps and cost of a run as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
from rich.console import Group
from rich.text import Text

from skillopt.analysis.report import claim, lift, mean, metric_of, shown_metrics
from skillopt.api import report_markdown, write_report
from skillopt.app.environment import few_to_decide
from skillopt.cli.formatting import (
    became,
    count,
    dollars,
    edits,
    graded,
    paid,
    quoted,
    rated,
    short,
    spelt,
    spread,
    train_score,
)
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.core.chat import Usage
from skillopt.core.events import Fact
from skillopt.core.facts import EpochClosed, HumanReviewed, MetaReflected, Pruned, Stepped
from skillopt.core.proposal import Size
from skillopt.core.state import State
from skillopt.core.tokens import estimate
from skillopt.store.cache import ReuseCount
from skillopt.store.ledger import PrefetchCount
from skillopt.store.reader import RunReader
from skillopt.store.receipts import by_role, unpriced
from skillopt.store.run_history import HistoryEntry, replies, shares
from skillopt.store.summary import failures


def report(run: Path, out: Path | None, *, markdown: bool) -> None:
    screen = Screen()
    if out == Path("-"):
        if not markdown:
            raise click.UsageError("`--out -` prints a summary; add --markdown")
        screen.show(report_markdown(run).rstrip("\n"))
        return
    screen.show(str(write_report(run, out, markdown=markdown)))


def scores(state: State, *, last: bool = False) -> Table:
    """Val and test with 95 % intervals: initial and best skill; the last one too if asked for.

    By the metric of the run first, then by the others where they differ.
    """
    skills = ["initial [95 %]", "best [95 %]", *(["last [95 %]"] if last else [])]
    numbers = ["n", "failures"]
    table = Table("", *skills, "change [95 %]", *numbers, right=numbers)
    measured = [("val", state.initial.evaluation, state.best.evaluation, state.current.evaluation)]
    if (final_test := state.final_test) is not None:
        measured.append(("test", final_test.initial, final_test.best, final_test.last))
    chief, *others = shown_metrics(metric_of(state))
    for split, *all_three in measured:
        evaluations = all_three if last else all_three[:2]
        for metric in (chief, *(others if any(map(graded, evaluations)) else ())):
            initial, best, *_ = evaluations
            change = metric(best) - metric(initial) if initial.skill != best.skill else 0.0
            interval = lift(initial, best, metric)
            colour = "green" if change > 0 else "red" if change < 0 else ""
            table.add_row(
                f"{split} {metric.name}",
                *(spread(mean(evaluation, metric)) for evaluation in evaluations),
                Text(f"{change:+.3f} [{interval.low:+.2f}, {interval.high:+.2f}]", style=colour),
                _alike(evaluation.n for evaluation in evaluations),
                _alike(len(evaluation.failures) for evaluation in evaluations),
            )
    return table


def _alike(numbers: Iterable[int]) -> str:
    """One number when all are the same, else each of them."""
    texts = list(map(str, numbers))
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)


def forced(entries: Iterable[HistoryEntry]) -> list[str]:
    """What guidance that met no gate did to the score of the best skill on val, a line each."""
    return [
        f"forced slow update, epoch {entry.fact.epoch}: best skill on val "
        f"{entry.before.best.value:.3f} -> {entry.after.best.value:.3f} "
        f"({entry.after.best.value - entry.before.best.value:+.3f})"
        for entry in entries
        if isinstance(entry.fact, EpochClosed)
        and entry.fact.decision is not None
        and entry.fact.decision.action == "force_accept"
    ]


def proposers(facts: Sequence[Fact]) -> Text:
    """Who proposed what, a line each, and how many replies of the optimizer were of no use."""
    lines = [
        f"{share.by} ({'uses the optimizer model' if share.asks_model else 'uses no model'}): "
        f"{count(share.proposed, 'edit')} proposed, {share.tried} tried at the gate, "
        f"{share.accepted} accepted"
        for share in shares(facts)
    ]
    answers = replies(facts)
    if answers.unusable:
        lines.append(f"unusable replies of the optimizer: {answers.unusable} of {answers.asked}")
    return Text("\n".join(lines or ["proposals: none"]))


def lost(facts: Iterable[Fact]) -> str:
    """Tasks without a score, split by split."""
    numbers = failures(facts)
    listed = ", ".join(f"{number} on {split}" for split, number in numbers.items() if number)
    total = f"failed attempts (no score): {sum(numbers.values()) or 'none'}"
    return f"{total} ({listed})" if listed else total


_SHOWN = 8
"""Rejected candidates that are told one by one."""


def rejections(facts: Iterable[Fact]) -> Text:
    """What was tried and turned away, a line each, the latest last."""
    rejected = [
        (fact, decision)
        for fact in facts
        if (decision := fact.decision) is not None and not decision.accepted
    ]
    lines = [f"rejected candidates: {len(rejected) or 'none'}"]
    if (older := len(rejected) - _SHOWN) > 0:
        lines.append(f"  ({older} earlier ones not shown)")
    for fact, decision in rejected[-_SHOWN:]:
        what = "guidance" if fact.edits is None else count(fact.edits, "edit")
        gist = f' "{fact.gist}"' if fact.gist else ""
        sure = "inconclusive, " if decision.inconclusive else ""
        source = spelt(decision.candidate.origin)
        lines.append(f"  {source}: {what}{gist}, {sure}{decision.reason}")
    return Text("\n".join(lines))


def verdict(state: State) -> Text:
    """Whether the result is sure, in words."""
    gain = claim(state)
    sure = gain.split == "test" and gain.conclusive
    colour = ("green" if gain.gain.low > 0 else "red") if sure else "yellow"
    words = Text(gain.words(), style=colour)
    if state.final_test is not None and state.best.skill.digest != state.initial.skill.digest:
        words.append(
            "\nthe best skill was selected by its val score, so that score is biased upwards; "
            "the test score is not"
        )
    return words


def few_val(state: State) -> list[Text]:
    """A warning where val is too small to decide anything."""
    val = state.initial.evaluation
    warnings = few_to_decide(val.n + len(val.failures))
    return [Text(f"warning: {warning}", style="bold yellow") for warning in warnings]


def moves_table(reader: RunReader) -> Table:
    """One row per step, meta reflection, pruning and guidance, in the order of the run."""
    numbers = ["epoch", "train", "current", "candidate", "edits", "tokens"]
    table = Table("step", *numbers, "outcome", right=numbers, wrap=["outcome"])
    for entry in reader.entries:
        fact = entry.fact
        if (cells := _cells(fact)) is not None:
            name, train, changes, size = cells
            current, candidate = f"{entry.before.current.value:.3f}", rated(fact.decision)
            words, colour = became(fact)
            outcome = Text(words, style=colour)
            table.add_row(name, str(fact.epoch), train, current, candidate, changes, size, outcome)
    return table


def _cells(fact: Fact) -> tuple[str, str, str, str] | None:
    """Its name, its train score, its edits and the tokens of its candidate, as far as it has any.

    None for what brought no candidate, as the end of an epoch may.
    """
    match fact:
        case Stepped(draft=draft):
            score = train_score(fact)
            train = "n/a" if score is None else f"{score:.3f}"
            return str(fact.step), train, edits(fact), _tokens(draft.leading.size)
        case MetaReflected(draft=draft):
            return "meta reflect", "", edits(fact), _tokens(draft.leading.size)
        case Pruned(cut=cut, decision=decision):
            size = f"{estimate(decision.candidate.skill.render()):,}" if decision else ""
            return "prune", "", str(len(cut.rules)), size
        case EpochClosed(size=size) if fact.decision is not None:
            return "guidance", "", "", _tokens(size)
        case HumanReviewed(decision=decision):
            size = f"{estimate(decision.candidate.skill.render()):,}" if decision else ""
            return "review", "", "" if fact.edits is None else str(fact.edits), size
        case _:
            return None


def _tokens(size: Size | None) -> str:
    return "" if size is None else f"{size.after:,}"


def cost(reader: RunReader) -> Group:
    """Calls, tokens and, where prices are known, dollars: by role and stage."""
    roles = by_role(reader.spent())
    sums = {role: sum(stages.values(), Usage()) for role, stages in roles.items()}
    total = sum(sums.values(), Usage())
    columns: dict[str, Callable[[Usage], str]] = {
        "calls": lambda usage: f"{usage.calls:,}",
        "tokens in": lambda usage: short(usage.input),
        "tokens out": lambda usage: short(usage.output),
    }
    if total.cached:
        columns["cached in"] = lambda usage: short(usage.cached)
    if total.estimated:
        columns["calls with estimated tokens"] = lambda usage: f"{usage.estimated:,}"
    if total.dollars:
        columns["dollars"] = lambda usage: dollars(usage) if usage.dollars else "-"
    table = Table("cost", *columns, right=columns)
    for role, stages in roles.items():
        table.add_row(role, *(cell(sums[role]) for cell in columns.values()))
        for stage, usage in stages.items():
            name = f"  {stage.replace('_', ' ')}"
            table.add_row(name, *(cell(usage) for cell in columns.values()), style="dim")
    table.add_row("total", *(cell(total) for cell in columns.values()))
    unknown = " and ".join(unpriced(sums, reader.prices))
    notes = (
        f"dollars unknown: no price for {unknown}" if unknown else "",
        _interrupted(reader.interrupted()),
        _prefetched(reader.ahead()),
    )
    return Group(table, *filter(None, notes))


def _interrupted(spent: Usage) -> str:
    """What counts against limits without an answer; empty when nothing does."""
    if not spent.calls:
        return ""
    return f"under way when the run ended, and counted at their most: {paid(spent)}"


def _prefetched(attempts: PrefetchCount) -> str:
    """What was attempted before it was needed, and what that cost in vain; empty when nothing."""
    if not attempts.attempts:
        return ""
    unused = f"{attempts.unused:,} unused ({paid(attempts.waste)})"
    return (
        f"speculative attempts: {attempts.attempts:,}, {unused if attempts.unused else 'all used'}"
    )


def reused(hits: ReuseCount) -> str:
    """What was not paid for, because it was finished before; empty when nothing was."""
    parts = [(hits.attempts, "attempt"), (hits.calls, "call")]
    listed = " and ".join(count(number, noun) for number, noun in parts if number)
    stages = ", ".join(
        f"{role} {stage.replace('_', ' ')} {usage.calls:,}"
        for (role, stage), usage in sorted(hits.spared.items())
    )
    saved = paid(sum(hits.spared.values(), Usage()))
    return f"cache hits (not paid again): {listed} ({stages}; saved {saved})" if listed else ""


def best_at(state: State, path: Path) -> str:
    """Where the best skill is, and where it came from."""
    folder = f" (as a folder: {path.with_suffix('')})" if state.best.skill.references else ""
    return f"best skill ({spelt(state.best.origin)}): {path}{folder}"


def next_commands(run: Path) -> Table:
    """What to do next; nothing of it asks a model."""
    purposes = {
        "show": "show scores, steps and cost",
        "diff": "compare the initial and the best skill",
        "blame": "show the origin of each line",
        "report": "write all of this as one HTML file",
        "review": "accept, reject or edit changes by hand",
        "check": "check whether the skill copies items",
    }
    rows = ((f"skillopt {name} {quoted(run)}", purpose) for name, purpose in purposes.items())
    return Table("", "", header=False, indent=2, rows=rows)
