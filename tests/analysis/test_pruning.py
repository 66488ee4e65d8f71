from __future__ import annotations

from collections.abc import Sequence

from support_store import FIRST, GUIDED, story

from skillopt.analysis.pruning import Prune
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.rules import rules_in
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.gates.compared import Metric, Strict

SAMPLE = [Task(f"t{n}", "x", {}) for n in range(4)]
EVIDENCE = [Task(name, "x", {}) for name in ("a", "b", "c")]
"""Tasks of the story; its rule speaks for a and b."""


class World:
    """Every task is passed by a skill that holds what the task needs; None: the provider fails."""

    def __init__(self, **needs: str | None) -> None:
        self.needs = needs
        self.trials: list[tuple[str, list[str]]] = []

    async def measure(self, trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
        return [self._one(skill, [task.id for task in tasks]) for skill, tasks in trials]

    def _one(self, skill: Skill, tasks: list[str]) -> Evaluation:
        self.trials.append((skill.body, tasks))
        scores: dict[str, Score] = {}
        lost: dict[str, Failure] = {}
        for task in tasks:
            need = self.needs.get(task, "")
            if need is None:
                lost[task] = Failure("ModelError", "down")
            else:
                passed = float(any(each in skill.body for each in need.split("|")))
                scores[task] = Score(passed, passed)
        return Evaluation(skill.digest, "train", scores, lost)

    def prune(self) -> Prune:
        tasks = {task.id: task for task in (*SAMPLE, *EVIDENCE)}
        gate = Strict(Metric(), ties=True)
        return Prune(measure=self.measure, metric=Metric(), gate=gate, tasks=tasks)


async def spared(world: World, document: str) -> list[str]:
    found = await world.prune().cut(Skill.parse(document), SAMPLE, [])
    return [rule.text for rule in found.rules]


async def test_what_nothing_misses_goes_and_what_carries_a_task_stays() -> None:
    assert await spared(World(t1="b"), "- a\n- b\n- c\n") == ["- a", "- c"]


async def test_of_two_rules_that_stand_in_for_each_other_the_first_stays() -> None:
    world = World(t1="left|right")
    assert await spared(world, "- left\n- none\n- right\n") == ["- none", "- right"]


async def test_where_the_skill_earns_nothing_every_rule_stays() -> None:
    """A floor proves nothing: the rule for a task may be needed once another is there too."""
    world = World(t0="missing", t1="missing", t2="missing", t3="missing")
    assert await spared(world, "- a\n- b\n") == []


async def test_a_rule_that_was_not_measured_stays() -> None:
    world = World(t0=None, t1=None, t2=None, t3=None)
    assert await spared(world, "- a\n") == []


async def test_a_rule_that_cannot_go_does_not_keep_others_from_going() -> None:
    """Without the first line, the next ones would be front matter."""
    document = "- a\n\n---\nname: x\n---\n- b\n"
    assert await spared(World(), document) == ["- b"]


async def test_a_skill_without_rules_costs_nothing() -> None:
    world = World()
    assert await spared(world, "# Title\n") == []
    assert world.trials == []


async def test_a_rule_is_tried_on_the_tasks_that_it_was_written_for_before_others() -> None:
    """Nothing in the sample needs it, and yet it stays."""
    world = World(b="capitals")
    found = await world.prune().cut(FIRST, SAMPLE, story())
    assert [(each.rule.text, each.gain) for each in found.worths] == [
        ("- Be brief.", 0.0),
        ("- Answer in capitals.", 0.25),
    ]
    assert [rule.text for rule in found.rules] == ["- Be brief."]
    tried = {tuple(tasks) for body, tasks in world.trials if "capitals" not in body}
    assert tried == {("a", "b", "t0", "t1")}


async def test_protected_regions_are_never_left_out() -> None:
    found = await World().prune().cut(GUIDED, SAMPLE, story())
    assert [each.rule for each in found.worths] == list(rules_in(FIRST))
