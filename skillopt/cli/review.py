"""`skillopt review`: proposals with their evidence, and what a person decides about them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import click
from rich.console import RenderableType
from rich.text import Text

from skillopt.analysis.differences import DiffLine, FileDiff, Standing
from skillopt.analysis.report import claim
from skillopt.api import final_test_async, open_run, proposals, review_async, text_to_edit
from skillopt.app.reviewing import ReviewItem, ReviewResult
from skillopt.app.step_views import StepEvidence
from skillopt.app.views import Untested, untested
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import count, quoted, some, spelt
from skillopt.cli.render import Screen, indented
from skillopt.cli.report import scores, verdict
from skillopt.cli.running import Command
from skillopt.cli.tables import Table
from skillopt.config.load import load_kept
from skillopt.config.schema import Config
from skillopt.core.facts import ReviewVerdict
from skillopt.core.nearest import did_you_mean
from skillopt.core.skill import MAIN, Skill
from skillopt.core.state import State
from skillopt.errors import Outdated, SkillError, SkilloptError, StoreError
from skillopt.store.packages import read_skill

_COLOURS = {"accepted": "green", "rejected": "yellow", "inconclusive": "magenta", "skipped": "dim"}
_STANDS: dict[Standing, str] = {
    "in": "in the skill",
    "out": "not in the skill",
    "in part": "in the skill in part",
}
_CURRENT = "current"
_LATEST = 20
"""Proposals that are listed unless all of them are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    shown: str | None
    accept: str | None
    reject: str | None
    edit: str | None
    file: Path | None
    by: str
    comment: str
    if_better: bool
    best: bool
    base: str
    dry_run: bool
    test: bool
    every: bool
    as_json: bool


def review(session: Session, run: Path, options: ReviewOptions) -> None:
    """Do what the options say; without any, list what there is and ask."""
    if options.file is not None and options.edit is None:
        raise click.UsageError("--file gives the new skill for --edit ID (or --edit current)")
    commands = _ReviewCommands(Command(session), run, options)
    match options:
        case ReviewOptions(accept=str(about)):
            commands.decide("accept", about)
        case ReviewOptions(reject=str(about)):
            commands.decide("reject", about)
        case ReviewOptions(edit=str(about)):
            commands.edit("" if about == _CURRENT else about)
        case ReviewOptions(shown=str(about)):
            commands.show(about)
        case ReviewOptions(test=True):
            commands.test()
        case _ if options.as_json or not sys.stdin.isatty():
            commands.list()
        case _:
            commands.ask()


@dataclass(frozen=True, slots=True)
class _ReviewCommands:
    """What `skillopt review` does with a run, by option."""

    command: Command
    run: Path
    options: ReviewOptions

    @property
    def screen(self) -> Screen:
        return self.command.screen

    def list(self) -> None:
        items = proposals(self.run)
        if self.options.as_json:
            self.screen.show(json.dumps([asdict(item) for item in items], indent=2))
        elif not items:
            self.screen.tell(f"{self.run} has no proposals yet")
        else:
            self.screen.show(_table(self._latest(items)))
            self.screen.tell(
                f"to see one: skillopt review {quoted(self.run)} --show {items[0].id}", "dim"
            )

    def _latest(self, items: Sequence[ReviewItem]) -> Sequence[ReviewItem]:
        """Those that are listed, the latest first; tells how many are not."""
        shown = items if self.options.every else items[:_LATEST]
        if more := len(items) - len(shown):
            self.screen.tell(
                f"{count(more, 'earlier proposal')} not listed; --all lists them", "dim"
            )
        return shown

    def show(self, about: str) -> None:
        item = self._item(about)
        if self.options.as_json:
            self.screen.show(json.dumps(asdict(item), indent=2))
        else:
            self.screen.show(*_story(item))

    def ask(self) -> None:
        """Until the person leaves: choose a proposal, look at it, decide."""
        while True:
            items = proposals(self.run)
            if not items:
                self.list()
                return
            shown = self._latest(items)
            self.screen.show(_table(shown, numbered=True))
            number = click.prompt(
                "number of a proposal (0: edit the current skill, Enter: leave)",
                default=-1,
                show_default=False,
                type=click.IntRange(-1, len(shown)),
                err=True,
            )
            if number < 0:
                return
            try:
                if number == 0:
                    self.edit("")
                else:
                    self._ask_about(shown[number - 1])
            except (SkillError, Outdated) as error:
                self.screen.complain(str(error))

    def _ask_about(self, item: ReviewItem) -> None:
        self.screen.show("", *_story(item), "")
        words = ", ".join(f"({name[0]}){name[1:]}" for name in item.open)
        answer = click.prompt(
            f"{words} or (b)ack",
            type=click.Choice([*(name[0] for name in item.open), "b"]),
            default="b",
            show_choices=False,
            err=True,
        )
        if answer == "e":
            self.edit(item.id)
        elif answer != "b":
            self.decide("accept" if answer == "a" else "reject", item.id, ask=True)

    def test(self) -> None:
        """Repeat the final test with the skills as they are now, and show what came out."""
        state = self._tested()
        if self.options.as_json:
            self.screen.show(json.dumps({"claim": claim(state).words()}, indent=2))
        else:
            self.screen.show(scores(state), verdict(state))

    def _tested(self) -> State:
        secrets, config = self.command.unlock(), self._config()
        return self.command.watch(
            lambda watch: final_test_async(
                self.run, config=config, watch=watch, progress=False, secrets=secrets
            )
        )

    def edit(self, about: str) -> None:
        if self.options.file is not None:
            self.decide("edit", about, read_skill(self.options.file))
            return
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to edit on; give the new skill by --file")
        with open_run(self.run) as reader:
            text, base = text_to_edit(reader, about), reader.state.current.skill.digest
        changed = click.edit(text, extension=".md", require_save=False)
        if changed is None or (changed == text and not about):
            self.screen.tell("nothing was changed")
            return
        try:
            self.decide("edit", about, Skill.parse(changed), base=base, ask=True)
        except SkilloptError:
            with NamedTemporaryFile(prefix="skillopt-", suffix=".md", delete=False) as kept:
                kept.write(changed.encode())
            self.screen.tell(
                f"your text is kept: skillopt review {quoted(self.run)} --edit {about or _CURRENT} "
                f"--file {quoted(Path(kept.name))}"
            )
            raise

    def decide(
        self,
        verdict: ReviewVerdict,
        about: str,
        text: Skill | None = None,
        *,
        base: str = "",
        ask: bool = False,
    ) -> None:
        """Measure and record; with `ask`, the person sees the measurement first.

        What is recorded is what was measured, or nothing: the skill is the one of `base`.
        """
        secrets, config = self.command.unlock(), self._config()
        options = self.options

        def carry_out(base: str, *, dry_run: bool) -> ReviewResult:
            return self.command.watch(
                lambda watch: review_async(
                    self.run,
                    verdict,
                    about,
                    text=text,
                    reviewer=options.by,
                    comment=options.comment,
                    if_better=options.if_better,
                    as_best=options.best,
                    base=base,
                    dry_run=dry_run,
                    config=config,
                    watch=watch,
                    progress=False,
                    secrets=secrets,
                )
            )

        result = carry_out(base or options.base, dry_run=ask or options.dry_run)
        if options.as_json:
            repeats = options.test and self._lacking() is not None
            after = self._tested() if repeats else result.after
            told = {**_document(result), "claim": claim(after).words()}
            self.screen.show(json.dumps(told, indent=2))
            return
        self.screen.show(*_measured(result))
        if not result.recorded and not options.dry_run:
            if not self.screen.confirm("record this decision?", default=True):
                self.screen.tell("nothing was recorded; what was measured is kept")
                return
            result = carry_out(result.before.current.skill.digest, dry_run=False)
        self._tell_recorded(result, ask=ask)

    def _tell_recorded(self, result: ReviewResult, *, ask: bool) -> None:
        if not result.recorded:
            self.screen.tell("nothing was recorded (--dry-run); what was measured is kept")
            return
        after = result.after
        self.screen.show(
            f"recorded as {spelt(result.fact.move)}; current skill: {spelt(after.current.origin)}, "
            f"best skill: {spelt(after.best.origin)}"
        )
        self._repeat_test(ask=ask)

    def _repeat_test(self, *, ask: bool) -> None:
        """Offer the final test, where it was of other skills than those that there are now."""
        if (lacking := self._lacking()) is None:
            return
        most = f"at most {count(lacking.attempts, 'attempt')}" if lacking.attempts else "all cached"
        cost = f"{count(lacking.items, 'test item')}, {most}"
        told = f"the test score was that of the skills before; to measure them again: {cost}"
        if self.options.test:
            self.screen.tell(told)
            self.test()
        elif ask and self.screen.confirm(f"{told}. Do it now?"):
            self.test()
        elif not ask:
            self.screen.tell(f"{told}: skillopt review {quoted(self.run)} --test")

    def _lacking(self) -> Untested | None:
        with open_run(self.run) as reader:
            return untested(reader)

    def _item(self, about: str) -> ReviewItem:
        items = {item.id: item for item in proposals(self.run)}
        if about in items:
            return items[about]
        hint = (
            did_you_mean(about, list(items)) or f"`skillopt review {quoted(self.run)}` lists them"
        )
        raise StoreError(f"{self.run} has no proposal {about!r}; {hint}")

    def _config(self) -> Config:
        given = self.command.given
        with open_run(self.run) as reader:
            if reader.status == "running":
                raise StoreError(
                    f"{self.run} is being trained, and a person's decision would come in between. "
                    "Stop it first (Ctrl-C ends it in order, nothing is lost), then run this again."
                )
            return self.command.warned(
                load_kept(reader.config, overrides=given.overrides, flags=given.flags)
            )


def _table(items: Iterable[ReviewItem], *, numbered: bool = False) -> Table:
    number = ["#"] if numbered else []
    table = Table(
        *number, "proposal", "outcome", "better", "worse", "change", "review",
        right=[*number, "better", "worse"],
        wrap=["change", "review"],
        title="proposal",
    )  # fmt: skip
    for place, item in enumerate(items, start=1):
        evidence = item.evidence
        table.add_row(
            *([str(place)] if numbered else []),
            item.id,
            Text(item.words, style=_COLOURS.get(item.outcome, "")),
            "" if evidence is None else str(len(evidence.better)),
            "" if evidence is None else str(len(evidence.worse)),
            item.gist,
            "; ".join(word.words for word in item.said),
        )
    return table


def _story(item: ReviewItem) -> Iterator[RenderableType]:
    yield Text.assemble((f"{item.title}: ", "bold"), (item.words, _COLOURS.get(item.outcome, "")))
    yield from _evidence(item.evidence)
    for word in item.said:
        yield f"review     {word.words}{f': {word.comment}' if word.comment else ''}"
    yield f"now        {_STANDS[item.stands]}"
    yield ""
    yield from changes(item.diff)


def _evidence(evidence: StepEvidence | None) -> Iterator[RenderableType]:
    if evidence is None:
        yield "evidence   none: it was not measured on val"
        return
    yield f"evidence   {evidence.reason}"
    if evidence.gain is not None:
        interval = f"[{evidence.low:+.2f}, {evidence.high:+.2f}]"
        yield f"gain       {evidence.gain:+.3f} {interval} on {count(evidence.n, 'val item')}"
    if evidence.better:
        yield Text(f"better on  {some(evidence.better, 12)}", style="green")
    if evidence.worse:
        yield Text(f"worse on   {some(evidence.worse, 12)}", style="red")


def changes(files: Iterable[FileDiff]) -> Iterator[Text]:
    """A difference of skills; the words that differ stand out."""
    for file in files:
        if file.path != MAIN:
            yield Text(file.path, style="bold")
        for line in file.lines:
            yield _line(line)


_SIGNS = {"added": ("+ ", "green"), "removed": ("- ", "red"), "same": ("  ", ""), "gap": ("  ", "")}


def _line(line: DiffLine) -> Text:
    sign, colour = _SIGNS[line.kind]
    if line.kind == "gap":
        return Text(f"  ... {line.text}", style="dim")
    whole = all(piece.changed for piece in line.pieces)
    shown = Text(sign, style=colour)
    for piece in line.pieces:
        marked = piece.changed and not whole
        shown.append(piece.text, style=f"bold underline {colour}" if marked else colour)
    return shown


def _measured(result: ReviewResult) -> Iterator[RenderableType]:
    """The skill that the decision makes, beside the current one."""
    if result.evidence is None:
        yield "the skill stays as it is; the rejection is remembered"
        return
    yield from _evidence(result.evidence)
    met = result.fact.decision
    if met is not None and not met.accepted:
        yield Text("the gate of the run does not accept it: the skill stays as it is", "yellow")
    elif result.after.best.skill.digest != result.after.current.skill.digest:
        best = result.after.best
        yield indented(
            f"{spelt(best.origin)} stays the best skill ({best.value:.3f}); --best overrules that",
            "dim",
        )


def _document(result: ReviewResult) -> dict[str, object]:
    evidence = result.evidence
    return {
        "review": result.fact.move,
        "verdict": result.fact.verdict,
        "recorded": result.recorded,
        "evidence": None if evidence is None else asdict(evidence),
        "accepted": result.fact.decision is not None and result.fact.decision.accepted,
        "current": result.after.current.origin,
        "best": result.after.best.origin,
    }
