"""A person decides about proposals of a run: accepts, rejects or edits them by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from skillopt.analysis.differences import (
    FileDiff,
    Standing,
    carried_over,
    skill_differences,
    standing,
)
from skillopt.app.gating import metric
from skillopt.app.run_spec import RunSpec, SuppliedParts, prepare
from skillopt.app.step_views import StepEvidence, StepOutcome, evidence_of
from skillopt.app.training import Training, open_training
from skillopt.app.views import RunViews, untested
from skillopt.app.wording import became_words, spelt
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.edits import Change
from skillopt.core.events import Begun, Decision, Fact, FinalTested, Measured
from skillopt.core.facts import Drafted, HumanReviewed, ReviewVerdict
from skillopt.core.nearest import did_you_mean
from skillopt.core.ports import Watcher
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.tokens import estimate
from skillopt.engine.loop import final_test
from skillopt.engine.plan import FinalTest
from skillopt.errors import ConfigError, Outdated, SkillError, StoreError
from skillopt.gates.compared import Always
from skillopt.store.reader import RunReader
from skillopt.store.run_history import HistoryEntry, RunHistory


@dataclass(frozen=True, slots=True)
class EarlierDecision:
    """What a person said about a proposal before."""

    move: str
    verdict: ReviewVerdict
    words: str
    """What became of it."""
    reviewer: str
    comment: str


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A proposal that a person may decide about."""

    id: str
    """The operation that made it, `step_0003`; of several candidates, `step_0003/only 2`."""
    title: str
    kind: str
    outcome: StepOutcome
    words: str
    gist: str
    skill: str
    """Digest of the candidate."""
    evidence: StepEvidence | None
    """None: it was not measured on val."""
    diff: tuple[FileDiff, ...]
    """From the skill that it was made from to the candidate."""
    stands: Standing
    """Whether its changes are in the current skill."""
    open: tuple[ReviewVerdict, ...]
    """What a person may still decide: what is in cannot be accepted again, what is out not rejected
    again."""
    said: tuple[EarlierDecision, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.outcome == "accepted"


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """What came of a person's decision."""

    fact: HumanReviewed
    """As in the event log. Its `decision` tells how the skill that this made was measured; None:
    the skill stays as it is."""
    before: State
    after: State
    recorded: bool
    """False after a dry run."""

    @property
    def evidence(self) -> StepEvidence | None:
        """The skill that this made beside the one that was current."""
        met = self.fact.decision
        return None if met is None else evidence_of(met, self.before)


@dataclass(frozen=True, slots=True)
class _Proposed:
    """A candidate of the record with what it was made from."""

    id: str
    entry: HistoryEntry
    skill: Skill
    parent: Skill
    changes: tuple[Change, ...]
    decision: Decision | None

    @property
    def accepted(self) -> bool:
        return self.decision is not None and self.decision.accepted

    def stands_in(self, skill: Skill) -> Standing:
        return standing(self.parent, self.skill, skill)

    def still_open(self, stands: Standing, last: ReviewVerdict | None) -> tuple[ReviewVerdict, ...]:
        """What may be decided, where it stands so and a person said this last."""
        out = not self.takes_out(stands) and (self.accepted or last == "reject")
        accept: tuple[ReviewVerdict, ...] = () if stands == "in" else ("accept",)
        reject: tuple[ReviewVerdict, ...] = () if out else ("reject",)
        return (*accept, *reject, "edit")

    def takes_out(self, stands: Standing) -> bool:
        """Whether a rejection takes something out of a skill in which it stands so."""
        return stands == "in" or (self.accepted and stands == "in part")

    def is_held_by(self, known: Measured) -> bool:
        """Whether a skill has its lines.

        An earlier skill may lack lines that a change only removes, and does not hold it for that.
        """
        if self.stands_in(known.skill) != "in":
            return False
        earlier = {each.origin for each in self.entry.before.pool}
        return known.origin not in earlier or any(
            file.added for file in skill_differences(self.parent, self.skill)
        )


def review_items(views: RunViews) -> list[ReviewItem]:
    """Everything that a person may decide about, the latest first."""
    said: dict[str, list[EarlierDecision]] = {}
    for fact in views.reader.facts:
        if isinstance(fact, HumanReviewed) and fact.about:
            word = EarlierDecision(
                fact.move, fact.verdict, became_words(fact), fact.reviewer, fact.comment
            )
            said.setdefault(fact.about, []).append(word)
    positions = {id(entry): place for place, entry in enumerate(views.reader.entries)}
    current = views.reader.entries[-1].after.current.skill if views.reader.entries else None
    items: list[ReviewItem] = []
    for proposed in _proposed(views.reader):
        view = views.steps[positions[id(proposed.entry)]]
        met = proposed.decision
        name = proposed.id.partition("/")[2]
        words = tuple(said.get(proposed.id, ()))
        stands = "out" if current is None else proposed.stands_in(current)
        items.append(
            ReviewItem(
                id=proposed.id,
                title=f"{view.title}, {name}" if name else view.title,
                kind=view.kind,
                outcome=view.outcome if met is not None else "skipped",
                words=view.words if met is not None or view.outcome == "skipped" else "not tried",
                gist=view.gist,
                skill=proposed.skill.digest,
                evidence=view.evidence if met is not None else None,
                diff=skill_differences(proposed.parent, proposed.skill, 2),
                stands=stands,
                open=proposed.still_open(stands, words[-1].verdict if words else None),
                said=words,
            )
        )
    return items[::-1]


def _proposed(history: RunHistory) -> Iterator[_Proposed]:
    """Every candidate of the record, oldest first."""
    for entry in history.entries:
        fact, met = entry.fact, entry.fact.decision
        if isinstance(fact, Begun | FinalTested):
            continue
        parent = _parent(fact, entry.before)
        if met is not None:
            yield _Proposed(fact.move, entry, met.candidate.skill, parent, fact.changes, met)
        seen = {parent.digest} | ({met.candidate.skill.digest} if met else set[str]())
        drafted = fact.draft.candidates if isinstance(fact, Drafted) else ()
        changes = {each.name: each.changes for each in drafted}
        for name, skill in fact.not_tried:
            if skill.digest not in seen:
                seen.add(skill.digest)
                place = f"{fact.move}/{name}"
                yield _Proposed(place, entry, skill, parent, changes.get(name, ()), None)


def _parent(fact: Fact, before: State) -> Skill:
    """The skill that a candidate was made from."""
    by_origin = {known.origin: known.skill for known in before.pool}
    return by_origin.get(fact.parent, before.current.skill)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonsDecision:
    """What a person wants done."""

    verdict: ReviewVerdict
    about: str = ""
    """The id of a proposal; for an edit, empty: the text replaces the current skill."""
    text: Skill | None = None
    """For an edit: the skill as it shall be."""
    reviewer: str = ""
    comment: str = ""
    """Why. The optimizer reads it when training continues."""
    if_better: bool = False
    """Whether an edit becomes current only if the gate of the run accepts it."""
    as_best: bool = False
    """Whether it becomes the best skill whatever it scores."""
    base: str = ""
    """Digest of the skill that was current when this was decided; refused once it is another.
    Empty: whichever is current."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if (self.verdict == "edit") != (self.text is not None):
            raise ConfigError("an edit needs the new text of the skill, and nothing else takes one")
        if self.verdict != "edit" and not self.about:
            raise ConfigError(
                f"to {self.verdict}, name a proposal; `skillopt review RUN` lists them"
            )
        if self.if_better and self.verdict != "edit":
            raise ConfigError(
                "only an edit can be left to the gate: it has decided about proposals already, and "
                "the same evidence must not be tested twice"
            )


async def review(
    config: Config | RunSpec,
    reader: RunReader,
    wish: PersonsDecision,
    *,
    dry_run: bool = False,
    watch: Watcher,
    secrets: Secrets | None = None,
) -> ReviewResult:
    """Carry out what a person decided: measure the skill that this makes on val, and record it.

    Measured attempts are kept, so the same decision costs nothing after an interruption, nor after
    a `dry_run`, which records nothing.
    """
    spec = _spec(config, reader)
    async with open_training(spec, watch, secrets) as training:
        run = training.run
        history = RunHistory.of(run.sink.record.events())
        before, last = history.entries[-1].after, history.last_step
        check_base(before, wish.base)
        proposed = _find(history, wish.about) if wish.about else None
        skill = _wanted(wish, history, proposed)
        _check_size(training, skill)
        move = f"review_{1 + sum(isinstance(fact, HumanReviewed) for fact in history.facts):04d}"
        run.enter(move)
        decision = None
        if skill.digest != before.current.skill.digest:
            await training.preflight_attempts()
            gate = run.gate if wish.if_better else Always(metric(spec.config))
            decision = await run.decide(before, skill, move, last, gate)
            decision = decision and _ranked(decision, history, wish, proposed)
        elif wish.verdict != "reject":
            raise StoreError("the current skill has this text already; there is nothing to measure")
        fact = HumanReviewed(
            move=move,
            step=last,
            epoch=max(fact.epoch for fact in history.facts),
            decision=decision,
            verdict=wish.verdict,
            about=wish.about,
            tried=() if proposed is None else proposed.changes,
            reviewer=wish.reviewer,
            comment=wish.comment,
        )
        after = before.apply(fact) if dry_run else run.record(before, fact)
        return ReviewResult(fact, before, after, recorded=not dry_run)


def check_base(state: State, base: str) -> None:
    """Refuse what was decided with another skill in view than the one that is current."""
    if base and base != state.current.skill.digest:
        raise Outdated(
            f"the skill was changed meanwhile: {spelt(state.current.origin)} is current now, and "
            "this was begun from another one. Nothing was changed. Look at the current skill, and "
            "decide again."
        )


def _spec(config: Config | RunSpec, reader: RunReader) -> RunSpec:
    if isinstance(config, Config):
        config = prepare(config, SuppliedParts(skill=reader.state.initial.skill))
    return replace(config, out=reader.layout.root)


async def repeat_final_test(
    config: Config | RunSpec,
    reader: RunReader,
    *,
    watch: Watcher,
    secrets: Secrets | None = None,
) -> State:
    """Measure the skills of a run on its test items, after a person has changed them.

    Skills that were tested before cost nothing.
    """
    if untested(reader) is None:
        raise StoreError(
            f"{reader.layout.root} has nothing to test again: the final test is repeated after a "
            "person's decision about a run that had one"
        )
    async with open_training(_spec(config, reader), watch, secrets) as training:
        run = training.run
        state = RunHistory.of(run.sink.record.events()).entries[-1].after
        move = next((move for move in run.plan.moves if isinstance(move, FinalTest)), None)
        if move is None:
            raise ConfigError("these settings have no final test; set evaluation.eval_test=true")
        await training.preflight_attempts()
        run.enter(move.id)
        return await final_test(run, state, move)


def starting_text(history: RunHistory, about: str = "") -> str:
    """What a person begins to edit: the current skill with a proposal in it.

    Where that does not fit into it any more, the candidate as it was.
    """
    current = history.entries[-1].after.current.skill
    if not about:
        return current.render()
    proposed = _find(history, about)
    return (carried_over(proposed.parent, proposed.skill, current) or proposed.skill).render()


def _find(history: RunHistory, name: str) -> _Proposed:
    known = {proposed.id: proposed for proposed in _proposed(history)}
    if name in known:
        return known[name]
    hint = did_you_mean(name, list(known)) or f"there are: {', '.join([*known][-8:]) or 'none yet'}"
    raise StoreError(f"the run has no proposal {name!r}; {hint}")


def _wanted(wish: PersonsDecision, history: RunHistory, proposed: _Proposed | None) -> Skill:
    """The skill that the decision makes of the current one."""
    if wish.text is not None:
        if not wish.text.render().strip():
            raise SkillError("the edited skill is empty; write at least one line")
        return wish.text
    current = history.entries[-1].after.current.skill
    if proposed is None:
        return current
    stands = proposed.stands_in(current)
    if wish.verdict not in proposed.still_open(stands, _said_last(history, proposed.id)):
        place = "in" if wish.verdict == "accept" else "out of"
        raise StoreError(f"{proposed.id} is already {place} the skill; nothing is left to do")
    if wish.verdict == "accept":
        made = carried_over(proposed.parent, proposed.skill, current)
    elif proposed.takes_out(stands):
        made = carried_over(proposed.skill, proposed.parent, current)
    else:
        return current
    if made is None or made == current:
        done = "put into" if wish.verdict == "accept" else "taken out of"
        raise SkillError(
            f"{proposed.id} cannot be {done} the current skill: other changes were made to the "
            "same lines since. Edit the skill by hand instead (--edit)."
        )
    return made


def _said_last(history: RunHistory, about: str) -> ReviewVerdict | None:
    """What a person said last about a proposal."""
    said: list[ReviewVerdict] = [
        fact.verdict
        for fact in history.facts
        if isinstance(fact, HumanReviewed) and fact.about == about
    ]
    return said[-1] if said else None


def _check_size(training: Training, skill: Skill) -> None:
    shortener = training.run.shortener
    tokens = estimate(skill.render())
    if shortener is not None and tokens > shortener.limit:
        raise SkillError(
            f"the skill would have about {tokens:,} tokens; this run allows {shortener.limit:,} "
            "(optimizer.max_skill_tokens). Shorten it and try again."
        )


def _ranked(
    decision: Decision,
    history: RunHistory,
    wish: PersonsDecision,
    proposed: _Proposed | None,
) -> Decision:
    """The decision with the skill that is best afterwards.

    What was found better by its scores is best already. A person may say so whatever it scores. A
    best skill that holds what a person has rejected is best no longer: the best of the others is.
    """
    if not decision.accepted:
        return decision
    if wish.as_best:
        return replace(decision, new_best=True)
    if wish.verdict != "reject" or proposed is None:
        return decision
    before = history.entries[-1].after
    spoilt = _spoilt(history, proposed, decision.candidate.skill)
    if before.best.origin not in spoilt:
        return decision
    left = [known for known in before.pool if known.origin not in spoilt]
    best = max([decision.candidate, *left], key=lambda known: known.value)
    return replace(decision, best=best, new_best=best is decision.candidate)


def _spoilt(history: RunHistory, proposed: _Proposed, now: Skill) -> set[str]:
    """The skills, by origin, that hold what a person has taken out.

    What is in the skill of `now` again was taken out in vain and does not count.
    """
    made = {each.id: each for each in _proposed(history)}
    taken_out = [
        made[fact.about]
        for fact in history.facts
        if isinstance(fact, HumanReviewed)
        and fact.verdict == "reject"
        and fact.decision is not None
    ]
    pool = history.entries[-1].after.pool
    return {
        known.origin
        for each in (*taken_out, proposed)
        if each.stands_in(now) != "in"
        for known in pool
        if each.is_held_by(known)
    }
