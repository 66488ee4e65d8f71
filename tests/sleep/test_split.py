from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from skillopt.errors import ConfigError
from skillopt_sleep.likeness import alike, normal
from skillopt_sleep.settings import Settings, load
from skillopt_sleep.split import with_splits
from skillopt_sleep.values import MinedTask, Reference

WORDS = ["parse", "deploy", "review", "release", "upload", "summary", "invoice", "schema", "token"]


def task(number: int, intent: str) -> MinedTask:
    return MinedTask(
        id=f"t{number}", project=Path("/w"), intent=intent, reference=Reference(kind="none")
    )


INTENTS = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), max_size=12
)
SETTINGS = st.builds(
    Settings,
    val_fraction=st.sampled_from([0.0, 0.2, 0.34, 0.6]),
    test_fraction=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 50),
)


@examples(max_examples=60)
@given(INTENTS, SETTINGS)
def test_tasks_that_are_alike_are_on_one_side_and_no_side_is_empty_in_vain(
    intents: list[str], settings: Settings
) -> None:
    tasks = [task(number, intent) for number, intent in enumerate(intents)]
    done = with_splits(tasks, settings)
    assert [each.id for each in done] == [each.id for each in tasks]
    assert with_splits(tasks, settings) == done
    for one in done:
        for other in done:
            if alike(normal(one.intent), normal(other.intent)):
                assert one.split == other.split
    if len(tasks) > 1:
        assert any(each.split == "val" for each in done)
    sides = {each.split for each in done}
    if len({each.split for each in done}) == 1 and len(tasks) > 1:
        first = done[0]
        chain, reached = [first], {first.id}
        while chain:
            near = chain.pop()
            for each in done:
                if each.id not in reached and alike(normal(near.intent), normal(each.intent)):
                    reached.add(each.id)
                    chain.append(each)
        assert reached == {each.id for each in done}, sides


@examples(max_examples=60)
@given(INTENTS.filter(lambda intents: len(intents) > 1), st.integers(0, 50))
def test_the_side_of_a_task_does_not_depend_on_the_order_of_tasks(
    intents: list[str], seed: int
) -> None:
    settings = Settings(seed=seed)
    tasks = [task(number, intent) for number, intent in enumerate(intents)]
    forth = {each.id: each.split for each in with_splits(tasks, settings)}
    back = {each.id: each.split for each in with_splits(tasks[::-1], settings)}
    assert forth == back


def test_another_seed_makes_another_split() -> None:
    tasks = [task(number, f"{word} the {word} file now") for number, word in enumerate(WORDS)]
    splits = {
        tuple(each.split for each in with_splits(tasks, Settings(seed=seed))) for seed in range(10)
    }
    assert len(splits) > 1


def test_dreams_train_only_and_never_leak_a_held_out_task() -> None:
    tasks = [task(number, f"{word} the {word} file now") for number, word in enumerate(WORDS)]
    done = with_splits(tasks, Settings(val_fraction=0.5))
    dreams = [
        replace(each, id=f"d-{each.id}", origin="dream", intent=f"{each.intent} please")
        for each in tasks
    ]
    both = {each.id: each for each in with_splits([*tasks, *dreams], Settings(val_fraction=0.5))}
    for each in done:
        assert both[each.id].split == each.split
        assert (f"d-{each.id}" in both) == (each.split == "train")


def test_shares_that_leave_nothing_are_an_error() -> None:
    with pytest.raises(ConfigError, match="together must be below 1"):
        load({"val_fraction": 0.6, "test_fraction": 0.5})
