"""The training loop: everything that a run does, in the order in which it does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from skillopt.aio import map_all
from skillopt.core.events import Action, Decision, FinalTested
from skillopt.core.facts import Batch, Compared, EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.proposal import Draft, Finding, Pattern, Review, candidates_compared
from skillopt.core.rollout import Evaluation, Pair, Rollout, Score
from skillopt.core.rules import Cut, without
from skillopt.core.seeds import blocks
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.engine.halving import Baseline, HalvingResult
from skillopt.engine.plan import EpochEnd, FinalTest, MetaReflection, Move, Pruning, Step
from skillopt.engine.run import TrainingRun, check_same_run


def patterns_in(findings: Sequence[Finding], rollouts: Sequence[Rollout]) -> tuple[Pattern, ...]:
    """The analysts' patterns, equal names united; without any, groups of equal feedback."""
    failures = [finding for finding in findings if finding.source == "failure"]
    patterns = [pattern for finding in failures for pattern in finding.patterns]
    if not patterns:
        lost = [(rollout.task, rollout.outcome) for rollout in rollouts]
        patterns = [
            Pattern(score.feedback.partition(":")[0].strip() or "failed", 1, "", (task,))
            for task, score in lost
            if isinstance(score, Score) and not score.passed
        ]
    united: dict[str, Pattern] = {}
    for pattern in patterns:
        name = pattern.name.casefold()
        same = united.setdefault(name, pattern)
        if same is not pattern:
            count, description = same.count + pattern.count, same.description or pattern.description
            tasks = tuple(sorted({*same.tasks, *pattern.tasks}))
            united[name] = Pattern(same.name, count, description, tasks)
    return tuple(sorted(united.values(), key=lambda pattern: (-pattern.count, pattern.name)))


async def train(run: TrainingRun, initial: Skill) -> State:
    """Train until the plan is done; continue where the record ends."""
    state = replay(run.sink.record.events())
    if state is None:
        run.enter("baseline")
        async with run.early_first_step(initial):
            state = run.begin(await run.measure(initial))
    else:
        run.sink.begun = True
        check_same_run(run.identity, state.identity, run.defaults)
    async with run.early_final_test(state):
        while move := run.plan.next(state):
            state = await advance(run, state, move)
    return state


async def advance(run: TrainingRun, state: State, move: Move) -> State:
    run.enter(move.id)
    match move:
        case Step():
            return await step(run, state, move)
        case MetaReflection():
            return await meta_reflect(run, state, move)
        case Pruning():
            return await prune(run, state, move)
        case EpochEnd():
            return await close_epoch(run, state, move)
        case FinalTest():
            return await final_test(run, state, move)


async def step(run: TrainingRun, state: State, move: Step) -> State:
    """Attempt a batch, draft candidates from the evidence, keep the best if the gate agrees."""
    parent = run.parent(state, move.number)
    skill = parent.skill
    async with run.runner.attempts(move.batches, skill, "rollout") as attempts:
        draft = await run.optimizer.propose(skill, attempts, state.memory, budget=move.budget)
        rollouts = [await batch.all() for batch in attempts]
    practised = Evaluation.of(skill.digest, "train", chain(*rollouts))
    practice = Baseline(list(chain(*move.batches)), replace(parent, evaluation=practised))

    def finished(draft: Draft, halving: HalvingResult, decision: Decision | None) -> Stepped:
        return Stepped(
            move=move.id,
            step=move.number,
            epoch=move.epoch,
            in_epoch=move.in_epoch,
            batches=tuple(_batch(skill, batch) for batch in rollouts),
            patterns=patterns_in(draft.findings, list(chain(*rollouts))),
            draft=draft,
            action=decision.action if decision else _skip(draft, halving),
            decision=decision,
            parent="" if parent is state.current else parent.origin,
            rounds=halving.rounds,
        )

    likely = run.likely_decision(state, draft, move.id, move.number)
    foreseen = state.apply(finished(draft, HalvingResult(draft.leading.name), likely))
    async with run.speculative_step(foreseen, move):
        draft, halving = await run.choose(state, await run.fit(state, draft), practice, move.number)
        tried = halving.ahead is not None and draft.leading.fitting != skill
        candidate = draft.leading.fitting if tried else None
        decision = await run.decide(
            state,
            candidate,
            move.id,
            move.number,
            run.gate,
            compared=candidates_compared(halving.rounds),
        )
    return run.record(state, finished(draft, halving, decision))


async def meta_reflect(run: TrainingRun, state: State, move: MetaReflection) -> State:
    """Think again about what the epoch has tried; keep what comes of it if the gate agrees."""
    draft = Draft(budget=move.budget)
    if run.meta_reflector is not None:
        draft = await run.meta_reflector.rethink(
            state.current.skill, state.memory, epoch=move.epoch, budget=move.budget
        )
    draft = await run.fit(state, draft)
    decision = await run.decide(state, draft.leading.fitting, move.id, move.step, run.gate)
    fact = MetaReflected(
        move=move.id,
        step=move.step,
        epoch=move.epoch,
        draft=draft,
        action=decision.action if decision else _skip(draft, HalvingResult(draft.leading.name)),
        decision=decision,
    )
    return run.record(state, fact)


async def prune(run: TrainingRun, state: State, move: Pruning) -> State:
    """Leave each rule out in turn; what nothing misses goes, if the gate agrees."""
    skill, cut, decision = state.current.skill, Cut(), None
    if run.pruner is not None:
        cut = await run.pruner.cut(skill, move.tasks, run.sink.record.events())
        shorter = without(skill, cut.rules)
        decision = await run.decide(state, shorter, move.id, move.step, run.pruner.gate)
    fact = Pruned(move=move.id, step=move.step, epoch=move.epoch, cut=cut, decision=decision)
    return run.record(state, fact)


async def close_epoch(run: TrainingRun, state: State, move: EpochEnd) -> State:
    """Compare the skill with the one the epoch started from; conclude guidance and lessons."""
    before, after = state.epoch_start, state.current.skill
    if not move.tasks:
        fact = EpochClosed(move=move.id, step=move.step, epoch=move.epoch, forgets=move.forgets)
        return run.record(state, fact)
    pairs = await _compare(run, state, move)
    useful = [pair for pair in pairs if pair.change in move.useful][: len(move.tasks)]
    review = Review()
    if useful:
        review = await run.reviewer.review(before, after, useful, state.memory, last=move.last)
    guided = None if review.guidance is None else after.with_guidance(review.guidance)
    origin = f"slow_update_{move.id}"
    guided, size = await run.shorten(state, guided)
    fitting = None if size and size.too_long else guided
    decision = await run.decide(state, fitting, origin, move.step, run.slow_gate)
    if run.guides_best and decision is not None and review.guidance is not None:
        decision = await run.guide_best(state, decision, review.guidance)
    fact = EpochClosed(
        move=move.id,
        step=move.step,
        epoch=move.epoch,
        before=before.digest,
        after=after.digest,
        pairs=tuple(_compared(pair, shown=pair in useful) for pair in pairs),
        review=review,
        decision=decision,
        forgets=move.forgets,
        size=size,
    )
    return run.record(state, fact)


async def final_test(run: TrainingRun, state: State, move: FinalTest) -> State:
    """Measure what the run began with, found best and ended with, on tasks it never saw."""
    measured = (state.initial, state.best, state.current)
    skills = {known.skill.digest: known.skill for known in measured}
    initial = state.initial.skill

    async def measure(skill: Skill) -> Evaluation:
        return await run.runner.measure(
            skill,
            "test",
            move.tasks,
            f"test {skill.digest[:6]}",
            replicates=range(run.replication.replicates),
            max_failed=None if skill.digest == initial.digest else 1.0,
        )

    results = dict(zip(skills, await map_all(measure, list(skills.values())), strict=True))
    reference = replace(state.initial, evaluation=results[initial.digest])
    for digest, skill in skills.items():
        if digest != initial.digest:
            failures = run.runner.failure_counter(len(move.tasks) * run.replication.replicates)
            settled = await run.runner.settle(
                results[digest], skill, move.tasks, reference, failures
            )
            results[digest] = settled.ordered([task.id for task in move.tasks])
    fact = FinalTested(
        move=move.id,
        tasks=move.digest,
        initial=results[state.initial.skill.digest],
        best=results[state.best.skill.digest],
        last=results[state.current.skill.digest],
    )
    return run.record(state, fact)


async def _compare(run: TrainingRun, state: State, move: EpochEnd) -> list[Pair]:
    """The sample under both skills together; block by block more of it while too little is useful.

    Blocks are as large as the sample, so what is looked at depends on the plan alone. Where the
    skill did not change, no task did: there is nothing to search for.
    """
    size = len(move.tasks)
    spare = move.spare if state.epoch_start.digest != state.current.skill.digest else ()
    pairs: list[Pair] = []
    for block in [move.tasks, *blocks(spare, size)]:
        async with (
            run.runner.attempts([block], state.epoch_start, "look_back") as (old,),
            run.runner.attempts([block], state.current.skill, "look_again") as (new,),
        ):
            pairs += map(Pair, await old.all(), await new.all())
        if sum(pair.change in move.useful for pair in pairs) >= size:
            break
    return pairs


def _skip(draft: Draft, halving: HalvingResult) -> Action:
    if halving.ahead is None:
        return "skip_screened" if halving.rounds else "skip_no_gain"
    candidate = draft.leading
    if candidate.size is not None and candidate.size.too_long:
        return "skip_too_long"
    if not draft.merged.proposals and not any(finding.notes for finding in draft.findings):
        return "skip_no_patches"
    unwritten = candidate.rewritten is not None and candidate.skill is None
    return "skip_no_rewrite" if unwritten else "skip_no_change"


def _batch(skill: Skill, rollouts: list[Rollout]) -> Batch:
    evaluation = Evaluation.of(skill.digest, "train", rollouts)
    return Batch(tuple(rollout.task for rollout in rollouts), evaluation)


def _compared(pair: Pair, *, shown: bool) -> Compared:
    old, new = pair.before.outcome, pair.after.outcome
    return Compared(
        pair.before.task,
        pair.change,
        Score(old.hard, old.soft) if isinstance(old, Score) else None,
        Score(new.hard, new.soft) if isinstance(new, Score) else None,
        shown,
    )
