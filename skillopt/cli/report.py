"""Scores, steps and cost of a run as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from skillopt.analysis.report import claim, lift, mean, metric_of, shown_metrics
from skillopt.app.environment import few_to_decide
from skillopt.cli.formatting import (
    became,
    count,
    dollars,
    edits,
    graded,
    origin,
    paid,
    quoted,
    rated,
    short,
    spread,
    train_score,
)
from skillopt.cli.tables import Table
from skillopt.core.chat import Usage
from skillopt.core.events import Fact
from skillopt.core.facts import EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.proposal import Size
from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.core.tokens import estimate
from skillopt.gates.compared import Metric
from skillopt.store.cache import ReuseCount
from skillopt.store.ledger import PrefetchCount
from skillopt.store.reader import RunReader
from skillopt.store.receipts import by_role, unpriced
from skillopt.store.run_history import HistoryEntry, replies, shares, tried
from skillopt.store.summary import counts, failures


def scores(state: State, *, last: bool = False) -> Table:
    """Val and test with 95 % intervals: initial and best skill; the last one too if asked for.

    By the metric of the run first, then by the others where they differ.
    """
    skills = ["initial [95 %]", "best [95 %]", *(["last [95 %]"] if last else [])]
    numbers = ["n", "failures"]
    made = Table("", *skills, "change [95 %]", *numbers, right=numbers)
    measured = [("val", state.initial.evaluation, state.best.evaluation, state.current.evaluation)]
    if (final_test := state.final_test) is not None:
        measured.append(("test", final_test.initial, final_test.best, final_test.last))
    chief, *others = shown_metrics(metric_of(state))
    for name, *all_three in measured:
        shown = all_three if last else all_three[:2]
        for metric in (chief, *(others if any(map(graded, shown)) else ())):
            _score_row(made, f"{name} {metric.name}", shown, metric)
    return made


def _score_row(made: Table, name: str, shown: Sequence[Evaluation], metric: Metric) -> None:
    sure = lift(shown[0], shown[1], metric)
    change = metric(shown[1]) - metric(shown[0]) if shown[0].skill != shown[1].skill else 0.0
    colour = "green" if change > 0 else "red" if change < 0 else ""
    made.add_row(
        name,
        *(spread(mean(each, metric)) for each in shown),
        Text(f"{change:+.3f} [{sure.low:+.2f}, {sure.high:+.2f}]", style=colour),
        _alike(each.n for each in shown),
        _alike(len(each.failures) for each in shown),
    )


def _alike(numbers: Iterable[int]) -> str:
    """One number when all are the same, else each of them."""
    found = list(numbers)
    return str(found[0]) if len(set(found)) == 1 else " / ".join(map(str, found))


def tally(steps: Sequence[Stepped]) -> str:
    """How many steps went which way."""
    found = counts(steps)
    return (
        f"{count(found.steps, 'step')}: "
        f"{found.accepts} accepted, {found.rejects} rejected, {found.skips} skipped"
        f"{f' ({found.screened} screened out)' if found.screened else ''}"
    )


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
        f"{each.by} ({'uses the optimizer model' if each.asks_model else 'uses no model'}): "
        f"{count(each.proposed, 'edit')} proposed, {each.tried} tried at the gate, "
        f"{each.accepted} accepted"
        for each in shares(facts)
    ]
    found = replies(facts)
    if found.unusable:
        lines.append(f"unusable replies of the optimizer: {found.unusable} of {found.asked}")
    return Text("\n".join(lines or ["proposals: none"]))


def lost(facts: Iterable[Fact]) -> str:
    """Tasks without a score, split by split."""
    found = {split: number for split, number in failures(facts).items() if number}
    listed = ", ".join(f"{number} on {split}" for split, number in found.items())
    told = f"failed attempts (no score): {sum(found.values()) or 'none'}"
    return f"{told} ({listed})" if listed else told


_SHOWN = 8
"""Rejected candidates that are told one by one."""


def rejections(facts: Iterable[Fact]) -> Text:
    """What was tried and turned away, a line each, the latest last."""
    turned = [each for each in tried(facts) if not each.decision.accepted]
    if not turned:
        return Text("rejected candidates: none")
    older = len(turned) - _SHOWN
    lines = [f"rejected candidates: {len(turned)}"]
    lines += [f"  ({older} earlier ones not shown)"] if older > 0 else []
    for each in turned[-_SHOWN:]:
        what = "guidance" if each.edits is None else count(each.edits, "edit")
        gist = f' "{each.gist}"' if each.gist else ""
        sure = "inconclusive, " if each.decision.inconclusive else ""
        told = f"{what}{gist}, {sure}{each.decision.reason}"
        lines.append(f"  {origin(each.decision.candidate)}: {told}")
    return Text("\n".join(lines))


def verdict(state: State) -> Text:
    """Whether the result is sure, in words."""
    found = claim(state)
    sure = found.split == "test" and found.conclusive
    colour = ("green" if found.gain.low > 0 else "red") if sure else "yellow"
    words = Text(found.words(), style=colour)
    if state.final_test is not None and state.best.skill.digest != state.initial.skill.digest:
        words.append(
            "\nthe best skill was selected by its val score, so that score is biased upwards; "
            "the test score is not"
        )
    return words


def few_val(state: State) -> list[Text]:
    """A warning where val is too small to decide anything."""
    found = state.initial.evaluation
    return [
        Text(f"warning: {each}", style="bold yellow")
        for each in few_to_decide(found.n + len(found.failures))
    ]


def moves_table(reader: RunReader) -> Table:
    """One row per step, meta reflection, pruning and guidance, in the order of the run."""
    numbers = ["epoch", "train", "current", "candidate", "edits", "tokens"]
    made = Table("step", *numbers, "outcome", right=numbers, wrap=["outcome"])
    for entry in reader.entries:
        fact = entry.fact
        if (told := _made(fact)) is not None:
            name, train, changes, size = told
            words, colour = became(fact)
            made.add_row(
                name,
                str(fact.epoch),
                train,
                f"{entry.before.current.value:.3f}",
                rated(fact.decision),
                changes,
                size,
                Text(words, style=colour),
            )
    return made


def _made(fact: Fact) -> tuple[str, str, str, str] | None:
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
        case Pruned(cut=cut, decision=met):
            size = f"{estimate(met.candidate.skill.render()):,}" if met else ""
            return "prune", "", str(len(cut.rules)), size
        case EpochClosed(size=size) if fact.decision is not None:
            return "guidance", "", "", _tokens(size)
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
    made = Table("cost", *columns, right=columns)
    for role, stages in roles.items():
        made.add_row(role, *(tell(sums[role]) for tell in columns.values()))
        for stage, usage in stages.items():
            name = f"  {stage.replace('_', ' ')}"
            made.add_row(name, *(tell(usage) for tell in columns.values()), style="dim")
    made.add_row("total", *(tell(total) for tell in columns.values()))
    unknown = " and ".join(unpriced(sums, reader.prices))
    notes = (
        f"dollars unknown: no price for {unknown}" if unknown else "",
        interrupted(reader.interrupted()),
        guessed(reader.ahead()),
    )
    return Group(made, *(each for each in notes if each))


def interrupted(found: Usage) -> str:
    """What counts against limits without an answer; empty when nothing does."""
    if not found.calls:
        return ""
    return f"under way when a process was stopped, and counted at their most: {paid(found)}"


def reused(found: ReuseCount) -> str:
    """What was not paid for, because it was finished before; empty when nothing was."""
    parts = [(found.attempts, "attempt"), (found.calls, "call")]
    listed = " and ".join(count(number, noun) for number, noun in parts if number)
    if not listed:
        return ""
    stages = ", ".join(
        f"{role} {stage.replace('_', ' ')} {usage.calls:,}"
        for (role, stage), usage in sorted(found.spared.items())
    )
    worth = paid(sum(found.spared.values(), Usage()))
    return f"cache hits (not paid again): {listed} ({stages}; saved {worth})"


def guessed(found: PrefetchCount) -> str:
    """What was attempted before it was needed, and what that cost in vain; empty when nothing."""
    if not found.attempts:
        return ""
    begun = f"speculative attempts: {found.attempts:,}"
    if not found.unused:
        return f"{begun}, all used"
    return f"{begun}, {found.unused:,} unused ({paid(found.waste)})"


def best_at(state: State, path: Path) -> str:
    """Where the best skill is, and where it came from."""
    folder = f" (as a folder: {path.with_suffix('')})" if state.best.skill.references else ""
    return f"best skill ({origin(state.best)}): {path}{folder}"


def next_commands(run: Path) -> Table:
    """What to do next; nothing of it asks a model."""
    where = quoted(run)
    made = Table("", "", header=False, indent=2)
    for line in (
        ("skillopt show " + where, "show scores, steps and cost"),
        ("skillopt diff " + where, "compare the initial and the best skill"),
        ("skillopt blame " + where, "show the origin of each line"),
        ("skillopt check " + where, "check whether the skill copies items"),
    ):
        made.add_row(*line)
    return made
