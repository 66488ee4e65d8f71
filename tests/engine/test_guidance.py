"""Forced guidance goes into the best skill as well, and is measured there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from support import Sums, World

from skillopt.core.chat import Request
from skillopt.core.events import Begun, Decision, Measured
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.run import TrainingRun
from skillopt.gates.compared import Always, Density, Metric
from skillopt.model.scripted import Scripted

CURRENT, BEST = Skill.parse("You add numbers.\n"), Skill.parse("You add numbers slowly.\n")
GATE = Always(Metric(density=Density(0.1)))


def measured(skill: Skill, value: float = 0.5) -> Measured:
    scores = {f"val-{n}": Score(value, value) for n in range(100, 104)}
    return Measured(skill, Evaluation(skill.digest, "val", scores), value, "earlier", 1)


def state(best: Skill = BEST) -> State:
    return replace(State.after(Begun(measured(CURRENT))), best=measured(best))


DECISION = Decision(measured(CURRENT.with_guidance("g"), 0.25), "force_accept", "why")


@dataclass(frozen=True)
class Limit:
    limit: int

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        raise AssertionError


def run(target: World | None = None, **changes: object) -> TrainingRun:
    made = (target or World(env=Sums(size=4))).but(slow_gate=GATE).run()
    return replace(made, **changes)


async def test_guidance_of_the_best_skill_is_that_of_the_current_one_where_they_are_one() -> None:
    found = await run().guide_best(state(CURRENT), DECISION, "Always add carefully.")
    assert found == replace(DECISION, new_best=True)


async def test_the_best_skill_with_the_guidance_is_measured_and_valued_as_guidance_is() -> None:
    guided = BEST.with_guidance("Always add carefully.")
    full = {f"val-{n}": Score(1, 1) for n in range(100, 104)}
    found = await run().guide_best(state(), DECISION, "Always add carefully.")
    best = Measured(
        guided,
        Evaluation(guided.digest, "val", full),
        1.0,  # protected regions earn nothing
        "earlier",
        1,
    )
    assert found == replace(DECISION, best=best)
    leading = replace(state(), best=measured(Skill.parse("You must add.\n")))
    valued = await run().guide_best(leading, DECISION, "Add carefully.")
    assert valued.best is not None
    assert valued.best.value == 1 + 0.1 / 3
    twice = run(replication=Replication(replicates=2))
    found = await twice.guide_best(state(), DECISION, "Always add carefully.")
    assert found.best is not None
    assert found.best.evaluation.rounds == (full, full)


async def test_guidance_that_makes_the_best_skill_too_long_stays_out_of_it() -> None:
    guided = BEST.with_guidance("g").render()
    tokens = -(-len(guided.encode()) // 4)
    found = await run(shortener=Limit(tokens - 1)).guide_best(state(), DECISION, "g")
    assert found == DECISION
    found = await run(shortener=Limit(tokens)).guide_best(state(), DECISION, "g")
    assert found.best is not None


async def test_what_fails_only_with_the_guidance_counts_against_the_best_skill() -> None:
    def failing(request: Request) -> str:
        if "Stop." in request.messages[0].text and request.messages[1].text.startswith("101"):
            raise ValueError
        return str(sum(map(int, request.messages[1].text.split(" + "))))

    world = World(env=Sums(size=4), target=Scripted(failing))
    found = await run(world).guide_best(state(), DECISION, "Stop.")
    assert found.best is not None
    assert list(found.best.evaluation.own_failures) == ["val-101"]
    assert found.best.value == 0.75
