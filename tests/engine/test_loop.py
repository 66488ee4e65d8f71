from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from zlib import crc32

import pytest
from support import SHAPE, Sums, World, analysis, pupil, teacher

from skillopt.core.chat import Reply, Request
from skillopt.core.edits import Append, Delete
from skillopt.core.events import Fact, FinalTested, Timed
from skillopt.core.facts import EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.proposal import Draft
from skillopt.core.rollout import CHANGED, UNCHANGED, Change
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.loop import train
from skillopt.engine.plan import EpochEnd, PlanSettings
from skillopt.engine.run import check_same_run
from skillopt.errors import AccessError, ModelError, Pending, StoreError, Unmeasurable
from skillopt.gates.compared import Always, Metric
from skillopt.gates.tested import Paired
from skillopt.model.scripted import Scripted
from skillopt.optimizer.learning_rate import Constant
from skillopt.optimizer.parts import epoch_memory, run_memory
from skillopt.testing.doubles import MemoryCache

SEED = Skill.parse("You add numbers.\n")


def steps(record: MemoryLog) -> list[Stepped]:
    return [event for event in record.kept if isinstance(event, Stepped)]


async def trained(world: World) -> tuple[State, MemoryLog]:
    record = MemoryLog()
    return await train(world.but(record=record).run(), SEED), record


async def test_a_useful_rule_is_kept_and_a_useless_one_is_not() -> None:
    state, record = await trained(World())
    assert (state.initial.value, state.best.value) == (0.0, 1.0)
    assert "carefully" in state.best.skill.body
    assert "boldly" not in state.best.skill.body
    assert [fact.action for fact in steps(record)][:2] == ["reject", "accept_new_best"]
    assert state.final_test is not None
    assert (
        state.final_test.initial.hard,
        state.final_test.best.hard,
        state.final_test.last.hard,
    ) == (0.0, 1.0, 1.0)


async def test_every_move_is_closed_by_exactly_one_fact_in_the_order_of_the_plan() -> None:
    world = World()
    _, record = await trained(world)
    _, *facts = [event for event in record.kept if isinstance(event, Fact)]
    closed = [fact.move for fact in facts]
    assert closed == [move.id for move in world.run().plan.moves]


async def test_a_run_cut_after_any_event_ends_as_if_it_had_not_been_cut() -> None:
    expected, whole = await trained(World())
    for cut in range(len(whole.kept)):
        record = MemoryLog(list(whole.kept[:cut]))
        state = await train(World(record=record).run(), SEED)
        assert state == expected
        assert [e for e in record.kept if isinstance(e, Fact)] == [
            e for e in whole.kept if isinstance(e, Fact)
        ]
        assert replay(record.kept) == expected


async def test_training_a_finished_run_again_changes_nothing() -> None:
    state, record = await trained(World())
    written = list(record.kept)
    assert await train(World(record=record).run(), SEED) == state
    assert record.kept == written


async def test_finished_work_is_not_done_again() -> None:
    calls: list[str] = []

    def counting(request: Request) -> str:
        calls.append(request.messages[0].text + request.messages[1].text)
        return pupil(request)

    await trained(World(target=Scripted(counting)))
    assert len(calls) == len(set(calls))


@dataclass
class Slow:
    """Answers after a number of turns of the loop that differs per request."""

    turns: int
    answered: list[str] = field(default_factory=list[str])
    fingerprint: str = "slow"

    async def complete(self, request: Request) -> Reply:
        for _ in range(hash(request.messages[1].text) * self.turns % 17):
            await asyncio.sleep(0)
        self.answered.append(request.messages[1].text)
        return Reply(text=pupil(request))


async def test_the_record_is_the_same_whatever_the_concurrency_and_the_order_of_answers() -> None:
    records: list[list[object]] = []
    orders: list[list[str]] = []
    for workers, turns in ((1, 1), (3, 5), (64, 7)):
        slow = Slow(turns)
        world = World(
            env=Sums(size=20),
            workers=workers,
            target=slow,
            minibatch=2,
            replication=Replication(block=4),
        )
        _, record = await trained(
            world.but(shape=PlanSettings(epochs=2, batch=8, sample=4, seed=1))
        )
        records.append([event for event in record.kept if not isinstance(event, Timed)])
        orders.append(slow.answered)
    assert records[0] == records[1] == records[2]
    assert orders[0] != orders[2]


async def test_reflection_starts_before_the_last_attempt_is_done() -> None:
    asked = asyncio.Event()

    async def last_waits(request: Request) -> str:
        if request.messages[1].text == LAST and "boldly" not in request.messages[0].text:
            await asyncio.wait_for(asked.wait(), 60)
        return pupil(request)

    def analyst(request: Request) -> str:
        asked.set()
        return teacher(request)

    world = World(env=Sums(size=4), minibatch=2, shape=PlanSettings(epochs=1, batch=4, seed=0))
    move = world.run().plan.moves[0]
    LAST = str(move.batches[0][-1].data["q"])  # type: ignore[union-attr]  # noqa: N806
    state, _ = await trained(world.but(target=Scripted(last_waits), optimizer=Scripted(analyst)))
    assert asked.is_set()
    assert state.final_test is not None


async def test_text_equal_to_the_current_skill_is_neither_measured_nor_accepted() -> None:
    def empty(request: Request) -> str:
        if request.stage != "analyst":
            return teacher(request)
        return '{"edits": [{"op": "replace", "target": "You add", "content": "You add"}]}'

    world = World(optimizer=Scripted(empty), shape=PlanSettings(epochs=1, batch=2))
    state, record = await trained(world)
    assert {fact.action for fact in steps(record)} == {"skip_no_change"}
    assert {fact.decision for fact in steps(record)} == {None}
    assert state.current == state.initial


async def test_no_proposals_close_the_step_without_a_candidate() -> None:
    world = World(
        optimizer=Scripted(lambda request: analysis()),
        shape=PlanSettings(epochs=1, batch=2),
        final_test=False,
    )
    state, record = await trained(world)
    assert {fact.action for fact in steps(record)} == {"skip_no_patches"}
    assert state.memory.steps == ()
    assert state.final_test is None


@pytest.mark.parametrize("forgets", [False, True])
async def test_rejected_edits_are_remembered_over_the_run_or_until_the_end_of_the_epoch(
    forgets: bool,
) -> None:
    useless = World(
        optimizer=Scripted(lambda r: analysis("Guess.") if r.stage == "analyst" else teacher(r)),
        shape=PlanSettings(epochs=2, batch=4, forgets=epoch_memory if forgets else run_memory),
        final_test=False,
    )
    state, record = await trained(useless)
    first, second = steps(record)
    assert (first.action, first.draft.repeats) == ("reject", ())
    tried_again = (
        ("reject", ()) if forgets else ("skip_no_patches", first.draft.leading.chosen.proposals)
    )
    assert (second.action, second.draft.repeats) == tried_again
    before_the_end = replay(record.kept[: record.kept.index(first) + 1])
    assert before_the_end is not None
    (entry,) = before_the_end.memory.steps
    assert (entry.epoch, len(entry.rejected)) == (1, 1)
    assert entry.patterns[0].name == "wrong sum"
    assert state.memory.steps == (() if forgets else (entry,))


async def test_a_repeat_costs_no_merge_no_ranking_and_no_evaluation() -> None:
    asked: list[str] = []

    def stubborn(request: Request) -> str:
        asked.append(request.stage)
        if request.stage == "merge":
            return '{"edits": [{"op": "append", "content": "Guess!", "from": [0]}]}'
        return analysis("Guess.") if request.stage == "analyst" else teacher(request)

    shape = PlanSettings(epochs=2, batch=4)
    world = World(optimizer=Scripted(stubborn), shape=shape, minibatch=1, final_test=False)
    _, record = await trained(world.but(budget=Constant(1)))
    first, second = steps(record)
    assert len(first.draft.findings) == len(second.draft.findings) == 4
    assert (asked.count("analyst"), asked.count("merge")) == (8, 1)
    assert len(second.draft.repeats) == 4
    assert second.decision is None


async def test_without_a_gate_every_candidate_becomes_current_and_only_a_better_one_best() -> None:
    state, record = await trained(World(gate=Always(Metric())))
    actions = {fact.action for fact in steps(record)}
    assert "force_accept" in actions
    assert "reject" not in actions
    assert "boldly" in state.current.skill.body
    assert state.best.value == 1.0


async def test_gated_guidance_that_helps_nobody_is_rejected_and_lessons_are_kept() -> None:
    state, record = await trained(
        World(shape=PlanSettings(epochs=3, batch=2, sample=2, last_sample=2))
    )
    closed = [event for event in record.kept if isinstance(event, EpochClosed)]
    assert [fact.decision.action if fact.decision else None for fact in closed] == [
        None,
        "reject",
        "reject",
    ]
    assert closed[0].pairs == ()
    assert {pair.change for pair in closed[1].pairs} <= {"improved", "stable_success"}
    assert state.best.skill.guidance == ""
    assert (closed[1].review.lessons, closed[2].review.lessons) == ("Acting boldly fails.", None)


def half(request: Request) -> str:
    """Learns to add, but only from an odd number on."""
    odd = int(request.messages[1].text.partition(" ")[0]) % 2
    return pupil(request) if odd else "0"


@pytest.mark.parametrize(
    ("useful", "searches", "shown", "tried"),
    [
        (CHANGED | UNCHANGED, False, {"improved", "persistent_fail"}, 4),
        (UNCHANGED, False, {"persistent_fail"}, 4),
        (CHANGED, True, {"improved"}, 12),
    ],
)
async def test_the_look_back_shows_the_pairs_that_are_of_use_and_searches_on_if_it_should(
    useful: frozenset[Change], searches: bool, shown: set[Change], tried: int
) -> None:
    shape = PlanSettings(
        epochs=2, batch=20, sample=4, last_sample=4, useful=useful, searches=searches, seed=0
    )
    asked: list[str] = []

    def listening(request: Request) -> str:
        if request.stage == "slow_update":
            asked.append(request.messages[1].text)
        return teacher(request)

    world = World(
        env=Sums(size=20),
        target=Scripted(half),
        optimizer=Scripted(listening),
        shape=shape,
        minibatch=20,
    )
    _, record = await trained(world)
    closed = [event for event in record.kept if isinstance(event, EpochClosed)][-1]
    (question,) = asked
    told = [pair for pair in closed.pairs if pair.shown]
    assert {pair.change for pair in told} == shown
    assert len(closed.pairs) == tried
    assert question.count("<pair ") == len(told)
    assert all(f'"{pair.task}"' in question for pair in told)
    if searches:
        assert len(told) == shape.sample
    end = world.run().plan.moves[-2]
    assert isinstance(end, EpochEnd)
    order = [task.id for task in end.tasks]
    assert [pair.task for pair in closed.pairs][: len(order)] == order


async def test_a_comparison_without_useful_pairs_asks_nothing_and_changes_nothing() -> None:
    shape = PlanSettings(epochs=2, batch=4, sample=2, last_sample=2, useful=CHANGED, searches=True)

    def never(request: Request) -> str:
        if request.stage in {"slow_update", "meta_skill"}:
            raise AssertionError(request.stage)
        return teacher(request)

    world = World(target=Scripted(lambda _: "0"), optimizer=Scripted(never), shape=shape)
    state, record = await trained(world)
    closed = [event for event in record.kept if isinstance(event, EpochClosed)][-1]
    assert (len(closed.pairs), any(pair.shown for pair in closed.pairs)) == (2, False)
    assert (closed.decision, state.current.skill) == (None, SEED)


async def test_lessons_reach_reflection_merging_and_ranking() -> None:
    heard: set[str] = set()

    def listening(request: Request) -> str:
        asked = request.messages[1].text
        if "<lessons>\nActing boldly fails.\n</lessons>" in asked:
            heard.add(request.stage)
        name = crc32(asked.encode())
        match request.stage:
            case "analyst":
                return analysis(f"Rule {name}.")
            case "merge":
                edits = (
                    f'{{"op": "append", "content": "{n} {name}", "from": [{n}]}}' for n in "01"
                )
                return f'{{"edits": [{", ".join(edits)}]}}'
            case _:
                return teacher(request)

    shape = PlanSettings(epochs=3, batch=4, sample=2, seed=0)
    world = World(optimizer=Scripted(listening), shape=shape, minibatch=2, budget=Constant(1))
    await trained(world)
    assert {"analyst", "merge", "ranking"} <= heard


async def test_forced_guidance_is_measured_all_the_same() -> None:
    state, record = await trained(World(slow_gate=Always(Metric())))
    closed = [event for event in record.kept if isinstance(event, EpochClosed)]
    decision = closed[-1].decision
    assert decision is not None
    assert decision.action == "force_accept"
    assert decision.candidate.origin == f"slow_update_{closed[-1].move}"
    assert state.current.skill.guidance == "Stay calm."
    assert state.current.evaluation.skill == state.current.skill.digest
    assert state.best.skill.guidance == ""


async def test_a_meta_reflection_sees_what_its_epoch_tried_and_passes_the_same_gate() -> None:
    asked: list[str] = []

    def listening(request: Request) -> str:
        if request.stage == "meta_reflect":
            asked.append(request.messages[1].text)
        return teacher(request)

    shape = PlanSettings(epochs=2, batch=2, sample=2, last_sample=2, seed=0, meta_reflect=True)
    state, record = await trained(World(optimizer=Scripted(listening), shape=shape))
    thought = [event for event in record.kept if isinstance(event, MetaReflected)]
    assert [fact.move for fact in thought] == ["meta_reflect_epoch_01", "meta_reflect_epoch_02"]
    directions = [text.partition("<directions>")[2] for text in asked]
    assert '"outcome": "reject"' in directions[0]
    assert '"content": "- Guess boldly."' in directions[0]
    assert '"outcome": "accept_new_best"' in directions[0]
    assert '"content": "- Add carefully."' in directions[0]
    assert "<budget>2</budget>" in asked[0]
    first = thought[0].decision
    assert first is not None
    assert (first.action, first.candidate.origin) == ("reject", "meta_reflect_epoch_01")
    assert "Check twice." in first.candidate.skill.body
    entries = [entry for entry in state.memory.steps if entry.kind == "meta reflection"]
    assert [entry.rejected for entry in entries] == [(Append("- Check twice."),)]
    assert "Check twice." not in state.best.skill.body


async def test_an_edit_that_a_meta_reflection_repeats_is_dropped_before_the_gate() -> None:
    shape = PlanSettings(epochs=3, batch=4, seed=0, meta_reflect=True)

    def wrong(request: Request) -> str:
        return analysis("Guess.") if request.stage == "analyst" else teacher(request)

    _, record = await trained(World(optimizer=Scripted(wrong), shape=shape, final_test=False))
    first, second, third = (event for event in record.kept if isinstance(event, MetaReflected))
    assert (first.action, second.action) == ("reject", "skip_no_patches")
    assert (len(first.draft.repeats), second.decision) == (0, None)
    # Nothing was tried in these epochs, so nothing was asked.
    assert second.draft == third.draft == Draft(budget=2)


async def test_without_meta_reflection_the_plan_has_the_moves_it_always_had() -> None:
    shape = PlanSettings(epochs=2, batch=2, sample=2, seed=0)
    plain = [move.id for move in World(shape=shape).run().plan.moves]
    thinking = World(shape=replace(shape, meta_reflect=True)).run().plan.moves
    assert [move.id for move in thinking if "meta" not in move.id] == plain
    assert [move.id for move in thinking][2:4] == ["meta_reflect_epoch_01", "epoch_01"]


async def test_a_run_with_meta_reflection_cut_after_any_event_ends_the_same() -> None:
    shape = PlanSettings(epochs=2, batch=2, sample=2, last_sample=2, seed=0, meta_reflect=True)
    expected, whole = await trained(World(shape=shape))
    for cut in range(len(whole.kept)):
        record = MemoryLog(list(whole.kept[:cut]))
        assert await train(World(record=record, shape=shape).run(), SEED) == expected
        assert replay(record.kept) == expected


PRUNING = PlanSettings(
    epochs=2, batch=2, sample=2, last_sample=2, seed=0, prune_every=2, prune_sample=2
)
CHATTY = Skill.parse("# Sums\n\n- Smile.\n")


async def test_a_rule_that_nothing_misses_is_pruned_and_one_that_carries_the_score_is_not() -> None:
    record = MemoryLog()
    state = await train(World(shape=PRUNING, record=record).run(), CHATTY)
    (fact,) = [event for event in record.kept if isinstance(event, Pruned)]
    assert fact.move == "prune_epoch_02"
    worths = {each.rule.text: each.gain for each in fact.cut.worths}
    assert worths == {"- Smile.": 0.0, "- Add carefully.": 1.0}
    assert [rule.text for rule in fact.cut.rules] == ["- Smile."]
    assert fact.decision is not None
    assert (fact.decision.action, fact.decision.reason) == (
        "accept_new_best",
        "1.0000 >= 1.0000 on 4 tasks",
    )
    assert state.best.skill.body == "# Sums\n\n- Add carefully.\n"
    assert state.best.origin == "prune_epoch_02"
    (entry,) = [entry for entry in state.memory.steps if entry.kind == "pruning"]
    assert entry.accepted == (Delete("- Smile."),)


async def test_pruning_that_costs_score_is_rejected_and_changes_nothing() -> None:
    """The training tasks are easy without the rule; the val tasks are not."""

    def target(request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        left, right = question.split(" + ")
        knows = "carefully" in skill or int(left) < 100
        return str(int(left) + int(right)) if knows else "0"

    record = MemoryLog()
    world = World(
        target=Scripted(target), shape=PRUNING, record=record, replication=Replication(block=1)
    )
    start = Skill.parse("- Add carefully.\n")
    state = await train(world.run(), start)
    (fact,) = [event for event in record.kept if isinstance(event, Pruned)]
    assert fact.decision is not None
    assert (fact.decision.action, fact.decision.saved) == ("reject", 3)
    assert state.best.skill == start
    (entry,) = [entry for entry in state.memory.steps if entry.kind == "pruning"]
    assert entry.rejected == (Delete("- Add carefully."),)


async def test_pruning_takes_no_part_of_the_chance_of_a_false_accept() -> None:
    shape = replace(PRUNING, prune_every=1)
    gate = Paired(metric=Metric(), alpha=0.05)
    world = World(shape=shape, gate=gate, slow_gate=gate)
    with_pruning, without = world.run().plan, world.but(shape=SHAPE).run().plan
    assert [move.id for move in with_pruning.moves if "prune" not in move.id] == [
        move.id for move in without.moves
    ]
    assert [move.id for move in with_pruning.moves][2:4] == ["prune_epoch_01", "epoch_01"]
    assert with_pruning.gated(steps=True, guidance=True) == without.gated(steps=True, guidance=True)
    record = MemoryLog()
    able = Skill.parse("# Sums\n\n- Smile.\n- Add carefully.\n")
    state = await train(world.but(record=record).run(), able)
    pruned = [event.decision for event in record.kept if isinstance(event, Pruned)]
    assert [each.level for each in pruned if each] == [0.0]
    assert state.gates == len(without.gated(steps=True, guidance=True))


async def test_a_run_with_pruning_cut_after_any_event_ends_the_same() -> None:
    whole = MemoryLog()
    expected = await train(World(shape=PRUNING, record=whole).run(), CHATTY)
    for cut in range(len(whole.kept)):
        record = MemoryLog(list(whole.kept[:cut]))
        assert await train(World(record=record, shape=PRUNING).run(), CHATTY) == expected
        assert replay(record.kept) == expected


async def test_a_step_may_accumulate_micro_batches() -> None:
    shape = PlanSettings(epochs=1, batch=2, accumulation=2, seed=0)
    _, record = await trained(World(env=Sums(size=6), shape=shape))
    sizes = [[len(batch.tasks) for batch in fact.batches] for fact in steps(record)]
    assert sizes == [[2, 2], [2]]
    assert {finding.batch for finding in steps(record)[0].draft.findings} == {0, 1}


async def test_a_broken_provider_is_not_a_wrong_answer() -> None:
    def refuse(_: Request) -> str:
        raise ModelError("overloaded", retryable=True)

    record = MemoryLog()
    with pytest.raises(Unmeasurable, match=r"^all 4 attempts failed.*overloaded"):
        await train(World(target=Scripted(refuse), record=record).run(), SEED)
    assert record.kept == []


async def test_a_few_failures_are_counted_apart_from_wrong_answers() -> None:
    def sometimes(request: Request) -> str:
        if request.messages[1].text == "100 + 101":
            raise ModelError("overloaded", retryable=True)
        return pupil(request)

    world = World(target=Scripted(sometimes), max_failed=0.25)
    state, _ = await trained(world)
    assert state.best.evaluation.n == 3
    assert list(state.best.evaluation.failures) == ["val-100"]
    assert state.best.value == 1.0


async def test_failures_are_attempted_again_in_the_next_run() -> None:
    down = True

    def recovering(request: Request) -> str:
        if down:
            raise ModelError("overloaded", retryable=True)
        return pupil(request)

    cache = MemoryCache()
    with pytest.raises(Unmeasurable):
        await train(World(target=Scripted(recovering), cache=cache).run(), SEED)
    down = False
    state = await train(World(target=Scripted(recovering), cache=cache).run(), SEED)
    assert state.best.value == 1.0


async def test_a_refused_key_stops_the_run_at_once() -> None:
    calls = 0

    async def refuse(_: Request) -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        raise AccessError("the key was refused")

    with pytest.raises(AccessError, match="refused"):
        await train(World(env=Sums(size=50), workers=4, target=Scripted(refuse)).run(), SEED)
    assert calls <= 8


async def test_questions_that_wait_for_an_answer_are_told_together_when_all_have_been_asked() -> (
    None
):
    """One attempt of four has an answer, and two of the others are asked the same question."""

    async def by_hand(request: Request) -> str:
        number = int(request.messages[1].text.partition(" ")[0])
        for _ in range(number % 3):
            await asyncio.sleep(0)
        if number == 100:
            return pupil(request)
        raise Pending("desk", frozenset({f"{number % 2}.question.md"}))

    record, cache = MemoryLog(), MemoryCache()
    world = World(target=Scripted(by_hand), workers=2, record=record, cache=cache)
    with pytest.raises(Pending) as told:
        await train(world.run(), SEED)
    assert told.value.folder == "desk"
    assert told.value.questions == {"0.question.md", "1.question.md"}
    assert record.kept == []
    assert len(cache.rollouts) == 1


async def test_a_run_with_a_dead_optimizer_stops_and_keeps_its_facts() -> None:
    def dead(_: Request) -> str:
        raise ModelError("connection refused", retryable=True)

    record = MemoryLog()
    with pytest.raises(ModelError, match="connection refused"):
        await train(World(optimizer=Scripted(dead), record=record).run(), SEED)
    assert [type(event).__name__ for event in record.kept if not isinstance(event, Timed)] == [
        "Begun"
    ]


async def test_a_record_of_other_settings_is_not_continued() -> None:
    record = MemoryLog()
    await train(World(record=record, identity={"train.seed": "1"}).run(), SEED)
    with pytest.raises(StoreError, match=r"train\.seed: 1 there, 2 now"):
        await train(World(record=record, identity={"train.seed": "2"}).run(), SEED)


def test_settings_that_differ_are_told_with_the_parts_that_are_not_alike() -> None:
    there = {"model": "a/b=1/c/d=1", "old": "x", "same": "1", "short": "a/b"}
    now = {"model": "a/b=2/c/d=2", "same": "1", "new": "", "short": "a/b/c"}
    with pytest.raises(StoreError) as refused:
        check_same_run(now, there, {"new": "d", "old": "y"})
    assert str(refused.value) == (
        "this directory holds a run with other settings:\n"
        "  model: b=1/d=1 there, b=2/d=2 now\n"
        "  new: d there,  now\n"
        "  old: x there, absent now\n"
        "  short: a/b there, a/b/c now\n"
        "Choose another env.out_root, or restore these settings to resume the run."
    )
    check_same_run(there, dict(there), {})


async def test_more_epochs_continue_the_run_and_repeat_the_exam_only_if_something_changed() -> None:
    record = MemoryLog()
    one = PlanSettings(epochs=1, batch=4, sample=2, seed=0)
    short = World(record=record, shape=one, cache=MemoryCache())
    await train(short.run(), SEED)
    before = len([event for event in record.kept if isinstance(event, FinalTested)])
    state = await train(short.but(shape=replace(one, epochs=3)).run(), SEED)
    exams = [event for event in record.kept if isinstance(event, FinalTested)]
    assert before == 1
    assert [fact.epoch for fact in steps(record)] == [1, 2, 3]
    assert state.final_test is not None
    assert state.final_test.best.skill == state.best.skill.digest
    assert len(exams) == 2
    await train(short.but(shape=replace(one, epochs=4)).run(), SEED)
    assert len([event for event in record.kept if isinstance(event, FinalTested)]) == 2


async def test_a_setting_younger_than_the_record_counts_as_its_default() -> None:
    record = MemoryLog()
    await train(World(record=record, identity={"train.seed": "1"}).run(), SEED)
    newer = World(record=record, identity={"train.seed": "1", "train.new": "0"}).run()
    await train(replace(newer, defaults={"train.seed": "7", "train.new": "0"}), SEED)
    with pytest.raises(StoreError, match=r"train\.new: 5 there, 0 now"):
        await train(replace(newer, defaults={"train.new": "5"}), SEED)
    with pytest.raises(StoreError, match=r"train\.new: absent there, 0 now"):
        await train(newer, SEED)
